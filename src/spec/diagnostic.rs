//! Messages about a pipeline: collected, put in file order, shown with the text they are about.
//!
//! Knows nothing of what the messages say.

use super::node::Place;
use super::source::{Location, Sources};
use crate::base::{Fault, FaultKind};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The pipeline cannot be run.
    Error,
    /// It can, but probably not as meant.
    Warning,
}

/// Where a message points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// A node.
    Place(Place),
    /// A byte of a source as it is shown.
    Offset {
        /// Index of the source.
        source: u16,
        /// Byte.
        offset: usize,
    },
    /// No particular place.
    Nowhere,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// A stable name such as `unknown-key`, for programs.
    pub code: &'static str,
    /// A lower-case fragment with names in backticks.
    pub message: String,
    /// Where it points.
    pub at: At,
    /// What stands at that place, or the empty string.
    pub label: String,
    /// Other places that have to do with it.
    pub also: Vec<(At, String)>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            at: At::Nowhere,
            label: String::new(),
            also: Vec::new(),
            help: None,
        }
    }
    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }
    /// Points at a place.
    #[must_use]
    pub fn at(mut self, at: impl Into<At>) -> Self {
        self.at = at.into();
        self
    }
    /// Says what stands there.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
    /// Points at one more place.
    #[must_use]
    pub fn also(mut self, at: At, label: impl Into<String>) -> Self {
        self.also.push((at, label.into()));
        self
    }
    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Says what to do, if there is something to say.
    #[must_use]
    pub fn help_if(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}

impl From<Place> for At {
    fn from(place: Place) -> Self {
        Self::Place(place)
    }
}

/// Collects messages; the same message about the same place is kept once.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    items: Vec<Diagnostic>,
    seen: HashSet<(At, &'static str, String)>,
    errors: usize,
}

impl Problems {
    /// Adds a message.
    pub fn push(&mut self, item: Diagnostic) {
        if self.seen.insert((item.at, item.code, item.message.clone())) {
            self.errors += usize::from(item.severity == Severity::Error);
            self.items.push(item);
        }
    }
    /// How many errors there are.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }
    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Changes the messages from index `from` on, to add what only the caller knows.
    pub fn since(&mut self, from: usize) -> &mut [Diagnostic] {
        &mut self.items[from..]
    }
    /// The messages in the order in which they came.
    #[must_use]
    pub fn into_items(self) -> Vec<Diagnostic> {
        self.items
    }
}

impl Extend<Diagnostic> for Problems {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

/// ``did you mean `x`?`` for the nearest of the names, else the names when they are few.
#[must_use]
pub fn suggest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(name) = crate::base::text::nearest(wanted, names.clone()) {
        return Some(format!("did you mean `{name}`?"));
    }
    let all: Vec<&str> = names.into_iter().collect();
    match all.len() {
        0 => None,
        1..=24 => Some(format!("choose from {}", crate::base::text::quoted(all))),
        n => Some(format!("choose from {} and {} more", crate::base::text::quoted(all[..20].iter().copied()), n - 20)),
    }
}

/// A message with its position found.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The message.
    pub diagnostic: Diagnostic,
    /// Its position, when it has one.
    pub location: Option<Location>,
    also: Vec<(Location, String)>,
}

/// All messages about a pipeline, in file order.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    sources: Sources,
    items: Vec<Located>,
    left_out: usize,
}

/// Beyond this many, messages are only counted: the first ones matter, and positions cost a pass over the text each.
const MOST: usize = 100;

impl Diagnostics {
    /// Finds the positions and sorts by them.
    #[must_use]
    pub fn new(sources: Sources, problems: Problems) -> Self {
        let mut unique = problems.into_items();
        unique.sort_by_key(|item| {
            let (source, order) = match item.at {
                At::Place(place) => (place.source, place.item as usize),
                At::Offset { source, offset } => (source, offset),
                At::Nowhere => (u16::MAX, 0),
            };
            (item.severity, source, order)
        });
        let left_out = unique.len().saturating_sub(MOST);
        unique.truncate(MOST);
        let find = |at: At| match at {
            At::Place(place) => sources.locate(place),
            At::Offset { source, offset } => {
                let index = usize::from(source);
                sources.get(index).map(|_| sources.at(index, offset))
            }
            At::Nowhere => None,
        };
        let mut items: Vec<Located> = unique
            .into_iter()
            .map(|diagnostic| Located {
                location: find(diagnostic.at),
                also: diagnostic.also.iter().filter_map(|(at, label)| Some((find(*at)?, label.clone()))).collect(),
                diagnostic,
            })
            .collect();
        // Aliases are met later than they are written, so the order of nodes is not quite the order of the text.
        items.sort_by_key(|item| {
            item.location.as_ref().map_or((usize::MAX, 0, item.diagnostic.severity), |l| (l.source, l.span.start, item.diagnostic.severity))
        });
        Self { sources, items, left_out }
    }
    /// The messages in order.
    #[must_use]
    pub fn items(&self) -> &[Located] {
        &self.items
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// How many are errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.items.iter().filter(|item| item.diagnostic.severity == Severity::Error).count() + self.left_out
    }
    /// `Usage` when only the command line is to blame, else `Pipeline`.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        let on_command_line =
            |item: &Located| item.location.as_ref().and_then(|l| self.sources.get(l.source)).is_some_and(|source| source.command_line);
        let mut errors = self.items.iter().filter(|item| item.diagnostic.severity == Severity::Error).peekable();
        if errors.peek().is_some() && errors.all(on_command_line) { FaultKind::Usage } else { FaultKind::Pipeline }
    }
    /// For people: each message with its line of text and a caret; the empty string when there are no messages.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut out = String::new();
        for item in &self.items {
            let level = if item.diagnostic.severity == Severity::Error { Level::ERROR } else { Level::WARNING };
            let mut group = Group::with_title(level.primary_title(item.diagnostic.message.as_str()));
            // Snippets of one source are joined, so that they are shown in one frame.
            let mut marks: Vec<(usize, Vec<annotate_snippets::Annotation<'_>>)> = Vec::new();
            if let Some(location) = &item.location {
                let mark = AnnotationKind::Primary.span(location.span.clone());
                let mark = if item.diagnostic.label.is_empty() { mark } else { mark.label(item.diagnostic.label.as_str()) };
                marks.push((location.source, vec![mark]));
            }
            for (location, label) in &item.also {
                let mark = AnnotationKind::Context.span(location.span.clone()).label(label.as_str());
                match marks.iter_mut().find(|(source, _)| *source == location.source) {
                    Some((_, marks)) => marks.push(mark),
                    None => marks.push((location.source, vec![mark])),
                }
            }
            for (index, marks) in marks {
                if let Some(source) = self.sources.get(index) {
                    group = group.element(Snippet::source(source.text.as_str()).path(source.name.as_str()).annotations(marks));
                }
            }
            if let Some(help) = &item.diagnostic.help {
                group = group.element(Level::HELP.message(help.as_str()));
            }
            out.push_str(&renderer.render(&[group]));
            out.push_str("\n\n");
        }
        if self.left_out > 0 {
            out.push_str(&format!("and {} more\n\n", self.left_out));
        }
        out.truncate(out.trim_end().len());
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }
    /// For programs: `[{code, severity, message, file, line, column, help}]`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.items
            .iter()
            .map(|item| {
                let location = item.location.as_ref();
                json!({
                    "code": item.diagnostic.code,
                    "severity": if item.diagnostic.severity == Severity::Error { "error" } else { "warning" },
                    "message": item.diagnostic.message,
                    "file": location.and_then(|l| self.sources.get(l.source)).map(|source| &source.name),
                    "line": location.map(|l| l.line),
                    "column": location.map(|l| l.column),
                    "help": item.diagnostic.help,
                })
            })
            .collect()
    }
    /// `file:line:column` of a message.
    #[must_use]
    pub fn position(&self, item: &Located) -> Option<String> {
        let location = item.location.as_ref()?;
        Some(format!("{}:{}:{}", self.sources.get(location.source)?.name, location.line, location.column))
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostics> for Fault {
    fn from(all: Diagnostics) -> Self {
        let kind = all.kind();
        let Some(first) = all.items.iter().find(|item| item.diagnostic.severity == Severity::Error) else {
            return Fault::internal("a pipeline was refused without a reason");
        };
        let more = all.errors() - 1;
        let what = match more {
            0 => first.diagnostic.message.clone(),
            n => format!("{} (and {})", first.diagnostic.message, crate::base::text::count(n, "more error")),
        };
        let mut fault = Fault::new(kind, what);
        if let Some(position) = all.position(first) {
            fault = fault.at(position);
        }
        if let Some(help) = &first.diagnostic.help {
            fault = fault.help(help.clone());
        }
        fault
    }
}
