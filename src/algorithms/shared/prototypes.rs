//! Prototypes: the mean feature vector of each class, and the loss that draws features toward them.

use crate::engine::tape::{Graph, Loss, known};
use std::collections::BTreeMap;

/// A feature vector for each class that has one.
pub(crate) type Prototypes = BTreeMap<usize, Vec<f32>>;

/// Sums of features by class, added up one by one in the order in which they are met.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassMeans {
    sums: BTreeMap<usize, (Vec<f32>, u64)>,
}

impl ClassMeans {
    /// Takes in one row of features for each label.
    pub(crate) fn add(&mut self, features: &[f32], labels: &[u32]) {
        let width = features.len() / labels.len().max(1);
        for (row, label) in features.chunks_exact(width.max(1)).zip(labels) {
            self.add_weighted(*label as usize, row, 1.0, 1);
        }
    }
    /// Takes in `weight` times a vector that stands for `count` ones.
    pub(crate) fn add_weighted(&mut self, class: usize, vector: &[f32], weight: f32, count: u64) {
        let (sum, n) = self.sums.entry(class).or_insert_with(|| (vec![0.0; vector.len()], 0));
        sum.iter_mut().zip(vector).for_each(|(sum, v)| *sum += weight * v);
        *n += count;
    }
    /// How many vectors each class has had.
    pub(crate) fn counts(&self) -> BTreeMap<usize, u64> {
        self.sums.iter().map(|(class, (_, n))| (*class, *n)).collect()
    }
    /// The means of the classes that were met.
    pub(crate) fn means(self) -> Prototypes {
        let mean = |(class, (sum, n)): (usize, (Vec<f32>, u64))| (class, sum.into_iter().map(|v| v / n as f32).collect());
        self.sums.into_iter().map(mean).collect()
    }
}

/// `weight` times the mean over rows and features of `(f - p)^2`, with the prototype p of the row's label. A row whose class has no
/// prototype adds nothing but counts in the mean.
pub(crate) fn alignment(graph: &Graph, labels: &[u32], prototypes: &Prototypes, weight: f32) -> Loss {
    let (value, gradient) = align(&graph.detached_features().as_vec(), labels, prototypes, weight);
    known(graph.features(), value, gradient)
}

fn align(features: &[f32], labels: &[u32], prototypes: &Prototypes, weight: f32) -> (f32, Vec<f32>) {
    let width = features.len() / labels.len().max(1);
    let scale = weight / features.len() as f32;
    let mut gradient = vec![0.0; features.len()];
    let mut value = 0.0;
    for ((row, gradient), label) in features.chunks_exact(width.max(1)).zip(gradient.chunks_exact_mut(width.max(1))).zip(labels) {
        let Some(prototype) = prototypes.get(&(*label as usize)) else { continue };
        for ((f, p), gradient) in row.iter().zip(prototype).zip(gradient) {
            value += (f - p) * (f - p);
            *gradient = 2.0 * scale * (f - p);
        }
    }
    (value * scale, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_by_class_and_absent_without_samples() {
        let mut means = ClassMeans::default();
        means.add(&[1.0, 2.0, 5.0, 5.0, 3.0, 4.0], &[0, 2, 0]);
        assert_eq!(means.counts(), BTreeMap::from([(0, 2), (2, 1)]));
        assert_eq!(means.means(), BTreeMap::from([(0, vec![2.0, 3.0]), (2, vec![5.0, 5.0])]));
    }

    #[test]
    fn rows_without_a_prototype_only_count_in_the_mean() {
        let prototypes = BTreeMap::from([(1, vec![0.0, 1.0])]);
        let (value, gradient) = align(&[2.0, 1.0, 7.0, 7.0], &[1, 0], &prototypes, 0.5);
        assert_eq!((value, gradient), (0.5, vec![0.5, 0.0, 0.0, 0.0]));
    }
}
