//! Reads HDF5 files of the kind that h5py writes by default: groups by symbol tables or compact links, arrays of integers, floats and
//! strings, contiguous or in chunks that may be deflated, shuffled and summed.
//!
//! After the HDF5 File Format Specification, version 3.0. Only what an array or a group needs is read, so that a file may be larger than
//! memory. Every address, length and depth is checked before it is followed; what the writer of `libver="latest"` does differently
//! (fractal heaps, newer chunk indexes) is refused by name.

mod header;
mod tree;
mod values;

pub(super) use values::Array;

use crate::base::{Fault, Outcome, text};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// An address that points nowhere.
const NOWHERE: u64 = u64::MAX;
const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// The most bytes that are read in one piece, and the most that one array may have.
const GREATEST: u64 = 4 << 30;

/// An open file.
#[derive(Debug)]
pub(super) struct Hdf5 {
    file: File,
    path: PathBuf,
    size: u64,
    /// Address of the root group's object header.
    root: u64,
}

/// What lies at a path in the file: the address of its object header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object(u64);

impl Hdf5 {
    /// Opens a regular file and reads its superblock.
    ///
    /// # Errors
    /// A storage fault when it cannot be read or is no HDF5 file of a known version.
    pub fn open(path: &Path) -> Outcome<Self> {
        let io = |e: std::io::Error| Fault::io("read", path, &e);
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_file() {
            return Err(Fault::storage(format!("`{}` is no regular file", path.display())));
        }
        let file = File::open(path).map_err(io)?;
        let mut this = Self { file, path: path.to_owned(), size: meta.len(), root: NOWHERE };
        if this.size < 48 || this.bytes(0, 8)? != SIGNATURE {
            return Err(this.fault("is no HDF5 file").help("fetch the file again: it may be truncated"));
        }
        let version = this.bytes(8, 1)?[0];
        // Sizes of addresses and lengths, and where the addresses begin.
        let (widths, addresses) = match version {
            0 => (13, 24),
            1 => (13, 28),
            2 | 3 => (9, 12),
            other => return Err(this.fault(format_args!("has a superblock of version {other}, but 0 to 3 are known"))),
        };
        if this.bytes(widths, 2)? != [8, 8] {
            return Err(this.fault("has addresses or lengths that do not take 8 bytes"));
        }
        let head = this.bytes(addresses, if version < 2 { 48 } else { 32 })?;
        let mut head = Cursor::of(&this, &head);
        let base = head.u64()?;
        head.skip(8)?;
        let end = head.u64()?;
        if base != 0 {
            return Err(this.fault("begins with something else than HDF5"));
        }
        if end > this.size {
            let what = format!("is truncated: it has {} of {}", text::bytes(this.size), text::bytes(end));
            return Err(this.fault(what).help("fetch the file again"));
        }
        if version < 2 {
            // The driver's block, then the name's place of the root group's entry.
            head.skip(16)?;
        }
        this.root = head.u64()?;
        Ok(this)
    }
    /// The root group.
    pub fn root(&self) -> Object {
        Object(self.root)
    }
    /// What a group holds, by name.
    ///
    /// # Errors
    /// A storage fault when it is no group, or damaged.
    pub fn links(&self, group: Object) -> Outcome<BTreeMap<String, Object>> {
        let header = self.header(group.0)?;
        let mut links = BTreeMap::new();
        if let Some(table) = header.message(header::SYMBOL_TABLE) {
            let mut table = Cursor::of(self, table);
            let (tree, heap) = (table.u64()?, table.u64()?);
            tree::names(self, tree, heap, &mut links)?;
        } else if header.message(header::LINK_INFO).is_some() {
            header.links(self, &mut links)?;
        } else {
            return Err(self.fault("has an array where a group is expected"));
        }
        Ok(links)
    }
    /// The object of that name in a group.
    ///
    /// # Errors
    /// As [`Hdf5::links`], and when there is none.
    pub fn child(&self, group: Object, name: &str) -> Outcome<Object> {
        self.links(group)?.get(name).copied().ok_or_else(|| self.fault(format_args!("has no `{name}` where one is expected")))
    }
    /// An array with all its values.
    ///
    /// # Errors
    /// A storage fault when it is no array of a known kind, is damaged, or larger than 4 GiB.
    pub fn array(&self, object: Object) -> Outcome<Array> {
        values::read(self, &self.header(object.0)?)
    }
    /// A fault about this file.
    pub fn fault(&self, what: impl std::fmt::Display) -> Fault {
        Fault::storage(format!("`{}` {what}", self.path.display()))
    }
    /// Exactly `count` bytes from an address on.
    fn bytes(&self, at: u64, count: u64) -> Outcome<Vec<u8>> {
        if count > GREATEST || at.checked_add(count).is_none_or(|end| end > self.size) {
            return Err(self
                .fault(format_args!("is damaged: it points to {count} bytes at {at}, but has {}", self.size))
                .help("fetch the file again: it may be truncated"));
        }
        let io = |e: std::io::Error| Fault::io("read", &self.path, &e);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at)).map_err(io)?;
        // In bounds of the file, hence of what is worth setting aside.
        let mut out = Vec::with_capacity(count as usize);
        file.take(count).read_to_end(&mut out).map_err(io)?;
        if out.len() as u64 != count {
            return Err(self.fault("became shorter while it was read"));
        }
        Ok(out)
    }
    fn damaged(&self, what: impl std::fmt::Display) -> Fault {
        self.fault(format_args!("is damaged: {what}")).help("fetch the file again")
    }
}

/// Takes little-endian numbers off a piece of the file.
struct Cursor<'a> {
    file: &'a Hdf5,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn of(file: &'a Hdf5, rest: &'a [u8]) -> Self {
        Self { file, rest }
    }
    fn take(&mut self, count: usize) -> Outcome<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.file.damaged("a header ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }
    fn skip(&mut self, count: usize) -> Outcome<()> {
        self.take(count).map(|_| ())
    }
    /// A number of `width` bytes, at most 8.
    fn number(&mut self, width: usize) -> Outcome<u64> {
        Ok(self.take(width)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
    fn u8(&mut self) -> Outcome<u8> {
        Ok(self.take(1)?[0])
    }
    fn u16(&mut self) -> Outcome<usize> {
        Ok(self.number(2)? as usize)
    }
    fn u32(&mut self) -> Outcome<usize> {
        Ok(self.number(4)? as usize)
    }
    fn u64(&mut self) -> Outcome<u64> {
        self.number(8)
    }
    /// Whether the next bytes are this signature, which is skipped.
    fn signed(&mut self, signature: &[u8; 4]) -> bool {
        let found = self.rest.starts_with(signature);
        if found {
            self.rest = &self.rest[4..];
        }
        found
    }
}
