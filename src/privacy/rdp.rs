//! Rényi differential privacy of one release: the Gaussian mechanism, with or without Poisson sampling, and the Laplace mechanism.
//!
//! A curve gives for each order alpha > 1 the Rényi divergence of that order between the outputs on neighbouring inputs. Curves of
//! successive releases add up, which is why they are kept and turned into an epsilon only at the end.

use statrs::function::erf::erfc;
use std::f64::consts::{PI, SQRT_2};

/// The orders at which curves are kept: tenths up to 10.9, whole numbers up to 63, then powers of two. A small epsilon is found at
/// a large order and the other way round.
#[must_use]
pub fn orders() -> Vec<f64> {
    let tenths = (11..110).map(|tenth| f64::from(tenth) / 10.0);
    let wholes = (11..64).map(f64::from);
    tenths.chain(wholes).chain([128.0, 256.0, 512.0, 1024.0]).collect()
}

/// The curve of the Gaussian mechanism with this noise multiplier (standard deviation over sensitivity) at [`orders`], where each
/// record takes part with probability `rate`, independently of the others (Mironov, Talwar, Zhang 2019, sections 3.3).
///
/// Without noise it is infinite, and with a rate of 0 it is 0.
#[must_use]
pub fn gaussian(rate: f64, noise: f64) -> Vec<f64> {
    orders().into_iter().map(|order| gaussian_at(rate, noise, order)).collect()
}

fn gaussian_at(rate: f64, noise: f64, order: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    if noise <= 0.0 {
        return f64::INFINITY;
    }
    if rate >= 1.0 {
        return order / (2.0 * noise * noise);
    }
    let moment = if order.fract() == 0.0 { whole_moment(rate, noise, order) } else { fractional_moment(rate, noise, order) };
    // Rounding may leave a moment a little below 1, or an alternating series without a digit.
    if moment.is_nan() { f64::INFINITY } else { moment.max(0.0) / (order - 1.0) }
}

/// The logarithm of E[(ratio of densities)^order] for a whole order: a binomial sum.
fn whole_moment(rate: f64, noise: f64, order: f64) -> f64 {
    let (log_rate, log_rest) = (rate.ln(), (-rate).ln_1p());
    let mut sum = LogSum::default();
    let mut log_binomial = 0.0;
    for k in 0..=order as u32 {
        let k = f64::from(k);
        sum.add(log_binomial + k * log_rate + (order - k) * log_rest + k * (k - 1.0) / (2.0 * noise * noise));
        log_binomial += (order - k).ln() - (k + 1.0).ln();
    }
    sum.log()
}

/// The same for any order above 1: the integral is cut where the two densities are equal, and each half is a binomial series, of
/// which the terms beyond the order alternate in sign.
fn fractional_moment(rate: f64, noise: f64, order: f64) -> f64 {
    /// A term below exp(SMALL) ends the series.
    const SMALL: f64 = -30.0;
    let (log_rate, log_rest) = (rate.ln(), (-rate).ln_1p());
    let cut = noise * noise * (1.0 / rate - 1.0).ln() + 0.5;
    let width = SQRT_2 * noise;
    let (mut plus, mut minus) = (LogSum::default(), LogSum::default());
    let (mut log_binomial, mut positive) = (0.0, true);
    let mut i = 0.0;
    loop {
        let j = order - i;
        let half = |k: f64, rest: f64, distance: f64| {
            log_binomial + k * log_rate + rest * log_rest + k * (k - 1.0) / (2.0 * noise * noise) + log_erfc(distance / width) - 2f64.ln()
        };
        // Below the cut the density without the record stands in the denominator, above it the other one.
        let (below, above) = (half(i, j, i - cut), half(j, i, cut - j));
        let sum = if positive { &mut plus } else { &mut minus };
        sum.add(below);
        sum.add(above);
        if below.max(above) < SMALL {
            break;
        }
        let factor = (order - i) / (i + 1.0);
        log_binomial += factor.abs().ln();
        positive ^= factor < 0.0;
        i += 1.0;
    }
    let (plus, minus) = (plus.log(), minus.log());
    if minus == f64::NEG_INFINITY { plus } else { plus + (-(minus - plus).exp()).ln_1p() }
}

/// The curve of the Laplace mechanism at [`orders`], with this scale over sensitivity (Mironov 2017, Proposition 6), for vectors too:
/// the divergence grows more than in proportion to a shift, so that moving one coordinate alone is the worst case.
#[must_use]
pub fn laplace(scale: f64) -> Vec<f64> {
    let at = |order: f64| {
        if scale <= 0.0 {
            return f64::INFINITY;
        }
        let mut sum = LogSum::default();
        sum.add((order / (2.0 * order - 1.0)).ln() + (order - 1.0) / scale);
        sum.add(((order - 1.0) / (2.0 * order - 1.0)).ln() - order / scale);
        sum.log().max(0.0) / (order - 1.0)
    };
    orders().into_iter().map(at).collect()
}

/// The logarithm of erfc, also where erfc itself is 0 in f64.
fn log_erfc(x: f64) -> f64 {
    if x < 20.0 {
        return erfc(x).ln();
    }
    // The asymptotic series; at 20 its fourth term is below 1e-9.
    let s = 1.0 / (2.0 * x * x);
    -x * x - (x * PI.sqrt()).ln() + (1.0 - s * (1.0 - s * (3.0 - s * 15.0))).ln()
}

/// A sum of numbers given by their logarithms.
#[derive(Clone, Copy)]
struct LogSum {
    greatest: f64,
    rest: f64,
}

impl Default for LogSum {
    fn default() -> Self {
        Self { greatest: f64::NEG_INFINITY, rest: 0.0 }
    }
}

impl LogSum {
    fn add(&mut self, log: f64) {
        if log > self.greatest {
            self.rest = self.rest * (self.greatest - log).exp() + 1.0;
            self.greatest = log;
        } else if log > f64::NEG_INFINITY {
            self.rest += (log - self.greatest).exp();
        }
    }
    fn log(self) -> f64 {
        self.greatest + self.rest.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_and_fractional_orders_meet() {
        for (rate, noise) in [(0.01, 1.0), (0.1, 0.7), (0.5, 3.0), (0.9, 1.5)] {
            for order in [2.0, 5.0, 9.0] {
                let (whole, beside) = (whole_moment(rate, noise, order), fractional_moment(rate, noise, order + 1e-7));
                assert!((whole - beside).abs() < 1e-4 * whole.max(1e-3), "{rate} {noise} {order}: {whole} {beside}");
            }
        }
    }

    #[test]
    fn everybody_is_the_plain_mechanism_and_nobody_costs_nothing() {
        assert_eq!(gaussian_at(1.0, 2.0, 3.0), 3.0 / 8.0);
        let close = gaussian_at(1.0 - 1e-9, 2.0, 3.0);
        assert!((close - 3.0 / 8.0).abs() < 1e-6, "{close}");
        assert_eq!(gaussian_at(0.0, 2.0, 3.0), 0.0);
        assert_eq!(gaussian_at(0.1, 0.0, 3.0), f64::INFINITY);
    }

    #[test]
    fn the_logarithm_of_erfc_is_continuous_where_the_formula_changes() {
        let (left, right) = (log_erfc(20.0 - 1e-12), log_erfc(20.0));
        assert!((left - right).abs() < 1e-8, "{left} {right}");
    }

    #[test]
    fn laplace_approaches_its_pure_epsilon() {
        let curve = laplace(0.5);
        assert!(curve.iter().all(|value| *value <= 2.0) && curve.last().is_some_and(|last| (last - 2.0).abs() < 0.01), "{curve:?}");
        assert!(curve.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
