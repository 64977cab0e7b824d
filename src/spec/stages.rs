//! The sections `stages` and `defaults`: each stage's kind, its parameters as expressions, and how it is to be run.

use super::catalog::{Catalog, StageKind};
use super::code::Code;
use super::diagnostic::{At, Diagnostic, Problems, suggest};
use super::expr::{Engine, Names, Scope};
use super::node::{Data, Key, Node, Place};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// What may stand beside the kind.
const OPTIONS: [&str; 3] = ["timeout", "retries", "device"];

/// A stage before its expressions are evaluated.
pub struct StageCode<'e, 'c> {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub place: Place,
    /// Its kind.
    pub kind: &'c StageKind,
    /// Its parameters, with those of `defaults` that it does not give itself.
    pub params: Code<'e>,
    /// Where the parameters are one expression: those of `defaults`, for what its value does not give.
    pub fallback: Vec<(Key, Code<'e>)>,
    /// Keys that come from `defaults`.
    pub inherited: HashSet<Place>,
    /// `timeout`, `retries` and `device`, where given.
    pub options: BTreeMap<&'static str, Code<'e>>,
}

/// How a stage is run; none of it enters its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOptions {
    /// It fails when it runs longer.
    pub timeout: Option<Duration>,
    /// How often it is tried again after a failure.
    pub retries: u32,
    /// `cpu` or `cuda:N`; the command line's device where absent.
    pub device: Option<String>,
}

impl StageCode<'_, '_> {
    /// Adds the names that it reads.
    pub fn names(&self, into: &mut BTreeSet<String>) {
        self.params.names(into);
        self.fallback.iter().for_each(|(_, code)| code.names(into));
        self.options.values().for_each(|code| code.names(into));
    }
    /// The parameters where `scope` holds.
    pub fn eval(&self, scope: &Scope<'_>, problems: &mut Problems) -> Node {
        let mut node = self.params.eval(scope, problems);
        if self.fallback.is_empty() {
            return node;
        }
        if let (Some(tag), Some(_)) = (&self.kind.shape.tag, node.text()) {
            let place = node.place;
            node = Node { place, data: Data::Map(vec![(Key { place, text: tag.name.into() }, node)]) };
        }
        if let Data::Map(own) = &mut node.data {
            for (key, code) in &self.fallback {
                if !own.iter().any(|(own, _)| own.text == key.text) {
                    own.push((key.clone(), code.eval(scope, problems)));
                }
            }
        }
        node
    }
    /// Places whose value comes from an expression, so that messages can say for which cell it is wrong.
    pub fn expression_places(&self, into: &mut HashSet<Place>) {
        places(&self.params, into);
        self.options.values().for_each(|code| places(code, into));
    }
}

fn places(code: &Code<'_>, into: &mut HashSet<Place>) {
    match code {
        Code::Const(_) => {}
        Code::Expr(_) | Code::Text(..) => {
            into.insert(code.place());
        }
        Code::List(_, items) => items.iter().for_each(|item| places(item, into)),
        Code::Map(_, entries) => entries.iter().for_each(|(_, value)| places(value, into)),
    }
}

/// Finds the kind of each stage and compiles its parameters.
pub fn compile<'e, 'c>(
    engine: &'e Engine,
    root: &Node,
    names: &dyn Names,
    catalog: &'c dyn Catalog,
    problems: &mut Problems,
) -> Vec<StageCode<'e, 'c>> {
    let kinds: Vec<&str> = catalog.kinds().iter().map(|kind| kind.name).collect();
    let defaults = defaults(root.get("defaults"), catalog, problems);
    let mut stages = Vec::new();
    let Some(section) = root.get("stages").filter(|node| !node.is_null()) else {
        problems.push(
            Diagnostic::error("no-stages", "the pipeline has no stages")
                .at(At::Offset { source: 0, offset: 0 })
                .help(format!("add `stages: {{data: {{{}: {{...}}}}}}`", kinds.first().unwrap_or(&"dataset"))),
        );
        return stages;
    };
    let Some(entries) = section.entries().filter(|entries| !entries.is_empty()) else {
        problems
            .push(Diagnostic::error("type", format!("`stages` must be a map of stages, found {}", section.describe())).at(section.place));
        return stages;
    };
    for (key, node) in entries {
        let name = &*key.text;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            problems.push(
                Diagnostic::error("name", format!("`{name}` cannot be the name of a stage"))
                    .at(key.place)
                    .help("names consist of letters, digits, `_` and `-`"),
            );
        }
        let Some(inside) = node.entries() else {
            problems.push(
                Diagnostic::error("type", format!("stage `{name}` must be a map with its kind, found {}", node.describe()))
                    .at(if node.is_null() { key.place } else { node.place })
                    .help(format!("write `{name}: {{KIND: {{...}}}}` with one of {}", crate::base::text::quoted(kinds.iter().copied()))),
            );
            continue;
        };
        let found: Vec<&(Key, Node)> = inside.iter().filter(|(key, _)| catalog.kind(&key.text).is_some()).collect();
        for (key, _) in inside {
            let known = catalog.kind(&key.text).is_some() || OPTIONS.contains(&&*key.text);
            if !known && !found.is_empty() {
                let help = suggest(&key.text, OPTIONS).map(|help| {
                    let kind = found[0].0.text.clone();
                    let is_param = catalog.kind(&kind).is_some_and(|kind| kind.shape.fields.iter().any(|field| *field.name == *key.text));
                    if is_param { format!("parameters belong inside `{kind}: {{...}}`") } else { help }
                });
                problems.push(
                    Diagnostic::error("unknown-key", format!("unknown key `{}` in stage `{name}`", key.text)).at(key.place).help_if(help),
                );
            }
        }
        let (kind_key, params) = match found.as_slice() {
            [one] => one,
            [] => {
                let other = inside.iter().find(|(key, _)| !OPTIONS.contains(&&*key.text));
                let (message, at) = match other {
                    Some((key, _)) => (format!("`{}` of stage `{name}` is not a kind of stage", key.text), key.place),
                    None => (format!("stage `{name}` does not say its kind"), key.place),
                };
                let help = suggest(other.map_or("", |(key, _)| &key.text), kinds.iter().copied());
                problems.push(Diagnostic::error("unknown-kind", message).at(at).help_if(help));
                continue;
            }
            [first, second, ..] => {
                problems.push(
                    Diagnostic::error("two-kinds", format!("stage `{name}` has two kinds, `{}` and `{}`", first.0.text, second.0.text))
                        .at(second.0.place)
                        .also(At::Place(first.0.place), "the first")
                        .help("make two stages of it"),
                );
                continue;
            }
        };
        let Some(kind) = catalog.kind(&kind_key.text) else { continue };
        let mut params = params.clone();
        if params.is_null() {
            params.data = Data::Map(Vec::new());
        }
        if let (Some(tag), Data::Scalar(Value::String(word))) = (&kind.shape.tag, &params.data)
            && !word.contains("{{")
        {
            let entry = (Key { place: params.place, text: tag.name.into() }, params.clone());
            params.data = Data::Map(vec![entry]);
        }
        refuse_nulls(&mut params, name, "", problems);
        let mut inherited = HashSet::new();
        let mut fallback = Vec::new();
        for (key, value) in defaults.get(kind.name).copied().unwrap_or(&[]) {
            match &mut params.data {
                Data::Map(own) if own.iter().any(|(own, _)| own.text == key.text) => continue,
                Data::Map(own) => own.push((key.clone(), value.clone())),
                _ => fallback.push((key.clone(), Code::compile(engine, value, names, problems))),
            }
            inherited.insert(key.place);
        }
        let params = Code::compile(engine, &params, names, problems);
        let mut options = BTreeMap::new();
        for option in OPTIONS {
            if let Some(node) = node.get(option).filter(|node| !node.is_null()) {
                options.insert(option, Code::compile(engine, node, names, problems));
            }
        }
        stages.push(StageCode { name: name.to_owned(), place: key.place, kind, params, fallback, inherited, options });
    }
    stages
}

/// A key without a value is more likely forgotten than meant; the value is then checked no further.
fn refuse_nulls(node: &mut Node, stage: &str, prefix: &str, problems: &mut Problems) {
    let Data::Map(entries) = &mut node.data else { return };
    for (key, value) in entries {
        let path = if prefix.is_empty() { key.text.to_string() } else { format!("{prefix}.{}", key.text) };
        if value.is_null() {
            problems.push(
                Diagnostic::error("no-value", format!("`{path}` of stage `{stage}` has no value"))
                    .at(key.place)
                    .help("remove the line if the default is meant"),
            );
            value.data = Data::Hole;
        }
        refuse_nulls(value, stage, &path, problems);
    }
}

/// The section `defaults` by kind, its names checked.
fn defaults<'n>(section: Option<&'n Node>, catalog: &dyn Catalog, problems: &mut Problems) -> BTreeMap<String, &'n [(Key, Node)]> {
    let mut by_kind = BTreeMap::new();
    let Some(section) = section.filter(|node| !node.is_null()) else { return by_kind };
    let Some(entries) = section.entries() else {
        problems.push(
            Diagnostic::error("type", format!("`defaults` must be a map of stage kinds, found {}", section.describe())).at(section.place),
        );
        return by_kind;
    };
    for (key, node) in entries {
        let Some(kind) = catalog.kind(&key.text) else {
            let help = suggest(&key.text, catalog.kinds().iter().map(|kind| kind.name));
            problems.push(Diagnostic::error("unknown-kind", format!("`{}` is not a kind of stage", key.text)).at(key.place).help_if(help));
            continue;
        };
        let Some(params) = node.entries() else {
            if !node.is_null() {
                let message = format!("the defaults of `{}` must be a map, found {}", key.text, node.describe());
                problems.push(Diagnostic::error("type", message).at(node.place));
            }
            continue;
        };
        let variants = kind.shape.tag.iter().flat_map(|tag| tag.variants.iter().flat_map(|variant| &variant.fields));
        let known: Vec<&str> =
            kind.shape.fields.iter().chain(variants).map(|field| field.name).chain(kind.shape.tag.iter().map(|tag| tag.name)).collect();
        for (name, _) in params {
            if !known.contains(&&*name.text) {
                problems.push(
                    Diagnostic::error("unknown-key", format!("unknown parameter `{}` of kind `{}`", name.text, key.text))
                        .at(name.place)
                        .help_if(suggest(&name.text, known.iter().copied())),
                );
            }
        }
        by_kind.insert(key.text.to_string(), params);
    }
    by_kind
}

/// Checks how a stage is to be run.
pub fn run_options(stage: &str, kind: &StageKind, options: &BTreeMap<&'static str, Node>, problems: &mut Problems) -> RunOptions {
    let mut checked = RunOptions::default();
    let mut refuse = |node: &Node, name: &str, what: &str, help: &str| {
        if !node.is_hole() && !node.is_null() {
            let message = format!("`{name}` of stage `{stage}` must be {what}, found {}", node.describe());
            problems.push(Diagnostic::error("type", message).at(node.place).help(help));
        }
    };
    if let Some(node) = options.get("timeout") {
        checked.timeout = match &node.data {
            Data::Scalar(Value::Number(n)) => n.as_f64().filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok()),
            Data::Scalar(Value::String(text)) => duration(text),
            _ => None,
        };
        if checked.timeout.is_none() {
            refuse(node, "timeout", "a duration", "write seconds as a number, or `90s`, `30min`, `2h`, `1h30min`, `1d`");
        }
    }
    if let Some(node) = options.get("retries") {
        match &node.data {
            Data::Scalar(Value::Number(n)) if n.as_u64().is_some_and(|n| n <= 100) => {
                checked.retries = n.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
            }
            _ => refuse(node, "retries", "an integer from 0 to 100", "0 means that a failure is final"),
        }
    }
    if let Some(node) = options.get("device") {
        match node.text() {
            Some(text) if is_device(text) => checked.device = Some(text.to_owned()),
            _ => refuse(node, "device", "a device", "write `cpu`, or `cuda:0` for the first GPU"),
        }
        if node.text().is_some_and(|text| is_device(text) && text != "cpu") && !kind.device_sensitive {
            let message = format!("`device` of stage `{stage}` has no effect: stages of kind `{}` run on the CPU only", kind.name);
            problems.push(Diagnostic::warning("device", message).at(node.place).help("leave it out"));
        }
    }
    checked
}

/// Whether the text is `cpu` or `cuda:N`.
#[must_use]
pub fn is_device(text: &str) -> bool {
    text == "cpu" || text.strip_prefix("cuda:").is_some_and(|n| !n.is_empty() && n.len() < 4 && n.bytes().all(|b| b.is_ascii_digit()))
}

/// `90s`, `30min` (or `30m`), `2h`, `1h30m`, `1d`, `250ms`; more than nothing.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        seconds += number
            * match &rest[..letters] {
                "ms" => 1e-3,
                "s" | "sec" | "" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = rest[letters..].trim_start();
    }
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_devices() {
        assert_eq!(duration("1h30min"), Some(Duration::from_secs(5400)));
        assert_eq!(duration("90 s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("0s"), None);
        assert_eq!(duration("soon"), None);
        assert!(is_device("cuda:1") && is_device("cpu") && !is_device("cuda") && !is_device("gpu"));
    }
}
