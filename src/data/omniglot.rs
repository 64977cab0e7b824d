//! Omniglot: black and white drawings of 105 x 105, by alphabet, character and drawer. Drawers are the groups.

use super::Shape;
use super::assemble::{Rows, of_bytes};
use super::dataset::{Dataset, Scaling};
use super::members::{Place, Wanted};
use super::picture::Picture;
use super::registry::Request;
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use std::collections::{BTreeMap, BTreeSet};

const SIDE: usize = 105;
const LABELS: &[(&str, &str)] = &[("alphabet", "the alphabet, as PFLlib has it"), ("character", "the character of the alphabet")];
const SUBSETS: &[(&str, &str)] = &[
    ("all", "`images_background.zip` and `images_evaluation.zip`: 50 alphabets"),
    ("small1", "`images_background_small1.zip`: 5 alphabets"),
    ("small2", "`images_background_small2.zip`: 5 alphabets"),
];

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("subset", Type::Choice(SUBSETS), "all", "Which archives, or the folders of the same names."),
        Field::with("label", Type::Choice(LABELS), "alphabet", "What the classes are."),
    ]
}

/// The fault of an archive that is nowhere; names the smaller set that is there instead.
fn lacks(request: &Request<'_>, archive: &str) -> Fault {
    let fault = request.lacks(archive);
    let there = SUBSETS.iter().skip(1).map(|(word, _)| *word).find(|word| {
        let name = format!("images_background_{word}");
        Place::find(request.dirs, request.folders(), &[&format!("{name}.zip")], &[&name]).is_ok_and(|found| !found.is_empty())
    });
    match there {
        Some(word) if !archive.contains(word) => {
            let more = fault.help.clone().map(|help| format!("; or {help}")).unwrap_or_default();
            fault.help(format!("say `subset: {word}`, which is there{more}"))
        }
        _ => fault,
    }
}

pub(super) fn load(request: &Request<'_>) -> Outcome<Dataset> {
    let wanted: &[&str] = match request.params.choice("subset", SUBSETS)? {
        Some(1) => &["images_background_small1"],
        Some(2) => &["images_background_small2"],
        _ => &["images_background", "images_evaluation"],
    };
    let by_character = request.params.choice("label", LABELS)? == Some(1);
    let mut drawings: BTreeMap<(usize, String), Vec<u8>> = BTreeMap::new();
    for (part, name) in wanted.iter().enumerate() {
        let archive = format!("{name}.zip");
        let place = Place::find(request.dirs, request.folders(), &[&archive], &[name])?
            .into_iter()
            .next()
            .map_or_else(|| Err(lacks(request, &archive)), Ok)?;
        if let Place::Archive(source) = &place {
            request.verify(source)?;
        }
        let inside = format!("{name}/");
        let is = |path: &str| path.starts_with(&inside) && path.ends_with(".png") && path.split('/').count() == 4;
        place.each(&Wanted { name: &is, most: 1 << 20 }, &mut |path, content| {
            request.go_on()?;
            let picture = Picture::decode(&content, 1, path).at(|| format!("`{}`", place.path().display()))?;
            if (picture.width, picture.height) != (SIDE, SIDE) {
                return Err(
                    place.fault(format_args!("holds `{path}` of {} x {}, but drawings are {SIDE} x {SIDE}", picture.width, picture.height))
                );
            }
            drawings.insert((part, path.to_owned()), picture.bytes.into_iter().map(|byte| u8::from(byte > 127)).collect());
            Ok(())
        })?;
        if !drawings.keys().any(|(of, _)| *of == part) {
            return Err(place
                .fault(format_args!("has no drawings: there are no files `{name}/ALPHABET/CHARACTER/NAME.png`"))
                .help("fetch or unpack the data set again, all of it"));
        }
    }
    let class_of = |path: &str| {
        let mut parts = path.split('/').skip(1);
        let alphabet = parts.next().unwrap_or_default().to_owned();
        if by_character { format!("{alphabet}/{}", parts.next().unwrap_or_default()) } else { alphabet }
    };
    let names: BTreeSet<String> = drawings.keys().map(|(_, path)| class_of(path)).collect();
    let numbers: BTreeMap<&String, u32> = names.iter().zip(0..).collect();
    let (mut values, mut rows) = (Vec::new(), Rows { what: "drawer", ..Rows::default() });
    for ((_, path), drawing) in &drawings {
        rows.labels.push(numbers[&class_of(path)]);
        let file = path.rsplit('/').next().unwrap_or_default();
        rows.groups.push(file.trim_end_matches(".png").rsplit('_').next().unwrap_or_default().to_owned());
        values.extend_from_slice(drawing);
    }
    rows.train = rows.labels.len();
    let shape = Shape { channels: 1, height: SIDE, width: SIDE };
    of_bytes(request.name, shape, names.len(), &values, Scaling { divisor: 1.0, mean: 0.0, sd: 1.0 }, rows, request.origin())
}
