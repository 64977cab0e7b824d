//! Defences withstand what they were made for, and cost little where nobody attacks.

use crate::small::{Case, case, digits};
use pflpipe::data::partition::Client;
use serde_json::{Value, json};

const CLIENTS: usize = 12;

/// Twelve clients with digits of all classes, 120 each.
fn base() -> Case {
    let n = digits().len() as u32;
    let clients = (0..CLIENTS as u32).map(|id| {
        let own: Vec<u32> = (0..n).filter(|i| i % CLIENTS as u32 == id).take(120).collect();
        Client { train: own[..90].to_vec(), test: own[90..].to_vec() }
    });
    let mut case = case("fedavg", json!({})).with(json!({"rounds": 12, "local_epochs": 4, "learning_rate": 0.05, "eval_every": 12}));
    case.clients = clients.collect();
    case
}

/// The last accuracy of honest clients, and the success of the attack.
fn outcome(case: &Case) -> (f64, f64) {
    let history = case.run().expect("it runs").history;
    let last = |metric| history.series(metric).last().map_or(0.0, |(_, value)| *value);
    // A model that is no longer finite is worth nothing.
    (last("honest_accuracy"), last("attack_success"))
}

fn accuracy(threat: (&str, Value), defence: (&str, Value)) -> f64 {
    outcome(&base().under(threat.0, threat.1).behind(defence.0, defence.1)).0
}

fn none() -> (&'static str, Value) {
    ("none", json!({}))
}

#[test]
fn a_defence_costs_little_without_an_attack() {
    let plain = accuracy(none(), none());
    assert!(plain > 0.8, "{plain}");
    for (kind, params, least) in [
        ("median", json!({}), 0.05),
        ("trimmed-mean", json!({}), 0.05),
        ("krum", json!({"byzantine": 2}), 0.12),
        ("multi-krum", json!({"byzantine": 2}), 0.05),
        ("bulyan", json!({"byzantine": 2}), 0.05),
        ("rfa", json!({}), 0.05),
        ("norm-clipping", json!({"bound": 3.0}), 0.05),
        ("weak-dp", json!({"bound": 3.0}), 0.08),
        ("centered-clipping", json!({}), 0.05),
        ("foolsgold", json!({}), 0.15),
        ("crfl", json!({"threshold": 8.0}), 0.08),
        ("slsgd", json!({}), 0.08),
        ("three-sigma", json!({}), 0.08),
    ] {
        let with = accuracy(none(), (kind, params));
        println!("{kind}: {with:.3} of {plain:.3}");
        assert!(with > plain - least, "{kind}: {with} instead of {plain}");
    }
}

#[test]
fn robust_aggregates_withstand_forged_uploads() {
    let clean = accuracy(none(), none());
    for (threat, params) in [
        ("random", json!({"attackers": 2})),
        ("sign-flip", json!({"attackers": 2, "strength": 6.0})),
        ("scaled", json!({"attackers": 2, "factor": 20.0})),
        ("zero", json!({"attackers": 2})),
    ] {
        let attacked = accuracy((threat, params.clone()), none());
        println!("{threat}: {attacked:.3} of {clean:.3} without a defence");
        // Noise and zeros of two among twelve are diluted; what is turned around or long is not.
        assert!(!["sign-flip", "scaled"].contains(&threat) || attacked < clean - 0.4, "{threat}: {attacked}");
        for (defence, of) in [
            ("median", json!({})),
            ("trimmed-mean", json!({})),
            ("krum", json!({"byzantine": 2})),
            ("multi-krum", json!({"byzantine": 2})),
            ("bulyan", json!({"byzantine": 2})),
            ("rfa", json!({})),
            ("slsgd", json!({"trim": 2})),
            ("three-sigma", json!({})),
        ] {
            let defended = accuracy((threat, params.clone()), (defence, of));
            println!("{threat} {defence}: {defended:.3}");
            assert!(defended > clean - 0.15, "{defence} under {threat}: {defended}, {clean} without an attack");
        }
    }
}

#[test]
fn clipping_withstands_what_is_long() {
    let clean = accuracy(none(), none());
    for threat in [("random", json!({"attackers": 2, "scale": 3.0})), ("sign-flip", json!({"attackers": 2, "strength": 30.0}))] {
        let attacked = accuracy(threat.clone(), none());
        for (defence, of) in [
            ("norm-clipping", json!({"bound": 2.0})),
            ("weak-dp", json!({"bound": 2.0, "stddev": 0.005})),
            ("centered-clipping", json!({"tau": 2.0})),
        ] {
            let defended = accuracy(threat.clone(), (defence, of));
            println!("{} {defence}: {defended:.3}, {attacked:.3} without, {clean:.3} clean", threat.0);
            assert!(defended > attacked + 0.2 && defended > clean - 0.25, "{defence} under {}: {defended}, not {attacked}", threat.0);
        }
    }
}

#[test]
fn backdoors_open_and_defences_close_them() {
    let attack = || ("model-replacement", json!({"attackers": 1, "size": 3}));
    let (accuracy, open) = outcome(&base().under(attack().0, attack().1));
    let (_, by_chance) = outcome(&base().under("pixel-backdoor", json!({"attackers": 0, "size": 3})));
    println!("backdoor: accuracy {accuracy:.3}, success {open:.3}, {by_chance:.3} without attackers");
    assert!(open > 0.5 && by_chance < 0.3, "{open} {by_chance}");
    for (defence, of) in [
        ("krum", json!({})),
        ("median", json!({})),
        ("norm-clipping", json!({"bound": 1.0})),
        ("crfl", json!({"threshold": 6.0, "stddev": 0.02})),
    ] {
        let (accuracy, success) = outcome(&base().under(attack().0, attack().1).behind(defence, of));
        println!("backdoor {defence}: accuracy {accuracy:.3}, success {success:.3}");
        if defence != "crfl" {
            assert!(success < 0.4, "{defence}: {success}");
        }
    }
}

#[test]
fn edge_cases_and_flipped_labels_are_learned_and_foolsgold_sees_twins() {
    let (_, tail) = outcome(&base().under("edge-case", json!({"attackers": 4})));
    let (_, nobody) = outcome(&base().under("edge-case", json!({"attackers": 0})));
    println!("edge case: {tail:.3}, {nobody:.3} without attackers");
    assert!(tail > nobody + 0.3, "{tail} {nobody}");
    let flipped = || base().under("label-flipping", json!({"attackers": 5, "from": [1], "to": [7]}));
    let (_, open) = outcome(&flipped());
    let (accuracy, closed) = outcome(&flipped().behind("foolsgold", json!({})));
    println!("flipped: {open:.3}, with foolsgold {closed:.3} at accuracy {accuracy:.3}");
    assert!(open > 0.25 && closed < 0.7 * open && accuracy > 0.75, "{closed} {open} {accuracy}");
}
