//! The variables of a pipeline: which axes each depends on, and their values.
//!
//! A variable that no axis enters is worked out once; the others once for each combination of the axes that enter.

use super::code::Code;
use super::diagnostic::{At, Diagnostic, Problems};
use super::expr::{Bound, Engine, Names, Scope};
use super::node::{Node, Place};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All variables, each after those that it refers to.
pub struct Vars<'e> {
    ordered: Vec<Var<'e>>,
    axes: BTreeSet<String>,
}

struct Var<'e> {
    name: String,
    place: Place,
    code: Code<'e>,
    /// What it refers to itself.
    direct: BTreeSet<String>,
    /// The axes that enter, also through other variables.
    axes: BTreeSet<String>,
}

/// What a set of names comes down to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Axes.
    pub axes: BTreeSet<String>,
    /// Variables that depend on axes, in no particular order.
    pub varying: BTreeSet<String>,
    /// All variables.
    pub vars: BTreeSet<String>,
}

impl<'e> Vars<'e> {
    /// Compiles the section; circles are reported and broken.
    pub fn compile(engine: &'e Engine, section: Option<&Node>, names: &dyn Names, axes: BTreeSet<String>, problems: &mut Problems) -> Self {
        let mut waiting: Vec<Var<'e>> = Vec::new();
        for (key, node) in section.and_then(Node::entries).unwrap_or(&[]) {
            let code = Code::compile(engine, node, names, problems);
            let mut direct = BTreeSet::new();
            code.names(&mut direct);
            waiting.push(Var { name: key.text.to_string(), place: key.place, code, direct, axes: BTreeSet::new() });
        }
        let mut all = Self { ordered: Vec::new(), axes };
        while !waiting.is_empty() {
            let pending: BTreeSet<String> = waiting.iter().map(|var| var.name.clone()).collect();
            let (ready, blocked): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|var| var.direct.is_disjoint(&pending));
            waiting = blocked;
            if ready.is_empty() {
                let circle = circle(&waiting);
                let names: Vec<&str> = circle.iter().map(|var| var.name.as_str()).collect();
                problems.push(
                    Diagnostic::error("cycle", format!("variables refer to each other: {} -> {}", names.join(" -> "), names[0]))
                        .at(circle[0].place)
                        .help("give one of them a value of its own"),
                );
                let broken = circle[0].name.clone();
                for var in &mut waiting {
                    if var.name == broken {
                        var.code = Code::Const(Node::hole(var.place));
                        var.direct.clear();
                    }
                }
                continue;
            }
            for mut var in ready {
                let reads = all.reads(&var.direct);
                var.axes = reads.axes;
                all.ordered.push(var);
            }
        }
        all
    }
    /// What the names come down to.
    #[must_use]
    pub fn reads(&self, names: &BTreeSet<String>) -> Reads {
        let mut reads = Reads::default();
        let mut open: Vec<&str> = names.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if self.axes.contains(name) {
                reads.axes.insert(name.to_owned());
            } else if let Some(var) = self.ordered.iter().find(|var| var.name == name)
                && reads.vars.insert(name.to_owned())
            {
                if !var.axes.is_empty() {
                    reads.varying.insert(name.to_owned());
                }
                open.extend(var.direct.iter().map(String::as_str));
            }
        }
        reads
    }
    /// The variables that no axis enters, with their values.
    pub fn constants(&self, problems: &mut Problems) -> Scope<'_> {
        let mut scope = Scope::default();
        for var in self.ordered.iter().filter(|var| var.axes.is_empty()) {
            Self::bind(var, &mut scope, problems);
        }
        scope
    }
    /// Adds the values of the named variables that depend on axes; `scope` has the axes already.
    pub fn bind_varying<'s>(&'s self, names: &BTreeSet<String>, scope: &mut Scope<'s>, problems: &mut Problems) {
        if !names.is_empty() {
            for var in self.ordered.iter().filter(|var| names.contains(&var.name)) {
                Self::bind(var, scope, problems);
            }
        }
    }
    fn bind<'s>(var: &'s Var<'e>, scope: &mut Scope<'s>, problems: &mut Problems) {
        let node = var.code.eval(scope, problems);
        if node.has_hole() {
            scope.broken.insert(&var.name);
        } else {
            scope.bound.insert(&var.name, Arc::new(Bound::new(node, false)));
        }
    }
    /// The variables that nothing in `used` comes to, with their places.
    #[must_use]
    pub fn unused(&self, used: &BTreeSet<String>) -> Vec<(&str, Place)> {
        let reads = self.reads(used);
        self.ordered.iter().filter(|var| !reads.vars.contains(&var.name)).map(|var| (var.name.as_str(), var.place)).collect()
    }
}

/// A circle among variables that wait for each other.
fn circle<'v, 'e>(waiting: &'v [Var<'e>]) -> Vec<&'v Var<'e>> {
    let mut path: Vec<&Var<'e>> = vec![&waiting[0]];
    loop {
        let last = path[path.len() - 1];
        let Some(next) = waiting.iter().find(|var| last.direct.contains(&var.name)) else { return path };
        if let Some(start) = path.iter().position(|var| var.name == next.name) {
            return path.split_off(start);
        }
        path.push(next);
    }
}

/// Checks that names of variables and axes can be used in expressions, and that none is both.
pub fn check_names(vars: Option<&Node>, axes: &[(String, Place)], problems: &mut Problems) {
    let vars = vars.and_then(Node::entries).unwrap_or(&[]);
    let all = vars
        .iter()
        .map(|(key, _)| (&*key.text, key.place, "variable"))
        .chain(axes.iter().map(|(name, place)| (name.as_str(), *place, "axis")));
    for (name, place, what) in all {
        let reserved = [
            "true",
            "false",
            "none",
            "True",
            "False",
            "None",
            "not",
            "and",
            "or",
            "in",
            "is",
            "if",
            "else",
            "range",
            "dict",
            "loop",
            "self",
            "namespace",
            "debug",
        ];
        if !super::expr::is_identifier(name) || name.starts_with("__") {
            problems.push(
                Diagnostic::error("name", format!("`{name}` cannot be the name of {}", article(what)))
                    .at(place)
                    .help("names consist of letters, digits and `_`, and begin with a letter"),
            );
        } else if reserved.contains(&name) {
            problems.push(
                Diagnostic::error("name", format!("`{name}` has a meaning in expressions and cannot name {}", article(what))).at(place),
            );
        }
    }
    for (name, place) in axes {
        if let Some((key, _)) = vars.iter().find(|(key, _)| *key.text == **name) {
            problems.push(
                Diagnostic::error("name", format!("`{name}` is both a variable and an axis"))
                    .at(*place)
                    .label("an axis here")
                    .also(At::Place(key.place), "a variable here")
                    .help("rename or remove one of the two"),
            );
        }
    }
}

fn article(what: &str) -> String {
    if what == "axis" { "an axis".to_owned() } else { format!("a {what}") }
}
