//! A file in which states of clients lie while memory is scarce: written at a free place, read back verified.
//!
//! It has no name, so that the system frees it when the process ends, however it ends.

use crate::base::{Digest, Fault, FaultKind, Outcome};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Where something lies, and what it was.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    start: u64,
    len: usize,
    /// Bytes from `start` that belong to it; at least `len`.
    room: u64,
    digest: Digest,
}

/// The file with its free places.
#[derive(Debug)]
pub(super) struct Shelf {
    file: File,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    end: u64,
    /// The starts of free places by their room.
    free: BTreeMap<u64, Vec<u64>>,
}

impl Places {
    /// The smallest free place with enough room that does not waste most of it, or a new one at the end.
    fn take(&mut self, len: u64) -> (u64, u64) {
        let fits = self.free.range(len..=len.saturating_mul(2)).next().map(|(room, _)| *room);
        if let Some(room) = fits
            && let Some(starts) = self.free.get_mut(&room)
            && let Some(start) = starts.pop()
        {
            if starts.is_empty() {
                self.free.remove(&room);
            }
            return (start, room);
        }
        let start = self.end;
        self.end += len;
        (start, len)
    }
}

impl Shelf {
    pub(super) fn new(file: File) -> Self {
        Self { file, places: Mutex::default() }
    }

    /// Keeps bytes.
    ///
    /// # Errors
    /// A storage fault: the disk is full or fails.
    pub(super) fn put(&self, bytes: &[u8]) -> Outcome<Slot> {
        let (start, room) = self.places().take(bytes.len() as u64);
        let slot = Slot { start, len: bytes.len(), room, digest: Digest::of(bytes) };
        match write_at(&self.file, bytes, start) {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.free(slot);
                Err(fault("written", &error))
            }
        }
    }

    /// What lies there.
    ///
    /// # Errors
    /// A storage fault: it cannot be read, or is not what was written.
    pub(super) fn get(&self, slot: &Slot) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; slot.len];
        read_at(&self.file, &mut bytes, slot.start).map_err(|error| fault("read back", &error))?;
        if Digest::of(&bytes) != slot.digest {
            return Err(Fault::storage("a client's state in the store's `tmp/` is not what was written there")
                .help("run the pipeline again; if it comes back, check the disk"));
        }
        Ok(bytes)
    }

    /// Gives a place back.
    pub(super) fn free(&self, slot: Slot) {
        self.places().free.entry(slot.room).or_default().push(slot.start);
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fault(tried: &str, error: &io::Error) -> Fault {
    let what = format!("a client's state could not be {tried} in the store's `tmp/`: {error}");
    Fault::new(FaultKind::Storage, what).help(match error.kind() {
        io::ErrorKind::StorageFull => "free some space, choose another store with `--cache DIR`, or allow more memory with `--memory SIZE`",
        _ => "run the pipeline again; if it comes back, check the disk",
    })
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back_and_places_are_used_again() {
        let shelf = Shelf::new(tempfile::tempfile().expect("a temporary file"));
        let first = shelf.put(&[1; 100]).expect("writable");
        let second = shelf.put(&[2; 80]).expect("writable");
        assert_eq!((shelf.get(&first).expect("there"), shelf.get(&second).expect("there")), (vec![1; 100], vec![2; 80]));
        shelf.free(first);
        let third = shelf.put(&[3; 90]).expect("writable");
        assert_eq!((third.start, third.room), (0, 100));
        assert_eq!(shelf.put(&[4; 90]).expect("writable").start, 180);
        assert_eq!((shelf.get(&third).expect("there"), shelf.get(&second).expect("there")), (vec![3; 90], vec![2; 80]));
    }

    #[cfg(unix)]
    #[test]
    fn damage_is_noticed() {
        let shelf = Shelf::new(tempfile::tempfile().expect("a temporary file"));
        let slot = shelf.put(&[7; 64]).expect("writable");
        write_at(&shelf.file, &[8], 5).expect("writable");
        assert!(shelf.get(&slot).expect_err("changed").what.contains("not what was written"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_fault_with_help() {
        let shelf = Shelf::new(File::options().read(true).write(true).open("/dev/full").expect("there on Linux"));
        let fault = shelf.put(&[1; 10]).expect_err("always full");
        assert!(fault.help.is_some_and(|help| help.contains("--memory")), "{}", fault.what);
    }
}
