//! Where things lie in a store, and opening one: the version file, the folders, clear faults for what is in the way.
//!
//! It knows names only, not what is in the files.

use super::files::{Files, Kind};
use crate::base::{Digest, Fault, Outcome};
use std::io;
use std::path::{Path, PathBuf};

/// The version of the layout that this build reads and writes.
pub const VERSION: u32 = 1;

const FOLDERS: [&str; 7] = ["cas", "rec", "lease", "tmp", "log", "ckpt", "runs"];

/// The folder of a store, and the paths in it.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Checks or creates the folders and the version file.
    ///
    /// # Errors
    /// A storage fault when something other than a folder is in the way, when the folder cannot be made, or when the store
    /// was written by a newer version.
    pub fn open(root: &Path, files: &dyn Files) -> Outcome<Self> {
        let root = std::path::absolute(root).map_err(|e| Fault::io("find", root, &e))?;
        let layout = Self { root };
        must_be_folder(files, &layout.root)?;
        let fresh = layout.check_version(files)?;
        if fresh {
            layout.must_be_ours(files)?;
        }
        for name in FOLDERS {
            must_be_folder(files, &layout.root.join(name))?;
        }
        if fresh {
            let path = layout.version();
            match files.write_new(&path, format!("{VERSION}\n").as_bytes(), false) {
                Ok(()) => {}
                // Another process made the store at the same time.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Fault::io("write", &path, &e)),
            }
        }
        Ok(layout)
    }

    /// A folder without a version is a new store, or one that another process makes just now or could not finish; with anything
    /// else in it, it is not ours to fill up.
    fn must_be_ours(&self, files: &dyn Files) -> Outcome<()> {
        let names = files.list(&self.root).map_err(|e| Fault::io("read", &self.root, &e))?;
        let ours = |name: &String| {
            FOLDERS.contains(&name.as_str())
                || name.starts_with('.')
                || name.starts_with("index.sqlite")
                || ["version", "pins", "quarantine", "lost+found", "README.md"].contains(&name.as_str())
        };
        match names.iter().find(|name| !ours(name)) {
            None => Ok(()),
            Some(name) => Err(Fault::storage(format!("`{}` is not a store, and not empty: it holds `{name}`", self.root.display()))
                .help("choose another folder with `--cache DIR`; a new or an empty one becomes a store")),
        }
    }

    /// Whether the version file is still to be written.
    fn check_version(&self, files: &dyn Files) -> Outcome<bool> {
        let path = self.version();
        let text = match files.read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => {
                return Err(
                    Fault::io("read", &path, &e).help("a store's `version` is a small text file; choose another folder with `--cache DIR`")
                );
            }
        };
        match text.parse::<u32>() {
            Ok(found) if found <= VERSION => Ok(false),
            Ok(found) => Err(Fault::storage(format!(
                "the store `{}` has version {found}, and this pflpipe reads up to version {VERSION}",
                self.root.display()
            ))
            .help("update pflpipe, or choose another store with `--cache DIR`")),
            // A crash while the file was new leaves it empty: there is nothing newer than this build behind it.
            Err(_) if text.is_empty() => {
                files.remove(&path).map_err(|e| Fault::io("remove", &path, &e))?;
                Ok(true)
            }
            Err(_) => Err(Fault::storage(format!(
                "`{}` holds `{}`, not a version number",
                path.display(),
                text.chars().take(40).collect::<String>()
            ))
            .help("is this folder a pflpipe store? choose another with `--cache DIR`")),
        }
    }

    /// The store's folder, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The version file.
    #[must_use]
    pub fn version(&self) -> PathBuf {
        self.root.join("version")
    }
    /// The index.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.root.join("index.sqlite")
    }
    /// One of the store's folders.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
    /// An object's file.
    #[must_use]
    pub fn object(&self, digest: &Digest) -> PathBuf {
        self.sharded("cas", digest, "")
    }
    /// A record's file.
    #[must_use]
    pub fn record(&self, key: &Digest) -> PathBuf {
        self.sharded("rec", key, ".json")
    }
    /// The record of a second, different result of the same key.
    #[must_use]
    pub fn alternative(&self, key: &Digest, n: u32) -> PathBuf {
        self.sharded("rec", key, &format!(".alt-{n}.json"))
    }
    /// The lease file of a key.
    #[must_use]
    pub fn lease(&self, key: &Digest) -> PathBuf {
        self.root.join("lease").join(key.hex())
    }
    /// The checkpoint manifest of a key.
    #[must_use]
    pub fn checkpoint(&self, key: &Digest) -> PathBuf {
        self.root.join("ckpt").join(format!("{}.json", key.hex()))
    }
    /// The log of an attempt, counted from 1.
    #[must_use]
    pub fn log(&self, key: &Digest, attempt: u32) -> PathBuf {
        self.root.join("log").join(format!("{}.{attempt}.log", key.hex()))
    }
    /// What a failed attempt left.
    #[must_use]
    pub fn failure(&self, key: &Digest, attempt: u32) -> PathBuf {
        self.root.join("log").join(format!("{}.{attempt}.fault.json", key.hex()))
    }
    /// The folder of a run.
    #[must_use]
    pub fn run(&self, id: &str) -> PathBuf {
        self.root.join("runs").join(id)
    }

    // Lookups make tens of thousands of these paths; one allocation each.
    fn sharded(&self, folder: &str, digest: &Digest, suffix: &str) -> PathBuf {
        let hex = blake3::Hash::from_bytes(digest.0).to_hex();
        let root = self.root.as_os_str();
        let mut path = std::ffi::OsString::with_capacity(root.len() + folder.len() + 67 + suffix.len());
        path.push(root);
        for part in ["/", folder, "/", &hex[..2], "/", &hex[2..], suffix] {
            path.push(part);
        }
        path.into()
    }
}

fn must_be_folder(files: &dyn Files, path: &Path) -> Outcome<()> {
    match files.stat(path) {
        Ok(stat) if stat.kind == Kind::Folder => Ok(()),
        Ok(_) => Err(Fault::storage(format!("`{}` is not a folder, and the store needs one there", path.display()))
            .help("move it away, or choose another store with `--cache DIR`")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => files
            .create_folder(path)
            .map_err(|e| Fault::io("create the folder", path, &e).help("choose a folder that you may write to with `--cache DIR`")),
        Err(e) => Err(Fault::io("read", path, &e).help("choose another store with `--cache DIR`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::Disk;
    use super::*;

    #[test]
    fn a_newer_version_is_refused_and_a_foreign_file_explained() {
        let dir = tempfile::tempdir().expect("temporary folder");
        Layout::open(dir.path(), &Disk).expect("a new store");
        std::fs::write(dir.path().join("version"), "2\n").expect("writable");
        let fault = Layout::open(dir.path(), &Disk).expect_err("newer");
        assert!(fault.what.contains("version 2") && fault.help.is_some(), "{fault}");
        std::fs::write(dir.path().join("version"), "hello").expect("writable");
        assert!(Layout::open(dir.path(), &Disk).expect_err("foreign").what.contains("`hello`"));
        std::fs::write(dir.path().join("version"), "").expect("writable");
        Layout::open(dir.path(), &Disk).expect("an empty version file is repaired");
    }

    #[test]
    fn a_file_where_a_folder_belongs_is_named() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let file = dir.path().join("store");
        std::fs::write(&file, "x").expect("writable");
        assert!(Layout::open(&file, &Disk).expect_err("a file").what.contains("not a folder"));
        let root = dir.path().join("other");
        std::fs::create_dir(&root).expect("writable");
        std::fs::write(root.join("cas"), "x").expect("writable");
        assert!(Layout::open(&root, &Disk).expect_err("a file").what.contains("cas"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_cannot_be_made_is_a_fault_with_help() {
        let fault = Layout::open(Path::new("/proc/no-store-here"), &Disk).expect_err("not writable");
        assert!(fault.what.contains("/proc/no-store-here") && fault.help.is_some_and(|h| h.contains("--cache")), "{}", fault.what);
    }

    #[test]
    fn paths_split_the_digest() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let layout = Layout::open(dir.path(), &Disk).expect("a new store");
        let digest = Digest::of(b"x");
        let hex = digest.hex();
        let expected = std::path::absolute(dir.path()).expect("absolute").join("cas").join(&hex[..2]).join(&hex[2..]);
        assert_eq!(layout.object(&digest), expected);
    }
}
