//! What a simulation measured: every evaluation, with the values of each client.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole record of a simulation; the `metrics` output of a training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// How it ended.
    pub status: Status,
    /// The name of the headline view.
    pub headline: String,
    /// The evaluations in order.
    pub evaluations: Vec<Evaluation>,
    /// The clients that joined after the last round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newcomers: Option<Measured>,
    /// The clients that are malicious at some time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attackers: Vec<usize>,
    /// Events that explain a result: a round without uploads, undefined values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether no client ever trained, though gradients were computed for something else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrained: bool,
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Status {
    /// All rounds ran.
    #[default]
    Completed,
    /// A loss or a parameter was no longer finite after this round (counted from 1).
    Diverged {
        /// The round.
        round: u64,
    },
}

/// The measurements after a number of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Rounds done before it; 0 is the initial model.
    pub round: u64,
    /// Whether it was taken after the work that follows the last round (FedBABU's fine-tuning).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// The measurements of each view.
    pub views: BTreeMap<String, Measured>,
    /// The sample-weighted mean training loss, absent where none was measured.
    pub train_loss: Option<f64>,
    /// Floats from the server to clients so far.
    pub floats_down: u64,
    /// Floats from clients to the server so far.
    pub floats_up: u64,
    /// Batch gradients computed so far.
    pub gradient_evaluations: u64,
    /// What honest clients have of their model under a threat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threat: Option<Threatened>,
    /// The headline view on the clients' validation samples, where some were put aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Measured>,
    /// Other numbers of what acts on the rounds, such as the privacy spent so far.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

/// The headline model of honest clients under a threat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threatened {
    /// Correct predictions over clean test samples of honest clients, in [0, 1].
    pub honest_accuracy: Option<f64>,
    /// The unweighted mean of the honest clients' accuracies on clean test samples.
    pub honest_accuracy_mean: Option<f64>,
    /// Predictions that the threat wants over the samples on which it is tried, of all honest clients together, in [0, 1]; absent for
    /// a threat that wants none.
    pub attack_success: Option<f64>,
    /// For each honest client its id, wanted predictions, and samples on which the threat was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<(usize, u64, u64)>,
}

/// The test measurements of one view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Correct predictions over test samples of all clients, in [0, 1].
    pub accuracy: Option<f64>,
    /// The unweighted mean of the clients' accuracies.
    pub accuracy_mean: Option<f64>,
    /// The population standard deviation of the clients' accuracies.
    pub accuracy_sd: Option<f64>,
    /// The mean accuracy of the worst tenth of the clients (at least one).
    pub accuracy_worst10: Option<f64>,
    /// The sample-weighted mean of the clients' micro-averaged AUC, over the clients where it is defined.
    pub auc: Option<f64>,
    /// Why the AUC is undefined for some or all clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc_undefined: Option<String>,
    /// The values of each client.
    pub clients: Vec<ClientMeasured>,
}

/// The measurements of one client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientMeasured {
    /// Correct predictions.
    pub correct: u64,
    /// Test samples that were scored.
    pub n: u64,
    /// Micro-averaged AUC.
    pub auc: Option<f64>,
    /// Sum over batches of the batch-mean training loss times the rows, when it was measured by a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_loss_sum: Option<f64>,
    /// Rows behind that sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_n: Option<u64>,
}

impl Measured {
    /// Aggregates the clients' values.
    #[must_use]
    pub fn of(clients: Vec<ClientMeasured>) -> Self {
        let (correct, n) = clients.iter().fold((0, 0), |(c, n), m| (c + m.correct, n + m.n));
        let mut rates: Vec<f64> = clients.iter().filter(|m| m.n > 0).map(|m| m.correct as f64 / m.n as f64).collect();
        let mean = average(&rates);
        let sd = mean.map(|mean| (rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / rates.len() as f64).sqrt());
        rates.sort_by(f64::total_cmp);
        let worst = average(&rates[..rates.len().div_ceil(10)]);
        let defined: Vec<(f64, f64)> = clients.iter().filter_map(|m| Some((m.auc?, m.n as f64))).collect();
        let weight: f64 = defined.iter().map(|(_, n)| n).sum();
        let auc = (weight > 0.0).then(|| defined.iter().map(|(a, n)| a * n).sum::<f64>() / weight);
        let undefined = clients.len() - defined.len();
        Self {
            accuracy: (n > 0).then(|| correct as f64 / n as f64),
            accuracy_mean: mean,
            accuracy_sd: sd,
            accuracy_worst10: worst,
            auc,
            auc_undefined: (undefined > 0)
                .then(|| format!("{undefined} of {} clients have no test samples or scores that are not finite", clients.len())),
            clients,
        }
    }
}

impl Threatened {
    /// Summarises the honest clients: id, clean measurements, and (wanted predictions, samples tried).
    #[must_use]
    pub fn of(clients: Vec<(usize, ClientMeasured, (u64, u64))>) -> Self {
        let clean = Measured::of(clients.iter().map(|(_, measured, _)| *measured).collect());
        let (wins, n) = clients.iter().fold((0, 0), |(wins, n), (.., tried)| (wins + tried.0, n + tried.1));
        let tried = clients.iter().map(|(id, _, (wins, n))| (*id, *wins, *n));
        Self {
            honest_accuracy: clean.accuracy,
            honest_accuracy_mean: clean.accuracy_mean,
            attack_success: (n > 0).then(|| wins as f64 / n as f64),
            tried: if n > 0 { tried.collect() } else { Vec::new() },
        }
    }
}

impl Measured {
    /// The value of a metric that begins with `test_`.
    fn value(&self, metric: &str) -> Option<f64> {
        self.figure(metric.strip_prefix("test_")?)
    }
    /// The value of a metric by its name without `test_` or `validation_`.
    fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "accuracy" => self.accuracy,
            "accuracy_mean" => self.accuracy_mean,
            "accuracy_sd" => self.accuracy_sd,
            "accuracy_worst10" => self.accuracy_worst10,
            "auc" => self.auc,
            _ => None,
        }
    }
}

fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl History {
    /// The values of a metric over the evaluations, as (round, value); absent values are left out.
    ///
    /// Metrics are the fields of [`Measured`] with the prefix `test_` (of the headline view; `VIEW:test_accuracy` of another one),
    /// the same with `validation_` where samples were put aside, `train_loss`, `floats_up`, `floats_down`, `gradient_evaluations`, `rounds`, the numbers of [`Threatened`] and those that interventions name. The view [`NEW_CLIENTS`] has one value, after the last
    /// round.
    #[must_use]
    pub fn series(&self, metric: &str) -> Vec<(u64, f64)> {
        let (view, metric) = metric.split_once(':').unwrap_or((&self.headline, metric));
        if view == NEW_CLIENTS {
            let round = self.evaluations.last().map_or(0, |last| last.round);
            let value = self.newcomers.as_ref().and_then(|newcomers| newcomers.value(metric));
            return value.map(|value| (round, value)).into_iter().collect();
        }
        self.evaluations
            .iter()
            .filter_map(|e| {
                let value = match metric {
                    "train_loss" => e.train_loss,
                    "floats_up" => Some(e.floats_up as f64),
                    "floats_down" => Some(e.floats_down as f64),
                    "gradient_evaluations" => Some(e.gradient_evaluations as f64),
                    "rounds" => Some(e.round as f64),
                    // Without a threat everybody is honest.
                    "honest_accuracy" => e.threat.as_ref().map_or_else(|| e.views.get(view)?.accuracy, |threat| threat.honest_accuracy),
                    "honest_accuracy_mean" => {
                        e.threat.as_ref().map_or_else(|| e.views.get(view)?.accuracy_mean, |threat| threat.honest_accuracy_mean)
                    }
                    "attack_success" => e.threat.as_ref()?.attack_success,
                    _ if metric.starts_with("validation_") => e.validation.as_ref()?.figure(&metric["validation_".len()..]),
                    _ if e.figures.contains_key(metric) => e.figures.get(metric).copied(),
                    _ => e.views.get(view)?.value(metric),
                };
                Some((e.round, value?))
            })
            .collect()
    }
}

/// The metrics of how long a training took; its record has it, for two equal results may take different times.
pub const TIMES: [&str; 2] = ["seconds", "seconds_per_round"];

impl History {
    /// Why a metric has no values, as a clause for people. It is meant for metrics whose [`History::series`] is empty.
    #[must_use]
    pub fn why_not(&self, metric: &str) -> String {
        let (view, name) = metric.split_once(':').unwrap_or((&self.headline, metric));
        let last = self.evaluations.last();
        let honest = last.and_then(|last| last.threat.as_ref()).map(|threat| threat.honest_accuracy.is_some());
        let reason = match name {
            _ if view == NEW_CLIENTS && self.newcomers.is_none() => "the training has no `new_clients`",
            "epsilon" | "noise_multiplier" => "the training has no `privacy` with noise",
            _ if name.starts_with("secure_") => "the training has no `secure`",
            "attack_success" => match honest {
                None => "the training has no `threat`",
                Some(false) => "every client is malicious, and success is measured at honest ones",
                Some(true) => "the threat wants no answer of a model, only damage",
            },
            "honest_accuracy" | "honest_accuracy_mean" if honest == Some(false) => "every client is malicious",
            "train_loss" if self.took_no_step() => "no client ever took a training step",
            "train_loss" => "the training does not measure its loss",
            "seconds" | "seconds_per_round" => "nothing says how long the training took",
            _ if name.starts_with("validation_") => "the training has no `validation_ratio`",
            _ if last.is_some_and(|last| !last.views.contains_key(view)) => return format!("the training has no `{view}` models"),
            "test_auc" => {
                let undefined = last.and_then(|last| last.views.get(view)?.auc_undefined.clone());
                return undefined.unwrap_or_else(|| "the AUC is undefined".to_owned());
            }
            _ if self.took_no_step() => "no client ever took a training step, so that the method has no answer to be tested",
            _ if self.answered() => "this evaluation did not measure it",
            _ => "no test sample was scored: no client has one, or the method never had an answer for any",
        };
        reason.to_owned()
    }

    /// What makes the numbers of a training worthless, as a sentence; nothing for one that trained.
    #[must_use]
    pub fn caveat(&self) -> Option<&'static str> {
        self.took_no_step().then_some(NO_STEP)
    }

    fn took_no_step(&self) -> bool {
        let idle = || self.evaluations.last().is_some_and(|last| last.round > 0 && last.gradient_evaluations == 0);
        self.status == Status::Completed && (self.untrained || idle())
    }

    /// Whether any test sample was scored at any time.
    fn answered(&self) -> bool {
        self.evaluations.iter().flat_map(|evaluation| evaluation.views.values()).any(|view| view.accuracy.is_some())
    }
}

/// What is said of a training in which no client took a step.
pub const NO_STEP: &str = "no client ever took a training step, so that nothing was learned; with `drop_last`, a client with fewer training samples than `batch_size` takes none";

/// The view of the clients that join after the last round.
pub const NEW_CLIENTS: &str = "new_clients";

/// The metrics of a training: those that [`History::series`] knows, and [`TIMES`], which no result knows. Views that an algorithm or a setting does not have are missing values.
pub const METRICS: &[&str] = &[
    "test_accuracy",
    "test_accuracy_mean",
    "test_accuracy_sd",
    "test_accuracy_worst10",
    "test_auc",
    "validation_accuracy",
    "validation_accuracy_mean",
    "validation_accuracy_sd",
    "validation_accuracy_worst10",
    "validation_auc",
    "train_loss",
    "floats_up",
    "floats_down",
    "gradient_evaluations",
    "rounds",
    "seconds",
    "seconds_per_round",
    "honest_accuracy",
    "honest_accuracy_mean",
    "attack_success",
    "epsilon",
    "noise_multiplier",
    "secure_bytes_up",
    "secure_bytes_setup",
    "secure_bytes_masked",
    "secure_bytes_recovery",
    "secure_bytes_down",
    "secure_seconds",
    "secure_dropped",
    "global:test_accuracy",
    "personal:test_accuracy",
    "generic:test_accuracy",
    "inherited:test_accuracy",
    "model:test_accuracy",
    "new_clients:test_accuracy",
    "new_clients:test_accuracy_mean",
    "new_clients:test_accuracy_worst10",
    "new_clients:test_auc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_clients_are_a_view_with_one_value() {
        let client = ClientMeasured { correct: 3, n: 4, auc: None, train_loss_sum: None, train_n: None };
        let history = History { newcomers: Some(Measured::of(vec![client])), ..History::default() };
        assert_eq!(history.series("new_clients:test_accuracy"), [(0, 0.75)]);
        assert!(history.series("new_clients:test_auc").is_empty() && History::default().series("new_clients:test_accuracy").is_empty());
    }

    #[test]
    fn a_training_without_a_step_is_told_from_one_without_tests() {
        let evaluation = |round, gradients, clients: Vec<ClientMeasured>| Evaluation {
            round,
            finished: false,
            views: BTreeMap::from([("global".to_owned(), Measured::of(clients))]),
            train_loss: None,
            floats_down: 0,
            floats_up: 0,
            gradient_evaluations: gradients,
            threat: None,
            validation: None,
            figures: BTreeMap::new(),
        };
        let silent = || ClientMeasured { correct: 0, n: 0, auc: None, train_loss_sum: None, train_n: None };
        let history = |evaluation| History { headline: "global".into(), evaluations: vec![evaluation], ..History::default() };
        let none = history(evaluation(2, 0, vec![silent()]));
        assert!(none.why_not("test_accuracy").starts_with("no client ever took a training step") && none.caveat() == Some(NO_STEP));
        let untested = history(evaluation(2, 7, vec![silent()]));
        assert!(untested.why_not("test_accuracy").starts_with("no test sample was scored") && untested.caveat().is_none());
        assert!(history(evaluation(0, 0, vec![silent()])).caveat().is_none(), "nothing was to be trained yet");
    }

    #[test]
    fn weighted_and_unweighted_accuracy_differ_and_both_are_reported() {
        let client = |correct, n| ClientMeasured { correct, n, auc: None, train_loss_sum: None, train_n: None };
        let m = Measured::of(vec![client(90, 100), client(1, 10), client(0, 0)]);
        assert_eq!(m.accuracy, Some(91.0 / 110.0));
        assert_eq!(m.accuracy_mean, Some(0.5));
        assert!((m.accuracy_sd.expect("two clients") - 0.4).abs() < 1e-12);
        assert_eq!(m.accuracy_worst10, Some(0.1));
        assert_eq!(m.auc, None);
        assert!(m.auc_undefined.is_some());
    }
}
