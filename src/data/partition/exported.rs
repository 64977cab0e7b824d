//! An exported partition without its data set: the lists of a file of json, made sure to be what the manifest beside them says.
//!
//! It does not know labels, so that of the classes it has only the manifest's word.

use super::super::files::Source;
use super::imported::{GREATEST, Lists, from_json, holders};
use super::{Client, Flags, Manifest, Partition};
use crate::base::{Fault, Outcome, text};
use serde::Deserialize;
use std::path::Path;

/// What a file of `pflpipe partition export` holds.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The clients and their samples.
    pub partition: Partition,
    /// Counts and heterogeneity, which agree with the lists.
    pub manifest: Manifest,
    /// The concentration of a Dirichlet rule, where it was one.
    pub alpha: Option<f64>,
}

/// What stands beside the lists.
#[derive(Deserialize)]
struct Beside {
    manifest: Option<Manifest>,
    alpha: Option<f64>,
}

/// Reads a file that `pflpipe partition export` wrote as json.
///
/// # Errors
/// A storage fault when it is another file, when its lists give a sample twice or one that is not there, or when its manifest does
/// not belong to them.
pub fn exported(file: &Path) -> Outcome<Exported> {
    let source = Source::at(file.to_path_buf())?.ok_or_else(|| Fault::storage(format!("there is no file `{}`", file.display())))?;
    let content = source.whole(GREATEST)?;
    let lists = from_json(&source, &content)?;
    let without = || {
        source.fault("has no manifest of a partition, which says what the classes of its samples are").help(
            "`pflpipe partition export` writes one; other lists can be shown and exported by a pipeline with `kind: imported` and `file`",
        )
    };
    // What a list of lists has is known without it.
    if lists.tests.is_none() {
        return Err(without());
    }
    let damaged = |what: &dyn std::fmt::Display| source.fault(format_args!("has a manifest that is not sound: {what}"));
    let Beside { manifest, alpha } = serde_json::from_slice(&content).map_err(|e| damaged(&e))?;
    let manifest = manifest.ok_or_else(without)?;
    let partition = of_lists(&source, lists, &manifest)?;
    match disagreement(&partition, &manifest) {
        None => Ok(Exported { partition, manifest, alpha }),
        Some(what) => Err(source
            .fault(format_args!("has a manifest that does not belong to its lists: {what}"))
            .help("one of them was changed; export the partition again")),
    }
}

fn of_lists(source: &Source, lists: Lists, manifest: &Manifest) -> Outcome<Partition> {
    let Lists { clients, tests, hold_out, overlaps, .. } = lists;
    let mut tests = tests.unwrap_or_default();
    let shared = !hold_out.is_empty() && tests.iter().all(|test| *test == hold_out);
    if shared {
        tests.iter_mut().for_each(Vec::clear);
    }
    // Each sample stands in a list or is left out: so many at most.
    let most = [&clients, &tests].into_iter().flatten().map(Vec::len).sum::<usize>() as u64;
    let most = most.saturating_add(hold_out.len() as u64).saturating_add(manifest.flags.left_out);
    if manifest.samples as u64 > most {
        let what = format_args!("has a manifest of {} samples, but lists and samples that are left out are {most}", manifest.samples);
        return Err(source.fault(what));
    }
    crate::base::memory::demand(manifest.samples as u64 * 16, "the partition")?;
    let flags = holders(source, manifest.samples, [&clients, &tests], &hold_out, overlaps)?;
    let flags = Flags { left_out: flags.left_out, held_out: flags.held_out, overlaps, ..manifest.flags };
    let clients = clients.into_iter().zip(tests).map(|(train, test)| Client { train, test }).collect();
    Partition::with_hold_out(&manifest.kind, manifest.variant, manifest.samples, manifest.classes, flags, clients, hold_out, shared)
}

/// What a manifest says that its partition does not have.
fn disagreement(partition: &Partition, manifest: &Manifest) -> Option<String> {
    let (own, told) = (partition.clients(), &manifest.clients);
    if own.len() != told.len() {
        return Some(format!("it is of {}, but there are {}", text::count(told.len(), "client"), own.len()));
    }
    for (id, (own, told)) in own.iter().zip(told).enumerate() {
        if (own.train.len(), own.test.len()) != (told.train, told.test) {
            let (train, test) = (own.train.len(), own.test.len());
            return Some(format!("client {id} has {train} training and {test} test samples, but {} and {} there", told.train, told.test));
        }
        let counted = told.counts.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        let held = partition.own(own).count() as u64;
        if told.counts.len() != manifest.classes || counted != held {
            return Some(format!("client {id} has {held} samples, but there {counted} in {} classes", told.counts.len()));
        }
    }
    let flags = partition.flags();
    let found = (flags.left_out, flags.held_out, flags.overlaps == 0, flags.left_out == 0);
    let said = (manifest.flags.left_out, manifest.flags.held_out, manifest.disjoint, manifest.complete);
    (found != said).then(|| {
        let (left, held) = (flags.left_out, flags.held_out);
        format!("{left} samples are left out and {held} held out, but there {} and {}", manifest.flags.left_out, manifest.flags.held_out)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Population, build_from};
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_manifest_belongs_to_its_lists() {
        let labels: Vec<u32> = (0..90).map(|i| i % 3).collect();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("p.json");
        let read = |content: &Value| {
            std::fs::write(&file, content.to_string()).expect("a temporary file");
            exported(&file)
        };
        for more in [json!({}), json!({"hold_out": 0.2}), json!({"hold_out": 0.2, "test": "hold-out"}), json!({"most_samples": 9})] {
            let mut setting = json!({"clients": 4, "variant": "clean"});
            more.as_object().expect("a map").iter().for_each(|(name, value)| setting[name] = value.clone());
            let made = build_from("iid", setting.as_object().expect("a map"), &Population::of_labels(&labels, 3), &[]).expect("feasible");
            let content = made.to_json(&labels, Some(0.5)).expect("its labels");
            let back = read(&content).expect("own export");
            assert_eq!((&back.partition, &back.manifest, back.alpha), (&made, &made.manifest(&labels).expect("fits"), Some(0.5)));
            let changed = |path: &str, value: Value| {
                let mut content = content.clone();
                *content.pointer_mut(path).expect("there") = value;
                read(&content).expect_err(path).to_string()
            };
            let twice = content["clients"][1]["train"][0].clone();
            assert!(changed("/clients/0/train/0", twice).contains("to client 0 and to client 1"));
            assert!(changed("/clients/0/train/0", json!(90)).contains("sample 90, but the data set has 90 samples"));
            assert!(changed("/clients/0/train", json!([])).contains("sample"));
            assert!(changed("/manifest/classes", json!(4)).contains("client 0 has"));
            assert!(changed("/manifest/clients", json!([])).contains("it is of 0 clients, but there are 4"));
            assert!(changed("/manifest/samples", json!(u64::MAX)).contains("a manifest of 18446744073709551615 samples"));
            assert!(changed("/manifest", json!(null)).contains("no manifest"));
            assert!(changed("/manifest/indices", json!(null)).contains("a manifest that is not sound: "));
        }
        for plain in [json!([[0, 1], [2, 3]]), json!({"0": [1, 2]}), json!({"clients": [{"train": [1]}]})] {
            assert!(read(&plain).expect_err("no manifest").what.contains("has no manifest of a partition"), "{plain}");
        }
        assert!(exported(&dir.path().join("none.json")).is_err());
    }
}
