//! What an attack found: its measurements of each client; the `metrics` output of an attack.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How an attack ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// It ran.
    #[default]
    Completed,
    /// There is nothing that it could work on: a result, not a failure.
    NotApplicable {
        /// Why.
        reason: String,
    },
    /// The training had diverged, so that there is nothing sound to observe.
    Diverged {
        /// After this round, from 1.
        round: u64,
    },
}

/// The measurements of one client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfClient {
    /// Its id.
    pub client: usize,
    /// Values by the name of the metric.
    pub values: BTreeMap<String, f64>,
}

/// Everything that an attack found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// Which attack.
    pub attack: String,
    /// How it ended.
    pub status: Outcome,
    /// Rounds that were done before the observed one.
    pub round: u64,
    /// The clients in the order of their ids.
    pub clients: Vec<OfClient>,
    /// What has to be known to read the numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The metrics of attacks: of reconstructions, then of membership inference for the models that clients use, then for the global one.
pub const METRICS: &[&str] =
    &["psnr", "ssim", "mse", "label_accuracy", "auc", "tpr", "advantage", "global:auc", "global:tpr", "global:advantage"];

/// The metrics of one kind of attack; of any kind where none is named.
#[must_use]
pub fn metrics(kind: Option<&str>) -> &'static [&'static str] {
    match kind {
        None => METRICS,
        Some("membership") => &METRICS[REBUILT..],
        Some(_) => &METRICS[..REBUILT],
    }
}

/// So many of the metrics are of reconstructions.
const REBUILT: usize = 4;

/// How the clients' values become one, the usual way first.
pub const SELECTORS: &[&str] = &["mean", "median", "min", "max"];

impl Findings {
    /// The clients' finite values of a metric, in the order of ids.
    #[must_use]
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.clients.iter().filter_map(|client| client.values.get(metric).copied()).filter(|value| value.is_finite()).collect()
    }
    /// Why there is no value of a metric, as a clause for people.
    #[must_use]
    pub fn why_not(&self, metric: &str) -> String {
        let others = self.clients.iter().any(|client| client.values.values().any(|value| value.is_finite()));
        let never = self.clients.iter().all(|client| !client.values.contains_key(metric));
        if !metrics(Some(&self.attack)).contains(&metric) {
            format!("`{}` does not measure `{metric}`", self.attack)
        } else if never && others && metric.starts_with("global:") {
            format!("`{metric}` needs a whole model that clients share, and here they keep a part of theirs")
        } else if never && others && metric == "label_accuracy" {
            format!("`{metric}` needs an attack that works out classes, and this `{}` does not", self.attack)
        } else if metrics(Some("membership")).contains(&metric) {
            format!(
                "`{metric}` is undefined for every client that was attacked: one lacks training or test samples, or its loss is not finite"
            )
        } else {
            format!("`{metric}` is undefined for every client that was attacked")
        }
    }
    /// Over how many of the attacked clients a metric is taken, where some have none.
    #[must_use]
    pub fn partial(&self, metric: &str) -> Option<String> {
        let there = self.values(metric).len();
        // A client on which nothing could be tried has a note instead of values.
        let attacked = self.clients.len() + self.notes.iter().filter(|note| note.starts_with("client ")).count();
        (there > 0 && there < attacked)
            .then(|| format!("over {there} of the {attacked} clients attacked; it is not defined for the others"))
    }
    /// One value out of those of the clients; none where no client has one, or there is no such selector.
    #[must_use]
    pub fn value(&self, metric: &str, selector: &str) -> Option<f64> {
        let mut values = self.values(metric);
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (n, middle) = (values.len(), values.len() / 2);
        match selector {
            "mean" => Some(self.values(metric).iter().sum::<f64>() / n as f64),
            "median" => Some(if n % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }),
            "min" => values.first().copied(),
            "max" => values.last().copied(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_values_become_one() {
        let of = |client, value| OfClient { client, values: BTreeMap::from([("psnr".to_owned(), value)]) };
        let found = Findings { clients: vec![of(0, 4.0), of(2, 1.0), of(3, f64::NAN), of(5, 10.0), of(6, 3.0)], ..Findings::default() };
        let all: Vec<_> = ["mean", "median", "min", "max", "best"].iter().map(|s| found.value("psnr", s)).collect();
        assert_eq!(all, [Some(4.5), Some(3.5), Some(1.0), Some(10.0), None]);
        assert_eq!(found.value("ssim", "mean"), None);
        assert_eq!(found.partial("psnr").as_deref(), Some("over 4 of the 5 clients attacked; it is not defined for the others"));
        assert_eq!((found.partial("ssim"), Findings { clients: vec![of(0, 4.0)], ..Findings::default() }.partial("psnr")), (None, None));
        assert_eq!(metrics(Some("idlg")), ["psnr", "ssim", "mse", "label_accuracy"]);
        assert!(metrics(Some("membership")).iter().all(|name| !metrics(Some("dlg")).contains(name)) && metrics(None) == METRICS);
    }

    #[test]
    fn what_was_never_measured_says_why() {
        let found = |attack: &str, metric: &str| Findings {
            attack: attack.to_owned(),
            clients: vec![OfClient { client: 0, values: BTreeMap::from([(metric.to_owned(), 0.5)]) }],
            ..Findings::default()
        };
        let membership = found("membership", "auc");
        assert!(membership.why_not("global:auc").contains("they keep a part of theirs"), "{}", membership.why_not("global:auc"));
        assert_eq!(membership.why_not("psnr"), "`membership` does not measure `psnr`");
        assert!(found("dlg", "psnr").why_not("label_accuracy").contains("works out classes, and this `dlg` does not"));
        let empty = Findings { attack: "membership".to_owned(), ..Findings::default() };
        assert!(empty.why_not("auc").contains("lacks training or test samples"));
    }
}
