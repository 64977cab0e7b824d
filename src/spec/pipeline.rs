//! From text to a checked pipeline: every stage with its effective parameters, once for each combination of the axes that it reads.

use super::catalog::Catalog;
use super::cells::ABSENT;
use super::diagnostic::{Diagnostic, Diagnostics, Problems, Severity, suggest};
use super::document::{self, axis_names};
use super::expr::Engine;
use super::instances::Instances;
use super::node::{Node, Place};
use super::overrides::Overrides;
use super::params::Params;
use super::shown::Shown;
use super::source::Sources;
use super::stages::{self, RunOptions, StageCode};
use super::sweep::SweepCode;
use super::tables::{self, Table, TableCode};
use super::vars::{self, Vars};
use crate::base::{Fault, Outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checked pipeline. All expressions are evaluated.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its `name`, else the name of its file.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The text of the file itself.
    pub text: String,
    /// The file and those that it extends, at any depth.
    pub files: Vec<PathBuf>,
    /// The axes in the order of the text.
    pub axes: Vec<Axis>,
    /// The cells in order; a pipeline without a sweep has one, without coordinates.
    pub cells: Vec<Cell>,
    /// The stages, each after those that it needs.
    pub stages: Vec<Stage>,
    /// The tables in the order of the text.
    pub tables: Vec<Table>,
    /// What is probably not meant.
    pub warnings: Diagnostics,
}

/// An axis of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// As expressions call it.
    pub name: String,
    /// Its values in order.
    pub values: Vec<Value>,
}

/// A point of the sweep: for each axis the index of its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell(Vec<u32>);

impl Cell {
    /// The index of its value of an axis, unless the cell does not have the axis.
    #[must_use]
    pub fn value(&self, axis: usize) -> Option<usize> {
        self.0.get(axis).filter(|value| **value != ABSENT).map(|value| *value as usize)
    }
}

/// A stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// The name of its kind.
    pub kind: &'static str,
    /// Indices of the axes that its own expressions read.
    pub axes: Vec<usize>,
    /// The stage for each combination of these axes.
    pub instances: Vec<Instance>,
    /// For each cell the index of its instance.
    pub instance_of: Vec<u32>,
}

/// A stage for one combination of the axes that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Its effective parameters; references to stages are not among them.
    pub params: Arc<Params>,
    /// Its inputs: slot, index of the stage, and the outputs that are read.
    pub inputs: Vec<(String, usize, &'static [&'static str])>,
    /// How it is run.
    pub options: RunOptions,
}

impl Pipeline {
    /// The coordinates of a cell, restricted to some axes.
    #[must_use]
    pub fn coords(&self, cell: usize, axes: impl IntoIterator<Item = usize>) -> BTreeMap<String, Value> {
        let cell = &self.cells[cell];
        axes.into_iter()
            .filter_map(|axis| Some((self.axes[axis].name.clone(), self.axes[axis].values[cell.value(axis)?].clone())))
            .collect()
    }
    /// The pipeline with everything filled in, for `expand`: axes, cells, and the stages with their effective parameters.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let cells: Vec<Value> = (0..self.cells.len()).map(|cell| json!(self.coords(cell, 0..self.axes.len()))).collect();
        let stages: Vec<Value> = self.stages.iter().map(|stage| self.stage_value(stage)).collect();
        json!({"name": self.name, "cells": cells, "stages": stages})
    }
    fn stage_value(&self, stage: &Stage) -> Value {
        let mut first_cell: Vec<Option<usize>> = vec![None; stage.instances.len()];
        for (cell, instance) in stage.instance_of.iter().enumerate() {
            first_cell[*instance as usize].get_or_insert(cell);
        }
        let instances = stage.instances.iter().zip(first_cell).filter_map(|(instance, cell)| {
            let inputs: BTreeMap<&str, &str> =
                instance.inputs.iter().map(|(slot, stage, _)| (slot.as_str(), self.stages[*stage].name.as_str())).collect();
            let coords = self.coords(cell?, stage.axes.iter().copied());
            Some(json!({"coords": coords, "params": instance.params.to_map(), "inputs": inputs}))
        });
        json!({"name": stage.name, "kind": stage.kind, "instances": instances.collect::<Vec<_>>()})
    }
}

/// Reads and checks a pipeline file and what it extends.
///
/// # Errors
/// A storage fault when the file cannot be read; a pipeline or usage fault that sums up the messages otherwise.
/// Use [`load`] to get at all messages.
pub fn load_file(path: &Path, overrides: &Overrides, catalog: &dyn Catalog) -> Outcome<Pipeline> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Fault::io("read", path, &error).help("give the path of a pipeline file; `pflpipe new FILE` writes one"))?;
    load(path, &text, overrides, catalog).map_err(Fault::from)
}

/// Checks the text of a pipeline. `path` names it in messages, and `extends` is relative to it.
///
/// # Errors
/// All errors at once, in the order of the text.
pub fn load(path: &Path, text: &str, overrides: &Overrides, catalog: &dyn Catalog) -> Result<Pipeline, Diagnostics> {
    let mut problems = Problems::default();
    let mut document = document::read(path, text, overrides, catalog, &mut problems);
    let pipeline = if document.root.entries().is_some() {
        build(path, text, &document.root, &mut document.sources, overrides, catalog, &mut problems)
    } else {
        None
    };
    let files = document.sources.files();
    let failed = problems.errors() > 0;
    let diagnostics = Diagnostics::new(document.sources, problems);
    match pipeline {
        Some(mut pipeline) if !failed => {
            pipeline.warnings = diagnostics;
            pipeline.files = files;
            Ok(pipeline)
        }
        _ => Err(diagnostics),
    }
}

const SECTIONS: [&str; 7] = ["name", "extends", "vars", "sweep", "defaults", "stages", "tables"];

fn build(
    path: &Path,
    text: &str,
    root: &Node,
    sources: &mut Sources,
    overrides: &Overrides,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Option<Pipeline> {
    let engine = Engine::default();
    let name = top_level(path, root, problems);
    let axes = axis_names(root);
    let vars_section = root.get("vars").filter(|node| !node.is_null());
    vars::check_names(vars_section, &axes, problems);
    if let Some(section) = vars_section.filter(|node| node.entries().is_none()) {
        problems.push(Diagnostic::error("type", format!("`vars` must be a map, found {}", section.describe())).at(section.place));
    }
    let mut names: BTreeSet<String> = axes.iter().map(|(name, _)| name.clone()).collect();
    let axis_set = names.clone();
    names.extend(vars_section.and_then(Node::entries).unwrap_or(&[]).iter().map(|(key, _)| key.text.to_string()));

    let vars = Vars::compile(&engine, vars_section, &names, axis_set, problems);
    let sweep = SweepCode::compile(&engine, root.get("sweep"), &overrides.filter, &names, sources, problems);
    let stages = stages::compile(&engine, root, &names, catalog, problems);
    let axis_list: Vec<String> = axes.iter().map(|(name, _)| name.clone()).collect();
    let tables = tables::compile(&engine, root, &axis_list, &stages, &names, sources, catalog, problems);

    let replaced = overrides.set.iter().any(|(name, _)| name.contains('.'));
    unused(&vars, &sweep, &stages, &tables, &axes, replaced, sources, problems);

    let constants = vars.constants(problems);
    let limited: Vec<String> = overrides.sweep.iter().map(|(name, _)| name.clone()).collect();
    let cells = sweep.expand(&vars, &axes, &constants, &limited, problems);
    let checked = Instances { vars: &vars, cells: &cells, constants: &constants, catalog, problems }.all(&stages)?;
    let narrowed = !overrides.sweep.is_empty() || !overrides.filter.is_empty();
    let tables = {
        let mut shown = Shown {
            vars: &vars,
            cells: &cells,
            constants: &constants,
            stages: &checked,
            from_command_line: &limited,
            narrowed,
            catalog,
            problems,
        };
        tables.into_iter().map(|code| shown.table(code)).collect()
    };
    Some(Pipeline {
        name,
        path: path.to_path_buf(),
        text: text.to_owned(),
        files: Vec::new(),
        axes: cells.axes.into_iter().map(|axis| Axis { name: axis.name, values: axis.values }).collect(),
        cells: cells.cells.into_iter().map(Cell).collect(),
        stages: checked,
        tables,
        warnings: Diagnostics::default(),
    })
}

fn top_level(path: &Path, root: &Node, problems: &mut Problems) -> String {
    for (key, _) in root.entries().unwrap_or(&[]) {
        if !SECTIONS.contains(&&*key.text) {
            problems.push(
                Diagnostic::error("unknown-key", format!("unknown key `{}`", key.text)).at(key.place).help_if(suggest(&key.text, SECTIONS)),
            );
        }
    }
    let stem = || path.file_stem().map_or_else(|| "pipeline".to_owned(), |stem| stem.to_string_lossy().into_owned());
    match root.get("name") {
        None => stem(),
        Some(node) => match node.text() {
            Some(text) if !text.trim().is_empty() => text.to_owned(),
            _ => {
                problems.push(Diagnostic::error("type", format!("`name` must be text, found {}", node.describe())).at(node.place));
                stem()
            }
        },
    }
}

/// Reports axes and variables that nothing reads: more often a misspelling than a wish. `replaced` says that the command line has
/// put parameters in the place of others, which may have read them.
#[allow(clippy::too_many_arguments)]
fn unused(
    vars: &Vars<'_>,
    sweep: &SweepCode<'_>,
    stages: &[StageCode<'_, '_>],
    tables: &[TableCode<'_>],
    axes: &[(String, Place)],
    replaced: bool,
    sources: &Sources,
    problems: &mut Problems,
) {
    let mut by_stages = BTreeSet::new();
    stages.iter().for_each(|stage| stage.names(&mut by_stages));
    let mut used = by_stages.clone();
    sweep.names(&mut used);
    for table in tables {
        if let Some(filter) = &table.filter {
            used.extend(filter.names().iter().cloned());
        }
    }
    let read = vars.reads(&by_stages).axes;
    let all_params: Vec<String> =
        stages.iter().flat_map(|stage| stage.kind.shape.fields.iter().map(|field| field.name.to_owned())).collect();
    // Where a stage could not be read at all, what it would have used is unknown.
    if problems.errors() > 0 {
        return;
    }
    for (name, place) in axes.iter().filter(|(name, _)| !read.contains(name)) {
        let help = if replaced {
            format!("`--set` has replaced what read it: choose a value of the axis with `--sweep {name}=...`")
        } else if all_params.contains(name) {
            format!("write `{name}: \"{{{{ {name} }}}}\"` in the stage that it is for")
        } else {
            let near = crate::base::text::nearest(
                name,
                axes.iter().map(|(n, _)| n.as_str()).filter(|n| n != name).chain(all_params.iter().map(String::as_str)),
            );
            match near {
                Some(near) => format!("did you mean `{near}`? an axis enters a stage by `\"{{{{ {name} }}}}\"`"),
                None => format!("use it in a stage by `\"{{{{ {name} }}}}\"`, or remove it"),
            }
        };
        problems.push(Diagnostic::error("unused-axis", format!("no stage reads the axis `{name}`")).at(*place).help(help));
    }
    for (name, place) in vars.unused(&used) {
        // A file that is extended by many may define more than each of them needs.
        if replaced {
            continue;
        }
        let own = place.source == 0 || sources.get(usize::from(place.source)).is_some_and(|source| source.command_line);
        let diagnostic = if own { Diagnostic::error } else { Diagnostic::warning };
        problems.push(
            diagnostic("unused-variable", format!("nothing reads the variable `{name}`"))
                .at(place)
                .help(format!("use it by `\"{{{{ {name} }}}}\"`, or remove it")),
        );
    }
}

impl Diagnostics {
    /// Whether any message is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.items().iter().any(|item| item.diagnostic.severity == Severity::Error)
    }
}
