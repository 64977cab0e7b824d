//! A file in which states of clients lie while memory is scarce: written at a free place, read back verified.
//!
//! It has no name, so that the system frees it when the process ends, however it ends. Where the system can, states go to the disk past its
//! cache of files: what is here is here because memory is scarce, and making room for it there takes as long as a training step.

use crate::base::{Digest, Fault, FaultKind, Outcome};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Places, their lengths, and the buffers that are written there are multiples of it: what goes past the cache has to be.
const PAGE: usize = 4096;

/// Bytes that begin at a page.
#[derive(Debug)]
pub(super) struct Sheet {
    bytes: Vec<u8>,
    /// Bytes before the first page.
    skip: usize,
}

impl Sheet {
    /// An empty one with room for so many bytes.
    pub(super) fn with_room(len: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(len.next_multiple_of(PAGE) + PAGE);
        let skip = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        bytes.resize(skip, 0);
        Self { bytes, skip }
    }
    /// Lets `write` append to it.
    pub(super) fn append(self, write: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        Self { bytes: write(self.bytes), ..self }
    }
    /// What was appended.
    pub(super) fn content(&self) -> &[u8] {
        self.bytes.get(self.skip..).unwrap_or_default()
    }
    /// Fills the last page up, and moves everything to where a page begins if it had to grow.
    fn fill(&mut self) {
        self.bytes.resize(self.skip + self.content().len().next_multiple_of(PAGE), 0);
        if self.content().as_ptr().align_offset(PAGE) != 0 {
            let mut fresh = Self::with_room(self.content().len());
            fresh.bytes.extend_from_slice(self.content());
            *self = fresh;
        }
    }
}

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
    /// Whether reads and writes go past the system's cache.
    direct: AtomicBool,
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
        let direct = past_the_cache(&file, true);
        Self { file, direct: AtomicBool::new(direct), places: Mutex::default() }
    }

    /// Keeps what was appended to the sheet.
    ///
    /// # Errors
    /// A storage fault: the disk is full or fails.
    pub(super) fn put(&self, mut sheet: Sheet) -> Outcome<Slot> {
        let (len, digest) = (sheet.content().len(), Digest::of(sheet.content()));
        sheet.fill();
        let (start, room) = self.places().take(sheet.content().len() as u64);
        let slot = Slot { start, len, room, digest };
        match self.attempt(|| write_at(&self.file, sheet.content(), start)) {
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
    pub(super) fn get(&self, slot: &Slot) -> Outcome<Sheet> {
        let mut sheet = Sheet::with_room(slot.len);
        let Sheet { bytes, skip } = &mut sheet;
        bytes.resize(*skip + slot.len.next_multiple_of(PAGE), 0);
        self.attempt(|| read_at(&self.file, &mut bytes[*skip..], slot.start)).map_err(|error| fault("read back", &error))?;
        bytes.truncate(*skip + slot.len);
        if Digest::of(sheet.content()) != slot.digest {
            return Err(Fault::storage("a client's state in the store's `tmp/` is not what was written there")
                .help("run the pipeline again; if it comes back, check the disk"));
        }
        Ok(sheet)
    }

    /// Reads or writes, with the system's cache from now on if it turns out that the disk wants other pages than ours.
    fn attempt(&self, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.direct.swap(false, Ordering::Relaxed) => {
                past_the_cache(&self.file, false);
                work()
            }
            done => done,
        }
    }

    /// Gives a place back.
    pub(super) fn free(&self, slot: Slot) {
        self.places().free.entry(slot.room).or_default().push(slot.start);
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets reads and writes go past the system's cache, or not; whether they do now.
#[cfg(target_os = "linux")]
fn past_the_cache(file: &File, wanted: bool) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    fcntl_getfl(file).is_ok_and(|mut flags| {
        flags.set(OFlags::DIRECT, wanted);
        fcntl_setfl(file, flags).is_ok() && wanted
    })
}

#[cfg(not(target_os = "linux"))]
fn past_the_cache(_: &File, _: bool) -> bool {
    false
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

    fn sheet(content: &[u8]) -> Sheet {
        Sheet::with_room(content.len()).append(|mut bytes| {
            bytes.extend_from_slice(content);
            bytes
        })
    }

    #[test]
    fn what_is_put_comes_back_and_places_are_used_again() {
        let shelf = Shelf::new(tempfile::tempfile().expect("a temporary file"));
        let put = |value: u8, len: usize| shelf.put(sheet(&vec![value; len])).expect("writable");
        let holds = |slot: &Slot, value: u8, len: usize| shelf.get(slot).expect("there").content() == vec![value; len];
        let (first, second) = (put(1, 5000), put(2, PAGE));
        assert!(holds(&first, 1, 5000) && holds(&second, 2, PAGE));
        shelf.free(first);
        let third = put(3, 4500);
        assert_eq!((third.start, third.room), (0, 2 * PAGE as u64));
        assert_eq!(put(4, 1).start, 3 * PAGE as u64);
        assert!(holds(&third, 3, 4500) && holds(&second, 2, PAGE));
    }

    #[test]
    fn a_sheet_that_had_to_grow_begins_at_a_page_again() {
        let mut grown = Sheet::with_room(1).append(|mut bytes| {
            bytes.extend((0..100_000).map(|i| i as u8));
            bytes
        });
        let content = grown.content().to_vec();
        grown.fill();
        assert_eq!(grown.content().as_ptr().align_offset(PAGE), 0);
        assert_eq!((&grown.content()[..100_000], grown.content().len() % PAGE), (&content[..], 0));
    }

    #[test]
    fn a_disk_with_other_pages_is_read_and_written_through_the_cache() {
        let shelf = Shelf::new(tempfile::tempfile().expect("a temporary file"));
        shelf.direct.store(true, Ordering::Relaxed);
        let mut tries = 0;
        let done = shelf.attempt(|| {
            tries += 1;
            if tries == 1 { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
        });
        assert!(done.is_ok() && tries == 2 && !shelf.direct.load(Ordering::Relaxed));
        assert!(shelf.attempt(|| Err(io::ErrorKind::InvalidInput.into())).is_err(), "there is no third way");
    }

    #[cfg(unix)]
    #[test]
    fn damage_is_noticed() {
        let shelf = Shelf::new(tempfile::tempfile().expect("a temporary file"));
        let slot = shelf.put(sheet(&[7; 64])).expect("writable");
        past_the_cache(&shelf.file, false);
        write_at(&shelf.file, &[8], 5).expect("writable");
        assert!(shelf.get(&slot).expect_err("changed").what.contains("not what was written"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_fault_with_help() {
        let shelf = Shelf::new(File::options().read(true).write(true).open("/dev/full").expect("there on Linux"));
        let fault = shelf.put(sheet(&[1; 10])).expect_err("always full");
        assert!(fault.help.is_some_and(|help| help.contains("--memory")), "{}", fault.what);
    }
}
