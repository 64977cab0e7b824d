//! EMNIST: six splits of four IDX files each, in one zip or unpacked. Pictures are transposed as distributed, and stay so.

use super::Shape;
use super::assemble::{Rows, of_bytes};
use super::dataset::{Dataset, Scaling};
use super::members::{Place, Wanted};
use super::registry::Request;
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Field, Type};
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::io::Read;

const SPLITS: &[(&str, &str)] = &[
    ("digits", "280,000 digits, 10 classes, as PFLlib takes"),
    ("letters", "145,600 letters; labels 1 to 26, so that one of the 27 classes is empty, as ProFed has it"),
    ("balanced", "131,600 characters, 47 classes"),
    ("byclass", "814,255 characters, 62 classes"),
    ("bymerge", "814,255 characters, 47 classes"),
    ("mnist", "70,000 digits, 10 classes"),
];
const CLASSES: [usize; 6] = [10, 27, 47, 62, 47, 10];
/// Training pictures of a split as distributed.
const PICTURES: [u64; 6] = [240_000, 124_800, 112_800, 697_932, 697_932, 60_000];

pub(super) fn fields() -> Vec<Field> {
    vec![Field::with("split", Type::Choice(SPLITS), "digits", "Which of EMNIST's splits.").from("", "PFLlib")]
}

pub(super) fn load(request: &Request<'_>) -> Outcome<Dataset> {
    let split = request.params.choice("split", SPLITS)?.unwrap_or_default();
    let name = SPLITS[split].0;
    let marker = format!("emnist-{name}-train-images-idx3-ubyte");
    let markers = [format!("{marker}.gz"), marker.clone(), format!("gzip/{marker}.gz")];
    let place = Place::find(request.dirs, request.folders(), &["gzip.zip"], &markers.each_ref().map(String::as_str))?;
    let place = place.into_iter().next().ok_or_else(|| request.missing())?;
    if let Place::Archive(source) = &place {
        request.verify(source)?;
    }
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    // A quarter more than the split has, packed or not.
    let most = PICTURES[split] * 28 * 28 * 5 / 4;
    let begin = format!("emnist-{name}-");
    let is = |path: &str| path.rsplit('/').next().is_some_and(|file| file.starts_with(&begin) && file.contains("-ubyte"));
    place.each(&Wanted { name: &is, most }, &mut |path, content| {
        let file = path.rsplit('/').next().unwrap_or(path);
        let unpacked = match file.strip_suffix(".gz") {
            None => content,
            Some(_) => {
                let mut out = Vec::new();
                let read = MultiGzDecoder::new(content.as_slice()).take(most + 1).read_to_end(&mut out);
                read.map_err(|e| place.fault(format_args!("holds `{path}`, which is not a sound gzip file: {e}")))?;
                if out.len() as u64 > most {
                    let (most, known) = (text::bytes(most), PICTURES[split]);
                    return Err(place.fault(format_args!("holds `{path}` of more than {most}, but the split has {known} pictures")));
                }
                out
            }
        };
        files.insert(file.trim_end_matches(".gz").to_owned(), unpacked);
        Ok(())
    })?;
    let (mut values, mut rows, mut sides) = (Vec::new(), Rows::default(), None);
    for side in ["train", "test"] {
        let get = |what: &str| {
            let name = format!("emnist-{name}-{side}-{what}-ubyte");
            files.get(&name).map(|content| (name.clone(), content)).ok_or_else(|| place.fault(format_args!("lacks `{name}`")))
        };
        let ((images_name, images), (labels_name, labels)) = (get("images-idx3")?, get("labels-idx1")?);
        let wrong = |name: &str| place.fault(format_args!("holds `{name}`, which is no sound IDX file of its kind"));
        let ([magic, count, height, width], pixels) = header(images).ok_or_else(|| wrong(&images_name))?;
        let ([label_magic, label_count], classes) = header(labels).ok_or_else(|| wrong(&labels_name))?;
        let area = u64::from(height) * u64::from(width);
        if magic != 0x803 || area == 0 || area > 1 << 24 || u64::from(count) * area != pixels.len() as u64 {
            return Err(wrong(&images_name));
        }
        if label_magic != 0x801 || label_count as usize != classes.len() || label_count != count {
            return Err(wrong(&labels_name));
        }
        if *sides.get_or_insert((height, width)) != (height, width) {
            return Err(wrong(&images_name));
        }
        values.extend_from_slice(pixels);
        rows.labels.extend(classes.iter().map(|&label| u32::from(label)));
        if side == "train" {
            rows.train = rows.labels.len();
        }
    }
    let (height, width) = sides.ok_or_else(|| Fault::internal("there are two sides"))?;
    let shape = Shape { channels: 1, height: height as usize, width: width as usize };
    of_bytes(request.name, shape, CLASSES[split], &values, Scaling::symmetric(255), rows, request.origin())
}

/// The big-endian numbers at the start, and what follows.
fn header<const N: usize>(content: &[u8]) -> Option<([u32; N], &[u8])> {
    let (head, rest) = content.split_at_checked(4 * N)?;
    let mut numbers = [0; N];
    numbers.iter_mut().zip(head.as_chunks::<4>().0).for_each(|(number, bytes)| *number = u32::from_be_bytes(*bytes));
    Some((numbers, rest))
}
