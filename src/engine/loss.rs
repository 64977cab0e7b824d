//! Losses on rows of logits, each with its gradient. Those that algorithms put together themselves are on the tape.

use super::real::Real;

/// Puts `exp(value - greatest)` in place of each value, and returns their sum. In two passes, of which the first goes by packs.
fn exponentials<F: Real>(row: &mut [F], greatest: F) -> F {
    for value in row.iter_mut() {
        *value = (*value - greatest).exp();
    }
    row.iter().copied().sum()
}

/// The softmax of each row, in place; `classes` numbers a row.
pub fn softmax<F: Real>(values: &mut [F], classes: usize) {
    for row in values.chunks_exact_mut(classes) {
        let greatest = row.iter().copied().fold(F::NEG_INFINITY, F::max);
        let sum = exponentials(row, greatest);
        for value in row {
            *value /= sum;
        }
    }
}

/// The logarithm of the softmax of each row, in place; `classes` numbers a row.
pub fn log_softmax<F: Real>(values: &mut [F], classes: usize) {
    for row in values.chunks_exact_mut(classes) {
        let greatest = row.iter().copied().fold(F::NEG_INFINITY, F::max);
        let total = row.iter().map(|&value| (value - greatest).exp()).sum::<F>().ln();
        for value in row {
            // In this order, so that large logits do not swallow the logarithm.
            *value = (*value - greatest) - total;
        }
    }
}

/// The mean cross-entropy of `logits` (rows, classes) against one label a row, and its gradient (softmax - one-hot) / rows.
///
/// A label that is not below `classes` makes the loss NaN.
pub fn cross_entropy<F: Real>(logits: &[F], labels: &[u32], classes: usize, d_logits: &mut Vec<F>) -> F {
    d_logits.clear();
    d_logits.extend_from_slice(&logits[..labels.len() * classes]);
    let share = F::ONE / F::from_usize(labels.len());
    let mut loss = F::ZERO;
    for ((row, d_row), &label) in logits.chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes)).zip(labels) {
        let label = label as usize;
        let greatest = row.iter().copied().fold(F::NEG_INFINITY, F::max);
        let sum = exponentials(d_row, greatest);
        let scale = share / sum;
        for value in d_row.iter_mut() {
            *value *= scale;
        }
        match d_row.get_mut(label) {
            Some(own) => {
                *own -= share;
                loss += sum.ln() - (row[label] - greatest);
            }
            None => loss = F::from_f64(f64::NAN),
        }
    }
    loss * share
}

/// The summed cross-entropy without a gradient, for evaluation.
pub fn cross_entropy_sum<F: Real>(logits: &[F], labels: &[u32], classes: usize) -> f64 {
    let row_loss = |(row, &label): (&[F], &u32)| {
        let greatest = row.iter().copied().fold(F::NEG_INFINITY, F::max);
        let sum: F = row.iter().map(|&value| (value - greatest).exp()).sum();
        row.get(label as usize).map_or(f64::NAN, |own| (sum.ln() - (*own - greatest)).to_f64())
    };
    logits.chunks_exact(classes).zip(labels).map(row_loss).sum()
}

/// The index of the greatest value; the first of equal ones, and the first NaN before any number, as torch's `argmax`.
#[must_use]
pub fn argmax<F: Real>(row: &[F]) -> usize {
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        if *value > row[best] || (value.is_nan() && !row[best].is_nan()) {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_of_equal_logits_is_the_logarithm_of_the_classes() {
        let mut gradient = Vec::new();
        let loss = cross_entropy(&[3.0f64; 8], &[0, 3], 4, &mut gradient);
        assert!((loss - 4f64.ln()).abs() < 1e-12);
        assert!((gradient[0] + 0.375).abs() < 1e-12 && (gradient[1] - 0.125).abs() < 1e-12);
        assert!((cross_entropy_sum(&[3.0f64; 8], &[0, 3], 4) - 2.0 * 4f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn softmax_survives_large_logits_and_log_softmax_agrees() {
        let mut values = [1000.0f32, 999.0, -1000.0];
        softmax(&mut values, 3);
        assert!((values.iter().sum::<f32>() - 1.0).abs() < 1e-6 && values[0] > 0.7);
        let mut logs = [1000.0f32, 999.0, -1000.0];
        log_softmax(&mut logs, 3);
        assert!((logs[0].exp() - values[0]).abs() < 1e-6);
    }

    #[test]
    fn a_label_out_of_range_is_nan_and_not_a_panic() {
        assert!(cross_entropy(&[0.0f32; 3], &[7], 3, &mut Vec::new()).is_nan());
        assert_eq!(argmax(&[1.0f32, f32::NAN, 3.0]), 1);
    }
}
