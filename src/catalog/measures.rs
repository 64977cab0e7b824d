//! What a training never measures, as its parameters say: a table that asks for it would have no number at all.

use crate::base::Fault;
use crate::fl::history::NEW_CLIENTS;
use crate::spec::Params;
use serde_json::Value;

/// Why a training with these parameters never measures a metric; nothing where it may.
pub(super) fn lacks(params: &Params, metric: &str) -> Option<Fault> {
    let number = |name: &str| params.get(name).and_then(Value::as_f64).unwrap_or_default();
    let off = |name: &str| params.get(name).and_then(|choice| choice.get("kind")).is_none_or(|kind| kind == "none");
    let fault = |what: &str, help: &str| Some(Fault::pipeline(what).help(help));
    match metric {
        _ if metric.starts_with("validation_") && number("validation_ratio") == 0.0 => {
            fault("it puts no samples aside", "give the training a `validation_ratio`: 0.2 is a fifth of each client's training samples")
        }
        _ if metric.split_once(':').is_some_and(|(view, _)| view == NEW_CLIENTS) && number("new_clients") == 0.0 => {
            fault("no client joins after the last round", "give the training `new_clients`: that many of its clients join then")
        }
        "attack_success" if off("threat") => fault("it has no `threat`", "`pflpipe kinds train` lists what a threat may be"),
        "epsilon" | "noise_multiplier" if off("privacy") => fault("it has no `privacy`", "`pflpipe kinds train` lists what privacy may be"),
        _ if metric.starts_with("secure_") && off("secure") => {
            fault("it has no `secure`", "`pflpipe kinds train` lists what secure aggregation may be")
        }
        "train_loss" if params.get("train_loss").is_some_and(|how| how == "off") => {
            fault("its `train_loss` is off", "let `train_loss` be `running` or `full`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_training_does_not_do_is_not_measured() {
        let off = json!({"validation_ratio": 0.0, "new_clients": 0, "threat": {"kind": "none"}, "train_loss": "off"});
        let on = json!({"validation_ratio": 0.2, "new_clients": 2, "threat": {"kind": "zero"}, "privacy": {"kind": "dp-sgd"},
            "secure": {"kind": "secagg"}, "train_loss": "full"});
        let params = |value: &Value| Params::from(value.as_object().expect("a map").clone());
        for metric in crate::fl::history::METRICS {
            assert!(lacks(&params(&on), metric).is_none(), "{metric}");
            let conditional = ["validation_", "new_clients:", "attack_", "epsilon", "noise_", "secure_", "train_loss"];
            assert_eq!(lacks(&params(&off), metric).is_some(), conditional.iter().any(|start| metric.starts_with(start)), "{metric}");
        }
    }
}
