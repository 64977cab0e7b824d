//! What an attack keeps of its work: the state of the rounds that it simulates again, and of each search.
//!
//! All of it is one checkpoint of the stage, so that an attack that was interrupted, or ran out of time, goes on where it was.

use super::task::{Host, Report, Task};
use super::train;
use crate::attacks::Pause;
use crate::base::{Fault, ObjectRef, Outcome};
use crate::fl::checkpoint::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The checkpoint of an attack.
pub(super) struct Journal<'a> {
    task: &'a Task,
    host: &'a dyn Host,
    every: Duration,
    book: Mutex<Book>,
}

/// Where the parts of the checkpoint are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    rounds: BTreeMap<String, ObjectRef>,
    searches: BTreeMap<usize, ObjectRef>,
}

struct Book {
    manifest: Manifest,
    /// States that are not written yet.
    waiting: BTreeMap<usize, Vec<f64>>,
    /// When the checkpoint was written last, or the stage began.
    written: Instant,
    /// When the state of each search was kept last, or the search began.
    kept: BTreeMap<usize, Instant>,
}

impl<'a> Journal<'a> {
    /// What was left behind, or an empty one.
    pub fn open(task: &'a Task, host: &'a dyn Host) -> Self {
        let found = host.store().load_checkpoint(&task.key).map(|bytes| serde_json::from_slice::<Manifest>(&bytes));
        let manifest = match found {
            Some(Ok(manifest)) => {
                let line = format!("continues with the work of {} searches", manifest.searches.len());
                host.report(Report::Log { warning: false, line });
                manifest
            }
            Some(Err(e)) => {
                host.report(Report::Log { warning: true, line: format!("the checkpoint's manifest is damaged ({e}); it is not used") });
                Manifest::default()
            }
            None => Manifest::default(),
        };
        let book = Book { manifest, waiting: BTreeMap::new(), written: Instant::now(), kept: BTreeMap::new() };
        Self { task, host, every: Duration::from_secs_f64(task.checkpoint_seconds.clamp(0.0, 1e9)), book: Mutex::new(book) }
    }
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The state of the rounds that were simulated again.
    pub fn rounds(&self) -> Option<Outcome<Snapshot>> {
        let tree = self.book().manifest.rounds.clone();
        (!tree.is_empty()).then(|| train::read(&tree, |part| self.host.store().read_part(&self.task.key, part)))
    }
    /// Whether the state of rounds should be kept again.
    pub fn due(&self) -> bool {
        self.book().written.elapsed() >= self.every
    }
    /// Keeps the state of the rounds.
    pub fn keep_rounds(&self, snapshot: &Snapshot) -> Outcome<()> {
        let mut book = self.book();
        let tree = train::put(snapshot, |bytes| self.host.store().put_part(&self.task.key, bytes))?;
        let old = std::mem::replace(&mut book.manifest.rounds, tree);
        self.write(&mut book, old.into_values().collect())
    }
    /// The other side of a search.
    pub fn search(&self, number: usize) -> Search<'_> {
        self.book().kept.insert(number, Instant::now());
        Search { journal: self, number }
    }
    /// Forgets everything: the result is there.
    pub fn close(&self) {
        self.host.store().drop_checkpoint(&self.task.key);
    }
    /// Writes the checkpoint with all states that wait; `outdated` parts go unless it still names them.
    fn write(&self, book: &mut Book, mut outdated: Vec<ObjectRef>) -> Outcome<()> {
        let (store, key) = (self.host.store(), &self.task.key);
        for (number, state) in std::mem::take(&mut book.waiting) {
            let bytes: Vec<u8> = state.iter().flat_map(|v| v.to_le_bytes()).collect();
            outdated.extend(book.manifest.searches.insert(number, store.put_part(key, &bytes)?));
        }
        let manifest = serde_json::to_vec(&book.manifest).map_err(|e| Fault::internal(format!("a checkpoint has no JSON form: {e}")))?;
        let objects: Vec<ObjectRef> = book.manifest.rounds.values().chain(book.manifest.searches.values()).copied().collect();
        store.save_checkpoint(key, &manifest, &objects)?;
        outdated.retain(|old| !objects.contains(old));
        store.retire(key, &outdated);
        book.written = Instant::now();
        Ok(())
    }
}

/// The other side of one search of an attack.
pub(super) struct Search<'a> {
    journal: &'a Journal<'a>,
    number: usize,
}

impl Pause for Search<'_> {
    fn stopping(&self) -> bool {
        self.journal.host.stopping()
    }
    fn due(&self) -> bool {
        self.journal.book().kept.get(&self.number).is_none_or(|kept| kept.elapsed() >= self.journal.every)
    }
    fn keep(&self, state: &[f64]) -> Outcome<()> {
        let mut book = self.journal.book();
        book.waiting.insert(self.number, state.to_vec());
        book.kept.insert(self.number, Instant::now());
        self.journal.write(&mut book, Vec::new())
    }
    fn finish(&self, state: &[f64]) -> Outcome<()> {
        let mut book = self.journal.book();
        book.waiting.insert(self.number, state.to_vec());
        // Searches that end quickly are written together.
        if book.written.elapsed() >= self.journal.every { self.journal.write(&mut book, Vec::new()) } else { Ok(()) }
    }
    fn kept(&self) -> Option<Vec<f64>> {
        let part = *self.journal.book().manifest.searches.get(&self.number)?;
        match self.journal.host.store().read_part(&self.journal.task.key, &part) {
            Ok(bytes) => Some(bytes.as_chunks::<8>().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()),
            // It costs time, never the result.
            Err(fault) => {
                self.journal.host.report(Report::Log { warning: true, line: format!("{fault}; the search starts from its beginning") });
                None
            }
        }
    }
}
