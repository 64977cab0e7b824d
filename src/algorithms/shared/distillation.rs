//! Losses that let logits follow soft targets, with their gradients in closed form.

use crate::engine::loss::{log_softmax, softmax};
use crate::engine::tape::{Loss, Traced, known};
use dfdx::prelude::HasShape;

/// The mean over rows of `-sum_k T_k ln softmax(o)_k`: the targets `T` (row by row) need not sum to 1 and get no gradient.
pub(crate) fn soft_cross_entropy(logits: Traced, targets: &[f32]) -> Loss {
    let (rows, classes) = *logits.shape();
    let mut gradient = logits.as_vec();
    log_softmax(&mut gradient, classes);
    let value = -gradient.iter().zip(targets).map(|(log, target)| log * target).sum::<f32>() / rows as f32;
    for (row, targets) in gradient.chunks_exact_mut(classes).zip(targets.chunks_exact(classes)) {
        let mass: f32 = targets.iter().sum();
        for (v, target) in row.iter_mut().zip(targets) {
            *v = (mass * v.exp() - target) / rows as f32;
        }
    }
    known(logits, value, gradient)
}

/// `tau^2` times the mean over rows of KL(softmax(teacher / tau) || softmax(o / tau)), both over all classes but the row's label.
/// The teacher (row by row) gets no gradient.
pub(crate) fn not_true_divergence(logits: Traced, teacher: &[f32], labels: &[u32], tau: f32) -> Loss {
    let (rows, classes) = *logits.shape();
    let own = logits.as_vec();
    let mut gradient = vec![0.0; own.len()];
    let (mut p, mut log_q, mut value) = (Vec::new(), Vec::new(), 0.0);
    for (row, label) in labels.iter().enumerate() {
        let range = row * classes..(row + 1) * classes;
        let others = |values: &[f32], into: &mut Vec<f32>| {
            into.clear();
            into.extend(values[range.clone()].iter().enumerate().filter(|(k, _)| *k != *label as usize).map(|(_, v)| v / tau));
        };
        others(teacher, &mut p);
        others(&own, &mut log_q);
        if p.is_empty() {
            continue;
        }
        let count = p.len();
        softmax(&mut p, count);
        log_softmax(&mut log_q, count);
        value += p.iter().zip(&log_q).filter(|(p, _)| **p > 0.0).map(|(p, log_q)| p * (p.ln() - log_q)).sum::<f32>();
        let places = gradient[range.clone()].iter_mut().enumerate().filter(|(k, _)| *k != *label as usize);
        for ((_, d), (p, log_q)) in places.zip(p.iter().zip(&log_q)) {
            *d = tau * (log_q.exp() - p) / rows as f32;
        }
    }
    known(logits, value * tau * tau / rows as f32, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tape::Leaf;
    use dfdx::prelude::Backward;

    const LOGITS: [f32; 6] = [0.3, -1.0, 0.7, 1.5, 0.2, -0.4];

    /// The gradient of a loss and its central differences agree.
    fn check(loss: impl Fn(Traced) -> Loss) {
        let leaf = Leaf::new(LOGITS.to_vec(), 2, 3);
        loss(leaf.traced()).backward();
        for (i, own) in leaf.gradient().iter().enumerate() {
            let at = |step: f32| {
                let mut logits = LOGITS;
                logits[i] += step;
                loss(Leaf::new(logits.to_vec(), 2, 3).traced()).as_vec()[0]
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((own - numeric).abs() < 1e-3, "{i}: {own} and {numeric}");
        }
    }

    #[test]
    fn soft_targets_may_be_negative_and_one_hot_ones_give_cross_entropy() {
        check(|logits| soft_cross_entropy(logits, &[-0.5, 2.0, 0.1, 0.2, -1.0, 0.3]));
        let one_hot = soft_cross_entropy(Leaf::new(LOGITS.to_vec(), 2, 3).traced(), &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]).as_vec()[0];
        let plain = crate::engine::tape::cross_entropy(Leaf::new(LOGITS.to_vec(), 2, 3).traced(), &[1, 0]).as_vec()[0];
        assert!((one_hot - plain).abs() < 1e-6);
    }

    #[test]
    fn not_true_distillation_leaves_the_label_alone() {
        let teacher = [0.9, 0.1, -0.3, 0.0, 2.0, 0.4];
        check(|logits| not_true_divergence(logits, &teacher, &[2, 0], 2.0));
        assert_eq!(not_true_divergence(Leaf::new(LOGITS.to_vec(), 2, 3).traced(), &LOGITS, &[2, 0], 2.0).as_vec()[0], 0.0);
        // By hand: over {0, 1} of the first row and tau 1, p = sigmoid(0.8), q = sigmoid(1.3).
        let (p, q) = (1.0 / (1.0 + (-0.8f32).exp()), 1.0 / (1.0 + (-1.3f32).exp()));
        let by_hand = p * (p / q).ln() + (1.0 - p) * ((1.0 - p) / (1.0 - q)).ln();
        let one_row = not_true_divergence(Leaf::new(LOGITS[..3].to_vec(), 1, 3).traced(), &teacher[..3], &[2], 1.0).as_vec()[0];
        assert!((one_row - by_hand).abs() < 1e-6);
    }
}
