//! The tables of a pipeline out of its plan and what the store has for each node.
//!
//! Labels are made here; numbers are picked by [`crate::table::pick`], and formats come later.

use crate::attacks::Findings;
use crate::base::{Digest, Outcome};
use crate::fl::History;
use crate::fl::history::{NEW_CLIENTS, TIMES};
use crate::plan::{Decision, NodeId, Plan};
use crate::spec::{Best as Wanted, Table as Layout, tables};
use crate::store::Store;
use crate::table::pick::Selector;
use crate::table::{Best, Entry, Heading, Measure, Observation, Quantity, Sample, Show, Table, pick};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What there is for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The digest of its measurements, and the key under which they are recorded.
    Metrics(Digest, Digest),
    /// Nothing yet.
    Missing,
    /// It, or a stage that it needs, failed.
    Failed,
    /// It runs now.
    Running,
    /// It was interrupted, and there is a checkpoint.
    Unfinished,
}

/// What there is for each node of a plan that was decided, but not run.
pub(super) fn found(plan: &Plan, decisions: &[Decision], store: Option<&Store>) -> Vec<Found> {
    let begun = store.map(Store::checkpointed).unwrap_or_default();
    let mut all: Vec<Found> = Vec::with_capacity(decisions.len());
    for (index, decision) in decisions.iter().enumerate() {
        let found = match decision {
            Decision::Cached { outputs, key } => outputs.get("metrics").map_or(Found::Missing, |digest| Found::Metrics(*digest, *key)),
            Decision::Run { key, .. } => store.map_or(Found::Missing, |store| unfinished(store, key, begun.contains(key))),
            Decision::Maybe { .. } => {
                let failed = plan.nodes[index].inputs.iter().any(|input| all[input.node.index()] == Found::Failed);
                if failed { Found::Failed } else { Found::Missing }
            }
        };
        all.push(found);
    }
    all
}

fn unfinished(store: &Store, key: &Digest, begun: bool) -> Found {
    if store.leased(key) {
        Found::Running
    } else if store.failures(key).is_empty() {
        if begun { Found::Unfinished } else { Found::Missing }
    } else {
        Found::Failed
    }
}

/// Tables, and whether they are all that the plan's results could give.
pub(super) struct Gathered {
    /// In the order of the layouts.
    pub(super) tables: Vec<Table>,
    /// How many measurements were found damaged (and put aside): their cells are missing, and running again brings them back.
    pub(super) damaged: usize,
}

/// What a stage measured.
enum Told {
    Training(Box<History>),
    Attack(Box<Findings>),
}

impl Told {
    fn read(bytes: &[u8]) -> Option<Self> {
        let training = serde_json::from_slice(bytes).map(|history| Self::Training(Box::new(history)));
        training.or_else(|_| serde_json::from_slice(bytes).map(|findings| Self::Attack(Box::new(findings)))).ok()
    }
}

/// Every table of the plan, or the named ones.
///
/// # Errors
/// A storage fault when measurements that are there cannot be read.
pub(super) fn tables(plan: &Plan, layouts: &[&Layout], found: &[Found], store: Option<&Store>) -> Outcome<Gathered> {
    let mut needed = BTreeSet::new();
    for layout in layouts {
        for node in layout.values.iter().flat_map(|value| layout.cells.iter().filter_map(|cell| plan.node_for(*cell, &value.stage))) {
            for node in std::iter::once(node).chain(attacked(plan, node)) {
                if let Some(Found::Metrics(digest, _)) = found.get(node.index()) {
                    needed.insert(*digest);
                }
            }
        }
    }
    // A history holds the values of every client at every evaluation: reading them is most of the work.
    let read = |digest: &Digest| -> Outcome<(Digest, Option<Told>)> {
        let Some(store) = store else { return Ok((*digest, None)) };
        match store.read(digest) {
            Ok(bytes) => Ok((*digest, Told::read(&bytes))),
            // The store puts a damaged object aside; its stage counts as not run from then on.
            Err(_) if !store.holds(digest) => Ok((*digest, None)),
            Err(fault) => Err(fault),
        }
    };
    let histories: HashMap<Digest, Option<Told>> = needed.par_iter().map(read).collect::<Outcome<_>>()?;
    let damaged = if store.is_some() { histories.values().filter(|history| history.is_none()).count() } else { 0 };
    let measured = Measured { histories, store };
    Ok(Gathered { tables: layouts.iter().map(|layout| table(plan, layout, found, &measured)).collect(), damaged })
}

/// What the stages behind tables measured, and where it is recorded how long they took.
struct Measured<'a> {
    histories: HashMap<Digest, Option<Told>>,
    store: Option<&'a Store>,
}

impl Measured<'_> {
    /// What a stage measured, where that is there.
    fn told(&self, found: &[Found], node: NodeId) -> Option<&Told> {
        let Some(Found::Metrics(digest, _)) = found.get(node.index()) else { return None };
        self.histories.get(digest)?.as_ref()
    }
    /// The seconds that a round took, by the record.
    fn pace(&self, key: &Digest) -> Option<f64> {
        self.store?.record(key).ok()??.pace()
    }
}

fn table(plan: &Plan, layout: &Layout, found: &[Found], measured: &Measured<'_>) -> Table {
    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    for cell in &layout.cells {
        let coords = plan.coords(*cell);
        for (quantity, value) in layout.values.iter().enumerate() {
            let Some(node) = plan.node_for(*cell, &value.stage) else { continue };
            let (row, column) = place(layout, &coords, quantity);
            // A stage that does not read the `over` axis is one sample, however many cells it stands in.
            if !seen.insert((row.clone(), column.clone(), quantity, node)) {
                continue;
            }
            let over: Vec<String> = layout.over.iter().map(|axis| label(&coords, std::slice::from_ref(axis))).collect();
            let mut observation = observation(found, node, measured, &value.metric, &value.selector, over);
            if value.metric.starts_with(NEW_CLIENTS) && plan.node(node).params.to_map().get("fine_tuning_epochs") != Some(&json!(0)) {
                // New clients fine-tune without noise, whatever the training spent.
                observation.spent = None;
            } else if let Some(training) = attacked(plan, node).filter(|_| observation.sample.value().is_some())
                && let (Some(Told::Attack(findings)), Some(Told::Training(history))) =
                    (measured.told(found, node), measured.told(found, training))
            {
                observation.spent = pick::attacked(findings, history, &value.metric);
            }
            entries.push(Entry { row, column, quantity, observation });
        }
    }
    Table::build(heading(layout), entries)
}

/// The training that an attack is made on.
fn attacked(plan: &Plan, node: NodeId) -> Option<NodeId> {
    let node = plan.node(node);
    node.inputs.iter().find(|input| node.kind == "attack" && &*input.slot == "of").map(|input| input.node)
}

/// The labels of the row and the column in which a cell of the sweep shows a quantity.
pub(super) fn place(layout: &Layout, coords: &BTreeMap<&str, &Value>, quantity: usize) -> (String, String) {
    let row = label(coords, &layout.rows);
    let mut column = label(coords, &layout.columns);
    if layout.columns.is_empty() || layout.values.len() > 1 {
        let value = &layout.values[quantity];
        let same_stage = layout.values.windows(2).all(|pair| pair[0].stage == pair[1].stage);
        let stage = if same_stage { String::new() } else { format!("{}.", value.stage) };
        let name = format!("{stage}{}.{}", value.metric, value.selector);
        column = if layout.columns.is_empty() { name } else { format!("{column} {name}") };
    }
    (row, column)
}

fn observation(found: &[Found], node: NodeId, measured: &Measured<'_>, metric: &str, selector: &str, over: Vec<String>) -> Observation {
    let sample = match found.get(node.index()) {
        Some(Found::Metrics(digest, key)) => match measured.histories.get(digest) {
            Some(Some(Told::Training(history))) => {
                let selector = Selector::parse(selector).unwrap_or(Selector::Last);
                let pace = if TIMES.contains(&metric) { measured.pace(key) } else { None };
                return match pace {
                    Some(pace) => pick::timed(history, pace, metric, &selector, over),
                    None => pick::pick(history, metric, &selector, over),
                };
            }
            Some(Some(Told::Attack(findings))) => return pick::find(findings, metric, selector, over),
            _ => Sample::Missing,
        },
        Some(Found::Failed) => Sample::Failed,
        Some(Found::Running) => Sample::Running,
        Some(Found::Unfinished) => Sample::Unfinished,
        Some(Found::Missing) | None => Sample::Missing,
    };
    Observation::without(over, sample)
}

fn heading(layout: &Layout) -> Heading {
    let quantity = |value: &crate::spec::tables::Measure| Quantity {
        label: format!("{}.{}.{}", value.stage, value.metric, value.selector),
        measure: match (pick::measure(&value.metric), layout.percent) {
            (Measure::Fraction, Some(false)) => Measure::Loss,
            (Measure::Loss, Some(true)) => Measure::Fraction,
            (measure, _) => measure,
        },
        digits: layout.digits,
        best: match layout.best {
            Some(Wanted::Max) => Best::Max,
            Some(Wanted::Min) => Best::Min,
            None => pick::best(&value.metric),
        },
    };
    Heading {
        name: layout.name.clone(),
        title: layout.title.clone().unwrap_or_default(),
        row_axis: layout.rows.join(", "),
        column_axis: layout.columns.join(", "),
        over: layout.over.clone(),
        quantities: layout.values.iter().map(quantity).collect(),
        show: layout.show.as_deref().and_then(Show::named).unwrap_or_default(),
        ranks: layout.ranks,
    }
}

/// The values of some axes.
pub(super) fn label(coords: &BTreeMap<&str, &Value>, axes: &[String]) -> String {
    tables::label(axes, |axis| coords.get(axis).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_values() {
        let (algorithm, seed) = (json!({"name": "ditto", "mu": 0.1}), json!(3));
        let coords = BTreeMap::from([("algorithm", &algorithm), ("seed", &seed)]);
        let axes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(label(&coords, &axes(&["algorithm", "seed"])), "ditto(mu=0.1), 3");
        assert_eq!(label(&coords, &axes(&["alpha"])), "-");
    }
}
