//! A data set in memory: typed samples in channels-last order, labels, and where it came from.
//!
//! It does not know how it was read, nor which client holds which sample.

use crate::base::{Blob, Fault, Outcome};
use crate::engine::Shape;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a stored byte becomes a number: `(byte / divisor - mean) / sd`, each step rounded to `f32`, as torchvision's
/// `ToTensor` and `Normalize` do it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// The greatest byte, which becomes 1.
    pub divisor: f32,
    /// Subtracted after the division.
    pub mean: f32,
    /// Divides what is left.
    pub sd: f32,
}

impl Scaling {
    /// From bytes in `0..=greatest` to [-1, 1], as PFLlib does for images.
    #[must_use]
    pub fn symmetric(greatest: u8) -> Self {
        Self { divisor: f32::from(greatest), mean: 0.5, sd: 0.5 }
    }
    /// The number of every byte.
    #[must_use]
    pub fn table(&self) -> [f32; 256] {
        std::array::from_fn(|byte| (byte as f32 / self.divisor - self.mean) / self.sd)
    }
}

/// A shared run of bytes inside a larger buffer, so that a stored object is used without a copy.
#[derive(Clone, Debug)]
pub struct Bytes {
    whole: Blob,
    from: usize,
}

impl Bytes {
    /// The bytes of `whole` after the first `from`, or none when it is shorter.
    #[must_use]
    pub fn new(whole: impl Into<Blob>, from: usize) -> Self {
        let whole = whole.into();
        let from = from.min(whole.len());
        Self { whole, from }
    }
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.whole[self.from..]
    }
    pub(super) fn whole(&self) -> &Blob {
        &self.whole
    }
}

/// The values of all samples, one sample after the other.
#[derive(Clone, Debug)]
pub enum Samples {
    /// One byte a value, and the number that each byte stands for.
    U8 {
        /// The bytes.
        bytes: Bytes,
        /// From bytes to numbers.
        scaling: Scaling,
        /// [`Scaling::table`].
        table: Arc<[f32; 256]>,
    },
    /// Four bytes a value: `f32`, little endian.
    F32(Bytes),
    /// Numbers of words or characters: `u32`, little endian. A model sees them as floats, which hold them exactly.
    Tokens {
        /// The numbers, each sample filled up to the same length.
        ids: Bytes,
        /// What they mean.
        vocabulary: Vocabulary,
    },
}

/// What the numbers of a text stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Numbers are below it; at most 2^24, so that an `f32` holds each of them exactly.
    pub size: u32,
    /// The number that fills a sample up.
    pub padding: u32,
}

/// The greatest vocabulary.
pub(super) const GREATEST_VOCABULARY: u32 = 1 << 24;

/// Who the samples come from, where a data set says so: subjects, writers, hospitals, domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// What a group is, in the singular: `subject`, `writer`.
    pub what: String,
    /// The names of the groups.
    pub names: Vec<String>,
    /// The group of every sample.
    pub of: Vec<u32>,
}

impl Samples {
    /// Samples of one byte a value.
    #[must_use]
    pub fn bytes(bytes: Bytes, scaling: Scaling) -> Self {
        Self::U8 { bytes, scaling, table: Arc::new(scaling.table()) }
    }
    pub(super) fn stored(&self) -> (&Bytes, usize) {
        match self {
            Self::U8 { bytes, .. } => (bytes, 1),
            Self::F32(bytes) | Self::Tokens { ids: bytes, .. } => (bytes, 4),
        }
    }
}

/// Where a data set comes from and what may be done with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// What to cite.
    pub source: String,
    /// The license, as far as there is one.
    pub license: String,
}

/// A data set: the original training samples followed by the original test samples, in file order.
#[derive(Clone, Debug)]
pub struct Dataset {
    name: String,
    shape: Shape,
    classes: usize,
    samples: Samples,
    labels: Vec<u32>,
    train: usize,
    origin: Origin,
    groups: Option<Arc<Groups>>,
    superclasses: Vec<u32>,
}

impl Dataset {
    /// Puts a data set together; the first `train` samples are those of the original training set.
    ///
    /// # Errors
    /// A storage fault when it is empty, or has more than 2^32 - 1 samples, or the number of values does not fit the labels, or a
    /// label is not below `classes`.
    pub fn new(
        name: &str,
        shape: Shape,
        classes: usize,
        samples: Samples,
        labels: Vec<u32>,
        train: usize,
        origin: Origin,
    ) -> Outcome<Self> {
        let (bytes, width) = samples.stored();
        let wanted = shape.numel().checked_mul(width).and_then(|size| size.checked_mul(labels.len()));
        if labels.is_empty() || shape.numel() == 0 {
            return Err(Fault::storage(format!("data set `{name}` is empty")));
        }
        if wanted != Some(bytes.as_slice().len()) || u32::try_from(labels.len()).is_err() || train > labels.len() {
            return Err(Fault::storage(format!(
                "data set `{name}` has {} labels, {train} of them for training, of {} values each, but {} bytes of samples",
                labels.len(),
                shape.numel(),
                bytes.as_slice().len()
            )));
        }
        if let Some(at) = labels.iter().position(|&label| label as usize >= classes) {
            return Err(Fault::storage(format!(
                "sample {at} of data set `{name}` has label {}, but labels are 0 to {} ({classes} classes)",
                labels[at],
                classes.saturating_sub(1)
            )));
        }
        if let Samples::Tokens { ids, vocabulary } = &samples {
            let mut ids = ids.as_slice().as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b));
            let size = vocabulary.size.min(GREATEST_VOCABULARY);
            if vocabulary.padding >= size || ids.any(|id| id >= size) || vocabulary.size != size {
                return Err(Fault::storage(format!("data set `{name}` has a word that is not in its vocabulary of {size}")));
            }
        }
        Ok(Self { name: name.to_owned(), shape, classes, samples, labels, train, origin, groups: None, superclasses: Vec::new() })
    }
    /// Adds who the samples come from.
    ///
    /// # Errors
    /// A storage fault when a sample has no group, or one that has no name.
    pub fn with_groups(mut self, groups: Groups) -> Outcome<Self> {
        if groups.of.len() != self.labels.len() || groups.of.iter().any(|&group| group as usize >= groups.names.len()) {
            return Err(Fault::storage(format!("data set `{}`: the {}s do not belong to its samples", self.name, groups.what)));
        }
        self.groups = Some(Arc::new(groups));
        Ok(self)
    }
    /// Adds the class above each class.
    ///
    /// # Errors
    /// A storage fault when there is not one for each class.
    pub fn with_superclasses(mut self, superclasses: Vec<u32>) -> Outcome<Self> {
        if superclasses.len() != self.classes {
            let what = format!("data set `{}` has {} classes, but {} of them have one above", self.name, self.classes, superclasses.len());
            return Err(Fault::storage(what));
        }
        self.superclasses = superclasses;
        Ok(self)
    }
    /// Who the samples come from, where that is known.
    #[must_use]
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_deref()
    }
    /// The class above each class; empty where there is only one level.
    #[must_use]
    pub fn superclasses(&self) -> &[u32] {
        &self.superclasses
    }
    /// What the numbers of a text stand for; nothing for data sets of other kinds.
    #[must_use]
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        if let Samples::Tokens { vocabulary, .. } = &self.samples { Some(*vocabulary) } else { None }
    }
    /// The number of words of a text before it was filled up; the number of values for data sets of other kinds.
    ///
    /// # Panics
    /// When the index is not below [`Dataset::len`].
    #[must_use]
    pub fn length(&self, index: u32) -> usize {
        let values = self.shape.numel();
        let Samples::Tokens { ids, vocabulary } = &self.samples else { return values };
        let from = index as usize * values * 4;
        let words = ids.as_slice()[from..from + values * 4].as_chunks::<4>().0;
        values - words.iter().rev().take_while(|word| u32::from_le_bytes(**word) == vocabulary.padding).count()
    }
    /// The same data set with other numbers for the same samples.
    ///
    /// # Errors
    /// As [`Dataset::new`].
    pub fn with_samples(self, samples: Samples) -> Outcome<Self> {
        let made = Self::new(&self.name, self.shape, self.classes, samples, self.labels, self.train, self.origin)?;
        Ok(Self { groups: self.groups, superclasses: self.superclasses, ..made })
    }
    /// The name, as a pipeline writes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The shape of one sample.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// The number of classes; labels are below it.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }
    /// The stored values.
    #[must_use]
    pub fn samples(&self) -> &Samples {
        &self.samples
    }
    /// The label of every sample.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }
    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }
    /// Never: a data set has at least one sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
    /// How many of the first samples are those of the original training set.
    #[must_use]
    pub fn original_train(&self) -> usize {
        self.train
    }
    /// Source and license.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
    /// Replaces `out` by the values of the samples at `indices`: `(indices, height, width, channels)`, normalized.
    ///
    /// # Panics
    /// When an index is not below [`Dataset::len`]; a partition of this data set holds none such
    /// ([`Partition::fits`](super::Partition::fits)).
    pub fn gather(&self, indices: &[u32], out: &mut Vec<f32>) {
        let values = self.shape.numel();
        out.clear();
        out.reserve(indices.len() * values);
        match &self.samples {
            Samples::U8 { bytes, table, .. } => {
                let bytes = bytes.as_slice();
                for &index in indices {
                    let from = index as usize * values;
                    out.extend(bytes[from..from + values].iter().map(|&byte| table[usize::from(byte)]));
                }
            }
            Samples::Tokens { ids, .. } => {
                let ids = ids.as_slice();
                for &index in indices {
                    let from = index as usize * values * 4;
                    let sample = ids[from..from + values * 4].as_chunks::<4>().0;
                    out.extend(sample.iter().map(|word| u32::from_le_bytes(*word) as f32));
                }
            }
            Samples::F32(bytes) => {
                let bytes = bytes.as_slice();
                for &index in indices {
                    let from = index as usize * values * 4;
                    let sample = bytes[from..from + values * 4].chunks_exact(4);
                    out.extend(sample.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
                }
            }
        }
    }
    /// Replaces `out` by the labels of the samples at `indices`.
    ///
    /// # Panics
    /// As [`Dataset::gather`].
    pub fn gather_labels(&self, indices: &[u32], out: &mut Vec<u32>) {
        out.clear();
        out.extend(indices.iter().map(|&index| self.labels[index as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXEL: Shape = Shape { channels: 1, height: 1, width: 2 };

    fn small(labels: Vec<u32>) -> Outcome<Dataset> {
        let bytes = Bytes::new(Arc::new(vec![9, 0, 255, 128, 7]), 1);
        Dataset::new("small", PIXEL, 2, Samples::bytes(bytes, Scaling::symmetric(255)), labels, 1, Origin::default())
    }

    #[test]
    fn gather_normalizes_in_two_rounded_steps() {
        let data = small(vec![1, 0]).expect("fits");
        let mut out = vec![5.0];
        data.gather(&[1, 0, 1], &mut out);
        let step = |byte: f32| (byte / 255.0 - 0.5) / 0.5;
        assert_eq!(out, [step(128.0), step(7.0), -1.0, 1.0, step(128.0), step(7.0)]);
        let mut labels = Vec::new();
        data.gather_labels(&[1, 0], &mut labels);
        assert_eq!(labels, [0, 1]);
    }

    #[test]
    fn floats_are_read_as_they_are_stored() {
        let raw: Vec<u8> = [0.25_f32, -3.5, 1e-30, 7.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let samples = Samples::F32(Bytes::new(raw, 0));
        let data = Dataset::new("floats", PIXEL, 1, samples, vec![0, 0], 2, Origin::default()).expect("fits");
        let mut out = Vec::new();
        data.gather(&[1], &mut out);
        assert_eq!(out, [1e-30, 7.0]);
    }

    #[test]
    fn a_label_outside_the_classes_is_named() {
        let fault = small(vec![0, 2]).expect_err("label 2 of 2 classes");
        assert_eq!(fault.to_string(), "sample 1 of data set `small` has label 2, but labels are 0 to 1 (2 classes)");
        assert!(small(vec![0]).is_err() && small(vec![]).is_err());
    }
}
