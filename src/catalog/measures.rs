//! What a training never measures, as its parameters say: a table that asks for it would have no number at all.

use crate::base::Fault;
use crate::fl::history::{NEW_CLIENTS, TIMES};
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

/// Why a selector never finds an evaluation of a training with these parameters: it is made by no round, or by what no evaluation has.
pub(super) fn misses(params: &Params, selector: &str) -> Option<Fault> {
    let (name, inside) = selector.split_once('(')?;
    let inside = inside.strip_suffix(')')?.trim();
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    match name.trim() {
        "at_best" if TIMES.contains(&inside) => Some(
            Fault::pipeline(format!("`{inside}` is of a whole training: no evaluation has the best one"))
                .help("choose by what evaluations measure, such as `at_best(validation_accuracy)`"),
        ),
        "at_round" => {
            let (round, rounds, every) = (inside.parse::<u64>().ok()?, whole("rounds")?, whole("eval_every")?.max(1));
            if round > rounds {
                return Some(
                    Fault::pipeline(format!("there is no round {round} of {rounds}"))
                        .help(format!("`at_round({rounds})` is after the last one; or raise `rounds`")),
                );
            }
            let near = round / every * every;
            (round < rounds && near != round).then(|| {
                Fault::pipeline(format!("with `eval_every: {every}` nothing is measured after round {round}"))
                    .help(format!("`at_round({})` is measured; or change `eval_every`", if near == 0 { every.min(rounds) } else { near }))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selectors_beyond_what_is_measured_say_why() {
        let params = Params::from(json!({"rounds": 10, "eval_every": 4}).as_object().expect("a map").clone());
        let what = |selector: &str| misses(&params, selector).map(|fault| fault.what);
        for sound in ["last", "best", "mean_last(20)", "at_round(0)", "at_round(8)", "at_round(10)", "at_best(train_loss)"] {
            assert_eq!(what(sound), None, "{sound}");
        }
        assert_eq!(what("at_round(11)").as_deref(), Some("there is no round 11 of 10"));
        assert_eq!(what("at_round(9)").as_deref(), Some("with `eval_every: 4` nothing is measured after round 9"));
        assert!(what("at_best(seconds)").is_some_and(|what| what.contains("whole training")));
    }

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
