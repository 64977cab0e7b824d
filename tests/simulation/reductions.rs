//! Algorithms that become another one when their own term is off: the cheapest proofs there are.

use crate::small::{Case, case};
use pflpipe::engine::{Entry, Part};
use pflpipe::fl::round::Quiet;
use pflpipe::fl::{Algorithm, Description, Simulation};
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

/// FedPer with any set of shared layers.
struct Shares(fn(&Entry) -> bool);

impl Algorithm for Shares {
    type Server = ();
    type Client = ();
    type Upload = ();
    fn describe() -> Description {
        unreachable!("it is in no registry")
    }
    fn shared(&self, layer: &Entry) -> bool {
        self.0(layer)
    }
}

#[test]
fn sharing_all_layers_is_fedavg_sharing_none_local_training_and_sharing_the_base_fedper() {
    let result = |shared: fn(&Entry) -> bool| {
        let world = case("fedavg", json!({})).world();
        let _permit = world.budget.acquire();
        let run = Shares(shared).simulate(&world, &mut Quiet).expect("it runs");
        (run.global.params.to_vec(), run.history.series("test_accuracy"))
    };
    let of = |name: &str| (global(&case(name, json!({}))), accuracies(&case(name, json!({})), "test_accuracy"));
    assert!(result(|_| true) == of("fedavg"));
    assert_eq!(result(|_| false).1, of("local").1);
    assert!(result(|layer| layer.part == Part::Base) == of("fedper"));
}

#[test]
fn pfedme_whose_outer_step_is_whole_is_fedavg_up_to_rounding() {
    // One inner step, and l <- l - lr lambda (l - theta) = theta, but for the rounding of the difference, which the pull of lambda in
    // the next step and the rounds after it carry on.
    let whole = json!({"inner_steps": 1, "lambda": 20.0, "personal_learning_rate": 0.05, "weight_decay": 0.0, "beta": 1.0,
        "evaluate": "theta"});
    for variant in ["pfllib", "paper"] {
        let mut whole = whole.clone();
        whole["variant"] = json!(variant);
        for (a, b) in global(&case("pfedme", whole)).iter().zip(global(&case("fedavg", json!({})))) {
            assert!((a - b).abs() < 1e-4, "{variant}: {a} and {b}");
        }
    }
}

#[test]
fn scaffold_with_equal_clients_and_controls_of_zero_is_fedavg_up_to_rounding() {
    // The two means round differently.
    let close = |a: &Case, b: &Case| global(a).iter().zip(global(b)).all(|(a, b)| (a - b).abs() < 1e-5);
    let fedavg = case("fedavg", json!({}));
    assert!(close(&case("scaffold", json!({"controls": false})), &fedavg));
    assert!(!close(&case("scaffold", json!({})), &fedavg), "they act by default");
    // In the first round they are still zero.
    let one = |name| case(name, json!({})).with(json!({"rounds": 1}));
    assert!(close(&one("scaffold"), &one("fedavg")));
}

#[test]
fn fedala_with_fixed_weights_is_fedavg_up_to_rounding() {
    // Weights that stay 1 give local + (global - local), which is the global model but for the rounding of the difference.
    let ala = case("fedala", json!({"eta": 0.0, "max_start_epochs": 1}));
    for (a, b) in global(&ala).iter().zip(global(&case("fedavg", json!({})))) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
    assert!(global(&case("fedala", json!({"tensors": 0}))) != global(&ala));
}

#[test]
fn one_client_makes_fedpac_fedrep() {
    let one = |name, changed| case(name, changed).sizes(&[40]);
    for variant in ["pfllib", "paper"] {
        let pac = one("fedpac", json!({"lambda": 0.0, "variant": variant}));
        let rep = one("fedrep", json!({"head_epochs": 1}));
        assert_eq!(accuracies(&pac, "test_accuracy"), accuracies(&rep, "test_accuracy"));
        assert!(global(&pac) == global(&rep));
    }
}

#[test]
fn fedas_without_alignment_leaves_a_lonely_client_to_itself() {
    let fedas = case("fedas", json!({"alignment_epochs": 0})).sizes(&[40]);
    let local = case("local", json!({})).sizes(&[40]);
    assert_eq!(accuracies(&fedas, "test_accuracy"), accuracies(&local, "test_accuracy"));
}

#[test]
fn fedcross_in_its_first_stage_is_fedavg() {
    let first = case("fedcross", json!({"variant": "paper", "first_stage": 1000}));
    assert!(global(&first) == global(&case("fedavg", json!({}))));
    // A share of 1 mixes nothing: the models go round among the clients.
    let alone = case("fedcross", json!({"alpha": 1.0})).sizes(&[40]);
    let local = case("local", json!({})).sizes(&[40]);
    assert_eq!(accuracies(&alone, "test_accuracy"), accuracies(&local, "test_accuracy"));
}

#[test]
fn fedgen_shares_only_the_head_when_asked() {
    let initial = case("fedgen", json!({})).world().initial;
    let base = initial.net.layout().base();
    let own = global(&case("fedgen", json!({"local_base": true, "server_steps": 2})));
    assert!(own[base.clone()] == initial.params[base]);
    assert!(global(&case("fedgen", json!({"server_steps": 2}))) != global(&case("fedgen", json!({"server_steps": 2, "noise": "normal"}))));
}

#[test]
fn fedkd_that_keeps_all_singular_values_sends_the_mean_of_the_students() {
    let whole = |compresses| global(&case("fedkd", json!({"t_start": 1.0, "t_end": 1.0, "compresses": compresses})));
    for (a, b) in whole("weights").iter().zip(whole("updates")) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}
