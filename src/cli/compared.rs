//! Published numbers beside ours: which number belongs to which cell, by what is known of both setups, and why others belong to none.

use super::gather;
use super::load::Project;
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::{NodeId, Plan};
use crate::results::published::{self, Partition, Published, Setup, plain};
use crate::spec::{Compare, Measure, Table as Layout};
use crate::table::{Beside, Table};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// All published numbers that a table is compared with.
fn numbers(compare: &Compare) -> Outcome<Vec<Published>> {
    let mut all = Vec::new();
    for name in &compare.tables {
        if let Some(found) = published::builtin(name) {
            all.extend(found);
            continue;
        }
        let path = compare.files.get(name).map_or(Path::new(name), PathBuf::as_path);
        let text = std::fs::read_to_string(path).map_err(|e| Fault::io("read", path, &e))?;
        all.extend(published::read(name, &text)?);
    }
    Ok(all)
}

/// What is needed of our side of a comparison.
struct Ours<'a> {
    /// The algorithm's plain name.
    algorithm: String,
    /// What is shown.
    value: &'a Measure,
    /// The setup.
    setup: Setup,
    /// The published setting that a label of the cell stands for.
    setting: Option<&'a String>,
}

/// Published numbers beside the cells of a table.
///
/// # Errors
/// A pipeline or storage fault when a file of published numbers cannot be used.
pub(super) fn beside(table: &Table, layout: &Layout, compare: &Compare, project: &Project) -> Outcome<Beside> {
    let all = numbers(compare)?;
    let plan = &project.plan;
    let mut setups: HashMap<(String, String), Ours<'_>> = HashMap::new();
    for cell in &layout.cells {
        let coords = plan.coords(*cell);
        let setting = layout.setting_axes().iter().find_map(|axes| compare.settings.get(&gather::label(&coords, axes)));
        for (quantity, value) in layout.values.iter().enumerate() {
            let place = gather::place(layout, &coords, quantity);
            if setups.contains_key(&place) {
                continue;
            }
            if let Some(node) = plan.node_for(*cell, &value.stage) {
                let algorithm = plan.node(node).params.to_map().get("algorithm").map(crate::spec::node::short).unwrap_or_default();
                setups.insert(place, Ours { algorithm: plain(&algorithm), value, setup: setup(plan, node), setting });
            }
        }
    }
    let mut found: HashMap<(usize, usize), (usize, Vec<String>)> = HashMap::new();
    for row in 0..table.rows.len() {
        for column in 0..table.columns.len() {
            let Some(ours) = setups.get(&(table.rows[row].clone(), table.columns[column].label.clone())) else { continue };
            let mut setup = ours.setup.clone();
            setup.trials = Some(table.cells[row][column].samples.len() as u64).filter(|n| *n > 0);
            // Of several that fit, the one whose setup differs least.
            let fits = all.iter().enumerate().filter(|(_, line)| ours.is_of(line) && ours.unfit(line).is_empty());
            let best = fits.map(|(index, line)| (index, setup.differences(&line.setup))).min_by_key(|(_, differences)| differences.len());
            if let Some((index, mut differences)) = best {
                if let Some(theirs) = all[index].selector().filter(|theirs| *theirs != ours.value.selector) {
                    differences.push(format!("the {} evaluation instead of the {theirs}", ours.value.selector));
                }
                found.insert((row, column), (index, differences));
            }
        }
    }
    let used: BTreeSet<usize> = found.values().map(|(index, _)| *index).collect();
    let ours: Vec<&Ours<'_>> = setups.values().collect();
    let unmatched = unmatched(&all, &used, &ours);
    let find = |row: usize, column: usize| found.get(&(row, column)).map(|(index, differences)| (all[*index].clone(), differences.clone()));
    Ok(Beside::of(table, compare.tables.clone(), compare.margin, find, unmatched))
}

impl Ours<'_> {
    /// Whether a published number is of the same algorithm and metric.
    fn is_of(&self, line: &Published) -> bool {
        plain(&line.algorithm) == self.algorithm && line.our_metric() == Some(self.value.metric.as_str())
    }

    /// Why a published number is of another setting; empty where it is not.
    fn unfit(&self, line: &Published) -> Vec<String> {
        match self.setting {
            Some(text) if line.setting() == **text => Vec::new(),
            Some(text) => vec![format!("`settings` names `{text}`")],
            None => self.setup.unfit(&line.setup),
        }
    }
}

/// So many lines are told one by one.
const TOLD: usize = 8;

/// Says of the published numbers that stand beside no cell why that is so: of each line of a user's file, and of a table that is built
/// in where none of its numbers does, for it has far more than a table of ours shows.
fn unmatched(all: &[Published], used: &BTreeSet<usize>, ours: &[&Ours<'_>]) -> Vec<String> {
    let left = || all.iter().enumerate().filter(|(index, _)| !used.contains(index)).map(|(_, line)| line);
    let own: Vec<&Published> = left().filter(|line| line.line.is_some()).collect();
    let mut notes: Vec<String> = own
        .iter()
        .take(TOLD)
        .map(|line| format!("line {} ({}) stands beside no cell: {}", line.line.unwrap_or_default(), line.algorithm, why_not(line, ours)))
        .collect();
    if own.len() > TOLD {
        notes.push(format!("{} more lines stand beside no cell", own.len() - TOLD));
    }
    if used.is_empty() && own.is_empty() {
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        left().for_each(|line| *reasons.entry(why_not(line, ours)).or_default() += 1);
        let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
        // What is nearest first: a difference of setup is nearer than another algorithm.
        reasons.sort_by_key(|(reason, count)| (!reason.contains("instead of"), reason.len(), std::cmp::Reverse(*count)));
        notes.extend(reasons.into_iter().take(2).map(|(reason, count)| format!("{count} of its numbers: {reason}")));
        notes.push("name the published setting of a row or column by `settings` where yours stands in for it".to_owned());
    }
    notes
}

fn why_not(line: &Published, ours: &[&Ours<'_>]) -> String {
    let algorithm = plain(&line.algorithm);
    let names: BTreeSet<&str> = ours.iter().map(|ours| ours.algorithm.as_str()).collect();
    if !names.contains(algorithm.as_str()) {
        let near = nearest(&algorithm, names.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
        return format!("no row is of its algorithm{}", near.unwrap_or_default());
    }
    let metrics: BTreeSet<&str> = ours.iter().map(|ours| ours.value.metric.as_str()).collect();
    let Some(metric) = line.our_metric() else { return format!("nothing here is a `{}`", line.metric) };
    if !metrics.contains(metric) {
        return format!("its `{metric}` is not shown, but {}", quoted(metrics.iter().copied()));
    }
    let reasons = ours.iter().filter(|ours| ours.is_of(line)).map(|ours| ours.unfit(line));
    match reasons.min_by_key(|reasons| (reasons.len(), reasons.concat())) {
        Some(reasons) if reasons.is_empty() => "another line fits its cells better".to_owned(),
        Some(reasons) => reasons.join(", "),
        None => "its algorithm and its metric are in different cells".to_owned(),
    }
}

/// The setup of a training, from its own parameters and those of the stages that it reads.
pub(super) fn setup(plan: &Plan, node: NodeId) -> Setup {
    let params = plan.node(node).params.to_map();
    let input = |slot: &str| plan.node(node).inputs.iter().find(|input| &*input.slot == slot).map(|input| input.node);
    let of = |id: Option<NodeId>| id.map(|id| plan.node(id).params.to_map()).unwrap_or_default();
    let (split, net) = (of(input("partition")), of(input("model")));
    let data = input("partition").and_then(|id| plan.node(id).inputs.iter().find(|input| &*input.slot == "data").map(|input| input.node));
    let number = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_f64);
    let whole = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_u64);
    let text = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    Setup {
        dataset: text(&of(data), "name").map(|name| match whole(&of(data), "limit") {
            Some(limit) => format!("{name} (first {limit})"),
            None => name,
        }),
        model: model(&net),
        partition: match text(&split, "kind").as_deref() {
            Some("iid") => Some(Partition::Iid),
            Some("dirichlet") => number(&split, "alpha").map(Partition::Dirichlet),
            Some("pathological") => whole(&split, "classes_per_client").map(Partition::Pathological),
            _ => None,
        },
        clients: whole(&split, "clients"),
        rounds: whole(&params, "rounds"),
        batch_size: whole(&params, "batch_size"),
        local_epochs: whole(&params, "local_epochs"),
        learning_rate: number(&params, "learning_rate"),
        join_ratio: number(&params, "join_ratio"),
        optimizer: params.get("optimizer").map(|value| match value {
            Value::Object(map) => text(map, "name").unwrap_or_default(),
            other => other.as_str().unwrap_or_default().to_owned(),
        }),
        trials: None,
    }
}

/// `4-layer CNN` for the reference's network; another one of the kind with what is different.
fn model(net: &Map<String, Value>) -> Option<String> {
    let kind = net.get("kind").and_then(Value::as_str)?;
    let size = |key: &str| net.get(key).map(ToString::to_string).unwrap_or_default();
    Some(match kind {
        "cnn" if size("widths") == "[32,64]" && size("hidden") == "512" && size("kernel") == "5" => "4-layer CNN".to_owned(),
        "cnn" => format!("{}-{} CNN", size("widths"), size("hidden")),
        "mobilenet" => match size("width").as_str() {
            "" | "1.0" | "1" => "MobileNetV2".to_owned(),
            width => format!("MobileNetV2 of width {width}"),
        },
        "mlp" => format!("MLP {} hidden", size("hidden").trim_matches(['[', ']'])),
        "resnet" => {
            let usual = if size("depth") == "56" { "16" } else { "64" };
            let width = size("width");
            let narrow = if width.is_empty() || width == usual { String::new() } else { format!(" of width {width}") };
            let group = if size("norm").contains("group") { " + GN" } else { "" };
            format!("ResNet-{}{group}{narrow}", size("depth"))
        }
        "fasttext" if !["", "512"].contains(&size("hidden").as_str()) => format!("fastText of width {}", size("hidden")),
        other => other.to_owned(),
    })
}
