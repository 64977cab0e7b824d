//! Finds data files and reads them with bounds: only regular files, no more memory than a file's own header can justify.
//!
//! It knows gzip and checksums, but no data format.

use crate::base::{Fault, Outcome, text};
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};
use std::fs::{File, Metadata};
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// deflate packs no more than this into one byte.
const GREATEST_RATIO: u64 = 1032;
/// The most bytes that one unpacked file may have.
pub(super) const GREATEST: u64 = 4 << 30;

/// The published checksums of a file, as sha256 in hexadecimal characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// The file's name as distributed, without `.gz`.
    pub name: &'static str,
    /// Of the file as distributed, with gzip; the empty string when it is distributed otherwise.
    pub packed: &'static str,
    /// Of the unpacked content.
    pub plain: &'static str,
    /// Bytes of the unpacked content.
    pub size: u64,
}

/// A file on disk that may be packed with gzip.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub path: PathBuf,
    /// Its size on disk.
    pub size: u64,
}

impl Source {
    /// The file at `path` when something is there.
    ///
    /// # Errors
    /// When it is a folder, a pipe or a device, or cannot be looked at. It is not opened, since opening a pipe would wait.
    pub fn at(path: PathBuf) -> Outcome<Option<Self>> {
        match std::fs::metadata(&path) {
            Ok(meta) if meta.is_file() => Ok(Some(Self { size: meta.len(), path })),
            Ok(meta) => Err(Fault::storage(format!("`{}` is {}, but must be a file", path.display(), kind_of(&meta)))
                .help("put the file as distributed in its place")),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(Fault::io("read", &path, &e)),
        }
    }
    /// The file `name`, or else `name.gz`, in `folder`.
    ///
    /// # Errors
    /// As [`Source::at`].
    pub fn plain_or_packed(folder: &Path, name: &str) -> Outcome<Option<Self>> {
        match Self::at(folder.join(format!("{name}.gz")))? {
            Some(source) => Ok(Some(source)),
            None => Self::at(folder.join(name)),
        }
    }
    /// Whether the name says that it is packed.
    pub fn is_packed(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "gz")
    }
    /// The most bytes that the content can have.
    pub fn bound(&self) -> u64 {
        if self.is_packed() { self.size.saturating_mul(GREATEST_RATIO) } else { self.size }
    }
    /// The most bytes that a member can have when the file is an archive that deflates.
    pub fn bound_unpacked(&self) -> u64 {
        self.size.saturating_mul(GREATEST_RATIO)
    }
    /// The file as it is on disk, when it has at most so many bytes.
    ///
    /// # Errors
    /// When it is larger or cannot be read.
    pub fn whole(&self, most: u64) -> Outcome<Vec<u8>> {
        if self.size > most {
            return Err(self.fault(format_args!(
                "has {}, more than the {} that such a file may have",
                text::bytes(self.size),
                text::bytes(most)
            )));
        }
        let file = File::open(&self.path).map_err(|e| Fault::io("read", &self.path, &e))?;
        let mut content = Vec::new();
        file.take(most).read_to_end(&mut content).map_err(|e| Fault::io("read", &self.path, &e))?;
        Ok(content)
    }
    /// Opens it and unpacks what is packed.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self) -> Outcome<Reader<'_>> {
        let file = File::open(&self.path).map_err(|e| Fault::io("read", &self.path, &e))?;
        let file = BufReader::with_capacity(1 << 17, file);
        let inner: Box<dyn Read> = if self.is_packed() { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        Ok(Reader { inner, source: self })
    }
    /// The sha256 of the file as it is on disk.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn checksum(&self) -> Outcome<String> {
        let io = |e: std::io::Error| Fault::io("read", &self.path, &e);
        let mut file = File::open(&self.path).map_err(io)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(hex(&hasher.finalize())),
                Ok(n) => hasher.update(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(io(e)),
            }
        }
    }
    /// A fault about this file.
    pub fn fault(&self, what: impl std::fmt::Display) -> Fault {
        Fault::storage(format!("`{}` {what}", self.path.display()))
    }
    /// The content does not have its published checksum: says so, and whose checksum it has if it is a neighbor's.
    pub fn wrong_checksum(&self, expected: &str, found: &str, neighbors: &[Published]) -> Fault {
        let fault = self.fault(format_args!("has the wrong content: expected sha256 {expected}, found {found}"));
        match neighbors.iter().find(|file| file.packed == found || file.plain == found) {
            Some(file) => fault.help(format!("it is `{}` under a wrong name; give both files their names back", file.name)),
            None => fault.help("fetch the file again; `verify: false` allows files of your own in the same format"),
        }
    }
    /// Checks the size that the content says it has, before it is unpacked, against the published one.
    ///
    /// # Errors
    /// When they differ; `neighbors` are the files it may have been swapped with.
    pub fn verify_size(&self, size: u64, file: &Published, neighbors: &[Published]) -> Outcome<()> {
        if size == file.size {
            return Ok(());
        }
        let fault = self.fault(format_args!("has the wrong content: expected {} bytes, found {size}", file.size));
        Err(match neighbors.iter().find(|neighbor| neighbor.size == size) {
            Some(neighbor) => fault.help(format!("it looks like `{}` under a wrong name; give both files their names back", neighbor.name)),
            None => fault.help("fetch the file again; `verify: false` allows files of your own in the same format"),
        })
    }
    /// Checks unpacked content against the published checksums.
    ///
    /// A file that was packed anew is right too, as long as its content is.
    ///
    /// # Errors
    /// When the checksum is wrong; `neighbors` are the files it may have been swapped with.
    pub fn verify(&self, content: &[&[u8]], file: &Published, neighbors: &[Published]) -> Outcome<()> {
        let packed = if self.is_packed() { self.checksum()? } else { String::new() };
        if self.is_packed() && packed == file.packed {
            return Ok(());
        }
        let mut hasher = Sha256::new();
        content.iter().for_each(|part| hasher.update(part));
        let plain = hex(&hasher.finalize());
        match (plain == file.plain, self.is_packed()) {
            (true, _) => Ok(()),
            (false, true) if neighbors.iter().any(|n| n.plain == plain) => Err(self.wrong_checksum(file.plain, &plain, neighbors)),
            (false, true) => Err(self.wrong_checksum(file.packed, &packed, neighbors)),
            (false, false) => Err(self.wrong_checksum(file.plain, &plain, neighbors)),
        }
    }
}

/// The unpacked content of a source, with faults that name the file.
pub(super) struct Reader<'a> {
    pub inner: Box<dyn Read>,
    source: &'a Source,
}

impl Reader<'_> {
    /// Appends exactly `count` bytes to `out`.
    ///
    /// # Errors
    /// When the content ends before, or cannot be unpacked. `what` names the part that is read.
    pub fn exactly(&mut self, count: u64, out: &mut Vec<u8>, what: &str) -> Outcome<()> {
        // A file that promises more than it can hold is refused before memory is set aside for it.
        if count > self.source.bound().min(GREATEST) {
            let most = text::bytes(self.source.bound().min(GREATEST));
            return Err(self.source.fault(format_args!(
                "promises {} of {what}, but can hold no more than {most}: it is truncated or not what its name says",
                text::bytes(count)
            )));
        }
        let before = out.len();
        let room = usize::try_from(count).ok().and_then(|count| out.try_reserve(count).ok());
        room.ok_or_else(|| self.source.fault(format_args!("needs {} of memory, which is not there", text::bytes(count))))?;
        (&mut self.inner).take(count).read_to_end(out).map_err(|e| self.broken(&e))?;
        let found = (out.len() - before) as u64;
        if found == count {
            return Ok(());
        }
        Err(self.source.fault(format_args!("is truncated: it ends after {found} of {count} bytes of {what}")))
    }
    /// Makes sure that nothing follows.
    ///
    /// # Errors
    /// When something does.
    pub fn ended(&mut self) -> Outcome<()> {
        let mut rest = Vec::new();
        (&mut self.inner).take(1).read_to_end(&mut rest).map_err(|e| self.broken(&e))?;
        if rest.is_empty() { Ok(()) } else { Err(self.source.fault("holds more than its header says")) }
    }
    fn broken(&self, error: &std::io::Error) -> Fault {
        if !self.source.is_packed() {
            return Fault::io("read", &self.source.path, error);
        }
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => "is truncated: its gzip stream ends too early".to_owned(),
            _ => format!("is not a sound gzip file: {error}"),
        };
        self.source.fault(what).help("fetch the file again; a file that is not packed must not have a name in `.gz`")
    }
}

fn kind_of(meta: &Metadata) -> &'static str {
    if meta.is_dir() { "a folder" } else { "a pipe, socket or device" }
}

/// Bytes as hexadecimal characters.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// All combinations of a data folder and the subfolders that a data set usually lies in, the subfolders first.
pub(super) fn folders(dirs: &[PathBuf], subfolders: &[&str]) -> Vec<PathBuf> {
    let inside = subfolders.iter().flat_map(|sub| dirs.iter().map(move |dir| dir.join(sub)));
    inside.chain(dirs.iter().cloned()).collect()
}

/// The fault of a data set whose files are nowhere.
pub(super) fn missing(name: &str, files: &str, subfolder: &str, dirs: &[PathBuf]) -> Fault {
    let looked = looked_in(dirs);
    Fault::storage(format!("the files of data set `{name}` are not there; {looked}"))
        .help(format!("put {files} into DIR/{subfolder} and say `--data DIR`, or set PFLPIPE_DATA"))
}

/// Where files were looked for, for messages.
pub(super) fn looked_in(dirs: &[PathBuf]) -> String {
    if dirs.is_empty() {
        return "no data folder is set".to_owned();
    }
    format!("looked in {}", text::quoted(dirs.iter().map(|d| d.to_string_lossy()).collect::<Vec<_>>().iter().map(AsRef::as_ref)))
}
