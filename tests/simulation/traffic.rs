//! What an algorithm says of its traffic is what is counted.

use crate::small::{CLIENTS, case};
use pflpipe::algorithms;
use pflpipe::engine::Part;
use serde_json::json;

/// The value of a sum of products such as `w + 2 f f + w/32`; absent where a letter is none of these.
fn value(formula: &str, letters: &[(&str, u64)]) -> Option<u64> {
    let factor = |word: &str| match word.split_once('/') {
        Some((word, by)) => Some(known(word, letters)?.div_ceil(by.parse().ok()?)),
        None => known(word, letters),
    };
    formula.split(" + ").map(|term| term.split(' ').map(factor).product::<Option<u64>>()).sum()
}

fn known(word: &str, letters: &[(&str, u64)]) -> Option<u64> {
    word.parse().ok().or_else(|| letters.iter().find(|(letter, _)| *letter == word).map(|(_, value)| *value))
}

#[test]
fn floats_are_as_described() {
    for entry in algorithms::all().iter() {
        let description = &entry.description;
        // FedPHP looks before a round's uploads.
        let rounds = if description.name == "fedphp" { 2 } else { 1 };
        let case = case(description.name, json!({})).with(json!({"rounds": rounds, "drop_last": false})).norm();
        let world = case.world();
        let (layout, net) = (world.layout(), world.network());
        let norms: usize = layout.entries.iter().filter(|entry| entry.norm).map(|entry| entry.range.len()).sum();
        let base: usize = layout.entries.iter().filter(|entry| entry.part == Part::Base).map(|entry| entry.range.len()).sum();
        let letters = |own: usize, models: usize| {
            [
                ("w", layout.len),
                ("b", base),
                ("h", layout.len - base),
                ("f", net.features()),
                ("C", net.classes()),
                ("c", own),
                ("N", CLIENTS),
                ("M", models),
            ]
            .map(|(letter, value)| (letter, value as u64))
        };
        let classes = |client: usize| {
            let labels = world.shards[client].train.iter().map(|i| world.data.labels()[*i as usize]);
            labels.collect::<std::collections::BTreeSet<u32>>().len()
        };
        let history = case.run().unwrap_or_else(|fault| panic!("{}: {fault}", case.name())).history;
        let counted = |metric: &str| history.series(metric).last().expect("measured").1;
        for (metric, formula) in [("floats_up", description.up), ("floats_down", description.down)] {
            let counted = counted(metric);
            let total = |models: usize| (0..CLIENTS).map(|client| value(formula, &letters(classes(client), models))).sum::<Option<u64>>();
            match (formula, total(CLIENTS)) {
                ("w - n", _) => assert_eq!(counted, (CLIENTS * (layout.len - norms)) as f64, "{}", case.name()),
                // As many models as others have something to give, which depends on the round.
                (_, Some(most)) if formula.contains('M') => {
                    let least = total(0).expect("a value");
                    assert!((least as f64..=most as f64).contains(&counted), "{} {metric}: {counted} of {formula}", case.name());
                }
                // All that is received is as for the first client.
                (_, Some(_)) if metric == "floats_down" => {
                    let first = value(formula, &letters(classes(0), 0)).expect("a value");
                    assert_eq!(counted, (CLIENTS as u64 * first) as f64, "{} {metric} = {formula}", case.name());
                }
                (_, Some(exact)) => assert_eq!(counted, exact as f64, "{} {metric} = {formula}", case.name()),
                // A generator and singular values have no size that the network tells.
                (_, None) => assert!(counted > 0.0 && ["fedgen", "fedkd"].contains(&case.name()), "{} {metric} = {formula}", case.name()),
            }
        }
    }
}
