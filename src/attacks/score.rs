//! How good a reconstruction is: each made-up sample beside the true one that it fits best.

use super::problem::Reconstruction;
use super::similarity::{mean_squared_error, psnr, ssim};
use crate::base::numerics::assignment::assign;
use crate::engine::Shape;
use std::collections::BTreeMap;

/// The true samples and what their numbers can be.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// The samples, channels-last.
    pub x: &'a [f64],
    /// Their classes.
    pub labels: &'a [u32],
    /// The shape of one.
    pub shape: Shape,
    /// The least and the greatest value that the data can have.
    pub range: (f64, f64),
}

/// A reconstruction in the order of the true samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// `psnr` and `ssim` and `mse`, means over samples, and `label_accuracy` where classes were found.
    pub values: BTreeMap<String, f64>,
    /// The made-up samples, cut to the range of the data, in the order of the true ones.
    pub x: Vec<f64>,
    /// Their classes in that order.
    pub labels: Option<Vec<u32>>,
}

/// Compares a reconstruction with the truth. Made-up samples have no order: they are given to the true ones so that the sum of squared
/// differences is least. Numbers outside the range of the data are cut to it first; what is not a number becomes the middle.
///
/// # Panics
/// When there are not as many made-up samples as true ones.
#[must_use]
pub fn score(truth: &Truth<'_>, made: &Reconstruction) -> Scored {
    let (width, count) = (truth.shape.numel(), truth.labels.len());
    let (least, most) = truth.range;
    let cut = |v: &f64| if v.is_nan() { f64::midpoint(least, most) } else { v.clamp(least, most) };
    let cut: Vec<f64> = made.x.iter().map(cut).collect();
    assert_eq!(cut.len(), width * count, "a reconstruction has as many samples as the truth");
    let cost: Vec<f64> = truth.x.chunks_exact(width).flat_map(|a| cut.chunks_exact(width).map(move |b| mean_squared_error(a, b))).collect();
    let given = assign(&cost, count);
    let x: Vec<f64> = given.iter().flat_map(|i| cut[i * width..(i + 1) * width].iter().copied()).collect();
    let labels: Option<Vec<u32>> = made.labels.as_ref().map(|labels| given.iter().map(|i| labels[*i]).collect());
    let mean = |of: &dyn Fn(&[f64], &[f64]) -> f64| {
        let pairs = truth.x.chunks_exact(width).zip(x.chunks_exact(width));
        pairs.map(|(a, b)| of(a, b)).sum::<f64>() / count as f64
    };
    let mut values = BTreeMap::from([
        ("mse".to_owned(), mean(&mean_squared_error)),
        ("psnr".to_owned(), mean(&|a, b| psnr(a, b, most - least))),
        ("ssim".to_owned(), mean(&|a, b| ssim(a, b, truth.shape, most - least))),
    ]);
    if let Some(labels) = &labels {
        // Classes are a bag: one that is right stays right when its picture went to another sample.
        let mut left = truth.labels.to_vec();
        let hits = labels.iter().filter(|label| left.iter().position(|l| l == *label).map(|at| left.swap_remove(at)).is_some()).count();
        values.insert("label_accuracy".to_owned(), hits as f64 / count as f64);
    }
    Scored { values, x, labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_made_up_samples_does_not_matter() {
        let shape = Shape { channels: 1, height: 1, width: 2 };
        let truth = Truth { x: &[0.0, 1.0, 1.0, 0.0, 0.5, 0.5], labels: &[3, 1, 1], shape, range: (0.0, 1.0) };
        let made = Reconstruction { x: vec![0.5, 0.5, 0.0, 7.0, 1.0, -3.0], labels: Some(vec![1, 1, 2]), distance: 0.0 };
        let scored = score(&truth, &made);
        assert_eq!(scored.x, [0.0, 1.0, 1.0, 0.0, 0.5, 0.5]);
        assert_eq!(scored.values["mse"], 0.0);
        assert_eq!(scored.values["label_accuracy"], 2.0 / 3.0);
        assert_eq!(scored.labels, Some(vec![1, 2, 1]));
    }
}
