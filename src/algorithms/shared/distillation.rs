//! Distillation: how far one model's predictions are from another's, and how its logits follow soft targets.

use crate::engine::loss::{log_softmax, softmax};
use crate::engine::tape::{Loss, Traced, known};
use dfdx::prelude::*;

/// The mean over rows and classes of `p (ln p - ln q)` with p and q the softmax of logits, row by row: torch's `KLDivLoss` with its
/// default mean; and its gradients by the logits of q and p.
pub(crate) fn divergence(q: &[f32], p: &[f32], classes: usize) -> (f32, [Vec<f32>; 2]) {
    let (mut log_q, mut log_p) = (q.to_vec(), p.to_vec());
    log_softmax(&mut log_q, classes);
    log_softmax(&mut log_p, classes);
    let share = 1.0 / q.len().max(1) as f32;
    let (mut value, mut d_q, mut d_p) = (0.0, Vec::with_capacity(q.len()), Vec::with_capacity(q.len()));
    for (log_q, log_p) in log_q.chunks_exact(classes).zip(log_p.chunks_exact(classes)) {
        let row: f32 = log_q.iter().zip(log_p).map(|(log_q, log_p)| log_p.exp() * (log_p - log_q)).sum();
        value += row;
        d_q.extend(log_q.iter().zip(log_p).map(|(log_q, log_p)| share * (log_q.exp() - log_p.exp())));
        d_p.extend(log_q.iter().zip(log_p).map(|(log_q, log_p)| share * log_p.exp() * (log_p - log_q - row)));
    }
    (share * value, [d_q, d_p])
}

/// The value of [`divergence`] for logits row by row.
pub(crate) fn divergence_of(q: &[f32], p: &[f32], classes: usize) -> f32 {
    let (mut q, mut p) = (q.to_vec(), p.to_vec());
    log_softmax(&mut q, classes);
    softmax(&mut p, classes);
    let term = |(q, p): (&f32, &f32)| if *p > 0.0 { f64::from(p * (p.ln() - q)) } else { 0.0 };
    (q.iter().zip(&p).map(term).sum::<f64>() / q.len() as f64) as f32
}

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

    #[test]
    fn equal_predictions_do_not_diverge_and_value_and_loss_agree() {
        let (q, p) = ([0.3, -0.2, 1.0, 0.0], [0.3, -0.2, 0.5, 0.5]);
        assert!(divergence_of(&p, &p, 2).abs() < 1e-7);
        let value = divergence_of(&q, &p, 2);
        // 0.5 ln(0.5 / s) + 0.5 ln(0.5 / (1 - s)) with s = 1 / (1 + 1/e), over 4 elements.
        let s = 1.0 / (1.0 + (-1.0f32).exp());
        assert!((value - 0.25 * (0.5 * (0.5 / s).ln() + 0.5 * (0.5 / (1.0 - s)).ln())).abs() < 1e-6);
        let (again, slopes) = divergence(&q, &p, 2);
        assert!((again - value).abs() < 1e-6);
        for (which, slopes) in slopes.iter().enumerate() {
            for (i, slope) in slopes.iter().enumerate() {
                let at = |step: f32| {
                    let mut moved = [q, p];
                    moved[which][i] += step;
                    divergence(&moved[0], &moved[1], 2).0
                };
                assert!((slope - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 1e-4, "{which} {i}");
            }
        }
        // The gradient by q is (softmax q - softmax p) / elements.
        assert!((slopes[0][2] - 0.25 * (s - 0.5)).abs() < 1e-6 && slopes[0][0].abs() < 1e-7);
    }
}
