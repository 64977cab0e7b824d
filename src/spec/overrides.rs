//! What the command line changes in a pipeline: `--set`, `--sweep` and `--where`.
//!
//! They are applied to the tree before anything is checked, so that their mistakes are reported like those of the file.

use super::catalog::Catalog;
use super::diagnostic::{At, Diagnostic, Problems, suggest};
use super::document::axis_names;
use super::node::{Data, Key, Node, Place};
use super::source::{Source, Sources};
use super::yaml;
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use serde_json::{Value, json};

/// Changes from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--set NAME=VALUE`: a variable, or a dotted path such as `stages.run.train.rounds` or `run.rounds`.
    pub set: Vec<(String, String)>,
    /// `--sweep AXIS=VALUES`: `0..3` (half-open, an optional third number is the step) or `0.1,0.5`.
    pub sweep: Vec<(String, String)>,
    /// `--where EXPRESSION`: keeps the cells for which all of them hold.
    pub filter: Vec<String>,
}

impl Overrides {
    /// From the texts of the options.
    ///
    /// # Errors
    /// As [`pair`].
    pub fn parse(set: &[String], sweep: &[String], filter: &[String]) -> Outcome<Self> {
        Ok(Self {
            set: set.iter().map(|text| pair("set", text)).collect::<Outcome<_>>()?,
            sweep: sweep.iter().map(|text| pair("sweep", text)).collect::<Outcome<_>>()?,
            filter: filter.to_vec(),
        })
    }
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.sweep.is_empty() && self.filter.is_empty()
    }
}

/// The name and the value of `name=value`, as an option such as `--set` takes them.
///
/// # Errors
/// A usage fault when the `=`, the name or the value is missing.
pub fn pair(option: &str, text: &str) -> Outcome<(String, String)> {
    let (what, help) = match text.split_once('=').map(|(name, value)| (name.trim(), value)) {
        None => ("lacks a `=`", format!("write `--{option} name=value`")),
        Some(("", _)) => ("has no name before the `=`", format!("write `--{option} name=value`")),
        Some((name, value)) if value.trim().is_empty() => {
            ("has no value after the `=`", format!("write `--{option} \"{name}=''\"` for an empty text, or `{name}=null` for none"))
        }
        Some((name, value)) => return Ok((name.to_owned(), value.to_owned())),
    };
    Err(Fault::usage(format!("`--{option} {text}` {what}")).help(help))
}

/// Applies `--set` and `--sweep` to the tree.
pub fn apply(root: &mut Node, overrides: &Overrides, sources: &mut Sources, catalog: &dyn Catalog, problems: &mut Problems) {
    for (name, value) in &overrides.set {
        let shown = format!("--set {name}={value}");
        let from = shown.len() - value.len();
        if let Some((node, source)) = read(shown, from, ["", ""], sources, problems) {
            set(root, name, node, At::Offset { source, offset: "--set ".len() }, catalog, problems);
        }
    }
    for (name, value) in &overrides.sweep {
        let shown = format!("--sweep {name}={value}");
        let from = shown.len() - value.len();
        let brackets = if range(value).is_some() || value.trim_start().starts_with('[') { ["", ""] } else { ["[", "]"] };
        let Some((mut node, source)) = read(shown, from, brackets, sources, problems) else { continue };
        if range(value).is_none() && value.contains("..") && !value.contains(['"', '\'', '{']) {
            let problem = Diagnostic::error("sweep", format!("`{value}` is not a range"))
                .at(At::Offset { source, offset: "--sweep ".len() })
                .help("write integers as `0..3` (half-open) or `0..10..2` (with a step), and other values one by one: `0.1,0.5`");
            problems.push(problem);
            continue;
        }
        if let Some(range) = range(value) {
            node = Node::from_value(node.place, range);
        }
        set_axis(root, name, node, At::Offset { source, offset: "--sweep ".len() }, problems);
    }
}

fn read(shown: String, from: usize, [open, close]: [&str; 2], sources: &mut Sources, problems: &mut Problems) -> Option<(Node, u16)> {
    let index = sources.add(Source::option(shown, from, open, close));
    let source = sources.get(usize::from(index))?;
    match yaml::parse(source.parsed(), index) {
        Ok((node, found)) => {
            problems.extend(found);
            Some((node, index))
        }
        Err(mut problem) => {
            if let At::Offset { source: _, offset } = &mut problem.at {
                *offset = source.shown_offset(*offset);
            }
            problems.push(*problem);
            None
        }
    }
}

/// `0..3` or `0..10..2` as `{range: [0, 3]}` or `{range: [0, 10, 2]}`.
fn range(text: &str) -> Option<Value> {
    let numbers: Vec<i64> = text.trim().split("..").map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
    matches!(numbers.len(), 2 | 3).then(|| json!({ "range": numbers }))
}

fn set(root: &mut Node, name: &str, node: Node, at: At, catalog: &dyn Catalog, problems: &mut Problems) {
    let place = node.place;
    let mut path: Vec<String> = name.split('.').map(str::to_owned).collect();
    if let [only] = path.as_slice() {
        let vars: Vec<String> = keys(root.get("vars"));
        if vars.contains(only) || only == "name" {
            path = if vars.contains(only) { vec!["vars".to_owned(), only.clone()] } else { vec![only.clone()] };
        } else {
            let axes: Vec<String> = axis_names(root).into_iter().map(|(name, _)| name).collect();
            let problem = if axes.contains(only) {
                Diagnostic::error("set", format!("`{only}` is an axis of the sweep")).help(format!("write `--sweep {only}=...`"))
            } else {
                let of_stages =
                    stages_with(root, only, catalog).into_iter().next().map(|stage| format!("write `--set {stage}.{only}=...`"));
                let near = suggest(only, vars.iter().map(String::as_str));
                Diagnostic::error("set", format!("`{only}` is not a variable")).help_if(of_stages.or(near))
            };
            problems.push(problem.at(at));
            return;
        }
    } else if keys(root.get("stages")).contains(&path[0]) && root.get(&path[0]).is_none() {
        // `run.rounds` is short for `stages.run.train.rounds`.
        let stage = root.get("stages").and_then(|stages| stages.get(&path[0]));
        let options = ["timeout", "retries", "device"];
        let kind = keys(stage).into_iter().find(|key| catalog.kind(key).is_some());
        if let Some(kind) = kind.filter(|kind| path[1] != *kind && !options.contains(&path[1].as_str())) {
            path.insert(1, kind);
        }
        path.insert(0, "stages".to_owned());
    }
    if let Err(problem) = descend(root, &path, 0, place, node) {
        problems.push(problem.at(at));
    }
}

/// The stages of which that is a parameter.
fn stages_with(root: &Node, parameter: &str, catalog: &dyn Catalog) -> Vec<String> {
    let stages = root.get("stages");
    let has = |stage: &String| {
        let kinds = keys(stages.and_then(|stages| stages.get(stage)));
        let mut kinds = kinds.iter().filter_map(|key| catalog.kind(key));
        kinds.any(|kind| kind.shape.fields.iter().any(|field| field.name == parameter))
    };
    keys(stages).into_iter().filter(has).collect()
}

/// What exists on each level, so that a misspelt stage is an error while a new parameter is not.
fn descend(parent: &mut Node, path: &[String], depth: usize, place: Place, value: Node) -> Result<(), Box<Diagnostic>> {
    let name = &path[depth];
    let top = path[0].as_str();
    let must_exist =
        depth == 0 && !["defaults", "vars", "sweep", "name"].contains(&top) || depth == 1 && ["stages", "tables"].contains(&top);
    if parent.is_null() {
        parent.data = Data::Map(Vec::new());
    }
    let described = parent.describe();
    let Data::Map(entries) = &mut parent.data else {
        return Err(Box::new(
            Diagnostic::error("set", format!("`{}` is {described}, not a map", path[..depth].join(".")))
                .help(format!("set it as a whole: `--set '{}={{...}}'`", path[..depth].join("."))),
        ));
    };
    let index = entries.iter().position(|(key, _)| *key.text == **name);
    if index.is_none() && must_exist {
        let names: Vec<String> = if depth == 0 {
            ["vars", "sweep", "defaults", "stages", "tables"].map(str::to_owned).to_vec()
        } else {
            entries.iter().map(|(key, _)| key.text.to_string()).collect()
        };
        let what = if depth == 0 { "the pipeline".to_owned() } else { format!("`{}`", path[..depth].join(".")) };
        // What `--set` changes is there already: a whole stage or table is written in the file.
        let help = match (depth, top) {
            (0, "tables") => Some("the file has no tables, and `--set` makes none: write one into the file".to_owned()),
            (1, _) => {
                let labels = || names.iter().map(String::as_str);
                let one = top.strip_suffix('s').unwrap_or(top);
                Some(match nearest(name, labels()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("`--set` makes no new {one}: write it into the file, whose {top} are {}", quoted(labels().take(12))),
                })
            }
            _ => suggest(name, names.iter().map(String::as_str)),
        };
        return Err(Box::new(Diagnostic::error("set", format!("there is no `{name}` in {what}")).help_if(help)));
    }
    let index = index.unwrap_or_else(|| {
        let key = Key { place, text: name.as_str().into() };
        entries.push((key, Node { place, data: Data::Map(Vec::new()) }));
        entries.len() - 1
    });
    if depth + 1 == path.len() {
        entries[index].1 = value;
        return Ok(());
    }
    descend(&mut entries[index].1, path, depth + 1, place, value)
}

fn set_axis(root: &mut Node, name: &str, values: Node, at: At, problems: &mut Problems) {
    let place = values.place;
    let entry = |values: Node| (Key { place, text: name.into() }, values);
    // A variable of that name becomes an axis.
    if let Some(vars) = child(root, "vars") {
        vars.take(name);
    }
    if child(root, "sweep").is_none_or(|sweep| sweep.is_null()) {
        root.take("sweep");
        if let Data::Map(entries) = &mut root.data {
            entries.push((Key { place, text: "sweep".into() }, Node { place, data: Data::Map(Vec::new()) }));
        }
    }
    let Some(sweep) = child(root, "sweep") else { return };
    let in_zip = sweep.get("zip").is_some_and(|zip| {
        zip.items().map_or_else(|| zip.get(name).is_some(), |groups| groups.iter().any(|group| group.get(name).is_some()))
    });
    if in_zip {
        problems.push(
            Diagnostic::error("sweep", format!("axis `{name}` is tied to others by `zip`"))
                .at(at)
                .help(format!("choose among its values with `--where '{name} == ...'`")),
        );
        return;
    }
    let mut replaced = false;
    if let Some(Data::List(items)) = child(sweep, "when").map(|node| &mut node.data) {
        for grid in items.iter_mut().filter_map(|item| child(item, "grid")) {
            if let Some(old) = child(grid, name) {
                *old = values.clone();
                replaced = true;
            }
        }
    }
    if child(sweep, "grid").is_none_or(|grid| grid.is_null()) {
        sweep.take("grid");
        if let Data::Map(entries) = &mut sweep.data {
            entries.push((Key { place, text: "grid".into() }, Node { place, data: Data::Map(Vec::new()) }));
        }
    }
    let Some(grid) = child(sweep, "grid") else { return };
    match child(grid, name) {
        Some(old) => *old = values,
        None if replaced => {}
        None => {
            if let Data::Map(entries) = &mut grid.data {
                entries.push(entry(values));
            }
        }
    }
}

fn child<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    match &mut node.data {
        Data::Map(entries) => entries.iter_mut().find(|(key, _)| &*key.text == name).map(|(_, node)| node),
        _ => None,
    }
}

fn keys(node: Option<&Node>) -> Vec<String> {
    node.and_then(Node::entries).unwrap_or(&[]).iter().map(|(key, _)| key.text.to_string()).collect()
}
