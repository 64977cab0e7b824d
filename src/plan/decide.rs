//! What would run, and why: keys against what the store remembers.
//!
//! A stage whose inputs are not there yet has no key yet: it may turn out to be cached when they are.

use super::expand::{Node, NodeId, Plan};
use super::key::{Manifest, StageKey};
use crate::base::{Digest, text};
use crate::spec::catalog::RECIPE;
use crate::spec::node::short;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What is remembered of earlier runs.
pub trait History {
    /// The digests of the outputs stored under a key; `None` unless all are there.
    fn outputs(&self, key: &Digest) -> Option<BTreeMap<String, Digest>>;
    /// Components of keys of the same stage, or of its kind: those of equal coordinates first, newest first.
    fn nearest(&self, stage: &str, kind: &str, coords: &BTreeMap<String, Value>) -> Vec<Manifest>;
}

/// What becomes of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Its result is there.
    Cached {
        /// The key.
        key: Digest,
        /// The digests of its outputs.
        outputs: BTreeMap<String, Digest>,
    },
    /// It would run.
    Run {
        /// The key.
        key: Digest,
        /// Why.
        reason: Reason,
    },
    /// That is known only after another has run.
    Maybe {
        /// The nearest node that runs before it.
        after: NodeId,
    },
}

/// Why a node would run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Nothing like it is stored.
    NeverRun,
    /// It was asked for.
    Forced,
    /// It was run with the same key, but its outputs are gone.
    OutputsGone,
    /// What differs from the nearest stored result.
    Changed(Vec<Change>),
}

/// A component that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The component as the manifest has it: `param.alpha`, `stage.revision`.
    pub component: String,
    /// The component for people: `alpha`, `revision`, `input partition.assignment`.
    pub name: String,
    /// Its value in the stored result; `None` where it was not there.
    pub before: Option<Value>,
    /// Its value now.
    pub after: Option<Value>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Value| match value {
            Value::String(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => text[..12].to_owned(),
            other => short(other),
        };
        let name = &self.name;
        match (&self.before, &self.after) {
            (Some(_), Some(_)) if name.starts_with("input ") => write!(f, "{name} changed"),
            (Some(before), Some(after)) => write!(f, "{name}: {} -> {}", shown(before), shown(after)),
            (None, Some(after)) => write!(f, "{name}: {} is new", shown(after)),
            (Some(before), None) => write!(f, "{name}: {} is gone", shown(before)),
            (None, None) => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRun => f.write_str("never run"),
            Self::Forced => f.write_str("forced"),
            Self::OutputsGone => f.write_str("its outputs are gone from the store"),
            Self::Changed(changes) => {
                let shown: Vec<String> = changes.iter().take(4).map(ToString::to_string).collect();
                f.write_str(&shown.join(", "))?;
                match changes.len().saturating_sub(4) {
                    0 => Ok(()),
                    n => write!(f, ", and {}", text::count(n, "more change")),
                }
            }
        }
    }
}

/// Decides for every node, in the order of the plan. `forced` nodes run although their results are there.
pub fn decide(plan: &Plan, history: &dyn History, forced: &dyn Fn(&Node) -> bool) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = Vec::with_capacity(plan.nodes.len());
    for id in plan.order() {
        let decision = decide_one(plan, id, &decisions, history, forced);
        decisions.push(decision);
    }
    decisions
}

fn decide_one(plan: &Plan, id: NodeId, earlier: &[Decision], history: &dyn History, forced: &dyn Fn(&Node) -> bool) -> Decision {
    let node = plan.node(id);
    for input in &node.inputs {
        match &earlier[input.node.index()] {
            Decision::Cached { .. } => {}
            Decision::Run { .. } => return Decision::Maybe { after: input.node },
            Decision::Maybe { after } => return Decision::Maybe { after: *after },
        }
    }
    let digest_of = |node, output: &str| digest(earlier, node, output);
    let Some(key) = plan.digest(id, &digest_of) else {
        // A stored result without an output that is read now: its stage has to run again first.
        let after = node
            .inputs
            .iter()
            .find(|input| input.outputs.iter().any(|output| *output != RECIPE && digest(earlier, input.node, output).is_none()));
        return Decision::Maybe { after: after.map_or(id, |input| input.node) };
    };
    if forced(node) {
        return Decision::Run { key, reason: Reason::Forced };
    }
    match history.outputs(&key) {
        Some(outputs) if plan.kind(node).outputs.iter().all(|output| outputs.contains_key(*output)) => Decision::Cached { key, outputs },
        Some(_) => Decision::Run { key, reason: Reason::OutputsGone },
        None => {
            let stored = history.nearest(&node.stage, node.kind, &node.coords);
            let now = key_of(plan, id, earlier).map(|key| key.manifest).unwrap_or_default();
            Decision::Run { key, reason: reason(&now, &stored) }
        }
    }
}

fn key_of(plan: &Plan, id: NodeId, decisions: &[Decision]) -> Option<StageKey> {
    plan.key(id, &|node, output| digest(decisions, node, output))
}

fn digest(decisions: &[Decision], node: NodeId, output: &str) -> Option<Digest> {
    match decisions.get(node.index())? {
        Decision::Cached { outputs, .. } => outputs.get(output).copied(),
        _ => None,
    }
}

/// Why a stage with these components is not among the stored ones.
#[must_use]
pub fn reason(now: &Manifest, stored: &[Manifest]) -> Reason {
    match nearest(now, stored) {
        None => Reason::NeverRun,
        Some((_, changes)) if changes.is_empty() => Reason::OutputsGone,
        Some((_, changes)) => Reason::Changed(changes),
    }
}

/// The stored components with the fewest differences; the first of equals.
fn nearest<'m>(now: &Manifest, stored: &'m [Manifest]) -> Option<(&'m Manifest, Vec<Change>)> {
    stored.iter().map(|before| (before, changes(before, now))).min_by_key(|(_, changes)| changes.len())
}

fn changes(before: &Manifest, now: &Manifest) -> Vec<Change> {
    let mut names: Vec<&String> = before.components.keys().chain(now.components.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| {
            let (before, after) = (before.components.get(name), now.components.get(name));
            (before != after).then(|| Change { component: name.clone(), name: shown(name), before: before.cloned(), after: after.cloned() })
        })
        .collect()
}

/// The name of a component for people.
fn shown(name: &str) -> String {
    match name.split_once('.') {
        Some(("param", rest)) => rest.to_owned(),
        Some(("input", rest)) => format!("input {rest}"),
        Some(("revision", rest)) => format!("revision of {rest}"),
        Some(("stage", "schema")) => "key schema".to_owned(),
        Some(("stage", rest)) => rest.to_owned(),
        _ => name.to_owned(),
    }
}

/// Everything that `why` tells about a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The node.
    pub label: String,
    /// The kind of its stage.
    pub kind: &'static str,
    /// `cached`, `run: ...`, `maybe: after ...`.
    pub state: String,
    /// Its key, when that can be known now.
    pub key: Option<Digest>,
    /// The components of the key.
    pub components: Vec<Component>,
    /// Whether a stored result was there to compare with.
    pub compared: bool,
}

/// A component of a key, beside the nearest stored one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// Its name for people.
    pub name: String,
    /// Its value now; `None` where only the stored one has it.
    pub now: Option<Value>,
    /// The nearest stored value, where it differs or is missing now.
    pub before: Option<Value>,
    /// Whether the two differ; false when nothing is stored.
    pub changed: bool,
}

/// Explains the decision about a node. `decisions` are those of [`decide`].
#[must_use]
pub fn explain(plan: &Plan, id: NodeId, decisions: &[Decision], history: &dyn History) -> Explanation {
    let node = plan.node(id);
    let state = decisions.get(id.index()).map_or_else(String::new, |decision| describe(plan, decision));
    let mut explanation = Explanation { label: node.label(), kind: node.kind, state, key: None, components: Vec::new(), compared: false };
    let Some(key) = key_of(plan, id, decisions) else { return explanation };
    explanation.key = Some(key.key);
    let cached = matches!(decisions.get(id.index()), Some(Decision::Cached { .. }));
    let stored = if cached { Vec::new() } else { history.nearest(&node.stage, node.kind, &node.coords) };
    let nearest = nearest(&key.manifest, &stored);
    explanation.compared = nearest.is_some();
    let changed = nearest.map(|(_, changes)| changes).unwrap_or_default();
    for (name, value) in &key.manifest.components {
        let change = changed.iter().find(|change| change.component == *name);
        explanation.components.push(Component {
            now: Some(value.clone()),
            before: change.and_then(|change| change.before.clone()),
            changed: change.is_some(),
            name: shown(name),
        });
    }
    for change in changed.into_iter().filter(|change| change.after.is_none()) {
        explanation.components.push(Component { name: change.name, now: None, before: change.before, changed: true });
    }
    explanation
}

/// `cached`, `run: alpha: 0.1 -> 0.3`, `maybe: after split[alpha=0.1]`.
#[must_use]
pub fn describe(plan: &Plan, decision: &Decision) -> String {
    match decision {
        Decision::Cached { .. } => "cached".to_owned(),
        Decision::Run { reason, .. } => format!("run: {reason}"),
        Decision::Maybe { after } => format!("maybe: after {}", plan.node(*after).label()),
    }
}
