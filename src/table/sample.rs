//! One cell of a table: its samples, how many there are of each kind, and their statistics.
//!
//! It knows neither rows nor columns, and nothing of how numbers are written.

use crate::results::stats::Summary;
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
    /// The stage was interrupted: there is a checkpoint, but no result yet.
    Unfinished,
    /// There is a result, which says that there is nothing to measure: an attack on parameters that nobody sends.
    Inapplicable,
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

/// What one run gave, with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Labels on the `over` axes (a seed, say), one for each.
    pub over: Vec<String>,
    /// What the run gave.
    pub sample: Sample,
    /// The rounds done before the evaluation that the number is from; none where it is from several.
    pub round: Option<u64>,
    /// Every evaluation of the metric as (rounds done, value).
    pub series: Vec<(u64, f64)>,
    /// The privacy spent until then, (epsilon, delta), where it is known and finite.
    pub spent: Option<(f64, f64)>,
    /// Why there is nothing to measure, for a sample that says so.
    pub reason: Option<String>,
    /// What makes the number worthless, although there is one.
    pub caveat: Option<String>,
    /// Over what the number is taken, where that is not everything that it is meant for.
    pub partial: Option<String>,
}

impl Observation {
    /// A sample without its history.
    #[must_use]
    pub fn plain(over: &str, sample: Sample) -> Self {
        Self::without(vec![over.to_owned()], sample)
    }
    /// A sample without a history, labeled by its place on each `over` axis.
    #[must_use]
    pub fn without(over: Vec<String>, sample: Sample) -> Self {
        Self { over, sample, round: None, series: Vec::new(), spent: None, reason: None, caveat: None, partial: None }
    }
    /// A sample for which there is nothing to measure.
    #[must_use]
    pub fn inapplicable(over: Vec<String>, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::without(over, Sample::Inapplicable) }
    }
    /// The labels on the `over` axes as one.
    #[must_use]
    pub fn label(&self) -> String {
        self.over.join(", ")
    }
}

/// The samples of one row and column, in the order in which they came.
///
/// A cell without samples lies outside the sweep and is left blank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What each run gave.
    pub samples: Vec<Observation>,
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
    /// Interrupted.
    pub unfinished: usize,
    /// Nothing to measure.
    #[serde(skip_serializing_if = "none")]
    pub inapplicable: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn none(count: &usize) -> bool {
    *count == 0
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
            Sample::Unfinished => self.unfinished += 1,
            Sample::Inapplicable => self.inapplicable += 1,
        }
    }
    /// All samples together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.values + self.missing + self.failed + self.diverged + self.running + self.unfinished + self.inapplicable
    }
    /// The kinds that are not numbers with their counts, worst first; kinds with none are left out.
    #[must_use]
    pub fn troubles(&self) -> Vec<(usize, &'static str)> {
        let all = [
            (self.diverged, "diverged"),
            (self.failed, "failed"),
            (self.missing, "missing"),
            (self.unfinished, "unfinished"),
            (self.running, "running"),
            (self.inapplicable, "not applicable"),
        ];
        all.into_iter().filter(|(n, _)| *n > 0).collect()
    }
}

impl Cell {
    /// Counts the samples of each kind.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for observation in &self.samples {
            counts.add(observation.sample);
        }
        counts
    }
    /// The values alone, in order.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.samples.iter().filter_map(|observation| observation.sample.value()).collect()
    }
    /// Statistics of the values alone; none when there is no value.
    #[must_use]
    pub fn stats(&self) -> Option<Summary> {
        Summary::of(&self.values())
    }
    /// The values by their label on the `over` axes; the last one of equal labels.
    #[must_use]
    pub fn by_label(&self) -> std::collections::BTreeMap<String, f64> {
        self.samples.iter().filter_map(|observation| Some((observation.label(), observation.sample.value()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(samples: &[Sample]) -> Cell {
        Cell { samples: samples.iter().enumerate().map(|(i, s)| Observation::plain(&i.to_string(), *s)).collect() }
    }

    #[test]
    fn the_sd_has_n_minus_one_in_the_denominator() {
        let stats = cell(&[Sample::Value(2.0), Sample::Value(4.0), Sample::Diverged, Sample::Value(9.0)]).stats().expect("three values");
        // By hand: mean 5, squares 9 + 1 + 16 = 26, 26 / 2 = 13.
        assert_eq!((stats.mean, stats.sd, stats.n), (5.0, Some(13.0_f64.sqrt()), 3));
    }

    #[test]
    fn one_value_has_no_sd_and_no_value_has_no_mean() {
        let one = cell(&[Sample::Value(1.5)]).stats().expect("a value");
        assert_eq!((one.mean, one.sd, one.n, one.median), (1.5, None, 1, 1.5));
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
        let counts = cell(&[
            Sample::Value(0.0),
            Sample::Missing,
            Sample::Failed,
            Sample::Failed,
            Sample::Running,
            Sample::Diverged,
            Sample::Unfinished,
        ])
        .counts();
        assert_eq!(counts.total(), 7);
        assert_eq!(counts.troubles(), [(1, "diverged"), (2, "failed"), (1, "missing"), (1, "unfinished"), (1, "running")]);
    }
}
