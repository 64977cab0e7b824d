//! Whether our mean equals another's within a margin: two one-sided tests (Schuirmann, 1987).
//!
//! That a difference is not significant does not show that there is none, least of all with three seeds. This shows it.

use super::describe::Summary;
use super::distributions::{t_quantile, t_sf};
use super::two_samples;
use serde::Serialize;

/// The outcome of two one-sided tests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Equivalence {
    /// Our mean minus the other's.
    pub difference: f64,
    /// The p-value of equivalence within the margin: the larger one of the two tests.
    pub p: f64,
    /// The two-sided p-value of a difference from zero, by t.
    pub p_difference: f64,
    /// The interval of the difference that covers it with 95 %.
    pub interval: (f64, f64),
}

/// Tests a sample against another one, of which mean, standard deviation and size are known, by Welch's t; or against a number, where
/// the other's spread is not known. None for a sample without spread.
#[must_use]
pub fn tost(ours: &Summary, other: &Summary, margin: f64) -> Option<Equivalence> {
    let (difference, error, df) = match two_samples::difference(ours, other) {
        Some(d) => (d.mean, d.error, d.df),
        None => (ours.mean - other.mean, ours.sd.filter(|sd| *sd > 0.0)? / (ours.n as f64).sqrt(), (ours.n - 1) as f64),
    };
    let p = t_sf((difference + margin) / error, df).max(1.0 - t_sf((difference - margin) / error, df));
    let half = t_quantile(0.975, df) * error;
    Some(Equivalence {
        difference,
        p,
        p_difference: 2.0 * t_sf((difference / error).abs(), df),
        interval: (difference - half, difference + half),
    })
}
