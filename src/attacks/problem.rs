//! What an observer knows of one client's round, and what it makes of it.

use super::matching::Seen;
use super::pause::Parts;
use super::replay::Replay;
use crate::base::random::Stream;
use crate::engine::Model;
use rand_distr::{Distribution, StandardNormal};
use std::ops::Range;

/// One client's update, with all that is known beside it.
pub struct Problem {
    /// The model from which the update was made; what was not sent stands there as the observer has it.
    pub model: Model<f64>,
    /// The update.
    pub seen: Seen,
    /// How many samples are behind it.
    pub samples: usize,
    /// The samples of each local step, in the order of the steps.
    pub batches: Vec<Range<usize>>,
    /// The size of a local step.
    pub rate: f64,
    /// The least and the greatest value that the data can have.
    pub range: (f64, f64),
}

/// Samples that an observer made up.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconstruction {
    /// The samples, channels-last.
    pub x: Vec<f64>,
    /// Their classes, where they were found too.
    pub labels: Option<Vec<u32>>,
    /// How far their update is from the observed one; NaN when the search broke down.
    pub distance: f64,
}

impl Problem {
    /// The numbers of all samples together.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.samples * self.model.net.input().numel()
    }
    /// The local training on dummy samples.
    #[must_use]
    pub fn replay(&self) -> Replay {
        Replay::new(self.model.clone(), self.batches.clone(), self.rate)
    }
}

impl Reconstruction {
    /// As a list of numbers.
    #[must_use]
    pub fn state(&self) -> Vec<f64> {
        let labels = self.labels.iter().flatten().map(|label| f64::from(*label));
        let count = self.labels.as_ref().map_or(-1.0, |labels| labels.len() as f64);
        [self.distance, count].into_iter().chain(labels).chain(self.x.iter().copied()).collect()
    }
    /// Out of such a list; nothing when it is none.
    #[must_use]
    pub fn restored(state: &[f64]) -> Option<Self> {
        let mut parts = Parts(state);
        let (distance, count) = (parts.number()?, parts.number()?);
        let labels = if count < 0.0 { None } else { Some(parts.list(count as usize)?.iter().map(|label| *label as u32).collect()) };
        Some(Self { x: parts.0.to_vec(), labels, distance })
    }
}

/// Numbers with mean 0 and standard deviation 1.
#[must_use]
pub fn normals(rng: &mut Stream, count: usize) -> Vec<f64> {
    (0..count).map(|_| StandardNormal.sample(rng)).collect()
}
