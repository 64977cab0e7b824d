//! Bit-identical parameters and metrics: on 1, 2 and 8 threads, interrupted after any round, evaluated often or seldom, extended.

use crate::small::{Case, every};
use pflpipe::base::{Digest, FaultKind, Outcome};
use pflpipe::fl::checkpoint::Snapshot;
use pflpipe::fl::round::{Monitor, Simulated};
use serde_json::json;
use std::cell::Cell;

/// The digests of everything that a run leaves behind.
pub fn bytes(run: &Simulated) -> Vec<(String, Digest)> {
    let history = serde_json::to_vec(&run.history).expect("a history has a JSON form");
    let global: Vec<u8> = run.global.params.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut all = vec![("history".to_owned(), Digest::of(&history)), ("global".to_owned(), Digest::of(&global))];
    all.extend(run.last.parts.iter().map(|(name, bytes)| (format!("last {name}"), Digest::of(bytes))));
    all
}

pub fn run(case: &Case) -> Vec<(String, Digest)> {
    bytes(&case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())))
}

/// Settings that exercise every random stream.
fn busy(case: Case) -> Case {
    case.with(json!({"join_ratio": 0.6, "random_join_ratio": true, "drop_rate": 0.3, "drop_count": "round", "learning_rate_decay": 0.9,
        "slow_trainers": 0.4, "slow_senders": 0.4, "local_epochs": 4, "train_loss": "full"}))
}

#[test]
fn threads_do_not_change_a_result() {
    for case in every() {
        for case in [case.clone(), busy(case.clone()), case.norm()] {
            let one = run(&case);
            for threads in [2, 8] {
                assert_eq!(one, run(&case.clone().threads(threads)), "{} on {threads} threads", case.name());
            }
        }
    }
}

/// Stops after a number of rounds, or continues from a snapshot.
pub struct Stop {
    after: Option<u64>,
    done: Cell<u64>,
    from: Option<Snapshot>,
    pub saved: Option<Snapshot>,
}

impl Monitor for Stop {
    fn resume(&mut self) -> Outcome<Option<Snapshot>> {
        // Through bytes, as a store would.
        self.from.take().map(|s| Snapshot::of(s.parts)).transpose()
    }
    fn progress(&mut self, done: u64, _: u64, _: &pflpipe::fl::History) {
        self.done.set(done);
    }
    fn save(&mut self, snapshot: Snapshot) -> Outcome<()> {
        self.saved = Some(snapshot);
        Ok(())
    }
    fn stopping(&self) -> bool {
        self.after == Some(self.done.get())
    }
}

pub fn stop(after: Option<u64>, from: Option<Snapshot>) -> Stop {
    Stop { after, done: Cell::new(from.as_ref().map_or(0, |s| s.round)), from, saved: None }
}

#[test]
fn an_interruption_after_any_round_does_not_change_a_result() {
    for case in every() {
        for case in [case.clone(), busy(case.clone()), case.norm()] {
            let whole = run(&case);
            for after in 0..4 {
                let mut first = stop(Some(after), None);
                let fault = case.run_with(&mut first).expect_err("it was stopped");
                assert_eq!(fault.kind, FaultKind::Interrupted);
                let mut second = stop(None, first.saved);
                let continued = case.run_with(&mut second).expect("it continues");
                assert_eq!(whole, bytes(&continued), "{} stopped after round {after}", case.name());
            }
        }
    }
}

#[test]
fn evaluating_seldom_changes_nothing_but_the_number_of_evaluations() {
    for case in every() {
        for case in [busy(case.clone()), case.norm()] {
            let often = case.run().expect("it runs");
            // Every third round, or only where nothing follows.
            for every in [3, 1000] {
                let seldom = case.clone().with(json!({"eval_every": every})).run().expect("it runs");
                assert!(often.global.params[..] == seldom.global.params[..], "{}", case.name());
                for evaluation in &seldom.history.evaluations {
                    assert!(often.history.evaluations.contains(evaluation), "{} round {}", case.name(), evaluation.round);
                }
                assert!(seldom.history.evaluations.len() < often.history.evaluations.len());
            }
        }
    }
}

#[test]
fn more_rounds_continue_a_shorter_run() {
    for case in every() {
        if case.build().horizon() {
            continue;
        }
        let case = busy(case);
        let short = case.clone().with(json!({"rounds": 2})).run().expect("it runs");
        let long = case.run_with(&mut stop(None, Some(short.last))).expect("it continues");
        assert_eq!(run(&case), bytes(&long), "{}", case.name());
    }
}

#[test]
fn each_seed_moves_only_its_own_draws() {
    let case = crate::small::case("fedavg", json!({})).with(json!({"join_ratio": 0.4}));
    let base = run(&case);
    assert_ne!(base, run(&case.clone().with(json!({"batch_seed": 9}))));
    assert_ne!(base, run(&case.clone().with(json!({"sampling_seed": 9}))));
    // With everybody in every round there is nothing to sample.
    let all = crate::small::case("fedavg", json!({}));
    let models = |case: &Case| case.run().expect("it runs").global.params.to_vec();
    assert!(models(&all) == models(&all.clone().with(json!({"sampling_seed": 9}))));
}
