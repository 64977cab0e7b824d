//! Distillation: how far one model's predictions are from another's.

use crate::engine::loss::{log_softmax, softmax};
use crate::engine::tape::{Loss, Traced, kl_divergence};
use dfdx::prelude::*;

/// The mean over rows and classes of `p (ln p - ln q)` with p and q the softmax of logits: torch's `KLDivLoss` with its default mean.
/// The gradient goes to both.
pub(crate) fn divergence(q: Traced, p: Traced) -> Loss {
    let (rows, classes) = *q.shape();
    kl_divergence(q.log_softmax::<Axis<1>>(), p.softmax::<Axis<1>>()) / (rows * classes) as f32
}

/// The value of [`divergence`] for logits row by row.
pub(crate) fn divergence_of(q: &[f32], p: &[f32], classes: usize) -> f32 {
    let (mut q, mut p) = (q.to_vec(), p.to_vec());
    log_softmax(&mut q, classes);
    softmax(&mut p, classes);
    let term = |(q, p): (&f32, &f32)| if *p > 0.0 { f64::from(p * (p.ln() - q)) } else { 0.0 };
    (q.iter().zip(&p).map(term).sum::<f64>() / q.len() as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tape::Leaf;

    #[test]
    fn equal_predictions_do_not_diverge_and_value_and_loss_agree() {
        let (q, p) = ([0.3, -0.2, 1.0, 0.0], [0.3, -0.2, 0.5, 0.5]);
        assert!(divergence_of(&p, &p, 2).abs() < 1e-7);
        let value = divergence_of(&q, &p, 2);
        // 0.5 ln(0.5 / s) + 0.5 ln(0.5 / (1 - s)) with s = 1 / (1 + 1/e), over 4 elements.
        let s = 1.0 / (1.0 + (-1.0f32).exp());
        assert!((value - 0.25 * (0.5 * (0.5 / s).ln() + 0.5 * (0.5 / (1.0 - s)).ln())).abs() < 1e-6);
        let leaf = |values: &[f32]| Leaf::new(values.to_vec(), 2, 2);
        let (q, p) = (leaf(&q), leaf(&p));
        let loss = divergence(q.traced(), p.traced());
        assert!((loss.as_vec()[0] - value).abs() < 1e-6);
        loss.backward();
        // The gradient by q is (softmax q - softmax p) / elements.
        assert!((q.gradient()[2] - 0.25 * (s - 0.5)).abs() < 1e-6 && q.gradient()[0].abs() < 1e-7);
    }
}
