//! From what was typed to what commands use: the folder to work in, the store, the data folders, the output.
//!
//! Nothing after this looks at the global options or the environment again.

use super::args::Globals;
use super::message::Terminal;
use super::output::{self, Answer, Output};
use crate::base::{Fault, Outcome};
use crate::engine::simd;
use crate::store::Store;
use std::path::{Path, PathBuf};

/// Where the packages of a system put data sets (Debian's Fashion-MNIST).
const SYSTEM: &str = "/usr/share/datasets";

/// What every command has.
pub(super) struct Context<'a> {
    /// Where remarks and errors go.
    pub(super) terminal: &'a Terminal,
    /// The folder of the store.
    pub(super) cache: PathBuf,
    /// The folders with data sets, in order of preference.
    pub(super) data: Vec<PathBuf>,
    output: Box<dyn Output>,
}

impl<'a> Context<'a> {
    pub(super) fn new(globals: &Globals, terminal: &'a Terminal) -> Outcome<Self> {
        if let Some(folder) = &globals.directory {
            std::env::set_current_dir(folder).map_err(|e| {
                Fault::usage(format!("cannot work in `{}`: {e}", folder.display())).help("give an existing folder with `-C DIR`")
            })?;
        }
        if terminal.verbose > 0 {
            start_log(terminal);
        }
        simd::chosen().map_err(|text| Fault::usage(text).help("leave it unset for the best that the CPU has"))?;
        let from_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = globals.cache.clone().or_else(|| from_env("PFLPIPE_CACHE").map(PathBuf::from)).unwrap_or_else(|| "cache".into());
        let mut data = globals.data.clone();
        if let Some(list) = from_env("PFLPIPE_DATA") {
            data.extend(std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()));
        }
        // Packages of the system are found, too, but nothing is written there.
        if Path::new(SYSTEM).is_dir() {
            data.push(SYSTEM.into());
        }
        crate::data::announce(&data);
        Ok(Self { terminal, cache, data, output: output::of(globals.output, globals.color) })
    }

    /// The first data folder that is the user's.
    pub(super) fn own_data(&self) -> Option<&PathBuf> {
        self.data.first().filter(|dir| **dir != Path::new(SYSTEM))
    }

    /// Writes a result.
    pub(super) fn show(&mut self, answer: &dyn Answer) -> Outcome<()> {
        self.output.show(answer)
    }

    /// Whether the result is for a program.
    pub(super) fn json(&self) -> bool {
        self.output.json()
    }

    /// The store, made where there is none.
    pub(super) fn store(&self) -> Outcome<Store> {
        Store::open(&self.cache)
    }

    /// The store, if there is one: commands that only look do not make one.
    pub(super) fn existing_store(&self) -> Outcome<Option<Store>> {
        if exists(&self.cache) { self.store().map(Some) } else { Ok(None) }
    }

    /// The store, which a command about its content needs.
    pub(super) fn needed_store(&self) -> Outcome<Store> {
        self.existing_store()?.ok_or_else(|| {
            Fault::storage(format!("there is no store at `{}`", self.cache.display()))
                .help("`pflpipe run FILE` makes one; choose another with `--cache DIR`")
        })
    }

    /// Passes the store's warnings on, unless the log shows them already.
    pub(super) fn pass_warnings(&self, store: &Store) {
        let warnings = store.take_warnings();
        if self.terminal.verbose == 0 {
            warnings.iter().for_each(|line| self.terminal.warning(line));
        }
    }
}

// A store that cannot be looked at exists: opening it says what is wrong.
fn exists(path: &Path) -> bool {
    path.try_exists().unwrap_or(true)
}

fn start_log(terminal: &Terminal) {
    let level = if terminal.verbose > 1 { "pflpipe=trace" } else { "pflpipe=debug" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("PFLPIPE_LOG").unwrap_or_else(|_| level.into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal.color).with_target(false);
    // A second logger in one process is refused; the first one serves.
    let _ = log.try_init();
}
