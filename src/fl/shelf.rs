//! A file in which states of clients lie while memory is scarce: written at a free place, read back verified.
//!
//! It has no name, so that the system frees it when the process ends, however it ends. Where the system can, states go to the disk past its
//! cache of files: what is here is here because memory is scarce, and making room for it there takes as long as a training step. The
//! threads that train do not wait for the disk: two threads of the shelf's own do. One writes, and what it has not written yet is found
//! here; the other reads what will be asked for next.

mod disk;
mod sheet;

pub(super) use sheet::Sheet;

use crate::base::{Digest, Fault, Outcome};
use disk::Disk;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// States that wait to be written, at most, as many that were read ahead, and sheets that wait to be used again. It bounds the memory
/// beside the limit.
const WAITING: usize = 4;

/// Where the state of a client lies, and what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    client: usize,
    start: u64,
    len: usize,
    /// Bytes from `start` that belong to it; at least `len`.
    room: u64,
    digest: Digest,
}

/// The file with its free places.
#[derive(Debug)]
pub(super) struct Shelf {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    disk: Disk,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    places: Places,
    /// What is to be written, and where. A place that was given back and taken again may stand here twice; the later one is written later.
    queue: VecDeque<(Slot, Arc<Sheet>)>,
    /// What is to be read ahead.
    expected: VecDeque<Slot>,
    /// What is being read ahead.
    reading: Option<Slot>,
    /// What was.
    ready: Vec<(Slot, Outcome<Sheet>)>,
    /// Sheets that were used: fresh memory costs the system more than it costs to fill it.
    used: Vec<Sheet>,
    /// The fault of the writer, which has ended with it.
    failed: Option<Fault>,
    closed: bool,
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
    /// An empty shelf.
    ///
    /// # Errors
    /// A device fault: the system has no thread left.
    pub(super) fn new(file: File) -> Outcome<Self> {
        let shared = Arc::new(Shared { disk: Disk::new(file), state: Mutex::default(), changed: Condvar::new() });
        let mut shelf = Self { shared, threads: Vec::new() };
        shelf.start("shelf-writer", Shared::write_behind)?;
        shelf.start("shelf-reader", Shared::read_ahead)?;
        Ok(shelf)
    }

    fn start(&mut self, name: &str, life: fn(&Shared)) -> Outcome<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || life(&shared));
        self.threads.push(thread.map_err(|error| Fault::no_thread(&error))?);
        Ok(())
    }

    /// A sheet to write on, with room for so many bytes.
    pub(super) fn sheet(&self, room: usize) -> Sheet {
        self.shared.state().sheet(room)
    }

    /// Keeps the state of a client. It waits while too many others have not been written.
    ///
    /// # Errors
    /// A storage fault: the disk is full or fails, with the client whose state it was.
    pub(super) fn put(&self, client: usize, sheet: Sheet) -> Outcome<Slot> {
        let (len, digest) = (sheet.content().len(), Digest::of(sheet.content()));
        let mut state = self.shared.state();
        state = self.shared.wait_while(state, |state| state.queue.len() >= WAITING && state.failed.is_none());
        state.check()?;
        let (start, room) = state.places.take(sheet.pages().len() as u64);
        let slot = Slot { client, start, len, room, digest };
        state.queue.push_back((slot.clone(), Arc::new(sheet)));
        self.shared.changed.notify_all();
        Ok(slot)
    }

    /// Says what will be asked for next, in this order, once each. What was said before is forgotten.
    pub(super) fn expect(&self, slots: VecDeque<Slot>) {
        let mut state = self.shared.state();
        state.expected = slots;
        state.reading = None;
        for (_, sheet) in std::mem::take(&mut state.ready) {
            sheet.into_iter().for_each(|sheet| state.keep(sheet));
        }
        self.shared.changed.notify_all();
    }

    /// What lies there.
    ///
    /// # Errors
    /// A storage fault: it cannot be read, is not what was written, or some state could not be written.
    pub(super) fn get(&self, slot: &Slot) -> Outcome<Arc<Sheet>> {
        let mut state = self.shared.state();
        state.check()?;
        if let Some(sheet) = state.unwritten(slot) {
            return Ok(sheet);
        }
        state.expected.retain(|expected| expected != slot);
        state = self.shared.wait_while(state, |state| state.reading.as_ref() == Some(slot));
        let sheet = if let Some(at) = state.ready.iter().position(|(ready, _)| ready == slot) {
            self.shared.changed.notify_all();
            state.ready.swap_remove(at).1?
        } else {
            let sheet = state.sheet(slot.len);
            drop(state);
            self.shared.read(sheet, slot)?
        };
        if Digest::of(sheet.content()) != slot.digest {
            return Err(slot.fault("read back", &io::Error::other("it is not what was written")));
        }
        Ok(Arc::new(sheet))
    }

    /// Takes a sheet back when it has been read.
    pub(super) fn done_with(&self, sheet: Arc<Sheet>) {
        if let Some(sheet) = Arc::into_inner(sheet) {
            self.shared.state().keep(sheet);
        }
    }

    /// Gives a place back.
    pub(super) fn free(&self, slot: Slot) {
        self.shared.state().places.free.entry(slot.room).or_default().push(slot.start);
    }
}

impl Drop for Shelf {
    /// What has not been written yet is of no use to anybody.
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has been told where it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The life of the writer.
    fn write_behind(&self) {
        let mut state = self.state();
        loop {
            state = self.wait_while(state, |state| !state.closed && state.queue.is_empty());
            if state.closed {
                return;
            }
            let Some((slot, sheet)) = state.queue.front().cloned() else { continue };
            drop(state);
            let done = self.disk.write(&sheet, slot.start);
            state = self.state();
            self.changed.notify_all();
            if let Err(error) = done {
                state.failed = Some(slot.fault("written", &error));
                return;
            }
            drop(state.queue.pop_front());
            if let Some(sheet) = Arc::into_inner(sheet) {
                state.keep(sheet);
            }
        }
    }

    /// The life of the reader.
    fn read_ahead(&self) {
        let mut state = self.state();
        loop {
            state = self.wait_while(state, |state| !state.closed && (state.expected.is_empty() || state.ready.len() >= WAITING));
            if state.closed {
                return;
            }
            let Some(slot) = state.expected.pop_front().filter(|slot| state.unwritten(slot).is_none()) else { continue };
            state.reading = Some(slot.clone());
            let sheet = state.sheet(slot.len);
            drop(state);
            let read = self.read(sheet, &slot);
            state = self.state();
            if state.reading.take_if(|reading| *reading == slot).is_some() {
                state.ready.push((slot, read));
            }
            self.changed.notify_all();
        }
    }

    fn read(&self, mut sheet: Sheet, slot: &Slot) -> Outcome<Sheet> {
        self.disk.read(&mut sheet, slot.len, slot.start).map_err(|error| slot.fault("read back", &error))?;
        Ok(sheet)
    }

    fn wait_while<'a>(&self, state: MutexGuard<'a, State>, waits: impl Fn(&State) -> bool) -> MutexGuard<'a, State> {
        self.changed.wait_while(state, |state| waits(state)).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> Outcome<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
    fn unwritten(&self, slot: &Slot) -> Option<Arc<Sheet>> {
        self.queue.iter().find(|(waiting, _)| waiting == slot).map(|(_, sheet)| sheet.clone())
    }
    /// A sheet that was used, if one has room for so many bytes, or a new one.
    fn sheet(&mut self, room: usize) -> Sheet {
        let fits = self.used.iter().position(|sheet| sheet.has_room(room));
        fits.map_or_else(|| Sheet::with_room(room), |at| self.used.swap_remove(at))
    }
    /// Keeps a sheet for another use.
    fn keep(&mut self, sheet: Sheet) {
        if self.used.len() < WAITING {
            self.used.push(sheet);
        }
    }
}

impl Slot {
    /// What could not be done with it. It names the client: another one may be at work when it shows.
    fn fault(&self, tried: &str, error: &io::Error) -> Fault {
        let what = format!("the state of client {} could not be {tried} in the store's `tmp/`: {error}", self.client);
        Fault::storage(what).help(match error.kind() {
            io::ErrorKind::StorageFull => {
                "free some space, choose another store with `--cache DIR`, or allow more memory with `--memory SIZE`"
            }
            _ => "run the pipeline again; if it comes back, check the disk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::sheet::PAGE;
    use super::*;

    fn shelf() -> Shelf {
        Shelf::new(tempfile::tempfile().expect("a temporary file")).expect("there are threads")
    }

    fn sheet(content: &[u8]) -> Sheet {
        Sheet::with_room(content.len()).written(|mut bytes| {
            bytes.extend_from_slice(content);
            bytes
        })
    }

    /// Waits until everything is written.
    fn settle(shelf: &Shelf) {
        let state = shelf.shared.state();
        drop(shelf.shared.changed.wait_while(state, |state| !state.queue.is_empty() && state.failed.is_none()).expect("no panic"));
    }

    #[test]
    fn what_is_put_comes_back_and_places_are_used_again() {
        let shelf = shelf();
        let put = |value: u8, len: usize| shelf.put(value.into(), sheet(&vec![value; len])).expect("writable");
        let holds = |slot: &Slot, value: u8, len: usize| shelf.get(slot).expect("there").content() == vec![value; len];
        let (first, second) = (put(1, 5000), put(2, PAGE));
        assert!(holds(&first, 1, 5000) && holds(&second, 2, PAGE));
        shelf.free(first);
        let third = put(3, 4500);
        assert_eq!((third.start, third.room), (0, 2 * PAGE as u64));
        let fourth = put(4, 1);
        assert_eq!(fourth.start, 3 * PAGE as u64);
        settle(&shelf);
        assert!(holds(&third, 3, 4500) && holds(&second, 2, PAGE) && holds(&fourth, 4, 1));
    }

    #[test]
    fn many_threads_put_and_get_at_once() {
        let shelf = shelf();
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let shelf = &shelf;
                scope.spawn(move || {
                    for turn in 0..50_u8 {
                        let len = 1000 * (1 + usize::from(turn % 7));
                        let value = thread ^ turn;
                        let slot = shelf.put(thread.into(), sheet(&vec![value; len])).expect("writable");
                        if turn % 3 == 0 {
                            settle(shelf);
                        }
                        if turn % 4 == 0 {
                            shelf.expect(VecDeque::from([slot.clone()]));
                        }
                        let found = shelf.get(&slot).expect("there");
                        assert!(found.content() == vec![value; len]);
                        shelf.done_with(found);
                        shelf.free(slot);
                    }
                });
            }
        });
        settle(&shelf);
        assert!(shelf.shared.state().used.len() <= WAITING);
    }

    #[test]
    fn what_is_expected_is_read_ahead_and_forgotten_when_other_things_are() {
        let shelf = shelf();
        let slots: Vec<Slot> = (0..10).map(|i| shelf.put(i, sheet(&[i as u8; 3000])).expect("writable")).collect();
        settle(&shelf);
        let ahead = || {
            let state = shelf.shared.wait_while(shelf.shared.state(), |state| state.ready.len() < WAITING);
            state.ready.iter().map(|(slot, _)| slot.client).collect::<Vec<_>>()
        };
        let holds = |i: usize| shelf.get(&slots[i]).expect("there").content() == [i as u8; 3000];
        shelf.expect(slots.iter().cloned().collect());
        assert_eq!(ahead(), [0, 1, 2, 3]);
        assert!(holds(0) && holds(9));
        assert_eq!(ahead(), [3, 1, 2, 4]);
        shelf.expect(slots.iter().rev().cloned().collect());
        assert_eq!(ahead(), [9, 8, 7, 6]);
        assert!((0..10).all(holds));
        assert!(shelf.shared.state().ready.is_empty() && shelf.shared.state().expected.is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn damage_is_noticed() {
        let shelf = shelf();
        let slot = shelf.put(3, sheet(&[7; 64])).expect("writable");
        settle(&shelf);
        let file = &shelf.shared.disk.file;
        disk::past_the_cache(file, false);
        disk::write_at(file, &[8], 5).expect("writable");
        shelf.expect(VecDeque::from([slot.clone()]));
        let fault = shelf.get(&slot).expect_err("changed");
        assert!(fault.what.contains("client 3 ") && fault.what.contains("not what was written"), "{fault}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_a_fault_with_help_for_all_that_follows() {
        let full = File::options().read(true).write(true).open("/dev/full").expect("there on Linux");
        let shelf = Shelf::new(full).expect("there are threads");
        let slot = shelf.put(5, sheet(&[1; 10])).expect("it is only written later");
        settle(&shelf);
        for fault in [shelf.get(&slot).expect_err("always full"), shelf.put(6, sheet(&[1; 10])).expect_err("always full")] {
            assert!(fault.at.is_empty() && fault.what.contains("client 5 "), "{fault}");
            assert!(fault.help.is_some_and(|help| help.contains("--memory")), "{}", fault.what);
        }
    }
}
