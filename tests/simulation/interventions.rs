//! Threats and defences in the round loop: bit-identical on any number of threads, interrupted or not, however often it is evaluated;
//! and refused where they cannot act.

use crate::determinism::{bytes, run, stop};
use crate::small::{CLIENTS, Case, case};
use pflpipe::algorithms;
use pflpipe::base::FaultKind;
use pflpipe::fl::Sends;
use serde_json::{Value, json};

/// Every threat, with what makes a small world fit it.
fn threats() -> Vec<(&'static str, Value)> {
    let mut all: Vec<(&str, Value)> = pflpipe::threats::variants()
        .iter()
        .map(|variant| (variant.name, if variant.name == "none" { json!({}) } else { json!({"attackers": 2}) }))
        .collect();
    all.extend([
        ("random", json!({"law": "normal", "redraw": true})),
        ("lazy", json!({"attackers": 2, "sends": "own", "mask": "gaussian", "first_round": 2})),
        ("a-little-is-enough", json!({"attackers": 2, "knows": "all", "z": 1.5})),
        ("pixel-backdoor", json!({"attackers": 1, "boost": 3.0, "pattern": "checker", "last_round": 3})),
        ("edge-case", json!({"attackers": 2, "recipe": "tail", "boost": 2.0})),
        ("model-replacement", json!({"attackers": 1, "norm": 2.0})),
    ]);
    all
}

/// Every defence in each of its forms.
fn defences() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for variant in pflpipe::defences::variants() {
        let f = if variant.name == "bulyan" { json!({"byzantine": 0}) } else { json!({}) };
        if variant.fields.iter().any(|field| field.name == "variant") {
            let mut fedml = f.clone();
            fedml["variant"] = json!("fedml");
            all.push((variant.name, fedml));
        }
        all.push((variant.name, f));
    }
    all.push(("centered-clipping", json!({"bucket": 2})));
    all
}

/// FedAvg and two personalised algorithms, one of which shares a part of its model only.
fn algorithms_of_three() -> [Case; 3] {
    ["fedavg", "fedper", "ditto"].map(|name| case(name, json!({})))
}

fn every() -> Vec<Case> {
    let mut all = Vec::new();
    for base in algorithms_of_three() {
        all.extend(threats().into_iter().map(|(kind, changed)| base.clone().under(kind, changed)));
        let attacked = base.under("sign-flip", json!({"attackers": 1}));
        all.extend(defences().into_iter().map(|(kind, changed)| attacked.clone().behind(kind, changed)));
    }
    all
}

fn shown(case: &Case) -> String {
    format!("{} under {:?} behind {:?}", case.name(), case.threat, case.defence)
}

#[test]
fn threads_and_interruptions_do_not_change_a_result() {
    for case in every() {
        let one = run(&case);
        assert_eq!(one, run(&case.clone().threads(8)), "{} on 8 threads", shown(&case));
        let mut first = stop(Some(2), None);
        assert_eq!(case.run_with(&mut first).expect_err("it was stopped").kind, FaultKind::Interrupted);
        let continued = case.run_with(&mut stop(None, first.saved)).expect("it continues");
        assert_eq!(one, bytes(&continued), "{} stopped after round 2", shown(&case));
    }
}

#[test]
fn evaluating_seldom_changes_nothing() {
    for case in every() {
        let often = case.run().expect("it runs");
        let seldom = case.clone().with(json!({"eval_every": 3})).run().expect("it runs");
        assert!(often.global.params[..] == seldom.global.params[..], "{}", shown(&case));
        for evaluation in &seldom.history.evaluations {
            assert!(often.history.evaluations.contains(evaluation), "{} round {}", shown(&case), evaluation.round);
        }
    }
}

#[test]
fn threats_and_defences_that_do_nothing_change_nothing() {
    for base in algorithms_of_three() {
        let plain = base.run().expect("it runs").global;
        let nobody = base.clone().under("sign-flip", json!({"attackers": 0}));
        let far = base.clone().behind("norm-clipping", json!({"bound": 1e9}));
        let later = base.clone().under("label-flipping", json!({"first_round": 100}));
        for case in [nobody, far, later] {
            assert!(case.run().expect("it runs").global.params[..] == plain.params[..], "{}", shown(&case));
        }
    }
}

#[test]
fn every_algorithm_says_what_it_sends() {
    let not_averaged = ["local", "fedmtl", "fedfomo", "fedamp", "apple", "fd", "fedproto", "fedpcl", "fedgh", "fedkd", "pflda"];
    for entry in algorithms::all().iter() {
        let name = entry.description.name;
        let averages = matches!(case(name, json!({})).build().sends(), Sends::Averaged | Sends::AveragedAnd(_));
        assert_eq!(averages, !not_averaged.contains(&name), "{name}");
        // What is said is what happens: a defence runs or is refused before the first round, and so is a forged upload.
        let defended = case(name, json!({})).with(json!({"rounds": 1})).behind("median", json!({})).run();
        let poisoned = case(name, json!({})).with(json!({"rounds": 1})).under("label-flipping", json!({"attackers": 1})).run();
        assert!(poisoned.is_ok(), "{name}");
        match defended {
            Ok(_) => assert!(averages, "{name}"),
            Err(fault) => {
                assert!(!averages && fault.what.starts_with(&format!("`median` does not apply: `{name}` ")), "{name}: {fault}");
            }
        }
    }
    // Models that are not averaged can still be forged.
    let forged = |name| case(name, json!({})).with(json!({"rounds": 2})).under("sign-flip", json!({"attackers": 1}));
    for name in ["fedamp", "fedfomo"] {
        let plain = case(name, json!({})).with(json!({"rounds": 2})).run().expect("it runs");
        let forged = forged(name).run().expect("it runs");
        assert_ne!(plain.last.parts, forged.last.parts, "{name}");
    }
    assert!(forged("fedproto").run().expect_err("no parameters").what.contains("`sign-flip` does not apply"));
}

#[test]
fn rules_that_do_not_hold_are_named() {
    let fault = |case: Case| case.run().expect_err("it does not fit").what;
    let avg = || case("fedavg", json!({}));
    assert!(fault(avg().behind("krum", json!({"byzantine": 2}))).contains("n >= 2f + 3"));
    assert!(fault(avg().behind("bulyan", json!({"byzantine": 1}))).contains("n >= 4f + 3"));
    assert!(fault(avg().behind("slsgd", json!({"trim": 3}))).contains("m > 2b"));
    assert!(fault(avg().behind("krum", json!({})).with(json!({"join_ratio": 0.6}))).contains("there are 3"));
    assert!(fault(avg().under("zero", json!({"attackers": CLIENTS + 1}))).contains("only 5 clients"));
    assert!(fault(avg().under("label-flipping", json!({"from": [10], "to": [1]}))).contains("labels 0 to 9"));
    assert!(fault(avg().under("pixel-backdoor", json!({"size": 9}))).contains("does not fit"));
    assert!(fault(avg().under("edge-case", json!({"samples": 10_000}))).contains("but the data set has"));
}

#[test]
fn attackers_who_can_do_nothing_are_told_of() {
    let said = |case: Case| {
        let world = case.world();
        world.interventions.iter().flat_map(|intervention| intervention.remarks(&world)).collect::<Vec<_>>()
    };
    let avg = || case("fedavg", json!({})).with(json!({"batch_size": 10, "drop_last": true}));
    // A client has four of the ten classes, so that two of five have a class.
    let flip = avg().under("label-flipping", json!({"attackers": CLIENTS, "from": [0], "to": [1]}));
    assert_eq!(said(flip), ["3 of 5 attackers flip nothing: they have no training sample with such a label"]);
    assert_eq!(said(avg().under("label-flipping", json!({"attackers": CLIENTS}))), Vec::<String>::new());
    let backdoor = |fraction: f64| json!({"attackers": CLIENTS, "fraction": fraction});
    assert_eq!(said(avg().under("pixel-backdoor", backdoor(0.5))), Vec::<String>::new());
    let few = || avg().sizes(&[40, 40, 40, 4, 4]);
    assert_eq!(
        said(few().under("pixel-backdoor", backdoor(0.5))),
        ["2 of 5 attackers poison nothing: `fraction` 0.5 of their batches is no sample"]
    );
    for kind in ["pixel-backdoor", "model-replacement", "edge-case"] {
        let fault = few().under(kind, backdoor(0.09)).run().expect_err("nobody poisons");
        assert!(fault.what.contains("`fraction` 0.09 of a batch of 10 samples is none, rounded down"), "{kind}: {fault}");
    }
    // Batches of three, of which a quarter is none.
    let small = case("fedavg", json!({})).with(json!({"batch_size": 10, "drop_last": false})).sizes(&[4, 4, 4, 4, 4]);
    assert!(small.under("pixel-backdoor", backdoor(0.25)).run().is_err());
}

#[test]
fn refused_uploads_leave_sums_over_a_constant_count_as_means() {
    // These divide by the nominal cohort size: with one upload of five left, the model must not shrink to a fifth.
    for name in ["fedntd", "feddyn", "scaffold"] {
        let norm = |case: Case| case.run().expect("it runs").global.params.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let (all, one) = (norm(case(name, json!({}))), norm(case(name, json!({})).behind("krum", json!({}))));
        assert!((0.7..1.6).contains(&(one / all)), "{name}: {one} instead of {all}");
    }
}
