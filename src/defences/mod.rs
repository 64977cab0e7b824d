//! What the server does about malicious clients: one file a defence, each with its formula.
//!
//! A defence acts on the parameters that an algorithm averages. It removes uploads, changes them, or puts a robust aggregate in the
//! place of all of them; then the algorithm aggregates as always. So it works with every algorithm whose server makes a mean of
//! parameters, and is refused for the others. What such an algorithm sends beside these parameters is not defended, except that a
//! removed upload is removed with all that belongs to it.

mod bulyan;
mod centered_clipping;
mod common;
mod crfl;
mod foolsgold;
mod krum;
mod median;
mod norm_clipping;
mod rfa;
mod slsgd;
mod three_sigma;
mod trimmed_mean;
mod vectors;
mod weak_dp;

use crate::base::{Fault, Outcome};
use crate::fl::{Intervention, Needs};
use crate::spec::catalog::Variant;
use crate::spec::rules::Breach;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The name by which the server trusts everybody.
pub const NONE: &str = "none";

/// Every defence, in the order in which it is listed.
#[must_use]
pub fn variants() -> Vec<Variant> {
    vec![
        Variant { name: NONE, doc: "The server trusts every upload.", revision: 1, fields: Vec::new() },
        median::variant(),
        trimmed_mean::variant(),
        krum::variant(),
        krum::multi(),
        bulyan::variant(),
        rfa::variant(),
        norm_clipping::variant(),
        weak_dp::variant(),
        centered_clipping::variant(),
        foolsgold::variant(),
        crfl::variant(),
        slsgd::variant(),
        three_sigma::variant(),
    ]
}

/// The defence that `params` (its `kind` and every parameter) describe; absent where there is none.
///
/// # Errors
/// A stage fault: no such defence, or parameters that do not fit.
pub fn build(params: &Map<String, Value>) -> Outcome<Option<Box<dyn Intervention>>> {
    let mut params = params.clone();
    let kind = params.remove("kind").unwrap_or_default();
    let kind = kind.as_str().unwrap_or_default();
    Ok(Some(match kind {
        NONE => return Ok(None),
        median::NAME => parse::<median::Median>(kind, params)?,
        trimmed_mean::NAME => parse::<trimmed_mean::TrimmedMean>(kind, params)?,
        krum::NAME => parse::<krum::Krum>(kind, params)?,
        krum::MANY => Box::new(read::<krum::Krum>(kind, params)?.many()),
        bulyan::NAME => parse::<bulyan::Bulyan>(kind, params)?,
        rfa::NAME => parse::<rfa::Rfa>(kind, params)?,
        norm_clipping::NAME => parse::<norm_clipping::NormClipping>(kind, params)?,
        weak_dp::NAME => parse::<weak_dp::WeakDp>(kind, params)?,
        centered_clipping::NAME => parse::<centered_clipping::CenteredClipping>(kind, params)?,
        foolsgold::NAME => parse::<foolsgold::FoolsGold>(kind, params)?,
        crfl::NAME => parse::<crfl::Crfl>(kind, params)?,
        slsgd::NAME => parse::<slsgd::Slsgd>(kind, params)?,
        three_sigma::NAME => parse::<three_sigma::ThreeSigma>(kind, params)?,
        _ => return Err(Fault::stage(format!("there is no defence `{kind}`"))),
    }))
}

/// What is wrong with a defence in rounds of so many uploads.
///
/// # Errors
/// A stage fault that names the rule which does not hold.
pub fn check(params: &Map<String, Value>, uploads: usize) -> Outcome<()> {
    match build(params)? {
        Some(defence) => defence.uploads(uploads),
        None => Ok(()),
    }
}

/// What is noteworthy of a defence in rounds of so many uploads: a fraction of them that is none.
#[must_use]
pub fn remark(params: &Map<String, Value>, uploads: usize) -> Option<Breach> {
    let bucket = params.get("bucket").and_then(Value::as_u64).filter(|bucket| uploads > 1 && *bucket >= uploads as u64);
    if let Some(bucket) = bucket {
        let what = format!("`bucket` is {bucket}, and all {uploads} uploads of a round are in it: what is clipped is their plain mean");
        return Some(Breach::warning("bucket", Fault::stage(what).help("give a smaller `bucket`; 2 is usual, and 1 has none")));
    }
    let beta = params.get("beta").and_then(Value::as_f64).filter(|beta| *beta > 0.0)?;
    let kind = params.get("kind").and_then(Value::as_str)?;
    (kind == trimmed_mean::NAME && uploads > 0 && trimmed_mean::trimmed(uploads, beta) == 0).then(|| {
        let what = format!("`beta` {beta} of {uploads} uploads is none, rounded down: `{kind}` is the plain mean");
        // `beta` is below a half, so that of one or two uploads none can be left out at each end.
        let help = if uploads < 3 {
            "at least 3 uploads a round are needed for one to be left out at each end: raise `join_ratio` or the number of clients"
                .to_owned()
        } else {
            format!("raise `beta` to {:.3} or more", (1000.0 / uploads as f64).ceil() / 1000.0)
        };
        Breach::warning("beta", Fault::stage(what).help(help))
    })
}

/// What is wrong with the parameters of a defence together, whatever the training.
#[must_use]
pub fn rules(params: &Map<String, Value>) -> Vec<Breach> {
    match params.get("kind").and_then(Value::as_str) {
        Some(crfl::NAME) => crfl::rules(params).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// What the defence that `params` describe needs of an algorithm.
#[must_use]
pub fn needs(params: &Map<String, Value>) -> Needs {
    if params.get("kind").and_then(Value::as_str).unwrap_or(NONE) == NONE { Needs::Nothing } else { Needs::Mean }
}

fn parse<T: DeserializeOwned + Intervention + 'static>(kind: &str, params: Map<String, Value>) -> Outcome<Box<dyn Intervention>> {
    Ok(Box::new(read::<T>(kind, params)?))
}

fn read<T: DeserializeOwned>(kind: &str, params: Map<String, Value>) -> Outcome<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|e| Fault::stage(format!("the parameters of the defence `{kind}` do not fit: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_that_is_advised_is_one_that_can_be_given() {
        let remark = |uploads: usize, beta: f64| {
            let params = serde_json::json!({"kind": "trimmed-mean", "beta": beta, "variant": "paper"});
            let Value::Object(params) = params else { unreachable!("a map") };
            remark(&params, uploads).map(|breach| format!("{:?}", breach.fault.help))
        };
        for uploads in [1, 2] {
            let help = remark(uploads, 0.2).expect("nothing is trimmed");
            assert!(help.contains("at least 3 uploads") && !help.contains("raise `beta`"), "{help}");
        }
        for uploads in 3..40 {
            let Some(help) = remark(uploads, 0.01) else { continue };
            let beta: f64 = help.split("`beta` to ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number");
            assert!(beta < 0.5 && trimmed_mean::trimmed(uploads, beta) == 1 && remark(uploads, beta).is_none(), "{uploads}: {help}");
        }
    }
}
