//! The data sets by name: what a pipeline may ask of each, and which loader reads it.
//!
//! Adding a data set is one loader file and one entry in `known/`.

use super::added::Added;
use super::dataset::{Dataset, Origin};
use super::files::{self, Source};
use super::known::ENTRIES;
use super::members::{Place, list};
use super::params::Params;
use super::remote::{Remote, Sum};
use crate::base::{Digest, Fault, FaultKind, Outcome, memory, text};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A data set that the program knows.
pub struct Entry {
    /// As a pipeline writes it.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Subfolders of a data folder in which its files usually lie, the preferred one first.
    pub folders: &'static [&'static str],
    /// Its files as they are distributed.
    pub files: &'static [Remote],
    /// Checksums of files inside its archives.
    pub members: &'static [(&'static str, Sum)],
    /// What to cite.
    pub source: &'static str,
    /// The license, as far as there is one.
    pub license: &'static str,
    /// How to get the files where that takes more than an address; or the empty string.
    pub note: &'static str,
    pub(super) trust: Trust,
    pub(super) fields: fn() -> Vec<Field>,
    pub(super) load: fn(&Request<'_>) -> Outcome<Dataset>,
}

/// Why equal parameters give equal samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trust {
    /// There are no files.
    Drawn,
    /// Published checksums, unless `verify: false`.
    Published,
    /// The content of the files enters the key: all of the data set's folder.
    Files,
    /// The content of what the parameter `file` or `folder` names enters the key.
    Own,
}

impl Entry {
    /// Whether its files are the user's own, which a parameter names.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.trust == Trust::Own
    }
    /// Where the files of the data set seem to lie: its folder, or one of its files in a data folder.
    #[must_use]
    pub fn place(&self, dirs: &[PathBuf]) -> Option<PathBuf> {
        let folders = self.folders.iter().flat_map(|sub| dirs.iter().map(move |dir| dir.join(sub)));
        let full = |folder: &PathBuf| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        // MNIST's names are those of several data sets.
        let of = |file: &str| ENTRIES.iter().filter(|entry| entry.files.iter().any(|own| own.file == file)).count();
        folders.filter(|folder| folder.is_dir()).find(full).or_else(|| {
            let named = self.files.iter().filter(|file| of(file.file) == 1);
            named.flat_map(|file| dirs.iter().map(move |dir| dir.join(file.file))).find(|path| path.is_file())
        })
    }
}

/// A request for one data set.
pub(super) struct Request<'a> {
    pub name: &'a str,
    pub params: Params<'a>,
    pub dirs: &'a [PathBuf],
    entry: &'a Entry,
    verify: bool,
    stop: &'a dyn Fn() -> bool,
}

impl Request<'_> {
    /// Asked from file to file, or every so many rows: whether somebody still wants the data set.
    pub fn go_on(&self) -> Outcome<()> {
        wanted(self.stop)
    }
    /// Asked in the loop of the rows, of which this is one.
    pub fn go_on_at(&self, row: usize) -> Outcome<()> {
        if row.is_multiple_of(1024) { self.go_on() } else { Ok(()) }
    }
    /// Refuses so many samples of so many bytes each, on their way through the loader, when this machine has no room for them; `less` says
    /// what there is to do about it.
    pub fn room(&self, samples: u64, size: u64, less: &str) -> Outcome<()> {
        room(self.name, samples, size, less)
    }
    /// Whether the files are the user's own.
    pub fn is_own(&self) -> bool {
        self.entry.is_own()
    }
    /// Subfolders in which the files usually lie.
    pub fn folders(&self) -> &'static [&'static str] {
        self.entry.folders
    }
    /// What to cite, and the license.
    pub fn origin(&self) -> Origin {
        Origin { source: self.entry.source.to_owned(), license: self.entry.license.to_owned() }
    }
    /// The fault of files that are nowhere.
    pub fn missing(&self) -> Fault {
        let names: Vec<&str> = self.entry.files.iter().map(|file| file.file).collect();
        let files = if names.is_empty() { "its files".to_owned() } else { text::quoted(names.iter().copied()) };
        files::missing(self.name, &files, self.entry.folders.first().copied().unwrap_or_default(), self.dirs)
    }
    /// A file of the data set, wherever it lies.
    pub fn file(&self, name: &str) -> Outcome<Source> {
        for folder in files::folders(self.dirs, self.entry.folders) {
            if let Some(source) = Source::at(folder.join(name))? {
                return Ok(source);
            }
        }
        Err(self.lacks(name))
    }
    /// The fault of a file that is nowhere.
    pub fn lacks(&self, name: &str) -> Fault {
        files::missing(self.name, &format!("`{name}`"), self.entry.folders.first().copied().unwrap_or_default(), self.dirs)
    }
    /// A file that a parameter names.
    pub fn own_file(&self, name: &str) -> Outcome<Source> {
        inside("file", name)?;
        for dir in self.dirs {
            if let Some(source) = Source::at(dir.join(name))? {
                return Ok(source);
            }
        }
        Err(Fault::storage(format!("there is no file `{name}`; {}", files::looked_in(self.dirs)))
            .help("put it into a data folder and say `--data DIR`, or set PFLPIPE_DATA"))
    }
    /// A folder that a parameter names.
    pub fn place(&self, folder: &str) -> Outcome<Place> {
        inside("folder", folder)?;
        let found = self.dirs.iter().map(|dir| dir.join(folder)).find(|path| path.is_dir());
        found.map(Place::Folder).ok_or_else(|| {
            Fault::storage(format!("there is no folder `{folder}`; {}", files::looked_in(self.dirs)))
                .help("put it into a data folder and say `--data DIR`, or set PFLPIPE_DATA")
        })
    }
    /// Whether the files are compared with what is published of them: checksums, numbers of pictures.
    pub fn verifies(&self) -> bool {
        self.verify
    }
    /// The published checksum of a file or a member of an archive, unless `verify: false`.
    pub fn published(&self, name: &str) -> Option<Sum> {
        let of_files = self.entry.files.iter().map(|file| (file.file, file.sum));
        let found = of_files.chain(self.entry.members.iter().copied()).find(|(file, _)| *file == name);
        found.map(|(_, sum)| sum).filter(|_| self.verify)
    }
    /// Compares an archive with its published checksum, unless `verify: false`.
    pub fn verify(&self, source: &Source) -> Outcome<()> {
        let name = source.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.published(name).map_or(Ok(()), |sum| sum.check_file(&source.path))
    }
}

/// As [`Request::room`], of the data set of that name.
pub(super) fn room(name: &str, samples: u64, size: u64, less: &str) -> Outcome<()> {
    memory::demand_or(samples.saturating_mul(size), &format!("data set `{name}` of {samples} samples"), less)
}

/// Goes on unless `stop` says that nobody wants the data set any more.
fn wanted(stop: &dyn Fn() -> bool) -> Outcome<()> {
    if stop() { Err(Fault::new(FaultKind::Interrupted, "stopped while the data set was read")) } else { Ok(()) }
}

/// Refuses a path that leads out of the data folders: on another machine it would mean something else.
pub(super) fn inside(what: &str, name: &str) -> Outcome<()> {
    use std::path::Component;
    if !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Ok(());
    }
    Err(Fault::stage(format!("`{what}` is `{name}`, but must be a path inside a data folder"))
        .help("say `--data DIR` for the folder in which it lies, and here only the path from there on"))
}

/// The data sets that the program knows.
#[must_use]
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

/// The data sets that a pipeline may name: those of the program, then those that were added to the data folders.
#[must_use]
pub fn variants() -> Vec<Variant> {
    let own = ENTRIES.iter().map(|entry| Variant { name: entry.name, doc: entry.doc, revision: revision(entry), fields: fields(entry) });
    own.chain(super::added::variants()).collect()
}

/// Raised by hand whenever equal files give other samples.
fn revision(entry: &Entry) -> u32 {
    match entry.name {
        // 2: gray and sixteen bits as Pillow makes them.
        "images" => 2,
        _ => 1,
    }
}

fn fields(entry: &Entry) -> Vec<Field> {
    let mut all = (entry.fields)();
    let verify = Field::with(
        "verify",
        Type::Bool,
        true,
        "Compare the files with the published checksums and numbers of pictures; `false` allows own files of the same format.",
    );
    if entry.trust == Trust::Published || !entry.files.iter().all(|file| file.sum == Sum::Unknown) {
        all.push(verify);
    } else if ["kvasir", "utkface", "cinic10"].contains(&entry.name) {
        // Nothing but their numbers is published; they came later.
        all.push(Field { introduced: Some(true.into()), ..verify });
    }
    all.push(limit());
    all
}

pub(super) fn limit() -> Field {
    Field::optional("limit", Type::at_least(1), "Keep only the first samples, in file order; all when absent.")
}

/// The digest of the content of a data set whose files no published checksum vouches for: files of one's own, `verify: false`, or
/// data sets of which none is published. Absent for the others, whose files are what they are or an error. Reads the files.
///
/// # Errors
/// A storage fault when they are not there or cannot be read.
pub fn fingerprint(name: &str, params: &Map<String, Value>, dirs: &[PathBuf]) -> Outcome<Option<Digest>> {
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
        return Added::find(name, dirs)?.map_or(Ok(None), |added| of_folder(&added.folder).map(Some));
    };
    let unverified = params.get("verify").and_then(Value::as_bool) == Some(false);
    match entry.trust {
        Trust::Drawn => Ok(None),
        Trust::Published if !unverified => Ok(None),
        // As it was before there were other data sets.
        Trust::Published | Trust::Own if ["idx", "mnist", "fashion-mnist", "cifar10"].contains(&name) => {
            let parts = load(name, params, dirs)?.to_parts();
            Ok(Some(Digest::of(&[Digest::of(&parts.info).0, Digest::of(&parts.samples).0, Digest::of(&parts.labels).0].concat())))
        }
        Trust::Own => {
            let named = ["file", "folder"].iter().find_map(|key| params.get(*key).and_then(Value::as_str));
            named.map_or(Ok(()), |named| inside("file` or `folder", named))?;
            let found = named.and_then(|named| dirs.iter().map(|dir| dir.join(named)).find(|path| path.exists()));
            match found {
                Some(path) if path.is_dir() => of_folder(&path).map(Some),
                Some(path) => of_files(&[path]).map(Some),
                None => Ok(None),
            }
        }
        Trust::Published | Trust::Files => {
            let folder = entry.folders.iter().flat_map(|sub| dirs.iter().map(move |dir| dir.join(sub))).find(|folder| folder.is_dir());
            match folder {
                Some(folder) => of_folder(&folder).map(Some),
                None => {
                    let named = entry.files.iter().flat_map(|file| dirs.iter().map(|dir| dir.join(file.file)));
                    of_files(&named.filter(|path| path.is_file()).collect::<Vec<_>>()).map(Some)
                }
            }
        }
    }
}

fn of_folder(folder: &Path) -> Outcome<Digest> {
    let names = list(folder)?;
    let contents = of_files(&names.iter().map(|name| folder.join(name)).collect::<Vec<_>>())?;
    Ok(Digest::of(&[names.join("\n").as_bytes(), &contents.0].concat()))
}

fn of_files(paths: &[PathBuf]) -> Outcome<Digest> {
    use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
    let one = |path: &PathBuf| -> Outcome<[u8; 32]> {
        let io = |e: std::io::Error| Fault::io("read", path, &e);
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(std::fs::File::open(path).map_err(io)?).map_err(io)?;
        Ok(*hasher.finalize().as_bytes())
    };
    Ok(Digest::of(&paths.par_iter().map(one).collect::<Outcome<Vec<_>>>()?.concat()))
}

/// Loads a data set; `dirs` are the folders in which to look for files, the preferred one first.
///
/// # Errors
/// A storage fault when files are missing, damaged or not what they should be; a stage fault when a parameter is wrong.
pub fn load(name: &str, params: &Map<String, Value>, dirs: &[PathBuf]) -> Outcome<Dataset> {
    load_until(name, params, dirs, &|| false)
}

/// As [`load`], given up when `stop` says so.
///
/// # Errors
/// As [`load`]; an interruption when it is given up.
pub fn load_until(name: &str, params: &Map<String, Value>, dirs: &[PathBuf], stop: &dyn Fn() -> bool) -> Outcome<Dataset> {
    wanted(stop)?;
    let params = Params::new(params, name);
    let limit = params.count("limit", 1)?;
    let data = match ENTRIES.iter().find(|entry| entry.name == name) {
        Some(entry) => {
            let verify = params.flag("verify", true)?;
            (entry.load)(&Request { name, params, dirs, entry, verify, stop })?
        }
        None => match Added::find(name, dirs)? {
            Some(added) => added.load_until(&|| wanted(stop))?,
            None => return Err(unknown(name)),
        },
    };
    wanted(stop)?;
    match limit {
        Some(limit) if limit != data.len() => data.first(limit),
        _ => Ok(data),
    }
}

fn unknown(name: &str) -> Fault {
    let known: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    let fault = Fault::stage(format!("there is no data set `{name}`"));
    match text::nearest(name, known.iter().copied()) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault.help(format!("the data sets are {}", text::quoted(known.iter().copied()))),
    }
}
