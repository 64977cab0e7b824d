//! One cell of a table: its samples, how many there are of each kind, and their statistics.
//!
//! It knows neither rows nor columns, and nothing of how numbers are written.

use serde::Serialize;

/// What one run gave for a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "value")]
pub enum Sample {
    /// A finite number, in the unit of the table's [`Measure`](super::Measure).
    Value(f64),
    /// Planned, but there is no result yet.
    Missing,
    /// The stage, or one it needs, failed.
    Failed,
    /// The training diverged: a result, but not a number.
    Diverged,
    /// The stage is running now.
    Running,
}

impl Sample {
    /// A number as a sample; NaN and infinities are [`Sample::Diverged`].
    #[must_use]
    pub fn of(value: f64) -> Self {
        if value.is_finite() { Self::Value(value) } else { Self::Diverged }
    }
    /// The number, when it is one.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

/// The samples of one row and column, each with its label on the `over` axis, in the order in which they came.
///
/// A cell without samples lies outside the sweep and is left blank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Label on the `over` axis (a seed, say) and sample.
    pub samples: Vec<(String, Sample)>,
}

/// How many samples there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Numbers.
    pub values: usize,
    /// No result yet.
    pub missing: usize,
    /// Failed.
    pub failed: usize,
    /// Diverged.
    pub diverged: usize,
    /// Running.
    pub running: usize,
}

impl Counts {
    /// Adds one sample.
    pub fn add(&mut self, sample: Sample) {
        match sample {
            Sample::Value(_) => self.values += 1,
            Sample::Missing => self.missing += 1,
            Sample::Failed => self.failed += 1,
            Sample::Diverged => self.diverged += 1,
            Sample::Running => self.running += 1,
        }
    }
    /// All samples together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.values + self.missing + self.failed + self.diverged + self.running
    }
    /// The kinds that are not numbers with their counts, worst first; kinds with none are left out.
    #[must_use]
    pub fn troubles(&self) -> Vec<(usize, &'static str)> {
        [(self.diverged, "diverged"), (self.failed, "failed"), (self.missing, "missing"), (self.running, "running")]
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .collect()
    }
}

/// Mean, spread and number of the values of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation, with `n - 1` in the denominator; none for a single value.
    pub sd: Option<f64>,
    /// The number of values, at least 1.
    pub n: usize,
}

impl Cell {
    /// Counts the samples of each kind.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, sample) in &self.samples {
            counts.add(*sample);
        }
        counts
    }
    /// Statistics of the values alone; none when there is no value.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        let values: Vec<f64> = self.samples.iter().filter_map(|(_, sample)| sample.value()).collect();
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        // Two passes: the one-pass formula cancels badly for accuracies that differ in the fourth digit.
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        Some(Stats { mean, sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()), n })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(samples: &[Sample]) -> Cell {
        Cell { samples: samples.iter().enumerate().map(|(i, s)| (i.to_string(), *s)).collect() }
    }

    #[test]
    fn the_sd_has_n_minus_one_in_the_denominator() {
        let stats = cell(&[Sample::Value(2.0), Sample::Value(4.0), Sample::Diverged, Sample::Value(9.0)]).stats().expect("three values");
        // By hand: mean 5, squares 9 + 1 + 16 = 26, 26 / 2 = 13.
        assert_eq!((stats.mean, stats.sd, stats.n), (5.0, Some(13.0_f64.sqrt()), 3));
    }

    #[test]
    fn one_value_has_no_sd_and_no_value_has_no_mean() {
        assert_eq!(cell(&[Sample::Value(1.5)]).stats(), Some(Stats { mean: 1.5, sd: None, n: 1 }));
        assert_eq!(cell(&[Sample::Failed, Sample::Missing]).stats(), None);
        assert_eq!(cell(&[]).stats(), None);
    }

    #[test]
    fn a_value_that_is_not_finite_has_diverged() {
        assert_eq!(Sample::of(f64::NAN), Sample::Diverged);
        assert_eq!(Sample::of(f64::INFINITY), Sample::Diverged);
        assert_eq!(Sample::of(0.5), Sample::Value(0.5));
    }

    #[test]
    fn every_kind_is_counted() {
        let counts =
            cell(&[Sample::Value(0.0), Sample::Missing, Sample::Failed, Sample::Failed, Sample::Running, Sample::Diverged]).counts();
        assert_eq!(counts.total(), 6);
        assert_eq!(counts.troubles(), [(1, "diverged"), (2, "failed"), (1, "missing"), (1, "running")]);
    }
}
