//! Class prototypes: the mean of some vectors (features, logits) for each class that occurred.
//!
//! Means are sequential `f32` sums in the order in which the vectors come, divided once, so that they agree with the reference.

use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::tape::{Graph, Loss, mse};
use crate::fl::{Item, Trainer, Visitor};
use std::collections::BTreeMap;

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
    /// Whether no class occurred.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Appends what `other` has and this lacks, in ascending order of classes.
    pub(crate) fn pad(&mut self, other: &Self) {
        let mut missing: Vec<_> = other.iter().filter(|theirs| self.get(theirs.class).is_none()).cloned().collect();
        missing.sort_unstable_by_key(|own| own.class);
        self.0.append(&mut missing);
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
    /// The mean over rows and features of `(prototype of the label - feature)^2`; rows of absent classes count as 0.
    pub(crate) fn alignment(&self, graph: &Graph, labels: &[u32]) -> Loss {
        mse(graph.features(), &self.targets(labels, &graph.detached_features().as_vec()))
    }
    /// The mean of several parties' prototypes for each class, over those that have it; `count` tells how many these are.
    ///
    /// Each party counts once, or with `weighted` by its number of vectors.
    pub(crate) fn mean_of<'a>(parties: impl Iterator<Item = &'a Self> + Clone, weighted: bool) -> Self {
        let mut sums = Sums::default();
        if !weighted {
            parties.flat_map(Self::iter).for_each(|own| sums.add_row(own.class, &own.mean));
            return sums.means();
        }
        let mut totals = BTreeMap::new();
        parties.clone().flat_map(Self::iter).for_each(|own| *totals.entry(own.class).or_insert(0) += own.count);
        for own in parties.flat_map(Self::iter) {
            let share = own.count as f32 / totals[&own.class] as f32;
            sums.add_row(own.class, &own.mean.iter().map(|v| v * share).collect::<Vec<_>>());
        }
        Self(sums.0)
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
        let mut sums = Sums::default();
        trainer.pass(trainer.training(), |trainer, batch| {
            let mut features = trainer.embed(&mut model, batch)?;
            features.chunks_exact_mut(model.net.features()).for_each(&mut prepare);
            sums.add(&features, &batch.y);
            Ok(())
        })?;
        Ok(sums.means())
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
pub(crate) struct Sums(Vec<Prototype>);

impl Sums {
    /// Adds vectors (row by row), one a label.
    pub(crate) fn add(&mut self, rows: &[f32], labels: &[u32]) {
        let width = rows.len() / labels.len().max(1);
        for (row, label) in rows.chunks_exact(width.max(1)).zip(labels) {
            self.add_row(*label as usize, row);
        }
    }
    fn add_row(&mut self, class: usize, row: &[f32]) {
        match self.0.iter_mut().find(|own| own.class == class) {
            Some(own) => {
                own.count += 1;
                own.mean.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
            }
            None => self.0.push(Prototype { class, count: 1, mean: row.to_vec() }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[f32], labels: &[u32]) -> Prototypes {
        let mut sums = Sums::default();
        sums.add(rows, labels);
        sums.means()
    }

    #[test]
    fn means_by_class_keep_the_order_of_first_appearance() {
        let own = of(&[1.0, 2.0, 5.0, 5.0, 3.0, 4.0], &[4, 1, 4]);
        assert_eq!(own.iter().map(|p| (p.class, p.count)).collect::<Vec<_>>(), [(4, 2), (1, 1)]);
        assert_eq!((own.get(4), own.get(1), own.get(0)), (Some(&[2.0, 3.0][..]), Some(&[5.0, 5.0][..]), None));
        assert_eq!(own.targets(&[1, 0], &[7.0, 8.0, 9.0, 10.0]), [5.0, 5.0, 9.0, 10.0]);
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
