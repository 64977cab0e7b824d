//! Partitions: PFLlib's numbers bit for bit, and rules that always come to an end.

use pflpipe::base::{Fault, FaultKind};
use pflpipe::data::partition::{Partition, Population, Procedure, build, build_from, variants};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Instant;

const CLASSES: usize = 10;

/// All labels, training then test, two a byte: 70,000, or 60,000 of CIFAR-10.
fn labels(name: &str) -> Vec<u32> {
    let packed: &[u8] = match name {
        "mnist" => include_bytes!("golden/partitions/mnist.labels"),
        "cifar10" => include_bytes!("golden/partitions/cifar10.labels"),
        _ => include_bytes!("golden/partitions/fashion.labels"),
    };
    packed.iter().flat_map(|byte| [u32::from(byte & 15), u32::from(byte >> 4)]).collect()
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().expect("a map").clone()
}

fn make(kind: &str, labels: &[u32], value: Value) -> Result<Partition, Fault> {
    build(kind, &params(value), labels, CLASSES)
}

fn sizes(partition: &Partition) -> Vec<usize> {
    partition.clients().iter().map(|client| client.len()).collect()
}

fn label_sets(partition: &Partition, labels: &[u32]) -> Vec<BTreeSet<u32>> {
    let of = |client: &pflpipe::data::Client| client.train.iter().chain(&client.test).map(|&i| labels[i as usize]).collect();
    partition.clients().iter().map(of).collect()
}

fn sha256(partition: &Partition) -> String {
    let mut hasher = Sha256::new();
    for side in partition.clients().iter().flat_map(|client| [&client.train, &client.test]) {
        hasher.update((side.len() as u32).to_le_bytes());
        side.iter().for_each(|index| hasher.update(index.to_le_bytes()));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

// The program that produced the numbers: tests/golden/partitions/make.py.
#[test]
fn every_golden_partition_of_numpy_is_reproduced_bit_for_bit() {
    let all = ["mnist", "fashion", "cifar10"].map(|name| (name, labels(name)));
    let mut count = 0;
    for line in include_str!("golden/partitions/partitions.jsonl").lines() {
        let golden: Value = serde_json::from_str(line).expect("a golden line");
        let mut wanted = golden.as_object().expect("a map").clone();
        if let Some(ratio) = wanted.remove("ratio") {
            wanted.insert("train_ratio".into(), ratio);
        }
        // The reference's default, which is not this program's.
        wanted.entry("balance").or_insert(json!(false));
        let kind = golden["kind"].as_str().expect("a kind");
        if kind.contains("dirichlet") {
            wanted.remove("balance");
        }
        let (_, labels) = all.iter().find(|(name, _)| golden["labels"] == *name).expect("known labels");
        let partition = build(kind, &wanted, labels, CLASSES).expect("the reference makes it");
        let setting = format!("{kind} {line:.120}");
        assert_eq!(json!(sizes(&partition)), golden["sizes"], "{setting}");
        assert_eq!(json!(partition.clients()[0].train[..5]), golden["first"], "{setting}");
        assert_eq!(json!(partition.flags().attempts), golden["attempts"], "{setting}");
        assert_eq!(sha256(&partition), golden["sha256"], "{setting}");
        assert!(!partition.flags().repaired);
        count += 1;
    }
    assert_eq!(count, 63);
}

#[test]
fn the_sizes_that_pfllib_documents_are_its_defaults() {
    let partition = make("dirichlet", &labels("mnist"), json!({"clients": 20})).expect("feasible");
    let documented =
        [2630, 499, 1630, 2541, 1917, 6189, 1256, 1269, 3600, 4006, 3116, 3772, 3613, 2134, 5730, 5448, 3628, 5653, 5266, 6103];
    assert_eq!(sizes(&partition), documented);
    assert_eq!(partition.clients()[0].train[..5], [15148, 30903, 46034, 3211, 7376]);
    let manifest = partition.manifest(&labels("mnist")).expect("fits");
    assert_eq!(manifest.clients[0].counts, [140, 890, 0, 0, 1, 319, 0, 29, 1067, 184]);
    let train: Vec<usize> = manifest.clients.iter().map(|client| client.train).collect();
    assert_eq!(train[..6], [1972, 374, 1222, 1905, 1437, 4641]);
}

#[test]
fn a_thousand_clients_end_within_a_second_with_a_fault_or_a_flagged_repair() {
    let labels = labels("mnist");
    for variant in ["pfllib", "clean"] {
        for (clients, alpha, least) in [(1000, 0.1, 40), (1000, 0.1, 35), (1000, 0.01, 70), (500, 0.1, 40)] {
            let setting = json!({"clients": clients, "alpha": alpha, "least_samples": least, "variant": variant});
            let start = Instant::now();
            let fault = make("dirichlet", &labels, setting.clone()).expect_err("no draw is good enough");
            assert!(fault.what.starts_with("infeasible: in ") && fault.kind == FaultKind::Stage, "{fault}");
            let mut repaired = params(setting);
            repaired.insert("repair".into(), json!(true));
            let partition = build("dirichlet", &repaired, &labels, CLASSES).expect("feasible by repair");
            println!("{variant}, {clients} clients, alpha {alpha}: {:?} for both, moved {}", start.elapsed(), partition.flags().moved);
            assert!(start.elapsed().as_secs_f64() < 10.0, "also on a slow machine without optimization");
            assert!(partition.flags().repaired && partition.flags().moved > 0);
            assert!(sizes(&partition).iter().all(|&size| size >= least));
        }
    }
}

#[test]
fn more_least_samples_than_there_are_is_refused_at_once() {
    let fault =
        make("dirichlet", &labels("mnist"), json!({"clients": 1000, "least_samples": 71, "repair": true})).expect_err("71,000 of 70,000");
    assert!(fault.what.contains("need 71000 samples, but the data set has 70000"), "{fault}");
    assert_eq!(fault.help.as_deref(), Some("choose fewer clients, or `least_samples` of at most 70"));
}

#[test]
fn a_partition_that_nobody_wants_any_more_is_given_up() {
    let labels = labels("mnist");
    let (asked, hopeless) = (Cell::new(0), json!({"clients": 1000, "alpha": 0.01, "least_samples": 70, "max_attempts": 1_000_000}));
    let third = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let population = Population::of_labels(&labels, CLASSES).until(&third);
    let fault = build_from("dirichlet", &params(hopeless), &population, &[]).expect_err("it is stopped");
    assert!(fault.kind == FaultKind::Interrupted && asked.get() == 3, "{fault}");
}

#[test]
fn a_region_without_a_share_is_refused() {
    let shares = json!([vec![0.5; 10], vec![0.0; 10]]);
    let setting = json!({"clients": 4, "regions": 2, "skew": "matrix", "shares": shares});
    let fault = make("regions", &labels("mnist"), setting).expect_err("region 1 is empty");
    assert_eq!(fault.what, "region 1 gets no sample: all its shares are 0");
    let shares = vec![json!([1.0, 0.0]); 10];
    let setting = json!({"clients": 4, "regions": 2, "skew": "matrix", "label_shares": shares});
    assert!(make("regions", &labels("mnist"), setting).is_err());
}

#[test]
fn clean_iid_gives_equal_clients_the_global_distribution() {
    let labels = labels("mnist");
    for clients in [7, 20, 70] {
        for stratified in [true, false] {
            let setting = json!({"clients": clients, "variant": "clean", "stratified": stratified});
            let partition = make("iid", &labels, setting).expect("feasible");
            let indices = partition.manifest(&labels).expect("fits").indices;
            assert!(indices.size_max - indices.size_min <= 1, "{clients} clients");
            let bound = if stratified { 0.005 } else { 0.1 };
            assert!(indices.total_variation_max < bound, "{clients} clients, {stratified}: {}", indices.total_variation_max);
        }
    }
    let skewed =
        make("iid", &labels, json!({"clients": 20, "variant": "clean", "balance": false, "least_samples": 100})).expect("feasible");
    let indices = skewed.manifest(&labels).expect("fits").indices;
    assert!(indices.size_cv > 0.3 && indices.size_min >= 100 && indices.total_variation_max < 0.05, "{indices:?}");
}

#[test]
fn clean_pathological_draws_label_sets_and_uses_every_class() {
    let labels = labels("mnist");
    for (clients, each, balance) in [(20, 2, false), (7, 3, true), (7, 3, false), (100, 2, true), (5, 2, false), (3, 10, true)] {
        let setting = json!({"clients": clients, "classes_per_client": each, "balance": balance, "variant": "clean"});
        let partition = make("pathological", &labels, setting).expect("feasible");
        let sets = label_sets(&partition, &labels);
        assert!(sets.iter().all(|set| set.len() == each), "{clients} clients of {each}: {sets:?}");
        assert_eq!(sets.iter().flatten().collect::<BTreeSet<_>>().len(), CLASSES);
        assert_eq!(partition.flags().left_out, 0);
        if (clients, each) == (20, 2) {
            assert!(sets.iter().collect::<BTreeSet<_>>().len() > 5, "{sets:?}");
        }
    }
    // The reference leaves a class out here, which is counted.
    let partition = make("pathological", &labels, json!({"clients": 7, "classes_per_client": 3})).expect("feasible");
    assert_eq!(partition.flags().left_out, 6958);
}

#[test]
fn clean_dirichlet_ends_for_every_alpha_and_orders_clients_by_it() {
    let labels = labels("mnist");
    let mut before = f64::INFINITY;
    for alpha in [1e-300, 0.01, 0.1, 1.0, 10.0, 1e4, 1e12] {
        let setting = json!({"clients": 10, "alpha": alpha, "variant": "clean", "repair": true});
        let partition = make("dirichlet", &labels, setting).expect("feasible");
        let indices = partition.manifest(&labels).expect("fits").indices;
        assert!(indices.total_variation_mean < before + 0.05, "alpha {alpha}: {indices:?}");
        before = indices.total_variation_mean;
        for kind in ["dirichlet", "extended-dirichlet"] {
            let setting = json!({"clients": 2, "alpha": alpha, "variant": "clean", "repair": true, "classes_per_client": 5});
            assert_eq!(make(kind, &labels, setting).expect("feasible").clients().len(), 2, "{kind} {alpha}");
        }
    }
    assert!(before < 0.001, "alpha 1e12: {before}");
}

#[test]
fn pfllib_dirichlet_never_meets_nan_in_an_output() {
    let labels = labels("mnist");
    for alpha in [1e-300, 1e-6, 0.1, 100.0, 1e4] {
        let setting = json!({"clients": 2, "alpha": alpha, "repair": true, "max_attempts": 3});
        let partition = make("dirichlet", &labels, setting).expect("feasible");
        assert!(sizes(&partition).iter().all(|&size| size >= 40), "alpha {alpha}");
    }
}

#[test]
fn extended_dirichlet_keeps_to_the_classes_of_each_client() {
    let labels = labels("fashion");
    for seed in 0..20 {
        let setting = json!({"clients": 50, "alpha": 0.3, "classes_per_client": 3, "seed": seed, "variant": "clean", "repair": true});
        let partition = make("extended-dirichlet", &labels, setting).expect("feasible");
        assert!(label_sets(&partition, &labels).iter().all(|set| set.len() <= 3));
        assert!(sizes(&partition).iter().all(|&size| size >= 10));
    }
}

#[test]
fn the_manifest_counts_what_the_partition_holds() {
    let labels = labels("mnist");
    for kind in ["iid", "pathological", "dirichlet", "extended-dirichlet"] {
        for variant in ["pfllib", "clean"] {
            let partition = make(kind, &labels, json!({"clients": 20, "alpha": 1.0, "variant": variant})).expect("feasible");
            let manifest = partition.manifest(&labels).expect("fits");
            let (mut total, mut all) = (0, vec![0; CLASSES]);
            for (client, summary) in partition.clients().iter().zip(&manifest.clients) {
                let mut counts = vec![0; CLASSES];
                client.train.iter().chain(&client.test).for_each(|&i| counts[labels[i as usize] as usize] += 1);
                assert_eq!((&counts, client.train.len(), client.test.len()), (&summary.counts, summary.train, summary.test));
                total += client.len();
                all.iter_mut().zip(&counts).for_each(|(all, count)| *all += count);
            }
            assert_eq!(total, 70_000, "{kind} {variant}");
            assert_eq!(all, [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]);
            assert_eq!(Partition::from_bytes(&partition.to_bytes()).expect("own format"), partition);
            assert_eq!(manifest.to_json(), partition.manifest(&labels).expect("fits").to_json());
        }
    }
}

// Frozen with the first version of the clean procedures; they use nothing that differs between platforms or optimization levels.
#[test]
fn clean_partitions_and_manifests_are_the_same_everywhere() {
    let labels = labels("mnist");
    let digest = |kind: &str, setting: Value| {
        let partition = make(kind, &labels, setting).expect("feasible");
        assert_eq!(partition.procedure(), Procedure::Clean);
        let manifest = partition.manifest(&labels).expect("fits").to_json();
        [partition.to_bytes(), manifest].map(|bytes| pflpipe::base::Digest::of(&bytes).short())
    };
    let clean = |more: Value| {
        let mut setting = params(json!({"clients": 20, "variant": "clean", "seed": 7}));
        setting.extend(params(more));
        Value::Object(setting)
    };
    let found = [
        digest("iid", clean(json!({}))),
        digest("iid", clean(json!({"balance": false, "stratified": false}))),
        digest("pathological", clean(json!({}))),
        digest("dirichlet", clean(json!({}))),
        digest("dirichlet", clean(json!({"clients": 1000, "repair": true, "max_attempts": 2}))),
        digest("extended-dirichlet", clean(json!({"alpha": 0.5}))),
    ];
    assert_eq!(found, FROZEN);
}

/// Of the partition and of its manifest.
const FROZEN: [[&str; 2]; 6] = [
    ["d5794df9ad62", "dd89ae8b529f"],
    ["5b1159c9e83b", "eef4de3e6421"],
    ["5ad31b572d06", "9bb2ac38139b"],
    ["18442869d3fe", "220c4d4249ba"],
    ["d29e5e22ed4b", "1de1982d5ec8"],
    ["c835ab181109", "6ab4b6a0da7c"],
];

#[test]
fn seeds_change_partitions_and_threads_do_not() {
    let labels = labels("mnist");
    for variant in ["pfllib", "clean"] {
        let of = |seed: u64| make("dirichlet", &labels, json!({"clients": 20, "alpha": 1.0, "variant": variant, "seed": seed}));
        let first = of(1).expect("feasible");
        assert_ne!(first, of(2).expect("feasible"));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| of(1).expect("feasible"))).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().expect("no panic"), first));
        });
    }
}

#[test]
fn what_is_not_possible_is_a_fault_with_help() {
    let labels = labels("mnist");
    let cases = [
        ("dirichlet", json!({}), "`dirichlet` needs `clients`"),
        ("dirichlet", json!({"clients": 0}), "`clients` of `dirichlet` is 0, but must be an integer of at least 1"),
        ("dirichlet", json!({"clients": 5, "alpha": 0}), "`alpha` of `dirichlet` is 0, but must be a number above 0"),
        ("dirichlet", json!({"clients": 5, "alpha": -1.5}), "`alpha` of `dirichlet` is -1.5, but must be a number above 0"),
        ("dirichlet", json!({"clients": 70_001}), "`clients` is 70001, but the data set has 70000 samples"),
        ("iid", json!({"clients": 5, "train_ratio": 1.0}), "`train_ratio` of `iid` is 1.0, but must be a number above 0 and below 1"),
        ("pathological", json!({"clients": 5, "classes_per_client": 11}), "`classes_per_client` is 11, but the data set has 10 classes"),
        (
            "dirichlet",
            json!({"clients": 5, "seed": 4_294_967_296_u64}),
            "`seed` is 4294967296, but `variant: pfllib` takes 0 to 4294967295",
        ),
        (
            "pathological",
            json!({"clients": 4, "classes_per_client": 2, "variant": "clean"}),
            "infeasible: 4 clients of 2 classes each cannot",
        ),
        ("iid", json!({"clients": 70_000}), "client 0 has 0 samples: too few for a training and a test set"),
        ("dirichlet", json!({"clients": 5, "balance": false}), "`balance: false` of `dirichlet` is not possible with `variant: pfllib`"),
        ("dirichlt", json!({"clients": 5}), "there is no partition of kind `dirichlt`"),
    ];
    for (kind, setting, text) in cases {
        let fault = make(kind, &labels, setting.clone()).expect_err(text);
        assert!(fault.what.starts_with(text), "{setting}: {fault}");
        assert_eq!(fault.kind, FaultKind::Stage);
    }
    // What is set already is no advice.
    for variant in ["pfllib", "clean"] {
        let even = json!({"clients": 10, "classes_per_client": 2, "balance": true, "least_samples": 6_900, "variant": variant});
        let fault = make("pathological", &labels, even).expect_err("classes differ in size");
        assert!(fault.what.starts_with("infeasible: client ") && !fault.help.as_deref().expect("help").contains("balance"), "{fault:?}");
    }
    let fault = build("iid", &params(json!({"clients": 2})), &[0, 3, 1], 3).expect_err("label 3 of 3 classes");
    assert_eq!(fault.what, "sample 1 has label 3, but the data set has 3 classes");
}

#[test]
fn tiny_and_odd_data_sets_do_not_panic() {
    let sets: [&[u32]; 6] = [&[], &[0], &[0, 0, 0, 0], &[0, 1], &[2, 2, 2, 0, 0, 0, 0, 0], &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0]];
    for labels in sets {
        for kind in ["iid", "pathological", "dirichlet", "extended-dirichlet"] {
            for (clients, each) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (10, 1)] {
                for (variant, repair, balance) in
                    [("pfllib", true, true), ("pfllib", false, false), ("clean", true, true), ("clean", true, false)]
                {
                    let setting = json!({
                        "clients": clients, "classes_per_client": each, "variant": variant, "repair": repair, "balance": balance,
                        "max_attempts": 5
                    });
                    if let Ok(partition) = build(kind, &params(setting), labels, 3) {
                        assert_eq!(partition.clients().len(), clients);
                        partition.manifest(labels).expect("fits");
                    }
                }
            }
        }
    }
}

#[test]
fn every_kind_in_the_catalog_can_be_built_with_its_defaults() {
    let labels = labels("fashion");
    // Those that need groups, two levels of classes or a file are tested with such data sets.
    for variant in variants().into_iter().filter(|variant| !["natural", "pachinko", "imported"].contains(&variant.name)) {
        let mut setting = params(json!({"clients": 10}));
        for field in &variant.fields {
            if let pflpipe::spec::catalog::Default::Is(value) = &field.default {
                setting.insert(field.name.into(), value.clone());
            }
        }
        build(variant.name, &setting, &labels, CLASSES).unwrap_or_else(|fault| panic!("{}: {fault}", variant.name));
    }
}
