//! The data sets by name: what a pipeline may ask of each, and which loader reads it.
//!
//! Adding a data set is one loader file and one entry here.

use super::dataset::Dataset;
use super::params::Params;
use super::{cifar, idx, optdigits};
use crate::base::{Digest, Fault, Outcome, text};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The data sets that a pipeline may name.
#[must_use]
pub fn variants() -> Vec<Variant> {
    vec![
        Variant {
            name: "optdigits",
            doc: "Handwritten digits of the UCI repository: 5,620 gray pictures of 8 x 8, 10 classes; part of the program.",
            revision: 1,
            fields: vec![limit()],
        },
        Variant {
            name: "mnist",
            doc: "MNIST: 70,000 gray handwritten digits of 28 x 28, 10 classes; four IDX files in `MNIST/`.",
            revision: 1,
            fields: vec![verify(), limit()],
        },
        Variant {
            name: "fashion-mnist",
            doc: "Fashion-MNIST: 70,000 gray pictures of clothes of 28 x 28, 10 classes; four IDX files in `FashionMNIST/`.",
            revision: 1,
            fields: vec![verify(), limit()],
        },
        Variant {
            name: "cifar10",
            doc: "CIFAR-10: 60,000 color pictures of 32 x 32, 10 classes; the archive or batches of the binary version in `CIFAR10/`.",
            revision: 1,
            fields: vec![
                Field::with("subset", Type::Choice(cifar::SUBSETS), "all", "Which batches to use; missing ones are an error otherwise."),
                verify(),
                limit(),
            ],
        },
        Variant {
            name: "idx",
            doc: "Gray pictures of your own in four IDX files named as those of MNIST; values become [-1, 1].",
            revision: 1,
            fields: vec![
                Field::required("folder", Type::Text, "The folder of the four files, inside a data folder."),
                Field::optional("classes", Type::Int { min: 1, max: 256 }, "The number of classes; the highest label and one when absent."),
                limit(),
            ],
        },
    ]
}

/// The digest of the content of a data set whose files no published checksum vouches for: files of one's own (`idx`), or
/// `verify: false`. Absent for the others, whose files are what they are or an error. Reads the files.
///
/// # Errors
/// As [`load`].
pub fn fingerprint(name: &str, params: &Map<String, Value>, dirs: &[PathBuf]) -> Outcome<Option<Digest>> {
    if name != "idx" && params.get("verify").and_then(Value::as_bool) != Some(false) {
        return Ok(None);
    }
    let parts = load(name, params, dirs)?.to_parts();
    Ok(Some(Digest::of(&[Digest::of(&parts.info).0, Digest::of(&parts.samples).0, Digest::of(&parts.labels).0].concat())))
}

fn verify() -> Field {
    Field::with("verify", Type::Bool, true, "Compare the files with the published checksums; `false` allows own files of the same format.")
}

fn limit() -> Field {
    Field::optional("limit", Type::at_least(1), "Keep only the first samples, in file order; all when absent.")
}

/// Loads a data set; `dirs` are the folders in which to look for files, the preferred one first.
///
/// # Errors
/// A storage fault when files are missing, damaged or not what they should be; a stage fault when a parameter is wrong.
pub fn load(name: &str, params: &Map<String, Value>, dirs: &[PathBuf]) -> Outcome<Dataset> {
    let params = Params::new(params, name);
    let limit = params.count("limit", 1)?;
    let idx = |family| {
        let request = idx::Request { verify: params.flag("verify", true)?, classes: Some(10), limit };
        idx::load(family, dirs, &request)
    };
    match name {
        "optdigits" => optdigits::load(limit),
        "mnist" => idx(&idx::MNIST),
        "fashion-mnist" => idx(&idx::FASHION),
        "cifar10" => {
            let subset = params.choice("subset", cifar::SUBSETS)?.unwrap_or(0);
            cifar::load(dirs, subset, params.flag("verify", true)?, limit)
        }
        "idx" => {
            let folder = params.required("folder", params.text("folder")?)?;
            let classes = params.integer("classes", 1, 256)?.map(|n| n as usize);
            idx::load_own(name, folder, dirs, &idx::Request { verify: false, classes, limit })
        }
        _ => {
            let known: Vec<&str> = variants().iter().map(|v| v.name).collect();
            let fault = Fault::stage(format!("there is no data set `{name}`"));
            Err(match text::nearest(name, known.iter().copied()) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault.help(format!("the data sets are {}", text::quoted(known.iter().copied()))),
            })
        }
    }
}
