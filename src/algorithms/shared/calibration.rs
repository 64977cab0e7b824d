//! The cross-entropy whose logits are shifted by class, as counts of samples calibrate or balance them.

use crate::engine::tape::{Loss, Traced, known};
use dfdx::prelude::HasShape;

/// The mean cross-entropy of logits plus a shift of each class, with the gradient of the logits.
///
/// A shift of minus infinity takes a class out: probability and gradient are 0. Where a label itself is taken out, its row keeps its
/// gradient (probabilities minus the label's one), but does not enter the value, which would be infinite.
pub(crate) fn shifted_cross_entropy(logits: Traced, shift: &[f32], labels: &[u32]) -> Loss {
    let (rows, classes) = *logits.shape();
    let mut gradient = logits.as_vec();
    let mut value = 0.0;
    for (row, label) in gradient.chunks_exact_mut(classes).zip(labels) {
        row.iter_mut().zip(shift).for_each(|(v, shift)| *v += shift);
        let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let own = row[*label as usize];
        let mut sum = 0.0;
        for v in row.iter_mut() {
            *v = if *v == f32::NEG_INFINITY { 0.0 } else { (*v - greatest).exp() };
            sum += *v;
        }
        if own > f32::NEG_INFINITY {
            value += sum.ln() + greatest - own;
        } else if sum == 0.0 {
            // Every class is taken out: nothing can be learnt from the row.
            continue;
        }
        row.iter_mut().for_each(|v| *v /= sum * rows as f32);
        row[*label as usize] -= 1.0 / rows as f32;
    }
    known(logits, value / rows as f32, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tape::Leaf;
    use dfdx::prelude::Backward;

    #[test]
    fn classes_that_are_taken_out_have_no_probability_and_no_infinite_loss() {
        let leaf = Leaf::new(vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0], 2, 3);
        let loss = shifted_cross_entropy(leaf.traced(), &[0.0, 1.0, f32::NEG_INFINITY], &[0, 2]);
        // Row 0: logits 1 and 3 remain, so p = 1 / (1 + e^2) for the label.
        let p = 1.0 / (1.0 + 2f32.exp());
        assert!((loss.as_vec()[0] + p.ln() / 2.0).abs() < 1e-6);
        loss.backward();
        let by_hand = [(p - 1.0) / 2.0, (1.0 - p) / 2.0, 0.0, p / 2.0, (1.0 - p) / 2.0, -0.5];
        for (own, by_hand) in leaf.gradient().iter().zip(by_hand) {
            assert!((own - by_hand).abs() < 1e-6, "{own} and {by_hand}");
        }
    }
}
