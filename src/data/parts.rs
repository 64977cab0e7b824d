//! A data set as three objects of the store: description, samples, labels.
//!
//! The samples keep their bytes as they were read, so that loading costs nothing but the read. It knows nothing of the store itself.

use super::Shape;
use super::dataset::{Bytes, Dataset, Groups, Origin, Samples, Scaling, Vocabulary};
use crate::base::{Blob, Fault, Outcome};
use serde::{Deserialize, Serialize};

/// Length of the header in front of the samples: magic (8 bytes), number of samples, bytes of a sample (u64, little endian), zeros.
pub(super) const HEADER: usize = 32;
const SAMPLES_MAGIC: &[u8; 8] = b"PFLSAMP1";
const LABELS_MAGIC: &[u8; 8] = b"PFLLABL1";
const GROUPS_MAGIC: &[u8; 8] = b"PFLGROUP";
const FORMAT: u32 = 1;

/// The three objects that hold a data set.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Name, shape, classes, number of samples, normalization, source and license, as JSON.
    pub info: Vec<u8>,
    /// A header of 32 bytes and the samples.
    pub samples: Blob,
    /// A header of 16 bytes and a label a sample, u32 little endian; then, where the data set has groups, 8 bytes and a group a sample.
    pub labels: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Info {
    format: u32,
    name: String,
    shape: Shape,
    classes: usize,
    samples: usize,
    train: usize,
    storage: Storage,
    origin: Origin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups: Option<Names>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    superclasses: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    what: String,
    names: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Storage {
    U8(Scaling),
    F32,
    Tokens(Vocabulary),
}

/// A buffer for samples with the header in front, to be filled with `count` samples of `size` bytes each.
pub(super) fn with_header(count: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER.saturating_add(count.saturating_mul(size)));
    out.extend(header(count, size));
    out
}

fn header(count: usize, size: usize) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..8].copy_from_slice(SAMPLES_MAGIC);
    out[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    out[16..24].copy_from_slice(&(size as u64).to_le_bytes());
    out
}

impl Dataset {
    /// The three objects; the samples are shared when they already stand behind their header.
    #[must_use]
    pub fn to_parts(&self) -> Parts {
        let (bytes, width) = self.samples().stored();
        let head = header(self.len(), self.shape().numel() * width);
        let samples = if bytes.whole().len() == HEADER + bytes.as_slice().len() && bytes.whole().starts_with(&head) {
            bytes.whole().clone()
        } else {
            Blob::from([&head[..], bytes.as_slice()].concat())
        };
        let info = Info {
            format: FORMAT,
            name: self.name().to_owned(),
            shape: self.shape(),
            classes: self.classes(),
            samples: self.len(),
            train: self.original_train(),
            storage: match self.samples() {
                Samples::U8 { scaling, .. } => Storage::U8(*scaling),
                Samples::F32(_) => Storage::F32,
                Samples::Tokens { vocabulary, .. } => Storage::Tokens(*vocabulary),
            },
            origin: self.origin().clone(),
            groups: self.groups().map(|groups| Names { what: groups.what.clone(), names: groups.names.clone() }),
            superclasses: self.superclasses().to_vec(),
        };
        let mut labels = Vec::with_capacity(16 + 4 * self.len());
        labels.extend(LABELS_MAGIC);
        labels.extend((self.len() as u64).to_le_bytes());
        labels.extend(self.labels().iter().flat_map(|label| label.to_le_bytes()));
        if let Some(groups) = self.groups() {
            labels.extend(GROUPS_MAGIC);
            labels.extend(groups.of.iter().flat_map(|group| group.to_le_bytes()));
        }
        Parts { info: serde_json::to_vec(&info).expect("plain data has a JSON form"), samples, labels }
    }

    /// The data set in the three objects; the samples are not copied.
    ///
    /// # Errors
    /// A storage fault when the objects do not belong together or are damaged.
    pub fn from_parts(info: &[u8], samples: impl Into<Blob>, labels: &[u8]) -> Outcome<Self> {
        let samples = samples.into();
        let info: Info = serde_json::from_slice(info).map_err(|e| damaged(&format!("its description cannot be read: {e}")))?;
        if info.format != FORMAT {
            return Err(damaged(&format!("its format is {}, but this version reads {FORMAT}", info.format)));
        }
        let width = match info.storage {
            Storage::U8(_) => 1,
            Storage::F32 | Storage::Tokens(_) => 4,
        };
        if !samples.starts_with(&header(info.samples, info.shape.numel().saturating_mul(width))) {
            return Err(damaged("its samples have another header than its description says"));
        }
        let (labels, groups) = read_labels(labels, info.samples, info.groups.is_some()).ok_or_else(|| damaged("its labels are damaged"))?;
        let bytes = Bytes::new(samples, HEADER);
        let samples = match info.storage {
            Storage::U8(scaling) => Samples::bytes(bytes, scaling),
            Storage::F32 => Samples::F32(bytes),
            Storage::Tokens(vocabulary) => Samples::Tokens { ids: bytes, vocabulary },
        };
        let mut data = Self::new(&info.name, info.shape, info.classes, samples, labels, info.train, info.origin)?;
        if let Some(Names { what, names }) = info.groups {
            data = data.with_groups(Groups { what, names, of: groups })?;
        }
        if info.superclasses.is_empty() { Ok(data) } else { data.with_superclasses(info.superclasses) }
    }
}

/// The label and, where there are `groups`, the group of each of `samples` samples.
fn read_labels(bytes: &[u8], samples: usize, groups: bool) -> Option<(Vec<u32>, Vec<u32>)> {
    let numbers = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect::<Vec<_>>();
    let (count, rest) = bytes.strip_prefix(LABELS_MAGIC)?.split_first_chunk::<8>()?;
    let (labels, rest) = rest.split_at_checked(samples.checked_mul(4)?)?;
    if u64::from_le_bytes(*count) != samples as u64 {
        return None;
    }
    let rest = if groups { rest.strip_prefix(GROUPS_MAGIC)? } else { rest };
    (rest.len() == if groups { labels.len() } else { 0 }).then(|| (numbers(labels), numbers(rest)))
}

fn damaged(why: &str) -> Fault {
    Fault::storage(format!("a stored data set is damaged: {why}")).help("`pflpipe cache verify` finds and removes damaged objects")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Dataset {
        let mut bytes = with_header(2, 3);
        bytes.extend([1, 2, 3, 4, 5, 6]);
        let samples = Samples::bytes(Bytes::new(bytes, HEADER), Scaling::symmetric(16));
        let shape = Shape { channels: 3, height: 1, width: 1 };
        let origin = Origin { source: "here".into(), license: "none".into() };
        Dataset::new("small", shape, 4, samples, vec![3, 0], 1, origin).expect("fits")
    }

    #[test]
    fn parts_round_trip_without_copying_the_samples() {
        let data = small();
        let parts = data.to_parts();
        let back = Dataset::from_parts(&parts.info, parts.samples.clone(), &parts.labels).expect("own format");
        assert_eq!((back.name(), back.shape(), back.classes(), back.labels()), ("small", data.shape(), 4, &[3, 0][..]));
        assert_eq!((back.original_train(), back.origin()), (1, data.origin()));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        data.gather(&[0, 1], &mut a);
        back.gather(&[0, 1], &mut b);
        assert_eq!(a, b);
        let again = back.to_parts();
        assert!(parts.samples.same(&again.samples) && data.samples().stored().0.whole().same(&parts.samples));
        assert_eq!((again.info, again.labels), (parts.info, parts.labels));
    }

    #[test]
    fn texts_with_groups_and_superclasses_round_trip() {
        let ids: Vec<u8> = [5_u32, 2, 0, 7, 0, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
        let samples = Samples::Tokens { ids: Bytes::new(ids, 0), vocabulary: Vocabulary { size: 8, padding: 0 } };
        let shape = Shape { channels: 1, height: 1, width: 3 };
        let groups = Groups { what: "writer".into(), names: vec!["a".into(), "b".into()], of: vec![1, 0] };
        let data = Dataset::new("text", shape, 2, samples, vec![0, 1], 2, Origin::default()).expect("fits");
        let data = data.with_groups(groups).expect("fits").with_superclasses(vec![0, 0]).expect("fits");
        let parts = data.to_parts();
        let back = Dataset::from_parts(&parts.info, parts.samples.clone(), &parts.labels).expect("own format");
        assert_eq!((back.groups(), back.superclasses(), back.vocabulary()), (data.groups(), data.superclasses(), data.vocabulary()));
        let mut out = Vec::new();
        back.gather(&[1, 0], &mut out);
        assert_eq!((out, back.length(0), back.length(1)), (vec![7.0, 0.0, 0.0, 5.0, 2.0, 0.0], 2, 1));
        for n in 0..parts.labels.len() {
            assert!(Dataset::from_parts(&parts.info, parts.samples.clone(), &parts.labels[..n]).is_err(), "{n} bytes");
        }
        let wrong = Groups { what: "writer".into(), names: vec!["a".into()], of: vec![1, 0] };
        assert!(data.with_groups(wrong).is_err());
    }

    #[test]
    fn damaged_parts_are_faults() {
        let parts = small().to_parts();
        let read = |info: &[u8], samples: &[u8], labels: &[u8]| Dataset::from_parts(info, samples.to_vec(), labels);
        assert!(read(&parts.info, &parts.samples, &parts.labels).is_ok());
        assert!(read(b"{}", &parts.samples, &parts.labels).is_err());
        for n in 0..parts.samples.len() {
            assert!(read(&parts.info, &parts.samples[..n], &parts.labels).is_err(), "{n} bytes of samples");
        }
        for n in 0..parts.labels.len() {
            assert!(read(&parts.info, &parts.samples, &parts.labels[..n]).is_err(), "{n} bytes of labels");
        }
    }
}
