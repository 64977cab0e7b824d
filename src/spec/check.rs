//! Types, ranges and names of a stage's parameters, and the defaults: from what the pipeline gives to effective parameters.
//!
//! Knows shapes, not which stages exist in the world: the catalog describes them.

use super::catalog::{Bound, Default, Field, Shape, Type, Variant};
use super::diagnostic::{Diagnostic, Problems, suggest};
use super::idle;
use super::node::{Data, Key, Node, Place};
use super::params::Params;
use crate::base::text;
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A parameter that names another stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The name of the input slot: the parameter's name, with a prefix where it is nested and an index in a list.
    pub slot: String,
    /// The stage that it names.
    pub stage: String,
    /// Where it is named.
    pub place: Place,
    /// The outputs that are read.
    pub outputs: &'static [&'static str],
}

/// Checks the parameters of one stage.
pub struct Checker<'a> {
    /// The stage's name, for messages.
    pub stage: &'a str,
    /// All stages with their kinds.
    pub stages: &'a BTreeMap<&'a str, &'static str>,
    /// Keys that come from `defaults`: where they do not fit the variant they are passed over.
    pub inherited: &'a HashSet<Place>,
    /// Defaults worked out so far.
    pub cache: &'a mut Cache,
    /// Where messages go.
    pub problems: &'a mut Problems,
    /// The references found.
    pub references: Vec<Reference>,
    /// What is given and not read.
    pub idle: &'a mut idle::Seen,
}

/// The defaults of shapes and variants, worked out once.
#[derive(Default)]
pub struct Cache(HashMap<ShapeId, Arc<Map<String, Value>>>);

/// A shape by its address, the index of its variant, and a bit for each field that its choices leave out.
type ShapeId = (usize, Option<usize>, u64);

impl Checker<'_> {
    /// Checks the parameters of the stage itself. What is wrong is reported and left out.
    pub fn stage(&mut self, shape: &Shape, node: &Node) -> Params {
        let mut own = Map::new();
        let variant = self.fields(shape, node, "", &mut own);
        Params::new(self.defaults(shape, variant, &own), own)
    }

    /// Checks what is given and finds the variant.
    fn fields(&mut self, shape: &Shape, node: &Node, prefix: &str, own: &mut Map<String, Value>) -> Option<usize> {
        let entries: &[(Key, Node)] = match (&node.data, &shape.tag) {
            (Data::Hole, _) => return None,
            (Data::Map(entries), _) => entries,
            (Data::Scalar(Value::String(word)), Some(tag)) => {
                let variant = self.variant(shape, word, node.place, prefix)?;
                own.insert(tag.name.to_owned(), word.as_str().into());
                self.missing(shape, Some(variant), node.place, prefix, &[]);
                return Some(variant);
            }
            (_, tag) => {
                let what = if prefix.is_empty() { format!("the parameters of stage `{}`", self.stage) } else { self.called(prefix) };
                let or = if tag.is_some() { "a word or a map" } else { "a map" };
                self.say("type", format!("{what} must be {or}, found {}", node.describe()), node.place, None);
                return None;
            }
        };
        let mut unknown_variant = false;
        let mut variant = None;
        if let Some(tag) = &shape.tag {
            match node.get(tag.name).map(|value| (&value.data, value)) {
                None => {
                    let path = join(prefix, tag.name);
                    let help = suggest("", tag.variants.iter().map(|v| v.name));
                    self.say("missing", format!("{} is missing", self.called(&path)), node.place, help);
                    unknown_variant = true;
                }
                Some((Data::Scalar(Value::String(word)), value)) => {
                    variant = self.variant(shape, word, value.place, prefix);
                    unknown_variant = variant.is_none();
                    own.insert(tag.name.to_owned(), word.as_str().into());
                }
                Some((Data::Hole, _)) => unknown_variant = true,
                Some((_, value)) => {
                    let path = join(prefix, tag.name);
                    let help = suggest("", tag.variants.iter().map(|v| v.name));
                    self.say("type", format!("{} must be a word, found {}", self.called(&path), value.describe()), value.place, help);
                    unknown_variant = true;
                }
            }
        }
        let selected = variant.and_then(|index| shape.tag.as_ref().map(|tag| &tag.variants[index]));
        let own_fields = selected.map_or(&[][..], |variant| &variant.fields);
        for (key, value) in entries {
            let name = &*key.text;
            if shape.tag.as_ref().is_some_and(|tag| tag.name == name) {
                continue;
            }
            match shape.fields.iter().chain(own_fields).find(|field| field.name == name) {
                Some(field) => {
                    if let Some(value) = self.given(field, value, &join(prefix, name)) {
                        own.insert(name.to_owned(), value);
                    }
                }
                // An expression may choose the variant, and leave out by none what another one has.
                None if value.is_null()
                    && shape.tag.iter().flat_map(|tag| &tag.variants).any(|v| v.fields.iter().any(|f| f.name == name)) => {}
                None => self.unknown(shape, selected, unknown_variant, key, prefix),
            }
        }
        if !unknown_variant {
            self.missing(shape, variant, node.place, prefix, entries);
            self.left_out(shape, variant, entries, prefix, own);
            self.idle(shape, variant, entries, prefix, own);
        }
        variant
    }

    /// Refuses fields that the word of a choice beside them does not have.
    fn left_out(&mut self, shape: &Shape, variant: Option<usize>, entries: &[(Key, Node)], prefix: &str, own: &mut Map<String, Value>) {
        let left_out: Vec<&Field> = all_fields(shape, variant).filter(|field| is_left_out(shape, variant, field, own)).collect();
        for field in left_out {
            let given = entries.iter().find(|(key, value)| &*key.text == field.name && !value.is_null());
            if let (Some((key, _)), Some((choice, words))) = (given, field.only)
                && !self.inherited.contains(&key.place)
            {
                let word = chosen(shape, variant, choice, own).unwrap_or_default();
                let message = format!("`{}` is not a parameter of `{choice}: {word}`", join(prefix, field.name));
                let holders =
                    text::quoted(words.iter().map(|word| format!("{choice}: {word}")).collect::<Vec<_>>().iter().map(String::as_str));
                let help = format!("{holders} {} it", if words.len() == 1 { "has" } else { "have" });
                self.say("other-variant", message, key.place, Some(help));
            }
            own.remove(field.name);
        }
    }

    /// Notes values that nobody reads beside the other parameters. That of the default may stand there, for a sweep that has it.
    fn idle(&mut self, shape: &Shape, variant: Option<usize>, entries: &[(Key, Node)], prefix: &str, own: &Map<String, Value>) {
        let fields: Vec<&Field> = all_fields(shape, variant).collect();
        let of = |name: &str| {
            let default = || match &fields.iter().find(|field| field.name == name)?.default {
                Default::Is(value) => Some(value),
                _ => None,
            };
            own.get(name).or_else(default)
        };
        for field in &fields {
            let given = entries.iter().find(|(key, value)| &*key.text == field.name && !value.is_null());
            let Some((key, _)) = given.filter(|(key, _)| !self.inherited.contains(&key.place)) else { continue };
            let usual =
                own.get(field.name).is_none_or(|value| matches!(&field.default, Default::Is(default) if idle::same(default, value)));
            let path = join(prefix, field.name);
            match field.read.iter().find(|clause| !idle::holds(clause, of)) {
                _ if usual => {}
                None => self.idle.read(key.place, path),
                Some(clause) => {
                    let (why, help) = idle::why(clause, of);
                    let message = format!("{} is not read {why}", self.called(&path));
                    self.idle.unread(key.place, path, Diagnostic::error("idle", message).at(key.place).help(help));
                }
            }
        }
    }

    fn variant(&mut self, shape: &Shape, word: &str, place: Place, prefix: &str) -> Option<usize> {
        let tag = shape.tag.as_ref()?;
        let found = tag.variants.iter().position(|variant| variant.name == word);
        if found.is_none() {
            let message = match prefix {
                "" => format!("`{}` cannot be `{word}`", tag.name),
                // An element of a list has no name but its number; then the tag's says more.
                path if last(path).parse::<usize>().is_ok() => format!("there is no `{}` of the name `{word}`", tag.name),
                path => format!("there is no `{}` of the name `{word}`", last(path)),
            };
            self.say("unknown-variant", message, place, suggest(word, tag.variants.iter().map(|v| v.name)));
        }
        found
    }

    fn missing(&mut self, shape: &Shape, variant: Option<usize>, place: Place, prefix: &str, entries: &[(Key, Node)]) {
        let given = |name: &str| entries.iter().any(|(key, _)| &*key.text == name);
        let known = |name: &str| all_fields(shape, variant).any(|field| field.name == name);
        for field in all_fields(shape, variant).filter(|field| field.default == Default::Required && !given(field.name)) {
            // A misspelt key is reported as such, with this name as the suggestion.
            if entries.iter().any(|(key, _)| !known(&key.text) && text::nearest(&key.text, [field.name]).is_some()) {
                continue;
            }
            let path = join(prefix, field.name);
            let help = format!("it must be {}: {}", describe(&field.ty), field.doc);
            self.say("missing", format!("{} is missing", self.called(&path)), place, Some(help));
        }
    }

    fn unknown(&mut self, shape: &Shape, selected: Option<&Variant>, unknown_variant: bool, key: &Key, prefix: &str) {
        let name = &*key.text;
        let tag = shape.tag.as_ref();
        let holders: Vec<&str> = tag
            .map(|tag| tag.variants.iter().filter(|v| v.fields.iter().any(|field| field.name == name)).map(|v| v.name).collect())
            .unwrap_or_default();
        // Which parameters fit cannot be known without the variant, and that is reported already.
        if self.inherited.contains(&key.place) || (unknown_variant && !holders.is_empty()) {
            return;
        }
        let owner = match selected {
            Some(variant) => format!("`{}`", variant.name),
            None if prefix.is_empty() => format!("stage `{}`", self.stage),
            None => format!("`{prefix}`"),
        };
        if holders.is_empty() {
            let mut names: Vec<&str> = shape.fields.iter().chain(selected.map_or(&[][..], |v| &v.fields)).map(|field| field.name).collect();
            names.extend(tag.map(|tag| tag.name));
            self.say("unknown-key", format!("unknown parameter `{}` of {owner}", join(prefix, name)), key.place, suggest(name, names));
        } else {
            let message = format!("`{}` is not a parameter of {owner}", join(prefix, name));
            self.say(
                "other-variant",
                message,
                key.place,
                Some(format!("{} {} it", text::quoted(holders.iter().copied()), if holders.len() == 1 { "has" } else { "have" })),
            );
        }
    }

    /// A given value; `None` when it is wrong, or when an expression leaves it out by `none`.
    fn given(&mut self, field: &Field, node: &Node, path: &str) -> Option<Value> {
        if node.is_null() && field.default != Default::Required {
            return None;
        }
        self.value(&field.ty, node, path)
    }

    fn value(&mut self, ty: &Type, node: &Node, path: &str) -> Option<Value> {
        let Data::Scalar(scalar) = &node.data else { return self.collection(ty, node, path) };
        match (ty, scalar) {
            (Type::Bool, Value::Bool(_)) | (Type::Text, Value::String(_)) => return Some(scalar.clone()),
            (Type::Int { min, max }, Value::Number(n)) => match integer(n) {
                Some(i) if (*min..=*max).contains(&i) => return Some(i.into()),
                Some(_) => return self.out_of_range(ty, node, path),
                None if n.is_u64() => return self.out_of_range(ty, node, path),
                None => {}
            },
            (Type::Float { min, max }, Value::Number(n)) => {
                let f = n.as_f64()?;
                let above = match min {
                    Bound::None => true,
                    Bound::Incl(b) => f >= *b,
                    Bound::Excl(b) => f > *b,
                };
                let below = match max {
                    Bound::None => true,
                    Bound::Incl(b) => f <= *b,
                    Bound::Excl(b) => f < *b,
                };
                return if above && below { Number::from_f64(f).map(Value::Number) } else { self.out_of_range(ty, node, path) };
            }
            (Type::Choice(words), Value::String(word)) => {
                if words.iter().any(|(name, _)| name == word) {
                    return Some(scalar.clone());
                }
                let message = format!("{} must be {}, found {}", self.called(path), describe(ty), node.describe());
                let near = text::nearest(word, words.iter().map(|(name, _)| *name));
                let help = near.map(|name| format!("did you mean `{name}`?"));
                self.say("choice", message, node.place, help.or_else(|| meanings(words)));
                return None;
            }
            (Type::Stage { kinds, outputs }, Value::String(name)) => return self.reference(kinds, outputs, name, node.place, path),
            (Type::Map(_), _) => return self.collection(ty, node, path),
            _ => {}
        }
        self.wrong(ty, node, path)
    }

    fn collection(&mut self, ty: &Type, node: &Node, path: &str) -> Option<Value> {
        match (ty, &node.data) {
            (_, Data::Hole) => None,
            (Type::List(inner), Data::List(items)) => {
                let values: Vec<Option<Value>> =
                    items.iter().enumerate().map(|(i, item)| self.value(inner, item, &format!("{path}.{i}"))).collect();
                if matches!(**inner, Type::Stage { .. }) { None } else { values.into_iter().collect::<Option<Vec<_>>>().map(Value::Array) }
            }
            (Type::Map(shape), Data::Map(_)) => self.map(shape, node, path),
            (Type::Map(shape), Data::Scalar(Value::String(_))) if shape.tag.is_some() => self.map(shape, node, path),
            _ => self.wrong(ty, node, path),
        }
    }

    fn map(&mut self, shape: &Shape, node: &Node, path: &str) -> Option<Value> {
        let before = self.problems.errors();
        let mut own = Map::new();
        let variant = self.fields(shape, node, path, &mut own);
        if self.problems.errors() > before {
            return None;
        }
        for (name, value) in self.defaults(shape, variant, &own).iter() {
            if !own.contains_key(name) {
                own.insert(name.clone(), value.clone());
            }
        }
        Some(Value::Object(own))
    }

    fn reference(&mut self, kinds: &[&str], outputs: &'static [&'static str], name: &str, place: Place, path: &str) -> Option<Value> {
        let fitting = || {
            self.stages
                .iter()
                .filter(|(stage, kind)| kinds.contains(*kind) && **stage != self.stage)
                .map(|(stage, _)| *stage)
                .collect::<Vec<_>>()
        };
        match self.stages.get(name) {
            None => {
                let message = format!("stage `{}` needs `{name}`, which is not a stage", self.stage);
                let fitting = fitting();
                let help = match suggest(name, fitting.iter().copied()) {
                    Some(help) => Some(help),
                    None => Some(format!("add a stage of kind {}", text::quoted(kinds.iter().copied()))),
                };
                self.say("unknown-stage", message, place, help);
            }
            Some(_) if name == self.stage => {
                let message = format!("stage `{name}` needs itself");
                self.say("self-reference", message, place, suggest(name, fitting()).filter(|_| !fitting().is_empty()));
            }
            Some(kind) if !kinds.contains(kind) => {
                let message = format!(
                    "{} needs a stage of kind {}, but `{name}` is of kind `{kind}`",
                    self.called(path),
                    text::quoted(kinds.iter().copied())
                );
                let fitting = fitting();
                let help = if fitting.is_empty() {
                    format!("add a stage of kind {}", text::quoted(kinds.iter().copied()))
                } else {
                    format!("choose from {}", text::quoted(fitting))
                };
                self.say("wrong-kind", message, place, Some(help));
            }
            Some(_) => self.references.push(Reference { slot: path.to_owned(), stage: name.to_owned(), place, outputs }),
        }
        None
    }

    fn wrong(&mut self, ty: &Type, node: &Node, path: &str) -> Option<Value> {
        let message = format!("{} must be {}, found {}", self.called(path), describe(ty), node.describe());
        self.say("type", message, node.place, hint(ty, node));
        None
    }

    fn out_of_range(&mut self, ty: &Type, node: &Node, path: &str) -> Option<Value> {
        let message = format!("{} must be {}, found {}", self.called(path), describe(ty), node.to_value());
        self.say("range", message, node.place, None);
        None
    }

    fn called(&self, path: &str) -> String {
        format!("`{path}` of stage `{}`", self.stage)
    }

    fn say(&mut self, code: &'static str, message: String, place: Place, help: Option<String>) {
        self.problems.push(Diagnostic::error(code, message).at(place).help_if(help));
    }

    /// The defaults of a shape with a variant, in their final types.
    fn defaults(&mut self, shape: &Shape, variant: Option<usize>, own: &Map<String, Value>) -> Arc<Map<String, Value>> {
        let left_out = |field: &Field| is_left_out(shape, variant, field, own);
        let bits = all_fields(shape, variant).zip(0..64).filter(|(field, _)| left_out(field)).fold(0, |bits, (_, i)| bits | (1 << i));
        // The catalog outlives the check, so the address of a shape is its identity.
        let key = (std::ptr::from_ref(shape) as usize, variant, bits);
        if let Some(known) = self.cache.0.get(&key) {
            return known.clone();
        }
        let mut map = Map::new();
        for field in all_fields(shape, variant).filter(|field| !left_out(field)) {
            if let Default::Is(value) = &field.default {
                let node = Node::from_value(Place { source: 0, item: 0 }, value.clone());
                let mut problems = Problems::default();
                let mut inner = Checker {
                    stage: self.stage,
                    stages: self.stages,
                    inherited: self.inherited,
                    cache: self.cache,
                    problems: &mut problems,
                    references: Vec::new(),
                    idle: &mut idle::Seen::default(),
                };
                if let Some(value) = inner.value(&field.ty, &node, field.name) {
                    map.insert(field.name.to_owned(), value);
                }
                // Only a mistake in the catalog comes here; its test finds it first.
                for problem in problems.into_items() {
                    self.problems.push(Diagnostic::error("internal", format!("the default is wrong: {}", problem.message)));
                }
            }
        }
        let map = Arc::new(map);
        self.cache.0.insert(key, map.clone());
        map
    }
}

fn all_fields(shape: &Shape, variant: Option<usize>) -> impl Iterator<Item = &Field> {
    let own = shape.tag.as_ref().zip(variant).map_or(&[][..], |(tag, index)| &tag.variants[index].fields);
    shape.fields.iter().chain(own)
}

/// The word of a choice, given or by default.
fn chosen(shape: &Shape, variant: Option<usize>, choice: &str, own: &Map<String, Value>) -> Option<String> {
    let default = || match &all_fields(shape, variant).find(|field| field.name == choice)?.default {
        Default::Is(value) => value.as_str(),
        _ => None,
    };
    own.get(choice).and_then(Value::as_str).or_else(default).map(str::to_owned)
}

/// Whether the word of a choice beside it does not have this field.
fn is_left_out(shape: &Shape, variant: Option<usize>, field: &Field, own: &Map<String, Value>) -> bool {
    field.only.is_some_and(|(choice, words)| chosen(shape, variant, choice, own).is_none_or(|word| !words.contains(&word.as_str())))
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// An integer, also when it is written as a float without a fraction (`1e3`).
fn integer(n: &Number) -> Option<i64> {
    n.as_i64().or_else(|| {
        let f = n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15)?;
        Some(f as i64)
    })
}

fn meanings(words: &[(&str, &str)]) -> Option<String> {
    let lines: Vec<String> = words.iter().filter(|(_, doc)| !doc.is_empty()).map(|(name, doc)| format!("`{name}`: {doc}")).collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// What to do when a value of another type was found.
fn hint(ty: &Type, node: &Node) -> Option<String> {
    match (ty, &node.data) {
        (Type::Int { .. } | Type::Float { .. }, Data::Scalar(Value::String(text))) => {
            let bare = text.trim();
            if super::node::is_huge(bare) || ["inf", "-inf", "NaN"].contains(&bare) {
                None
            } else if bare.len() > 1 && bare.starts_with('0') && bare.bytes().all(|b| b.is_ascii_digit()) {
                Some("remove the leading zeros".to_owned())
            } else if bare.contains('_') && bare.replace('_', "").parse::<f64>().is_ok() {
                Some(format!("write {}", bare.replace('_', "")))
            } else if bare.parse::<f64>().is_ok_and(f64::is_finite) {
                Some("remove the quotes".to_owned())
            } else {
                None
            }
        }
        (Type::Bool, Data::Scalar(Value::String(word))) => match word.to_lowercase().as_str() {
            "yes" | "on" | "y" => Some("write `true`".to_owned()),
            "no" | "off" | "n" => Some("write `false`".to_owned()),
            _ => None,
        },
        (Type::Text | Type::Choice(_) | Type::Stage { .. }, Data::Scalar(Value::Number(_) | Value::Bool(_))) => {
            Some(format!("quote it: \"{}\"", node.to_value()))
        }
        (Type::List(_), Data::Scalar(_)) if !node.is_null() => Some(format!("write `[{}]`", super::node::short(&node.to_value()))),
        (Type::Map(shape), _) => {
            let names: Vec<&str> = shape.fields.iter().map(|field| field.name).collect();
            (!names.is_empty()).then(|| format!("its keys are {}", text::quoted(names)))
        }
        _ => None,
    }
}

/// A type with its range, for messages: `a number above 0`, `an integer from 1 to 10`.
#[must_use]
pub fn describe(ty: &Type) -> String {
    match ty {
        Type::Bool => "`true` or `false`".to_owned(),
        Type::Int { min: i64::MIN, max: i64::MAX } => "an integer".to_owned(),
        Type::Int { min, max: i64::MAX } => format!("an integer of at least {min}"),
        Type::Int { min: i64::MIN, max } => format!("an integer of at most {max}"),
        Type::Int { min, max } => format!("an integer from {min} to {max}"),
        Type::Float { min, max } => match (min, max) {
            (Bound::None, Bound::None) => "a number".to_owned(),
            (Bound::Incl(a), Bound::Incl(b)) => format!("a number from {a} to {b}"),
            (a, b) => {
                let low = match a {
                    Bound::None => None,
                    Bound::Incl(a) => Some(format!("of at least {a}")),
                    Bound::Excl(a) => Some(format!("above {a}")),
                };
                let high = match b {
                    Bound::None => None,
                    Bound::Incl(b) => Some(format!("at most {b}")),
                    Bound::Excl(b) => Some(format!("below {b}")),
                };
                let parts: Vec<String> = [low, high].into_iter().flatten().collect();
                format!("a number {}", parts.join(" and "))
            }
        },
        Type::Text => "text".to_owned(),
        Type::Choice(words) => format!("one of {}", text::quoted(words.iter().map(|(name, _)| *name))),
        Type::List(inner) => format!("a list, each item {}", describe(inner)),
        Type::Stage { kinds, .. } => format!("the name of a stage of kind {}", text::quoted(kinds.iter().copied())),
        Type::Map(shape) => match &shape.tag {
            Some(tag) => format!("a word or a map with `{}`", tag.name),
            None => "a map".to_owned(),
        },
    }
}
