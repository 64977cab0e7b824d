//! How long a run takes that finds everything cached, and what scheduling costs: `cargo bench --bench nothing_to_do`.
//!
//! Prints one line a size: opening the store, looking up every key, and a whole run of the scheduler; then the mean cost of a stage
//! that does nothing. An argument limits the largest size.

use pflpipe::base::threads::Budget;
use pflpipe::base::{Digest, Outcome};
use pflpipe::exec::{InProcess, Interrupt, Job, Planner, Prepared, Schedule, Settings};
use pflpipe::stage::task::{Host, Outputs, Runner, Task};
use pflpipe::store::{Disk, Record, Store};
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Stages without inputs, known by their number.
struct Numbers;

impl Planner for Numbers {
    fn key(&self, job: usize, _outputs: &[Option<Outputs>]) -> Outcome<Digest> {
        Ok(key(job))
    }
    fn prepare(&self, job: usize, _outputs: &[Option<Outputs>]) -> Outcome<Prepared> {
        let task = Task {
            key: key(job),
            kind: "number".to_owned(),
            label: format!("number[{job}]"),
            params: Map::from_iter([("value".to_owned(), json!(job))]),
            inputs: BTreeMap::new(),
            shorter: None,
            device: "cpu".to_owned(),
            checkpoint_seconds: 60.0,
            memory: None,
        };
        Ok(Prepared { task, manifest: json!({"value": job}), lineage: None, extent: None })
    }
}

impl Runner for Numbers {
    fn run(&self, task: &Task, host: &dyn Host) -> Outcome<Outputs> {
        let object = host.store().put(task.params["value"].to_string().as_bytes())?;
        Ok(BTreeMap::from([("metrics".to_owned(), object)]))
    }
}

fn key(job: usize) -> Digest {
    Digest::of(&job.to_le_bytes())
}

fn open(root: &Path) -> Store {
    Store::open_with(root, Arc::new(Disk), false).expect("a store")
}

/// Publishes results with two outputs each.
fn publish(root: &Path, count: usize) {
    let store = open(root);
    let common = store.put(b"what all have in common").expect("writable");
    for job in 0..count {
        let metrics = store.put(format!("metrics of {job}").as_bytes()).expect("writable");
        let outputs = BTreeMap::from([("metrics".to_owned(), metrics), ("model".to_owned(), common)]);
        store.publish(&Record::new(key(job), "number", "number", outputs)).expect("writable");
    }
}

fn schedule(store: &Store, count: usize, slots: usize) -> Duration {
    let jobs: Vec<Job> = (0..count).map(|n| Job { label: format!("number[{n}]"), ..Job::new("number", "number", vec![]) }).collect();
    let executor = InProcess::new(store, Arc::new(Numbers), &Budget::new(slots), &[]);
    let (settings, interrupt) = (Settings { slots, ..Settings::default() }, Interrupt::new());
    let begun = Instant::now();
    let schedule =
        Schedule { jobs: &jobs, planner: &Numbers, store, executor: &executor, settings: &settings, interrupt: &interrupt, history: None };
    let summary = schedule.run(&mut |event| drop(black_box(event.clone()))).expect("a sound graph");
    assert!(summary.states.iter().all(|state| state.has_outputs()));
    begun.elapsed()
}

fn main() {
    let limit = std::env::args().filter_map(|a| a.parse::<usize>().ok()).next().unwrap_or(100_000);
    let dir = tempfile::tempdir().expect("temporary folder");
    println!("nothing to do: stages, open, lookups (a key), whole run");
    for count in [1_000, 10_000, 100_000].into_iter().filter(|n| *n <= limit) {
        let root = dir.path().join(count.to_string());
        publish(&root, count);
        let mut times: Vec<(Duration, Duration, Duration)> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                let store = open(&root);
                let opened = begun.elapsed();
                let begun = Instant::now();
                assert!((0..count).all(|job| store.lookup(&key(job)).is_some()));
                let looked = begun.elapsed();
                let store = open(&root);
                (opened, looked, schedule(&store, count, 2))
            })
            .collect();
        times.sort_by_key(|t| t.2);
        let (opened, looked, ran) = times[times.len() / 2];
        println!("{count:>7}  {opened:>9.2?}  {looked:>9.2?} ({:>5.2?})  {ran:>9.2?}", looked / u32::try_from(count).expect("small"));
    }
    for slots in [1, 2] {
        let store = open(&dir.path().join(format!("run{slots}")));
        let count = 2_000;
        let mean = schedule(&store, count, slots) / u32::try_from(count).expect("small");
        println!("mean cost of an empty stage on {slots} slots, without fsync: {mean:.2?}");
    }
}
