//! Class prototypes: the mean of some vectors (features, logits) for each class that occurred.
//!
//! Means are sequential `f32` sums in the order in which the vectors come, divided once, so that they agree with the reference.

use super::frozen::embed_pass;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::tape::{Graph, Loss, known};
use crate::fl::{Item, Trainer, Visitor};

/// One vector for each class that occurred, in the order of first appearance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prototypes(Vec<Prototype>);

/// The mean vector of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prototype {
    /// The class.
    pub class: usize,
    /// How many vectors it is the mean of.
    pub count: u64,
    /// The mean.
    pub mean: Vec<f32>,
}

impl Prototypes {
    /// The mean of a class.
    pub(crate) fn get(&self, class: usize) -> Option<&[f32]> {
        self.0.iter().find(|own| own.class == class).map(|own| &own.mean[..])
    }
    /// The classes that occurred, in the order of first appearance.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Prototype> {
        self.0.iter()
    }
    /// The same in ascending order of classes.
    pub(crate) fn ascending(&self) -> Vec<&Prototype> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|own| own.class);
        all
    }
    /// Whether no class occurred.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// How many numbers they are.
    pub(crate) fn floats(&self) -> u64 {
        self.iter().map(|own| own.mean.len() as u64).sum()
    }
    /// Appends what `other` has and this lacks, in ascending order of classes.
    pub(crate) fn pad(&mut self, other: &Self) {
        let missing: Vec<_> = other.ascending().into_iter().filter(|theirs| self.get(theirs.class).is_none()).cloned().collect();
        self.0.extend(missing);
    }
    /// The row of each label, or the row of `own` where the class has none; row by row.
    pub(crate) fn targets(&self, labels: &[u32], own: &[f32]) -> Vec<f32> {
        let mut targets = own.to_vec();
        let width = own.len() / labels.len().max(1);
        for (row, label) in targets.chunks_exact_mut(width.max(1)).zip(labels) {
            if let Some(mean) = self.get(*label as usize) {
                row.copy_from_slice(mean);
            }
        }
        targets
    }
    /// The mean of several parties' prototypes for each class, over those that have it. Each party counts once, and `count` tells how
    /// many these are; or with `by_samples` as many times as it has vectors, and `count` is their sum.
    pub(crate) fn mean_of<'a>(parties: impl Iterator<Item = &'a Self>, by_samples: bool) -> Self {
        let mut means = ClassMeans::default();
        for own in parties.flat_map(Self::iter) {
            means.add_weighted(own.class, &own.mean, if by_samples { own.count } else { 1 });
        }
        means.means()
    }
    /// This mean of several parties without the contribution of one; a class that only that one has is absent.
    pub(crate) fn without(&self, own: &Self) -> Self {
        let rest = |all: &Prototype| {
            let Some(own) = own.get(all.class) else { return Some(all.clone()) };
            let (count, left) = (all.count as f32, all.count.saturating_sub(1));
            let mean = all.mean.iter().zip(own).map(|(all, own)| (count * all - own) / left as f32).collect();
            (left > 0).then_some(Prototype { class: all.class, count: left, mean })
        };
        Self(self.iter().filter_map(rest).collect())
    }
    /// The prototypes of the client's training set under a model in evaluation mode, by one more pass; `prepare` may change each
    /// feature vector first.
    pub(crate) fn collect(trainer: &mut Trainer<'_>, model: &Model, mut prepare: impl FnMut(&mut [f32])) -> Outcome<Self> {
        let mut model = Model { training: false, ..model.clone() };
        let (mut means, width) = (ClassMeans::default(), model.net.features());
        embed_pass(trainer, &mut model, trainer.training(), |features, labels| {
            let mut features = features.to_vec();
            features.chunks_exact_mut(width).for_each(&mut prepare);
            means.add(&features, labels);
        })?;
        Ok(means.means())
    }
}

impl Item for Prototypes {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let mut length = self.0.len() as u64;
        visitor.count(&format!("{name}.len"), &mut length);
        self.0.resize_with(length as usize, Prototype::default);
        for (i, own) in self.0.iter_mut().enumerate() {
            let mut class = own.class as u64;
            visitor.count(&format!("{name}.class[{i}]"), &mut class);
            own.class = class as usize;
            visitor.count(&format!("{name}.count[{i}]"), &mut own.count);
            visitor.vector(&format!("{name}[{class}]"), &mut own.mean);
        }
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::default()
    }
}

/// Running sums of vectors by class.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassMeans(Vec<Prototype>);

impl ClassMeans {
    /// Adds vectors (row by row), one a label.
    pub(crate) fn add(&mut self, rows: &[f32], labels: &[u32]) {
        let width = rows.len() / labels.len().max(1);
        for (row, label) in rows.chunks_exact(width.max(1)).zip(labels) {
            self.add_weighted(*label as usize, row, 1);
        }
    }
    /// Takes in a vector `count` times.
    fn add_weighted(&mut self, class: usize, vector: &[f32], count: u64) {
        let weight = count as f32;
        match self.0.iter_mut().find(|own| own.class == class) {
            Some(own) => {
                own.count += count;
                own.mean.iter_mut().zip(vector).for_each(|(sum, v)| *sum += weight * v);
            }
            None => self.0.push(Prototype { class, count, mean: vector.iter().map(|v| weight * v).collect() }),
        }
    }
    /// The means so far.
    pub(crate) fn means(mut self) -> Prototypes {
        for own in self.0.iter_mut().filter(|own| own.count > 1) {
            let count = own.count as f32;
            own.mean.iter_mut().for_each(|v| *v /= count);
        }
        Prototypes(self.0)
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
        let Some(prototype) = prototypes.get(*label as usize) else { continue };
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

    fn of(rows: &[f32], labels: &[u32]) -> Prototypes {
        let mut means = ClassMeans::default();
        means.add(rows, labels);
        means.means()
    }

    #[test]
    fn means_by_class_keep_the_order_of_first_appearance() {
        let own = of(&[1.0, 2.0, 5.0, 5.0, 3.0, 4.0], &[4, 1, 4]);
        assert_eq!(own.iter().map(|p| (p.class, p.count)).collect::<Vec<_>>(), [(4, 2), (1, 1)]);
        assert_eq!((own.get(4), own.get(1), own.get(0)), (Some(&[2.0, 3.0][..]), Some(&[5.0, 5.0][..]), None));
        assert_eq!(own.targets(&[1, 0], &[7.0, 8.0, 9.0, 10.0]), [5.0, 5.0, 9.0, 10.0]);
    }

    #[test]
    fn rows_without_a_prototype_only_count_in_the_mean() {
        let (value, gradient) = align(&[2.0, 1.0, 7.0, 7.0], &[1, 0], &of(&[0.0, 1.0], &[1]), 0.5);
        assert_eq!((value, gradient), (0.5, vec![0.5, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn parties_count_once_or_by_their_samples_and_one_can_be_taken_out() {
        let (a, b) = (of(&[1.0, 1.0, 1.0, 8.0], &[0, 0, 0, 2]), of(&[5.0], &[0]));
        let mean = |weighted| Prototypes::mean_of([&a, &b].into_iter(), weighted);
        assert_eq!((mean(false).get(0), mean(true).get(0)), (Some(&[3.0][..]), Some(&[2.0][..])));
        let rest = mean(false).without(&a);
        assert_eq!((rest.get(0), rest.get(2)), (Some(&[5.0][..]), None));
        let mut padded = b.clone();
        padded.pad(&a);
        assert_eq!((padded.get(0), padded.get(2)), (Some(&[5.0][..]), Some(&[8.0][..])));
    }
}
