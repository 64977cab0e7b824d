//! The section `tables`: which axes become rows and columns, and which value of which stage is shown.
//!
//! Knows names only; what a table looks like is decided elsewhere.

use super::catalog::Catalog;
use super::diagnostic::{Diagnostic, Problems, suggest};
use super::expr::{Engine, Names, Program};
use super::node::{Data, Key, Node, Place, short};
use super::selector::{selects, why_not};
use super::source::Sources;
use super::stages::StageCode;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which value is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Best {
    /// The greatest.
    #[default]
    Max,
    /// The least.
    Min,
}

/// A value of a stage: `run.test_accuracy.best`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The stage.
    pub stage: String,
    /// What was measured.
    pub metric: String,
    /// Which of the measurements: `best`, `last` ...
    pub selector: String,
}

/// Which tests are made on a table. What the words mean is decided where the tests are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The test of two rows, one of [`TESTS`].
    pub test: String,
    /// The row that all are compared with, `first`, `best` or `all`.
    pub against: String,
    /// Whether p-values are corrected for the number of comparisons.
    pub corrected: bool,
    /// The level of significance, in (0, 1).
    pub level: f64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self { test: TESTS[0].to_owned(), against: "first".to_owned(), corrected: true, level: 0.05 }
    }
}

/// Published numbers that stand beside a table's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// Names of published tables, or files that end in `.csv`.
    pub tables: Vec<String>,
    /// Where those of them are that are files.
    pub files: BTreeMap<String, PathBuf>,
    /// The margin within which numbers count as equal: 0.02 is two points of accuracy.
    pub margin: f64,
    /// Which published setting a value of an axis stands for: its label, and `data set, model, scenario` as published.
    pub settings: BTreeMap<String, String>,
}

impl Default for Compare {
    fn default() -> Self {
        Self { tables: Vec::new(), files: BTreeMap::new(), margin: 0.02, settings: BTreeMap::new() }
    }
}

/// One table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Axes that span the rows, outermost first.
    pub rows: Vec<String>,
    /// Axes that span the columns, outermost first.
    pub columns: Vec<String>,
    /// The values; more than one where `value` is a list.
    pub values: Vec<Measure>,
    /// Axes over which mean and deviation are taken.
    pub over: Vec<String>,
    /// Published numbers to compare with.
    pub compare: Option<Compare>,
    /// Tests to make.
    pub statistics: Option<Statistics>,
    /// What of a cell's values is shown, one of [`SHOWS`].
    pub show: Option<String>,
    /// Whether mean ranks stand in a column of their own.
    pub ranks: bool,
    /// Whether rows stand under the family of their algorithm.
    pub families: bool,
    /// Which value is marked; where absent, the metric decides.
    pub best: Option<Best>,
    /// The caption.
    pub title: Option<String>,
    /// Formats to write, where the table chooses; empty otherwise.
    pub formats: Vec<String>,
    /// Digits after the point, 0 to 10, where the table chooses.
    pub digits: Option<u8>,
    /// Whether fractions are shown in percent, where the table chooses.
    pub percent: Option<bool>,
    /// Indices of the cells that it shows, in order.
    pub cells: Vec<usize>,
    /// The text of its `where`.
    pub filter: Option<String>,
}

/// What a row or column is called: the values of its axes, `-` where a cell lacks one; `all` where there is no axis.
#[must_use]
pub fn label<'v>(axes: &[String], value: impl Fn(&str) -> Option<&'v Value>) -> String {
    if axes.is_empty() {
        return "all".to_owned();
    }
    axes.iter().map(|axis| value(axis).map_or_else(|| "-".to_owned(), short)).collect::<Vec<_>>().join(", ")
}

impl Table {
    /// The axes by whose labels `settings` of `compare` name cells, in the order in which they are tried: those of rows and columns
    /// together, of one of them, and each alone.
    #[must_use]
    pub fn setting_axes(&self) -> Vec<Vec<String>> {
        let both = [&self.rows[..], &self.columns[..]].concat();
        let single = both.iter().map(|axis| vec![axis.clone()]);
        let all = [both.clone(), self.columns.clone(), self.rows.clone()].into_iter().chain(single);
        all.filter(|axes| !axes.is_empty()).collect()
    }
}

/// Where the parts of a table stand.
#[derive(Debug, Default)]
pub struct Places {
    /// The row that all are compared with.
    pub against: Option<Place>,
    /// Each published table.
    pub compared: Vec<Place>,
    /// Each setting: its label, where that stands, and where its text does.
    pub settings: Vec<(String, Place, Place)>,
}

/// A table with its filter compiled.
pub struct TableCode<'e> {
    /// All but the cells.
    pub table: Table,
    /// Where its name stands.
    pub place: Place,
    /// Where each of its values stands.
    pub values: Vec<Place>,
    /// Where its other parts stand.
    pub places: Places,
    /// The condition of the cells that it shows.
    pub filter: Option<Program<'e>>,
}

const KEYS: [&str; 17] = [
    "rows",
    "columns",
    "value",
    "values",
    "over",
    "compare",
    "best",
    "title",
    "formats",
    "format",
    "digits",
    "percent",
    "where",
    "statistics",
    "show",
    "ranks",
    "headings",
];
/// The formats that a table may be written in.
pub const FORMATS: [&str; 8] = ["term", "md", "latex", "html", "csv", "json", "long", "series"];
/// The tests of two rows.
pub const TESTS: [&str; 4] = ["wilcoxon", "sign", "paired-t", "welch"];
/// What may be shown of a cell's values.
pub const SHOWS: [&str; 5] = ["mean-sd", "mean-interval", "median-range", "mean", "median"];

/// Checks the section.
#[allow(clippy::too_many_arguments)]
pub fn compile<'e>(
    engine: &'e Engine,
    root: &Node,
    axes: &[String],
    stages: &[StageCode<'_, '_>],
    names: &dyn Names,
    sources: &Sources,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Vec<TableCode<'e>> {
    let mut tables = Vec::new();
    let Some(section) = root.get("tables").filter(|node| !node.is_null()) else { return tables };
    let Some(entries) = section.entries() else {
        problems
            .push(Diagnostic::error("type", format!("`tables` must be a map of tables, found {}", section.describe())).at(section.place));
        return tables;
    };
    for (key, node) in entries {
        let Some(inside) = node.entries() else {
            let at = if node.is_null() { key.place } else { node.place };
            problems.push(
                Diagnostic::error("type", format!("table `{}` must be a map, found {}", key.text, node.describe()))
                    .at(at)
                    .help("write `{rows: ..., columns: ..., value: stage.metric.selector}`"),
            );
            continue;
        };
        let mut section = Section { key, axes, stages, sources, catalog, places: Places::default(), problems };
        for (inner, _) in inside {
            if !KEYS.contains(&&*inner.text) && &*inner.text != "filter" {
                let help = suggest(&inner.text, KEYS);
                section.say("unknown-key", format!("unknown key `{}` in table `{}`", inner.text, key.text), inner.place, help);
            }
        }
        let (mut table, values) = section.table(node);
        let condition = node.get("where").or_else(|| node.get("filter"));
        let mut filter = None;
        if let Some(condition) = condition.filter(|node| !node.is_null()) {
            match condition.text() {
                Some(text) => {
                    let source = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or(text).trim();
                    table.filter = Some(source.to_owned());
                    match Program::compile(engine, source, condition.place, names) {
                        Ok(program) => filter = Some(program),
                        Err(problem) => section.problems.push(*problem),
                    }
                }
                None => {
                    section.say("type", format!("`where` must be an expression, found {}", condition.describe()), condition.place, None)
                }
            }
        }
        tables.push(TableCode { table, place: key.place, values, places: section.places, filter });
    }
    tables
}

struct Section<'a> {
    key: &'a Key,
    axes: &'a [String],
    stages: &'a [StageCode<'a, 'a>],
    sources: &'a Sources,
    catalog: &'a dyn Catalog,
    places: Places,
    problems: &'a mut Problems,
}

impl Section<'_> {
    fn say(&mut self, code: &'static str, message: String, place: Place, help: Option<String>) {
        self.problems.push(Diagnostic::error(code, message).at(place).help_if(help));
    }

    fn table(&mut self, node: &Node) -> (Table, Vec<Place>) {
        let rows = self.axes_of(node, "rows");
        let columns = self.axes_of(node, "columns");
        let over = self.axes_of(node, "over");
        let mut seen = BTreeSet::new();
        for (axis, place) in rows.iter().chain(&columns).chain(&over) {
            if !seen.insert(axis.as_str()) {
                self.say("table", format!("table `{}` uses axis `{axis}` twice", self.key.text), *place, None);
            }
        }
        for (one, other) in [("value", "values"), ("where", "filter"), ("format", "formats")] {
            if let (Some(_), Some(second)) = (node.get(one), node.get(other)) {
                self.say(
                    "table",
                    format!("`{one}` and `{other}` of table `{}` are one thing: give one", self.key.text),
                    second.place,
                    None,
                );
            }
        }
        if !self.key.text.chars().any(char::is_alphanumeric) {
            let help = Some("files are named after it: give it a letter or a digit".to_owned());
            self.say("table", format!("a table cannot be called `{}`", self.key.text), self.key.place, help);
        }
        let given = node.get("value").or_else(|| node.get("values"));
        let measures: Vec<(Measure, Place)> = match given {
            None => {
                let help = self.stages.last().map(|stage| format!("write `value: {}.METRIC.SELECTOR`", stage.name));
                self.say("missing", format!("`value` of table `{}` is missing", self.key.text), self.key.place, help);
                Vec::new()
            }
            Some(node) => match node.texts() {
                Some(values) if values.is_empty() => {
                    self.say("missing", format!("`value` of table `{}` is empty", self.key.text), node.place, None);
                    Vec::new()
                }
                Some(values) => values.iter().filter_map(|(text, place)| Some((self.measure(text, *place)?, *place))).collect(),
                None => {
                    let message = format!("`value` must be text such as `run.test_accuracy.best`, found {}", node.describe());
                    self.say("type", message, node.place, None);
                    Vec::new()
                }
            },
        };
        let compare = node.get("compare").filter(|node| !node.is_null()).and_then(|node| self.compare(node));
        let statistics = node.get("statistics").filter(|node| !node.is_null()).and_then(|node| self.statistics(node));
        let show = self.choice(node, "show", &SHOWS);
        let families = self.choice(node, "headings", &["family", "none"]).is_some_and(|choice| choice == "family");
        let ranks = self.flag(node, "ranks").unwrap_or(false);
        let best = self.word(node, "best").and_then(|(word, place)| match word.as_str() {
            "max" => Some(Best::Max),
            "min" => Some(Best::Min),
            _ => {
                self.say("choice", format!("`best` must be `max` or `min`, found `{word}`"), place, None);
                None
            }
        });
        let title = self.word(node, "title").map(|(text, _)| text);
        let formats = node.get("formats").or_else(|| node.get("format")).and_then(Node::texts).unwrap_or_default();
        for (format, place) in &formats {
            if !FORMATS.contains(&format.as_str()) {
                self.say("choice", format!("`{format}` is not a format of tables"), *place, suggest(format, FORMATS));
            }
        }
        let digits = node.get("digits").and_then(|node| match &node.data {
            Data::Scalar(Value::Number(n)) if n.as_u64().is_some_and(|n| n <= 10) => n.as_u64().and_then(|n| u8::try_from(n).ok()),
            _ => {
                self.say("type", format!("`digits` must be an integer from 0 to 10, found {}", node.describe()), node.place, None);
                None
            }
        });
        let percent = self.flag(node, "percent");
        let names = |list: Vec<(String, Place)>| list.into_iter().map(|(name, _)| name).collect();
        let (values, places) = measures.into_iter().unzip();
        let table = Table {
            name: self.key.text.to_string(),
            rows: names(rows),
            columns: names(columns),
            values,
            over: names(over),
            compare,
            statistics,
            show,
            ranks,
            families,
            best,
            title,
            formats: names(formats),
            digits,
            percent,
            cells: Vec::new(),
            filter: None,
        };
        (table, places)
    }

    /// A word out of a list.
    fn choice(&mut self, node: &Node, name: &str, words: &[&str]) -> Option<String> {
        let (word, place) = self.word(node, name)?;
        if words.contains(&word.as_str()) {
            return Some(word);
        }
        let help = suggest(&word, words.iter().copied());
        self.say("choice", format!("`{name}` cannot be `{word}`"), place, help);
        None
    }

    fn flag(&mut self, node: &Node, name: &str) -> Option<bool> {
        let node = node.get(name)?;
        if let Data::Scalar(Value::Bool(flag)) = &node.data {
            return Some(*flag);
        }
        self.say("type", format!("`{name}` must be `true` or `false`, found {}", node.describe()), node.place, None);
        None
    }

    /// A number in an open interval.
    fn number(&mut self, node: &Node, name: &str, above: f64, below: f64) -> Option<f64> {
        let node = node.get(name)?;
        let number = if let Data::Scalar(Value::Number(number)) = &node.data { number.as_f64() } else { None };
        if let Some(number) = number.filter(|number| *number > above && *number < below) {
            return Some(number);
        }
        self.say(
            "range",
            match below.is_finite() {
                true => format!("`{name}` must be a number above {above} and below {below}, found {}", node.describe()),
                false => format!("`{name}` must be a number above {above}, found {}", node.describe()),
            },
            node.place,
            None,
        );
        None
    }

    fn unknown(&mut self, node: &Node, within: &str, keys: &[&str]) {
        for (key, _) in node.entries().unwrap_or_default() {
            if !keys.contains(&&*key.text) {
                let help = suggest(&key.text, keys.iter().copied());
                self.say("unknown-key", format!("unknown key `{}` in `{within}` of table `{}`", key.text, self.key.text), key.place, help);
            }
        }
    }

    /// `wilcoxon`, or a map.
    fn statistics(&mut self, node: &Node) -> Option<Statistics> {
        let mut found = Statistics::default();
        if let Some(name) = node.text() {
            if TESTS.contains(&name) {
                found.test = name.to_owned();
                return Some(found);
            }
            self.say("choice", format!("`statistics` cannot be `{name}`"), node.place, suggest(name, TESTS));
            return None;
        }
        if node.entries().is_none() {
            let message = format!("`statistics` must be a test or a map, found {}", node.describe());
            self.say("type", message, node.place, Some("write `{test: wilcoxon, against: fedavg}`".to_owned()));
            return None;
        }
        self.unknown(node, "statistics", &["test", "against", "correction", "level"]);
        if let Some(test) = self.choice(node, "test", &TESTS) {
            found.test = test;
        }
        if let Some((row, place)) = self.word(node, "against") {
            self.places.against = Some(place);
            found.against = row;
        }
        if let Some(word) = self.choice(node, "correction", &["holm", "none"]) {
            found.corrected = word == "holm";
        }
        if let Some(level) = self.number(node, "level", 0.0, 1.0) {
            found.level = level;
        }
        Some(found)
    }

    /// A name, a list of names, or a map.
    fn compare(&mut self, node: &Node) -> Option<Compare> {
        let mut found = Compare::default();
        let given = if node.entries().is_some() {
            self.unknown(node, "compare", &["table", "tables", "margin", "settings"]);
            if let Some(margin) = self.number(node, "margin", 0.0, f64::INFINITY) {
                found.margin = margin;
                if let Some(node) = node.get("margin").filter(|_| margin > 1.0) {
                    let what = format!("`margin` {margin} is a difference of {} points of accuracy", margin * 100.0);
                    let help = format!("it is a fraction: {} for {margin} points", margin / 100.0);
                    self.problems.push(Diagnostic::warning("margin", what).at(node.place).help(help));
                }
            }
            for (key, value) in node.get("settings").and_then(Node::entries).unwrap_or_default() {
                match value.text() {
                    Some(text) => {
                        found.settings.insert(key.text.to_string(), text.to_owned());
                        self.places.settings.push((key.text.to_string(), key.place, value.place));
                    }
                    None => self.say("type", format!("`{}` must be text, found {}", key.text, value.describe()), value.place, None),
                }
            }
            node.get("table").or_else(|| node.get("tables"))
        } else {
            Some(node)
        };
        let Some(names) = given.and_then(Node::texts) else {
            let message = format!("`compare` of table `{}` must name published tables", self.key.text);
            self.say("type", message, node.place, suggest("", self.catalog.published().iter().copied()));
            return None;
        };
        let published = self.catalog.published();
        if names.is_empty() {
            self.say("type", format!("`compare` of table `{}` names no table", self.key.text), node.place, None);
        }
        for (name, place) in names {
            if found.tables.contains(&name) {
                self.say("unknown-table", format!("`{name}` is there twice"), place, None);
                continue;
            }
            if !name.ends_with(".csv") && !published.contains(&name.as_str()) {
                let help = suggest(&name, published.iter().copied());
                self.say("unknown-table", format!("there is no published table `{name}`"), place, help);
            }
            if name.ends_with(".csv") {
                found.files.insert(name.clone(), self.file(&name, place));
            }
            self.places.compared.push(place);
            found.tables.push(name);
        }
        Some(found)
    }

    /// A file that is named at a place: beside the file that names it, or from the current folder where the command line does.
    fn file(&self, name: &str, place: Place) -> PathBuf {
        let source = self.sources.get(usize::from(place.source)).filter(|source| !source.command_line);
        source.and_then(|source| Path::new(&source.name).parent()).unwrap_or(Path::new("")).join(name)
    }

    fn word(&mut self, node: &Node, name: &str) -> Option<(String, Place)> {
        let node = node.get(name)?;
        match node.text() {
            Some(text) => Some((text.to_owned(), node.place)),
            None => {
                self.say(
                    "type",
                    format!("`{name}` of table `{}` must be text, found {}", self.key.text, node.describe()),
                    node.place,
                    None,
                );
                None
            }
        }
    }

    fn axes_of(&mut self, node: &Node, name: &str) -> Vec<(String, Place)> {
        let Some(node) = node.get(name) else { return Vec::new() };
        let Some(axes) = node.texts() else {
            let message = format!("`{name}` of table `{}` must name axes, found {}", self.key.text, node.describe());
            self.say("type", message, node.place, suggest("", self.axes.iter().map(String::as_str)));
            return Vec::new();
        };
        for (axis, place) in &axes {
            if !self.axes.contains(axis) {
                let help = suggest(axis, self.axes.iter().map(String::as_str));
                self.say(
                    "unknown-axis",
                    format!("`{name}` of table `{}` names `{axis}`, which is not an axis", self.key.text),
                    *place,
                    help,
                );
            }
        }
        axes
    }

    fn measure(&mut self, text: &str, place: Place) -> Option<Measure> {
        let parts: Vec<&str> = text.split('.').collect();
        let stage_names = || self.stages.iter().map(|stage| stage.name.as_str());
        let Some(stage) = self.stages.iter().find(|stage| stage.name == parts[0]) else {
            let help = suggest(parts[0], stage_names());
            self.say("unknown-stage", format!("`{text}` names `{}`, which is not a stage", parts[0]), place, help);
            return None;
        };
        let (metrics, selectors) = self.catalog.metrics(stage.kind.name);
        if metrics.is_empty() {
            let message = format!("`{text}` names `{}`, but stages of kind `{}` measure nothing", parts[0], stage.kind.name);
            let measuring =
                self.stages.iter().filter(|stage| !self.catalog.metrics(stage.kind.name).0.is_empty()).map(|stage| stage.name.as_str());
            let help = suggest("", measuring.collect::<Vec<_>>());
            self.say("no-metrics", message, place, help);
            return None;
        }
        let usual = self.catalog.usual_selector(stage.kind.name);
        let named = match (parts.as_slice(), usual) {
            ([_, metric, selector], _) => Some((metric, *selector)),
            ([_, metric], Some(selector)) => Some((metric, selector)),
            _ => None,
        };
        let Some((metric, selector)) = named else {
            let help = format!(
                "metrics: {}; selectors: {}",
                crate::base::text::quoted(metrics.iter().copied()),
                crate::base::text::quoted(selectors.iter().copied())
            );
            self.say("value", format!("`{text}` is not of the form `stage.metric.selector`"), place, Some(help));
            return None;
        };
        let mut sound = true;
        if !metrics.contains(metric) {
            self.say(
                "unknown-metric",
                format!("`{metric}` is not measured by stages of kind `{}`", stage.kind.name),
                place,
                suggest(metric, metrics.iter().copied()),
            );
            sound = false;
        }
        let pattern = selectors.iter().find(|pattern| selects(pattern, selector, metrics));
        if pattern.is_none() {
            self.say(
                "unknown-selector",
                format!("`{selector}` does not select a measurement"),
                place,
                why_not(selector, selectors, metrics).or_else(|| suggest(selector, selectors.iter().copied())),
            );
            sound = false;
        }
        sound.then(|| Measure { stage: parts[0].to_owned(), metric: (*metric).to_owned(), selector: selector.to_owned() })
    }
}
