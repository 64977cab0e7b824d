//! Puts data sets together from what loaders have read: bytes, floats or texts.

use super::Shape;
use super::dataset::{Bytes, Dataset, Groups, Origin, Samples, Scaling, Vocabulary};
use super::parts::{HEADER, with_header};
use crate::base::{Fault, Outcome};
use std::collections::{BTreeMap, HashSet};

/// What a loader has read beside the samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub labels: Vec<u32>,
    /// How many of the first samples are those of the original training set.
    pub train: usize,
    /// The name of the group of each sample; empty when there are no groups.
    pub groups: Vec<String>,
    /// What a group is, in the singular.
    pub what: &'static str,
}

/// A data set of bytes, one sample after the other.
pub(super) fn of_bytes(
    name: &str,
    shape: Shape,
    classes: usize,
    values: &[u8],
    scaling: Scaling,
    rows: Rows,
    origin: Origin,
) -> Outcome<Dataset> {
    let mut bytes = with_header(rows.labels.len(), shape.numel());
    bytes.extend_from_slice(values);
    finish(name, shape, classes, Samples::bytes(Bytes::new(bytes, HEADER), scaling), rows, origin)
}

/// A data set of floats, one sample after the other.
pub(super) fn of_floats(name: &str, shape: Shape, classes: usize, values: &[f32], rows: Rows, origin: Origin) -> Outcome<Dataset> {
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let sample = at / shape.numel().max(1);
        return Err(Fault::storage(format!("sample {sample} of data set `{name}` holds {}, which is no number to train on", values[at])));
    }
    let mut bytes = with_header(rows.labels.len(), shape.numel() * 4);
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    finish(name, shape, classes, Samples::F32(Bytes::new(bytes, HEADER)), rows, origin)
}

/// A buffer for so many samples of floats, which are drawn one by one: nothing is kept beside them.
pub(super) struct Drawn {
    bytes: Vec<u8>,
}

impl Drawn {
    /// Room for `count` samples of the shape.
    pub fn new(count: usize, shape: Shape) -> Self {
        Self { bytes: with_header(count, shape.numel() * 4) }
    }
    /// Appends numbers of a sample, which are finite.
    pub fn extend(&mut self, values: impl IntoIterator<Item = f64>) {
        self.bytes.extend(values.into_iter().flat_map(|value| (value as f32).to_le_bytes()));
    }
    /// The data set, once all samples are there.
    pub fn finish(self, name: &str, shape: Shape, classes: usize, rows: Rows, origin: Origin) -> Outcome<Dataset> {
        finish(name, shape, classes, Samples::F32(Bytes::new(self.bytes, HEADER)), rows, origin)
    }
}

/// A data set of texts that are all of one length.
pub(super) fn of_tokens(
    name: &str,
    length: usize,
    classes: usize,
    ids: &[u32],
    vocabulary: Vocabulary,
    rows: Rows,
    origin: Origin,
) -> Outcome<Dataset> {
    let mut bytes = with_header(rows.labels.len(), length * 4);
    bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    let shape = Shape { channels: 1, height: 1, width: length };
    finish(name, shape, classes, Samples::Tokens { ids: Bytes::new(bytes, HEADER), vocabulary }, rows, origin)
}

fn finish(name: &str, shape: Shape, classes: usize, samples: Samples, rows: Rows, origin: Origin) -> Outcome<Dataset> {
    let data = Dataset::new(name, shape, classes, samples, rows.labels, rows.train, origin)?;
    if rows.groups.is_empty() {
        return Ok(data);
    }
    data.with_groups(numbered(rows.what, &rows.groups))
}

/// Groups by the order of their names; names that are numbers count as such.
fn numbered(what: &str, names: &[String]) -> Groups {
    let key = |name: &String| (name.parse::<u64>().unwrap_or(u64::MAX), name.clone());
    // One by one: a sample each would take more memory than many a data set.
    let unique: HashSet<&String> = names.iter().collect();
    let sorted: BTreeMap<(u64, String), ()> = unique.into_iter().map(|name| (key(name), ())).collect();
    let numbers: BTreeMap<&String, u32> = sorted.keys().zip(0..).map(|((_, name), number)| (name, number)).collect();
    let of = names.iter().map(|name| numbers[name]).collect();
    Groups { what: what.to_owned(), names: sorted.keys().map(|(_, name)| name.clone()).collect(), of }
}

impl Dataset {
    /// The first samples only; all when there are no more.
    ///
    /// # Errors
    /// A stage fault when `count` is more than there are.
    pub(super) fn first(self, count: usize) -> Outcome<Self> {
        if count > self.len() {
            return Err(Fault::stage(format!("`limit` is {count}, but data set `{}` has {} samples", self.name(), self.len())));
        }
        let taken: Vec<u32> = (0..count as u32).collect();
        let train = self.original_train().min(count);
        self.taking(&taken, train)
    }
    /// Other samples in another order, each as often as it is named; the first `train` of them for training.
    ///
    /// # Errors
    /// As [`Dataset::new`]. The samples must be there.
    pub(super) fn taking(self, taken: &[u32], train: usize) -> Outcome<Self> {
        let (bytes, width) = self.samples().stored();
        let size = self.shape().numel() * width;
        let mut kept = with_header(taken.len(), size);
        for &sample in taken {
            kept.extend_from_slice(&bytes.as_slice()[sample as usize * size..][..size]);
        }
        let bytes = Bytes::new(kept, HEADER);
        let samples = match self.samples() {
            Samples::U8 { scaling, .. } => Samples::bytes(bytes, *scaling),
            Samples::F32(_) => Samples::F32(bytes),
            Samples::Tokens { vocabulary, .. } => Samples::Tokens { ids: bytes, vocabulary: *vocabulary },
        };
        let labels = taken.iter().map(|&sample| self.labels()[sample as usize]).collect();
        let mut data = Self::new(self.name(), self.shape(), self.classes(), samples, labels, train, self.origin().clone())?;
        if let Some(groups) = self.groups() {
            data = data.with_groups(Groups { of: taken.iter().map(|&sample| groups.of[sample as usize]).collect(), ..groups.clone() })?;
        }
        if self.superclasses().is_empty() { Ok(data) } else { data.with_superclasses(self.superclasses().to_vec()) }
    }
}
