//! The section `sweep` and the conditions of the command line, with their expressions compiled.
//!
//! Knows the grammar; [`super::cells`] works out the cells.

use super::code::Code;
use super::diagnostic::{At, Diagnostic, Problems, suggest};
use super::expr::{Engine, Names, Program};
use super::node::{Data, Key, Node, Place};
use super::source::{Source, Sources};
use crate::base::text;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The default of `max`.
pub(super) const DEFAULT_MAX: i64 = 10_000;

/// Axes with their values, or values of axes.
pub(super) type Entries<'e> = Vec<(Key, Code<'e>)>;

/// Axes to combine: each of `grid` by itself, each group of `zip` tied.
pub(super) struct Product<'e> {
    pub(super) grid: Entries<'e>,
    pub(super) zip: Vec<(Place, Entries<'e>)>,
}

/// An item of `exclude`.
pub(super) enum Exclusion<'e> {
    Values(Entries<'e>),
    If(Program<'e>),
}

/// The section with its expressions compiled.
pub struct SweepCode<'e> {
    pub(super) place: Option<Place>,
    pub(super) main: Product<'e>,
    pub(super) when: Vec<(Program<'e>, String, Product<'e>)>,
    pub(super) exclude: Vec<(Place, Exclusion<'e>)>,
    pub(super) include: Vec<(Place, Entries<'e>)>,
    pub(super) max: Code<'e>,
    pub(super) filters: Vec<(Place, Program<'e>)>,
}

impl<'e> SweepCode<'e> {
    /// Compiles the section and the conditions of the command line.
    pub fn compile(
        engine: &'e Engine,
        section: Option<&Node>,
        filters: &[String],
        names: &dyn Names,
        sources: &mut Sources,
        problems: &mut Problems,
    ) -> Self {
        let mut code = Self {
            place: section.map(|node| node.place),
            main: Product { grid: Vec::new(), zip: Vec::new() },
            when: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            max: Code::Const(Node::scalar(Place { source: 0, item: 0 }, DEFAULT_MAX.into())),
            filters: Vec::new(),
        };
        for filter in filters {
            let source = sources.add(Source::option(format!("--where {filter}"), "--where ".len(), "", ""));
            let place = Place { source, item: 0 };
            match Program::compile(engine, filter, place, names) {
                Ok(program) => code.filters.push((place, program)),
                Err(problem) => problems.push(*problem),
            }
        }
        let Some(section) = section.filter(|node| !node.is_null()) else { return code };
        let known = ["grid", "zip", "when", "exclude", "include", "max"];
        let Some(entries) = section.entries() else {
            problems.push(
                Diagnostic::error("type", format!("`sweep` must be a map, found {}", section.describe()))
                    .at(section.place)
                    .help("write `sweep: {grid: {seed: [0, 1, 2]}}`"),
            );
            return code;
        };
        for (key, node) in entries {
            if !known.contains(&&*key.text) {
                problems.push(
                    Diagnostic::error("unknown-key", format!("unknown key `{}` in `sweep`", key.text))
                        .at(key.place)
                        .help_if(node.items().map(|_| format!("axes belong under `grid`: `grid: {{{}: [...]}}`", key.text)))
                        .help_if(text::nearest(&key.text, known).map(|name| format!("did you mean `{name}`?"))),
                );
            }
        }
        code.main = product(engine, section, "sweep", names, problems);
        for item in list(section.get("when"), "when", problems) {
            let Some((source, program)) = condition(engine, item, names, problems) else { continue };
            unknown_keys(item, &["if", "grid", "zip"], "when", problems);
            let product = product(engine, item, "when", names, problems);
            if product.grid.is_empty() && product.zip.is_empty() {
                problems.push(Diagnostic::error("sweep", "this item of `when` adds no axis").at(item.place).help("add a `grid:` to it"));
            }
            code.when.push((program, source, product));
        }
        for item in list(section.get("exclude"), "exclude", problems) {
            if item.get("if").is_some() || item.text().is_some() {
                if let Some((_, program)) = condition(engine, item, names, problems) {
                    unknown_keys(item, &["if"], "exclude", problems);
                    code.exclude.push((item.place, Exclusion::If(program)));
                }
            } else if let Some(entries) = compile_map(engine, item, "an item of `exclude`", names, problems) {
                code.exclude.push((item.place, Exclusion::Values(entries)));
            }
        }
        for item in list(section.get("include"), "include", problems) {
            if let Some(entries) = compile_map(engine, item, "an item of `include`", names, problems) {
                code.include.push((item.place, entries));
            }
        }
        if let Some(max) = section.get("max") {
            code.max = Code::compile(engine, max, names, problems);
        }
        code
    }
    /// Adds the names that it reads.
    pub fn names(&self, into: &mut BTreeSet<String>) {
        let mut product = |product: &Product<'e>| {
            product.grid.iter().chain(product.zip.iter().flat_map(|(_, group)| group)).for_each(|(_, code)| code.names(into));
        };
        product(&self.main);
        self.when.iter().for_each(|(_, _, inner)| product(inner));
        for (program, _, _) in &self.when {
            into.extend(program.names().iter().cloned());
        }
        for (_, exclusion) in &self.exclude {
            match exclusion {
                Exclusion::Values(entries) => entries.iter().for_each(|(_, code)| code.names(into)),
                Exclusion::If(program) => into.extend(program.names().iter().cloned()),
            }
        }
        self.include.iter().flat_map(|(_, entries)| entries).for_each(|(_, code)| code.names(into));
        self.max.names(into);
        for (_, program) in &self.filters {
            into.extend(program.names().iter().cloned());
        }
    }
}

fn list<'n>(node: Option<&'n Node>, name: &str, problems: &mut Problems) -> &'n [Node] {
    let Some(node) = node else { return &[] };
    node.items().unwrap_or_else(|| {
        if !node.is_null() {
            problems.push(
                Diagnostic::error("type", format!("`{name}` must be a list, found {}", node.describe()))
                    .at(node.place)
                    .help(format!("write `{name}: [{{...}}]`")),
            );
        }
        &[]
    })
}

fn unknown_keys(node: &Node, known: &[&str], section: &str, problems: &mut Problems) {
    for (key, _) in node.entries().unwrap_or(&[]) {
        if !known.contains(&&*key.text) {
            problems.push(
                Diagnostic::error("unknown-key", format!("unknown key `{}` in `{section}`", key.text))
                    .at(key.place)
                    .help_if(suggest(&key.text, known.iter().copied())),
            );
        }
    }
}

fn compile_map<'e>(engine: &'e Engine, node: &Node, what: &str, names: &dyn Names, problems: &mut Problems) -> Option<Entries<'e>> {
    if node.is_hole() {
        return None;
    }
    let Some(entries) = node.entries() else {
        problems.push(Diagnostic::error("type", format!("{what} must be a map of axes, found {}", node.describe())).at(node.place));
        return None;
    };
    Some(entries.iter().map(|(key, value)| (key.clone(), Code::compile(engine, value, names, problems))).collect())
}

fn product<'e>(engine: &'e Engine, node: &Node, section: &str, names: &dyn Names, problems: &mut Problems) -> Product<'e> {
    let filled = |name: &str| node.get(name).filter(|node| !node.is_null());
    let grid = filled("grid").and_then(|grid| compile_map(engine, grid, "`grid`", names, problems)).unwrap_or_default();
    let groups: Vec<&Node> = match filled("zip") {
        Some(zip) if zip.entries().is_some() => vec![zip],
        zip => list(zip, "zip", problems).iter().collect(),
    };
    let mut zip = Vec::new();
    for group in groups {
        if let Some(entries) = compile_map(engine, group, "an item of `zip`", names, problems) {
            zip.push((group.place, entries));
        }
    }
    let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
    for (key, _) in grid.iter().chain(zip.iter().flat_map(|(_, group)| group)) {
        if let Some(first) = seen.insert(&key.text, key.place) {
            problems.push(
                Diagnostic::error("sweep", format!("axis `{}` is there twice in `{section}`", key.text))
                    .at(key.place)
                    .also(At::Place(first), "first here"),
            );
        }
    }
    Product { grid, zip }
}

fn condition<'e>(engine: &'e Engine, item: &Node, names: &dyn Names, problems: &mut Problems) -> Option<(String, Program<'e>)> {
    let Some(node) = item.get("if").or_else(|| item.text().map(|_| item)) else {
        problems.push(
            Diagnostic::error("sweep", "this item has no `if:`").at(item.place).help("write `{if: \"algorithm == 'ditto'\", grid: {...}}`"),
        );
        return None;
    };
    let text = match &node.data {
        Data::Scalar(Value::Bool(b)) => b.to_string(),
        _ => match node.text() {
            Some(text) => text.to_owned(),
            None => {
                problems.push(Diagnostic::error("type", format!("`if` must be an expression, found {}", node.describe())).at(node.place));
                return None;
            }
        },
    };
    let source = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(&text).trim().to_owned();
    match Program::compile(engine, &source, node.place, names) {
        Ok(program) => Some((source, program)),
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}
