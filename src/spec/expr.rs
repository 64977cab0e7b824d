//! Expressions in `{{ }}`: compiled once, evaluated for each combination of the axes that they read.
//!
//! Knows names and values, not what they mean; [`super::code`] finds the expressions in a tree.

use super::diagnostic::Diagnostic;
use super::node::{Node, Place, name_of};
use crate::base::text::nearest;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Environment, ErrorKind, Expression, UndefinedBehavior};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Compiles expressions; must outlive them.
pub struct Engine(Environment<'static>);

impl Default for Engine {
    fn default() -> Self {
        let mut env = Environment::new();
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        Self(env)
    }
}

/// The names that an expression may use.
pub trait Names {
    /// Whether it is a variable or an axis.
    fn knows(&self, name: &str) -> bool;
    /// All of them, for suggestions.
    fn all(&self) -> Vec<&str>;
}

impl Names for BTreeSet<String> {
    fn knows(&self, name: &str) -> bool {
        self.contains(name)
    }
    fn all(&self) -> Vec<&str> {
        self.iter().map(String::as_str).collect()
    }
}

/// The value of a name, in the forms that expressions need.
#[derive(Clone, Debug)]
pub struct Bound {
    /// With its places.
    pub node: Node,
    value: minijinja::Value,
    // For comparisons a named map is its name: `algorithm != "gpfl"`.
    name: Option<minijinja::Value>,
}

impl Bound {
    /// Binds a value. `named` says that other values of the same axis are named maps: then a bare word has a `.name` too.
    #[must_use]
    pub fn new(node: Node, named: bool) -> Self {
        let json = node.to_value();
        let name = match &json {
            Value::Object(map) => name_of(map).map(|(_, name)| name.to_owned()),
            Value::String(text) if named => Some(text.clone()),
            _ => None,
        };
        let value = match &name {
            Some(name) => minijinja::Value::from_object(Named { name: name.clone(), json }),
            None => to_minijinja(&json),
        };
        Self { node, value, name: name.map(minijinja::Value::from) }
    }
}

/// The values of names while an expression is evaluated.
#[derive(Clone, Debug, Default)]
pub struct Scope<'a> {
    /// By name.
    pub bound: BTreeMap<&'a str, Arc<Bound>>,
    /// Why a name may be without a value, such as an axis of other cells: by name, the help.
    pub absent: BTreeMap<&'a str, String>,
    /// Names whose values could not be worked out; an error about them is already reported.
    pub broken: BTreeSet<&'a str>,
}

/// A map called by its name: printed and compared as the name, indexed as the map.
#[derive(Debug)]
struct Named {
    name: String,
    json: Value,
}

impl Object for Named {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }
    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        let key = key.as_str()?;
        match &self.json {
            Value::Object(map) => map.get(key).map(to_minijinja),
            _ => (key == "name" || key == "kind").then(|| self.name.as_str().into()),
        }
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.json {
            Value::Object(map) => Enumerator::Values(map.keys().map(|key| key.as_str().into()).collect()),
            _ => Enumerator::Empty,
        }
    }
    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One expression.
pub struct Program<'e> {
    place: Place,
    names: BTreeSet<String>,
    how: How<'e>,
}

enum How<'e> {
    /// Only a name: its value passes through with its own places.
    Name(String),
    /// Anything else, with the names of its context: the key there, the name, and whether the name form is meant.
    Compiled(Expression<'e, 'static>, Vec<(String, String, bool)>),
}

/// Why an expression has no value.
pub enum Failure {
    /// It reads something that is not defined here.
    Undefined(Box<Diagnostic>),
    /// Another error.
    Wrong(Box<Diagnostic>),
    /// The cause is already reported.
    Reported,
}

impl<'e> Program<'e> {
    /// Compiles the source of an expression without its braces.
    ///
    /// # Errors
    /// A syntax error or an unknown name, at the place.
    pub fn compile(engine: &'e Engine, source: &str, place: Place, names: &dyn Names) -> Result<Self, Box<Diagnostic>> {
        let source = source.trim();
        if source.is_empty() {
            return Err(Box::new(Diagnostic::error("expression", "an expression is empty").at(place)));
        }
        let rewritten = rewrite(source, names);
        let compiled = engine.0.compile_expression_owned(rewritten).map_err(|error| {
            let detail = error.detail().unwrap_or("it cannot be read").to_owned();
            Box::new(
                Diagnostic::error("expression", format!("`{source}` is not an expression: {detail}"))
                    .at(place)
                    .help("expressions look like `alpha * 2`, `'a' if seed == 0 else 'b'`, `name | upper`"),
            )
        })?;
        let mut context = Vec::new();
        let mut read = BTreeSet::new();
        let mut undeclared: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        if source.contains('[') && source.contains(':') {
            // The template engine does not look into slices (`list[a:b]`) for names.
            let missed: Vec<String> = words(source, names).into_iter().filter(|word| !undeclared.contains(word)).collect();
            undeclared.extend(missed);
        }
        undeclared.sort_unstable();
        for key in undeclared {
            if engine.0.globals().any(|(name, _)| name == key) {
                continue;
            }
            let (name, form) = key.strip_prefix(NAME_FORM).map_or((key.clone(), false), |name| (name.to_owned(), true));
            if !names.knows(&name) {
                let help = match nearest(&name, names.all()) {
                    Some(near) => format!("did you mean `{near}`? text needs quotes inside an expression"),
                    None => "define it under `vars` or `sweep`; text needs quotes inside an expression".to_owned(),
                };
                return Err(Box::new(
                    Diagnostic::error("unknown-name", format!("`{name}` is neither a variable nor an axis")).at(place).help(help),
                ));
            }
            read.insert(name.clone());
            context.push((key, name, form));
        }
        let how = if is_identifier(source) && read.len() == 1 { How::Name(source.to_owned()) } else { How::Compiled(compiled, context) };
        Ok(Self { place, names: read, how })
    }
    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }
    /// The names that it reads.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }
    /// Its value.
    ///
    /// # Errors
    /// When it has none.
    pub fn eval(&self, scope: &Scope<'_>) -> Result<Node, Failure> {
        match &self.how {
            How::Name(name) => self.look_up(name, scope).map(|bound| bound.node.clone()),
            How::Compiled(..) => {
                let value = self.run(scope)?;
                let json = from_minijinja(&value).map_err(|what| {
                    Failure::Wrong(Box::new(Diagnostic::error("expression", format!("the expression gives {what}")).at(self.place)))
                })?;
                Ok(Node::from_value(self.place, json))
            }
        }
    }
    /// Its value as a condition. Where it reads something that is not defined, it does not hold.
    ///
    /// # Errors
    /// When it fails otherwise.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, Failure> {
        let value = match &self.how {
            How::Name(name) => self.look_up(name, scope).map(|bound| bound.value.clone()),
            How::Compiled(..) => self.run(scope),
        };
        match value {
            Ok(value) if value.kind() == ValueKind::Bool => Ok(value.is_true()),
            Ok(value) => Err(Failure::Wrong(Box::new(
                Diagnostic::error("expression", format!("the condition gives {value}, which is neither true nor false"))
                    .at(self.place)
                    .help("compare it, as in `algorithm == \"fedavg\"` or `seed in [0, 1]`"),
            ))),
            Err(Failure::Undefined(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }
    /// Its value as text.
    ///
    /// # Errors
    /// When it has none.
    pub fn print(&self, scope: &Scope<'_>) -> Result<String, Failure> {
        match &self.how {
            How::Name(name) => self.look_up(name, scope).map(|bound| bound.value.to_string()),
            How::Compiled(..) => self.run(scope).map(|value| value.to_string()),
        }
    }
    fn look_up<'s>(&self, name: &str, scope: &'s Scope<'_>) -> Result<&'s Arc<Bound>, Failure> {
        if let Some(bound) = scope.bound.get(name) {
            return Ok(bound);
        }
        if scope.broken.contains(name) {
            return Err(Failure::Reported);
        }
        Err(Failure::Undefined(Box::new(self.undefined(name, scope))))
    }
    fn undefined(&self, name: &str, scope: &Scope<'_>) -> Diagnostic {
        Diagnostic::error("undefined", format!("`{name}` has no value here")).at(self.place).help_if(scope.absent.get(name).cloned())
    }
    fn run(&self, scope: &Scope<'_>) -> Result<minijinja::Value, Failure> {
        let How::Compiled(code, context) = &self.how else { return Ok(minijinja::Value::UNDEFINED) };
        if self.names.iter().any(|name| scope.broken.contains(name.as_str())) {
            return Err(Failure::Reported);
        }
        let values = context.iter().filter_map(|(key, name, form)| {
            let bound = scope.bound.get(name.as_str())?;
            let value = if *form { bound.name.as_ref().unwrap_or(&bound.value) } else { &bound.value };
            Some((key.as_str(), value.clone()))
        });
        let result = code.eval(minijinja::Value::from_pairs(values));
        let undefined = || {
            let name = self.names.iter().find(|name| !scope.bound.contains_key(name.as_str()));
            match name {
                Some(name) => self.undefined(name, scope),
                None => Diagnostic::error("undefined", "the expression reads a part that is not there").at(self.place),
            }
        };
        match result {
            Ok(value) if value.is_undefined() => Err(Failure::Undefined(Box::new(undefined()))),
            Ok(value) => Ok(value),
            Err(error) if error.kind() == ErrorKind::UndefinedError => Err(Failure::Undefined(Box::new(undefined()))),
            Err(error) => Err(Failure::Wrong(Box::new(
                Diagnostic::error(
                    "expression",
                    format!("the expression fails: {}", error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)),
                )
                .at(self.place),
            ))),
        }
    }
}

/// Whether the text is one name.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What the name form of a name is called inside compiled expressions; users cannot define names that begin so.
const NAME_FORM: &str = "__name_";

/// Lets `algorithm == "ditto"` and `algorithm in [...]` compare the name of a named map: in such places the name is replaced by its
/// name form, while `algorithm.mu` and everything else keeps the map.
fn rewrite(source: &str, names: &dyn Names) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len() + 16);
    let mut i = 0;
    while i < bytes.len() {
        let b = bytes[i];
        let start = i;
        if b == b'"' || b == b'\'' {
            i += 1;
            while i < bytes.len() && bytes[i] != b {
                i += if bytes[i] == b'\\' { 2 } else { 1 };
            }
            i = (i + 1).min(bytes.len());
            while !source.is_char_boundary(i) {
                i += 1;
            }
        } else if b.is_ascii_alphanumeric() || b == b'_' {
            while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
                i += 1;
            }
            let word = &source[start..i];
            if names.knows(word) && compared(source[..start].trim_end(), source[i..].trim_start()) {
                out.push_str(NAME_FORM);
            }
        } else {
            i += 1;
            while !source.is_char_boundary(i) {
                i += 1;
            }
        }
        out.push_str(&source[start..i]);
    }
    out
}

/// The known names in the text, those in quotes and after a point left out.
fn words(source: &str, names: &dyn Names) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut quote, mut word, mut before) = (None, String::new(), ' ');
    for c in source.chars().chain([' ']) {
        match quote {
            Some(open) => quote = Some(open).filter(|open| *open != c),
            None if c.is_ascii_alphanumeric() || c == '_' => word.push(c),
            None => {
                if before != '.' && names.knows(&word) {
                    found.insert(std::mem::take(&mut word));
                }
                if !word.is_empty() || !c.is_whitespace() {
                    before = c;
                }
                word.clear();
                quote = Some(c).filter(|c| matches!(c, '"' | '\''));
            }
        }
    }
    found
}

fn compared(before: &str, after: &str) -> bool {
    if before.ends_with(['.', '|']) || after.starts_with(['.', '[', '(', '|']) {
        return false;
    }
    let word_then_space =
        |text: &str, word: &str| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| !c.is_alphanumeric() && c != '_'));
    let after_operator = after.strip_prefix("==").or_else(|| after.strip_prefix("!="));
    after_operator.is_some_and(|rest| !rest.trim_start().starts_with('{'))
        || word_then_space(after, "in")
        || (word_then_space(after, "not") && word_then_space(after[3..].trim_start(), "in"))
        || before.strip_suffix("==").or_else(|| before.strip_suffix("!=")).is_some_and(|rest| !rest.trim_end().ends_with('}'))
}

fn to_minijinja(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(b) => (*b).into(),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => i.into(),
            (None, Some(u)) => u.into(),
            (None, None) => n.as_f64().unwrap_or(0.0).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_minijinja).collect::<Vec<_>>().into(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), to_minijinja(value))).collect::<BTreeMap<_, _>>().into(),
    }
}

fn from_minijinja(value: &minijinja::Value) -> Result<Value, String> {
    if let Some(named) = value.downcast_object_ref::<Named>() {
        return Ok(named.json.clone());
    }
    Ok(match value.kind() {
        ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => {
            let unsigned = || u64::try_from(value.clone()).map(Value::from).map_err(|_| format!("an integer beyond 64 bits, {value}"));
            value.as_i64().map_or_else(unsigned, |i| Ok(Value::from(i)))?
        }
        ValueKind::Number => {
            let f = f64::try_from(value.clone()).map_err(|_| format!("{value}, which is not a number"))?;
            serde_json::Number::from_f64(f).map(Value::Number).ok_or_else(|| format!("{f}, which is not a finite number"))?
        }
        ValueKind::String => Value::String(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| error.to_string())?;
            Value::Array(items.map(|item| from_minijinja(&item)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let item = value.get_item(&key).map_err(|error| error.to_string())?;
                map.insert(key.to_string(), from_minijinja(&item)?);
            }
            Value::Object(map)
        }
        other => return Err(format!("a value of type {other}, which a parameter cannot have")),
    })
}
