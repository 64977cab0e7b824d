//! The real catalog: every stage kind with its parameters, wired together from data, models and algorithms.

mod inputs;
mod known;
mod measures;
mod rules;

use crate::algorithms::Algorithms;
use crate::base::{Fault, Outcome};
use crate::fl::history::METRICS;
use crate::results::published;
use crate::spec::Params;
use crate::spec::catalog::{Bound, Catalog, Field, Shape, StageKind, Type, Variant};
use crate::spec::rules::{Breach, Setup};
use crate::{attacks, data, defences, engine, fl, models, privacy, secure, threats};
use serde_json::Value;
use std::collections::BTreeSet;

/// The selectors of `value: stage.metric.selector`.
pub const SELECTORS: &[&str] = &["best", "last", "mean_last(K)", "at_round(K)", "at_best(METRIC)"];

/// The stage kinds of this program.
#[derive(Debug)]
pub struct StageCatalog {
    kinds: Vec<StageKind>,
    algorithms: Algorithms,
}

impl Catalog for StageCatalog {
    fn kinds(&self) -> &[StageKind] {
        &self.kinds
    }
    fn published(&self) -> &[&'static str] {
        &published::NAMES
    }
    fn metrics(&self, kind: &str) -> (&[&'static str], &[&'static str]) {
        match kind {
            "train" => (METRICS, SELECTORS),
            "attack" => (attacks::findings::METRICS, attacks::findings::SELECTORS),
            _ => (&[], &[]),
        }
    }
    fn measures(&self, kind: &str, params: &Params) -> &[&'static str] {
        match kind {
            "attack" => attacks::findings::metrics(params.get("kind").and_then(Value::as_str)),
            _ => self.metrics(kind).0,
        }
    }
    fn lacks(&self, kind: &str, params: &Params, metric: &str) -> Option<Fault> {
        if kind == "train" { measures::lacks(params, metric) } else { None }
    }
    fn misses(&self, kind: &str, params: &Params, selector: &str) -> Option<Fault> {
        if kind == "train" { measures::misses(params, selector) } else { None }
    }
    fn settings(&self, table: &str, text: Option<&str>) -> Outcome<Vec<String>> {
        let lines = match text {
            Some(text) => published::read(table, text)?,
            None => published::builtin(table).unwrap_or_default(),
        };
        let all: BTreeSet<String> = lines.iter().map(published::Published::setting).collect();
        Ok(all.into_iter().collect())
    }
    fn usual_selector(&self, kind: &str) -> Option<&'static str> {
        (kind == "attack").then_some(attacks::findings::SELECTORS[0])
    }
    fn rules(&self, stage: &Setup<'_>) -> Vec<Breach> {
        rules::rules(stage, &self.algorithms)
    }
}

/// The catalog with these algorithms.
#[must_use]
pub fn catalog(algorithms: &Algorithms) -> StageCatalog {
    StageCatalog { kinds: vec![dataset(), partition(), model(), train(algorithms), attack()], algorithms: algorithms.clone() }
}

fn seed(doc: &'static str) -> Field {
    Field::with("seed", Type::at_least(0), 0, doc)
}

fn data_of(outputs: &'static [&'static str]) -> Field {
    Field::required("data", Type::Stage { kinds: &["dataset"], outputs }, "The data set.")
}

fn dataset() -> StageKind {
    StageKind {
        name: "dataset",
        doc: "Reads a data set from its original files.",
        revision: 1,
        shape: Shape::default().tagged("name", "Which data set.", data::variants()),
        outputs: &["info", "samples", "labels"],
        extends: None,
        device_sensitive: false,
    }
}

fn partition() -> StageKind {
    StageKind {
        name: "partition",
        doc: "Gives the samples of a data set to clients, and splits each client's samples into training and test set.",
        revision: 1,
        shape: Shape::of(vec![data_of(&["info", "samples", "labels"])]).tagged("kind", "The rule.", data::partition::variants()),
        outputs: &["clients", "manifest", "data"],
        extends: None,
        device_sensitive: false,
    }
}

fn model() -> StageKind {
    StageKind {
        name: "model",
        doc: "Builds a model for a data set and draws its initial parameters.",
        revision: 1,
        shape: Shape::of(vec![data_of(&["info"]), seed("Seed of the initial parameters.")]).tagged(
            "kind",
            "The architecture.",
            models::registry(),
        ),
        outputs: &["model"],
        extends: None,
        device_sensitive: false,
    }
}

fn train(algorithms: &Algorithms) -> StageKind {
    let algorithm = Shape::default().tagged("name", "Which algorithm.", algorithms.variants());
    let fields = vec![
        Field::required("algorithm", Type::Map(algorithm), "The algorithm: a name, or a map of `name` and hyper-parameters."),
        Field::required(
            "partition",
            Type::Stage { kinds: &["partition"], outputs: &["clients", "data"] },
            "Which client holds which sample.",
        ),
        Field::required("model", Type::Stage { kinds: &["model"], outputs: &["model"] }, "The initial model."),
        Field::required("rounds", Type::at_least(1), "Rounds of communication."),
        seed("Seed of batch orders, noise, cohorts and drops."),
        Field::optional("batch_seed", Type::at_least(0), "Seed of batch orders, labels and noise; that of `seed` when absent."),
        Field::optional("sampling_seed", Type::at_least(0), "Seed of cohorts, drops and slow clients; that of `seed` when absent."),
        Field::with("local_epochs", Type::at_least(1), 1, "Passes of a client over its training set in a round.").from("E", "PFLlib"),
        Field::with("batch_size", Type::Int { min: 1, max: 1_000_000 }, 10, "Training samples a step.").from("B", "PFLlib"),
        Field::with("learning_rate", Type::positive(), 0.005, "Step size of the local optimizer.").from("lr", "PFLlib, 4-layer CNN"),
        Field::optional(
            "learning_rate_decay",
            Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1.0) },
            "Factor on a client's learning rate after each of its participations; none when absent.",
        ),
        Field::with("optimizer", Type::Map(optimizer()), "sgd", "The local optimizer, fresh in every round."),
        Field {
            introduced: Some(serde_json::json!("f32")),
            ..Field::with(
                "precision",
                Type::Choice(&[
                    ("f32", "single precision"),
                    (
                        "bf16",
                        "factors rounded to bf16, forward and backward, and multiplied by AVX-512 BF16 in dense layers where the CPU has it; sums and parameters stay in single precision",
                    ),
                ]),
                "f32",
                "Of what the products of the model's convolutions and dense layers are made; on the CPU only.",
            )
        },
        Field::with("drop_last", Type::Bool, true, "Whether an incomplete last training batch is left out, as PFLlib does."),
        Field::with(
            "join_ratio",
            Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1.0) },
            1.0,
            "Fraction of the clients in a round; the count is rounded down.",
        ),
        Field::with("random_join_ratio", Type::Bool, false, "Draw the count of each round between that of `join_ratio` and all."),
        Field::with("drop_rate", Type::fraction(), 0.0, "Fraction of a round's clients whose upload is lost."),
        Field::with(
            "drop_count",
            Type::Choice(&[
                ("truncate", "rounded down as PFLlib does: of 10 clients at rate 0.9 none is left"),
                ("round", "to the nearest, at least 1"),
            ]),
            "truncate",
            "How the number of uploads that arrive is made whole.",
        ),
        Field::with("slow_trainers", Type::fraction(), 0.0, "Fraction of clients that train slowly and do fewer epochs."),
        Field::with("slow_senders", Type::fraction(), 0.0, "Fraction of clients that send slowly."),
        Field::with(
            "slow_drawing",
            Type::Choice(&[
                ("with-replacement", "as PFLlib: there may be fewer slow clients than asked for"),
                ("exact", "exactly as many as asked for"),
            ]),
            "with-replacement",
            "How slow clients are drawn.",
        ),
        Field::optional(
            "time_threshold",
            Type::non_negative(),
            "Uploads of clients with more simulated seconds a round are refused; none when absent.",
        ),
        Field::with("seconds_per_batch", Type::non_negative(), 0.01, "Simulated seconds of a training batch."),
        Field::with("seconds_per_upload", Type::non_negative(), 0.1, "Simulated seconds of an upload; twice that for a slow sender."),
        Field::with("few_shot", Type::at_least(0), 0, "Training samples of each label that a client keeps; 0 keeps all."),
        Field {
            introduced: Some(serde_json::json!(0.0)),
            ..Field::with(
                "validation_ratio",
                Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) },
                0.0,
                "Fraction of a client's training samples on which it does not train; `validation_accuracy` is measured on them. 0 for none.",
            )
        },
        Field::with("new_clients", Type::at_least(0), 0, "The last so many clients of the partition join only after the last round."),
        Field::with("fine_tuning_epochs", Type::at_least(0), 0, "Epochs that a new client trains before it is tested."),
        Field::with("eval_every", Type::at_least(1), 1, "Evaluate every so many rounds, and after the last."),
        Field::with(
            "train_loss",
            Type::Choice(&[
                ("running", "the mean of the losses met while training; costs nothing"),
                ("full", "a pass over all training sets in evaluation mode, as PFLlib does"),
                ("off", "not measured"),
            ]),
            "running",
            "How the training loss is measured.",
        ),
        later("threat", "What malicious clients do.", threats::variants()),
        later("defence", "What the server does about malicious clients.", defences::variants()),
        later("privacy", "How what is sent is protected by noise.", privacy::variants()),
        later("secure", "The protocol by which uploads are summed; simulated, so that it protects nobody.", secure::variants()),
    ];
    StageKind {
        name: "train",
        doc: "Simulates the training of one algorithm.",
        revision: fl::REVISION * 1000 + engine::REVISION,
        shape: Shape::of(fields),
        outputs: &["metrics", "model", "checkpoint"],
        extends: Some("rounds"),
        device_sensitive: true,
    }
}

fn attack() -> StageKind {
    StageKind {
        name: "attack",
        doc: "Looks at what a finished training gives away: samples rebuilt from updates, or who was in the training sets.",
        revision: attacks::REVISION,
        shape: attacks::shape(),
        outputs: &["metrics", "images"],
        extends: None,
        device_sensitive: false,
    }
}

/// A choice among variants of which the first, `none`, is the default and keeps the keys from before there was a choice.
fn later(name: &'static str, doc: &'static str, variants: Vec<Variant>) -> Field {
    let shape = Shape::default().tagged("kind", "Which one.", variants);
    Field { introduced: Some(serde_json::json!({"kind": "none"})), ..Field::with(name, Type::Map(shape), "none", doc) }
}

fn optimizer() -> Shape {
    let decay = || Field::with("weight_decay", Type::non_negative(), 0.0, "Weight of the penalty (weight_decay/2)||w||^2.");
    let below_one = || Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) };
    Shape::default().tagged(
        "name",
        "Which optimizer.",
        vec![
            Variant {
                name: "sgd",
                doc: "Stochastic gradient descent, torch's formula.",
                revision: 1,
                fields: vec![Field::with("momentum", below_one(), 0.0, "Momentum, without dampening."), decay()],
            },
            Variant {
                name: "adam",
                doc: "Adam (Kingma and Ba, ICLR 2015), torch's formula.",
                revision: 1,
                fields: vec![
                    Field::with("beta1", below_one(), 0.9, "Decay of the first moment."),
                    Field::with("beta2", below_one(), 0.999, "Decay of the second moment."),
                    Field::with("epsilon", Type::positive(), 1e-8, "Added to the denominator."),
                    decay(),
                ],
            },
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fl::Settings;
    use crate::spec::catalog::Default as FieldDefault;
    use serde_json::{Map, json};

    #[test]
    fn threats_and_defences_that_are_none_leave_keys_as_they_were() {
        let train = train(&crate::algorithms::all());
        for name in ["threat", "defence", "privacy", "secure"] {
            let field = train.shape.fields.iter().find(|field| field.name == name).expect("a parameter");
            assert_eq!(field.introduced, Some(json!({"kind": "none"})));
            let Type::Map(shape) = &field.ty else { panic!("`{name}` is a map") };
            assert!(shape.fields.is_empty() && shape.variant("none").is_some_and(|none| none.fields.is_empty()));
        }
    }

    #[test]
    fn the_defaults_of_a_training_are_those_of_the_simulation() {
        let train = train(&crate::algorithms::all());
        let mut params: Map<String, Value> = Map::new();
        for field in train.shape.fields {
            if let FieldDefault::Is(value) = field.default {
                params.insert(field.name.to_owned(), value);
            }
        }
        params.remove("seed");
        for name in ["threat", "defence", "privacy", "secure"] {
            assert_eq!(params.remove(name), Some(json!("none")));
        }
        assert_eq!(params.remove("optimizer"), Some(json!("sgd")));
        params.insert("rounds".to_owned(), json!(1));
        let settings: Settings = serde_json::from_value(Value::Object(params)).expect("every default fits");
        assert_eq!(settings, Settings::default());
    }
}
