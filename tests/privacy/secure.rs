//! Secure aggregation in trainings: its result, its dropouts, its costs.

use crate::protected::{last, secured};
use crate::small::{Case, case};
use pflpipe::fl::round::Simulated;
use serde_json::{Value, json};

const KINDS: [&str; 2] = ["secagg", "lightsecagg"];

fn farthest(a: &Simulated, b: &Simulated) -> f64 {
    a.global.params.iter().zip(b.global.params.iter()).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max)
}

fn one_round(name: &str, params: Value) -> Case {
    case(name, params).sizes(&[60, 30, 45, 25, 34]).with(json!({"rounds": 1, "local_epochs": 2}))
}

#[test]
fn the_mean_is_the_plain_one_within_the_error_of_quantisation() {
    for (name, params) in [
        ("fedavg", json!({})),
        ("fedper", json!({})),
        ("ditto", json!({})),
        ("fml", json!({})),
        ("perfedavg", json!({"variant": "paper"})),
        ("pfedme", json!({"variant": "paper"})),
    ] {
        let case = one_round(name, params);
        let plain = case.run().expect("it runs");
        for kind in KINDS {
            for (bits, prime) in [(8, 2_147_483_647u64), (16, 2_147_483_647), (20, 2_305_843_009_213_693_951), (10, 65_537)] {
                let run = secured(&case, json!({"kind": kind, "bits": bits, "prime": prime})).expect("it runs");
                // Half a step for each client over a sum of weights of at least 1; equal ones sum to their number.
                let bound = 5.0 * 0.5 / f64::from(1 << bits) + 1e-6;
                let error = farthest(&plain, &run);
                assert!(error > 0.0 && error <= bound, "{name} {kind} {bits}: {error} of {bound}");
            }
        }
    }
}

#[test]
fn both_protocols_sum_the_same_and_survive_what_they_state() {
    let case = one_round("fedavg", json!({})).with(json!({"rounds": 3}));
    for dropouts in [0.0f64, 0.2, 0.4] {
        // 2 of 5 may fall out.
        let secagg = secured(&case, json!({"kind": "secagg", "threshold": 3, "dropouts": dropouts})).expect("it survives");
        let light = secured(&case, json!({"kind": "lightsecagg", "privacy": 1, "recovery": 3, "dropouts": dropouts})).expect("too");
        assert_eq!(farthest(&secagg, &light), 0.0, "{dropouts}");
        assert_eq!(last(&secagg.history, "secure_dropped"), Some(3.0 * (5.0 * dropouts).floor()));
        let (loss, plain) = (last(&secagg.history, "train_loss"), last(&case.run().expect("it runs").history, "train_loss"));
        assert!((loss.expect("measured") - plain.expect("measured")).abs() < 0.2, "{loss:?} {plain:?}");
    }
    let fault = secured(&case, json!({"kind": "secagg", "threshold": 3, "dropouts": 0.6})).expect_err("3 of 5 fell out");
    assert_eq!(
        fault.to_string(),
        "round 1: only 2 of 5 clients sent their masked update, but `threshold` 3 of them are needed to take the masks off"
    );
    let fault = secured(&case, json!({"kind": "lightsecagg", "privacy": 1, "recovery": 3, "dropouts": 0.6})).expect_err("3 of 5 fell out");
    assert!(fault.to_string().contains("`recovery` 3 of them are needed"), "{fault}");
}

#[test]
fn the_mean_is_that_of_the_survivors() {
    let case = one_round("fedavg", json!({}));
    let run = secured(&case, json!({"kind": "secagg", "dropouts": 0.2, "threshold": 2, "bits": 20, "prime": 2_305_843_009_213_693_951u64}));
    let run = run.expect("it runs");
    // Among the plain means of four of the five clients one is the same.
    let near = (0..5).filter(|missing| {
        let mut four = case.clone();
        // A client without samples has no weight.
        four.clients[*missing].train.clear();
        farthest(&four.run().expect("it runs"), &run) < 1e-5
    });
    assert_eq!(near.count(), 1);
}

#[test]
fn bytes_and_seconds_are_those_of_the_messages() {
    let case = one_round("fedavg", json!({})).with(json!({"rounds": 2}));
    let d = case.world().layout().len as f64;
    let run =
        secured(&case, json!({"kind": "secagg", "threshold": 3, "dropouts": 0.2, "bandwidth": 1000.0, "latency": 0.5})).expect("it runs");
    let figure = |name: &str| last(&run.history, name).expect("a figure");
    let vector = (d * 31.0 / 8.0).ceil();
    // Two public keys of 32 bytes; to each of the 4 others two shares of 32 bytes and 16 more; 4 vectors; 5 shares of each survivor.
    let (keys, shares, recovery) = (5.0 * 64.0, 20.0 * 80.0, 4.0 * 5.0 * 32.0);
    assert_eq!(figure("secure_bytes_setup"), 2.0 * (keys + shares));
    assert_eq!(figure("secure_bytes_masked"), 2.0 * 4.0 * vector);
    assert_eq!(figure("secure_bytes_recovery"), 2.0 * recovery);
    assert_eq!(figure("secure_bytes_up"), 2.0 * (keys + shares + 4.0 * vector + recovery));
    // All keys to everybody, the shares on, and the list of 4 survivors to each of them.
    assert_eq!(figure("secure_bytes_down"), 2.0 * (5.0 * keys + shares + 64.0));
    let seconds = 4.0 * 0.5 + (6.0 * keys / 5.0 + 2.0 * shares / 5.0 + (4.0 * vector + 64.0) / 5.0 + recovery / 4.0) / 1000.0;
    assert!((figure("secure_seconds") - 2.0 * seconds).abs() < 1e-9);

    let run = secured(&case, json!({"kind": "lightsecagg", "privacy": 1, "recovery": 3})).expect("it runs");
    let figure = |name: &str| last(&run.history, name).expect("a figure");
    let piece = ((d / 2.0).ceil() * 31.0 / 8.0).ceil();
    assert_eq!(figure("secure_bytes_setup"), 2.0 * (5.0 * 32.0 + 20.0 * (piece + 16.0)));
    assert_eq!(figure("secure_bytes_recovery"), 2.0 * 3.0 * piece);
}
