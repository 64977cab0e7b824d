//! What an algorithm says of its traffic is what is counted.

use crate::small::{CLIENTS, Case, case};
use nalgebra::DMatrix;
use pflpipe::algorithms;
use pflpipe::engine::{Layout, Model, Part};
use pflpipe::fl::History;
use pflpipe::fl::round::{Monitor, Parties};
use pflpipe::fl::state::Leaf;
use serde_json::json;
use std::collections::BTreeSet;

/// The value of a sum of products such as `w + 2 f f + w/32`; absent where a letter is none of these.
fn value(formula: &str, letters: &[(&str, u64)]) -> Option<u64> {
    let factor = |word: &str| match word.split_once('/') {
        Some((word, by)) => Some(known(word, letters)?.div_ceil(by.parse().ok()?)),
        None => known(word, letters),
    };
    // A difference is a sum with the lost part taken off at the end.
    let (sum, lost) = formula.split_once(" - ").unwrap_or((formula, "0"));
    let total = |sum: &str| sum.split(" + ").map(|term| term.split(' ').map(factor).product::<Option<u64>>()).sum::<Option<u64>>();
    Some(total(sum)? - total(lost)?)
}

fn known(word: &str, letters: &[(&str, u64)]) -> Option<u64> {
    word.parse().ok().or_else(|| letters.iter().find(|(letter, _)| *letter == word).map(|(_, value)| *value))
}

/// What all clients together exchange in one round, by the letters of a formula.
struct Letters {
    common: Vec<(&'static str, u64)>,
    own: Vec<u64>,
}

impl Letters {
    fn of(case: &Case) -> Self {
        let world = case.world();
        let (layout, net) = (world.layout(), world.network());
        let size = |wanted: &dyn Fn(&pflpipe::engine::Entry) -> bool| {
            layout.entries.iter().filter(|entry| wanted(entry)).map(|entry| entry.range.len() as u64).sum::<u64>()
        };
        let base = size(&|entry| entry.part == Part::Base);
        let own = world.shards.iter().map(|shard| shard.train.iter().map(|i| world.data.labels()[*i as usize]).collect::<BTreeSet<u32>>());
        Self {
            common: vec![
                ("w", layout.len as u64),
                ("b", base),
                ("h", layout.len as u64 - base),
                ("n", size(&|entry| entry.norm)),
                ("f", net.features() as u64),
                ("C", net.classes() as u64),
                ("N", CLIENTS as u64),
                // Everybody's model of the round before.
                ("M", CLIENTS as u64),
            ],
            own: own.map(|classes| classes.len() as u64).collect(),
        }
    }
    fn total(&self, formula: &str) -> Option<u64> {
        self.own.iter().map(|own| value(formula, &[&self.common[..], &[("c", *own)]].concat())).sum()
    }
}

/// What was counted in a round, from 0.
fn counted(history: &History, metric: &str, round: usize) -> u64 {
    let sums: Vec<f64> = history.series(metric).into_iter().map(|(_, sum)| sum).collect();
    (sums[round + 1] - sums[round]) as u64
}

#[test]
fn floats_are_as_described() {
    for entry in algorithms::all().iter() {
        let description = &entry.description;
        let name = description.name;
        let case = case(name, json!({})).with(json!({"rounds": 3, "drop_last": false})).norm();
        let letters = Letters::of(&case);
        let history = case.run().unwrap_or_else(|fault| panic!("{name}: {fault}")).history;
        // What singular values take is known after the round only.
        if name == "fedkd" {
            continue;
        }
        for (metric, formula) in [("floats_up", description.up), ("floats_down", description.down)] {
            let described = letters.total(formula).unwrap_or_else(|| panic!("{name}: `{formula}` has other letters"));
            assert_eq!(counted(&history, metric, 1), described, "{name} {metric} = {formula}");
            // In the first round nothing is known of the others yet.
            let first = match (name, metric) {
                ("fedfomo", "floats_up") | ("fedpac", "floats_down") => letters.total("w").expect("a letter"),
                ("fedfomo" | "fedproto" | "fd" | "fedpcl", "floats_down") => 0,
                _ => described,
            };
            assert_eq!(counted(&history, metric, 0), first, "{name} {metric} of the first round");
        }
    }
}

#[test]
fn each_client_is_sent_its_own() {
    // Two of five clients take part, so what is sent to them differs from round to round.
    let case = |name| {
        let case = case(name, json!({})).with(json!({"rounds": 4, "drop_last": false, "join_ratio": 0.4}));
        case.sizes(&[1, 2, 4, 34, 34])
    };
    let letters = Letters::of(&case("fedgc"));
    assert!(letters.own.iter().collect::<BTreeSet<_>>().len() > 2, "clients have {:?} classes", letters.own);
    let of = |client: usize| value("b + c f", &[&letters.common[..], &[("c", letters.own[client])]].concat()).expect("known letters");
    let run = case("fedgc").run().expect("it runs");
    let world = case("fedgc").world();
    for round in 0..4 {
        let cohort = world.streams.cohort(round, CLIENTS, 2, 2);
        let sum: u64 = cohort.iter().map(|client| of(*client)).sum();
        assert_eq!(counted(&run.history, "floats_down", round as usize), sum, "round {round}: {cohort:?}");
    }
}

#[test]
fn what_is_sent_to_clients_whose_upload_is_lost_counts() {
    let sent = |changed: serde_json::Value, metric: &str| {
        let case = case("fedavg", json!({})).with(json!({"rounds": 2})).with(changed);
        case.run().expect("it runs").history.series(metric).last().expect("measured").1
    };
    let all = sent(json!({}), "floats_down");
    assert_eq!(all, sent(json!({}), "floats_up"));
    let lost = json!({"drop_rate": 0.4, "drop_count": "round"});
    let late = json!({"slow_senders": 1.0, "seconds_per_batch": 0.0, "seconds_per_upload": 1.0, "time_threshold": 0.5});
    for (changed, arrives) in [(lost, 0.6), (late, 0.0)] {
        assert_eq!(sent(changed.clone(), "floats_down"), all, "{changed}");
        assert_eq!(sent(changed.clone(), "floats_up"), arrives * all, "{changed}");
    }
}

/// The students of a round as they were trained, and the mean of what the server made of them.
#[derive(Default)]
struct Students(Vec<Vec<Model>>, Vec<Model>);

impl Monitor for Students {
    fn inspects(&self) -> bool {
        true
    }
    fn inspect(&mut self, _: u64, parties: &Parties) {
        let model = |leaves: &[(String, Leaf)], wanted: &str| {
            leaves
                .iter()
                .find_map(|(name, leaf)| if let Leaf::Model(model) = leaf { (name == wanted).then(|| model.clone()) } else { None })
        };
        self.0.push(parties.clients.iter().map(|client| model(client, "student").expect("a student")).collect());
        self.1.push(model(&parties.server, "global").expect("the mean"));
    }
}

/// FedKD's formula, with the ranks of singular value decompositions made here: sum of r (m + n + 1) + v. A convolution is out x in
/// matrices of its kernels' size, which keep equally many.
fn factors(layout: &Layout, change: &[f32], energy: f64, pfllib: bool) -> u64 {
    let mut floats = 0;
    for entry in &layout.entries {
        let (rows, columns) = match entry.shape[..] {
            [rows, columns] => (rows, columns),
            [_, _, rows, columns] => (rows, columns),
            _ => {
                floats += entry.range.len();
                continue;
            }
        };
        let values = layout.export(change, entry);
        let mut squares = vec![0.0; rows.min(columns)];
        for matrix in values.chunks(rows * columns) {
            let found = DMatrix::from_row_iterator(rows, columns, matrix.iter().map(|v| f64::from(*v))).singular_values();
            squares.iter_mut().zip(found.iter()).for_each(|(sum, s)| *sum += s * s);
        }
        let total: f64 = squares.iter().sum();
        let holds = |r: usize| squares[..r].iter().sum::<f64>() / total;
        let rank = match pfllib {
            // The fewest that hold more than the share; none where that are all.
            true => (1..squares.len()).find(|r| holds(*r) > energy).unwrap_or(0),
            false => (1..squares.len()).find(|r| holds(*r) >= energy).unwrap_or(squares.len()),
        };
        floats += values.len() / (rows * columns) * rank * (rows + columns + 1);
    }
    floats as u64
}

#[test]
fn the_floats_of_fedkd_follow_from_the_ranks() {
    for variant in ["paper", "pfllib"] {
        let case = case("fedkd", json!({"variant": variant, "t_start": 0.7, "t_end": 0.9})).with(json!({"rounds": 3}));
        let world = case.world();
        let (layout, start) = (world.layout(), &world.initial.params);
        let mut students = Students::default();
        let history = case.run_with(&mut students).expect("it runs").history;
        let (paper, energy) = (variant == "paper", [0.7, 0.8, 0.9]);
        let since = |before: &[f32], model: &Model| -> Vec<f32> {
            model.params.iter().zip(before).map(|(after, before)| if paper { after - before } else { *after }).collect()
        };
        let up: u64 = students.0[1].iter().map(|student| factors(layout, &since(start, student), energy[0], !paper)).sum();
        assert_eq!(counted(&history, "floats_up", 0), up, "{variant}: the first round's uploads");
        // The student as it starts, then the compressed mean of the first round.
        let clients = CLIENTS as u64;
        assert_eq!(counted(&history, "floats_down", 0), clients * layout.len as u64, "{variant}");
        let down = factors(layout, &since(start, &students.1[1]), energy[0], !paper);
        assert_eq!(counted(&history, "floats_down", 1), clients * down, "{variant}: what the server sends after the first round");
        assert_ne!(counted(&history, "floats_up", 1), clients * down, "both ways are counted by themselves");
    }
}
