//! The file-system layer: every change that the store makes on disk is one call of [`Files`].
//!
//! It knows nothing of objects or records. Tests replace it by one that fails the n-th call, to show that a full disk, an I/O
//! error or a crash at any instant leaves no half-published result.

use super::map::map;
use crate::base::Blob;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::SystemTime;

/// From this size on, a file is mapped.
const MAPPED: u64 = 1 << 16;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A pipe, socket, device or dangling link: nothing that a store holds.
    Other,
}

/// What the store asks about a path.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// When its content was last written or touched.
    pub modified: SystemTime,
}

/// The operations on files that the store needs.
///
/// Each method is one step that can fail by itself; none of them retries or cleans up.
pub trait Files: Send + Sync + fmt::Debug {
    /// Creates a folder and its parents; one that exists is fine.
    ///
    /// # Errors
    /// Those of the operating system.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Writes a file that must not exist yet; `read_only` files carry no write permission.
    ///
    /// # Errors
    /// `AlreadyExists`, and those of the operating system; then a part of the file may be there.
    fn write_new(&self, path: &Path, bytes: &[u8], read_only: bool) -> io::Result<()>;
    /// Appends to a file in one write, creating it where needed.
    ///
    /// # Errors
    /// Those of the operating system.
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Forces a file or a folder to the disk.
    ///
    /// # Errors
    /// Those of the operating system.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name that must not exist yet.
    ///
    /// # Errors
    /// `AlreadyExists`, and those of the operating system.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames, replacing what is there, atomically.
    ///
    /// # Errors
    /// Those of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The whole content of a regular file; anything else is refused without opening it, so that a pipe cannot block.
    ///
    /// # Errors
    /// `InvalidInput` for what is no regular file, and those of the operating system.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The whole content of a regular file that nobody changes any more, mapped into memory where that is possible.
    ///
    /// # Errors
    /// As [`Files::read`].
    fn map(&self, path: &Path) -> io::Result<Blob> {
        self.read(path).map(Blob::from)
    }
    /// At most the first `limit` bytes of a regular file.
    ///
    /// # Errors
    /// As [`Files::read`].
    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;
    /// What a path is, following links.
    ///
    /// # Errors
    /// `NotFound`, and those of the operating system.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Sets the time of the last change to now, so that garbage collection sees a file as young.
    ///
    /// # Errors
    /// Those of the operating system.
    fn touch(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder with all that is in it.
    ///
    /// # Errors
    /// Those of the operating system.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted; names that are not UTF-8 are left out, for the store makes none.
    ///
    /// # Errors
    /// `NotFound`, and those of the operating system.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Opens (creating it) and locks a file exclusively; `None` when `wait` is false and another holder has it.
    ///
    /// The kernel frees the lock when the returned file is closed, even by `kill -9`.
    ///
    /// # Errors
    /// Those of the operating system.
    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<File>>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Disk {
    fn open_regular(path: &Path) -> io::Result<(File, u64)> {
        let meta = fs::metadata(path)?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok((File::open(path)?, meta.len()))
    }
}

impl Files for Disk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write_new(&self, path: &Path, bytes: &[u8], read_only: bool) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(if read_only { 0o444 } else { 0o666 });
        }
        #[cfg(not(unix))]
        let _ = read_only;
        options.open(path)?.write_all(bytes)
    }

    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(path)?.write_all(bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (mut file, size) = Self::open_regular(path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn map(&self, path: &Path) -> io::Result<Blob> {
        let (file, size) = Self::open_regular(path)?;
        // A small file costs less to read than to map.
        if size >= MAPPED
            && let Ok(mapped) = map(&file)
        {
            return Ok(mapped);
        }
        self.read(path).map(Blob::from)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, _) = Self::open_regular(path)?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let meta = fs::metadata(path)?;
        let kind = match meta.file_type() {
            t if t.is_file() => Kind::File,
            t if t.is_dir() => Kind::Folder,
            _ => Kind::Other,
        };
        Ok(Stat { kind, size: meta.len(), modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH) })
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.set_modified(SystemTime::now())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<File>> {
        loop {
            if let Ok(meta) = fs::metadata(path)
                && !meta.is_file()
            {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
            }
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            if wait {
                file.lock()?;
            } else {
                match file.try_lock() {
                    Ok(()) => {}
                    Err(fs::TryLockError::WouldBlock) => return Ok(None),
                    Err(fs::TryLockError::Error(error)) => return Err(error),
                }
            }
            // The holder removes the name before it lets go: what was locked may be a file without a name, and then
            // somebody else can hold another file of this name.
            if same_file(&file, path)? {
                return Ok(Some(file));
            }
        }
    }
}

#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok(held.dev() == named.dev() && held.ino() == named.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn same_file(_file: &File, path: &Path) -> io::Result<bool> {
    Ok(path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_refused_and_a_lock_excludes() {
        let dir = tempfile::tempdir().expect("temporary folder");
        assert_eq!(Disk.read(dir.path()).expect_err("a folder").kind(), io::ErrorKind::InvalidInput);
        let path = dir.path().join("lock");
        let held = Disk.lock(&path, false).expect("lockable").expect("free");
        assert!(Disk.lock(&path, false).expect("lockable").is_none());
        Disk.remove(&path).expect("removable");
        drop(held);
        assert!(Disk.lock(&path, true).expect("lockable").is_some());
    }

    #[test]
    fn a_file_is_written_once() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("x");
        Disk.write_new(&path, b"one", true).expect("new");
        assert_eq!(Disk.write_new(&path, b"two", true).expect_err("there").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Disk.read_head(&path, 2).expect("readable"), b"on");
    }
}
