//! What plots and reports show beyond the cells of a table: the values of single clients, costs, partitions, and where stages ran.
//!
//! It reads the store; what it cannot read is left out of a drawing, never made up.

use super::annotate;
use super::gather::{self, Found};
use super::load::Project;
use crate::attacks::Findings;
use crate::fl::History;
use crate::fl::history::Status;
use crate::plan::{Decision, Plan};
use crate::plots::{self, Bubbles, Critical, Curves, Front, Heat, Picture, Placed, Point, Scatter, Series, Spot, Strip, Strips};
use crate::report::Figure;
use crate::results::plane;
use crate::spec::Table as Layout;
use crate::stage::features;
use crate::store::Store;
use crate::table::{Analysis, Measure, Table, Wanted};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The kinds of drawings, with a sentence each.
pub(super) const KINDS: [(&str, &str); 9] = [
    ("curves", "learning curves: mean and sample sd over seeds"),
    ("sweep", "the value of each row over a numeric column axis, with sample sd"),
    ("heat", "the value of each row and column as a shade, where columns are no numbers"),
    ("clients", "the accuracy of every client"),
    ("cost", "accuracy against floats sent and against gradient evaluations, with the front"),
    ("critical", "critical-difference diagram of the mean ranks"),
    ("partition", "which client has how many samples of which class"),
    ("features", "features of test samples by class and client, on their principal components"),
    ("tsne", "features of test samples by class and client, by t-SNE"),
];

/// No polyline has more points than these.
const POINTS: usize = 160;
/// No row of a strip plot has more clients than these.
const CLIENTS: usize = 150;
/// No more attacks than these are shown with pictures.
const ATTACKS: usize = 40;
/// No more pictures of one attack than these are shown.
const PICTURES: usize = 8;
/// No more test samples than these have their features drawn, about.
const SAMPLES: usize = 300;
/// No more partitions, or models, than these are drawn.
const PARTITIONS: usize = 6;

/// What one training of a cell tells beyond its number.
#[derive(Clone, Debug, Default)]
struct Told {
    clients: Vec<f64>,
    floats: f64,
    gradients: f64,
}

/// The drawings of a table, of the given kinds.
pub(super) fn figures(table: &Table, layout: &Layout, plan: &Plan, found: &[Found], store: &Store, kinds: &[&str]) -> Vec<Figure> {
    let wants = |kind: &str| kinds.contains(&kind);
    let told = if wants("clients") || wants("cost") { told(table, layout, plan, found, store) } else { HashMap::new() };
    let mut all = Vec::new();
    for column in 0..table.columns.len() {
        let quantity = table.quantity(column);
        if wants("curves") && quantity.measure != Measure::Count {
            all.extend(curves(table, column));
        }
        let accuracy = quantity.label.contains("accuracy") && !quantity.label.contains("_sd");
        if wants("clients") && accuracy && quantity.label.contains(".test_accuracy.") {
            all.extend(clients(table, column, &told));
        }
        if wants("cost") && accuracy {
            all.extend(costs(table, column, &told));
        }
    }
    if wants("sweep") {
        all.extend((0..table.heading.quantities.len()).filter_map(|quantity| sweep(table, quantity)));
    }
    if wants("heat") {
        all.extend((0..table.heading.quantities.len()).filter_map(|quantity| heat(table, quantity)));
    }
    if wants("critical") {
        all.extend(critical(table));
    }
    all
}

/// The title of a drawing of one column.
fn of_column(table: &Table, column: usize) -> String {
    let heading = &table.heading;
    if heading.column_axis.is_empty() {
        table.title()
    } else {
        format!("{}, {} {}", table.title(), heading.column_axis, table.columns[column].label)
    }
}

fn name(kind: &str, table: &Table, what: &str) -> String {
    let text = if what.is_empty() { format!("{kind}-{}", table.heading.name) } else { format!("{kind}-{}-{what}", table.heading.name) };
    text.chars().map(|c| if c.is_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

fn metric(label: &str) -> &str {
    label.split('.').nth(1).unwrap_or(label)
}

fn curves(table: &Table, column: usize) -> Option<Figure> {
    let quantity = table.quantity(column);
    let mut series = Vec::new();
    for (row, label) in table.rows.iter().enumerate() {
        let mut by_round: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for observation in &table.cells[row][column].samples {
            // Two evaluations may follow one round; the later one counts.
            let last: BTreeMap<u64, f64> = observation.series.iter().copied().filter(|(_, value)| value.is_finite()).collect();
            for (round, value) in last {
                by_round.entry(round).or_default().push(value);
            }
        }
        let every = by_round.len().div_ceil(POINTS).max(1);
        let last = by_round.len().saturating_sub(1);
        let points = by_round
            .iter()
            .enumerate()
            .filter(|(place, _)| place % every == 0 || *place == last)
            .filter_map(|(_, (round, values))| point(*round as f64, values))
            .collect();
        series.push(Series { name: label.clone(), points });
    }
    if series.iter().all(|series| series.points.len() < 2) {
        return None;
    }
    let plot = Curves {
        title: of_column(table, column),
        x: "rounds".to_owned(),
        y: metric(&quantity.label).replace('_', " "),
        percent: quantity.measure == Measure::Fraction,
        larger_is_better: quantity.best == crate::table::Best::Max,
        series,
        ..Curves::default()
    };
    let caption = format!(
        "{} after each evaluation: mean{}.",
        metric(&quantity.label),
        if table.depth() > 1 { " and, as a band, one sample standard deviation to each side" } else { "" }
    );
    Some(Figure { name: name("curves", table, &table.columns[column].label), caption, svg: plots::curves(&plot) })
}

fn point(x: f64, values: &[f64]) -> Option<Point> {
    let summary = crate::results::stats::Summary::of(values)?;
    let sd = summary.sd.unwrap_or(0.0);
    Some(Point { x, mean: summary.mean, low: summary.mean - sd, high: summary.mean + sd })
}

fn sweep(table: &Table, quantity: usize) -> Option<Figure> {
    let heading = &table.heading;
    let columns: Vec<(usize, f64)> = (0..table.columns.len())
        .filter(|column| table.columns[*column].quantity == quantity)
        .filter_map(|column| Some((column, table.columns[column].label.split(' ').next()?.parse().ok()?)))
        .collect();
    if columns.len() < 2 || heading.column_axis.is_empty() {
        return None;
    }
    let shown = &heading.quantities[quantity];
    let (least, most) = columns.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), (_, x)| (a.min(*x), b.max(*x)));
    let series: Vec<Series> = table
        .rows
        .iter()
        .enumerate()
        .map(|(row, label)| {
            let mut points: Vec<Point> = columns.iter().filter_map(|(column, x)| point(*x, &table.cells[row][*column].values())).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { name: label.clone(), points }
        })
        .collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let plot = Curves {
        title: table.title(),
        x: heading.column_axis.clone(),
        y: metric(&shown.label).replace('_', " "),
        percent: shown.measure == Measure::Fraction,
        log: least > 0.0 && most / least >= 5.0,
        marked: true,
        larger_is_better: shown.best == crate::table::Best::Max,
        series,
    };
    let caption = format!(
        "{} over {}{}.",
        shown.label,
        heading.column_axis,
        if table.depth() > 1 { "; bars are one sample standard deviation to each side" } else { "" }
    );
    let what = if heading.quantities.len() > 1 { shown.label.as_str() } else { "" };
    Some(Figure { name: name("sweep", table, what), caption, svg: plots::curves(&plot) })
}

fn heat(table: &Table, quantity: usize) -> Option<Figure> {
    let heading = &table.heading;
    let columns: Vec<usize> = (0..table.columns.len()).filter(|column| table.columns[*column].quantity == quantity).collect();
    let numeric = |column: &usize| table.columns[*column].label.split(' ').next().is_some_and(|word| word.parse::<f64>().is_ok());
    // Numbers are better drawn as an axis.
    if columns.len() < 2 || table.rows.len() < 2 || heading.column_axis.is_empty() || columns.iter().all(numeric) {
        return None;
    }
    let shown = &heading.quantities[quantity];
    let value = |row: usize| columns.iter().map(|column| table.center(row, *column)).collect();
    // With the digits of the table.
    let unit = if shown.measure == Measure::Fraction { " %" } else { "" };
    let text =
        |row: usize, column: usize| table.center(row, column).map_or_else(String::new, |center| format!("{}{unit}", shown.write(center)));
    let plot = Heat {
        title: format!("{}: {}", table.title(), metric(&shown.label).replace('_', " ")),
        x: heading.column_axis.clone(),
        y: String::new(),
        percent: shown.measure == Measure::Fraction,
        columns: columns.iter().map(|column| table.columns[*column].label.clone()).collect(),
        rows: table.rows.iter().enumerate().map(|(row, name)| (name.clone(), value(row))).collect(),
        texts: (0..table.rows.len()).map(|row| columns.iter().map(|column| text(row, *column)).collect()).collect(),
    };
    let caption = format!("{}{}.", shown.label, if table.depth() > 1 { ", mean over seeds" } else { "" });
    let what = if heading.quantities.len() > 1 { shown.label.as_str() } else { "" };
    Some(Figure { name: name("heat", table, what), caption, svg: plots::heat(&plot) })
}

fn clients(table: &Table, column: usize, told: &HashMap<(String, String), Vec<Told>>) -> Option<Figure> {
    let label = &table.columns[column].label;
    let strips: Vec<Strip> = table
        .rows
        .iter()
        .map(|row| {
            let mut values: Vec<f64> =
                told.get(&(row.clone(), label.clone())).into_iter().flatten().flat_map(|told| told.clients.iter().copied()).collect();
            if values.len() > CLIENTS {
                values.sort_by(f64::total_cmp);
                values = (0..CLIENTS).map(|i| values[i * (values.len() - 1) / (CLIENTS - 1)]).collect();
            }
            Strip { name: row.clone(), values }
        })
        .collect();
    if strips.iter().all(|strip| strip.values.is_empty()) {
        return None;
    }
    let plot = Strips { title: format!("Clients: {}", of_column(table, column)), x: "test accuracy of a client".to_owned(), strips };
    let caption = "One dot a client, of all seeds together, at the evaluation that the table shows; the box reaches from the first to the third quartile, the line is the median.";
    Some(Figure { name: name("clients", table, label), caption: caption.to_owned(), svg: plots::strips(&plot) })
}

fn costs(table: &Table, column: usize, told: &HashMap<(String, String), Vec<Told>>) -> Vec<Figure> {
    let families = annotate::families();
    let label = &table.columns[column].label;
    let spots = |cost: fn(&Told) -> f64| -> Vec<Spot> {
        (0..table.rows.len())
            .filter_map(|row| {
                let told = told.get(&(table.rows[row].clone(), label.clone())).filter(|told| !told.is_empty())?;
                let name = table.rows[row].clone();
                let family = families.get(name.split(['(', ',']).next().unwrap_or_default()).copied().unwrap_or("other").to_owned();
                Some(Spot { name, family, cost: told.iter().map(cost).sum::<f64>() / told.len() as f64, value: table.center(row, column)? })
            })
            .collect()
    };
    [("floats", "floats sent in both directions", (|t| t.floats) as fn(&Told) -> f64), ("gradients", "batch gradients computed", |t| t.gradients)]
        .into_iter()
        .filter_map(|(what, cost, of)| {
            let plot = Front {
                title: format!("Accuracy and {what}: {}", of_column(table, column)),
                cost: cost.to_owned(),
                value: metric(&table.quantity(column).label).replace('_', " "),
                spots: spots(of),
            };
            let caption = format!("Cost up to the evaluation that the table shows: {cost}, mean over seeds. No method is both cheaper and better than those on the dashed line.");
            (plot.spots.len() > 1).then(|| Figure { name: name(&format!("cost-{what}"), table, label), caption, svg: plots::front(&plot) })
        })
        .collect()
}

fn critical(table: &Table) -> Vec<Figure> {
    let made;
    let analysis = match &table.analysis {
        Some(analysis) => analysis,
        None => {
            made = Analysis::of(table, &Wanted::default());
            &made
        }
    };
    let several = analysis.values.len() > 1;
    analysis
        .values
        .iter()
        .filter_map(|analyzed| {
            let asked = table.analysis.is_some() || table.heading.quantities[analyzed.quantity].measure != Measure::Count;
            let ranked = analyzed.friedman.as_ref().filter(|ranked| asked && ranked.rows.len() > 2)?;
            let title = if several { format!("Mean ranks of {}", analyzed.value) } else { format!("Mean ranks: {}", table.title()) };
            let caption = format!(
                "Mean ranks over {} blocks ({}). Methods under one bar are not told apart by Nemenyi's test at {}.",
                ranked.test.blocks, ranked.blocks_are, ranked.test.level
            );
            let svg = plots::critical(&Critical { title, names: &ranked.rows, test: &ranked.test });
            Some(Figure { name: name("critical", table, if several { &analyzed.value } else { "" }), caption, svg })
        })
        .collect()
}

/// What the trainings behind a table tell, by row and column.
fn told(table: &Table, layout: &Layout, plan: &Plan, found: &[Found], store: &Store) -> HashMap<(String, String), Vec<Told>> {
    let mut all: HashMap<(String, String), Vec<Told>> = HashMap::new();
    let mut seen = HashSet::new();
    let mut histories: HashMap<usize, Option<History>> = HashMap::new();
    let rows: HashMap<&str, usize> = table.rows.iter().enumerate().map(|(i, row)| (row.as_str(), i)).collect();
    for cell in &layout.cells {
        let coords = plan.coords(*cell);
        for (quantity, value) in layout.values.iter().enumerate() {
            let Some(node) = plan.node_for(*cell, &value.stage) else { continue };
            let place = gather::place(layout, &coords, quantity);
            if !seen.insert((place.clone(), node)) {
                continue;
            }
            let history = histories.entry(node.index()).or_insert_with(|| match found.get(node.index()) {
                Some(Found::Metrics(digest, _)) => store.read(digest).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
                _ => None,
            });
            // What a diverged training measured before is not shown beside results.
            let Some(history) = history.as_ref().filter(|history| history.status == Status::Completed) else { continue };
            let over: Vec<String> = layout.over.iter().map(|axis| gather::label(&coords, std::slice::from_ref(axis))).collect();
            let round = rows.get(place.0.as_str()).and_then(|row| {
                let column = table.columns.iter().position(|c| c.label == place.1 && c.quantity == quantity)?;
                table.cells[*row][column].samples.iter().find(|observation| observation.over == over)?.round
            });
            let shown = history.evaluations.iter().rev().find(|e| round.is_none_or(|round| e.round == round));
            let Some(evaluation) = shown.or(history.evaluations.last()) else { continue };
            let view = value.metric.split_once(':').map_or(history.headline.as_str(), |(view, _)| view);
            let clients =
                evaluation.views.get(view).map(|m| m.clients.iter().filter(|c| c.n > 0).map(|c| c.correct as f64 / c.n as f64).collect());
            all.entry(place).or_default().push(Told {
                clients: clients.unwrap_or_default(),
                floats: (evaluation.floats_down + evaluation.floats_up) as f64,
                gradients: evaluation.gradient_evaluations as f64,
            });
        }
    }
    all
}

/// Originals beside reconstructions of the attacks that are there; the first clients of the first attacks.
pub(super) fn reconstructions(plan: &Plan, decisions: &[Decision], store: &Store) -> Vec<Figure> {
    let mut all = Vec::new();
    for (node, decision) in plan.nodes.iter().zip(decisions).filter(|(node, _)| node.kind == "attack") {
        let Decision::Cached { outputs, .. } = decision else { continue };
        let tree = outputs.get("images").and_then(|digest| store.tree(digest).ok()).unwrap_or_default();
        let findings = outputs.get("metrics").and_then(|digest| store.read(digest).ok());
        let findings: Option<Findings> = findings.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(findings) = findings.filter(|_| !tree.is_empty() && all.len() < ATTACKS) else { continue };
        let mut pictures: Vec<(usize, String, Picture)> = Vec::new();
        for (name, object) in &tree {
            let id = name.trim_start_matches("client-").split(['-', '.']).next().and_then(|id| id.parse().ok());
            let (Some(client), Ok(png)) = (id, store.read(object)) else { continue };
            let psnr = findings.clients.iter().find(|of| of.client == client).and_then(|of| of.values.get("psnr"));
            let words = format!("client {client}{}", psnr.map_or_else(String::new, |psnr| format!(": {psnr:.1} dB")));
            pictures.push((client, name.clone(), Picture { png, words }));
        }
        pictures.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        pictures.truncate(PICTURES);
        let pictures: Vec<Picture> = pictures.into_iter().map(|(_, _, picture)| picture).collect();
        let label = node.label();
        let name: String = label.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let of = |metric: &str| findings.value(metric, "mean").map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let caption = format!(
            "{} after {} rounds: PSNR {} dB, SSIM {}, mean over {} clients.",
            findings.attack,
            findings.round,
            of("psnr"),
            of("ssim"),
            findings.clients.len()
        );
        let name = format!("reconstruction-{}", name.trim_end_matches('-'));
        all.push(Figure { name, caption, svg: plots::pictures(&label, &pictures) });
    }
    all
}

/// The partitions that are there, of the first seed where several differ in nothing else.
pub(super) fn partitions(plan: &Plan, decisions: &[Decision], store: &Store) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for (node, decision) in plan.nodes.iter().zip(decisions).filter(|(node, _)| node.kind == "partition") {
        let Decision::Cached { outputs, .. } = decision else { continue };
        let mut params = node.params.to_map();
        params.remove("seed");
        if all.len() >= PARTITIONS || !seen.insert(Value::Object(params).to_string()) {
            continue;
        }
        let manifest: Option<Value> =
            outputs.get("manifest").and_then(|digest| store.read(digest).ok()).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(manifest) = manifest else { continue };
        let clients: Vec<Vec<u64>> = manifest["clients"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|client| client["counts"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect())
            .collect();
        let number = |key: &str| manifest["indices"][key].as_f64().map_or_else(|| "-".to_owned(), |n| format!("{n:.2}"));
        let caption = format!(
            "{}: total variation from all clients together {} on average; effective classes a client {}; smallest client {} samples, largest {}.",
            manifest["kind"].as_str().unwrap_or("partition"),
            number("total_variation_mean"),
            number("effective_classes_mean"),
            manifest["indices"]["size_min"],
            manifest["indices"]["size_max"],
        );
        let label = node.label();
        let name: String =
            format!("partition-{label}").chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        all.push(Figure { name: name.trim_end_matches('-').to_owned(), caption, svg: plots::bubbles(&Bubbles { title: label, clients }) });
    }
    all
}

/// What the global model of each finished training makes of test samples, of the first seed where several differ in nothing else.
pub(super) fn features(plan: &Plan, decisions: &[Decision], store: &Store, tsne: bool) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for (node, decision) in plan.nodes.iter().zip(decisions).filter(|(node, _)| node.kind == "train") {
        let Decision::Cached { outputs, .. } = decision else { continue };
        let split = node.inputs.iter().map(|input| (plan.node(input.node), &decisions[input.node.index()]));
        let Some((split, Decision::Cached { outputs: made, .. })) = split.into_iter().find(|(node, _)| node.kind == "partition") else {
            continue;
        };
        // Seeds, and those of what it reads, are not told apart.
        let plain = |params: &mut serde_json::Map<String, Value>| {
            ["seed", "batch_seed", "sampling_seed"].iter().for_each(|key| drop(params.remove(*key)))
        };
        let (mut params, mut of_split) = (node.params.to_map(), split.params.to_map());
        plain(&mut params);
        plain(&mut of_split);
        for slot in ["partition", "model"] {
            params.remove(slot);
        }
        if all.len() >= PARTITIONS || !seen.insert(format!("{} {}", Value::Object(params), Value::Object(of_split))) {
            continue;
        }
        let (Some(model), Some(data), Some(clients)) = (outputs.get("model"), made.get("data"), made.get("clients")) else { continue };
        let Ok(found) = features::features(store, model, data, clients, SAMPLES) else { continue };
        let plane = if tsne { plane::neighbors(&found.values, found.width) } else { plane::components(&found.values, found.width) };
        let Some(plane) = plane else { continue };
        let label = node.label();
        let axis = |number: usize| match tsne {
            true => format!("axis {} of t-SNE", number + 1),
            false => format!("principal component {} ({:.0} % of the variance)", number + 1, 100.0 * plane.shares[number]),
        };
        let belongs = found.classes.iter().zip(&found.clients);
        let points =
            plane.points.iter().zip(belongs).map(|(at, (class, client))| Placed { at: *at, class: *class, client: *client }).collect();
        let kind = if tsne { "tsne" } else { "features" };
        let caption = format!(
            "The {} features of {} test samples, evenly from all clients, by the global model of {label}{}.",
            found.width,
            found.classes.len(),
            if tsne { "; only which points are near each other means something" } else { "" }
        );
        let name: String = format!("{kind}-{label}").chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        let plot = Scatter { title: format!("Features: {label}"), axes: [axis(0), axis(1)], points };
        all.push(Figure { name: name.trim_end_matches('-').to_owned(), caption, svg: plots::scatter(&plot) });
    }
    all
}

/// The stages of a project, a sweep folded into one box a stage.
pub(super) fn graph(project: &Project) -> Figure {
    let plan = &project.plan;
    let stages = plan.stages();
    let place = |name: &str| stages.iter().position(|stage| **stage == *name);
    // In the order in which they run, so that a stage comes after what it reads.
    let mut order: Vec<usize> = Vec::new();
    for id in plan.order() {
        if let Some(stage) = place(&plan.node(id).stage)
            && !order.contains(&stage)
        {
            order.push(stage);
        }
    }
    let boxes: Vec<plots::Box> = order
        .iter()
        .map(|stage| {
            let nodes: Vec<_> = plan.nodes.iter().filter(|node| node.stage == stages[*stage]).collect();
            let mut reads: Vec<usize> = Vec::new();
            for input in nodes.iter().flat_map(|node| &node.inputs) {
                let read = place(&plan.node(input.node).stage).and_then(|read| order.iter().position(|other| *other == read));
                if let Some(read) = read.filter(|read| !reads.contains(read)) {
                    reads.push(read);
                }
            }
            let kind = nodes.first().map_or("", |node| node.kind);
            plots::Box { name: stages[*stage].to_string(), note: format!("{kind} \u{d7} {}", nodes.len()), reads }
        })
        .collect();
    Figure {
        name: "graph".to_owned(),
        caption: "Each stage with its kind and how often it runs for the whole sweep.".to_owned(),
        svg: plots::graph("Stages", &boxes),
    }
}
