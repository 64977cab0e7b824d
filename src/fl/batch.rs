//! Batches, and the passes over a client's samples that make them.

use std::ops::Range;

/// The samples of one step.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Inputs, `rows` times height x width x channels (channels last).
    pub x: Vec<f32>,
    /// Labels, one a row.
    pub y: Vec<u32>,
}

impl Batch {
    /// The number of samples.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.y.len()
    }
    /// A copy of some of its samples.
    ///
    /// # Panics
    /// When the range reaches beyond the last sample.
    #[must_use]
    pub fn part(&self, rows: Range<usize>) -> Self {
        let width = self.x.len() / self.rows().max(1);
        Self { x: self.x[rows.start * width..rows.end * width].to_vec(), y: self.y[rows].to_vec() }
    }
}

/// Which samples a pass visits, in which order and in which portions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Samples a batch.
    pub size: usize,
    /// Whether an incomplete last batch is left out.
    pub drop_last: bool,
    /// The order.
    pub order: Order,
}

/// The order of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A fresh permutation of the training set.
    Shuffled,
    /// The fixed order in which the training loss is measured.
    Measuring,
    /// The training set as stored.
    Stored,
    /// A window of the training set as stored.
    Window {
        /// First position.
        start: usize,
        /// Number of samples.
        len: usize,
    },
    /// A fresh permutation of a window of the training set.
    ShuffledWindow {
        /// First position.
        start: usize,
        /// Number of samples.
        len: usize,
    },
    /// The test set as stored.
    Test,
    /// The validation samples as stored.
    Validation,
}

impl Pass {
    /// The positions at which `n` samples are cut into batches.
    pub(super) fn cuts(&self, n: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (size, whole) = (self.size.max(1), if self.drop_last { n - n % self.size.max(1) } else { n });
        (0..whole).step_by(size).map(move |start| start..(start + size).min(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_last_batch_is_kept_or_dropped() {
        let pass = |drop_last| Pass { size: 10, drop_last, order: Order::Stored };
        assert_eq!(pass(true).cuts(25).collect::<Vec<_>>(), [0..10, 10..20]);
        assert_eq!(pass(false).cuts(25).collect::<Vec<_>>(), [0..10, 10..20, 20..25]);
        assert_eq!(pass(true).cuts(9).count(), 0);
        assert_eq!(pass(false).cuts(0).count(), 0);
    }

    #[test]
    fn a_part_keeps_inputs_and_labels_together() {
        let batch = Batch { x: vec![0.0, 0.1, 1.0, 1.1, 2.0, 2.1], y: vec![0, 1, 2] };
        let part = batch.part(1..3);
        assert_eq!((part.x, part.y), (vec![1.0, 1.1, 2.0, 2.1], vec![1, 2]));
        assert_eq!(Batch::default().part(0..0).rows(), 0);
    }
}
