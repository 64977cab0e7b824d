//! Which number of a simulation a table shows: metric and selector, their unit, and which value of them is best.
//!
//! It knows what is measured, and nothing of the pipeline that asks.

use super::sample::{Observation, Sample};
use super::value::{Best, Measure};
use crate::attacks::findings::metrics;
use crate::attacks::{Ending, Findings};
use crate::fl::History;
use crate::fl::history::Status;

/// The selectors as they are written, with their meaning for the documentation.
pub const SELECTORS: [(&str, &str); 5] = [
    (
        "best",
        "the best of all evaluations: the largest accuracy or AUC, the smallest loss. A spread or a cost has no best of its own: its value at the evaluation with the best test accuracy. Chosen by the test set, so it flatters; it is what most published tables show",
    ),
    ("last", "the last evaluation"),
    ("mean_last(K)", "the mean of the last K evaluations; of all of them when there are fewer"),
    ("at_round(K)", "the evaluation after K rounds; missing when there was none"),
    (
        "at_best(METRIC)",
        "the evaluation at which another metric is best: `at_best(validation_accuracy)` and `at_best(train_loss)` choose without looking at the test set",
    ),
];

/// Which of the evaluations is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The best one.
    Best,
    /// The last one.
    Last,
    /// The mean of the last so many.
    MeanLast(usize),
    /// The one after so many rounds.
    AtRound(u64),
    /// The one at which this metric is best.
    AtBest(String),
}

impl Selector {
    /// Reads a selector; none for a text that is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((name, rest)) = text.split_once('(') {
            let inside = rest.strip_suffix(')')?.trim();
            return match name.trim() {
                "mean_last" => inside.parse().ok().filter(|k| *k > 0).map(Self::MeanLast),
                "at_round" => inside.parse().ok().map(Self::AtRound),
                "at_best" => crate::fl::history::METRICS.contains(&inside).then(|| Self::AtBest(inside.to_owned())),
                _ => None,
            };
        }
        match text {
            "best" => Some(Self::Best),
            "last" => Some(Self::Last),
            _ => None,
        }
    }
}

/// Costs that are plain numbers, neither counts nor fractions.
const PLAIN: [&str; 5] = ["epsilon", "noise_multiplier", "secure_seconds", "seconds", "seconds_per_round"];

/// The success of an attack: a fraction that a defence keeps small, and no goal of a training.
const ATTACK: &str = "attack_success";

/// The unit of a metric.
#[must_use]
pub fn measure(metric: &str) -> Measure {
    let name = bare(metric);
    if ["psnr", "ssim", "mse"].contains(&name) {
        return Measure::Loss;
    }
    if ["tpr", "advantage"].contains(&name) {
        return Measure::Fraction;
    }
    if name.contains("accuracy") || name.contains("auc") || name == ATTACK {
        Measure::Fraction
    } else if name.contains("loss") || PLAIN.contains(&name) {
        Measure::Loss
    } else {
        Measure::Count
    }
}

/// Which value of a metric is the best: the largest accuracy or AUC, the smallest of everything else. What an attack finds is seen from
/// the side of those who are attacked: the less, the better.
#[must_use]
pub fn best(metric: &str) -> Best {
    match bare(metric) {
        "mse" => return Best::Max,
        "auc" | "tpr" | "advantage" | "label_accuracy" => return Best::Min,
        _ => {}
    }
    let spread = bare(metric).ends_with("_sd") || bare(metric) == ATTACK;
    if measure(metric) == Measure::Fraction && !spread { Best::Max } else { Best::Min }
}

/// What a simulation gives for a metric and a selector, labeled by its place on the `over` axes.
///
/// A simulation that diverged has no number, whatever it measured before: `best` would hide that it broke down.
/// A metric that such a simulation never has says so, with the reason; one that only was not measured then is missing.
#[must_use]
pub fn pick(history: &History, metric: &str, selector: &Selector, over: Vec<String>) -> Observation {
    of(history, history.series(metric), metric, selector, over)
}

/// As [`pick`] for a metric of [`TIMES`](crate::fl::history::TIMES), of a training that took this many seconds a round.
#[must_use]
pub fn timed(history: &History, pace: f64, metric: &str, selector: &Selector, over: Vec<String>) -> Observation {
    let each = |(round, rounds): (u64, f64)| (round, if metric == "seconds" { pace * rounds } else { pace });
    of(history, history.series("rounds").into_iter().map(each).collect(), metric, selector, over)
}

fn of(history: &History, series: Vec<(u64, f64)>, metric: &str, selector: &Selector, over: Vec<String>) -> Observation {
    if matches!(history.status, Status::Diverged { .. }) {
        return Observation { series, ..Observation::without(over, Sample::Diverged) };
    }
    if series.is_empty() {
        return Observation::inapplicable(over, history.why_not(metric));
    }
    let caveat = history.caveat().map(str::to_owned);
    // Two evaluations may follow one round: before and after the work that ends the simulation. The later one counts.
    let at = |round: u64| series.iter().rev().find(|(r, _)| *r == round).copied();
    let found: Option<(Option<u64>, f64)> = match selector {
        Selector::Best if is_goal(metric) => extreme(&series, best(metric)).map(|(round, value)| (Some(round), value)),
        Selector::Best => {
            let view = metric.split_once(':').map(|(view, _)| format!("{view}:")).unwrap_or_default();
            let round = extreme(&history.series(&format!("{view}test_accuracy")), Best::Max).map(|(round, _)| round);
            round.and_then(at).map(|(round, value)| (Some(round), value))
        }
        Selector::Last => series.last().map(|(round, value)| (Some(*round), *value)),
        Selector::MeanLast(k) => {
            let tail = &series[series.len().saturating_sub(*k)..];
            (!tail.is_empty()).then(|| (None, tail.iter().map(|(_, value)| value).sum::<f64>() / tail.len() as f64))
        }
        Selector::AtRound(round) => at(*round).map(|(round, value)| (Some(round), value)),
        Selector::AtBest(other) => {
            let round = extreme(&history.series(other), best(other)).map(|(round, _)| round);
            round.and_then(at).map(|(round, value)| (Some(round), value))
        }
    };
    let sample = found.map_or(Sample::Missing, |(_, value)| Sample::of(value));
    let round = found.and_then(|(round, _)| round);
    let protected = found.is_some_and(|(round, value)| !tuned(history, metric, selector, &series, round, value));
    let spent = sample.value().filter(|_| protected).and_then(|_| spent(history, round));
    Observation { over, sample, round, series, spent, reason: None, caveat, partial: None }
}

/// The privacy spent until the evaluation after this round, or until the last one.
fn spent(history: &History, round: Option<u64>) -> Option<(f64, f64)> {
    Some((figure(history, "epsilon", round)?, figure(history, "delta", round)?))
}

/// Whether a number is of models that were fine-tuned after the last round, on which no noise acts.
fn tuned(history: &History, metric: &str, selector: &Selector, series: &[(u64, f64)], round: Option<u64>, value: f64) -> bool {
    let view = metric.split_once(':').map_or(history.headline.as_str(), |(view, _)| view);
    if !of_models(metric) || view == "global" {
        return false;
    }
    let finished = |round: u64| history.evaluations.iter().any(|e| e.finished && e.round == round);
    match (selector, round) {
        (_, None) => history.evaluations.iter().any(|e| e.finished),
        // Two evaluations follow the last round: before the fine-tuning and after it.
        (Selector::Best, Some(round)) => {
            finished(round) && series.iter().rev().find(|(at, _)| *at == round).is_some_and(|(_, last)| *last == value)
        }
        (_, Some(round)) => finished(round),
    }
}

/// Whether a metric says something of models: costs do not.
fn of_models(metric: &str) -> bool {
    measure(metric) != Measure::Count && !PLAIN.contains(&bare(metric))
}

/// The privacy that the training spent before the round in which it is attacked; none where what is attacked has no noise.
#[must_use]
pub fn attacked(findings: &Findings, history: &History, metric: &str) -> Option<(f64, f64)> {
    let last = history.evaluations.last()?.round;
    let tuned = history.evaluations.iter().any(|e| e.finished) && findings.round >= last;
    if tuned && metrics(Some("membership")).contains(&metric) && !metric.starts_with("global:") {
        return None;
    }
    let round = history.evaluations.iter().map(|e| e.round).find(|round| *round >= findings.round).unwrap_or(last);
    spent(history, Some(round))
}

/// A figure after this round, or after the last one.
fn figure(history: &History, name: &str, round: Option<u64>) -> Option<f64> {
    let series = history.series(name);
    series.iter().rev().find(|(at, _)| round.is_none_or(|round| round == *at)).map(|(_, value)| *value)
}

/// What an attack gives for a metric and a selector. Where there is nothing to attack, the sample says so.
#[must_use]
pub fn find(findings: &Findings, metric: &str, selector: &str, over: Vec<String>) -> Observation {
    let sample = match &findings.status {
        Ending::NotApplicable { reason } => return Observation::inapplicable(over, reason.clone()),
        Ending::Diverged { .. } => Sample::Diverged,
        Ending::Completed => match findings.value(metric, selector) {
            Some(value) => Sample::of(value),
            None => return Observation::inapplicable(over, findings.why_not(metric)),
        },
    };
    Observation {
        round: Some(findings.round),
        series: sample.value().map(|value| (findings.round, value)).into_iter().collect(),
        partial: findings.partial(metric),
        ..Observation::without(over, sample)
    }
}

/// Whether a metric is something to reach, rather than a spread or a cost.
fn is_goal(metric: &str) -> bool {
    let name = bare(metric);
    measure(metric) != Measure::Count && !PLAIN.contains(&name) && !name.ends_with("_sd") && name != ATTACK
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
    use crate::fl::history::{Evaluation, Measured, Threatened};

    fn sample(history: &History, metric: &str, selector: &str) -> Sample {
        pick(history, metric, &Selector::parse(selector).expect("a selector"), Vec::new()).sample
    }

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
            threat: None,
            validation: None,
            figures: BTreeMap::new(),
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
            ("test_accuracy", "mean_last(2)", 0.75),
            ("rounds", "best", 1.0),
            ("rounds", "last", 2.0),
            ("train_loss", "mean_last(9)", (2.3 + 0.4 + 0.5) / 3.0),
            ("test_accuracy", "at_round(2)", 0.7),
            ("floats_down", "at_best(train_loss)", 10.0),
        ] {
            assert_eq!(sample(&history, metric, selector), Sample::Value(want), "{metric}.{selector}");
        }
        assert_eq!(sample(&history, "test_auc", "best"), Sample::Inapplicable);
        assert_eq!(sample(&history, "test_accuracy", "at_round(7)"), Sample::Missing);
        let best = pick(&history, "test_accuracy", &Selector::Best, vec!["3".to_owned()]);
        assert_eq!((best.round, best.series.len(), best.label()), (Some(1), 3, "3".to_owned()));
    }

    #[test]
    fn selectors_are_read_strictly() {
        for text in ["", "bes", "mean_last", "mean_last()", "mean_last(0)", "mean_last(-1)", "mean_last(2", "at_best(nothing)", "best(1)"] {
            assert_eq!(Selector::parse(text), None, "{text}");
        }
        assert_eq!(Selector::parse("mean_last( 5 )"), Some(Selector::MeanLast(5)));
    }

    #[test]
    fn a_diverged_simulation_has_no_number() {
        let mut history = history(&[(0, 0.9, 0.1)]);
        history.status = Status::Diverged { round: 3 };
        assert_eq!(sample(&history, "test_accuracy", "best"), Sample::Diverged);
    }

    #[test]
    fn times_are_the_pace_times_the_rounds() {
        let history = history(&[(0, 0.1, 2.3), (1, 0.8, 0.4), (2, 0.7, 0.5)]);
        for (metric, selector, want) in
            [("seconds", "best", 1.5), ("seconds", "last", 3.0), ("seconds_per_round", "last", 1.5), ("seconds_per_round", "best", 1.5)]
        {
            let selector = Selector::parse(selector).expect("a selector");
            assert_eq!(timed(&history, 1.5, metric, &selector, Vec::new()).sample, Sample::Value(want), "{metric}");
        }
        assert_eq!((measure("seconds"), best("seconds")), (Measure::Loss, Best::Min));
        let unknown = pick(&history, "seconds", &Selector::Last, Vec::new());
        assert_eq!(unknown.reason.as_deref(), Some("nothing says how long the training took"));
    }

    #[test]
    fn validation_chooses_without_the_test_set() {
        let mut history = history(&[(0, 0.1, 2.3), (1, 0.8, 0.4), (2, 0.7, 0.5)]);
        assert_eq!(sample(&history, "test_accuracy", "at_best(validation_accuracy)"), Sample::Missing);
        for (evaluation, accuracy) in history.evaluations.iter_mut().zip([0.2, 0.5, 0.6]) {
            evaluation.validation = Some(Measured { accuracy: Some(accuracy), ..Measured::of(Vec::new()) });
        }
        assert_eq!(sample(&history, "test_accuracy", "at_best(validation_accuracy)"), Sample::Value(0.7));
        assert_eq!(sample(&history, "validation_accuracy", "best"), Sample::Value(0.6));
        assert_eq!((measure("validation_accuracy"), best("validation_accuracy")), (Measure::Fraction, Best::Max));
    }

    #[test]
    fn what_is_never_measured_says_why() {
        let mut history = history(&[(0, 0.1, 2.3), (1, 0.8, 0.4)]);
        let why = |history: &History, metric: &str| pick(history, metric, &Selector::Last, Vec::new()).reason.unwrap_or_default();
        assert_eq!(why(&history, "epsilon"), "the training has no `privacy` with noise");
        assert_eq!(why(&history, "secure_seconds"), "the training has no `secure`");
        assert_eq!(why(&history, "attack_success"), "the training has no `threat`");
        assert_eq!(why(&history, "personal:test_accuracy"), "the training has no `personal` models");
        assert_eq!(why(&history, "new_clients:test_accuracy"), "the training has no `new_clients`");
        assert_eq!(why(&history, "test_accuracy"), "");
        for evaluation in &mut history.evaluations {
            evaluation.threat =
                Some(Threatened { honest_accuracy: Some(0.5), honest_accuracy_mean: None, attack_success: None, tried: Vec::new() });
        }
        assert_eq!(why(&history, "attack_success"), "the threat wants no answer of a model, only damage");
        history.evaluations.iter_mut().for_each(|e| e.threat.as_mut().expect("set").honest_accuracy = None);
        assert_eq!(why(&history, "attack_success"), "every client is malicious, and success is measured at honest ones");
        assert_eq!(why(&history, "honest_accuracy"), "every client is malicious");
        let findings = Findings { attack: "dlg".to_owned(), ..Findings::default() };
        assert_eq!(find(&findings, "auc", "mean", Vec::new()).reason.as_deref(), Some("`dlg` does not measure `auc`"));
    }

    #[test]
    fn units_and_directions() {
        assert_eq!((measure("personal:test_accuracy"), best("personal:test_accuracy")), (Measure::Fraction, Best::Max));
        assert_eq!((measure("attack_success"), best("attack_success")), (Measure::Fraction, Best::Min));
        assert_eq!((measure("test_accuracy_sd"), best("test_accuracy_sd")), (Measure::Fraction, Best::Min));
        assert_eq!((measure("train_loss"), best("train_loss")), (Measure::Loss, Best::Min));
        assert_eq!((measure("floats_up"), best("floats_up")), (Measure::Count, Best::Min));
    }
}
