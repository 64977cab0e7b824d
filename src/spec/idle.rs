//! Parameters that nobody reads beside certain others: whether a field is read, and how it is said that it is not.
//!
//! Knows values, not which parameters there are.

use super::catalog::When;
use super::diagnostic::Diagnostic;
use super::node::Place;
use serde_json::Value;
use std::collections::HashSet;

/// The given parameters of a stage that some cell reads, and those that some cell does not: a sweep may give to all cells what only
/// some of them read.
#[derive(Default)]
pub struct Seen {
    read: HashSet<(Place, String)>,
    unread: Vec<((Place, String), Diagnostic)>,
}

impl Seen {
    /// A cell reads the parameter at that place of the text, whose path in the stage is `path`.
    pub fn read(&mut self, place: Place, path: String) {
        self.read.insert((place, path));
    }
    /// A cell does not read it; what is to be said.
    pub fn unread(&mut self, place: Place, path: String, said: Diagnostic) {
        let key = (place, path);
        if self.unread.iter().all(|(other, _)| *other != key) {
            self.unread.push((key, said));
        }
    }
    /// What no cell reads.
    pub fn in_no_cell(self) -> impl Iterator<Item = Diagnostic> {
        let Self { read, unread } = self;
        unread.into_iter().filter(move |(key, _)| !read.contains(key)).map(|(_, said)| said)
    }
}

/// A value as a pipeline writes it.
fn written(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether the values are the same, whatever a number is written like.
pub fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a == b)
}

/// Whether one of the conditions holds; `of` gives the value of a parameter.
pub fn holds<'a>(clause: &[(&'static str, When)], of: impl Fn(&str) -> Option<&'a Value>) -> bool {
    clause.iter().any(|(name, when)| {
        let value = of(name).filter(|value| !value.is_null());
        match when {
            When::Is(words) => value.is_some_and(|value| words.contains(&written(value).as_str())),
            When::IsNot(words) => value.is_some_and(|value| !words.contains(&written(value).as_str())),
            When::Given => value.is_some(),
            When::Absent => value.is_none(),
        }
    })
}

/// With which values of others a field is not read, and what to do.
pub fn why<'a>(clause: &[(&'static str, When)], of: impl Fn(&str) -> Option<&'a Value>) -> (String, String) {
    let found = |name: &str| match of(name) {
        Some(value) => format!("with `{name}: {}`", super::node::short(value)),
        None => format!("without `{name}`"),
    };
    let wanted = |(name, when): &(&str, When)| match when {
        When::Is(words) => {
            let all: Vec<String> = words.iter().map(|word| format!("`{name}: {word}`")).collect();
            format!("say {}", all.join(" or "))
        }
        When::IsNot(_) => format!("choose another `{name}`"),
        When::Given => format!("give `{name}`"),
        When::Absent => format!("leave out `{name}`"),
    };
    let why: Vec<String> = clause.iter().map(|(name, _)| found(name)).collect();
    let help: Vec<String> = clause.iter().map(wanted).collect();
    (why.join(" and "), format!("leave it out, or {}", help.join(", or ")))
}
