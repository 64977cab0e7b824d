//! What a partition rule may know of a data set: labels, natural groups, the hierarchy of the classes, the original split.
//!
//! It knows no sample's values.

use super::super::dataset::{Dataset, Groups};
use crate::base::{Fault, FaultKind, Outcome};

/// The samples of a data set as the rules see them.
#[derive(Clone, Copy, Debug)]
pub struct Population<'a> {
    /// The label of every sample.
    pub labels: &'a [u32],
    /// Labels are below it.
    pub classes: usize,
    /// How many of the first samples are those of the original training set.
    pub train: usize,
    /// To which subject, writer or domain each sample belongs, where the data set says so.
    pub groups: Option<&'a Groups>,
    /// The class above each class, where the data set has two levels; empty otherwise.
    pub superclasses: &'a [u32],
    /// Whether somebody wants the partition no more.
    pub stop: Stop<'a>,
}

/// Asked from draw to draw.
#[derive(Clone, Copy)]
pub struct Stop<'a>(Option<&'a dyn Fn() -> bool>);

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Stop" } else { "Never" })
    }
}

impl Stop<'_> {
    /// Whether to go on.
    ///
    /// # Errors
    /// An interruption, when it is wanted no more.
    pub fn go_on(self) -> Outcome<()> {
        match self.0 {
            Some(stop) if stop() => Err(Fault::new(FaultKind::Interrupted, "stopped between two draws")),
            _ => Ok(()),
        }
    }
}

impl<'a> Population<'a> {
    /// Labels without anything else; all samples count as training samples.
    #[must_use]
    pub fn of_labels(labels: &'a [u32], classes: usize) -> Self {
        Self { labels, classes, train: labels.len(), groups: None, superclasses: &[], stop: Stop(None) }
    }
    /// The samples of a data set.
    #[must_use]
    pub fn of(data: &'a Dataset) -> Self {
        Self {
            labels: data.labels(),
            classes: data.classes(),
            train: data.original_train(),
            groups: data.groups(),
            superclasses: data.superclasses(),
            stop: Stop(None),
        }
    }
    /// The same samples for a partition that is given up when `stop` says so.
    #[must_use]
    pub fn until(self, stop: &'a dyn Fn() -> bool) -> Self {
        Self { stop: Stop(Some(stop)), ..self }
    }
}
