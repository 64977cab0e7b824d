//! Several processes on one store, and processes killed at any time.

mod toy;

use pflpipe::base::threads::Budget;
use pflpipe::base::{Digest, FaultKind};
use pflpipe::exec::{InProcess, Interrupt, Schedule, Settings, State};
use pflpipe::stage::task::Outputs;
use pflpipe::store::{GcPolicy, Record, RunStart, RunStatus, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use toy::{Graph, ToyRunner, quick_store, run_here};

const WORLD: &str = "PFLPIPE_TEST_STORE";

fn graph(first: u64) -> Graph {
    let mut graph = Graph::six(first);
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
        let ran = run_here(&graph(1), &quick_store(Path::new(&root)), &Arc::default(), &settings());
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

fn reference(first: u64) -> BTreeMap<Digest, Outputs> {
    let dir = tempfile::tempdir().expect("temporary folder");
    by_key(&run_here(&graph(first), &quick_store(dir.path()), &Arc::default(), &settings()))
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
    let ran = run_here(&graph(1), &store, &runner, &settings());
    assert_eq!((ran.count(State::Cached), runner.started()), (graph(1).jobs.len(), 0));
    assert_eq!(by_key(&ran), reference(1));
    for key in ran.summary.keys.iter().flatten() {
        assert_eq!(store.attempts(key), 1, "one attempt for each stage");
    }
}

#[test]
fn killed_at_any_time_leaves_whole_results_and_the_next_run_continues() {
    let reference = reference(1);
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
        let ran = run_here(&graph(1), &store, &Arc::default(), &settings());
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
fn collecting_garbage_beside_runs_never_gives_a_wrong_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let policy = GcPolicy { max_bytes: 0, keep_runs: 1, ..GcPolicy::default() };
    let references: Vec<_> = (1..4).map(reference).collect();
    let done = AtomicBool::new(false);
    let removed = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let store = quick_store(dir.path());
            let mut removed = 0;
            while !done.load(Ordering::SeqCst) {
                removed += store.gc(&policy).expect("possible").results.len();
                std::thread::sleep(Duration::from_millis(2));
            }
            removed
        });
        for n in 0..9 {
            // As if the last run had been long ago: everything that nothing keeps may go.
            age_objects(dir.path());
            let store = quick_store(dir.path());
            let history = store.begin_run(&RunStart { pipeline: "p".to_owned(), ..RunStart::default() }).expect("writable");
            let (graph, reference) = (graph(1 + n % 3), &references[usize::try_from(n % 3).expect("small")]);
            let executor = InProcess::new(&store, Arc::new(ToyRunner::default()), &Budget::new(2), &[]);
            let (settings, interrupt) = (settings(), Interrupt::new());
            let schedule = Schedule {
                jobs: &graph.jobs,
                planner: &graph,
                store: &store,
                executor: &executor,
                settings: &settings,
                interrupt: &interrupt,
                history: Some(&history),
            };
            let summary = schedule.run(&mut |_| {}).expect("a sound graph");
            for (key, outputs) in summary.keys.iter().zip(&summary.outputs) {
                if let (Some(key), Some(outputs)) = (key, outputs) {
                    assert_eq!(reference.get(key), Some(outputs));
                }
            }
            // An object may go in the moment between being found and being read; then the run says so, and the next one is fine.
            if let Some(fault) = summary.fault() {
                assert_eq!(fault.kind, FaultKind::Storage, "{fault}");
            }
            history.finish(RunStatus::Done, BTreeMap::new()).expect("writable");
        }
        done.store(true, Ordering::SeqCst);
        collector.join().expect("no panic")
    });
    println!("{removed} results were removed");
    assert!(removed > 0);
    let ran = run_here(&graph(1), &quick_store(dir.path()), &Arc::default(), &settings());
    assert_eq!(by_key(&ran), references[0]);
}

fn age_objects(root: &Path) {
    let old = SystemTime::now() - Duration::from_secs(7200);
    for shard in std::fs::read_dir(root.join("cas")).into_iter().flatten().flatten() {
        for object in std::fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            // It may be collected at this very moment.
            let _ = std::fs::File::open(object.path()).and_then(|file| file.set_modified(old));
        }
    }
}

#[cfg(unix)]
#[test]
fn pipes_in_the_place_of_files_block_nothing() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let (first, keys) = {
        let store = quick_store(dir.path());
        let ran = run_here(&Graph::six(1), &store, &Arc::default(), &settings());
        (by_key(&ran), ran.summary.keys.iter().flatten().copied().collect::<Vec<_>>())
    };
    let pipe = |path: &Path| {
        let _ = std::fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo is there").success());
    };
    let in_store = |folder: &str, digest: &Digest, end: &str| {
        dir.path().join(folder).join(&digest.hex()[..2]).join(format!("{}{end}", &digest.hex()[2..]))
    };
    pipe(&in_store("rec", &keys[0], ".json"));
    pipe(&in_store("cas", &first[&keys[1]]["value"].digest, ""));
    pipe(&dir.path().join("ckpt").join(format!("{}.json", keys[3].hex())));
    pipe(&dir.path().join("index.sqlite"));
    let store = quick_store(dir.path());
    assert_eq!(store.load_checkpoint(&keys[3]), None);
    let ran = run_here(&Graph::six(1), &store, &Arc::default(), &settings());
    assert_eq!(by_key(&ran), first);
    assert!(store.verify(1.0).damaged.is_empty());
    pipe(&dir.path().join("lease").join(Digest::of(b"new").hex()));
    assert!(store.try_lease(&Digest::of(b"new")).is_err());
    pipe(&dir.path().join("version"));
    let fault = Store::open(dir.path()).expect_err("no version");
    assert!(fault.what.contains("not a regular file") && fault.help.is_some(), "{fault}");
}
