//! One tree from the pipeline file, the files that it extends, and the changes of the command line.
//!
//! Knows the names of the sections, not their meaning.

use super::catalog::Catalog;
use super::diagnostic::{At, Diagnostic, Problems};
use super::node::{Data, Key, Node, Place};
use super::overrides::{self, Overrides};
use super::source::{Source, Sources};
use super::yaml;
use std::path::{Path, PathBuf};

/// The tree, and where it came from.
pub struct Document {
    /// The whole pipeline; null when the file could not be read as YAML.
    pub root: Node,
    /// The texts.
    pub sources: Sources,
}

/// Reads the text and what it extends, and applies the changes.
pub fn read(path: &Path, text: &str, changes: &Overrides, catalog: &dyn Catalog, problems: &mut Problems) -> Document {
    let mut sources = Sources::default();
    let mut open = vec![absolute(path)];
    let mut root = parse(path, text, None, &mut sources, &mut open, catalog, problems);
    if !root.is_null() && root.entries().is_some() {
        overrides::apply(&mut root, changes, &mut sources, catalog, problems);
    }
    Document { root, sources }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn parse(
    path: &Path,
    text: &str,
    named_at: Option<At>,
    sources: &mut Sources,
    open: &mut Vec<PathBuf>,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Node {
    let index = sources.add(Source::file(path.display().to_string(), text));
    let nothing = Node::scalar(Place { source: index, item: 0 }, serde_json::Value::Null);
    let read = yaml::parse(sources.get(usize::from(index)).map_or("", Source::parsed), index);
    let mut root = match read {
        Ok((root, found)) => {
            problems.extend(found);
            root
        }
        Err(problem) => {
            problems.push(*problem);
            return nothing;
        }
    };
    if root.entries().is_none() {
        let message =
            if root.is_null() { "the pipeline is empty".to_owned() } else { format!("a pipeline is a map, found {}", root.describe()) };
        let start = At::Offset { source: index, offset: 0 };
        problems.push(
            Diagnostic::error("top-level", message)
                .at(named_at.filter(|_| root.is_null()).unwrap_or(start))
                .help("begin with `name:` and `stages:`, or let `pflpipe new` write a skeleton"),
        );
        return nothing;
    }
    let Some((key, bases)) = root.take("extends") else { return root };
    let bases = match bases.data {
        Data::List(items) => items,
        _ => vec![bases],
    };
    let mut merged: Option<Node> = None;
    for base in bases {
        let Some(name) = base.text() else {
            problems.push(Diagnostic::error("extends", format!("`extends` names a file, found {}", base.describe())).at(key.place));
            continue;
        };
        let file = path.parent().unwrap_or(Path::new("")).join(name);
        let identity = absolute(&file);
        if let Some(start) = open.iter().position(|path| *path == identity) {
            let circle: Vec<String> = open[start..].iter().chain([&identity]).map(|path| short(path)).collect();
            problems.push(Diagnostic::error("extends", format!("`extends` goes in a circle: {}", circle.join(" -> "))).at(base.place));
            continue;
        }
        match std::fs::read_to_string(&file) {
            Ok(text) => {
                open.push(identity);
                let parent = parse(&file, &text, Some(base.place.into()), sources, open, catalog, problems);
                open.pop();
                if !parent.is_null() {
                    merged = Some(match merged.take() {
                        Some(before) => merge(before, parent, catalog),
                        None => parent,
                    });
                }
            }
            Err(error) => problems.push(
                Diagnostic::error("extends", format!("cannot read `{}`: {error}", file.display()))
                    .at(base.place)
                    .help("the path is relative to the file that names it"),
            ),
        }
    }
    match merged {
        Some(base) => merge(base, root, catalog),
        None => root,
    }
}

fn short(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// How deep the maps of a section are merged; below that, the extending file's value replaces the other.
fn depth(section: &str) -> usize {
    match section {
        "vars" => 1,
        "sweep" | "defaults" => 2,
        "stages" => 3,
        // A key of a table may be a map itself (`compare`), with another in it (`settings`).
        "tables" => 4,
        _ => 0,
    }
}

/// `over` on top of `base`; null removes what it names.
fn merge(base: Node, over: Node, catalog: &dyn Catalog) -> Node {
    merge_map(base, over, &mut |section, base, over| {
        let kinds = (section == "stages").then_some(catalog);
        merge_to(base, over, depth(section), kinds)
    })
}

fn merge_to(mut base: Node, over: Node, depth: usize, kinds: Option<&dyn Catalog>) -> Node {
    if depth == 0 || base.entries().is_none() || over.entries().is_none() {
        return over;
    }
    // A stage that turns into another kind keeps nothing of the old one's parameters.
    if let (Some(catalog), 2) = (kinds, depth) {
        let is_kind = |key: &Key| catalog.kind(&key.text).is_some();
        let new = over.entries().and_then(|entries| entries.iter().find(|(key, _)| is_kind(key)).map(|(key, _)| key.text.clone()));
        if let (Some(new), Data::Map(entries)) = (new, &mut base.data) {
            entries.retain(|(key, _)| !is_kind(key) || key.text == new);
        }
    }
    merge_map(base, over, &mut |_, base, over| merge_to(base, over, depth - 1, kinds))
}

fn merge_map(base: Node, over: Node, join: &mut dyn FnMut(&str, Node, Node) -> Node) -> Node {
    let place = over.place;
    let (Data::Map(mut entries), Data::Map(new)) = (base.data, over.data) else {
        return Node::hole(place);
    };
    for (key, value) in new {
        match entries.iter().position(|(old, _)| old.text == key.text) {
            Some(index) if value.is_null() => {
                entries.remove(index);
            }
            Some(index) => {
                let name = key.text.clone();
                let (_, old) = std::mem::replace(&mut entries[index], (key, Node::hole(place)));
                entries[index].1 = join(&name, old, value);
            }
            None => entries.push((key, value)),
        }
    }
    Node { place, data: Data::Map(entries) }
}

/// The names of the axes in the order of the text, with their first places.
#[must_use]
pub fn axis_names(root: &Node) -> Vec<(String, Place)> {
    let mut names: Vec<(String, Place)> = Vec::new();
    let mut add = |map: Option<&Node>| {
        for (key, _) in map.and_then(Node::entries).unwrap_or(&[]) {
            if !names.iter().any(|(name, _)| **name == *key.text) {
                names.push((key.text.to_string(), key.place));
            }
        }
    };
    let Some(sweep) = root.get("sweep") else { return names };
    let groups = |section: Option<&'_ Node>| -> Vec<Node> {
        match section.map(|node| (&node.data, node)) {
            Some((Data::List(items), _)) => items.clone(),
            Some((Data::Map(_), node)) => vec![node.clone()],
            _ => Vec::new(),
        }
    };
    add(sweep.get("grid"));
    for group in groups(sweep.get("zip")) {
        add(Some(&group));
    }
    for item in groups(sweep.get("when")) {
        add(item.get("grid"));
        for group in groups(item.get("zip")) {
            add(Some(&group));
        }
    }
    for cell in groups(sweep.get("include")) {
        add(Some(&cell));
    }
    names
}
