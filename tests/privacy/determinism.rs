//! Bit-identical with noise and protocols too: on 1 and 8 threads, interrupted after any round, evaluated often or seldom.

use crate::protected::run_with;
use crate::small::{Case, case};
use pflpipe::base::Outcome;
use pflpipe::fl::History;
use pflpipe::fl::checkpoint::Snapshot;
use pflpipe::fl::round::{Monitor, Quiet, Simulated};
use serde_json::{Value, json};
use std::cell::Cell;

/// Every kind with an algorithm or two, as (case, privacy, secure).
fn matrix() -> Vec<(Case, Value, Value)> {
    let none = json!({"kind": "none"});
    let busy = json!({"join_ratio": 0.6, "random_join_ratio": true, "drop_rate": 0.3, "drop_count": "round", "local_epochs": 2,
        "slow_trainers": 0.4, "rounds": 4});
    let case = |name: &str| case(name, json!({})).sizes(&[40, 30, 60, 25, 34]).with(busy.clone());
    let mut all = Vec::new();
    for name in ["fedavg", "ditto", "fedper"] {
        all.push((case(name), json!({"kind": "dp-fedavg", "noise_multiplier": 0.5, "clip": 0.3, "delta": 1e-4}), none.clone()));
        all.push((
            case(name),
            json!({"kind": "dp-fedavg", "epsilon": 50.0, "clip": 0.3, "delta": 1e-4, "weights": "samples"}),
            none.clone(),
        ));
        all.push((case(name), json!({"kind": "local-gaussian", "clip": 0.1, "epsilon": 0.9, "delta": 1e-4}), none.clone()));
        all.push((case(name), json!({"kind": "local-laplace", "clip": 0.1, "epsilon": 30.0}), json!({"kind": "secagg", "threshold": 1})));
        all.push((case(name), none.clone(), json!({"kind": "lightsecagg", "dropouts": 0.3, "privacy": 0, "recovery": 1})));
    }
    for name in ["fedavg", "fedper", "fedbabu"] {
        all.push((case(name), json!({"kind": "dp-sgd", "noise_multiplier": 0.5, "clip": 0.3, "delta": 1e-4}), none.clone()));
    }
    all
}

/// The history, the bits of the global model, and the named parts of the last snapshot.
type Left = (String, Vec<u32>, Vec<(String, Vec<u8>)>);

/// Everything that a run leaves behind.
fn bytes(run: &Simulated) -> Left {
    let history = serde_json::to_string(&run.history).expect("a history has a JSON form");
    (history, run.global.params.iter().map(|v| v.to_bits()).collect(), run.last.parts.clone())
}

#[test]
fn threads_do_not_change_a_result() {
    for (case, privacy, secure) in matrix() {
        let one = run_with(&case, &privacy, &secure, &mut Quiet).unwrap_or_else(|fault| panic!("{} {privacy}: {fault}", case.name()));
        let eight = run_with(&case.clone().threads(8), &privacy, &secure, &mut Quiet).expect("it runs");
        assert_eq!(bytes(&one), bytes(&eight), "{} {privacy} {secure}", case.name());
    }
}

/// Stops after a number of rounds, or continues from a snapshot.
struct Stop {
    after: Option<u64>,
    done: Cell<u64>,
    from: Option<Snapshot>,
    saved: Option<Snapshot>,
}

impl Monitor for Stop {
    fn resume(&mut self) -> Outcome<Option<Snapshot>> {
        self.from.take().map(|snapshot| Snapshot::of(snapshot.parts)).transpose()
    }
    fn progress(&mut self, done: u64, _: u64, _: &History) {
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

#[test]
fn an_interruption_after_any_round_does_not_change_a_result() {
    for (case, privacy, secure) in matrix() {
        let whole = run_with(&case, &privacy, &secure, &mut Quiet).expect("it runs");
        for after in 0..4 {
            let mut first = Stop { after: Some(after), done: Cell::new(0), from: None, saved: None };
            run_with(&case, &privacy, &secure, &mut first).expect_err("it was stopped");
            let mut second = Stop { after: None, done: Cell::new(after), from: first.saved, saved: None };
            let continued = run_with(&case, &privacy, &secure, &mut second).expect("it continues");
            assert_eq!(bytes(&whole), bytes(&continued), "{} {privacy} {secure} stopped after round {after}", case.name());
        }
    }
}

#[test]
fn evaluating_seldom_changes_nothing_but_the_number_of_evaluations() {
    for (case, privacy, secure) in matrix() {
        let often = run_with(&case, &privacy, &secure, &mut Quiet).expect("it runs");
        let seldom = run_with(&case.clone().with(json!({"eval_every": 3})), &privacy, &secure, &mut Quiet).expect("it runs");
        for evaluation in &seldom.history.evaluations {
            assert!(often.history.evaluations.contains(evaluation), "{} {privacy} {secure}", case.name());
        }
        assert_eq!(bytes(&often).1, bytes(&seldom).1);
    }
}

#[test]
fn another_seed_draws_other_noise() {
    let case = case("fedavg", json!({})).with(json!({"rounds": 1, "learning_rate": 1e-12}));
    let noise = json!({"kind": "dp-fedavg", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-4});
    let run = |seed: u64| {
        let case = case.clone().with(json!({"batch_seed": seed}));
        run_with(&case, &noise, &json!({"kind": "none"}), &mut Quiet).expect("it runs").global.params.to_vec()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
