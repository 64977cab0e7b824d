//! LEAF's json: users with their samples in `train/` and `test/`, numbers or strings of characters.

use super::Shape;
use super::assemble::{Rows, of_floats, of_tokens};
use super::dataset::{Dataset, Vocabulary};
use super::members::Place;
use super::registry::{Request, inside};
use super::text::{leaf_alphabet, leaf_files};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
struct File {
    users: Vec<String>,
    user_data: BTreeMap<String, Samples>,
}

#[derive(Deserialize)]
struct Samples {
    x: Vec<Sample>,
    y: Vec<Label>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sample {
    Text(String),
    Values(Vec<f32>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Label {
    Number(f64),
    Text(String),
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::required("folder", Type::Text, "The folder with `train/` and `test/`, inside a data folder."),
        Field::optional("classes", Type::Int { min: 1, max: 1 << 20 }, "The number of classes; the highest label and one when absent."),
    ]
}

/// What is known of a data set of LEAF's before it is read.
pub(super) struct Known {
    /// What its users are.
    pub what: &'static str,
    /// Its classes; the highest label and one when unknown.
    pub classes: Option<usize>,
    /// The shape of samples of numbers; one channel a number when unknown.
    pub shape: Option<Shape>,
    /// From [0, 1] to [-1, 1], as PFLlib does.
    pub symmetric: bool,
}

pub(super) fn load(request: &Request<'_>, known: &Known) -> Outcome<Dataset> {
    let own = request.params.text("folder")?;
    own.map_or(Ok(()), |folder| inside("folder", folder))?;
    let folders: Vec<&str> = own.map_or_else(|| request.folders().to_vec(), |folder| vec![folder]);
    let markers = ["train", "all_data_niid_2_keep_0_train_9.json", "all_data_niid_2_keep_0_train_8.json"];
    let place = Place::find(request.dirs, &folders, &[], &markers)?.into_iter().next().ok_or_else(|| request.missing())?;
    let alphabet: BTreeMap<char, u32> = leaf_alphabet().into_iter().zip(0..).collect();
    let mut rows = Rows { what: known.what, ..Rows::default() };
    let (mut values, mut ids, mut length) = (Vec::new(), Vec::new(), None);
    for side in ["train", "test"] {
        for (name, content) in leaf_files(&place, side)? {
            let damaged = |what: &dyn std::fmt::Display| place.fault(format_args!("holds `{name}`, which {what}"));
            let mut file: File = serde_json::from_slice(&content).map_err(|e| damaged(&format!("is no json of LEAF: {e}")))?;
            drop(content);
            let mut seen = BTreeSet::new();
            for user in file.users {
                request.go_on()?;
                if !seen.insert(user.clone()) {
                    return Err(damaged(&format!("names the user `{user}` twice")));
                }
                let Some(samples) = file.user_data.remove(&user) else { return Err(damaged(&format!("has no data of user `{user}`"))) };
                if samples.x.len() != samples.y.len() {
                    return Err(damaged(&format!("has {} samples but {} labels of user `{user}`", samples.x.len(), samples.y.len())));
                }
                for (x, y) in samples.x.into_iter().zip(samples.y) {
                    let label = |text: &str| text.chars().next().and_then(|c| alphabet.get(&c).copied());
                    let y = match &y {
                        Label::Number(y) if *y >= 0.0 && *y == y.trunc() && *y < 1e6 => Some(*y as u32),
                        Label::Number(_) => None,
                        Label::Text(text) => label(text),
                    };
                    rows.labels.push(y.ok_or_else(|| damaged(&format!("has a label of user `{user}` that is no class")))?);
                    rows.groups.push(user.clone());
                    let size = match x {
                        Sample::Text(text) => {
                            let before = ids.len();
                            for c in text.chars() {
                                let id = alphabet
                                    .get(&c)
                                    .ok_or_else(|| damaged(&format!("has the character {c:?}, which LEAF's 80 have not")))?;
                                ids.push(*id);
                            }
                            ids.len() - before
                        }
                        Sample::Values(own) => {
                            values.extend_from_slice(&own);
                            own.len()
                        }
                    };
                    if *length.get_or_insert(size) != size || size == 0 {
                        return Err(damaged(&format!("has samples of {size} and of {} values", length.unwrap_or_default())));
                    }
                }
            }
        }
        if side == "train" {
            rows.train = rows.labels.len();
        }
    }
    let length = length.ok_or_else(|| place.fault("has no samples"))?;
    let highest = rows.labels.iter().max().map_or(1, |&most| most as usize + 1);
    let classes = request.params.count("classes", 1)?.or(known.classes).unwrap_or(highest);
    if !ids.is_empty() && !values.is_empty() {
        return Err(Fault::storage(format!("`{}` holds both texts and numbers", place.path().display())));
    }
    if !ids.is_empty() {
        if let Some(given) = request.params.count("classes", 1)?.filter(|given| *given < alphabet.len()) {
            let what = format!("`classes` is {given}, but the next one of a text is one of {} characters", alphabet.len());
            return Err(Fault::stage(what).help("leave `classes` out"));
        }
        // There is no character for filling up; one more is set aside for it.
        let vocabulary = Vocabulary { size: alphabet.len() as u32 + 1, padding: alphabet.len() as u32 };
        return of_tokens(request.name, length, classes.max(alphabet.len()), &ids, vocabulary, rows, request.origin());
    }
    if known.symmetric {
        values.iter_mut().for_each(|value| *value = (*value - 0.5) / 0.5);
    }
    let shape = known.shape.filter(|shape| shape.numel() == length).unwrap_or(Shape { channels: length, height: 1, width: 1 });
    of_floats(request.name, shape, classes, &values, rows, request.origin())
}
