//! What malicious clients do in a training: one file a threat.
//!
//! A threat either poisons the samples that malicious clients train on, which works with every algorithm, or replaces what they
//! send, which needs an algorithm whose clients send parameters. Beside the parameters that are averaged, whatever an algorithm sends
//! is sent honestly. Who is malicious is drawn by a seed of its own, so nothing else changes with it.

mod a_little;
mod band;
mod edge_case;
mod forgery;
mod label_flipping;
mod lazy;
mod model_replacement;
mod pixel_backdoor;
mod random;
mod scaled;
mod sign_flip;
mod trigger;
mod zero;

use crate::base::{Fault, Outcome};
use crate::data::Facts;
use crate::fl::{Intervention, Needs, World};
use crate::spec::catalog::Variant;
use crate::spec::rules::Breach;
use forgery::{Forged, Forgery};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The name by which nobody attacks.
pub const NONE: &str = "none";

/// Every threat, in the order in which it is listed.
#[must_use]
pub fn variants() -> Vec<Variant> {
    vec![
        Variant { name: NONE, doc: "Nobody is malicious.", revision: 1, fields: Vec::new() },
        random::variant(),
        zero::variant(),
        sign_flip::variant(),
        scaled::variant(),
        a_little::variant(),
        lazy::variant(),
        label_flipping::variant(),
        pixel_backdoor::variant(),
        edge_case::variant(),
        model_replacement::variant(),
    ]
}

/// The threat that `params` (its `kind` and every parameter) describe, in this world; absent where nobody is malicious.
///
/// # Errors
/// A stage fault: no such threat, parameters that do not fit, or a rule that does not hold (more attackers than clients).
pub fn build(params: &Map<String, Value>, world: &World) -> Outcome<Option<Box<dyn Intervention>>> {
    let mut params = params.clone();
    let kind = params.remove("kind").unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default();
    Ok(Some(match kind {
        NONE => return Ok(None),
        random::Random::NAME => forged::<random::Random>(params, world)?,
        zero::Zero::NAME => forged::<zero::Zero>(params, world)?,
        sign_flip::SignFlip::NAME => forged::<sign_flip::SignFlip>(params, world)?,
        scaled::Scaled::NAME => forged::<scaled::Scaled>(params, world)?,
        a_little::ALittle::NAME => forged::<a_little::ALittle>(params, world)?,
        lazy::Lazy::NAME => forged::<lazy::Lazy>(params, world)?,
        label_flipping::NAME => label_flipping::build(parse(kind, params)?, world)?,
        pixel_backdoor::NAME => pixel_backdoor::build(parse(kind, params)?, world)?,
        edge_case::NAME => edge_case::build(parse(kind, params)?, world)?,
        model_replacement::NAME => model_replacement::build(parse(kind, params)?, world)?,
        _ => return Err(Fault::stage(format!("there is no threat `{kind}`"))),
    }))
}

/// What is known of a training before it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Its rounds.
    pub rounds: Option<u64>,
    /// The clients that train.
    pub clients: Option<usize>,
    /// The samples of a whole batch.
    pub batch: Option<usize>,
    /// Its data set.
    pub data: Option<Facts>,
}

/// What is wrong with the parameters of a threat in such a training.
#[must_use]
pub fn rules(params: &Map<String, Value>, known: &Known) -> Vec<Breach> {
    let kind = params.get("kind").and_then(Value::as_str).unwrap_or(NONE);
    let Ok(schedule) = parse::<band::Schedule>(kind, params.clone()) else { return Vec::new() };
    let mut breaches = schedule.rules(known.rounds, known.clients);
    let data = known.data.as_ref();
    breaches.extend(match kind {
        label_flipping::NAME => label_flipping::rules(params, data),
        edge_case::NAME => edge_case::rules(params, data),
        pixel_backdoor::NAME | model_replacement::NAME => trigger::rules(params, data),
        _ => Vec::new(),
    });
    if schedule.anyone() {
        breaches.extend(pixel_backdoor::fraction_rules(params, known.batch));
    }
    breaches
}

/// What the threat that `params` describe needs of an algorithm.
#[must_use]
pub fn needs(params: &Map<String, Value>) -> Needs {
    match params.get("kind").and_then(Value::as_str).unwrap_or(NONE) {
        NONE | label_flipping::NAME => Needs::Nothing,
        pixel_backdoor::NAME | edge_case::NAME if !params.contains_key("boost") => Needs::Nothing,
        _ => Needs::Parameters,
    }
}

fn forged<F: Forgery + DeserializeOwned>(params: Map<String, Value>, world: &World) -> Outcome<Box<dyn Intervention>> {
    parse::<Forged<F>>(F::NAME, params)?.among(world)
}

fn parse<T: DeserializeOwned>(kind: &str, params: Map<String, Value>) -> Outcome<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|e| Fault::stage(format!("the parameters of the threat `{kind}` do not fit: {e}")))
}
