//! Algorithms on features, prototypes and logits that become another one when their own term is off, and what they send.

use crate::small::{Case, case};
use pflpipe::fl::round::Simulated;
use serde_json::{Value, json};

fn run(case: &Case) -> Simulated {
    case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name()))
}

fn global(name: &str, params: Value) -> Vec<f32> {
    run(&case(name, params)).global.params.to_vec()
}

fn series(case: &Case, metric: &str) -> Vec<(u64, f64)> {
    run(case).history.series(metric)
}

fn close(a: &[(u64, f64)], b: &[(u64, f64)], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for ((round, a), (_, b)) in a.iter().zip(b) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "round {round}: {a} and {b}");
    }
}

#[test]
fn without_their_term_these_are_fedavg() {
    let fedavg = global("fedavg", json!({}));
    for (name, off) in [("moon", json!({"mu": 0.0})), ("fedntd", json!({"beta": 0.0})), ("fedlc", json!({"tau": 0.0}))] {
        assert!(global(name, off) == fedavg, "{name}");
        assert!(global(name, json!({})) != fedavg, "{name} is on by default");
    }
}

#[test]
fn moon_in_its_first_round_contrasts_two_equal_models() {
    let one = |name, params| run(&case(name, params).with(json!({"rounds": 1}))).global.params.to_vec();
    for (a, b) in one("moon", json!({"mu": 5.0})).iter().zip(one("fedavg", json!({}))) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn without_their_term_these_are_local_training() {
    let local = case("local", json!({}));
    for (name, off) in [("fedproto", json!({"lambda": 0.0})), ("fd", json!({"lambda": 0.0}))] {
        close(&series(&case(name, off), "train_loss"), &series(&local, "train_loss"), 1e-5);
        let on = series(&case(name, json!({})), "train_loss");
        assert_ne!(on, series(&local, "train_loss"), "{name} is on by default");
    }
}

#[test]
fn fml_without_distillation_is_local_training_beside_fedavg() {
    let off = case("fml", json!({"alpha": 1.0, "beta": 1.0, "clip": 1e6}));
    close(&series(&off, "test_accuracy"), &series(&case("local", json!({})), "test_accuracy"), 0.0);
    for (a, b) in run(&off).global.params.iter().zip(global("fedavg", json!({}))) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn a_static_divisor_shrinks_the_model_where_uploads_are_lost() {
    let lossy = |divisor: &str| {
        let case = case("fedntd", json!({"beta": 0.0, "divisor": divisor})).with(json!({"drop_rate": 0.4, "rounds": 1}));
        run(&case).global.params.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt()
    };
    // Three of five uploads arrive.
    assert!((lossy("static") / lossy("uploaded") - 0.6).abs() < 1e-5);
}

#[test]
fn the_pull_of_pflda_acts_only_as_the_paper_means_it() {
    // The pull acts on the personal heads, which are not averaged.
    let losses = |params| series(&case("pflda", params), "train_loss");
    assert!(losses(json!({"variant": "pfllib", "lambda": 1.0})) == losses(json!({"lambda": 0.0})));
    assert!(losses(json!({"lambda": 1.0})) != losses(json!({"lambda": 0.0})));
}

#[test]
fn the_generic_view_of_fedrod_changes_nothing_else() {
    let quiet = run(&case("fedrod", json!({})));
    let both = run(&case("fedrod", json!({"report_generic": true})));
    assert!(quiet.global.params[..] == both.global.params[..]);
    assert_eq!(quiet.history.series("test_accuracy"), both.history.series("test_accuracy"));
    assert_ne!(both.history.series("generic:test_accuracy"), both.history.series("test_accuracy"));
}

#[test]
fn prototype_methods_predict_nothing_before_the_first_exchange() {
    for name in ["fedproto", "fedpcl"] {
        let history = run(&case(name, json!({}))).history;
        let tested = |round: usize| history.evaluations[round].views["model"].clients.iter().map(|c| c.n).sum::<u64>();
        assert_eq!(tested(0), 0, "{name}");
        assert!(tested(1) > 0, "{name}");
    }
}

#[test]
fn methods_without_weights_send_only_their_few_numbers() {
    // 10 classes, 12 features, 5 clients with 17 classes among them; 4 rounds, in the first of which the server knows nothing.
    let floats = |name, metric| series(&case(name, json!({})), metric).last().expect("measured").1;
    assert_eq!(floats("fedproto", "floats_down"), 3.0 * 5.0 * 120.0);
    assert_eq!(floats("fedproto", "floats_up"), 4.0 * 17.0 * 12.0);
    assert_eq!(floats("fd", "floats_up"), 4.0 * 17.0 * 10.0);
    assert_eq!(floats("fedpcl", "floats_down"), 3.0 * 5.0 * 6.0 * 120.0);
    assert_eq!(floats("pflda", "floats_down"), 4.0 * 5.0 * (12.0 * 10.0 + 10.0));
}

#[test]
fn the_authors_columns_and_the_reference_order_differ_for_fedpcl() {
    let columns = |columns: &str| series(&case("fedpcl", json!({"columns": columns})), "test_accuracy").last().expect("measured").1;
    assert!(columns("class") > columns("insertion"), "exchanged labels cannot be better on separable digits");
}

/// Every parameter of the bases after all rounds, and the accuracies along the way.
fn is_fedper(name: &str, off: Value) {
    let (ours, fedper) = (run(&case(name, off)), run(&case("fedper", json!({}))));
    let base = case("fedper", json!({})).world().layout().base();
    for (a, b) in ours.global.params[base.clone()].iter().zip(&fedper.global.params[base]) {
        assert!((a - b).abs() < 1e-5, "{name}: {a} and {b}");
    }
    assert_eq!(ours.history.series("test_accuracy"), fedper.history.series("test_accuracy"), "{name}");
}

#[test]
fn gpfl_without_guidance_and_valve_is_fedper() {
    // Up to rounding: its loss is an expression on the features, FedPer's is not.
    is_fedper("gpfl", json!({"angle": 0.0, "lambda": 0.0, "valve": false}));
    let base = || global("gpfl", json!({"angle": 0.0, "lambda": 0.0}));
    assert!(base() != global("gpfl", json!({"lambda": 0.0})), "each term is on by default");
    assert!(base() != global("gpfl", json!({"angle": 0.0, "lambda": 0.0, "valve": false})));
}

#[test]
fn fedcp_whose_features_are_all_personal_is_fedper() {
    is_fedper("fedcp", json!({"lambda": 0.0, "policy": "personal"}));
    assert!(global("fedcp", json!({"lambda": 0.0})) != global("fedcp", json!({"lambda": 0.0, "policy": "personal"})));
    assert!(global("fedcp", json!({})) != global("fedcp", json!({"lambda": 0.0})));
}

#[test]
fn feddbe_without_offset_and_regulariser_is_fedavg() {
    let fedavg = run(&case("fedavg", json!({})));
    let off = run(&case("feddbe", json!({"offset": false, "kappa": 0.0})));
    assert!(off.global.params[..] == fedavg.global.params[..]);
    assert_eq!(off.history.series("test_accuracy"), fedavg.history.series("test_accuracy"));
    assert!(global("feddbe", json!({"kappa": 0.0})) != global("fedavg", json!({})), "the offset acts alone");
    assert!(global("feddbe", json!({"offset": false})) != global("fedavg", json!({})), "and so does the regulariser");
}
