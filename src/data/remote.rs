//! The files of data sets as their makers publish them: name, address, size, checksum.

use crate::base::{Fault, Outcome};
use md5::Digest as _;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// A published checksum in hexadecimal characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// None was found.
    Unknown,
    /// MD5: enough against accidents.
    Md5(&'static str),
    /// SHA-256.
    Sha256(&'static str),
}

/// A file of a data set.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// Its name on disk.
    pub file: &'static str,
    /// Where it is to be had; the empty string when that takes a browser (a login, a form, a page that asks).
    pub url: &'static str,
    /// Its size in bytes; 0 when unknown.
    pub size: u64,
    /// Its checksum.
    pub sum: Sum,
}

impl Sum {
    /// The checksum with its kind: `md5 ...`; the empty string when there is none.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Md5(sum) => format!("md5 {sum}"),
            Self::Sha256(sum) => format!("sha256 {sum}"),
        }
    }
    /// Compares content with the checksum.
    ///
    /// # Errors
    /// A storage fault that shows both; `path` is what the content is called.
    pub fn check(&self, content: &[u8], path: &Path) -> Outcome<()> {
        let mut hasher = Hasher::of(*self);
        hasher.add(content);
        hasher.compare(path)
    }
    /// Compares a file with the checksum.
    ///
    /// # Errors
    /// As [`Sum::check`], and when the file cannot be read.
    pub fn check_file(&self, path: &Path) -> Outcome<()> {
        if *self == Self::Unknown {
            return Ok(());
        }
        let io = |e: std::io::Error| Fault::io("read", path, &e);
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let (mut hasher, mut buffer) = (Hasher::of(*self), vec![0; 1 << 18]);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return hasher.compare(path),
                Ok(n) => hasher.add(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io(e)),
            }
        }
    }
}

enum Hasher {
    Nothing,
    Md5(&'static str, md5::Md5),
    Sha256(&'static str, sha2::Sha256),
}

impl Hasher {
    fn of(sum: Sum) -> Self {
        match sum {
            Sum::Unknown => Self::Nothing,
            Sum::Md5(wanted) => Self::Md5(wanted, md5::Md5::new()),
            Sum::Sha256(wanted) => Self::Sha256(wanted, sha2::Sha256::new()),
        }
    }
    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Nothing => {}
            Self::Md5(_, hasher) => hasher.update(bytes),
            Self::Sha256(_, hasher) => hasher.update(bytes),
        }
    }
    fn compare(self, path: &Path) -> Outcome<()> {
        let (kind, wanted, found) = match self {
            Self::Nothing => return Ok(()),
            Self::Md5(wanted, hasher) => ("md5", wanted, super::files::hex(&hasher.finalize())),
            Self::Sha256(wanted, hasher) => ("sha256", wanted, super::files::hex(&hasher.finalize())),
        };
        if found == wanted {
            return Ok(());
        }
        Err(Fault::storage(format!("`{}` has the wrong content: expected {kind} {wanted}, found {found}", path.display()))
            .help("fetch the file again; `verify: false` allows files of your own in the same format"))
    }
}
