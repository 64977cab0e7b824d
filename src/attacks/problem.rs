//! What an observer knows of one client's round, and what it makes of it.

use super::matching::Seen;
use super::replay::Replay;
use crate::base::random::Stream;
use crate::base::{Fault, FaultKind, Outcome};
use crate::engine::Model;
use rand_distr::{Distribution, StandardNormal};
use std::ops::Range;

/// One client's update, with all that is known beside it.
pub struct Problem<'a> {
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
    /// Whether to give up.
    pub stopping: &'a (dyn Fn() -> bool + Sync),
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

impl Problem<'_> {
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
    /// A fault when it is time to stop.
    ///
    /// # Errors
    /// `Interrupted`.
    pub fn go_on(&self) -> Outcome<()> {
        if (self.stopping)() { Err(Fault::new(FaultKind::Interrupted, "stopped during an attack")) } else { Ok(()) }
    }
}

/// Numbers with mean 0 and standard deviation 1.
#[must_use]
pub fn normals(rng: &mut Stream, count: usize) -> Vec<f64> {
    (0..count).map(|_| StandardNormal.sample(rng)).collect()
}
