//! The stages of a pipeline, run one after the other without a scheduler: equal outputs every time, resumed or not.

use pflpipe::algorithms;
use pflpipe::base::threads::Budget;
use pflpipe::base::{Digest, FaultKind, Outcome};
use pflpipe::fl::History;
use pflpipe::stage::Stages;
use pflpipe::stage::task::{Host, Outputs, Report, Runner, Task};
use pflpipe::store::Store;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A host that stops a stage after some rounds.
struct TestHost {
    store: Store,
    budget: Budget,
    rounds_left: AtomicU64,
    _folder: tempfile::TempDir,
}

impl TestHost {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(folder.path()).expect("a new store");
        Self { store, budget: Budget::new(1), rounds_left: AtomicU64::new(u64::MAX), _folder: folder }
    }
}

impl Host for TestHost {
    fn store(&self) -> &Store {
        &self.store
    }
    fn budget(&self) -> &Budget {
        &self.budget
    }
    fn data_dirs(&self) -> &[PathBuf] {
        &[]
    }
    fn report(&self, report: Report) {
        if matches!(report, Report::Progress { .. }) {
            self.rounds_left.fetch_sub(1, Ordering::Relaxed);
        }
    }
    fn stopping(&self) -> bool {
        self.rounds_left.load(Ordering::Relaxed) == 0
    }
}

fn task(kind: &str, params: Value, inputs: &[(&str, &Outputs)]) -> Task {
    let inputs = inputs.iter().map(|(slot, outputs)| ((*slot).to_owned(), (*outputs).clone())).collect::<BTreeMap<_, _>>();
    let params = params.as_object().expect("a map").clone();
    let key = Digest::of(format!("{kind}{params:?}{inputs:?}").as_bytes());
    Task {
        key,
        kind: kind.to_owned(),
        label: kind.to_owned(),
        params,
        inputs,
        shorter: None,
        device: "cpu".to_owned(),
        checkpoint_seconds: 0.0,
        memory: None,
    }
}

fn train_task(host: &TestHost, stages: &Stages, rounds: u64) -> Outcome<Task> {
    let data = stages.run(&task("dataset", json!({"name": "optdigits"}), &[]), host)?;
    let partition = json!({"kind": "dirichlet", "alpha": 0.3, "clients": 6, "seed": 1});
    let split = stages.run(&task("partition", partition, &[("data", &data)]), host)?;
    let model = json!({"kind": "cnn", "widths": [4, 8], "kernel": 3, "padding": 1, "hidden": 16, "seed": 1});
    let net = stages.run(&task("model", model, &[("data", &data)]), host)?;
    let params = json!({
        "algorithm": {"name": "ditto", "mu": 1.0, "personal_epochs": 1}, "rounds": rounds, "seed": 3,
        "learning_rate": 0.05, "join_ratio": 0.5, "slow_drawing": "exact",
    });
    Ok(task("train", params, &[("partition", &split), ("model", &net)]))
}

fn stages() -> Stages {
    Stages { algorithms: algorithms::all() }
}

#[test]
fn a_training_learns_and_gives_the_same_objects_in_another_store() {
    let run = || {
        let (host, stages) = (TestHost::new(), stages());
        let task = train_task(&host, &stages, 8).expect("the inputs are made");
        let outputs = stages.run(&task, &host).expect("it trains");
        let metrics = host.store.read(&outputs["metrics"]).expect("it is stored");
        (outputs, serde_json::from_slice::<History>(&metrics).expect("a history"))
    };
    let ((first, history), (second, _)) = (run(), run());
    assert_eq!(first, second);
    let accuracy = history.series("test_accuracy");
    assert_eq!(accuracy.len(), 9);
    assert!(accuracy[8].1 > accuracy[0].1 + 0.3, "{accuracy:?}");
}

#[test]
fn a_stopped_training_continues_from_its_checkpoint_to_the_same_objects() {
    let (host, stages) = (TestHost::new(), stages());
    let task = train_task(&host, &stages, 5).expect("the inputs are made");
    let whole = stages.run(&task, &host).expect("it trains");
    for rounds in 1..5 {
        host.rounds_left.store(rounds, Ordering::Relaxed);
        let fault = stages.run(&task, &host).expect_err("it is stopped");
        assert_eq!(fault.kind, FaultKind::Interrupted);
        host.rounds_left.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(stages.run(&task, &host).expect("it continues"), whole, "stopped after {rounds} rounds");
    }
}

#[test]
fn the_limit_of_memory_changes_no_object_and_nothing_is_left_behind() {
    let (host, stages) = (TestHost::new(), stages());
    let mut task = train_task(&host, &stages, 5).expect("the inputs are made");
    let whole = stages.run(&task, &host).expect("it trains");
    let objects = host.store.info().objects;
    task.memory = Some(0);
    for rounds in [u64::MAX, 2] {
        host.rounds_left.store(rounds, Ordering::Relaxed);
        let first = stages.run(&task, &host);
        host.rounds_left.store(u64::MAX, Ordering::Relaxed);
        let ended = if rounds == 2 { stages.run(&task, &host) } else { first };
        assert_eq!(ended.expect("it trains"), whole, "stopped after {rounds} rounds");
    }
    assert_eq!(host.store.info().objects, objects, "checkpoints are gone");
    assert_eq!(std::fs::read_dir(host._folder.path().join("tmp")).expect("a folder").count(), 0);
}

#[test]
fn more_rounds_start_where_fewer_ended() {
    let (host, stages) = (TestHost::new(), stages());
    let short = stages.run(&train_task(&host, &stages, 3).expect("the inputs are made"), &host).expect("it trains");
    let mut long = train_task(&host, &stages, 6).expect("the inputs are made");
    let whole = stages.run(&long, &host).expect("it trains");
    long.shorter = Some(short);
    host.rounds_left.store(100, Ordering::Relaxed);
    assert_eq!(stages.run(&long, &host).expect("it trains"), whole);
    assert_eq!(host.rounds_left.load(Ordering::Relaxed), 97, "only the three new rounds ran");
}

#[test]
fn a_training_on_a_device_that_is_not_there_is_refused() {
    let (host, stages) = (TestHost::new(), stages());
    let mut task = train_task(&host, &stages, 1).expect("the inputs are made");
    task.device = "cuda:0".to_owned();
    assert_eq!(stages.run(&task, &host).expect_err("no such device").kind, FaultKind::Device);
}
