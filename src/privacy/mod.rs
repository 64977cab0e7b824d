//! Differential privacy of a training: the `privacy` of a `train` stage, one file a mechanism, and the accountant.
//!
//! All of them protect the parameters that an algorithm averages, and need that it sends nothing else. Noise is drawn by seed, client
//! and round with a purpose of its own, so that a run repeats bit for bit; who knows the seed can take it off again, and noise from
//! floating point leaks in known ways. This measures what privacy costs, it is no library to deploy.
//!
//! **Sampling.** With `accounting: poisson` the epsilon is that of cohorts (and batches) in which each client (sample) takes part
//! independently with the same probability, which is how such numbers are usually given. The simulation draws cohorts of a fixed size
//! without replacement and batches from a shuffled training set, so that it is not exactly the epsilon of what was run.
//! `unamplified` counts a release for each round (pass over the training set) in which a client (sample) can be, uses no randomness
//! of sampling, and holds for what was run.

pub mod accountant;
mod dp_fedavg;
mod dp_sgd;
mod local;
mod mechanism;
pub mod rdp;

use crate::base::{Fault, Outcome};
use crate::fl::per_sample::unclipped;
use crate::fl::{Intervention, Sends, Simulation, World};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use crate::spec::rules::Breach;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The name by which nothing is protected.
pub const NONE: &str = "none";

/// How sampling enters the epsilon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Accounting {
    Poisson,
    Unamplified,
}

/// The kinds of `privacy` with their parameters.
#[must_use]
pub fn variants() -> Vec<Variant> {
    let delta = || Type::Float { min: Bound::Excl(0.0), max: Bound::Excl(1.0) };
    let delta_doc = "Probability with which the guarantee may fail, below one over the number of what is protected; no epsilon says \
                     anything without it.";
    let central_doc = "Probability with which the guarantee may fail, below one over the number of what is protected; it may be absent only \
                       without noise.";
    let clip = |doc| Field::optional("clip", Type::positive(), doc).from("S", "");
    let noise = || {
        Field::optional(
            "noise_multiplier",
            Type::non_negative(),
            "Standard deviation of the noise over the clip; 0: no noise. Either this or `epsilon`.",
        )
        .from("z", "")
    };
    let target = || {
        Field::optional(
            "epsilon",
            Type::positive(),
            "Privacy to be spent in all rounds; the least noise multiplier for it is found. Either this or `noise_multiplier`.",
        )
        .from("epsilon", "")
    };
    let accounting = || {
        Field::with(
            "accounting",
            Type::Choice(&[
                ("poisson", "as if each client or sample took part independently with the same probability; the usual number"),
                ("unamplified", "without the benefit of sampling; holds for what the simulation really draws"),
            ]),
            "poisson",
            "How sampling enters the epsilon.",
        )
    };
    let each = |doc| Field::required("epsilon", Type::positive(), doc).from("epsilon", "");
    vec![
        Variant { name: NONE, doc: "What is sent is not protected.", revision: 1, fields: Vec::new() },
        Variant {
            name: "dp-fedavg",
            doc: "Protects clients: updates are clipped to the norm S, and N(0, (z S / (q W))^2) is added to their sum over q W, where W \
                  is the weight of all clients and q the fraction in a round (McMahan et al., ICLR 2018).",
            revision: 1,
            fields: vec![
                clip("Greatest Euclidean norm of an update, over all averaged layers together; may be absent without noise."),
                noise(),
                target(),
                Field::optional("delta", delta(), central_doc).from("delta", ""),
                Field::with(
                    "weights",
                    Type::Choice(&[
                        ("uniform", "every client 1"),
                        ("samples", "a client's number of samples over the greatest one, which counts as public"),
                    ]),
                    "uniform",
                    "The weight of an update.",
                ),
                accounting(),
            ],
        },
        Variant {
            name: "dp-sgd",
            doc: "Protects samples: on every local step each sample's gradient is clipped to the norm C, and N(0, (z C / B)^2) is added to \
                  the mean over the batch (Abadi et al., CCS 2016).",
            revision: 1,
            fields: vec![
                clip("Greatest Euclidean norm of the gradient of one sample; may be absent without noise."),
                noise(),
                target(),
                Field::optional("delta", delta(), central_doc).from("delta", ""),
                accounting(),
            ],
        },
        Variant {
            name: "local-gaussian",
            doc: "Protects uploads, from the server too: each client clips its update to the Euclidean norm C and adds Gaussian noise for \
                  a sensitivity of 2 C.",
            // 2: the analytic noise for an epsilon above 700 was wrong.
            revision: 2,
            fields: vec![
                Field::required("clip", Type::positive(), "Greatest Euclidean norm of an update.").from("C", ""),
                each("Privacy spent by one upload; what all uploads of a client spend is measured."),
                Field::required("delta", delta(), delta_doc).from("delta", ""),
                Field::with(
                    "calibration",
                    Type::Choice(&[
                        ("classic", "sqrt(2 ln(1.25 / delta)) 2 C / epsilon, for an epsilon of at most 1 (Dwork and Roth 2014)"),
                        ("analytic", "the least noise, for every epsilon (Balle and Wang 2018)"),
                    ]),
                    "classic",
                    "How the noise follows from epsilon and delta.",
                ),
            ],
        },
        Variant {
            name: "local-laplace",
            doc: "Protects uploads, from the server too: each client clips its update to a sum of absolute values of C and adds Laplace \
                  noise of scale 2 C / (epsilon - ln(1 - delta)).",
            revision: 1,
            fields: vec![
                Field::required("clip", Type::positive(), "Greatest sum of the absolute values of an update.").from("C", ""),
                each("Privacy spent by one upload; what all uploads of a client spend is measured."),
                Field::with(
                    "delta",
                    Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) },
                    0.0,
                    "Probability with which the guarantee may fail.",
                )
                .from("delta", ""),
            ],
        },
    ]
}

/// The mechanism that `params` (its `kind` and every parameter) describe, with noise of the simulation's batch seed; absent where
/// there is none.
///
/// # Errors
/// A stage fault that names the rule which does not hold.
pub fn build(params: &Map<String, Value>, world: &World) -> Outcome<Option<Box<dyn Intervention>>> {
    let mut params = params.clone();
    let kind = params.remove("kind").unwrap_or_default();
    let seed = world.settings.batch_seed;
    Ok(Some(match kind.as_str().unwrap_or_default() {
        NONE => return Ok(None),
        "dp-fedavg" => Box::new(dp_fedavg::DpFedAvg::new(&read(params)?, world, seed)?),
        "dp-sgd" => Box::new(dp_sgd::DpSgd::new(&read(params)?, world, seed)?),
        "local-gaussian" => Box::new(local::Local::gaussian(&read(params)?, seed)?),
        "local-laplace" => Box::new(local::Local::laplace(&read(params)?, seed)),
        other => return Err(Fault::stage(format!("there is no privacy of the kind `{other}`"))),
    }))
}

/// What is known of a training before it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Its rounds.
    pub rounds: u64,
    /// The clients that train.
    pub clients: Option<usize>,
    /// The clients of a round, where each round has as many.
    pub cohort: Option<usize>,
    /// The training samples of a client on average.
    pub samples: Option<f64>,
    /// Whether the model keeps running statistics.
    pub statistics: bool,
}

/// What can be known to be wrong before anything runs: parameters that do not go together, algorithms that send more than is protected
/// or do more with samples than take their gradients, and `others` (a defence, a protocol) that make another aggregate.
#[must_use]
pub fn rules(params: &Map<String, Value>, algorithm: &dyn Simulation, others: &[&str], known: &Known) -> Vec<Breach> {
    let (sends, more) = (algorithm.sends(), algorithm.beside_gradients());
    let kind = params.get("kind").and_then(Value::as_str).unwrap_or(NONE);
    let number = |name: &str| params.get(name).and_then(Value::as_f64);
    let mut checks = Vec::new();
    match kind {
        NONE => return Vec::new(),
        "dp-fedavg" | "dp-sgd" => {
            let noise = number("noise_multiplier");
            checks.push(("", one_of(noise, number("epsilon"))));
            checks.push(("", needs_clip(noise.unwrap_or(1.0), number("clip"))));
            checks.push(("", needs_delta(noise.unwrap_or(1.0), number("delta"))));
        }
        "local-gaussian" if params.get("calibration").and_then(Value::as_str) == Some("classic") => {
            checks.push(("epsilon", local::classic_holds(number("epsilon").unwrap_or_default())));
        }
        _ => {}
    }
    checks.push(("", only_averaged(kind, sends)));
    if sends == Sends::Averaged && known.statistics {
        checks.push(("", no_statistics(kind)));
    }
    if let (Some(reason), "dp-sgd", Sends::Averaged, Some(_)) = (more, kind, sends, number("clip")) {
        checks.push(("", Err(unclipped(reason))));
    }
    if kind == "dp-sgd" && number("epsilon").is_some() && more.is_none() && !algorithm.usual_passes() {
        checks.push(("epsilon", Err(unplanned("the algorithm trains for more passes than `local_epochs` says"))));
    }
    checks.extend(others.iter().map(|other| ("", goes_with(kind, other))));
    let sound = checks.iter().all(|(_, check)| check.is_ok());
    if let (true, Some(epsilon), Some(delta)) = (sound, number("epsilon"), number("delta")) {
        let unamplified = params.get("accounting").and_then(Value::as_str) == Some("unamplified");
        checks.push(("epsilon", within_reach(kind, (epsilon, delta), unamplified, known)));
    }
    let mut breaches: Vec<Breach> = checks.into_iter().filter_map(|(path, check)| Some(Breach::new(path, check.err()?))).collect();
    if number("noise_multiplier") != Some(0.0) {
        breaches.extend(number("delta").and_then(|delta| useless(kind, delta, known)));
    }
    breaches
}

/// Refuses an epsilon that no noise reaches in such a training, as far as is known without its data.
fn within_reach(kind: &str, (epsilon, delta): (f64, f64), unamplified: bool, known: &Known) -> Outcome<()> {
    match (kind, known.clients, known.cohort) {
        ("dp-fedavg", Some(clients), Some(cohort)) => {
            let rate = if unamplified { 1.0 } else { cohort as f64 / clients as f64 };
            accountant::reachable(epsilon, |noise| accountant::gaussian_epsilon(rate, noise, known.rounds, delta))
        }
        // How many steps there are only the data say. Whatever is below what one release spends is out of reach all the same.
        ("dp-sgd", ..) => {
            let least = |noise: f64| {
                if noise == accountant::NOISES.1 { accountant::gaussian_epsilon(1e-9, noise, 1, delta) } else { f64::INFINITY }
            };
            accountant::reachable(epsilon, least)
        }
        _ => Ok(()),
    }
}

/// A delta that promises nothing where nobody knows how many are protected.
const USELESS: f64 = 0.01;

/// Remarks on a delta that is no promise: with one over the number of what is protected, giving one of them away is allowed.
fn useless(kind: &str, delta: f64, known: &Known) -> Option<Breach> {
    let (protected, number) = match kind {
        "dp-sgd" => ("a client's training samples", known.samples.map(f64::round)),
        _ => ("clients", known.clients.map(|clients| clients as f64)),
    };
    let (limit, of) = match number.filter(|number| *number >= 1.0) {
        Some(number) => (1.0 / number, format!("one over the number of {protected}, {number}")),
        None => (USELESS, format!("{USELESS}")),
    };
    (delta >= limit).then(|| {
        let what = format!("`delta` is {delta}, not below {of}: the guarantee may fail for one of them, so that it says nothing");
        Breach::warning("delta", Fault::stage(what).help("give a smaller `delta`; a tenth of that limit or less is usual"))
    })
}

/// Refuses a defence or a protocol whose aggregate is not the one that the noise is for.
fn goes_with(kind: &str, other: &str) -> Outcome<()> {
    if kind != "dp-fedavg" {
        return Ok(());
    }
    Err(Fault::stage(format!(
        "`dp-fedavg` cannot go with `{other}`: its noise fits the mean of clipped updates, and no other aggregate of them"
    ))
    .help("leave one of them out, or protect single samples by `dp-sgd`, or uploads by `local-gaussian`"))
}

fn read<T: DeserializeOwned>(params: Map<String, Value>) -> Outcome<T> {
    serde_json::from_value(Value::Object(params)).map_err(|e| Fault::stage(format!("the parameters of `privacy` do not fit: {e}")))
}

/// What a mechanism says beside measurements. Without noise there is no epsilon, not even before the first round.
fn figures(epsilon: f64, delta: f64, noise: f64) -> Vec<(&'static str, f64)> {
    let mut figures = vec![("noise_multiplier", noise)];
    if noise > 0.0 {
        figures.extend([("epsilon", epsilon), ("delta", delta)]);
    }
    figures
}

fn one_of(noise: Option<f64>, epsilon: Option<f64>) -> Outcome<()> {
    match (noise, epsilon) {
        (Some(_), None) | (None, Some(_)) => Ok(()),
        (None, None) => Err(Fault::stage("`privacy` has neither `noise_multiplier` nor `epsilon`")
            .help("give the noise multiplier, or the epsilon for which it shall be found")),
        (Some(_), Some(_)) => {
            Err(Fault::stage("`privacy` has both `noise_multiplier` and `epsilon`")
                .help("leave one of them out: each follows from the other"))
        }
    }
}

/// Noise cannot be found for an epsilon where nobody knows before how many steps there are.
fn unplanned(reason: &str) -> Fault {
    Fault::stage(format!("`dp-sgd` finds its noise for one usual training a round, but {reason}"))
        .help("give `noise_multiplier` instead of `epsilon` for this algorithm; the epsilon that comes out is exact")
}

/// Noise without a delta has no epsilon; without noise nothing is spent, and no delta is needed.
fn needs_delta(noise: f64, delta: Option<f64>) -> Outcome<()> {
    if noise > 0.0 && delta.is_none() {
        return Err(Fault::stage("`privacy` has noise but no `delta`: no epsilon says anything without it")
            .help("give `delta`, below one over the number of what is protected"));
    }
    Ok(())
}

fn needs_clip(noise: f64, clip: Option<f64>) -> Outcome<()> {
    if noise > 0.0 && clip.is_none() {
        return Err(Fault::stage("`privacy` has noise but no `clip`: nothing bounds what the noise shall hide")
            .help("give `clip`; the median norm without noise is a good start"));
    }
    Ok(())
}

/// Refuses algorithms and models of which anything is sent that the mechanism does not protect.
fn nothing_else(name: &str, world: &World, sends: Sends) -> Outcome<()> {
    only_averaged(name, sends)?;
    if world.initial.buffers.values.is_empty() { Ok(()) } else { no_statistics(name) }
}

fn no_statistics(name: &str) -> Outcome<()> {
    Err(Fault::stage(format!("`{name}` does not apply: it does not protect the running statistics of the model's normalisation layers"))
        .help("use a model without batch normalisation"))
}

fn only_averaged(name: &str, sends: Sends) -> Outcome<()> {
    match sends {
        Sends::Averaged => Ok(()),
        Sends::AveragedAnd(also) => {
            Err(Fault::stage(format!("`{name}` does not apply: it protects the averaged parameters, but not {also}"))
                .help("an epsilon would be wrong; use an algorithm whose clients send averaged parameters only"))
        }
        Sends::Models(reason) | Sends::Other(reason) => Err(Fault::stage(format!("`{name}` does not apply: the algorithm {reason}"))
            .help("use an algorithm whose clients send averaged parameters only")),
    }
}
