//! Clients that rest between their uses, in memory or in a file: every number is what it would be if nobody rested.

use crate::determinism::{Stop, bytes, stop};
use crate::small::{Case, every};
use pflpipe::base::{Digest, Outcome};
use pflpipe::fl::History;
use pflpipe::fl::checkpoint::Snapshot;
use pflpipe::fl::round::{Monitor, Parties};
use serde_json::json;
use std::fs::File;

/// A monitor that looks at everybody, so that nobody rests, or that has a file for those that rest.
struct Other {
    inner: Stop,
    looks: bool,
}

impl Monitor for Other {
    fn resume(&mut self) -> Outcome<Option<Snapshot>> {
        self.inner.resume()
    }
    fn progress(&mut self, done: u64, total: u64, history: &History) {
        self.inner.progress(done, total, history);
    }
    fn checkpoint_due(&mut self) -> bool {
        !self.looks
    }
    fn save(&mut self, snapshot: Snapshot) -> Outcome<()> {
        self.inner.save(snapshot)
    }
    fn shelf(&mut self) -> Outcome<Option<File>> {
        Ok(Some(tempfile::tempfile().expect("a temporary file")))
    }
    fn stopping(&self) -> bool {
        self.inner.stopping()
    }
    fn inspects(&self) -> bool {
        self.looks
    }
    fn inspect(&mut self, _: u64, _: &Parties) {}
}

/// Runs with a limit of memory; nobody rests where there is none.
fn run(case: &Case, memory: Option<u64>, after: Option<u64>, from: Option<Snapshot>) -> (Option<Vec<(String, Digest)>>, Option<Snapshot>) {
    let mut world = case.world();
    world.memory = memory;
    let _permit = world.budget.acquire();
    let mut monitor = Other { inner: stop(after, from), looks: memory.is_none() };
    let ran = case.build().simulate(&world, &mut monitor);
    (ran.ok().map(|run| bytes(&run)), monitor.inner.saved)
}

fn cases() -> Vec<Case> {
    let few =
        json!({"join_ratio": 0.4, "rounds": 6, "train_loss": "full", "learning_rate_decay": 0.9, "drop_rate": 0.3, "drop_count": "round"});
    let all: Vec<Case> = every().into_iter().filter(|case| case.build().rests()).map(|case| case.with(few.clone())).collect();
    assert!(all.len() >= 18);
    all.into_iter()
        .flat_map(|case| {
            [case.clone(), case.clone().norm().with(json!({"eval_every": 3})), case.with(json!({"join_ratio": 1.0})).threads(3)]
        })
        .collect()
}

#[test]
fn rest_changes_no_number_in_memory_or_in_a_file() {
    for case in cases() {
        let (awake, _) = run(&case, None, None, None);
        let awake = awake.expect("it runs");
        for memory in [u64::MAX, 0, 4000] {
            let (rested, _) = run(&case, Some(memory), None, None);
            assert_eq!(awake, rested.expect("it runs"), "{} with {memory} bytes", case.key());
        }
    }
}

#[test]
fn a_checkpoint_of_those_that_rest_in_a_file_continues_to_the_same_result() {
    for case in cases() {
        let (awake, _) = run(&case, None, None, None);
        for after in [1, 4] {
            let (stopped, saved) = run(&case, Some(0), Some(after), None);
            assert!(stopped.is_none());
            let (continued, _) = run(&case, Some(0), None, saved);
            assert_eq!(awake, continued, "{} stopped after round {after}", case.key());
        }
    }
}
