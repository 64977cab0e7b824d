//! How much of a result's variance comes from each seed: partition, initialisation, batches, sampling.
//!
//! The estimator is that of the analysis of variance for a crossed random-effects model without interactions (Searle, Casella and
//! McCulloch, 1992); negative estimates are shown as zero.

use serde::Serialize;
use std::collections::BTreeMap;

/// The share of one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// The factor, or `rest` for interactions and everything that no factor explains.
    pub factor: String,
    /// Degrees of freedom.
    pub df: usize,
    /// The mean square.
    pub mean_square: f64,
    /// The estimated variance, at least 0.
    pub variance: f64,
    /// Its part of the sum of all, in [0, 1].
    pub share: f64,
}

/// The components of values that were measured at every combination of the factors' levels, once or equally often. None when the
/// crossing is not complete and even, or leaves no degree of freedom for the rest.
#[must_use]
pub fn components(factors: &[String], values: &[(Vec<String>, f64)]) -> Option<Vec<Component>> {
    let n = values.len();
    let levels: Vec<BTreeMap<&str, Vec<f64>>> = (0..factors.len())
        .map(|f| {
            let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for (at, value) in values {
                by.entry(at.get(f).map_or("", String::as_str)).or_default().push(*value);
            }
            by
        })
        .collect();
    let mut cells: BTreeMap<&[String], usize> = BTreeMap::new();
    for (at, _) in values {
        *cells.entry(at).or_default() += 1;
    }
    let product: usize = levels.iter().map(BTreeMap::len).product();
    let even = cells.values().all(|count| Some(count) == cells.values().next());
    // A factor with one level has no variance to estimate.
    if n == 0 || factors.is_empty() || cells.len() != product || !even || levels.iter().any(|by| by.len() < 2) {
        return None;
    }
    let mean = values.iter().map(|(_, value)| value).sum::<f64>() / n as f64;
    let total: f64 = values.iter().map(|(_, value)| (value - mean).powi(2)).sum();
    let squares: Vec<f64> = levels
        .iter()
        .map(|by| by.values().map(|group| group.len() as f64 * (group.iter().sum::<f64>() / group.len() as f64 - mean).powi(2)).sum())
        .collect();
    let df: Vec<usize> = levels.iter().map(|by| by.len() - 1).collect();
    let rest_df = (n - 1).checked_sub(df.iter().sum())?;
    if rest_df == 0 {
        return None;
    }
    let rest = ((total - squares.iter().sum::<f64>()) / rest_df as f64).max(0.0);
    let mut found: Vec<Component> = Vec::new();
    for (f, factor) in factors.iter().enumerate() {
        let mean_square = squares[f] / df[f] as f64;
        let each = n as f64 / levels[f].len() as f64;
        found.push(Component {
            factor: factor.clone(),
            df: df[f],
            mean_square,
            variance: ((mean_square - rest) / each).max(0.0),
            share: 0.0,
        });
    }
    found.push(Component { factor: "rest".to_owned(), df: rest_df, mean_square: rest, variance: rest, share: 0.0 });
    let sum: f64 = found.iter().map(|component| component.variance).sum();
    for component in &mut found {
        component.share = if sum > 0.0 { component.variance / sum } else { 0.0 };
    }
    Some(found)
}
