//! What a partition looks like: sizes, labels and how different the clients are, as JSON.
//!
//! Only additions, divisions, square roots and [`portable`](super::portable) functions are used, so the text is the same on every platform.

use super::portable::{exp, ln};
use super::{Flags, Partition, Procedure};
use crate::base::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One client of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientSummary {
    /// Training samples.
    pub train: usize,
    /// Test samples.
    pub test: usize,
    /// Samples of each class, training and test together.
    pub counts: Vec<u64>,
    /// Total variation distance to the label distribution of all clients together, in [0, 1].
    pub total_variation: f64,
    /// Jensen-Shannon divergence from that distribution, base 2, in [0, 1].
    #[serde(default)]
    pub jensen_shannon: f64,
    /// The exponential of the entropy of the label distribution: from 1 to the number of classes, 0 without samples.
    pub effective_classes: f64,
}

/// How different the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Indices {
    /// Mean over clients with samples of the total variation distance, in [0, 1].
    pub total_variation_mean: f64,
    /// The greatest total variation distance, in [0, 1].
    pub total_variation_max: f64,
    /// Mean over clients with samples of the Jensen-Shannon divergence, in [0, 1].
    #[serde(default)]
    pub jensen_shannon_mean: f64,
    /// The greatest Jensen-Shannon divergence, in [0, 1].
    #[serde(default)]
    pub jensen_shannon_max: f64,
    /// Coefficient of variation of the client sizes: population sd over mean.
    pub size_cv: f64,
    /// Samples of the smallest client.
    pub size_min: usize,
    /// Samples of the largest client.
    pub size_max: usize,
    /// Mean over clients with samples of the effective number of classes.
    pub effective_classes_mean: f64,
    /// How many different sets of classes the clients with samples hold.
    #[serde(default)]
    pub label_sets: usize,
}

/// The description of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The rule.
    pub kind: String,
    /// Whose procedure.
    pub variant: Procedure,
    /// Samples of the data set.
    pub samples: usize,
    /// Classes of the data set.
    pub classes: usize,
    /// Whether no sample is held by two clients; checked when the partition was made.
    #[serde(default)]
    pub disjoint: bool,
    /// Whether every sample is held by a client or held out; checked when the partition was made.
    #[serde(default)]
    pub complete: bool,
    /// What happened on the way.
    pub flags: Flags,
    /// How different the clients are.
    pub indices: Indices,
    /// The clients, by id.
    pub clients: Vec<ClientSummary>,
}

impl Manifest {
    /// The manifest as JSON; equal partitions of equal labels give equal bytes.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("plain data has a JSON form")
    }
}

impl Partition {
    /// Counts and measures the partition; `labels` are those of the data set.
    ///
    /// # Errors
    /// A stage fault when the labels are those of another data set.
    pub fn manifest(&self, labels: &[u32]) -> Outcome<Manifest> {
        self.fits(labels.len(), self.classes)?;
        if let Some(label) = labels.iter().max().filter(|label| **label as usize >= self.classes) {
            self.fits(labels.len(), *label as usize + 1)?;
        }
        let counts: Vec<Vec<u64>> = self
            .clients
            .iter()
            .map(|client| {
                let mut counts = vec![0; self.classes];
                self.own(client).for_each(|&index| counts[labels[index as usize] as usize] += 1);
                counts
            })
            .collect();
        let all: Vec<u64> = (0..self.classes).map(|class| counts.iter().map(|c| c[class]).sum()).collect();
        let clients: Vec<ClientSummary> = self
            .clients
            .iter()
            .zip(counts)
            .map(|(client, counts)| ClientSummary {
                train: client.train.len(),
                test: client.test.len(),
                total_variation: total_variation(&counts, &all),
                jensen_shannon: jensen_shannon(&counts, &all),
                effective_classes: effective_classes(&counts),
                counts,
            })
            .collect();
        Ok(Manifest {
            kind: self.kind.clone(),
            variant: self.procedure,
            samples: self.samples,
            classes: self.classes,
            disjoint: self.flags.overlaps == 0,
            complete: self.flags.left_out == 0,
            flags: self.flags,
            indices: Indices::of(&clients),
            clients,
        })
    }
}

impl Indices {
    fn of(clients: &[ClientSummary]) -> Self {
        let size_of = |client: &ClientSummary| client.counts.iter().sum::<u64>() as usize;
        let sizes: Vec<usize> = clients.iter().map(size_of).collect();
        let held: Vec<&ClientSummary> = clients.iter().filter(|client| size_of(client) > 0).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| if n == 0 { 0.0 } else { values.sum::<f64>() / n as f64 };
        let of_held = |value: fn(&ClientSummary) -> f64| mean(&mut held.iter().map(|c| value(c)), held.len());
        let most = |value: fn(&ClientSummary) -> f64| held.iter().map(|c| value(c)).fold(0.0, f64::max);
        let size = mean(&mut sizes.iter().map(|&s| s as f64), sizes.len());
        let variance = mean(&mut sizes.iter().map(|&s| (s as f64 - size) * (s as f64 - size)), sizes.len());
        let sets: BTreeSet<Vec<bool>> = held.iter().map(|client| client.counts.iter().map(|&count| count > 0).collect()).collect();
        Self {
            total_variation_mean: of_held(|c| c.total_variation),
            total_variation_max: most(|c| c.total_variation),
            jensen_shannon_mean: of_held(|c| c.jensen_shannon),
            jensen_shannon_max: most(|c| c.jensen_shannon),
            size_cv: if size > 0.0 { variance.sqrt() / size } else { 0.0 },
            size_min: sizes.iter().copied().min().unwrap_or(0),
            size_max: sizes.iter().copied().max().unwrap_or(0),
            effective_classes_mean: of_held(|c| c.effective_classes),
            label_sets: sets.len(),
        }
    }
}

fn jensen_shannon(counts: &[u64], all: &[u64]) -> f64 {
    let (own, total) = (counts.iter().sum::<u64>() as f64, all.iter().sum::<u64>() as f64);
    if own == 0.0 || total == 0.0 {
        return 0.0;
    }
    let part = |p: f64, m: f64| if p > 0.0 { p * (ln(p) - ln(m)) } else { 0.0 };
    let sum: f64 = counts
        .iter()
        .zip(all)
        .map(|(&c, &a)| {
            let (p, q) = (c as f64 / own, a as f64 / total);
            0.5 * (part(p, 0.5 * (p + q)) + part(q, 0.5 * (p + q)))
        })
        .sum();
    (sum / ln(2.0)).clamp(0.0, 1.0)
}

fn total_variation(counts: &[u64], all: &[u64]) -> f64 {
    let (own, total) = (counts.iter().sum::<u64>() as f64, all.iter().sum::<u64>() as f64);
    if own == 0.0 || total == 0.0 {
        return 0.0;
    }
    0.5 * counts.iter().zip(all).map(|(&c, &a)| (c as f64 / own - a as f64 / total).abs()).sum::<f64>()
}

fn effective_classes(counts: &[u64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    if total == 0.0 {
        return 0.0;
    }
    let shares = counts.iter().filter(|c| **c > 0).map(|&c| c as f64 / total);
    exp(-shares.map(|p| p * ln(p)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;

    #[test]
    fn indices_are_those_of_a_hand_counted_example() {
        // Labels 0 0 1 1; client 0 holds 0 and 0, client 1 holds 1 and 1: each is at distance 1/2 and sees one class.
        let clients = vec![Client { train: vec![0], test: vec![1] }, Client { train: vec![2, 3], test: vec![] }];
        let partition = Partition::new("test", Procedure::Clean, 4, 2, Flags::default(), clients).expect("complete");
        let manifest = partition.manifest(&[0, 0, 1, 1]).expect("fits");
        assert_eq!(manifest.clients[0].counts, [2, 0]);
        let indices = manifest.indices;
        assert_eq!((indices.total_variation_mean, indices.size_cv, indices.effective_classes_mean), (0.5, 0.0, 1.0));
        // p = (1, 0) against q = (1/2, 1/2): log2(1 / (3/4)) / 2 + (log2((1/2) / (3/4)) + log2((1/2) / (1/4))) / 4.
        let by_hand = 0.5 * (4.0_f64 / 3.0).log2() + 0.25 * ((2.0_f64 / 3.0).log2() + 1.0);
        assert!((indices.jensen_shannon_mean - by_hand).abs() < 1e-15 && indices.label_sets == 2, "{indices:?}");
        assert!(manifest.disjoint && manifest.complete);
        let same = partition.manifest(&[0, 1, 0, 1]).expect("fits");
        assert_eq!((same.indices.total_variation_max, same.clients[1].effective_classes), (0.0, 2.0));
        assert!(partition.manifest(&[0, 1]).is_err() && partition.manifest(&[0, 1, 2, 0]).is_err());
        assert_eq!(serde_json::from_slice::<Manifest>(&manifest.to_json()).expect("own format"), manifest);
    }
}
