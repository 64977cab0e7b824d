//! Every file operation of a run fails in turn, and nothing that was published is lost, half-written or wrong.

mod toy;

use pflpipe::base::Digest;
use pflpipe::exec::{Event, State};
use pflpipe::stage::task::Outputs;
use pflpipe::store::files::Stat;
use pflpipe::store::{Disk, Files, RunStart, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use toy::{Graph, Ran, run_here};

/// How the n-th operation fails.
#[derive(Clone, Copy, Debug)]
enum Failing {
    /// With this error, once.
    Once(io::ErrorKind),
    /// From then on every operation fails, as when the process dies there.
    Dead,
}

/// Counts operations, fails one, and watches that nothing is named before it is on the disk.
#[derive(Debug)]
struct Faulty {
    count: AtomicUsize,
    fail_at: usize,
    failing: Failing,
    /// Files and folders with changes that were not forced to the disk.
    dirty: Mutex<BTreeSet<PathBuf>>,
    too_early: Mutex<Vec<String>>,
}

impl Faulty {
    fn new(fail_at: usize, failing: Failing) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), fail_at, failing, dirty: Mutex::default(), too_early: Mutex::default() })
    }

    fn step(&self) -> io::Result<()> {
        let n = self.count.fetch_add(1, Ordering::SeqCst);
        match self.failing {
            Failing::Once(kind) if n == self.fail_at => Err(kind.into()),
            Failing::Dead if n >= self.fail_at => Err(io::Error::other("the process is dead")),
            _ => Ok(()),
        }
    }

    fn dirty(&self, path: &Path) {
        self.dirty.lock().expect("not poisoned").insert(path.to_owned());
    }

    fn named(&self, from: &Path, to: &Path) {
        let mut dirty = self.dirty.lock().expect("not poisoned");
        let kept = ["cas", "rec", "ckpt"].iter().any(|folder| to.components().any(|c| c.as_os_str() == *folder));
        if kept && dirty.contains(from) {
            self.too_early.lock().expect("not poisoned").push(format!("{} is named before its content is kept", to.display()));
        }
        let is_record = to.components().any(|c| c.as_os_str() == "rec");
        if is_record && let Some(folder) = dirty.iter().find(|path| path.components().any(|c| c.as_os_str() == "cas")) {
            self.too_early.lock().expect("not poisoned").push(format!("{} is named before {} is kept", to.display(), folder.display()));
        }
        dirty.extend(to.parent().map(Path::to_owned));
    }
}

impl Files for Faulty {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.dirty.lock().expect("not poisoned").extend(path.parent().map(Path::to_owned));
        Disk.create_folder(path)
    }
    fn write_new(&self, path: &Path, bytes: &[u8], read_only: bool) -> io::Result<()> {
        if let Err(error) = self.step() {
            // A full disk and a crash leave a part of the file behind.
            let _ = Disk.write_new(path, &bytes[..bytes.len() / 2], read_only);
            return Err(error);
        }
        self.dirty(path);
        Disk.write_new(path, bytes, read_only)
    }
    fn append(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.step() {
            let _ = Disk.append(path, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        Disk.append(path, bytes)
    }
    fn sync(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.dirty.lock().expect("not poisoned").remove(path);
        Ok(())
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Disk.link(from, to)?;
        self.named(from, to);
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        Disk.rename(from, to)?;
        self.named(from, to);
        Ok(())
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.step()?;
        Disk.read(path)
    }
    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.step()?;
        Disk.read_head(path, limit)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.step()?;
        Disk.stat(path)
    }
    fn touch(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.touch(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.dirty.lock().expect("not poisoned").remove(path);
        Disk.remove(path)
    }
    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        Disk.remove_folder(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.step()?;
        Disk.list(path)
    }
    fn lock(&self, path: &Path, wait: bool) -> io::Result<Option<File>> {
        self.step()?;
        Disk.lock(path, wait)
    }
}

fn settings() -> pflpipe::exec::Settings {
    pflpipe::exec::Settings { keep_going: true, ..pflpipe::exec::Settings::default() }
}

/// One run with those files: what it came to, when the store could be opened.
fn run_with(root: &Path, files: &Arc<Faulty>) -> Option<Ran> {
    let store = Store::open_with(root, Arc::clone(files) as Arc<dyn Files>, true).ok()?;
    let history = store.begin_run(&RunStart { pipeline: "six".to_owned(), ..RunStart::default() });
    let ran = run_here(&Graph::six(1), &store, &Arc::default(), &settings());
    if let Ok(history) = history {
        ran.events.iter().for_each(|event| history.event(event));
    }
    Some(ran)
}

/// What a run without failures gives, by key.
fn reference() -> (BTreeMap<Digest, Outputs>, usize) {
    let dir = tempfile::tempdir().expect("temporary folder");
    let files = Faulty::new(usize::MAX, Failing::Dead);
    let ran = run_with(dir.path(), &files).expect("no failure");
    assert!(ran.summary.states.iter().all(|s| *s == State::Done));
    assert_eq!(*files.too_early.lock().expect("not poisoned"), Vec::<String>::new());
    let keys = ran.summary.keys.iter().map(|k| k.expect("known"));
    (keys.zip(ran.summary.outputs.iter().map(|o| o.clone().expect("done"))).collect(), files.count.load(Ordering::SeqCst))
}

fn check(root: &Path, ran: Option<&Ran>, reference: &BTreeMap<Digest, Outputs>, what: &str) {
    let store = Store::open_with(root, Arc::new(Disk), false).unwrap_or_else(|e| panic!("{what}: {e}"));
    // Whatever was said to be done is there after reopening.
    if let Some(ran) = ran {
        for (job, key) in ran.summary.keys.iter().enumerate() {
            if ran.state(job) == State::Done {
                assert!(store.lookup(&key.expect("known")).is_some(), "{what}: job {job} was done and is not there");
            }
        }
    }
    // Whatever is there is whole and right.
    for (key, outputs) in reference {
        if let Some(found) = store.lookup(key) {
            assert_eq!(found, *outputs, "{what}");
        }
    }
    let verified = store.verify(1.0);
    assert_eq!((verified.damaged.len(), verified.hollow.len()), (0, 0), "{what}: {verified:?}");
    // And the next run just continues.
    let again = run_here(&Graph::six(1), &store, &Arc::default(), &settings());
    assert!(again.summary.states.iter().all(|s| s.has_outputs()), "{what}: {:?}", again.summary.faults);
    let keys = again.summary.keys.iter().map(|k| k.expect("known"));
    let values = again.summary.outputs.iter().map(|o| o.clone().expect("done"));
    assert_eq!(keys.zip(values).collect::<BTreeMap<_, _>>(), *reference, "{what}");
}

fn every_operation(failing: Failing) {
    let (reference, operations) = reference();
    assert!(operations > 200, "{operations} operations: does the layer still see all of them?");
    let (mut failed, mut survived) = (0, 0);
    for n in 0..operations {
        let dir = tempfile::tempdir().expect("temporary folder");
        let files = Faulty::new(n, failing);
        let ran = run_with(dir.path(), &files);
        let whole = ran.as_ref().is_some_and(|r| r.summary.states.iter().all(|s| s.has_outputs()));
        *(if whole { &mut survived } else { &mut failed }) += 1;
        check(dir.path(), ran.as_ref(), &reference, &format!("operation {n} of {operations}, {failing:?}"));
    }
    println!("{failing:?}: {operations} operations, {failed} runs failed, {survived} did not mind");
}

#[test]
fn a_full_disk_at_any_operation_loses_nothing_published() {
    every_operation(Failing::Once(io::ErrorKind::StorageFull));
}

#[test]
fn an_input_output_error_at_any_operation_loses_nothing_published() {
    every_operation(Failing::Once(io::ErrorKind::Other));
}

#[test]
fn dying_at_any_operation_loses_nothing_published() {
    every_operation(Failing::Dead);
}

#[test]
fn a_full_disk_is_said_with_what_to_do() {
    let dir = tempfile::tempdir().expect("temporary folder");
    Store::open(dir.path()).expect("a store");
    let (_, operations) = reference();
    let mut seen = false;
    for n in 0..operations {
        let store = Store::open_with(dir.path(), Faulty::new(n, Failing::Once(io::ErrorKind::StorageFull)), true);
        let fault = store.and_then(|store| store.put(b"some content")).err();
        if let Some(fault) = fault.filter(|f| f.what.contains("cannot write")) {
            seen = true;
            assert_eq!(fault.kind.exit_code(), 4);
            assert!(fault.help.expect("says what to do").contains("free some space"));
        }
        let store = Store::open(dir.path()).expect("a store");
        let object = store.put(b"some content").expect("writable");
        std::fs::remove_file(dir.path().join("cas").join(&object.digest.hex()[..2]).join(&object.digest.hex()[2..])).expect("there");
    }
    assert!(seen);
}

#[test]
fn a_warning_tells_of_a_history_that_cannot_be_kept() {
    let (_, operations) = reference();
    let mut told = false;
    for n in 0..operations {
        let dir = tempfile::tempdir().expect("temporary folder");
        let files = Faulty::new(n, Failing::Once(io::ErrorKind::Other));
        let Some(ran) = run_with(dir.path(), &files) else { continue };
        told |= ran.events.iter().any(|e| matches!(e, Event::Warning { line } if line.contains("cannot write") && line.contains("log")));
        if told {
            return;
        }
    }
    panic!("no run warned");
}
