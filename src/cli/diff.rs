//! `runs diff`: what differs between two runs, in their inputs and in their results.
//!
//! Both are read from the store: the text and the changes of each run, the keys of its stages, and the measurements behind them.

use super::args::Changes;
use super::context::Context;
use super::gather::{self, Found};
use super::load::Project;
use super::output::{Text, columns};
use super::{Reply, status, table};
use crate::base::text::count;
use crate::base::{Digest, Outcome};
use crate::plan::{Manifest, Plan, Reason};
use crate::store::{RunInfo, Store};
use crate::table::Table;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// So many lines of each kind are shown to people; programs get all.
const LINES: usize = 40;

/// Show what differs between two runs: the pipeline, the keys of stages and why, and the numbers in their tables.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe runs diff 20260131-094500-1f3a 20260131-101500-77c2")]
pub(super) struct Args {
    /// The earlier run
    #[arg(value_name = "A")]
    before: String,
    /// The later run
    #[arg(value_name = "B")]
    after: String,
}

/// One run with what it is compared by.
struct Side {
    info: RunInfo,
    text: String,
    changes: Value,
    keys: BTreeMap<String, Digest>,
    tables: Vec<Table>,
}

impl Side {
    fn of(store: &Store, id: &str, context: &Context<'_>) -> Result<Self, super::Stop> {
        let info = status::find(store, id)?;
        let entry = |event: Value| Some((event.get("label")?.as_str()?.to_owned(), event.get("key")?.as_str()?.parse().ok()?));
        let keys: BTreeMap<String, Digest> = store.run_events(&info.id).into_iter().filter_map(entry).collect();
        let plan = store.run_plan(&info.id).unwrap_or_default();
        // A pipeline that this version no longer takes still has keys to compare.
        let project = table::open(Path::new(&info.id), &Changes::default(), Some(store), context).ok();
        let tables = project.map(|project| tables(&project, &keys, store)).transpose()?.unwrap_or_default();
        Ok(Self { text: store.run_text(&info.id)?, changes: plan.get("changes").cloned().unwrap_or_default(), keys, tables, info })
    }
}

/// The tables of what the run itself found or made, not of what the store has now.
fn tables(project: &Project, keys: &BTreeMap<String, Digest>, store: &Store) -> Outcome<Vec<Table>> {
    let plan: &Plan = &project.plan;
    let found: Vec<Found> = plan
        .nodes
        .iter()
        .map(|node| {
            let metrics = |key: &Digest| Some(Found::Metrics(store.lookup(key)?.get("metrics")?.digest, *key));
            keys.get(&node.label()).and_then(metrics).unwrap_or(Found::Missing)
        })
        .collect();
    let layouts: Vec<_> = plan.tables.iter().collect();
    Ok(gather::tables(plan, &layouts, &found, Some(store))?.tables)
}

/// A stage whose key is not the same.
struct Changed {
    label: String,
    why: Vec<String>,
}

fn changed(store: &Store, a: &Side, b: &Side) -> Vec<Changed> {
    let manifest = |key: &Digest| -> Option<Manifest> { serde_json::from_value(store.record(key).ok()??.manifest).ok() };
    a.keys
        .iter()
        .filter_map(|(label, before)| {
            let after = b.keys.get(label).filter(|after| *after != before)?;
            let why = match (manifest(before), manifest(after)) {
                (Some(old), Some(new)) => match crate::plan::reason(&new, &[old]) {
                    Reason::Changed(changes) => changes.iter().map(ToString::to_string).collect(),
                    _ => vec!["another key of the same components".to_owned()],
                },
                _ => vec!["one of the two has no result in the store".to_owned()],
            };
            Some(Changed { label: label.clone(), why })
        })
        .collect()
}

/// The mean of each cell by table, row and column, with what shows it.
fn cells(side: &Side) -> BTreeMap<(String, String, String), (usize, usize, usize)> {
    let mut all = BTreeMap::new();
    for (t, table) in side.tables.iter().enumerate() {
        for (r, row) in table.rows.iter().enumerate() {
            for (c, column) in table.columns.iter().enumerate() {
                all.insert((table.heading.name.clone(), row.clone(), column.label.clone()), (t, r, c));
            }
        }
    }
    all
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let store = context.needed_store()?;
    let (a, b) = (Side::of(&store, &args.before, context)?, Side::of(&store, &args.after, context)?);
    let differ = changed(&store, &a, &b);
    let equal = a.keys.iter().filter(|(label, key)| b.keys.get(*label) == Some(key)).count();
    let only = |one: &Side, other: &Side| one.keys.keys().filter(|label| !other.keys.contains_key(*label)).cloned().collect::<Vec<_>>();
    let (gone, new) = (only(&a, &b), only(&b, &a));

    let mut facts: Vec<(String, String, String)> = Vec::new();
    let mut fact = |name: &str, before: String, after: String| {
        if before != after {
            facts.push((name.to_owned(), before, after));
        }
    };
    fact("pipeline", a.info.pipeline.clone(), b.info.pipeline.clone());
    fact("version", a.info.version.clone(), b.info.version.clone());
    fact("host", a.info.host.name.clone(), b.info.host.name.clone());
    fact("CPU", a.info.host.cpu.clone(), b.info.host.cpu.clone());
    let options = |side: &Side, key: &str| {
        let list = side.changes.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        if list.is_empty() { "-".to_owned() } else { list.join(" ") }
    };
    for (name, key) in [("--set", "set"), ("--sweep", "sweep"), ("--where", "filter")] {
        fact(name, options(&a, key), options(&b, key));
    }
    let lines = text_diff(&a.text, &b.text);

    let (before, after) = (cells(&a), cells(&b));
    let places: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let (mut rows, mut results, mut same) = (Vec::new(), Vec::new(), 0);
    for place in places {
        let side = |side: &Side, at: Option<&(usize, usize, usize)>| {
            at.and_then(|(t, r, c)| side.tables[*t].cells[*r][*c].stats().map(|stats| (stats.mean, side.tables[*t].quantity(*c).clone())))
        };
        let (old, now) = (side(&a, before.get(place)), side(&b, after.get(place)));
        if old.as_ref().map(|(mean, _)| mean.to_bits()) == now.as_ref().map(|(mean, _)| mean.to_bits()) {
            same += usize::from(old.is_some());
            continue;
        }
        let difference = old.as_ref().zip(now.as_ref()).map(|((old, _), (now, _))| now - old);
        let shown = |value: &Option<(f64, crate::table::Quantity)>| {
            value.as_ref().map_or_else(|| "-".to_owned(), |(mean, quantity)| quantity.write(*mean))
        };
        let signed = difference.zip(now.as_ref()).map_or_else(|| "-".to_owned(), |(d, (_, quantity))| quantity.signed(d));
        rows.push(vec![place.0.clone(), place.1.clone(), place.2.clone(), shown(&old), shown(&now), signed]);
        results.push(json!({
            "table": place.0, "row": place.1, "column": place.2,
            "before": old.map(|(mean, _)| mean), "after": now.map(|(mean, _)| mean), "difference": difference,
        }));
    }

    let mut text =
        format!("A {} of {}, {}\nB {} of {}, {}\n", a.info.id, a.info.pipeline, when(&a.info), b.info.id, b.info.pipeline, when(&b.info));
    if !facts.is_empty() {
        let rows: Vec<Vec<String>> = facts.iter().map(|(name, a, b)| vec![name.clone(), a.clone(), b.clone()]).collect();
        text.push_str(&format!("\n{}", columns(&["", "A", "B"], &rows)));
    }
    text.push_str(&match lines.len() {
        0 => "\nThe texts of the pipelines are the same.\n".to_owned(),
        n => format!(
            "\nThe texts of the pipelines differ:\n{}{}",
            lines.iter().take(LINES).map(|line| format!("  {line}\n")).collect::<String>(),
            more(n)
        ),
    });
    text.push_str(&format!(
        "\nStages: {equal} with equal keys, {} with others, {} only in A, {} only in B\n",
        differ.len(),
        gone.len(),
        new.len()
    ));
    // Equal reasons are told once: a changed parameter changes many stages.
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for stage in &differ {
        reasons.entry(stage.why.join(", ")).or_default().push(&stage.label);
    }
    for (why, labels) in reasons.iter().take(LINES) {
        let others = if labels.len() > 1 { format!(" and {}", count(labels.len() - 1, "other stage")) } else { String::new() };
        text.push_str(&format!("  {}{others}: {why}\n", labels[0]));
    }
    text.push_str(&more(reasons.len()));
    if rows.is_empty() {
        text.push_str(&format!("\nResults: all {} are the same\n", count(same, "cell")));
    } else {
        text.push_str(&format!("\nResults: {} the same, {} not\n", count(same, "cell"), rows.len()));
        let shown: Vec<Vec<String>> = rows.iter().take(LINES).cloned().collect();
        text.push_str(&columns(&["table", "row", "column", "A", "B", "B - A"], &shown));
        text.push_str(&more(rows.len()));
    }
    let json = json!({
        "before": a.info, "after": b.info,
        "facts": facts.iter().map(|(name, a, b)| json!({"name": name, "before": a, "after": b})).collect::<Vec<_>>(),
        "text": lines,
        "stages": {
            "equal": equal,
            "changed": differ.iter().map(|stage| json!({"label": stage.label, "why": stage.why})).collect::<Vec<_>>(),
            "only_before": gone, "only_after": new,
        },
        "results": {"same": same, "changed": results},
    });
    let quiet = rows.iter().map(|row| format!("{}\n", row[..3].join("\t"))).collect();
    context.pass_warnings(&store);
    context.show(&Text { text, json, quiet })?;
    Ok(0)
}

fn when(info: &RunInfo) -> String {
    info.started.get(..19).unwrap_or(&info.started).replace('T', " ")
}

fn more(n: usize) -> String {
    if n > LINES { format!("  and {} more\n", n - LINES) } else { String::new() }
}

/// The lines that only one of two texts has, marked by `-` and `+`, in order: by the longest common subsequence.
fn text_diff(a: &str, b: &str) -> Vec<String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
    // Equal beginnings and ends cost nothing, so the table below is small even for long texts.
    let start = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    if a.len().saturating_mul(b.len()) > 4_000_000 {
        return a.iter().map(|line| format!("- {line}")).chain(b.iter().map(|line| format!("+ {line}"))).collect();
    }
    let mut common = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(format!("- {}", a[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", b[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_that_differ_are_shown() {
        assert_eq!(text_diff("a\nb\nc\nd", "a\nB\nc\nd\ne"), ["- b", "+ B", "+ e"]);
        assert_eq!(text_diff("a", "a"), Vec::<String>::new());
        assert_eq!(text_diff("", "x"), ["+ x"]);
        assert_eq!(text_diff("a\nx\nb", "a\nb"), ["- x"]);
    }
}
