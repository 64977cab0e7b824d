//! Data sets that were added to a data folder by `pflpipe data add`: small files that say where the data lie.
//!
//! `DIR/added/NAME.json` holds the kind and the folder. The names are made known once, when the program starts, so that pipelines
//! are checked against them.

use super::dataset::Dataset;
use super::files::Source;
use super::pfllib::{self, Made};
use super::registry::limit;
use crate::base::{Fault, Outcome};
use crate::spec::catalog::Variant;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const FOLDER: &str = "added";
static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();

/// A data set that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    /// `pfllib`.
    pub kind: String,
    /// As a pipeline writes it.
    pub name: String,
    /// Where the files lie.
    pub folder: PathBuf,
}

impl Added {
    /// The data set of that name in one of the data folders.
    ///
    /// # Errors
    /// A storage fault when its file is damaged.
    pub fn find(name: &str, dirs: &[PathBuf]) -> Outcome<Option<Self>> {
        if !is_name(name) {
            return Ok(None);
        }
        for dir in dirs {
            if let Some(source) = Source::at(dir.join(FOLDER).join(format!("{name}.json")))? {
                let read = serde_json::from_slice(&source.whole(1 << 20)?);
                return read.map(Some).map_err(|e| source.fault(format_args!("cannot be read: {e}")).help("add the data set again"));
            }
        }
        Ok(None)
    }
    /// All that were added to the folders, by name; those of earlier folders hide others of the same name.
    #[must_use]
    pub fn all(dirs: &[PathBuf]) -> Vec<Self> {
        let files = dirs.iter().filter_map(|dir| std::fs::read_dir(dir.join(FOLDER)).ok()).flatten().flatten();
        let mut names: Vec<String> = files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".json").map(str::to_owned)).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().filter_map(|name| Self::find(name, dirs).ok().flatten()).collect()
    }
    /// Reads the data set.
    ///
    /// # Errors
    /// A storage fault when files are missing or damaged.
    pub fn load(&self) -> Outcome<Dataset> {
        self.load_until(&|| Ok(()))
    }
    /// As [`Added::load`], asking from client to client whether to go on.
    pub(super) fn load_until(&self, go_on: &dyn Fn() -> Outcome<()>) -> Outcome<Dataset> {
        match self.kind.as_str() {
            "pfllib" => pfllib::load(&self.name, &self.folder, go_on),
            other => Err(Fault::storage(format!("data set `{}` was added as `{other}`, which this version does not know", self.name))),
        }
    }
    /// How its clients were made, as far as the folder says it.
    ///
    /// # Errors
    /// A storage fault when what says it is damaged.
    pub fn made(&self) -> Outcome<Made> {
        Made::of(&self.folder)
    }
    /// Reads the data set once to see that it is sound, and writes its file into the first data folder.
    ///
    /// # Errors
    /// A usage fault for a name that cannot be used or is taken, a storage fault when the files are not sound or nothing can be written.
    pub fn save(&self, dirs: &[PathBuf]) -> Outcome<(PathBuf, Dataset)> {
        if !is_name(&self.name) {
            return Err(Fault::usage(format!("`{}` cannot be the name of a data set", self.name)).help("use letters, digits, `-` and `_`"));
        }
        if super::entries().iter().any(|entry| entry.name == self.name) {
            return Err(Fault::usage(format!("`{}` is a data set that the program knows", self.name)).help("choose another name"));
        }
        let dir = dirs.first().ok_or_else(|| {
            Fault::usage("no data folder is set, in which to remember the data set").help("say `--data DIR`, or set PFLPIPE_DATA")
        })?;
        let data = self.load()?;
        let folder = dir.join(FOLDER);
        std::fs::create_dir_all(&folder).map_err(|e| Fault::io("create", &folder, &e))?;
        let path = folder.join(format!("{}.json", self.name));
        let content = serde_json::to_vec_pretty(self).map_err(|e| Fault::internal(format!("a data set has no JSON form: {e}")))?;
        write(&path, &content)?;
        Ok((path, data))
    }
}

/// Writes a small file whole or not at all.
fn write(path: &Path, content: &[u8]) -> Outcome<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|e| Fault::io("create", folder, &e))?;
    std::io::Write::write_all(&mut file, content).map_err(|e| Fault::io("write", path, &e))?;
    file.persist(path).map_err(|e| Fault::io("write", path, &e.error))?;
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 80 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Makes the names of the added data sets known to the catalog; only the first call counts.
pub fn announce(dirs: &[PathBuf]) {
    // The names live as long as the program, as those of its own data sets do.
    NAMES.get_or_init(|| Added::all(dirs).into_iter().map(|added| &*Box::leak(added.name.into_boxed_str())).collect());
}

/// The data sets that were made known.
pub(super) fn variants() -> Vec<Variant> {
    let of =
        |name: &&'static str| Variant { name, doc: "Added to a data folder by `pflpipe data add`.", revision: 1, fields: vec![limit()] };
    NAMES.get().map(|names| names.iter().map(of).collect()).unwrap_or_default()
}
