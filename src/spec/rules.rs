//! Stages with those that they read, as rules about several parameters see them.
//!
//! Each parameter is fine by itself when a rule is asked. What a rule says is that they do not go together; it needs no data, so it is
//! found before anything runs. Knows no rule: a [`Catalog`](super::catalog::Catalog) brings them.

use super::params::Params;
use crate::base::Fault;
use serde_json::{Map, Value};

/// The stages of a pipeline, each for one combination of axes, with those that they read.
#[derive(Debug, Default)]
pub struct Setups<'a> {
    all: Vec<One<'a>>,
}

#[derive(Debug)]
struct One<'a> {
    kind: &'static str,
    params: &'a Params,
    inputs: Vec<(&'a str, usize)>,
}

impl<'a> Setups<'a> {
    /// Adds a stage; `inputs` are its slots with the numbers of stages that were added before. Returns its own number.
    pub fn add(&mut self, kind: &'static str, params: &'a Params, inputs: Vec<(&'a str, usize)>) -> usize {
        self.all.push(One { kind, params, inputs });
        self.all.len() - 1
    }
    /// The stage of that number; nothing when there is none.
    #[must_use]
    pub fn get(&self, id: usize) -> Option<Setup<'_>> {
        self.all.get(id).map(|one| Setup { all: &self.all, one })
    }
}

/// A stage with its effective parameters, and the stages that it reads.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    all: &'a [One<'a>],
    one: &'a One<'a>,
}

impl<'a> Setup<'a> {
    /// The kind of the stage.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.one.kind
    }
    /// All its effective parameters.
    #[must_use]
    pub fn params(&self) -> &'a Params {
        self.one.params
    }
    /// A parameter; nothing where it is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.one.params.get(name)
    }
    /// A parameter that is a map.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name).and_then(Value::as_object)
    }
    /// A parameter that is a whole number of at least 0.
    #[must_use]
    pub fn whole(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(Value::as_u64)
    }
    /// A parameter that is a word.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }
    /// The stage that an input slot names; nothing where that stage has mistakes of its own.
    #[must_use]
    pub fn input(&self, slot: &str) -> Option<Setup<'a>> {
        let (_, id) = self.one.inputs.iter().find(|(name, _)| *name == slot)?;
        self.all.get(*id).map(|one| Setup { all: self.all, one })
    }
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The parameter that it is about, such as `threat.attackers` or `layers.3.as`; empty: the stage.
    pub path: String,
    /// What is wrong, and what to do.
    pub fault: Fault,
    /// Whether the stage can run all the same, though hardly as meant.
    pub warns: bool,
}

impl Breach {
    /// A rule about the parameter at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, fault: Fault) -> Self {
        Self { path: path.into(), fault, warns: false }
    }
    /// A remark about the parameter at `path`, with which the stage can run.
    #[must_use]
    pub fn warning(path: impl Into<String>, fault: Fault) -> Self {
        Self { warns: true, ..Self::new(path, fault) }
    }
    /// The same with `prefix` before the path.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.path = if self.path.is_empty() { prefix.to_owned() } else { format!("{prefix}.{}", self.path) };
        self
    }
}
