//! Many methods on the same blocks (data sets, settings or seeds): Friedman's test, and which of them Nemenyi's test keeps apart.

use super::distributions::{chi2_sf, f_sf, range_quantile, range_sf};
use super::permuted;
use serde::Serialize;

/// The outcome of Friedman's test and what Nemenyi's needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Friedman {
    /// The number of blocks.
    pub blocks: usize,
    /// The mean rank of each method over the blocks; 1 is the best.
    pub mean_ranks: Vec<f64>,
    /// Friedman's statistic (1937), corrected for ties.
    pub chi2: f64,
    /// Its p-value by the chi-squared distribution with one degree of freedom less than there are methods.
    pub p: f64,
    /// Its exact p-value, where there are so few methods and blocks that all orders can be counted.
    pub exact: Option<f64>,
    /// Iman and Davenport's less conservative statistic (1980); none where every block has the same order.
    pub f: Option<f64>,
    /// Its p-value by the F distribution; 0 where every block has the same order.
    pub p_f: f64,
    /// The critical difference of mean ranks (Nemenyi, 1963; Demsar, 2006) at `level`.
    pub critical: f64,
    /// The level of that difference.
    pub level: f64,
}

/// The ranks of values, 1 for the largest; equal ones share their average.
#[must_use]
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        for index in &order[start..end] {
            ranks[*index] = (start + 1 + end) as f64 / 2.0;
        }
        start = end;
    }
    ranks
}

impl Friedman {
    /// Tests whether the methods differ. Each block has one value a method, larger ones being better. None below two blocks or
    /// two methods, and when all values of every block are equal.
    #[must_use]
    pub fn of(blocks: &[Vec<f64>], level: f64) -> Option<Self> {
        let (n, k) = (blocks.len(), blocks.first()?.len());
        if n < 2 || k < 2 || blocks.iter().any(|block| block.len() != k) {
            return None;
        }
        let (nf, kf) = (n as f64, k as f64);
        let mut sums = vec![0.0; k];
        let mut ties = 0.0;
        let mut all = Vec::with_capacity(n);
        for block in blocks {
            let ranks = ranks(block);
            for (sum, rank) in sums.iter_mut().zip(&ranks) {
                *sum += rank;
            }
            all.push(ranks.clone());
            let mut sorted = ranks;
            sorted.sort_by(f64::total_cmp);
            for group in sorted.chunk_by(|a, b| a == b) {
                let t = group.len() as f64;
                ties += t * (t * t - 1.0);
            }
        }
        let correction = 1.0 - ties / (nf * kf * (kf * kf - 1.0));
        if correction <= 1e-12 {
            return None;
        }
        let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
        let chi2 = (12.0 / (nf * kf * (kf + 1.0)) * squares - 3.0 * nf * (kf + 1.0)) / correction;
        let rest = nf * (kf - 1.0) - chi2;
        let f = (rest > 1e-9).then(|| (nf - 1.0) * chi2 / rest);
        Some(Self {
            blocks: n,
            mean_ranks: sums.iter().map(|sum| sum / nf).collect(),
            chi2,
            p: chi2_sf(chi2, kf - 1.0),
            exact: permuted::friedman(&all),
            f,
            p_f: f.map_or(0.0, |f| f_sf(f, kf - 1.0, (kf - 1.0) * (nf - 1.0))),
            critical: range_quantile(level, k) * (kf * (kf + 1.0) / (12.0 * nf)).sqrt(),
            level,
        })
    }

    /// Nemenyi's p-value that two methods are alike.
    #[must_use]
    pub fn pair(&self, a: usize, b: usize) -> f64 {
        let k = self.mean_ranks.len() as f64;
        let q = (self.mean_ranks[a] - self.mean_ranks[b]).abs() / (k * (k + 1.0) / (12.0 * self.blocks as f64)).sqrt();
        range_sf(q, self.mean_ranks.len())
    }

    /// The methods by mean rank, the best first.
    #[must_use]
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.mean_ranks.len()).collect();
        order.sort_by(|a, b| self.mean_ranks[*a].total_cmp(&self.mean_ranks[*b]));
        order
    }

    /// The largest runs of methods, by mean rank, whose ends lie no further apart than the critical difference: what a
    /// critical-difference diagram joins by bars. Positions are those in [`Friedman::order`].
    #[must_use]
    pub fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let sorted: Vec<f64> = self.order().into_iter().map(|index| self.mean_ranks[index]).collect();
        let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
        for start in 0..sorted.len() {
            let end = sorted.iter().rposition(|rank| *rank - sorted[start] <= self.critical).map_or(start + 1, |last| last + 1);
            if end - start > 1 && groups.last().is_none_or(|group| end > group.end) {
                groups.push(start..end);
            }
        }
        groups
    }
}
