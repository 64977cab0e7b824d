//! What a table gets besides its cells: headings by family, statistics, published numbers; and the files in which it is written.
//!
//! Numbers come from [`crate::table`] and [`crate::results`]; here is known which stage a cell is from, and what its setup was.

use super::context::Context;
use super::gather;
use super::load::{self, Project};
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::{NodeId, Plan};
use crate::results::published::{self, Partition, Published, Setup, plain};
use crate::results::stats::Test;
use crate::spec::{Compare, Measure, Statistics, Table as Layout};
use crate::table::analysis::{Against, find_row};
use crate::table::{Analysis, Beside, Look, Table, Wanted, format};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Checks what can be known to be wrong before anything runs: rows that are not there, files that cannot be read, validation without
/// samples.
///
/// # Errors
/// A pipeline fault.
pub(super) fn check(project: &Project, layouts: &[&Layout]) -> Outcome<()> {
    // Who narrows the sweep on the command line may leave that row out; the table then says so.
    let narrowed = !project.changes.sweep.is_empty() || !project.changes.filter.is_empty();
    for layout in layouts {
        if let Some(statistics) = &layout.statistics
            && !narrowed
            && let Against::Row(name) = wanted(statistics).against
        {
            let mut rows: Vec<String> = Vec::new();
            for cell in &layout.cells {
                let (row, _) = gather::place(layout, &project.plan.coords(*cell), 0);
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
            if find_row(&rows, &name).is_none() {
                let labels = || rows.iter().map(String::as_str);
                let help = match nearest(&name, labels()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("its rows are {}; `first`, `best` and `all` work too", quoted(labels().take(12))),
                };
                return Err(
                    Fault::pipeline(format!("table `{}` is compared with `{name}`, which is not one of its rows", layout.name)).help(help)
                );
            }
        }
        if let Some(compare) = &layout.compare {
            numbers(compare, project)?;
        }
        validation(project, layout)?;
    }
    Ok(())
}

/// Whether there are samples to validate on, where a table shows what they say.
fn validation(project: &Project, layout: &Layout) -> Outcome<()> {
    for value in &layout.values {
        if !value.metric.starts_with("validation_") && !value.selector.contains("validation_") {
            continue;
        }
        let ratio = |node: NodeId| project.plan.node(node).params.to_map().get("validation_ratio").and_then(Value::as_f64);
        let mut nodes = layout.cells.iter().filter_map(|cell| project.plan.node_for(*cell, &value.stage));
        if !nodes.any(|node| ratio(node).is_some_and(|ratio| ratio > 0.0)) {
            let what = format!(
                "table `{}` asks for `{}.{}`, but `{}` puts no samples aside",
                layout.name, value.metric, value.selector, value.stage
            );
            return Err(
                Fault::pipeline(what).help("give the training a `validation_ratio`: 0.2 is a fifth of each client's training samples")
            );
        }
    }
    Ok(())
}

/// Adds to each table what its layout asks for.
///
/// # Errors
/// A pipeline or storage fault when a file of published numbers cannot be used.
pub(super) fn complete(tables: &mut [Table], project: &Project, layouts: &[&Layout]) -> Outcome<()> {
    for (table, layout) in tables.iter_mut().zip(layouts) {
        if layout.families {
            let families = families();
            table.group_by(|row| {
                row.split(", ")
                    .find_map(|part| families.get(part.split('(').next().unwrap_or_default()).copied())
                    .unwrap_or("other")
                    .to_owned()
            });
        }
        if let Some(statistics) = &layout.statistics {
            table.analysis = Some(Analysis::of(table, &wanted(statistics)));
        }
        if let Some(compare) = &layout.compare {
            let beside = beside(table, layout, compare, project)?;
            table.beside = Some(beside);
        }
    }
    Ok(())
}

/// The family of each algorithm by its name.
pub(super) fn families() -> HashMap<&'static str, &'static str> {
    load::algorithms().iter().map(|entry| (entry.description.name, entry.description.family)).collect()
}

fn wanted(statistics: &Statistics) -> Wanted {
    Wanted {
        test: Test::named(&statistics.test).unwrap_or(Test::Wilcoxon),
        against: match statistics.against.as_str() {
            "first" => Against::First,
            "best" => Against::Best,
            "all" => Against::All,
            row => Against::Row(row.to_owned()),
        },
        corrected: statistics.corrected,
        level: statistics.level,
    }
}

/// All published numbers that a table is compared with. A file is looked for beside the pipeline.
fn numbers(compare: &Compare, project: &Project) -> Outcome<Vec<Published>> {
    let mut all = Vec::new();
    for name in &compare.tables {
        if let Some(found) = published::builtin(name) {
            all.extend(found);
            continue;
        }
        let path = project.file.parent().unwrap_or(Path::new(".")).join(name);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| Fault::io("read", &path, &e).help("published numbers of your own are a csv file beside the pipeline"))?;
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

fn beside(table: &Table, layout: &Layout, compare: &Compare, project: &Project) -> Outcome<Beside> {
    let all = numbers(compare, project)?;
    let plan = &project.plan;
    let mut setups: HashMap<(String, String), Ours<'_>> = HashMap::new();
    for cell in &layout.cells {
        let coords = plan.coords(*cell);
        // The labels of row and column, of one of them, then of one of their axes.
        let both = [&layout.rows[..], &layout.columns[..]].concat();
        let axes = [&both[..], &layout.columns, &layout.rows].into_iter().chain(both.chunks(1));
        let setting = axes.map(|axes| gather::label(&coords, axes)).find_map(|label| compare.settings.get(&label));
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
    let find = |row: usize, column: usize| {
        let key = (table.rows[row].clone(), table.columns[column].label.clone());
        let Ours { algorithm, value, setup, setting } = setups.get(&key)?;
        let mut ours = setup.clone();
        ours.trials = Some(table.cells[row][column].samples.len() as u64).filter(|n| *n > 0);
        let fits = |line: &&Published| {
            plain(&line.algorithm) == *algorithm
                && line.our_metric() == Some(value.metric.as_str())
                && match setting {
                    Some(text) => format!("{}, {}, {}", line.dataset, line.model, line.scenario) == **text,
                    None => ours.fits(&line.setup),
                }
        };
        // Of several that fit, the one whose setup differs least.
        let mut found: Vec<(Vec<String>, &Published)> = all.iter().filter(fits).map(|line| (ours.differences(&line.setup), line)).collect();
        found.sort_by_key(|(differences, _)| differences.len());
        found.into_iter().next().map(|(mut differences, line)| {
            if let Some(theirs) = line.selector().filter(|theirs| *theirs != value.selector) {
                differences.push(format!("the {} evaluation instead of the {theirs}", value.selector));
            }
            (line.clone(), differences)
        })
    };
    Ok(Beside::of(table, compare.tables.clone(), compare.margin, find))
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

/// Where the files of a pipeline's tables go: `results/PIPELINE/` beside its file, or in the folder that was asked for.
pub(super) fn folder(project: &Project, results: Option<&Path>) -> PathBuf {
    let beside = || project.file.parent().filter(|folder| folder.is_dir()).unwrap_or(Path::new(".")).join("results");
    let name = project.pipeline.name.replace(['/', '\\'], "-");
    let name = if name.trim_matches('.').is_empty() { "pipeline" } else { &name };
    results.map_or_else(beside, Path::to_owned).join(name)
}

/// Makes the folder for the files of these tables, before anything is computed; nothing when no table asks for a file.
///
/// # Errors
/// A storage fault when files cannot be written there.
pub(super) fn prepare(folder: &Path, layouts: &[&Layout]) -> Outcome<()> {
    if layouts.iter().all(|layout| layout.formats.is_empty()) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|e| Fault::io("write into", folder, &e))
}

/// Writes every table in the formats that its layout names, each file whole or not at all.
///
/// # Errors
/// A storage fault when a file cannot be written.
pub(super) fn write(tables: &[Table], layouts: &[&Layout], folder: &Path, context: &Context<'_>) -> Outcome<()> {
    prepare(folder, layouts)?;
    let mut written: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (table, layout) in tables.iter().zip(layouts) {
        for name in &layout.formats {
            let format = format::find(name)?;
            let path = folder.join(format!("{}.{}", layout.name.replace(['/', '\\'], "-"), format.extension()));
            written.insert(path, format.render(std::slice::from_ref(table), Look::default())?);
        }
    }
    for (path, text) in &written {
        replace(path, text.as_bytes())?;
    }
    if let Some(first) = written.keys().next() {
        let shown = std::env::current_dir()
            .ok()
            .and_then(|here| first.strip_prefix(here).ok().map(Path::to_owned))
            .unwrap_or_else(|| first.clone());
        let more = if written.len() > 1 { format!(" and {} more", written.len() - 1) } else { String::new() };
        context.terminal.note(format!("wrote {}{more}", shown.display()));
    }
    Ok(())
}

/// Writes a file so that readers see the old content or the new one, never a part.
///
/// # Errors
/// A storage fault when it cannot be written.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".pflpipe-");
    // A temporary file is private; a result is as readable as the user's other files.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(|e| Fault::io("create", path, &e))?;
    file.write_all(bytes).and_then(|()| file.flush()).map_err(|e| Fault::io("write", path, &e))?;
    file.persist(path).map_err(|e| Fault::io("write", path, &e.error))?;
    Ok(())
}
