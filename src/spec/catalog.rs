//! What a pipeline may say: the stage kinds, their parameters and their variants, as plain descriptions.
//!
//! The one description serves the checks, the defaults, the cache keys, the JSON Schema and the documentation. This module knows
//! no stage by name: a [`Catalog`] brings them.

use super::params::Params;
use super::rules::{Breach, Setup};
use crate::base::{Fault, Outcome};
use serde_json::Value;

/// Everything a pipeline may name. `lib.rs` wires in the real one; tests bring small ones.
pub trait Catalog: Sync {
    /// The stage kinds, in the order in which help lists them.
    fn kinds(&self) -> &[StageKind];

    /// The kind of that name.
    fn kind(&self, name: &str) -> Option<&StageKind> {
        self.kinds().iter().find(|kind| kind.name == name)
    }

    /// The published tables that `compare:` may name.
    fn published(&self) -> &[&'static str] {
        &[]
    }

    /// The selector of `value: stage.METRIC` where none is named; kinds without one want a selector.
    fn usual_selector(&self, kind: &str) -> Option<&'static str> {
        let _ = kind;
        None
    }

    /// The values that `value: stage.METRIC.SELECTOR` may name for a stage of this kind: metrics, then selectors. A selector may
    /// take something: `mean_last(K)` a whole number, `at_best(METRIC)` a metric.
    fn metrics(&self, kind: &str) -> (&[&'static str], &[&'static str]) {
        let _ = kind;
        (&[], &[])
    }

    /// Those of the metrics that a stage with these parameters measures.
    fn measures(&self, kind: &str, params: &Params) -> &[&'static str] {
        let _ = params;
        self.metrics(kind).0
    }

    /// Why a stage with these parameters never measures a metric of its kind: what it does not do, and what would make it.
    fn lacks(&self, kind: &str, params: &Params, metric: &str) -> Option<Fault> {
        let _ = (kind, params, metric);
        None
    }

    /// Why a selector never finds a measurement of a stage with these parameters.
    fn misses(&self, kind: &str, params: &Params, selector: &str) -> Option<Fault> {
        let _ = (kind, params, selector);
        None
    }

    /// The settings of a published table, as `data set, model, scenario`; of a user's file where its text is given. Empty where they
    /// are not known.
    ///
    /// # Errors
    /// A pipeline fault when the text is no table.
    fn settings(&self, table: &str, text: Option<&str>) -> Outcome<Vec<String>> {
        let _ = (table, text);
        Ok(Vec::new())
    }

    /// Why the parameters of a stage and of those that it reads, each of which is fine, do not go together. It is asked for each
    /// stage of a sweep before anything runs, so it must not look at data.
    fn rules(&self, stage: &Setup<'_>) -> Vec<Breach> {
        let _ = stage;
        Vec::new()
    }
}

/// A name among the outputs that a [`Type::Stage`] reads, for a stage that looks at how another one was made: not an output, but the
/// other stage's parameters and inputs. Its digest is the other stage's key; the task has them under `SLOT` and `SLOT.INPUT`.
pub const RECIPE: &str = "recipe";

/// One kind of stage: `dataset`, `partition`, `model`, `train` ...
#[derive(Clone, Debug)]
pub struct StageKind {
    /// The key inside the stage.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Raised by hand whenever the meaning of a result changes; enters every key of this kind.
    pub revision: u32,
    /// Its parameters.
    pub shape: Shape,
    /// The names of its outputs.
    pub outputs: &'static [&'static str],
    /// A parameter whose larger value may continue from the result of a smaller one (`rounds` of `train`).
    pub extends: Option<&'static str>,
    /// Whether the class of device (`cpu`, `cuda`) may change the result; then it enters the key.
    pub device_sensitive: bool,
}

/// A map of parameters: fields common to all variants, and at most one tag that selects further fields.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Fields that are always there.
    pub fields: Vec<Field>,
    /// The field that selects a variant.
    pub tag: Option<Tag>,
}

/// The field that selects a variant: `kind` of a partition, `name` of an algorithm.
#[derive(Clone, Debug)]
pub struct Tag {
    /// The field's name.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The choices.
    pub variants: Vec<Variant>,
}

/// One choice of a [`Tag`], with the fields that only it has.
#[derive(Clone, Debug)]
pub struct Variant {
    /// As written in the pipeline.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Raised by hand whenever the meaning of a result changes; enters the key of a stage that selects this variant.
    pub revision: u32,
    /// Fields of this variant alone.
    pub fields: Vec<Field>,
}

/// One parameter.
#[derive(Clone, Debug)]
pub struct Field {
    /// As written in the pipeline.
    pub name: &'static str,
    /// Meaning, unit and range, in one or two sentences.
    pub doc: &'static str,
    /// Its type and range.
    pub ty: Type,
    /// What holds when it is left out.
    pub default: Default,
    /// The symbol in the paper, or the empty string.
    pub symbol: &'static str,
    /// Where the default comes from, or the empty string.
    pub source: &'static str,
    /// A field added after a first release: the value that keeps the old meaning. While the effective value equals it, the
    /// field is left out of the key, so that old results stay valid. Frozen in `tests/golden/introduced.json`.
    pub introduced: Option<Value>,
    /// A choice beside it and the words of it that have this field; with any other word it is an error to give it, and it is absent.
    pub only: Option<(&'static str, &'static [&'static str])>,
    /// When it is read: each of these must hold. Where one does not, the field keeps its default, and it is an error to give it
    /// another value. Unlike `only`, this leaves keys as they are.
    pub read: Vec<Clause>,
}

/// Parameters beside a field, one of which must be so that the field is read.
pub type Clause = Vec<(&'static str, When)>;

/// What a parameter must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// One of these, as it is written: words, truth values, numbers, `[]`.
    Is(&'static [&'static str]),
    /// None of these.
    IsNot(&'static [&'static str]),
    /// There.
    Given,
    /// Not there.
    Absent,
}

/// What holds when a field is left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// Leaving it out is an error.
    Required,
    /// It is absent.
    Absent,
    /// This value.
    Is(Value),
}

/// The type and range of a field.
#[derive(Clone, Debug)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// An integer in `min..=max`.
    Int {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A finite number; integers are taken as floats.
    Float {
        /// Bound from below.
        min: Bound,
        /// Bound from above.
        max: Bound,
    },
    /// Any text.
    Text,
    /// One of the words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A list of one type.
    List(Box<Type>),
    /// The name of a stage of one of these kinds; the named outputs of that stage become an input slot of this field's name.
    Stage {
        /// Kinds that fit.
        kinds: &'static [&'static str],
        /// The outputs that are read, or [`RECIPE`]; their digests enter the key.
        outputs: &'static [&'static str],
    },
    /// A nested map. When the shape has a tag, a bare word stands for a map of the tag alone (`algorithm: ditto`).
    Map(Shape),
}

/// A bound of a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No bound.
    None,
    /// The value itself is allowed.
    Incl(f64),
    /// The value itself is not allowed.
    Excl(f64),
}

impl Type {
    /// An integer of at least `min`.
    #[must_use]
    pub fn at_least(min: i64) -> Self {
        Self::Int { min, max: i64::MAX }
    }
    /// A float above 0.
    #[must_use]
    pub fn positive() -> Self {
        Self::Float { min: Bound::Excl(0.0), max: Bound::None }
    }
    /// A float of at least 0.
    #[must_use]
    pub fn non_negative() -> Self {
        Self::Float { min: Bound::Incl(0.0), max: Bound::None }
    }
    /// A float in [0, 1].
    #[must_use]
    pub fn fraction() -> Self {
        Self::Float { min: Bound::Incl(0.0), max: Bound::Incl(1.0) }
    }
}

impl Field {
    /// A required field.
    #[must_use]
    pub fn required(name: &'static str, ty: Type, doc: &'static str) -> Self {
        Self { name, doc, ty, default: Default::Required, symbol: "", source: "", introduced: None, only: None, read: Vec::new() }
    }
    /// A field with a default value.
    #[must_use]
    pub fn with(name: &'static str, ty: Type, default: impl Into<Value>, doc: &'static str) -> Self {
        Self { default: Default::Is(default.into()), ..Self::required(name, ty, doc) }
    }
    /// A field that may be absent.
    #[must_use]
    pub fn optional(name: &'static str, ty: Type, doc: &'static str) -> Self {
        Self { default: Default::Absent, ..Self::required(name, ty, doc) }
    }
    /// Says that it was added after a first release, and which value keeps the old meaning.
    #[must_use]
    pub fn introduced(mut self, value: impl Into<Value>) -> Self {
        self.introduced = Some(value.into());
        self
    }
    /// Says that only some words of a choice beside it have this field.
    #[must_use]
    pub fn only(mut self, choice: &'static str, words: &'static [&'static str]) -> Self {
        self.only = Some((choice, words));
        self
    }
    /// Says that the field is read only where another parameter is so; of several of these all must hold.
    #[must_use]
    pub fn read_with(self, name: &'static str, when: When) -> Self {
        self.read_with_any(vec![(name, when)])
    }
    /// Says that the field is read only where one of these holds.
    #[must_use]
    pub fn read_with_any(mut self, clause: Clause) -> Self {
        self.read.push(clause);
        self
    }
    /// Adds the paper's symbol and the source of the default.
    #[must_use]
    pub fn from(mut self, symbol: &'static str, source: &'static str) -> Self {
        self.symbol = symbol;
        self.source = source;
        self
    }
}

impl Shape {
    /// Fields without variants.
    #[must_use]
    pub fn of(fields: Vec<Field>) -> Self {
        Self { fields, tag: None }
    }
    /// Adds the field that selects a variant.
    #[must_use]
    pub fn tagged(mut self, name: &'static str, doc: &'static str, variants: Vec<Variant>) -> Self {
        self.tag = Some(Tag { name, doc, variants });
        self
    }
    /// The variant of that name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.tag.as_ref()?.variants.iter().find(|v| v.name == name)
    }
}
