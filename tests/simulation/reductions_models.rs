//! Reductions and invariants of the algorithms that move, mix or split whole models.

use crate::small::{CLIENTS, Case, case};
use pflpipe::fl::Monitor;
use pflpipe::fl::round::Parties;
use pflpipe::fl::state::Leaf;
use serde_json::json;

fn global(case: &Case) -> Vec<f32> {
    case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())).global.params.to_vec()
}

fn accuracies(case: &Case) -> Vec<(u64, f64)> {
    case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())).history.series("test_accuracy")
}

fn local() -> Case {
    case("local", json!({}))
}

fn fedavg() -> Case {
    case("fedavg", json!({}))
}

/// Keeps the state after each round, the initial one first.
#[derive(Default)]
struct Keep(Vec<Parties>);

impl Monitor for Keep {
    fn inspects(&self) -> bool {
        true
    }
    fn inspect(&mut self, _: u64, parties: &Parties) {
        self.0.push(parties.clone());
    }
}

fn states(case: &Case) -> Vec<Parties> {
    let mut keep = Keep::default();
    case.run_with(&mut keep).unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
    keep.0
}

fn leaf(leaves: &[(String, Leaf)], name: &str) -> Vec<f32> {
    match leaves.iter().find(|(n, _)| n == name).map(|(_, leaf)| leaf) {
        Some(Leaf::Params(params)) => params.to_vec(),
        Some(Leaf::Vector(vector)) => vector.clone(),
        Some(Leaf::Model(model)) => model.params.to_vec(),
        Some(Leaf::Number(number)) => vec![*number as f32],
        other => panic!("`{name}` is {other:?}"),
    }
}

fn close(a: &[f32], b: &[f32], most: f32) {
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= most, "{a} and {b}");
    }
}

#[test]
fn relations_between_tasks_that_are_off_leave_local_training() {
    let local = accuracies(&local());
    for (name, off) in [
        ("fedmtl", json!({"variant": "pfllib"})),
        ("fedmtl", json!({"lambda": 0.0})),
        ("fedmtl", json!({"penalty": "sum", "lambda": 0.0})),
        ("fedamp", json!({"variant": "pfllib"})),
        ("fedamp", json!({"lambda": 0.0})),
        ("fedamp", json!({"penalty": "norm", "lambda": 0.0})),
    ] {
        assert_eq!(accuracies(&case(name, off.clone())), local, "{name} {off}");
    }
    assert_ne!(states(&case("fedmtl", json!({})))[4].clients[0].len(), 0);
    let models = |case: &Case| leaf(&states(case)[4].clients[0], "model");
    let alone = models(&crate::reductions_models::local());
    assert!(models(&case("fedmtl", json!({}))) != alone && models(&case("fedamp", json!({}))) != alone);
    assert!(models(&case("fedmtl", json!({"penalty": "sum", "lambda": 0.01}))) != alone);
    assert!(models(&case("fedamp", json!({"penalty": "norm"}))) != alone);
}

#[test]
fn one_task_has_no_relation() {
    let one = |name, settings| case(name, settings).sizes(&[40]);
    assert_eq!(accuracies(&one("fedmtl", json!({"lambda": 5.0}))), accuracies(&one("local", json!({}))));
}

#[test]
fn a_frozen_share_of_apfl_is_local_training_or_fedavg() {
    let frozen = |alpha: f64| case("apfl", json!({"alpha": alpha, "adapt": "never"}));
    assert_eq!(accuracies(&frozen(1.0)), accuracies(&local()));
    assert!(global(&frozen(0.3)) == global(&fedavg()));
    let paper = |alpha: f64| case("apfl", json!({"variant": "paper", "alpha": alpha, "adapt": "never"}));
    assert_eq!(accuracies(&paper(1.0)), accuracies(&local()));
    assert_eq!(accuracies(&paper(0.0)), accuracies(&fedavg()));
    assert!(global(&paper(0.5)) == global(&fedavg()));
}

#[test]
fn pfedme_without_beta_never_moves_the_global_model() {
    let case = case("pfedme", json!({"beta": 0.0}));
    assert!(global(&case) == case.world().initial.params.to_vec());
}

#[test]
fn fedphp_without_the_discrepancy_is_fedavg() {
    close(&global(&case("fedphp", json!({"lambda": 0.0}))), &global(&fedavg()), 1e-5);
    let far = global(&case("fedphp", json!({"lambda": 0.5})));
    assert!(far.iter().zip(&global(&fedavg())).any(|(a, b)| (a - b).abs() > 1e-3));
}

#[test]
fn without_momentum_fedphp_inherits_the_last_local_model() {
    for state in &states(&case("fedphp", json!({"mu": 0.0})))[1..] {
        for client in &state.clients {
            assert!(leaf(client, "inherited") == leaf(client, "model"));
        }
    }
}

#[test]
fn the_drift_of_feddyn_at_the_server_is_the_mean_of_the_clients() {
    for variant in ["pfllib", "paper"] {
        for state in states(&case("feddyn", json!({"variant": variant}))) {
            let mut mean = vec![0.0; leaf(&state.server, "drift").len()];
            for client in &state.clients {
                mean.iter_mut().zip(leaf(client, "drift")).for_each(|(mean, drift)| *mean += drift / CLIENTS as f32);
            }
            close(&mean, &leaf(&state.server, "drift"), 1e-6);
        }
    }
}

#[test]
fn the_head_of_fedbabu_waits_for_the_fine_tuning() {
    let case = case("fedbabu", json!({"variant": "paper", "fine_tuning_epochs": 0}));
    let run = case.run().expect("it runs");
    let initial = &case.world().initial;
    let (base, head) = (initial.net.layout().base(), initial.net.layout().head());
    assert!(run.global.params[head.clone()] == initial.params[head]);
    assert!(run.global.params[base.clone()] != initial.params[base]);
    let [.., before, after] = &run.history.evaluations[..] else { panic!("two evaluations") };
    assert!(after.finished && before.views == after.views, "without an epoch nothing changes");
    let tuned = crate::small::case("fedbabu", json!({})).run().expect("it runs").history.evaluations;
    assert!(tuned[tuned.len() - 2].views != tuned[tuned.len() - 1].views);
}

#[test]
fn one_client_makes_lgfedavg_and_apple_local_training() {
    let one = |name, settings| case(name, settings).sizes(&[40]);
    let local = accuracies(&one("local", json!({})));
    assert_eq!(accuracies(&one("lgfedavg", json!({}))), local);
    assert_eq!(accuracies(&one("apple", json!({"relation_rate": 0.0}))), local);
}

#[test]
fn bases_of_lgfedavg_stay_at_their_client() {
    let case = case("lgfedavg", json!({})).with(json!({"join_ratio": 0.4}));
    let base = case.world().layout().base();
    let states = states(&case);
    let of = |round: usize, client: usize| leaf(&states[round].clients[client], "model")[base.clone()].to_vec();
    for round in 1..states.len() {
        let moved = (0..CLIENTS).filter(|client| of(round, *client) != of(round - 1, *client)).count();
        assert_eq!(moved, 2, "the two clients of the round, and nobody else");
    }
}

#[test]
fn without_a_rate_the_relations_of_apple_stay() {
    let fixed = json!({"variant": "pfllib", "relation_rate": 0.0});
    for state in states(&case("apple", fixed)) {
        for client in &state.clients {
            assert_eq!(leaf(client, "p[3]"), [0.2]);
        }
    }
    let learned = states(&case("apple", json!({"relation_rate": 0.01})));
    assert_ne!(leaf(&learned[4].clients[0], "p[0]"), [0.2]);
}

#[test]
fn fedfomo_that_receives_nothing_is_local_training() {
    let alone = json!({"variant": "paper", "models": 0, "validation": 0.0});
    assert_eq!(accuracies(&case("fedfomo", alone)), accuracies(&local()));
}

#[test]
fn fedfomo_mixes_from_the_second_round_on() {
    let states = states(&case("fedfomo", json!({})));
    for client in &states[1].clients {
        assert!(leaf(client, "gains").iter().all(|gain| *gain == 0.0));
        assert!(leaf(client, "mixed") == leaf(&states[0].clients[0], "model"));
    }
    assert!(states[2].clients.iter().any(|client| leaf(client, "gains").iter().any(|gain| *gain != 0.0)));
}

#[test]
fn fedcac_without_critical_positions_is_fedavg() {
    let none = case("fedcac", json!({"tau": 0.0}));
    assert!(global(&none) == global(&fedavg()));
    assert_eq!(accuracies(&none), accuracies(&fedavg()));
}

#[test]
fn fedgc_moves_only_the_embeddings_that_its_server_pushes() {
    let heads = |lambda: f64| {
        let states = states(&case("fedgc", json!({"lambda": lambda})).with(json!({"rounds": 1})));
        (0..CLIENTS).map(|c| leaf(&states[1].server, &format!("heads[{c}]"))).collect::<Vec<_>>()
    };
    let (still, pushed) = (heads(0.0), heads(1.0));
    assert!(still.iter().zip(&pushed).all(|(a, b)| a.len() == b.len() && a != b));
    let one = |lambda: f64| accuracies(&case("fedgc", json!({"lambda": lambda})).sizes(&[40]));
    assert_eq!(one(0.0), one(10.0), "a client alone owns every class");
}
