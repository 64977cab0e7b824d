//! Which number of a simulation a table shows: metric and selector, their unit, and which value of them is best.
//!
//! It knows what is measured, and nothing of the pipeline that asks.

use super::sample::Sample;
use super::value::{Best, Measure};
use crate::fl::History;
use crate::fl::history::Status;

/// The selectors, with their meaning for the documentation.
pub const SELECTORS: [(&str, &str); 2] = [
    (
        "best",
        "the best of all evaluations: the largest accuracy or AUC, the smallest loss. A spread or a cost has no best of its own: its value at the evaluation with the best test accuracy",
    ),
    ("last", "the last evaluation"),
];

/// The unit of a metric.
#[must_use]
pub fn measure(metric: &str) -> Measure {
    let name = bare(metric);
    if name.contains("accuracy") || name.contains("auc") {
        Measure::Fraction
    } else if name.contains("loss") {
        Measure::Loss
    } else {
        Measure::Count
    }
}

/// Which value of a metric is the best: the largest accuracy or AUC, the smallest of everything else.
#[must_use]
pub fn best(metric: &str) -> Best {
    if measure(metric) == Measure::Fraction && !bare(metric).ends_with("_sd") { Best::Max } else { Best::Min }
}

/// The sample that a simulation gives for a metric and a selector.
///
/// A simulation that diverged has no number, whatever it measured before: `best` would hide that it broke down.
/// A metric that was not measured is missing.
#[must_use]
pub fn pick(history: &History, metric: &str, selector: &str) -> Sample {
    if matches!(history.status, Status::Diverged { .. }) {
        return Sample::Diverged;
    }
    let series = history.series(metric);
    let value = match selector {
        "best" if is_goal(metric) => extreme(&series, best(metric)).map(|(_, value)| value),
        "best" => {
            let view = metric.split_once(':').map(|(view, _)| format!("{view}:")).unwrap_or_default();
            let accuracy = history.series(&format!("{view}test_accuracy"));
            let round = extreme(&accuracy, Best::Max).map(|(round, _)| round);
            // Two evaluations may follow one round: before and after the work that ends the simulation.
            series.iter().rev().find(|(r, _)| Some(*r) == round).map(|(_, value)| *value)
        }
        _ => series.last().map(|(_, value)| *value),
    };
    value.map_or(Sample::Missing, Sample::of)
}

/// Whether a metric is something to reach, rather than a spread or a cost.
fn is_goal(metric: &str) -> bool {
    measure(metric) != Measure::Count && !bare(metric).ends_with("_sd")
}

/// The best value with its round, the first of equals.
fn extreme(series: &[(u64, f64)], best: Best) -> Option<(u64, f64)> {
    let better = |a: f64, b: f64| if best == Best::Max { a > b } else { a < b };
    series.iter().copied().reduce(|kept, next| if better(next.1, kept.1) { next } else { kept })
}

fn bare(metric: &str) -> &str {
    metric.split_once(':').map_or(metric, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fl::history::{Evaluation, Measured};
    use std::collections::BTreeMap;

    fn history(values: &[(u64, f64, f64)]) -> History {
        let evaluations = values.iter().map(|(round, accuracy, loss)| Evaluation {
            round: *round,
            finished: false,
            views: BTreeMap::from([(
                "global".to_owned(),
                Measured { accuracy: Some(*accuracy), accuracy_sd: Some(1.0 - accuracy), ..Measured::of(Vec::new()) },
            )]),
            train_loss: Some(*loss),
            floats_down: 10 * round,
            floats_up: 0,
            gradient_evaluations: 0,
        });
        History { headline: "global".to_owned(), evaluations: evaluations.collect(), ..History::default() }
    }

    #[test]
    fn best_is_over_evaluations_and_last_is_the_last() {
        let history = history(&[(0, 0.1, 2.3), (1, 0.8, 0.4), (2, 0.7, 0.5)]);
        for (metric, selector, want) in [
            ("test_accuracy", "best", 0.8),
            ("test_accuracy", "last", 0.7),
            ("global:test_accuracy", "best", 0.8),
            ("train_loss", "best", 0.4),
            ("train_loss", "last", 0.5),
            // The floats sent when the accuracy was best, and its spread then.
            ("floats_down", "best", 10.0),
            ("floats_down", "last", 20.0),
            ("test_accuracy_sd", "best", 1.0 - 0.8),
        ] {
            assert_eq!(pick(&history, metric, selector), Sample::Value(want), "{metric}.{selector}");
        }
        assert_eq!(pick(&history, "test_auc", "best"), Sample::Missing);
    }

    #[test]
    fn a_diverged_simulation_has_no_number() {
        let mut history = history(&[(0, 0.9, 0.1)]);
        history.status = Status::Diverged { round: 3 };
        assert_eq!(pick(&history, "test_accuracy", "best"), Sample::Diverged);
    }

    #[test]
    fn units_and_directions() {
        assert_eq!((measure("personal:test_accuracy"), best("personal:test_accuracy")), (Measure::Fraction, Best::Max));
        assert_eq!((measure("test_accuracy_sd"), best("test_accuracy_sd")), (Measure::Fraction, Best::Min));
        assert_eq!((measure("train_loss"), best("train_loss")), (Measure::Loss, Best::Min));
        assert_eq!((measure("floats_up"), best("floats_up")), (Measure::Count, Best::Min));
    }
}
