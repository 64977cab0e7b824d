//! The rules of other references index for index, natural clients, hold-outs, limits, and what cannot be met.

use pflpipe::base::{Fault, FaultKind};
use pflpipe::data::partition::{Partition, Population, build_from, noise, variants};
use pflpipe::data::{Bytes, Dataset, Groups, Origin, Samples, Scaling, Shape};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Instant;

const CLASSES: usize = 10;

/// MNIST's 70,000 labels, training then test, two a byte.
fn mnist() -> Vec<u32> {
    include_bytes!("golden/partitions/mnist.labels").iter().flat_map(|byte| [u32::from(byte & 15), u32::from(byte >> 4)]).collect()
}

fn params(value: &Value) -> Map<String, Value> {
    value.as_object().expect("a map").clone()
}

fn with(value: &Value, more: Value) -> Value {
    let mut all = params(value);
    all.extend(params(&more));
    Value::Object(all)
}

fn make(kind: &str, population: &Population<'_>, value: &Value) -> Result<Partition, Fault> {
    build_from(kind, &params(value), population, &[])
}

fn sizes(partition: &Partition) -> Vec<usize> {
    partition.clients().iter().map(|client| client.len()).collect()
}

// The program that produced the numbers: tests/golden/partitions/make_rules.py.
#[test]
fn the_rules_of_fedml_fedlab_niid_bench_and_profed_are_reproduced_index_for_index() {
    let labels = mnist();
    let longer: Vec<u32> = labels.iter().copied().chain([0]).collect();
    let mut count = 0;
    for line in include_str!("golden/partitions/rules.jsonl").lines() {
        let golden: Value = serde_json::from_str(line).expect("a golden line");
        let (kind, mut setting) = (golden["kind"].as_str().expect("a kind"), golden["params"].clone());
        let mut population = Population::of_labels(&labels, CLASSES);
        // Their lists come without a split; one sample more is the test set here.
        if setting["pool"] == "train" {
            population.train = 60_000;
            setting = with(&setting, json!({"test": "hold-out"}));
        } else if golden["split"] == false {
            population = Population { train: labels.len(), ..Population::of_labels(&longer, CLASSES) };
            setting = with(&setting, json!({"pool": "train", "test": "hold-out"}));
        }
        let partition = make(kind, &population, &setting).expect("the reference makes it");
        let mut hasher = Sha256::new();
        for client in partition.clients() {
            let sides = if golden["split"] == true { vec![&client.train, &client.test] } else { vec![&client.train] };
            for side in sides {
                hasher.update((side.len() as u32).to_le_bytes());
                side.iter().for_each(|index| hasher.update(index.to_le_bytes()));
            }
        }
        let sizes: Vec<usize> =
            if golden["split"] == true { sizes(&partition) } else { partition.clients().iter().map(|c| c.train.len()).collect() };
        let setting = format!("{line:.120}");
        assert_eq!(json!(sizes), golden["sizes"], "{setting}");
        assert_eq!(json!(partition.clients()[0].train[..5]), golden["first"], "{setting}");
        assert_eq!(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>(), golden["sha256"], "{setting}");
        let manifest = partition.manifest(population.labels).expect("fits");
        assert_eq!(manifest.disjoint, kind != "regions" || partition.flags().overlaps == 0, "{setting}");
        count += 1;
    }
    assert_eq!(count, 24);
}

/// A data set of one pixel a sample, with writers of very different sizes and two levels of classes.
fn grouped(samples: usize, classes: usize, train: usize) -> Dataset {
    let labels: Vec<u32> = (0..samples).map(|i| ((i * 7 + i / 13) % classes) as u32).collect();
    let of: Vec<u32> = (0..samples).map(|i| ((i * i + i / 5) % 997 % 20) as u32 / 2).collect();
    let groups = Groups { what: "writer".into(), names: (0..10).map(|n| format!("w{n}")).collect(), of };
    let bytes = Bytes::new(Arc::new((0..samples).map(|i| i as u8).collect()), 0);
    let shape = Shape { channels: 1, height: 1, width: 1 };
    let samples = Samples::bytes(bytes, Scaling::symmetric(255));
    let data = Dataset::new("grouped", shape, classes, samples, labels, train, Origin::default()).expect("fits");
    data.with_groups(groups).expect("fits").with_superclasses((0..classes as u32).map(|class| class / 5).collect()).expect("fits")
}

#[test]
fn every_new_rule_is_complete_and_disjoint_with_its_defaults_and_its_clean_variant() {
    let data = grouped(6000, 20, 5000);
    let population = Population::of(&data);
    for variant in variants() {
        for clean in [false, true] {
            let mut setting = json!({});
            for field in &variant.fields {
                match &field.default {
                    pflpipe::spec::catalog::Default::Is(value) => setting[field.name] = value.clone(),
                    pflpipe::spec::catalog::Default::Required => setting[field.name] = json!(20),
                    pflpipe::spec::catalog::Default::Absent => {}
                }
            }
            if clean && setting.get("variant").is_some() {
                setting["variant"] = json!("clean");
            }
            let partition = make(variant.name, &population, &setting).unwrap_or_else(|fault| panic!("{}: {fault}", variant.name));
            let manifest = partition.manifest(data.labels()).expect("fits");
            let own = |client: &pflpipe::data::Client| client.train.iter().chain(&client.test).copied().collect::<Vec<u32>>();
            let mut all: Vec<u32> = partition.clients().iter().flat_map(own).collect();
            all.sort_unstable();
            assert!(manifest.disjoint && all.windows(2).all(|pair| pair[0] < pair[1]), "{}", variant.name);
            assert_eq!(manifest.complete, all.len() == 6000, "{}", variant.name);
            assert!(manifest.complete || !clean, "{}: {:?}", variant.name, partition.flags());
            assert_eq!(Partition::from_bytes(&partition.to_bytes()).expect("own format"), partition);
            assert_eq!(make(variant.name, &population, &setting).expect("again"), partition);
        }
    }
}

#[test]
fn natural_clients_are_the_groups_and_may_be_chosen_ordered_and_put_together() {
    let data = grouped(3000, 20, 2400);
    let population = Population::of(&data);
    let groups = data.groups().expect("there are some");
    let all = make("natural", &population, &json!({"test": "original"})).expect("feasible");
    for (id, client) in all.clients().iter().enumerate() {
        assert!(client.train.iter().chain(&client.test).all(|&i| groups.of[i as usize] == id as u32));
        assert!(client.train.iter().all(|&i| i < 2400) && client.test.iter().all(|&i| i >= 2400));
        assert!(client.train.is_sorted() && client.test.is_sorted());
    }
    let largest = make("natural", &population, &json!({"clients": 4, "order": "largest-first"})).expect("feasible");
    let mut expected = sizes(&all);
    expected.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(sizes(&largest), expected[..4]);
    assert_eq!(largest.flags().left_out, expected[4..].iter().sum::<usize>() as u64);
    let ordered = make("natural", &population, &json!({"order": "smallest-first", "test": "original"})).expect("feasible");
    assert!(ordered.clients().windows(2).all(|pair| pair[0].train.len() <= pair[1].train.len()));
    let merged = make("natural", &population, &json!({"clients": 3, "fewer": "merge"})).expect("feasible");
    assert_eq!((merged.clients().len(), sizes(&merged).iter().sum::<usize>()), (3, 3000));
    let few = make("natural", &population, &json!({"least_samples": expected[5]})).expect("feasible");
    assert_eq!(few.clients().len(), 6);
    let fault = make("natural", &population, &json!({"clients": 11})).expect_err("ten writers");
    assert!(fault.what.contains("11 clients need as many writers, but there are 10 writers"), "{fault}");
    let labels = mnist();
    let fault = make("natural", &Population::of_labels(&labels, CLASSES), &json!({})).expect_err("no groups");
    assert!(fault.what.contains("does not say who its samples come from"), "{fault}");
}

#[test]
fn hold_outs_are_nobodys_training_samples_and_may_be_everybodys_test_set() {
    let labels = mnist();
    let mut population = Population::of_labels(&labels, CLASSES);
    population.train = 60_000;
    let setting = json!({"clients": 20, "variant": "fedml", "seed": 10, "pool": "train", "test": "hold-out"});
    let shared = make("iid", &population, &setting).expect("feasible");
    assert!(shared.shared_test() && shared.hold_out().len() == 10_000 && shared.flags().held_out == 10_000);
    assert!(shared.clients().iter().all(|client| client.test == shared.hold_out() && client.train.len() == 3000));
    let bytes = shared.to_bytes();
    assert!(bytes.len() < 4 * 70_000 + 1000, "the shared test set is stored once: {}", bytes.len());
    let manifest = shared.manifest(&labels).expect("fits");
    assert!(manifest.disjoint && manifest.complete && manifest.indices.size_max == 3000, "{:?}", manifest.indices);

    let part = make("dirichlet", &population, &json!({"clients": 5, "alpha": 1.0, "variant": "clean", "hold_out": 0.1})).expect("feasible");
    let mut held = vec![0; CLASSES];
    part.hold_out().iter().for_each(|&i| held[labels[i as usize] as usize] += 1);
    assert_eq!(held, [690, 788, 699, 714, 682, 631, 688, 729, 683, 696], "a tenth of each class");
    assert_eq!(sizes(&part).iter().sum::<usize>(), 63_000);

    for (setting, text) in [
        (json!({"test": "hold-out"}), "`test: hold-out` needs samples that are held out"),
        (json!({"pool": "train", "test": "original"}), "`pool: train` gives no client a sample of the original test set"),
        (json!({"hold_out": 1.0}), "`hold_out` of `iid` is 1.0"),
    ] {
        let fault = make("iid", &population, &with(&json!({"clients": 5}), setting)).expect_err(text);
        assert!(fault.what.starts_with(text) && fault.kind == FaultKind::Stage, "{fault}");
    }
    for setting in [json!({"clients": 5, "pool": "train"}), json!({"clients": 5, "test": "original"})] {
        let fault = make("iid", &Population::of_labels(&labels, CLASSES), &setting).expect_err("no test set");
        assert!(fault.what.contains("needs an original test set"), "{fault}");
    }
}

#[test]
fn limits_leave_samples_out_and_say_so() {
    let labels = mnist();
    let population = Population::of_labels(&labels, CLASSES);
    for variant in ["pfllib", "clean"] {
        let setting = json!({"clients": 20, "most_samples": 1000, "variant": variant, "alpha": 0.5});
        let partition = make("dirichlet", &population, &setting).expect("feasible");
        let sum: usize = sizes(&partition).iter().sum();
        assert!(sizes(&partition).iter().all(|&size| size <= 1000) && partition.flags().left_out == 70_000 - sum as u64);
        assert!(!partition.manifest(&labels).expect("fits").complete);
    }
    let fault = make("dirichlet", &population, &json!({"clients": 20, "most_samples": 10, "least_samples": 20})).expect_err("contrary");
    assert!(fault.what.contains("less than `least_samples`"));
}

#[test]
fn clean_regions_do_not_overlap_and_their_devices_are_alike() {
    let labels = mnist();
    let population = Population::of_labels(&labels, CLASSES);
    for (skew, regions) in [("iid", 3), ("hard", 3), ("hard", 10), ("dirichlet", 9)] {
        let setting = json!({"clients": 50, "regions": regions, "skew": skew});
        let partition = make("regions", &population, &setting).expect("feasible");
        let manifest = partition.manifest(&labels).expect("fits");
        assert!(manifest.disjoint && manifest.complete);
        // Client 0 and 1 are of one region, the last of another.
        let share = |id: usize, class: usize| manifest.clients[id].counts[class] as f64 / sizes(&partition)[id] as f64;
        let distance = |a: usize, b: usize| (0..CLASSES).map(|class| (share(a, class) - share(b, class)).abs()).sum::<f64>() / 2.0;
        assert!(distance(0, 1) < 0.02, "{skew}: {}", distance(0, 1));
        let other = distance(0, 49);
        assert!(if skew == "iid" { other < 0.02 } else { other > 0.3 }, "{skew}: {other}");
    }
    let mut shares = vec![vec![0.0; CLASSES]; 2];
    (0..CLASSES).for_each(|class| shares[class % 2][class] = 0.5);
    shares[0][9] = 0.5;
    let partition =
        make("regions", &population, &json!({"clients": 4, "regions": 2, "skew": "matrix", "shares": shares})).expect("feasible");
    let counts: Vec<Vec<u64>> = partition.manifest(&labels).expect("fits").clients.into_iter().map(|client| client.counts).collect();
    assert!(counts[0][1] == 0 && counts[2][0] == 0 && counts[0][9] + counts[1][9] == 3479, "{counts:?}");
    let mut label_shares = vec![vec![0.5, 0.25]; CLASSES];
    label_shares[3] = vec![0.0, 0.0];
    let setting = json!({"clients": 4, "regions": 2, "skew": "matrix", "label_shares": label_shares});
    let partition = make("regions", &population, &setting).expect("feasible");
    assert!(!partition.manifest(&labels).expect("fits").complete && partition.flags().left_out > 7141);
    label_shares[0] = vec![0.7, 0.7];
    let setting = json!({"clients": 4, "regions": 2, "skew": "matrix", "label_shares": label_shares});
    assert!(make("regions", &population, &setting).expect_err("140 percent").what.contains("must not be above 1"));
    assert!(make("regions", &population, &json!({"clients": 2, "regions": 3})).is_err());
    let fault = make("regions", &population, &json!({"clients": 20, "regions": 11})).expect_err("ten classes");
    assert!(fault.what.contains("only 10 classes to tell them apart"), "{fault}");
    // ProFed gives one sample to several regions, and says so here.
    let profed = make("regions", &population, &json!({"clients": 9, "regions": 3, "skew": "iid", "variant": "profed"})).expect("feasible");
    assert!(profed.flags().overlaps > 1000 && !profed.manifest(&labels).expect("fits").disjoint);
}

#[test]
fn pachinko_gives_clients_few_coarse_classes() {
    let data = grouped(50_000, 100, 50_000);
    let population = Population::of(&data);
    let start = Instant::now();
    let partition = make("pachinko", &population, &json!({"clients": 500})).expect("feasible");
    println!("pachinko, 500 clients of 100: {:?}", start.elapsed());
    let manifest = partition.manifest(data.labels()).expect("fits");
    assert!(manifest.complete && sizes(&partition).iter().all(|&size| size == 100));
    let coarse = |counts: &[u64]| counts.chunks(5).filter(|own| own.iter().any(|&count| count > 0)).count() as f64;
    let mean = manifest.clients[..250].iter().map(|client| coarse(&client.counts)).sum::<f64>() / 250.0;
    assert!(mean > 1.5 && mean < 8.0, "coarse classes of the first clients: {mean}");
    let labels = mnist();
    assert!(make("pachinko", &Population::of_labels(&labels, CLASSES), &json!({"clients": 10})).is_err());
}

#[test]
fn mixtures_end_where_fedlab_does_not() {
    let labels = mnist();
    let population = Population::of_labels(&labels, CLASSES);
    let start = Instant::now();
    for alpha in [0.01, 0.1, 1.0] {
        for shape in ["equal", "lognormal", "dirichlet"] {
            let setting = json!({"clients": 100, "alpha": alpha, "sizes": shape, "variant": "clean", "least_samples": 5});
            let partition = make("mixture", &population, &setting).expect("always");
            assert!(partition.manifest(&labels).expect("fits").complete && sizes(&partition).iter().all(|&size| size >= 5));
        }
    }
    println!("nine clean mixtures of 100 clients: {:?}", start.elapsed());
    let labels = vec![0; 3000].into_iter().chain(vec![1; 10]).collect::<Vec<u32>>();
    let fault = make("mixture", &Population::of_labels(&labels, 2), &json!({"clients": 10, "alpha": 0.001})).expect_err("used up");
    assert!(fault.what.contains("used up"), "{fault}");
}

#[test]
fn noise_grows_with_the_clients_number() {
    let data = grouped(2000, 10, 2000);
    let setting = json!({"clients": 5, "noise": 0.2});
    let partition = make("feature-noise", &Population::of(&data), &setting).expect("feasible");
    let noise = noise("feature-noise", &params(&setting)).expect("sound").expect("some");
    let noisy = noise.add(data.clone(), &partition).expect("fits");
    assert_eq!((noisy.labels(), noisy.groups(), noisy.superclasses()), (data.labels(), data.groups(), data.superclasses()));
    for (id, client) in partition.clients().iter().enumerate() {
        let (mut clean, mut other) = (Vec::new(), Vec::new());
        data.gather(&client.train, &mut clean);
        noisy.gather(&client.train, &mut other);
        let square = |(a, b): (&f32, &f32)| f64::from((a - b) * (a - b));
        let sd = (clean.iter().zip(&other).map(square).sum::<f64>() / clean.len() as f64).sqrt();
        // In [-1, 1] the noise is twice that in [0, 1].
        let expected = 0.4 * id as f64 / 4.0;
        assert!((sd - expected).abs() <= 0.15 * expected, "client {id}: {sd}, expected {expected}");
    }
    assert_eq!(noise.add(data.clone(), &partition).expect("fits").to_parts().samples, noisy.to_parts().samples);
}

#[test]
fn files_of_index_lists_are_taken_and_checked() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let labels = [0, 1, 0, 1, 0, 1];
    let population = Population::of_labels(&labels, 2);
    let get = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).expect("a temporary file");
        build_from("imported", &params(&json!({"file": name})), &population, &[dir.path().to_path_buf()])
    };
    let both =
        get("own.json", r#"{"format": "x", "clients": [{"train": [3, 1], "test": [5]}, {"train": [0], "test": []}]}"#).expect("sound");
    assert_eq!((both.clients()[0].train.as_slice(), both.clients()[0].test.as_slice(), both.flags().left_out), (&[3, 1][..], &[5][..], 2));
    let lists = get("lists.json", "[[0, 1, 2, 3], [4, 5]]").expect("sound");
    assert_eq!(sizes(&lists), [4, 2]);
    let map = get("map.json", r#"{"10": [0, 1], "2": [4, 5, 3]}"#).expect("sound");
    assert_eq!(sizes(&map), [3, 2]);
    for (text, part) in [
        ("[[0, 1], [1]]", "gives sample 1 to client 0 and to client 1"),
        ("[[6]]", "gives client 0 sample 6, but the data set has 6 samples"),
        ("[[-1]]", "is neither npz nor json"),
        (
            r#"{"format": "pflpipe-partition-2", "clients": [{"train": [3, 1]}]}"#,
            "is of the format `pflpipe-partition-2`, but this version",
        ),
        ("{\"a\": [1]}", "has a client `a`"),
        ("PK", "no npz"),
        ("", "is neither npz nor json"),
    ] {
        let fault = get("bad.json", text).expect_err(part);
        assert!(fault.kind == FaultKind::Storage && fault.to_string().contains(part), "{text}: {fault}");
    }
    let fault = build_from("imported", &params(&json!({"file": "gone.json"})), &population, &[dir.path().to_path_buf()]).expect_err("gone");
    assert!(fault.what.contains("there is no file `gone.json`") && fault.help.is_some());
    assert!(build_from("imported", &Map::new(), &population, &[]).expect_err("no clients").what.contains("came without clients"));
}

#[test]
fn a_thousand_clients_end_within_a_second() {
    let labels = mnist();
    let population = Population::of_labels(&labels, CLASSES);
    for (kind, setting) in [
        ("dirichlet", json!({"alpha": 0.1, "least_samples": 40, "repair": true})),
        ("dirichlet", json!({"alpha": 0.1, "least_samples": 40, "repair": true, "variant": "fedml"})),
        ("mixture", json!({"alpha": 0.1, "least_samples": 40, "variant": "clean"})),
        ("quantity", json!({"least_samples": 40, "variant": "clean"})),
        ("power-law", json!({"least_samples": 40, "variant": "clean"})),
        ("regions", json!({"regions": 9, "skew": "dirichlet"})),
    ] {
        let start = Instant::now();
        let partition = make(kind, &population, &with(&setting, json!({"clients": 1000}))).expect("feasible");
        println!("{kind} {setting}: {:?}", start.elapsed());
        assert!(start.elapsed().as_secs_f64() < 10.0, "also on a slow machine without optimization");
        assert!(kind == "regions" || sizes(&partition).iter().all(|&size| size >= 40), "{kind}");
    }
}

#[test]
fn tiny_and_odd_data_sets_do_not_panic() {
    for (samples, classes) in [(1, 1), (2, 5), (5, 5), (40, 10), (200, 5)] {
        let data = grouped(samples, classes, samples.div_ceil(2));
        for variant in variants() {
            for clients in [1, 2, 5, 10] {
                for clean in [true, false] {
                    for more in
                        [json!({}), json!({"pool": "train"}), json!({"hold_out": 0.5, "test": "hold-out"}), json!({"test": "original"})]
                    {
                        let mut setting = with(&json!({"clients": clients, "max_attempts": 3, "regions": 2}), more);
                        if let Some(field) = variant.fields.iter().find(|field| field.name == "variant") {
                            let pflpipe::spec::catalog::Type::Choice(words) = &field.ty else { panic!("a choice") };
                            setting["variant"] = json!(if clean { "clean" } else { words.iter().find(|w| w.0 != "clean").expect("one").0 });
                        }
                        if let Ok(partition) = make(variant.name, &Population::of(&data), &setting) {
                            partition.manifest(data.labels()).expect("fits");
                            assert_eq!(Partition::from_bytes(&partition.to_bytes()).expect("own format"), partition);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn advice_names_only_what_the_kind_has_and_is_not_so_already() {
    let labels: Vec<u32> = (0..400).map(|i| i % 10).collect();
    let groups = Groups {
        what: "subject".into(),
        names: (0..4).map(|i| i.to_string()).collect(),
        of: (0..400).map(|i| u32::from(i >= 397) + 2 * u32::from(i < 200)).collect(),
    };
    let population = Population { groups: Some(&groups), ..Population::of_labels(&labels, CLASSES) };
    let few = json!({"clients": 40, "max_attempts": 3, "least_samples": 10});
    let with_few = |more: Value| with(&few, more);
    let cases = [
        (
            "dirichlet",
            with_few(json!({"alpha": 0.01})),
            "a lower `least_samples`, fewer clients, a greater `alpha`, a greater `max_attempts`, or `repair: true`",
        ),
        (
            "extended-dirichlet",
            with_few(json!({"alpha": 0.01, "variant": "clean"})),
            "a lower `least_samples`, fewer clients, a greater `alpha`, a greater `max_attempts`, or `repair: true`",
        ),
        (
            "quantity",
            with_few(json!({"beta": 0.01})),
            "a lower `least_samples`, fewer clients, a greater `beta`, a greater `max_attempts`, or `variant: clean`",
        ),
        (
            "mixture",
            json!({"clients": 20, "sizes": "dirichlet", "size_alpha": 0.01}),
            "fewer clients, a greater `size_alpha`, or `variant: clean`",
        ),
        (
            "regions",
            json!({"clients": 20, "regions": 9, "skew": "dirichlet", "alpha": 0.01, "variant": "profed", "max_attempts": 3}),
            "fewer `regions`, a greater `alpha`, a greater `max_attempts`, or `variant: clean`",
        ),
        (
            "regions",
            json!({"clients": 20, "regions": 9, "skew": "dirichlet", "alpha": 0.001, "variant": "clean", "max_attempts": 1}),
            "fewer `regions`, a greater `alpha`, or a greater `max_attempts`",
        ),
        ("natural", json!({"clients": 5}), "fewer clients"),
        ("natural", json!({"clients": 3, "least_samples": 5}), "fewer clients, or a lower `least_samples`"),
        ("natural", json!({"clients": 3, "least_classes": 9}), "fewer clients, or a lower `least_classes`"),
        ("natural", json!({"least_samples": 1_000}), "a lower `least_samples`"),
        (
            "label-count",
            json!({"clients": 40, "least_samples": 10, "hold_out": 0.9}),
            "a lower `hold_out`, fewer clients, or `least_samples` of at most 1",
        ),
        ("iid", json!({"clients": 41, "hold_out": 0.9}), "a lower `hold_out`, or at most as many clients as there are samples"),
    ];
    let all = variants();
    for (kind, setting, advice) in cases {
        let fault = make(kind, &population, &setting).expect_err("it cannot be met");
        let help = fault.help.clone().expect("advice");
        assert_eq!(help, format!("choose {advice}"), "{kind} {setting}: {fault}");
        let fields = &all.iter().find(|variant| variant.name == kind).expect("known").fields;
        for word in help.split('`').skip(1).step_by(2) {
            let (name, value) = word.split_once(": ").unwrap_or((word, ""));
            assert!(fields.iter().any(|field| field.name == name), "{kind} has no `{name}`: {help}");
            assert!(value.is_empty() || setting[name].to_string().trim_matches('"') != value, "it is so already: {help}");
        }
    }
}

#[test]
fn what_a_split_fails_for_is_named() {
    let labels: Vec<u32> = (0..2_000).map(|i| i % 10).collect();
    let groups = Groups { what: "subject".into(), names: vec!["a".into(), "b".into()], of: (0..2_000).map(|i| u32::from(i > 0)).collect() };
    let population = Population { groups: Some(&groups), ..Population::of_labels(&labels, CLASSES) };
    let said = |kind: &str, setting: Value| {
        let fault = make(kind, &population, &setting).expect_err("no training or no test set");
        format!("{} [{}]", fault.what, fault.help.unwrap_or_default())
    };
    assert_eq!(
        said("iid", json!({"clients": 20, "train_ratio": 0.001})),
        "client 0 has 100 samples, of which `train_ratio` 0.001 leaves none for training [choose a `train_ratio` of at least 0.01, or `variant: clean`]"
    );
    assert_eq!(
        said("iid", json!({"clients": 20, "most_samples": 1})),
        "client 0 has 1 sample: too few for a training and a test set [choose a greater `most_samples`, or `variant: clean`]"
    );
    assert_eq!(
        said("iid", json!({"clients": 20, "most_samples": 3, "train_ratio": 0.3})),
        "client 0 has 3 samples, of which `train_ratio` 0.3 leaves none for training [choose a `train_ratio` of at least 0.3334, a greater \
         `most_samples`, or `variant: clean`]"
    );
    assert_eq!(
        said("iid", json!({"clients": 20, "hold_out": 0.99})),
        "client 0 has 0 samples: too few for a training and a test set [choose a lower `hold_out`, or `variant: clean`]"
    );
    assert_eq!(
        said("natural", json!({})),
        "client 0 has 1 sample: too few for a training and a test set [choose `least_samples` of at least 2, which leaves smaller groups out, \
         or `variant: clean`]"
    );
    assert_eq!(
        said("iid", json!({"clients": 20, "test": "hold-out", "hold_out": 0.001})),
        "`hold_out: 0.001` is less than half a sample of each class, so that no test set is held out [choose a greater `hold_out`]"
    );
}

#[test]
fn faults_of_groups_speak_of_all_of_them() {
    let groups = Groups { what: "party".into(), names: vec!["a".into(), "b".into()], of: vec![0, 0, 0, 1, 1] };
    let population = Population { groups: Some(&groups), ..Population::of_labels(&[0, 1, 0, 1, 0], 2) };
    let fault = |setting: Value| make("natural", &population, &setting).expect_err("infeasible");
    let few = fault(json!({"train_ratio": 0.3}));
    assert!(few.what.contains("client 1 has 2 samples, of which `train_ratio` 0.3 leaves none for training"), "{few}");
    assert!(few.help.expect("help").contains("a `train_ratio` of at least 0.5"));
    let more = fault(json!({"clients": 3}));
    assert!(more.what.contains("3 clients need as many parties, but there are 2 parties"), "{more}");
    let classes = fault(json!({"least_classes": 3}));
    assert_eq!(classes.what, "`least_classes` is 3, but the data set has 2 classes");
    let none = fault(json!({"least_classes": 2, "least_samples": 4, "variant": "clean"}));
    assert!(none.what.contains("there is no party with enough samples and classes"), "{none}");
}
