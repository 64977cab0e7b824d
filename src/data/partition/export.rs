//! Partitions for other programs: index lists as json and npz, which `imported` reads back.

use super::super::npy;
use super::Partition;
use crate::base::Outcome;
use serde_json::{Value, json};

/// The format of the index lists in json.
pub(super) const FORMAT: &str = "pflpipe-partition-1";

impl Partition {
    /// The index lists as json, with the manifest of the partition beside them, and `alpha` where it has one.
    ///
    /// # Errors
    /// A stage fault when the labels are those of another data set.
    pub fn to_json(&self, labels: &[u32], alpha: Option<f64>) -> Outcome<Value> {
        let clients: Vec<Value> = self.clients().iter().map(|client| json!({"train": client.train, "test": client.test})).collect();
        let manifest = self.manifest(labels)?;
        let mut all = json!({
            "format": FORMAT,
            "samples": self.samples(),
            "classes": self.classes(),
            "hold_out": self.hold_out(),
            "clients": clients,
            "manifest": manifest,
        });
        if let Some(alpha) = alpha {
            all["alpha"] = alpha.into();
        }
        Ok(all)
    }
    /// The index lists as npz: `train`, `test` and `hold_out` hold the samples of one client after the other, and
    /// `train_offsets`, `test_offsets` where each client begins and the last one ends; `overlaps`, where there are any, is how often
    /// a sample is held by one client more; `samples` is the size of the data set. All of them int64; and `alpha`, where there is one, float64.
    ///
    /// # Errors
    /// An internal fault when the file cannot be made.
    pub fn to_npz(&self, alpha: Option<f64>) -> Outcome<Vec<u8>> {
        let array = |values: &mut dyn Iterator<Item = u64>| {
            let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
            npy::npy("<i8", &[bytes.len() / 8], &bytes)
        };
        let mut members = Vec::new();
        for (names, side) in [(["train", "train_offsets"], 0), (["test", "test_offsets"], 1)] {
            let lists = || self.clients().iter().map(move |client| if side == 0 { &client.train } else { &client.test });
            let mut end = 0;
            let mut offsets = std::iter::once(0).chain(lists().map(|list| {
                end += list.len() as u64;
                end
            }));
            members.push((names[0], array(&mut lists().flatten().map(|&index| u64::from(index)))));
            members.push((names[1], array(&mut offsets)));
        }
        members.push(("samples", array(&mut std::iter::once(self.samples() as u64))));
        members.push(("hold_out", array(&mut self.hold_out().iter().map(|&index| u64::from(index)))));
        if self.flags().overlaps > 0 {
            members.push(("overlaps", array(&mut std::iter::once(self.flags().overlaps))));
        }
        if let Some(alpha) = alpha {
            members.push(("alpha", npy::npy("<f8", &[1], &alpha.to_le_bytes())));
        }
        npy::npz(&members)
    }
}
