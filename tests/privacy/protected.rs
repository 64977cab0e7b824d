//! Small trainings with a `privacy` or `secure`, or both.

use crate::small::Case;
use pflpipe::base::Outcome;
use pflpipe::fl::round::{Monitor, Quiet, Simulated};
use pflpipe::fl::{History, World};
use pflpipe::spec::catalog::{Default, Variant};
use pflpipe::{privacy, secure};
use serde_json::{Map, Value, json};

/// The effective parameters of a kind: those given, and the defaults.
fn effective(variants: &[Variant], given: &Value) -> Map<String, Value> {
    let given = given.as_object().expect("a map");
    let kind = given["kind"].as_str().expect("a kind");
    let variant = variants.iter().find(|variant| variant.name == kind).expect("a known kind");
    let defaults = variant.fields.iter().filter_map(|field| match &field.default {
        Default::Is(value) => Some((field.name.to_owned(), value.clone())),
        _ => None,
    });
    let mut params: Map<String, Value> = defaults.collect();
    params.extend(given.clone());
    params
}

pub fn world(case: &Case, private: &Value, secured: &Value) -> Outcome<World> {
    let world = case.world();
    let chosen = [
        privacy::build(&effective(&privacy::variants(), private), &world)?,
        secure::build(&effective(&secure::variants(), secured), &world)?,
    ];
    Ok(chosen.into_iter().flatten().fold(world, World::with))
}

pub fn run_with(case: &Case, private: &Value, secured: &Value, monitor: &mut dyn Monitor) -> Outcome<Simulated> {
    let world = world(case, private, secured)?;
    let _permit = world.budget.acquire();
    case.build().simulate(&world, monitor)
}

pub fn private(case: &Case, params: Value) -> Outcome<Simulated> {
    run_with(case, &params, &json!({"kind": "none"}), &mut Quiet)
}

pub fn secured(case: &Case, params: Value) -> Outcome<Simulated> {
    run_with(case, &json!({"kind": "none"}), &params, &mut Quiet)
}

pub fn last(history: &History, figure: &str) -> Option<f64> {
    history.series(figure).last().map(|(_, value)| *value)
}
