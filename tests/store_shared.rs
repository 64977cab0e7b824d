//! Several processes on one store, and processes killed at any time.

mod toy;

use pflpipe::base::Digest;
use pflpipe::exec::{Settings, State};
use pflpipe::stage::task::Outputs;
use pflpipe::store::{Record, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toy::{Graph, ToyRunner, quick_store, run_here};

const WORLD: &str = "PFLPIPE_TEST_STORE";

fn graph() -> Graph {
    let mut graph = Graph::six(1);
    for n in 0..8 {
        let s = graph.add(&format!("s{n}"), "steps", json!({"steps": 20, "pause_ms": 1, "n": n}), &[n % 2]);
        graph.add(&format!("t{n}"), "sum", json!({"plus": n}), &[s]);
    }
    graph
}

fn settings() -> Settings {
    Settings { slots: 2, ..Settings::default() }
}

/// Not a test: other tests start this program again with these arguments, to run the graph in a process of its own.
#[test]
fn process_entry() {
    if let Some(root) = std::env::var_os(WORLD) {
        let ran = run_here(&graph(), &quick_store(Path::new(&root)), &Arc::default(), &settings());
        std::process::exit(i32::from(ran.summary.fault().is_some()));
    }
}

fn spawn(root: &Path) -> Child {
    Command::new(std::env::current_exe().expect("known"))
        .args(["process_entry", "--exact", "--nocapture"])
        .env(WORLD, root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("can be started")
}

fn by_key(ran: &toy::Ran) -> BTreeMap<Digest, Outputs> {
    let keys = ran.summary.keys.iter().map(|k| k.expect("known"));
    keys.zip(ran.summary.outputs.iter().map(|o| o.clone().expect("done"))).collect()
}

fn reference() -> BTreeMap<Digest, Outputs> {
    let dir = tempfile::tempdir().expect("temporary folder");
    by_key(&run_here(&graph(), &quick_store(dir.path()), &Arc::default(), &settings()))
}

#[test]
fn two_processes_do_each_stage_once() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let mut children: Vec<Child> = (0..2).map(|_| spawn(dir.path())).collect();
    for child in &mut children {
        assert!(child.wait().expect("ends").success());
    }
    let store = quick_store(dir.path());
    let runner = Arc::new(ToyRunner::default());
    let ran = run_here(&graph(), &store, &runner, &settings());
    assert_eq!((ran.count(State::Cached), runner.started()), (graph().jobs.len(), 0));
    assert_eq!(by_key(&ran), reference());
    for key in ran.summary.keys.iter().flatten() {
        assert_eq!(store.attempts(key), 1, "one attempt for each stage");
    }
}

#[test]
fn killed_at_any_time_leaves_whole_results_and_the_next_run_continues() {
    let reference = reference();
    let (mut killed, mut resumed) = (0, false);
    let whole = {
        let dir = tempfile::tempdir().expect("temporary folder");
        let begun = Instant::now();
        spawn(dir.path()).wait().expect("ends");
        begun.elapsed()
    };
    for round in 0..12_u32 {
        let dir = tempfile::tempdir().expect("temporary folder");
        // Two processes, killed twice each, at times spread over a run.
        for step in 0..2_u32 {
            let mut children = [spawn(dir.path()), spawn(dir.path())];
            std::thread::sleep(whole * (round * 2 + step + 1) / 26);
            for child in &mut children {
                killed += usize::from(child.try_wait().expect("can be asked").is_none());
                let _ = child.kill();
                child.wait().expect("ends");
            }
            check(dir.path(), &reference);
        }
        let store = quick_store(dir.path());
        let ran = run_here(&graph(), &store, &Arc::default(), &settings());
        assert_eq!(by_key(&ran), reference, "round {round}");
        for key in ran.summary.keys.iter().flatten() {
            let last = store.attempts(key);
            resumed |= last > 1 && store.log(key, last).is_ok_and(|log| log.contains("from step ") && !log.contains("from step 0"));
        }
    }
    println!("{killed} processes were killed in the middle; a stage continued from its checkpoint: {resumed}");
    assert!(killed > 12, "{killed}");
    assert!(resumed, "no kill came between two checkpoints");
}

fn check(root: &Path, reference: &BTreeMap<Digest, Outputs>) {
    let store = Store::open(root).expect("a store");
    for (key, outputs) in reference {
        if let Some(found) = store.lookup(key) {
            assert_eq!(found, *outputs);
        }
        assert!(!store.leased(key), "the kernel frees what a killed process held");
    }
    let verified = store.verify(1.0);
    assert_eq!((verified.damaged.len(), verified.hollow.len()), (0, 0), "{verified:?}");
}

#[test]
fn many_writers_of_one_key_leave_one_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let key = Digest::of(b"contended");
    std::thread::scope(|scope| {
        for n in 0..8_u32 {
            let root = dir.path();
            scope.spawn(move || {
                let store = quick_store(root);
                let object = store.put(&n.to_le_bytes()).expect("writable");
                let record = Record::new(key, "train", "run", BTreeMap::from([("m".to_owned(), object)]));
                store.publish(&record).expect("writable");
            });
        }
    });
    let store = quick_store(dir.path());
    assert!(store.lookup(&key).is_some());
    let shard = dir.path().join("rec").join(&key.hex()[..2]);
    assert_eq!(std::fs::read_dir(shard).expect("listable").count(), 8, "one record and seven alternatives");
    assert_eq!(store.ls().len(), 1);
}

#[test]
fn collecting_garbage_beside_a_run_never_breaks_it() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let policy = pflpipe::store::GcPolicy { max_bytes: 0, keep_runs: 1, ..Default::default() };
    let reference = reference();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = quick_store(dir.path());
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                store.gc(&policy).expect("possible");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        for _ in 0..5 {
            let store = quick_store(dir.path());
            let ran = run_here(&graph(), &store, &Arc::default(), &settings());
            assert_eq!(by_key(&ran), reference);
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}
