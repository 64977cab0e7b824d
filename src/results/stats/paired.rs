//! Two methods on the same seeds: tests and effect sizes of the paired differences.
//!
//! Wilcoxon's and the sign test are exact at every size and with ties; no normal approximation is used anywhere.

use super::Test;
use super::describe::Summary;
use super::distributions::t_sf;
use serde::Serialize;

/// The outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// The statistic: the sum of the positive ranks, the number of positive signs, or t.
    pub statistic: f64,
    /// The two-sided p-value.
    pub p: f64,
}

/// Differences of pairs that are equal are told apart from rounding: below this fraction of the largest they count as zero or tied.
const ROUNDING: f64 = 1e-12;

/// The differences that are not zero, with average ranks of their sizes.
fn ranked(differences: &[f64]) -> Vec<(f64, f64)> {
    let largest = differences.iter().fold(0.0_f64, |m, d| m.max(d.abs()));
    let mut kept: Vec<f64> = differences.iter().copied().filter(|d| d.abs() > ROUNDING * largest && *d != 0.0).collect();
    kept.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut out = Vec::with_capacity(kept.len());
    let mut start = 0;
    while start < kept.len() {
        let mut end = start + 1;
        while end < kept.len() && kept[end].abs() - kept[end - 1].abs() <= ROUNDING * largest {
            end += 1;
        }
        // Ranks start + 1 to end share their average.
        let rank = (start + 1 + end) as f64 / 2.0;
        out.extend(kept[start..end].iter().map(|d| (*d, rank)));
        start = end;
    }
    out
}

/// Wilcoxon's signed-rank test (1945), exact: differences of zero are left out, ties have average ranks, and the distribution of the
/// sum of positive ranks over all signs is counted. None when every difference is zero.
#[must_use]
pub fn wilcoxon(differences: &[f64]) -> Option<Tested> {
    let ranks = ranked(differences);
    if ranks.is_empty() {
        return None;
    }
    // Ranks are halves at worst; their doubles are whole.
    let doubled: Vec<usize> = ranks.iter().map(|(_, rank)| (2.0 * rank).round() as usize).collect();
    let total: usize = doubled.iter().sum();
    // The probability of each sum when every sign is a fair coin.
    let mut chance = vec![0.0; total + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for rank in &doubled {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= *rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    let positive: usize = ranks.iter().zip(&doubled).filter(|((d, _), _)| *d > 0.0).map(|(_, rank)| *rank).sum();
    let below: f64 = chance[..=positive].iter().sum();
    let above: f64 = chance[positive..].iter().sum();
    Some(Tested { statistic: positive as f64 / 2.0, p: (2.0 * below.min(above)).min(1.0) })
}

/// The sign test, exact: the binomial probability of as few of the rarer sign, doubled. None when every difference is zero.
#[must_use]
pub fn sign(differences: &[f64]) -> Option<Tested> {
    let ranks = ranked(differences);
    let n = ranks.len();
    if n == 0 {
        return None;
    }
    let positive = ranks.iter().filter(|(d, _)| *d > 0.0).count();
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut tail = term;
    for i in 0..positive.min(n - positive) {
        term *= (n - i) as f64 / (i + 1) as f64;
        tail += term;
    }
    Some(Tested { statistic: positive as f64, p: (2.0 * tail).min(1.0) })
}

/// Student's t-test of the differences against zero. None below two pairs, and when all differences are equal.
#[must_use]
pub fn t_test(differences: &[f64]) -> Option<Tested> {
    let summary = Summary::of(differences)?;
    let sd = summary.sd.filter(|sd| *sd > ROUNDING * summary.mean.abs() && *sd > 0.0)?;
    let t = summary.mean / (sd / (summary.n as f64).sqrt());
    Some(Tested { statistic: t, p: 2.0 * t_sf(t.abs(), (summary.n - 1) as f64) })
}

/// Cohen's d_z: the mean difference in units of the differences' sample standard deviation.
#[must_use]
pub fn cohen_dz(differences: &[f64]) -> Option<f64> {
    let summary = Summary::of(differences)?;
    summary.sd.filter(|sd| *sd > ROUNDING * summary.mean.abs() && *sd > 0.0).map(|sd| summary.mean / sd)
}

/// The matched rank-biserial correlation (Kerby, 2014): positive minus negative ranks over all ranks, in [-1, 1].
#[must_use]
pub fn rank_biserial(differences: &[f64]) -> Option<f64> {
    let ranks = ranked(differences);
    let all: f64 = ranks.iter().map(|(_, rank)| rank).sum();
    let signed: f64 = ranks.iter().map(|(d, rank)| rank * d.signum()).sum();
    (all > 0.0).then(|| signed / all)
}

/// The smallest two-sided p-value that a test can give with `n` pairs, none where it has no such bound.
#[must_use]
pub fn least_p(test: Test, n: usize) -> Option<f64> {
    match test {
        Test::Wilcoxon | Test::Sign => Some(if n == 0 { 1.0 } else { 0.5_f64.powi(i32::try_from(n - 1).unwrap_or(i32::MAX)) }),
        Test::PairedT | Test::Welch => None,
    }
}

/// The fewest pairs with which a test can give a p-value of at most `level`.
#[must_use]
pub fn least_pairs(test: Test, level: f64) -> usize {
    (2..64).find(|n| least_p(test, *n).is_none_or(|p| p <= level)).unwrap_or(64)
}
