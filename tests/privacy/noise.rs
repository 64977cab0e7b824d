//! What the mechanisms do to a training, and the epsilon that it reports.

use crate::protected::{last, private};
use crate::small::{CLIENTS, Case, case};
use pflpipe::fl::History;
use pflpipe::fl::round::Simulated;
use pflpipe::privacy::accountant::gaussian_epsilon;
use serde_json::json;

/// The history, the bits of the global model, and the named parts of the last snapshot.
type Left = (History, Vec<u32>, Vec<(String, Vec<u8>)>);

/// Everything but what the mechanism says of itself.
fn result(run: &Simulated) -> Left {
    let mut history = run.history.clone();
    history.evaluations.iter_mut().for_each(|evaluation| evaluation.figures.clear());
    let bits = run.global.params.iter().map(|v| v.to_bits()).collect();
    let parts = run.last.parts.iter().filter(|(name, _)| !["books", "interventions"].contains(&&**name));
    (history, bits, parts.cloned().collect())
}

fn distance(a: &Simulated, b: &Simulated) -> f64 {
    a.global.params.iter().zip(b.global.params.iter()).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
}

/// Half of the clients a round, some uploads lost.
fn partial(case: Case) -> Case {
    case.with(json!({"join_ratio": 0.6, "drop_rate": 0.3, "drop_count": "round"}))
}

#[test]
fn without_noise_nothing_changes_bit_for_bit() {
    for name in ["fedavg", "fedper", "ditto", "fedrep", "fedala"] {
        for case in [case(name, json!({})), partial(case(name, json!({})))] {
            let plain = result(&case.run().expect("it runs"));
            for params in [
                json!({"kind": "none"}),
                json!({"kind": "dp-fedavg", "noise_multiplier": 0.0, "delta": 1e-5}),
                json!({"kind": "dp-fedavg", "noise_multiplier": 0.0, "clip": 1e9, "delta": 1e-5}),
                json!({"kind": "dp-sgd", "noise_multiplier": 0.0, "delta": 1e-5}),
            ] {
                let run = private(&case, params.clone()).expect("it runs");
                assert_eq!(plain, result(&run), "{name} {params}");
                // No number stands for no protection at all.
                assert_eq!(last(&run.history, "epsilon"), None);
            }
        }
    }
}

#[test]
fn samples_one_by_one_give_the_gradient_of_the_batch() {
    for name in ["fedavg", "fedper", "fedrep", "fedbabu"] {
        let case = case(name, json!({}));
        let plain = case.run().expect("it runs");
        let clipped = private(&case, json!({"kind": "dp-sgd", "noise_multiplier": 0.0, "clip": 1e9, "delta": 1e-5})).expect("it runs");
        let moved = distance(&plain, &Simulated { global: case.world().initial, ..plain.clone() });
        assert!(moved > 0.01 && distance(&plain, &clipped) < 1e-4 * moved, "{name}: {} of {moved}", distance(&plain, &clipped));
        assert_eq!(last(&plain.history, "gradient_evaluations"), last(&clipped.history, "gradient_evaluations"));
    }
}

#[test]
fn a_clip_bounds_every_step_and_every_update() {
    let case = case("fedavg", json!({})).with(json!({"rounds": 1, "local_epochs": 3, "learning_rate": 0.5, "batch_size": 10}));
    let initial = Simulated { global: case.world().initial, ..case.run().expect("it runs") };
    // 26 training samples are 2 batches of 10, so that there are 6 steps of at most 0.5 times the clip.
    let run = private(&case, json!({"kind": "dp-sgd", "noise_multiplier": 0.0, "clip": 1e-3, "delta": 1e-5})).expect("it runs");
    let moved = distance(&run, &initial);
    assert!(moved > 1e-4 && moved <= 6.0 * 0.5 * 1e-3 * 1.001, "{moved}");
    let run = private(&case, json!({"kind": "dp-fedavg", "noise_multiplier": 0.0, "clip": 2e-3, "delta": 1e-5})).expect("it runs");
    let moved = distance(&run, &initial);
    assert!(moved > 2e-4 && moved <= 2e-3 * 1.001, "{moved}");
}

/// The root of the mean square of how far one round moves each parameter when training does not.
fn spread(params: serde_json::Value, rate: f64) -> f64 {
    let case = case("fedavg", json!({})).with(json!({"rounds": 1, "learning_rate": rate, "local_epochs": 1, "batch_size": 26}));
    let run = private(&case, params).expect("it runs");
    let initial = Simulated { global: case.world().initial, ..run.clone() };
    distance(&run, &initial) / (run.global.params.len() as f64).sqrt()
}

#[test]
fn noise_has_the_deviation_of_the_formula() {
    let close = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.1, "{found} instead of {wanted}");
    // z S / (q W) with all of 5 clients.
    close(spread(json!({"kind": "dp-fedavg", "noise_multiplier": 2.0, "clip": 3.0, "delta": 1e-5}), 1e-12), 6.0 / 5.0);
    // One step of 26 samples, clipped so short that the gradient is nothing beside the noise z C / B = 8 / 26; mean of 5 clients.
    let step = json!({"kind": "dp-sgd", "noise_multiplier": 8e6, "clip": 1e-6, "delta": 1e-5});
    close(spread(step, 1.0), 8.0 / 26.0 / 5f64.sqrt());
    // 2 C sqrt(2 ln(1.25 / delta)) / epsilon at each client.
    let upload = json!({"kind": "local-gaussian", "clip": 0.5, "epsilon": 0.5, "delta": 1e-5});
    close(spread(upload, 1e-12), 9.6896 / 5f64.sqrt());
    // 2 C / epsilon, whose standard deviation is sqrt 2 times as much.
    let upload = json!({"kind": "local-laplace", "clip": 0.5, "epsilon": 0.5});
    close(spread(upload, 1e-12), 2.0 * 2f64.sqrt() / 5f64.sqrt());
}

#[test]
fn epsilon_is_that_of_what_was_done() {
    let case = case("fedavg", json!({})).with(json!({"rounds": 4, "join_ratio": 0.6, "local_epochs": 2, "batch_size": 10}));
    let noise = json!({"noise_multiplier": 1.5, "clip": 0.1, "delta": 1e-4});
    let epsilon = |kind: &str, accounting: &str| {
        let mut params = noise.clone();
        params["kind"] = json!(kind);
        params["accounting"] = json!(accounting);
        private(&case, params).expect("it runs").history.series("epsilon")
    };
    let rounds = |rate| (0..=4).map(|done| (done, gaussian_epsilon(rate, 1.5, done, 1e-4))).collect::<Vec<_>>();
    assert_eq!(epsilon("dp-fedavg", "poisson"), rounds(3.0 / CLIENTS as f64));
    assert_eq!(epsilon("dp-fedavg", "unamplified"), rounds(1.0));
    // Of 26 training samples 2 batches of 10 in each of 2 epochs, as often as the client that took part most often.
    let world = case.world();
    let mut taken = [0; CLIENTS];
    let mut steps = |rate, each: u64| {
        taken = [0; CLIENTS];
        let mut series = vec![(0, 0.0)];
        for round in 0..4 {
            world.streams.cohort(round, CLIENTS, 3, 3).into_iter().for_each(|client| taken[client] += 1);
            series.push((round + 1, gaussian_epsilon(rate, 1.5, each * taken.iter().max().expect("clients"), 1e-4)));
        }
        series
    };
    assert_eq!(world.shard(0).train.len(), 26);
    assert_eq!(epsilon("dp-sgd", "poisson"), steps(10.0 / 26.0, 4));
    assert_eq!(epsilon("dp-sgd", "unamplified"), steps(1.0, 2));
}

#[test]
fn noise_is_found_for_an_epsilon() {
    for (name, kind) in [("fedavg", "dp-fedavg"), ("ditto", "dp-fedavg"), ("fedavg", "dp-sgd"), ("fedper", "dp-sgd")] {
        for accounting in ["poisson", "unamplified"] {
            let case = partial(case(name, json!({})).sizes(&[40, 30, 60, 25, 34]));
            let params = json!({"kind": kind, "epsilon": 3.0, "clip": 0.1, "delta": 1e-4, "accounting": accounting});
            let run = private(&case, params.clone()).expect("it runs");
            let epsilon = last(&run.history, "epsilon").expect("there is one");
            assert!(epsilon <= 3.0 && epsilon > 2.999, "{name} {params}: {epsilon}");
            let noise = last(&run.history, "noise_multiplier").expect("there is one");
            let mut given = params;
            given.as_object_mut().expect("a map").remove("epsilon");
            given["noise_multiplier"] = json!(noise);
            assert_eq!(result(&run), result(&private(&case, given).expect("it runs")));
        }
    }
}

#[test]
fn the_target_is_for_the_steps_that_were_planned() {
    let params = json!({"kind": "dp-sgd", "epsilon": 3.0, "clip": 0.1, "delta": 1e-4});
    let fault = private(&case("fedrep", json!({})), params).expect_err("two trainings a round");
    assert!(fault.what.contains("client 0 took") && fault.help.expect("help").contains("noise_multiplier"), "{}", fault.what);
}

#[test]
fn weights_by_samples_are_those_of_the_plain_mean_where_everybody_takes_part() {
    let case = case("fedavg", json!({})).sizes(&[60, 30, 45, 25, 34]).with(json!({"rounds": 1}));
    let plain = case.run().expect("it runs");
    // So little noise that only the mean is left.
    let params = json!({"kind": "dp-fedavg", "noise_multiplier": 1e-12, "clip": 1e3, "delta": 1e-5, "weights": "samples"});
    let run = private(&case, params.clone()).expect("it runs");
    assert!(distance(&plain, &run) < 1e-5);
    let mut uniform = params;
    uniform["weights"] = json!("uniform");
    assert!(distance(&plain, &private(&case, uniform).expect("it runs")) > 1e-4);
}
