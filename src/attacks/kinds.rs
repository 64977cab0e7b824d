//! The parameters of attacks, as the catalog tells them.

use crate::base::{Fault, Outcome};
use crate::spec::Params;
use crate::spec::catalog::{Field, RECIPE, Shape, Type, Variant};
use crate::spec::rules::Breach;
use serde_json::Value;

/// What is known of a training before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Trained {
    /// Its rounds.
    pub rounds: u64,
    /// Whether clients train with Adam.
    pub adam: bool,
    /// Whether its model takes texts.
    pub texts: bool,
    /// The samples of a whole batch where incomplete ones are left out, so that an update is of at least as many.
    pub whole_batches: Option<u64>,
    /// Whether updates can be rebuilt at all: the algorithm sends averaged parameters.
    pub averaged: bool,
    /// The clients that train, where that is known.
    pub clients: Option<usize>,
    /// The clients of a round, where each round has as many.
    pub cohort: Option<usize>,
}

/// What is wrong with an attack on such a training whatever its data are.
#[must_use]
pub fn rules(params: &Params, of: &Trained) -> Vec<Breach> {
    let word = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    let mut checks = Vec::new();
    if let Some(round) = whole("round") {
        checks.push(("round", round_of(round, of.rounds)));
    }
    let member = word("kind") == "membership";
    let (there, where_) = if member { (of.clients, "train") } else { (of.cohort, "take part in a round") };
    if let (Some(wanted), Some(there)) = (whole("clients"), there) {
        checks.push(("clients", enough_clients(wanted, there, where_)));
    }
    if !member {
        checks.push(("of", numbers(of.texts)));
        checks.push(("of", gradients(of.adam, word("kind") == "dlg" && word("variant") == "pfllib")));
    }
    let least = of.whole_batches.filter(|_| of.averaged && !member && checks.iter().all(|(_, check)| check.is_ok()));
    if let Some(least) = least {
        checks.push(("", single(word("kind"), word("labels") == "inferred", least)));
        if let Some(most) = whole("most_samples") {
            checks.push(("most_samples", at_most(least, most)));
        }
    }
    checks.into_iter().filter_map(|(path, check)| Some(Breach::new(path, check.err()?))).collect()
}

/// Refuses an update of so many samples where the class of one is read off.
pub(super) fn single(kind: &str, inferred: bool, samples: u64) -> Outcome<()> {
    match (samples, kind) {
        (0 | 1, _) => Ok(()),
        (_, "idlg") => Err(Fault::stage(format!("iDLG reads off the class of one sample, but the update is of {samples}"))
            .help("train with `batch_size: 1` and `few_shot: 1`, or use `dlg` or `inverting-gradients` for several samples")),
        _ if inferred => Err(Fault::stage(format!("`labels: inferred` reads off the class of one sample, but the update is of {samples}"))
            .help("use `labels: known`")),
        _ => Ok(()),
    }
}

/// Refuses an update of more samples than are rebuilt at once.
pub(super) fn at_most(samples: u64, most: u64) -> Outcome<()> {
    if samples <= most {
        return Ok(());
    }
    Err(Fault::stage(format!("its update is of {samples} samples, but at most {most} are rebuilt (`most_samples`)"))
        .help("cut the training sets by `few_shot`, choose smaller batches, or raise `most_samples`"))
}

/// Refuses a round that the training does not have.
///
/// # Errors
/// A stage fault.
pub fn round_of(round: u64, rounds: u64) -> Outcome<()> {
    if round <= rounds {
        return Ok(());
    }
    Err(Fault::stage(format!("`round` is {round}, but the training has {rounds} rounds"))
        .help("a round is named by how many are done before it: 0 is the first, the number of rounds the one that would come next"))
}

/// Refuses more clients than there are; `doing` completes "only so many clients ...".
///
/// # Errors
/// A stage fault.
pub fn enough_clients(wanted: u64, there: usize, doing: &str) -> Outcome<()> {
    if wanted <= there as u64 {
        return Ok(());
    }
    Err(Fault::stage(format!("`clients` is {wanted}, but only {there} clients {doing}"))
        .help("lower `clients`, or leave it out for all of them"))
}

/// Refuses texts, of which nothing can be rebuilt.
pub(super) fn numbers(texts: bool) -> Outcome<()> {
    if !texts {
        return Ok(());
    }
    Err(Fault::stage("the model takes texts, but gradient attacks rebuild numbers").help("attack a training on pictures or measurements"))
}

/// Refuses updates that are no gradients, unless the attack takes them as they are.
pub(super) fn gradients(adam: bool, as_they_are: bool) -> Outcome<()> {
    if !adam || as_they_are {
        return Ok(());
    }
    Err(Fault::stage("the clients train with `adam`, whose updates are no gradients")
        .help("train with `optimizer: sgd`, or use `variant: pfllib` of `dlg`, which takes the update as it is"))
}

/// The parameters of an `attack` stage: what all kinds share, and the kinds with their own.
#[must_use]
pub fn shape() -> Shape {
    let count = |name, least, default: u64, doc| Field::with(name, Type::at_least(least), default, doc);
    let iterations = |doc| Field::optional("iterations", Type::Int { min: 1, max: 1_000_000 }, doc);
    let restarts = || count("restarts", 1, 1, "Searches from different starts; the one that fits the update best counts.");
    let of_paper = |field: Field| field.only("variant", &["paper"]);
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
        Field::with("seed", Type::at_least(0), 0, "Seed of starts and draws of the attack."),
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
                of_paper(restarts()),
                most(),
                count("batches", 1, 2, "Batches of each client that `variant: pfllib` rebuilds; only there.")
                    .from("bnpc", "PFLlib")
                    .only("variant", &["pfllib"]),
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
                count(
                    "shadow_models",
                    1,
                    4,
                    "Shadow models for each client, from the same initial model as the training; of `method: shadow`.",
                )
                .only("method", &["shadow"]),
                count("shadow_epochs", 1, 20, "Epochs of their training, with step size and batches of the clients; of `method: shadow`.")
                    .only("method", &["shadow"]),
            ],
        },
    ];
    Shape::of(fields).tagged("kind", "Which attack.", variants)
}
