//! Defences withstand what they were made for, and cost little where nobody attacks.

use crate::small::{Case, case, digits};
use pflpipe::base::random::{Purpose, shuffle, stream};
use pflpipe::data::partition::Client;
use pflpipe::fl::round::Simulated;
use rand_distr::{Distribution, Gamma};
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
    let accuracy = if case.threat["kind"] == "none" { "test_accuracy" } else { "honest_accuracy" };
    (last(accuracy), last("attack_success"))
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
    for (defence, of) in [("krum", json!({})), ("median", json!({})), ("norm-clipping", json!({"bound": 1.0}))] {
        let (accuracy, success) = outcome(&base().under(attack().0, attack().1).behind(defence, of));
        println!("backdoor {defence}: accuracy {accuracy:.3}, success {success:.3}");
        assert!(success < 0.4, "{defence}: {success}");
    }
}

#[test]
fn crfl_forgets_a_backdoor_that_was_put_in_once() {
    for seed in 0..3 {
        // The corner's pixels are blank in most digits, so that clean rounds hardly touch what the pattern has taught.
        let clean = || {
            let seeds = json!({"rounds": 18, "eval_every": 18, "learning_rate": 0.1, "batch_seed": seed, "sampling_seed": seed});
            base().dense(32).with(seeds)
        };
        let once = json!({"attackers": 1, "size": 4, "first_round": 12, "last_round": 12, "seed": seed});
        let attacked = || clean().under("model-replacement", once.clone());
        let crfl = |votes: u64| json!({"threshold": 5.0, "growth": 0.0, "stddev": 0.01, "seed": seed, "votes": votes});
        let ((plain, _), (quiet, _)) = (outcome(&clean()), outcome(&clean().behind("crfl", crfl(0))));
        let ((_, open), (accuracy, closed)) = (outcome(&attacked()), outcome(&attacked().behind("crfl", crfl(0))));
        let (voted_accuracy, voted) = outcome(&attacked().behind("crfl", crfl(9)));
        println!("crfl {seed}: success {open:.3}, defended {closed:.3}, by votes {voted:.3}");
        println!("  accuracy {plain:.3}, with crfl {quiet:.3}, attacked {accuracy:.3}, by votes {voted_accuracy:.3}");
        assert!(open > 0.6 && closed < 0.2 && voted < 0.2, "{open} {closed} {voted}");
        assert!(quiet > plain - 0.05 && accuracy > plain - 0.05 && voted_accuracy > plain - 0.05, "{plain} {quiet} {accuracy}");
    }
}

#[test]
fn votes_of_exact_copies_are_the_model_itself_and_leave_the_training_alone() {
    let of = |stddev: f64, votes: u64| {
        let crfl = json!({"threshold": 5.0, "stddev": stddev, "votes": votes});
        base().with(json!({"rounds": 2, "eval_every": 1})).behind("crfl", crfl).run().expect("it runs")
    };
    let accuracy = |run: &Simulated| run.history.series("test_accuracy");
    let (alone, exact, noisy) = (of(0.0, 0), of(0.0, 3), of(0.3, 3));
    assert_eq!(accuracy(&alone), accuracy(&exact));
    assert_eq!(alone.global.params, exact.global.params);
    // Noise as large as this changes answers, but not what is trained.
    let silent = of(0.3, 0);
    assert_ne!(accuracy(&noisy), accuracy(&silent));
    assert_eq!(noisy.global.params, silent.global.params);
}

/// Twelve clients with digits of classes in proportions that a Dirichlet distribution gives, 120 each or fewer.
fn uneven(seed: u64, alpha: f64) -> Case {
    let data = digits();
    let mut free: Vec<Vec<u32>> = vec![Vec::new(); 10];
    data.labels().iter().enumerate().for_each(|(i, label)| free[*label as usize].push(i as u32));
    let clients = (0..CLIENTS as u64).map(|id| {
        let mut rng = stream(seed, Purpose::Partition, id, 0, 0);
        let gamma = Gamma::new(alpha, 1.0).expect("a valid shape");
        let drawn: Vec<f64> = (0..10).map(|_| gamma.sample(&mut rng)).collect();
        let sum: f64 = drawn.iter().sum();
        let mut own: Vec<u32> = Vec::new();
        for (class, share) in drawn.iter().enumerate() {
            let most = ((share / sum * 120.0).round() as usize).min(free[class].len());
            own.extend(free[class].drain(..most));
        }
        shuffle(&mut rng, &mut own);
        let train = own.len() * 3 / 4;
        Client { train: own[..train].to_vec(), test: own[train..].to_vec() }
    });
    let clients = clients.collect();
    Case { clients, ..base().with(json!({"batch_seed": seed, "sampling_seed": seed, "rounds": 20, "eval_every": 20})) }
}

#[test]
fn foolsgold_leaves_out_sybils_among_uneven_clients() {
    for seed in 0..3 {
        let (clean, gold) = (|| uneven(seed, 0.5), |case: Case| outcome(&case.behind("foolsgold", json!({}))));
        let attacked = || clean().under("pixel-backdoor", json!({"attackers": 5, "fraction": 1.0, "seed": seed}));
        let ((plain, _), (quiet, _)) = (outcome(&clean()), gold(clean()));
        let ((harmed, open), (accuracy, closed)) = (outcome(&attacked()), gold(attacked()));
        println!("foolsgold {seed}: success {open:.3}, defended {closed:.3}");
        println!("  accuracy {plain:.3}, with foolsgold {quiet:.3}, attacked {harmed:.3}, defended {accuracy:.3}");
        assert!(open > 0.4 && closed < 0.05, "{open} {closed}");
        assert!(quiet > plain - 0.08 && accuracy > harmed && accuracy > plain - 0.15, "{plain} {quiet} {harmed} {accuracy}");
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
