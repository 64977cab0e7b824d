//! What a handful of values says by itself: mean, spread, median, extremes, and the interval in which their mean lies.

use super::distributions::t_quantile;
use serde::Serialize;

/// Descriptive statistics of at least one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The number of values.
    pub n: usize,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation, with `n - 1` in the denominator; none for a single value.
    pub sd: Option<f64>,
    /// The median; the mean of the middle two of an even number.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Of finite values; none when there is no value.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        // Two passes: the one-pass formula cancels badly for accuracies that differ in the fourth digit.
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = if n % 2 == 1 { sorted[n / 2] } else { 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]) };
        Some(Self { n, mean, sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()), median, min: sorted[0], max: sorted[n - 1] })
    }

    /// Half the width of Student's interval that covers the mean with probability `level`: t(n - 1) sd / sqrt(n). None for a
    /// single value, whose spread is not known.
    #[must_use]
    pub fn half_width(&self, level: f64) -> Option<f64> {
        let sd = self.sd?;
        Some(t_quantile(0.5 + level / 2.0, (self.n - 1) as f64) * sd / (self.n as f64).sqrt())
    }

    /// The ends of that interval.
    #[must_use]
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        self.half_width(level).map(|half| (self.mean - half, self.mean + half))
    }
}
