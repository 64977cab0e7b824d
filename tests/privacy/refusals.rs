//! What is refused, and by which words.

use crate::protected::{private, run_with, secured, world};
use crate::small::{case, every};
use pflpipe::fl::World;
use pflpipe::fl::round::Quiet;
use pflpipe::privacy::Known;
use pflpipe::{defences, privacy};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn refused(name: &str, params: Value) -> String {
    private(&case(name, json!({})), params).expect_err("it is refused").to_string()
}

#[track_caller]
fn says(message: &str, words: &str) {
    assert!(message.contains(words), "{message}");
}

#[test]
fn parameters_that_do_not_go_together() {
    let both = json!({"kind": "dp-fedavg", "clip": 1.0, "noise_multiplier": 1.0, "epsilon": 1.0, "delta": 1e-5});
    says(&refused("fedavg", both), "both `noise_multiplier` and `epsilon`");
    says(&refused("fedavg", json!({"kind": "dp-sgd", "clip": 1.0, "delta": 1e-5})), "neither `noise_multiplier` nor `epsilon`");
    says(&refused("fedavg", json!({"kind": "dp-sgd", "noise_multiplier": 1.0, "delta": 1e-5})), "noise but no `clip`");
    let classic = json!({"kind": "local-gaussian", "clip": 1.0, "epsilon": 2.0, "delta": 1e-5});
    says(&refused("fedavg", classic), "at most 1, found 2");
    says(&refused("fedavg", json!({"kind": "dp-fedavg", "clip": 1.0, "epsilon": 1.0})), "noise but no `delta`");
}

#[test]
fn what_is_sent_beside_the_protected_is_named() {
    let central = || json!({"kind": "dp-fedavg", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5});
    says(&refused("scaffold", central()), "not the control variate of the server");
    says(&refused("feddbe", central()), "not the mean features");
    says(&refused("fedproto", central()), "sends prototypes, not parameters");
    says(&refused("fedamp", central()), "makes a mixture of models");
    says(&private(&case("fedavg", json!({})).norm(), central()).expect_err("statistics").to_string(), "running statistics");
    let local = json!({"kind": "local-laplace", "clip": 1.0, "epsilon": 1.0});
    says(&refused("fedcp", local), "not the head and the policy network");
    let secure = || json!({"kind": "secagg"});
    says(&secured(&case("scaffold", json!({})), secure()).expect_err("a variate").to_string(), "not the control variate of the server");
    says(&secured(&case("fedavg", json!({})).norm(), secure()).expect_err("statistics").to_string(), "running statistics");
    says(&secured(&case("local", json!({})), secure()).expect_err("nothing is sent").to_string(), "does not apply");
}

#[test]
fn single_samples_are_protected_where_one_plain_gradient_of_each_batch_is_all() {
    let sgd = json!({"kind": "dp-sgd", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5});
    let mut fine = BTreeSet::new();
    for case in every() {
        let run = private(&case, sgd.clone());
        // What the checks say before a run is what a run would come to.
        let built = case.build();
        let said = privacy::rules(sgd.as_object().expect("a map"), built.as_ref(), &[], &Known::default());
        assert_eq!(said.is_empty(), run.is_ok(), "{}: {said:?}", case.key());
        match run {
            Ok(_) => {
                fine.insert(case.key());
            }
            Err(fault) => {
                let fault = fault.to_string();
                says(&fault, "does not apply");
                assert!(!fault.starts_with("clipping") || fault == said[0].fault.to_string(), "{}: {fault}, {said:?}", case.key());
            }
        }
    }
    let wanted = ["fedavg", "fedbabu paper", "fedbabu pfllib", "fedbn", "fedper", "fedprox", "fedrep", "lgfedavg"];
    // An epsilon that is aimed at needs to know the steps before.
    let target = json!({"kind": "dp-sgd", "epsilon": 3.0, "clip": 1.0, "delta": 1e-5});
    for case in every().into_iter().filter(|case| fine.contains(&case.key())) {
        let said = privacy::rules(target.as_object().expect("a map"), case.build().as_ref(), &[], &Known::default());
        assert_eq!(said.is_empty(), private(&case, target.clone()).is_ok(), "{}: {said:?}", case.key());
    }
    assert_eq!(fine.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    says(&refused("ditto", sgd.clone()), "several gradients of the same batch");
    says(&refused("moon", sgd), "does not apply: the algorithm uses outputs of a model");
}

#[test]
fn central_noise_goes_with_no_other_aggregate() {
    let case = case("fedavg", json!({}));
    let central = json!({"kind": "dp-fedavg", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5});
    let none = json!({"kind": "none"});
    let fault = run_with(&case, &central, &json!({"kind": "secagg"}), &mut Quiet).expect_err("two aggregates");
    says(&fault.to_string(), "`dp-fedavg` cannot go with `secagg`");
    let median = || {
        let params = json!({"kind": "median", "variant": "paper"});
        defences::build(params.as_object().expect("a map")).expect("no parameters").expect("a defence")
    };
    for (private, secure, words) in [
        (&central, &none, "`dp-fedavg` cannot go with `median`"),
        (&none, &json!({"kind": "lightsecagg"}), "`lightsecagg` cannot go with `median`"),
    ] {
        let world: World = world(&case, private, secure).expect("each for itself is fine").with(median());
        says(&case.build().simulate(&world, &mut Quiet).expect_err("two aggregates").to_string(), words);
    }
}

#[test]
fn the_numbers_of_a_protocol() {
    let refuse = |params: Value| secured(&case("fedavg", json!({})), params).expect_err("it is refused").to_string();
    says(&refuse(json!({"kind": "secagg", "prime": 32750})), "`prime` of `secure` is 32750, which is not a prime");
    says(&refuse(json!({"kind": "secagg", "prime": 1997, "bits": 10})), "`prime` 1997 must exceed 2 m 2^bits max|x|");
    says(&refuse(json!({"kind": "secagg", "threshold": 6})), "`threshold` of `secure` is 6, but only 5 clients upload");
    says(&refuse(json!({"kind": "lightsecagg", "recovery": 6})), "`recovery` of `secure` is 6, but only 5 clients upload");
    says(&refuse(json!({"kind": "lightsecagg", "privacy": 3, "recovery": 3})), "`privacy` 3 of `secure` must be below `recovery` 3");
}
