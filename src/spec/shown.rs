//! A table with the cells of the sweep at hand: which of them it shows, and whether all that it names is there.

use super::catalog::Catalog;
use super::cells::{ABSENT, Cells, scope_of};
use super::diagnostic::{Diagnostic, Problems, suggest};
use super::expr::{Failure, Scope};
use super::node::Place;
use super::pipeline::{Instance, Stage};
use super::tables::{Compare, Measure, Places, Table, TableCode, label};
use super::vars::Vars;
use crate::base::text::{find_row, nearest, quoted};
use std::collections::BTreeSet;

/// What is known when tables are filled in.
pub(super) struct Shown<'a, 'e> {
    pub(super) vars: &'a Vars<'e>,
    pub(super) cells: &'a Cells,
    pub(super) constants: &'a Scope<'a>,
    pub(super) stages: &'a [Stage],
    /// The axes that the command line brings.
    pub(super) from_command_line: &'a [String],
    /// Whether the command line chooses cells: who does so may leave out what a table names, and the table then says so.
    pub(super) narrowed: bool,
    pub(super) catalog: &'a dyn Catalog,
    pub(super) problems: &'a mut Problems,
}

impl Shown<'_, '_> {
    /// Fills in the cells of a table, and makes sure that no axis is mixed up silently, that each value is measured in some cell, and
    /// that rows and published numbers that it names are there.
    pub(super) fn table(&mut self, code: TableCode<'_>) -> Table {
        let cells = self.cells;
        let mut table = code.table;
        let reads = code.filter.as_ref().map(|program| self.vars.reads(program.names())).unwrap_or_default();
        for (index, cell) in cells.cells.iter().enumerate() {
            let mut scope = || scope_of(&cells.axes, self.vars, self.constants, &reads, cell, self.problems);
            match code.filter.as_ref().map_or(Ok(true), |program| program.holds(&scope())) {
                Ok(true) => table.cells.push(index),
                Ok(false) | Err(Failure::Reported) => {}
                Err(Failure::Undefined(problem) | Failure::Wrong(problem)) => {
                    self.problems.push(*problem);
                    return table;
                }
            }
        }
        if table.cells.is_empty() && !cells.cells.is_empty() {
            self.problems.push(Diagnostic::warning("table", format!("no cell fits the `where` of table `{}`", table.name)).at(code.place));
        }
        for (measure, place) in table.values.iter().zip(&code.values) {
            if let Some(stage) = self.stages.iter().find(|stage| stage.name == measure.stage) {
                self.unmeasured(stage, measure, &table.cells, *place);
            }
        }
        self.mixed(&mut table, code.place);
        self.against(&table, &code.places);
        if let Some(compare) = &table.compare {
            self.published(&table, compare, &code.places);
        }
        table
    }

    /// Refuses axes of which the table does not say what becomes of them.
    fn mixed(&mut self, table: &mut Table, place: Place) {
        let cells = self.cells;
        let mut axes = BTreeSet::new();
        for measure in &table.values {
            if let Some(stage) = self.stages.iter().position(|stage| stage.name == measure.stage) {
                axes.extend(all_axes(self.stages, stage));
            }
        }
        let named = |name: &String| table.rows.contains(name) || table.columns.contains(name) || table.over.contains(name);
        let mixed: Vec<&str> = axes
            .into_iter()
            .filter(|axis| !named(&cells.axes[*axis].name))
            .filter(|axis| table.cells.iter().map(|cell| cells.cells[*cell][*axis]).collect::<BTreeSet<_>>().len() > 1)
            .map(|axis| cells.axes[axis].name.as_str())
            .collect();
        let (added, mixed): (Vec<&str>, Vec<&str>) =
            mixed.into_iter().partition(|axis| self.from_command_line.iter().any(|name| name == axis));
        for axis in added {
            // The file cannot know of an axis that `--sweep` adds.
            let what = format!("table `{}` shows the axis `{axis}` of the command line as rows", table.name);
            self.problems.push(Diagnostic::warning("mixed-axis", what).at(place));
            table.rows.push(axis.to_owned());
        }
        if mixed.is_empty() {
            return;
        }
        let axes = if mixed.len() == 1 { "axis" } else { "axes" };
        let what = format!("table `{}` does not say what becomes of the {axes} {}", table.name, quoted(mixed.iter().copied()));
        let help = format!("add it to `rows` or `columns`, take the mean by `over: [{}]`, or choose by `where`", mixed.join(", "));
        self.problems.push(Diagnostic::error("mixed-axis", what).at(place).help(help));
    }

    /// Refuses a value that the stage measures in none of the cells: one of another variant of its kind, one of what it does not do, or
    /// one that is chosen by such a metric.
    fn unmeasured(&mut self, stage: &Stage, measure: &Measure, cells: &[usize], place: Place) {
        let ids: BTreeSet<u32> = cells.iter().filter_map(|cell| stage.instance_of.get(*cell)).copied().collect();
        let instances: Vec<&Instance> = ids.into_iter().filter_map(|id| stage.instances.get(id as usize)).collect();
        let measured = |instance: &Instance| self.catalog.measures(stage.kind, &instance.params);
        let Some(first) = instances.first() else { return };
        if !instances.iter().any(|instance| measured(instance).contains(&measure.metric.as_str())) {
            let tag = self.catalog.kind(stage.kind).and_then(|kind| kind.shape.tag.as_ref());
            let variant = tag.and_then(|tag| Some(format!("{}: {}", tag.name, first.params.get(tag.name)?.as_str()?)));
            let what = match variant {
                Some(variant) => format!("`{}` is not measured by stage `{}`, which has `{variant}`", measure.metric, stage.name),
                None => format!("`{}` is not measured by stage `{}`", measure.metric, stage.name),
            };
            let help = suggest(&measure.metric, measured(first).iter().copied());
            self.problems.push(Diagnostic::error("unknown-metric", what).at(place).help_if(help));
            return;
        }
        let misses = |instance: &&Instance| self.catalog.misses(stage.kind, &instance.params, &measure.selector);
        if let Some(reason) = instances.first().and_then(misses).filter(|_| !self.narrowed)
            && instances.iter().all(|instance| misses(instance).is_some())
        {
            let what = format!("`{}` finds nothing in stage `{}`: {}", measure.selector, stage.name, reason.what);
            self.problems.push(Diagnostic::error("unmeasured", what).at(place).help_if(reason.help));
        }
        let chooser = measure.selector.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).map(str::trim);
        for metric in [Some(measure.metric.as_str()), chooser].into_iter().flatten() {
            let lack = |instance: &&Instance| self.catalog.lacks(stage.kind, &instance.params, metric);
            let Some(reason) = instances.first().and_then(lack).filter(|_| !self.narrowed) else { continue };
            if instances.iter().all(|instance| lack(instance).is_some()) {
                let what = format!("`{metric}` is not measured by stage `{}`: {}", stage.name, reason.what);
                self.problems.push(Diagnostic::error("unmeasured", what).at(place).help_if(reason.help));
            }
        }
    }

    /// The labels of the rows.
    fn rows(&self, table: &Table) -> Vec<String> {
        let rows = table.cells.iter().map(|cell| self.label(&table.rows, *cell));
        let mut seen = BTreeSet::new();
        rows.filter(|row| seen.insert(row.clone())).collect()
    }

    fn label(&self, axes: &[String], cell: usize) -> String {
        let value = |name: &str| {
            let axis = self.cells.axes.iter().position(|axis| axis.name == name)?;
            let index = self.cells.cells[cell].get(axis).filter(|index| **index != ABSENT)?;
            self.cells.axes[axis].values.get(*index as usize)
        };
        label(axes, value)
    }

    /// Refuses a comparison with a row that is not there.
    fn against(&mut self, table: &Table, places: &Places) {
        let (Some(statistics), Some(place), false) = (&table.statistics, places.against, self.narrowed) else { return };
        if table.cells.is_empty() || ["first", "best", "all"].contains(&statistics.against.as_str()) {
            return;
        }
        let rows = self.rows(table);
        if find_row(&rows, &statistics.against).is_some() {
            return;
        }
        let what = format!("table `{}` is compared with `{}`, which is not one of its rows", table.name, statistics.against);
        self.problems.push(Diagnostic::error("unknown-row", what).at(place).help(other_rows(&rows, &statistics.against)));
    }

    /// Looks into the published tables: whether a file can be read, and whether the settings that stand for others are there.
    fn published(&mut self, table: &Table, compare: &Compare, places: &Places) {
        let mut settings: Vec<String> = Vec::new();
        for (name, place) in compare.tables.iter().zip(&places.compared) {
            let text = match compare.files.get(name).map(std::fs::read_to_string) {
                None => None,
                Some(Ok(text)) => Some(text),
                Some(Err(error)) => {
                    self.problems.push(
                        Diagnostic::error("compare", format!("cannot read `{name}`: {error}"))
                            .at(*place)
                            .help("the path is relative to the file that names it, or on the command line to the current folder"),
                    );
                    return;
                }
            };
            match self.catalog.settings(name, text.as_deref()) {
                Ok(found) => settings.extend(found),
                Err(fault) => {
                    self.problems.push(Diagnostic::error("compare", fault.what).at(*place).help_if(fault.help));
                    return;
                }
            }
        }
        if settings.is_empty() {
            return;
        }
        let labels = self.labels(table);
        for (name, key, value) in &places.settings {
            let Some(text) = compare.settings.get(name) else { continue };
            if !settings.contains(text) {
                let near = nearest(text, settings.iter().map(String::as_str));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("write `data set, model, scenario` as published: {}", quoted(settings.iter().take(4).map(String::as_str)))
                    }
                };
                let what = format!("`{text}` is not a setting of {}", quoted(compare.tables.iter().map(String::as_str)));
                self.problems.push(Diagnostic::error("unknown-setting", what).at(*value).help(help));
            }
            if !self.narrowed && !labels.contains(name) {
                let help = suggest(name, labels.iter().map(String::as_str));
                let what = format!("`{name}` is not a label of table `{}`, so that this setting is not used", table.name);
                self.problems.push(Diagnostic::warning("unknown-label", what).at(*key).help_if(help));
            }
        }
    }

    /// Every label by which `settings` may name cells: of rows and columns together, of one of them, and of each axis.
    fn labels(&self, table: &Table) -> BTreeSet<String> {
        let sets = table.setting_axes();
        table.cells.iter().flat_map(|cell| sets.iter().map(|axes| self.label(axes, *cell))).collect()
    }
}

/// What to compare with in place of a row that is not there.
#[must_use]
pub fn other_rows(rows: &[String], name: &str) -> String {
    let labels = || rows.iter().map(String::as_str);
    match nearest(name, labels()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its rows are {}; `first`, `best` and `all` work too", quoted(labels().take(12))),
    }
}

/// The axes that a stage or one of its inputs reads.
fn all_axes(stages: &[Stage], stage: usize) -> BTreeSet<usize> {
    let mut axes = BTreeSet::new();
    let (mut open, mut seen) = (vec![stage], BTreeSet::new());
    while let Some(stage) = open.pop() {
        if seen.insert(stage) {
            axes.extend(stages[stage].axes.iter().copied());
            open.extend(stages[stage].instances.iter().flat_map(|instance| instance.inputs.iter().map(|(_, input, _)| *input)));
        }
    }
    axes
}
