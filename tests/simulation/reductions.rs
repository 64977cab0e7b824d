//! Algorithms that become another one when their own term is off: the cheapest proofs there are.

use crate::small::{Case, case};
use serde_json::json;

fn global(case: &Case) -> Vec<f32> {
    case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())).global.params.to_vec()
}

fn accuracies(case: &Case, metric: &str) -> Vec<(u64, f64)> {
    case.run().expect("it runs").history.series(metric)
}

#[test]
fn fedprox_without_mu_is_fedavg() {
    assert!(global(&case("fedprox", json!({"mu": 0.0}))) == global(&case("fedavg", json!({}))));
    assert!(global(&case("fedprox", json!({"mu": 1.0}))) != global(&case("fedavg", json!({}))));
}

#[test]
fn the_global_track_of_ditto_is_fedavg() {
    let ditto = case("ditto", json!({"personal_epochs": 3}));
    assert_eq!(accuracies(&ditto, "global:test_accuracy"), accuracies(&case("fedavg", json!({})), "test_accuracy"));
    assert!(global(&ditto) == global(&case("fedavg", json!({}))));
}

#[test]
fn ditto_without_mu_trains_its_personal_models_as_local_does() {
    let local = case("local", json!({}));
    let ditto = case("ditto", json!({"mu": 0.0, "personal_epochs": 2}));
    assert_eq!(accuracies(&ditto, "test_accuracy"), accuracies(&local, "test_accuracy"));
}

#[test]
fn fedbn_without_normalisation_is_fedavg_and_with_it_is_not() {
    assert!(global(&case("fedbn", json!({}))) == global(&case("fedavg", json!({}))));
    assert_ne!(
        accuracies(&case("fedbn", json!({})).norm().with(json!({"rounds": 12})), "train_loss"),
        accuracies(&case("fedavg", json!({})).norm().with(json!({"rounds": 12})), "train_loss")
    );
    assert!(global(&case("fedbn", json!({"match": "name"})).norm()) == global(&case("fedavg", json!({})).norm()));
}

#[test]
fn one_client_makes_fedper_local_training() {
    let one = |name| case(name, json!({})).sizes(&[40]);
    assert_eq!(accuracies(&one("fedper"), "test_accuracy"), accuracies(&one("local"), "test_accuracy"));
}

#[test]
fn scaffold_with_equal_clients_and_one_round_is_fedavg_up_to_rounding() {
    let one = |name| case(name, json!({})).with(json!({"rounds": 1}));
    // The controls are still zero in the first round; the two means round differently.
    for (a, b) in global(&one("scaffold")).iter().zip(global(&one("fedavg"))) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}
