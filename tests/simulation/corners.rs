//! Defined behavior where a reference crashes: tiny clients, lost uploads, divergence, new clients, slow ones.

use crate::determinism::run;
use crate::small::{CLIENTS, case, digits, every};
use pflpipe::fl::Status;
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn tiny_clients_are_no_reason_to_fail() {
    for case in every() {
        for (sizes, norm) in [([40, 5, 30, 2, 1], false), ([40, 9, 8, 11, 12], false), ([40, 5, 30, 2, 1], true)] {
            for drop_last in [true, false] {
                let mut case = case.clone().sizes(&sizes).with(json!({"drop_last": drop_last, "train_loss": "full"}));
                case.norm = norm;
                let run = case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
                assert_eq!(run.history.status, Status::Completed, "{}", case.name());
            }
        }
    }
}

#[test]
fn clients_with_one_class_are_no_reason_to_fail() {
    for case in every() {
        for (norm, all) in [(false, false), (true, false), (false, true)] {
            let mut case = case.clone().with(json!({"train_loss": "full"}));
            case.norm = norm;
            let data = digits();
            for client in case.clients.iter_mut().skip(if all { 0 } else { 3 }) {
                let label = data.labels()[client.train[0] as usize];
                let own = |samples: &mut Vec<u32>| samples.retain(|i| data.labels()[*i as usize] == label);
                own(&mut client.train);
                own(&mut client.test);
            }
            let run = case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
            assert_eq!(run.history.status, Status::Completed, "{}", case.name());
        }
    }
}

#[test]
fn rounds_without_uploads_among_others_change_no_result() {
    // A cohort of one loses its only upload; a larger one does not.
    let lossy = json!({"join_ratio": 0.2, "random_join_ratio": true, "drop_rate": 0.6, "rounds": 6});
    for case in every() {
        for case in [case.clone().with(lossy.clone()), case.norm().with(lossy.clone())] {
            let one = run(&case);
            assert_eq!(one, run(&case.clone().threads(8)), "{}", case.name());
            let notes = case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())).history.notes.len();
            assert!((1..6).contains(&notes), "{}: {notes}", case.name());
        }
    }
}

#[test]
fn a_round_without_uploads_leaves_the_server_as_it_is_and_says_so() {
    for case in every() {
        let run = case.clone().with(json!({"drop_rate": 0.9, "rounds": 2})).run().unwrap_or_else(|f| panic!("{}: {f}", case.name()));
        assert_eq!(run.history.notes.len(), 2, "{}", case.name());
        assert!(run.global.params[..] == case.world().initial.params[..], "{}", case.name());
    }
}

#[test]
fn a_drop_rate_can_be_rounded_so_that_someone_is_left() {
    let run = case("fedavg", json!({})).with(json!({"drop_rate": 0.9, "drop_count": "round"})).run().expect("it runs");
    assert!(run.history.notes.is_empty());
}

#[test]
fn new_clients_adopt_the_model_and_are_tested_where_the_server_has_a_part_of_it() {
    let mut refused = BTreeSet::new();
    for case in every() {
        let case = case.with(json!({"new_clients": 2, "fine_tuning_epochs": 1}));
        match case.run() {
            Ok(run) => assert_eq!(run.history.newcomers.expect("two joined").clients.len(), 2, "{}", case.name()),
            Err(fault) => {
                assert!(fault.what.contains("not defined"), "{}: {fault}", case.name());
                refused.insert(case.name().to_owned());
            }
        }
    }
    // Their server has no parameters: models stay with the clients, or only prototypes and outputs travel.
    assert_eq!(refused, ["fd", "fedamp", "fedfomo", "fedmtl", "fedpcl", "fedproto"].map(str::to_owned).into());
}

#[test]
fn validation_samples_are_put_aside_for_all_alike_and_not_trained_on() {
    let without = case("fedavg", json!({})).world();
    let world = case("fedavg", json!({})).with(json!({"validation_ratio": 0.25, "batch_seed": 7})).world();
    let other = case("ditto", json!({})).with(json!({"validation_ratio": 0.25, "batch_seed": 8})).world();
    assert_eq!(world.validation, other.validation, "neither algorithm nor seed matters");
    for (id, (shard, all)) in world.shards.iter().zip(&without.shards).enumerate() {
        let aside = world.validation(id);
        assert_eq!(aside.len(), all.train.len() / 4);
        assert!(aside.iter().all(|sample| all.train.contains(sample) && !shard.train.contains(sample)));
        let kept: Vec<u32> = all.train.iter().copied().filter(|sample| !aside.contains(sample)).collect();
        assert_eq!((&shard.train, &shard.test), (&kept, &all.test), "the others keep their order");
    }
    assert!(without.validation.iter().all(Vec::is_empty));
    for case in every() {
        let name = case.name().to_owned();
        let run = case.with(json!({"validation_ratio": 0.2, "rounds": 2})).run().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        for evaluation in &run.history.evaluations {
            let measured = evaluation.validation.as_ref().expect("it is measured");
            // Where there is nothing to test yet (FedProto before its prototypes), there is nothing to validate either.
            let tested = &evaluation.views[&run.history.headline];
            assert!(measured.clients.iter().zip(&tested.clients).all(|(a, b)| (a.n > 0) == (b.n > 0)), "{name}");
        }
        let counted = |metric: &str| run.history.series(metric).len();
        assert!(counted("validation_accuracy") > 0 && counted("validation_accuracy") == counted("test_accuracy"), "{name}");
    }
    // A client with one training sample trains on it.
    let tiny = case("fedavg", json!({})).sizes(&[40, 5, 2, 2, 1]).with(json!({"validation_ratio": 0.9})).world();
    assert!(tiny.shards.iter().zip(&tiny.validation).all(|(shard, aside)| !shard.train.is_empty() || aside.is_empty()));
}

#[test]
fn few_shot_leaves_that_many_samples_of_each_label() {
    let world = case("fedavg", json!({})).with(json!({"few_shot": 2})).world();
    for shard in &world.shards {
        for label in 0..10 {
            let count = shard.train.iter().filter(|i| world.data.labels()[**i as usize] == label).count();
            assert!(count <= 2);
        }
    }
    for case in every() {
        case.clone().with(json!({"few_shot": 3})).run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
    }
}

#[test]
fn each_option_by_itself_gives_a_result_that_all_clients_are_measured_in() {
    let options = [
        json!({"join_ratio": 0.4}),
        json!({"join_ratio": 0.4, "random_join_ratio": true}),
        json!({"local_epochs": 5}),
        json!({"learning_rate_decay": 0.5}),
        json!({"drop_rate": 0.4}),
        json!({"few_shot": 1}),
        json!({"drop_last": false, "batch_size": 5}),
        json!({"optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 1e-3}}),
    ];
    for (i, case) in every().into_iter().enumerate() {
        for (j, option) in options.iter().enumerate() {
            let mut case = case.clone().with(json!({"rounds": 2})).with(option.clone());
            // With and without normalisation in turns.
            case.norm = (i + j) % 2 == 0;
            let name = format!("{} {option}, normalisation {}", case.key(), case.norm);
            let history = case.run().unwrap_or_else(|fault| panic!("{name}: {fault}")).history;
            assert_eq!(history.status, Status::Completed, "{name}");
            assert!(history.notes.is_empty(), "{name}: {:?}", history.notes);
            let measured = &history.evaluations.last().expect("measured").views[&history.headline].clients;
            assert_eq!(measured.len(), CLIENTS, "{name}");
            assert!(measured.iter().all(|client| client.correct <= client.n), "{name}");
        }
    }
}

#[test]
fn a_learning_rate_that_is_far_too_high_gives_a_diverged_result() {
    let run = case("fedavg", json!({})).with(json!({"learning_rate": 1e30})).run().expect("a result, not a crash");
    assert!(matches!(run.history.status, Status::Diverged { round: 1..=4 }));
    assert!(run.history.notes[0].contains("finite"));
    for case in every() {
        let run = case.clone().with(json!({"learning_rate": 1e30, "train_loss": "full"})).run();
        run.unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
    }
}

#[test]
fn a_training_in_which_nobody_took_a_step_says_so_and_no_other_does() {
    for case in every() {
        let (case, name) = (case.clone().with(json!({"rounds": 2})), case.name());
        let run = case.run().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert_eq!(run.history.caveat(), None, "{name}");
        let run = case.clone().with(json!({"batch_size": 100_000})).run().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let counted = run.history.evaluations.last().expect("measured").gradient_evaluations;
        // What is computed for a merge or an alignment, or by the server, is no training of a client; who has batches of its own trains
        // all the same.
        let aside = ["fedala", "fedas", "fedgen"].contains(&name);
        assert_eq!(run.history.caveat().is_some(), counted == 0 || aside, "{name}: {counted} gradients");
    }
}

#[test]
fn slow_senders_beyond_the_threshold_are_refused() {
    let case = case("fedavg", json!({})).with(json!({"slow_senders": 0.4, "slow_drawing": "exact", "seconds_per_batch": 0.0,
        "seconds_per_upload": 1.0, "time_threshold": 1.5}));
    let up = |case: &crate::small::Case| case.run().expect("it runs").history.series("floats_up").last().expect("measured").1;
    let all = up(&case.clone().with(json!({"time_threshold": 10.0})));
    assert!((up(&case) / all - 0.6).abs() < 1e-9, "two of five clients are refused in every round");
}

#[test]
fn momentum_decay_and_adam_change_the_training() {
    let base = case("fedavg", json!({})).run().expect("it runs").global.params.to_vec();
    for optimizer in [
        json!({"name": "sgd", "momentum": 0.9, "weight_decay": 0.0}),
        json!({"name": "sgd", "momentum": 0.0, "weight_decay": 0.1}),
        json!({"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0}),
    ] {
        let other = case("fedavg", json!({})).with(json!({"optimizer": optimizer})).run().expect("it runs").global.params.to_vec();
        assert!(base != other, "{optimizer}");
        assert!(other.iter().all(|v| v.is_finite()));
    }
}
