//! Tail probabilities and quantiles of the distributions that the tests need.
//!
//! The incomplete beta and gamma functions are `statrs`'s; quantiles and the studentized range are found here, by bisection and by
//! quadrature, so that they are as exact as the functions below them.

use statrs::function::{beta::beta_reg, erf::erfc, gamma::gamma_ur};

/// P(T > t) for Student's t with `df` degrees of freedom.
#[must_use]
pub fn t_sf(t: f64, df: f64) -> f64 {
    let tail = 0.5 * beta_reg(df / 2.0, 0.5, (df / (df + t * t)).clamp(0.0, 1.0));
    if t >= 0.0 { tail } else { 1.0 - tail }
}

/// The value that Student's t stays below with probability `p`, for `p` in (0, 1).
#[must_use]
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let mut high = 2.0;
    while t_sf(high, df) > 1.0 - p && high < 1e12 {
        high *= 2.0;
    }
    bisect(0.0, high, |t| t_sf(t, df) > 1.0 - p)
}

/// P(F > f) for Fisher's F with `d1` and `d2` degrees of freedom.
#[must_use]
pub fn f_sf(f: f64, d1: f64, d2: f64) -> f64 {
    if f <= 0.0 {
        return 1.0;
    }
    beta_reg(d2 / 2.0, d1 / 2.0, (d2 / (d2 + d1 * f)).clamp(0.0, 1.0))
}

/// P(X > x) for chi-squared with `df` degrees of freedom.
#[must_use]
pub fn chi2_sf(x: f64, df: f64) -> f64 {
    if x <= 0.0 { 1.0 } else { gamma_ur(df / 2.0, x / 2.0) }
}

/// The standard normal distribution function.
fn phi(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// P(Q > q) for the range of `k` independent standard normal values: the studentized range with infinitely many degrees of freedom.
#[must_use]
pub fn range_sf(q: f64, k: usize) -> f64 {
    if q <= 0.0 || k < 2 {
        return 1.0;
    }
    // k times the integral of phi'(z) (phi(z) - phi(z - q))^(k - 1), where z is the largest value. Beyond 8.5 the density is below
    // 1e-16; Simpson's rule on 2000 intervals is exact to about 1e-13.
    const STEPS: usize = 2000;
    let (low, high) = (-8.5, 8.5 + q.min(8.5));
    let width = (high - low) / STEPS as f64;
    let power = i32::try_from(k - 1).unwrap_or(i32::MAX);
    let term = |i: usize| {
        let z = low + width * i as f64;
        (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * (phi(z) - phi(z - q)).powi(power)
    };
    let inner: f64 = (1..STEPS).map(|i| term(i) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    (1.0 - k as f64 * (term(0) + inner + term(STEPS)) * width / 3.0).clamp(0.0, 1.0)
}

/// The value that the range of `k` standard normal values exceeds with probability `level`.
#[must_use]
pub fn range_quantile(level: f64, k: usize) -> f64 {
    bisect(0.0, 40.0, |q| range_sf(q, k) > level)
}

/// The point up to which `below` holds.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
