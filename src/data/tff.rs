//! The data sets of TensorFlow Federated in its HDF5 files: `examples/CLIENT/FIELD`, training and test clients in two files.
//!
//! Clients are the groups; a client of both files is one group. FedML's loaders read the same files.

use super::Shape;
use super::assemble::{Rows, of_bytes, of_floats, of_tokens};
use super::dataset::{Dataset, Scaling, Vocabulary};
use super::hdf5::{Hdf5, Object};
use super::registry::Request;
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use std::collections::{BTreeMap, HashMap};

/// The characters of TFF's Shakespeare, numbered from 1; 0 fills up.
const CHARACTERS: &str = "dhlptx@DHLPTX $(,048cgkoswCGKOSW[_#'/37;?bfjnrvzBFJNRVZ\"&*.26:\naeimquyAEIMQUY]!%)-159\r";

fn clients() -> Field {
    Field::optional("clients", Type::at_least(1), "Keep only the first clients of each file, in the order of their names; all when absent.")
}

/// Opens the file of a side and finds its clients.
fn open(request: &Request<'_>, name: &str) -> Outcome<(Hdf5, Vec<(String, Object)>)> {
    let source = request.file(name)?;
    request.verify(&source)?;
    let file = Hdf5::open(&source.path)?;
    let examples = file.child(file.root(), "examples")?;
    let most = request.params.count("clients", 1)?.unwrap_or(usize::MAX);
    let clients: Vec<(String, Object)> = file.links(examples)?.into_iter().take(most).collect();
    if clients.is_empty() {
        return Err(file.fault("has no clients"));
    }
    Ok((file, clients))
}

/// The arrays of a client by name.
type Arrays = BTreeMap<String, Object>;
/// Takes in a client's arrays.
type Visit<'a> = dyn FnMut(&Hdf5, &Arrays, &mut Rows) -> Outcome<()> + 'a;

/// Visits every client of both files: the file, the name and the fields of the client. The rows know their groups afterwards.
fn each(request: &Request<'_>, names: [&str; 2], rows: &mut Rows, visit: &mut Visit<'_>) -> Outcome<()> {
    for (side, name) in names.into_iter().enumerate() {
        let (file, clients) = open(request, name)?;
        for (client, group) in clients {
            request.go_on()?;
            let fields = file.links(group).map_err(|fault| fault.at(format!("client `{client}`")))?;
            visit(&file, &fields, rows).map_err(|fault| fault.at(format!("client `{client}`")))?;
            rows.groups.resize(rows.labels.len(), client);
        }
        if side == 0 {
            rows.train = rows.labels.len();
        }
    }
    if rows.labels.is_empty() { Err(request.missing()) } else { Ok(()) }
}

fn field(file: &Hdf5, fields: &Arrays, name: &str) -> Outcome<Object> {
    fields.get(name).copied().ok_or_else(|| file.fault(format_args!("has no `{name}` of a client")))
}

/// Adds labels below `classes`, which must be as many as there are samples.
fn add_labels(file: &Hdf5, object: Object, classes: usize, samples: usize, rows: &mut Rows) -> Outcome<()> {
    let labels = file.array(object)?.wholes(file)?;
    if labels.len() != samples {
        return Err(file.fault(format_args!("has {samples} samples but {} labels of a client", labels.len())));
    }
    for label in labels {
        let fits = u32::try_from(label).ok().filter(|label| (*label as usize) < classes);
        rows.labels.push(fits.ok_or_else(|| file.fault(format_args!("has the label {label}, but labels are 0 to {}", classes - 1)))?);
    }
    Ok(())
}

const CHARACTERS_OF: &[(&str, &str)] = &[("all", "digits and letters, 62 classes"), ("digits", "digits only, 10 classes")];

pub(super) fn emnist_fields() -> Vec<Field> {
    vec![Field::with("characters", Type::Choice(CHARACTERS_OF), "all", "Which of the two pairs of files to use."), clients()]
}

/// Federated EMNIST: floats of 28 x 28 in [0, 1], where 1 is paper.
pub(super) fn emnist(request: &Request<'_>) -> Outcome<Dataset> {
    let digits = request.params.choice("characters", CHARACTERS_OF)? == Some(1);
    let names = if digits {
        ["fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5"]
    } else {
        ["fed_emnist_train.h5", "fed_emnist_test.h5"]
    };
    let classes = if digits { 10 } else { 62 };
    let (mut rows, mut values) = (Rows { what: "writer", ..Rows::default() }, Pixels::default());
    each(request, names, &mut rows, &mut |file, fields, rows| {
        let pixels = file.array(field(file, fields, "pixels")?)?;
        let [count, 28, 28] = pixels.dims[..] else {
            return Err(file.fault(format_args!("has pictures of the shape {:?}, but they are n x 28 x 28", pixels.dims)));
        };
        values.add(&pixels.floats(file)?);
        add_labels(file, field(file, fields, "label")?, classes, count, rows)
    })?;
    let shape = Shape { channels: 1, height: 28, width: 28 };
    if values.floats.is_empty() {
        return of_bytes(request.name, shape, classes, &values.bytes, UNIT, rows, request.origin());
    }
    of_floats(request.name, shape, classes, &values.floats, rows, request.origin())
}

/// A byte stands for itself over 255.
const UNIT: Scaling = Scaling { divisor: 255.0, mean: 0.0, sd: 1.0 };

/// Floats as bytes, a quarter of the memory, as long as each of them is exactly a byte over 255.
#[derive(Default)]
struct Pixels {
    bytes: Vec<u8>,
    /// Everything, once one of them is not.
    floats: Vec<f32>,
}

impl Pixels {
    fn add(&mut self, values: &[f32]) {
        let byte = |value: f32| Some((value * 255.0).round() as u8).filter(|byte| f32::from(*byte) / 255.0 == value);
        if self.floats.is_empty() {
            let before = self.bytes.len();
            self.bytes.extend(values.iter().map_while(|&value| byte(value)));
            if self.bytes.len() - before == values.len() {
                return;
            }
            self.bytes.truncate(before);
            self.floats = std::mem::take(&mut self.bytes).into_iter().map(|byte| f32::from(byte) / 255.0).collect();
        }
        self.floats.extend_from_slice(values);
    }
}

pub(super) fn cifar_fields() -> Vec<Field> {
    vec![clients()]
}

/// Federated CIFAR-100: bytes of 32 x 32 x 3, with the coarse classes above the fine ones.
pub(super) fn cifar(request: &Request<'_>) -> Outcome<Dataset> {
    let (mut rows, mut values) = (Rows { what: "client", ..Rows::default() }, Vec::new());
    let mut above: BTreeMap<u32, u32> = BTreeMap::new();
    each(request, ["fed_cifar100_train.h5", "fed_cifar100_test.h5"], &mut rows, &mut |file, fields, rows| {
        let pictures = file.array(field(file, fields, "image")?)?;
        let [count, 32, 32, 3] = pictures.dims[..] else {
            return Err(file.fault(format_args!("has pictures of the shape {:?}, but they are n x 32 x 32 x 3", pictures.dims)));
        };
        values.extend(pictures.into_bytes(file)?);
        let from = rows.labels.len();
        add_labels(file, field(file, fields, "label")?, 100, count, rows)?;
        let Some(coarse) = fields.get("coarse_label") else { return Ok(()) };
        let coarse = file.array(*coarse)?.wholes(file)?;
        for (fine, coarse) in rows.labels[from..].iter().zip(coarse) {
            let coarse = u32::try_from(coarse).ok().filter(|coarse| *coarse < 20);
            let coarse = coarse.ok_or_else(|| file.fault("has a coarse label that is not one of 0 to 19"))?;
            if *above.entry(*fine).or_insert(coarse) != coarse {
                return Err(file.fault(format_args!("puts the fine class {fine} into two coarse classes")));
            }
        }
        Ok(())
    })?;
    let shape = Shape { channels: 3, height: 32, width: 32 };
    let data = of_bytes(request.name, shape, 100, &values, Scaling::symmetric(255), rows, request.origin())?;
    if above.len() < 100 { Ok(data) } else { data.with_superclasses(above.into_values().collect()) }
}

pub(super) fn shakespeare_fields() -> Vec<Field> {
    vec![
        Field::with("length", Type::Int { min: 1, max: 10_000 }, 80, "Characters of a sample; the class is the next one.").from("", "TFF"),
        clients(),
    ]
}

/// TFF's Shakespeare: snippets of a role, cut into pieces of `length` characters and the one that follows.
///
/// A snippet begins with a sign of its own and ends with another, as in TFF's baseline; the last piece is filled up.
pub(super) fn shakespeare(request: &Request<'_>) -> Outcome<Dataset> {
    let length = request.params.count("length", 1)?.unwrap_or(80);
    let numbers: HashMap<char, u32> = CHARACTERS.chars().zip(1..).collect();
    let (begin, end, unknown) = special(numbers.len());
    let (mut rows, mut ids) = (Rows { what: "role", ..Rows::default() }, Vec::new());
    each(request, ["shakespeare_train.h5", "shakespeare_test.h5"], &mut rows, &mut |file, fields, rows| {
        let snippets = file.array(field(file, fields, "snippets")?)?.texts(file)?;
        // Each of them is filled up.
        request.room((rows.labels.len() + snippets.len()) as u64, length as u64 * 8, "choose a smaller `length`, or fewer `clients`")?;
        for snippet in snippets {
            let own = snippet.chars().map(|c| numbers.get(&c).copied().unwrap_or(unknown));
            let all: Vec<u32> = std::iter::once(begin).chain(own).chain([end]).collect();
            pieces(&all, length, &mut ids, &mut rows.labels);
        }
        Ok(())
    })?;
    let size = unknown + 1;
    of_tokens(request.name, length, size as usize, &ids, Vocabulary { size, padding: 0 }, rows, request.origin())
}

/// The numbers of begin, end and unknown behind padding and `known` others, as FedML counts them.
fn special(known: usize) -> (u32, u32, u32) {
    let last = known as u32;
    (last + 1, last + 2, last + 3)
}

/// Cuts numbers into pieces of `length` and the one that follows; the last piece ends with the last number and is filled up with 0.
fn pieces(all: &[u32], length: usize, ids: &mut Vec<u32>, labels: &mut Vec<u32>) {
    for piece in all.chunks(length + 1) {
        // A single number has nothing before it.
        let Some((next, before)) = piece.split_last().filter(|(_, before)| !before.is_empty()) else { continue };
        ids.extend(before.iter().copied().chain(std::iter::repeat(0)).take(length));
        labels.push(*next);
    }
}

pub(super) fn overflow_fields() -> Vec<Field> {
    vec![
        Field::with("length", Type::Int { min: 1, max: 1000 }, 20, "Words of a sample; the class is the next one.").from("", "TFF"),
        Field::with("words", Type::Int { min: 1, max: 1 << 20 }, 10_000, "The most frequent words, which have numbers of their own.")
            .from("vocab_size", "TFF"),
        Field::with("clients", Type::at_least(1), 100, "Keep only the first clients of each file, in the order of their names.")
            .from("", "this program; the files have 342,477"),
    ]
}

/// TFF's Stack Overflow: sentences of a user, of which the last word within the length is to be foretold.
pub(super) fn overflow(request: &Request<'_>) -> Outcome<Dataset> {
    let length = request.params.count("length", 1)?.unwrap_or(20);
    let words = request.params.integer("words", 1, 1 << 20)?.unwrap_or(10_000) as usize;
    let numbers = counted(request, words)?;
    let (begin, end, unknown) = special(numbers.len());
    let (mut rows, mut ids) = (Rows { what: "user", ..Rows::default() }, Vec::new());
    each(request, ["stackoverflow_train.h5", "stackoverflow_test.h5"], &mut rows, &mut |file, fields, rows| {
        for sentence in file.array(field(file, fields, "tokens")?)?.texts(file)? {
            let own = sentence.split(' ').filter(|word| !word.is_empty()).map(|word| numbers.get(word).copied().unwrap_or(unknown));
            let mut all: Vec<u32> = std::iter::once(begin).chain(own.take(length)).collect();
            if all.len() <= length {
                all.push(end);
            }
            pieces(&all, length, &mut ids, &mut rows.labels);
        }
        Ok(())
    })?;
    let size = unknown + 1;
    of_tokens(request.name, length, size as usize, &ids, Vocabulary { size, padding: 0 }, rows, request.origin())
}

/// The first words of `stackoverflow.word_count`, which are sorted by falling count, numbered from 1.
fn counted(request: &Request<'_>, words: usize) -> Outcome<HashMap<String, u32>> {
    let source = request.file("stackoverflow.word_count")?;
    let text = String::from_utf8(source.whole(1 << 28)?).map_err(|_| source.fault("is not UTF-8 text"))?;
    let first = |line: &str| line.split_ascii_whitespace().next().map(str::to_owned);
    let numbers: HashMap<String, u32> = text.lines().take(words).filter_map(first).zip(1..).collect();
    if numbers.is_empty() { Err(Fault::storage(format!("`{}` has no words", source.path.display()))) } else { Ok(numbers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_bytes_as_long_as_that_is_exact() {
        let mut pixels = Pixels::default();
        pixels.add(&[0.0, 1.0, 51.0 / 255.0]);
        assert_eq!((&pixels.bytes[..], pixels.floats.len()), (&[0, 255, 51][..], 0));
        pixels.add(&[1.0, 0.3]);
        assert_eq!((pixels.bytes.len(), &pixels.floats[..]), (0, &[0.0, 1.0, 51.0 / 255.0, 1.0, 0.3][..]));
        pixels.add(&[0.0]);
        assert_eq!(pixels.floats.len(), 6);
    }

    #[test]
    fn a_text_is_cut_into_pieces_with_the_next_character() {
        let (mut ids, mut labels) = (Vec::new(), Vec::new());
        pieces(&[9, 1, 2, 3, 4, 5, 8], 3, &mut ids, &mut labels);
        assert_eq!((ids, labels), (vec![9, 1, 2, 4, 5, 0], vec![3, 8]));
        let (mut ids, mut labels) = (Vec::new(), Vec::new());
        pieces(&[9, 1, 2, 3, 8], 3, &mut ids, &mut labels);
        assert_eq!((ids, labels), (vec![9, 1, 2], vec![3]), "the end alone foretells nothing");
        assert_eq!(CHARACTERS.chars().collect::<std::collections::BTreeSet<_>>().len(), 86);
    }
}
