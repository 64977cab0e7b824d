//! The mechanisms: clipping a vector, and noise of a scale that fits a clip and a guarantee.

use crate::base::random::{Purpose, Stream, stream, unit};
use crate::engine::update::distance;
use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use statrs::function::erf::erfc;

/// The stream of the noise of one client (or the server) in one round and step.
pub(super) fn noise(seed: u64, client: u64, round: u64, step: u64) -> Stream {
    stream(seed, Purpose::Privacy, client, round, step)
}

/// Adds normal noise of this standard deviation.
pub(super) fn add_gaussian(rng: &mut Stream, deviation: f64, to: &mut [f32]) {
    for value in to {
        let noise: f64 = StandardNormal.sample(rng);
        *value += (deviation * noise) as f32;
    }
}

/// Adds Laplace noise of this scale.
pub(super) fn add_laplace(rng: &mut Stream, scale: f64, to: &mut [f32]) {
    for value in to {
        let size = -scale * (1.0 - unit(rng)).ln();
        *value += if rng.random::<bool>() { size } else { -size } as f32;
    }
}

/// Shortens the difference of `params` from `reference` to the Euclidean norm `most`, and leaves a shorter one alone, bit for bit.
/// A difference that is not finite becomes 0, since no factor bounds it.
pub(super) fn clip_l2(params: &mut [f32], reference: &[f32], most: f64) {
    shorten(params, reference, most / (f64::from(distance(params, reference)) + 1e-6));
}

/// The same for the sum of absolute values.
pub(super) fn clip_l1(params: &mut [f32], reference: &[f32], most: f64) {
    let sum: f64 = params.iter().zip(reference).map(|(p, r)| f64::from((p - r).abs())).sum();
    shorten(params, reference, most / (sum + 1e-6));
}

fn shorten(params: &mut [f32], reference: &[f32], factor: f64) {
    // An infinite length gives 0, and one that is not a number fails every comparison.
    if factor >= 1.0 {
        return;
    }
    for (p, r) in params.iter_mut().zip(reference) {
        *p = if factor > 0.0 { (f64::from(*r) + factor * f64::from(*p - *r)) as f32 } else { *r };
    }
}

/// The noise multiplier of the classic Gaussian mechanism, sqrt(2 ln(1.25 / delta)) / epsilon; proven for epsilon up to 1 only (Dwork
/// and Roth 2014, Theorem 3.22).
pub(super) fn classic(epsilon: f64, delta: f64) -> f64 {
    (2.0 * (1.25 / delta).ln()).sqrt() / epsilon
}

/// The least noise multiplier of the Gaussian mechanism for any epsilon, by bisection of its exact delta (Balle and Wang 2018,
/// Theorem 8).
pub(super) fn analytic(epsilon: f64, delta: f64) -> f64 {
    let normal = |x: f64| 0.5 * erfc(-x / std::f64::consts::SQRT_2);
    // By logarithms, for exp(epsilon) alone may be too large for f64 where the product is not.
    let delta_of = |noise: f64| {
        let (half, shift) = (0.5 / noise, epsilon * noise);
        normal(half - shift) - (epsilon + log_tail(half + shift)).exp()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while delta_of(high) > delta && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-9 * high {
        let middle = f64::midpoint(low, high);
        if delta_of(middle) <= delta {
            high = middle;
        } else {
            low = middle;
        }
        if high < 1e-9 {
            break;
        }
    }
    high
}

/// The natural logarithm of the share of a standard normal distribution above `x`, which is not negative.
fn log_tail(x: f64) -> f64 {
    if x < 25.0 {
        return (0.5 * erfc(x / std::f64::consts::SQRT_2)).ln();
    }
    // The asymptotic series of Mills' ratio; its first term left out is below 1e-9 here.
    let square = 1.0 / (x * x);
    -0.5 * x * x - (x * (2.0 * std::f64::consts::PI).sqrt()).ln()
        + (-square * (1.0 - square * (3.0 - square * (15.0 - 105.0 * square)))).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_difference_is_left_alone_and_a_long_one_has_the_norm() {
        let reference = [1.0f32, 2.0, 3.0];
        let mut params = [1.3f32, 2.4, 3.0];
        clip_l2(&mut params, &reference, 0.6);
        assert_eq!(params, [1.3, 2.4, 3.0]);
        clip_l2(&mut params, &reference, 0.25);
        let length = f64::from(distance(&params, &reference));
        assert!((length - 0.25).abs() < 1e-5 && (params[1] - 2.2).abs() < 1e-5, "{params:?}");
        clip_l1(&mut params, &reference, 0.07);
        let sum: f32 = params.iter().zip(reference).map(|(p, r)| (p - r).abs()).sum();
        assert!((sum - 0.07).abs() < 1e-5);
    }

    #[test]
    fn what_is_not_finite_counts_as_no_change() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut params = [0.5, bad];
            clip_l2(&mut params, &[1.0, 2.0], 10.0);
            assert_eq!(params, [1.0, 2.0], "{bad}");
            let mut params = [0.5, bad];
            clip_l1(&mut params, &[1.0, 2.0], 10.0);
            assert_eq!(params, [1.0, 2.0], "{bad}");
        }
    }

    #[test]
    fn noise_has_its_scale_and_repeats() {
        let draw = |add: fn(&mut Stream, f64, &mut [f32]), step| {
            let mut values = vec![0.0f32; 40_000];
            add(&mut noise(3, 1, 2, step), 2.0, &mut values);
            values
        };
        let moments = |values: &[f32]| {
            let n = values.len() as f64;
            let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
            (mean, values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n)
        };
        let (mean, square) = moments(&draw(add_gaussian, 0));
        assert!(mean.abs() < 0.05 && (square - 4.0).abs() < 0.15, "{mean} {square}");
        // A Laplace variable has twice the square of its scale as variance.
        let (mean, square) = moments(&draw(add_laplace, 0));
        assert!(mean.abs() < 0.06 && (square - 8.0).abs() < 0.5, "{mean} {square}");
        assert_eq!(draw(add_gaussian, 1), draw(add_gaussian, 1));
        assert_ne!(draw(add_gaussian, 1), draw(add_gaussian, 2));
    }

    #[test]
    fn scales_of_the_gaussian_mechanism() {
        // sqrt(2 ln 125000) = 4.8448.
        assert!((classic(1.0, 1e-5) - 4.844_8).abs() < 1e-4 && (classic(0.5, 1e-5) - 9.689_6).abs() < 1e-4);
        // The exact one needs less, and more than 0 for a large epsilon too.
        for (epsilon, noise) in [(0.5, 7.0318), (1.0, 3.7307), (8.0, 0.6003)] {
            let ours = analytic(epsilon, 1e-5);
            assert!((ours - noise).abs() < 2e-4, "{epsilon}: {ours}");
        }
        // Also where exp(epsilon) is beyond f64: by mpmath with 60 digits.
        for (epsilon, noise) in
            [(700.0, 0.029_923_150_744_9), (710.0, 0.029_688_223_194_2), (1e3, 0.024_581_783_351_7), (1e5, 0.002_257_482_769_9)]
        {
            let ours = analytic(epsilon, 1e-5);
            assert!((ours / noise - 1.0).abs() < 1e-6, "{epsilon}: {ours}");
        }
        assert!(analytic(1e-6, 1e-5).is_finite());
    }
}
