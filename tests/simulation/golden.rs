//! A small result of every algorithm, frozen: a result that changes without a raised revision fails here.
//!
//! `golden/results.json` holds, for each algorithm and variant, its revision, a digest for each class of CPU on which it was made, and some
//! numbers that a CPU of another class must meet within a tolerance. After raising a revision, write it anew with
//! `PFLPIPE_BLESS=1 cargo test --release --test simulation golden`.

use crate::small::every;
use pflpipe::algorithms;
use pflpipe::base::Digest;
use pflpipe::engine::{self, simd::cpu_class};
use pflpipe::fl;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Golden {
    simulation: u32,
    numerics: u32,
    algorithms: BTreeMap<String, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    revision: u32,
    /// Class of CPU to digest.
    digests: BTreeMap<String, Digest>,
    /// Training losses of the evaluations, then every hundredth parameter of the global model.
    sample: Vec<f64>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/results.json")
}

#[test]
fn results_change_only_with_a_raised_revision() {
    let bless = std::env::var("PFLPIPE_BLESS").is_ok_and(|v| v == "1");
    let mut golden: Golden = std::fs::read(path()).ok().and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default();
    if bless && (golden.simulation, golden.numerics) != (fl::REVISION, engine::REVISION) {
        golden = Golden { simulation: fl::REVISION, numerics: engine::REVISION, ..Golden::default() };
    }
    assert_eq!((golden.simulation, golden.numerics), (fl::REVISION, engine::REVISION), "a revision was raised: write the golden file anew");
    let registry = algorithms::all();
    let class = cpu_class();
    for case in every() {
        let revision = registry.get(case.name()).expect("it is registered").description.revision;
        let run = case.clone().norm().with(json!({"join_ratio": 0.8, "train_loss": "full"})).run().expect("it runs");
        let mut bytes = serde_json::to_vec(&run.history).expect("a history has a JSON form");
        bytes.extend(run.global.params.iter().flat_map(|v| v.to_le_bytes()));
        let digest = Digest::of(&bytes);
        let losses = run.history.series("train_loss").into_iter().map(|(_, loss)| loss);
        let sample: Vec<f64> = losses.chain(run.global.params.iter().step_by(100).map(|v| f64::from(*v))).collect();
        if bless {
            let entry =
                golden.algorithms.entry(case.key()).or_insert_with(|| Entry { revision, digests: BTreeMap::new(), sample: sample.clone() });
            if entry.revision != revision {
                *entry = Entry { revision, digests: BTreeMap::new(), sample: sample.clone() };
            }
            entry.digests.entry(class.to_owned()).or_insert(digest);
        }
        let Some(entry) = golden.algorithms.get(&case.key()) else { panic!("{}: no golden result: write the file anew", case.key()) };
        assert_eq!(entry.revision, revision, "{}: its revision was raised: write the golden file anew", case.key());
        match entry.digests.get(class) {
            Some(golden) => assert_eq!(*golden, digest, "{}: its result changed: raise its revision", case.key()),
            None => {
                for (golden, ours) in entry.sample.iter().zip(&sample) {
                    assert!((golden - ours).abs() <= 1e-3 * golden.abs().max(1.0), "{}: {ours}, once {golden}", case.key());
                }
            }
        }
    }
    if bless {
        let text = serde_json::to_string_pretty(&golden).expect("plain data");
        std::fs::write(path(), text + "\n").expect("the golden file can be written");
    }
}
