//! The real catalog: every stage kind with its parameters, wired together from data, models and algorithms.

use crate::algorithms::Algorithms;
use crate::attacks;
use crate::fl::history::METRICS;
use crate::results::published;
use crate::spec::catalog::{Bound, Catalog, Field, RECIPE, Shape, StageKind, Type, Variant};
use crate::{data, engine, fl, models};

/// The selectors of `value: stage.metric.selector`.
pub const SELECTORS: &[&str] = &["best", "last", "mean_last(K)", "at_round(K)", "at_best(METRIC)"];

/// The stage kinds of this program.
#[derive(Debug)]
pub struct StageCatalog(Vec<StageKind>);

impl Catalog for StageCatalog {
    fn kinds(&self) -> &[StageKind] {
        &self.0
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
    fn usual_selector(&self, kind: &str) -> Option<&'static str> {
        (kind == "attack").then_some(attacks::findings::SELECTORS[0])
    }
}

/// The catalog with these algorithms.
#[must_use]
pub fn catalog(algorithms: &Algorithms) -> StageCatalog {
    StageCatalog(vec![dataset(), partition(), model(), train(algorithms), attack()])
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
    let count = |name, least, default: u64, doc| Field::with(name, Type::at_least(least), default, doc);
    let iterations = |doc| Field::optional("iterations", Type::Int { min: 1, max: 1_000_000 }, doc);
    let restarts = || count("restarts", 1, 1, "Searches from different starts; the one that fits the update best counts.");
    let most = || count("most_samples", 1, 16, "The most samples that are rebuilt at once; an update of more is an error.");
    let fields = vec![
        Field::required(
            "of",
            Type::Stage { kinds: &["train"], outputs: &["checkpoint", RECIPE] },
            "The training that is looked at; it is not run again.",
        ),
        Field::optional(
            "round",
            Type::at_least(0),
            "The observed round, named by how many are done before it: 0 is the first; absent: the one that would follow the last. Earlier \
             rounds are simulated again from the start.",
        ),
        Field::optional("clients", Type::at_least(1), "Only the first so many clients, by id; all of the round when absent."),
        seed("Seed of starts and draws of the attack."),
    ];
    let variants = vec![
        Variant {
            name: "dlg",
            doc: "Deep leakage from gradients (Zhu et al., NeurIPS 2019): samples and classes whose gradient is the update, by L-BFGS.",
            revision: 1,
            fields: vec![
                Field::with(
                    "variant",
                    Type::Choice(&[
                        ("paper", "cross-entropy with classes that are searched for, on the model before the round; 300 steps"),
                        (
                            "pfllib",
                            "outputs that are searched for by their squared difference, samples behind a sigmoid, on the trained model, against \
                             the whole update, for the first batches; 100 steps, and PFLlib's PSNR with a third of the error",
                        ),
                    ]),
                    "paper",
                    "Which form. PFLlib's is not the default, as it does not find the samples.",
                ),
                iterations("Steps of L-BFGS with torch's defaults, of up to 20 iterations each; that of `variant` when absent."),
                restarts(),
                most(),
                count("batches", 1, 2, "Batches of each client that `variant: pfllib` rebuilds.").from("bnpc", "PFLlib"),
            ],
        },
        Variant {
            name: "idlg",
            doc: "iDLG (Zhao et al., 2020): the class of one sample by the sign of the last layer's gradient, then the sample as DLG.",
            revision: 1,
            fields: vec![iterations("Steps of L-BFGS with torch's defaults; 300 when absent."), restarts()],
        },
        Variant {
            name: "inverting-gradients",
            doc: "Inverting Gradients (Geiping et al., NeurIPS 2020): samples whose update, replayed step by step, points as the observed one \
                  and that are smooth, by Adam inside the range of the data.",
            revision: 1,
            fields: vec![
                iterations("Steps of Adam; 4800 when absent, as the authors'."),
                restarts(),
                most(),
                Field::with("rate", Type::positive(), 0.1, "Step size of Adam; a tenth after 3/8, 5/8 and 7/8 of the steps.")
                    .from("", "the authors' code"),
                Field::with("total_variation", Type::non_negative(), 0.1, "Weight of the total variation.")
                    .from("alpha", "the authors' code"),
                Field::with("signed", Type::Bool, true, "Whether only the signs of the gradient count.").from("", "the authors' code"),
                Field::with(
                    "labels",
                    Type::Choice(&[
                        ("known", "the observer is told the classes"),
                        ("inferred", "the class of one sample is read off the last layer"),
                    ]),
                    "known",
                    "Where the classes come from.",
                ),
            ],
        },
        Variant {
            name: "membership",
            doc: "Membership inference: which of a client's training and test samples its model was trained on, by how it answers them.",
            revision: 1,
            fields: vec![
                Field::with(
                    "method",
                    Type::Choice(&[
                        ("loss-threshold", "the lower the loss, the likelier a member (Yeom et al., CSF 2018)"),
                        ("shadow", "a judge that was taught on shadow models (Shokri et al., S&P 2017)"),
                    ]),
                    "loss-threshold",
                    "What ranks the samples.",
                ),
                count("shadow_models", 1, 4, "Shadow models for each client, from the same initial model as the training."),
                count("shadow_epochs", 1, 20, "Epochs of their training, with step size and batches of the clients."),
            ],
        },
    ];
    StageKind {
        name: "attack",
        doc: "Looks at what a finished training gives away: samples rebuilt from updates, or who was in the training sets.",
        revision: attacks::REVISION,
        shape: Shape::of(fields).tagged("kind", "Which attack.", variants),
        outputs: &["metrics", "images"],
        extends: None,
        device_sensitive: false,
    }
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
    use serde_json::{Map, Value, json};

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
        assert_eq!(params.remove("optimizer"), Some(json!("sgd")));
        params.insert("rounds".to_owned(), json!(1));
        let settings: Settings = serde_json::from_value(Value::Object(params)).expect("every default fits");
        assert_eq!(settings, Settings::default());
    }
}
