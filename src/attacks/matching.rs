//! How far the update of dummy samples is from an observed one, with the gradient by the dummies.

use super::replay::{Replay, Target};
use crate::base::Outcome;
use std::ops::Range;

/// The distance of two updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// The sum of squared differences: DLG.
    Squares,
    /// One minus the cosine, over all sent parameters together: Inverting Gradients.
    Cosine,
}

/// An observed update and what of the parameters it covers.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The update, flat as the parameters, in units of a gradient.
    pub update: Vec<f64>,
    /// The ranges that were sent; the rest of `update` has no meaning.
    pub sent: Vec<Range<usize>>,
}

impl Seen {
    /// The distance of an update from the observed one, and its gradient by that update: 0 where nothing was sent.
    #[must_use]
    pub fn distance(&self, distance: Distance, update: &[f64]) -> (f64, Vec<f64>) {
        let mut direction = vec![0.0; update.len()];
        let pairs = || self.sent.iter().flat_map(|range| range.clone().map(|i| (i, update[i], self.update[i])));
        match distance {
            Distance::Squares => {
                let mut value = 0.0;
                for (i, own, seen) in pairs() {
                    value += (own - seen) * (own - seen);
                    direction[i] = 2.0 * (own - seen);
                }
                (value, direction)
            }
            Distance::Cosine => {
                let (mut product, mut own_square, mut seen_square) = (0.0, 0.0, 0.0);
                for (_, own, seen) in pairs() {
                    product += own * seen;
                    own_square += own * own;
                    seen_square += seen * seen;
                }
                let norms = (own_square * seen_square).sqrt();
                // Without a direction there is nothing to turn towards.
                if norms <= f64::MIN_POSITIVE {
                    return (1.0, direction);
                }
                for (i, own, seen) in pairs() {
                    direction[i] = (product / own_square * own - seen) / norms;
                }
                (1.0 - product / norms, direction)
            }
        }
    }

    /// The distance of the dummies' update, with its gradients added to `d_x` and `d_target`.
    ///
    /// # Errors
    /// A stage fault when the dummies do not fit the model.
    pub fn compare(
        &self,
        replay: &mut Replay,
        distance: Distance,
        x: &[f64],
        target: &Target<'_>,
        d_x: &mut [f64],
        d_target: Option<&mut [f64]>,
    ) -> Outcome<f64> {
        let update = replay.update(x, target)?;
        let (value, direction) = self.distance(distance, &update);
        replay.pull(x, target, &direction, d_x, d_target)?;
        Ok(value)
    }
}
