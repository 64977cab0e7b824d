//! What a partition rule may know of a data set: labels, natural groups, the hierarchy of the classes, the original split.
//!
//! It knows no sample's values.

use super::super::dataset::{Dataset, Groups};

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
}

impl<'a> Population<'a> {
    /// Labels without anything else; all samples count as training samples.
    #[must_use]
    pub fn of_labels(labels: &'a [u32], classes: usize) -> Self {
        Self { labels, classes, train: labels.len(), groups: None, superclasses: &[] }
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
        }
    }
}
