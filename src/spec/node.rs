//! A YAML value in which every key and value remembers its place in the text.
//!
//! Values that an expression or a default brought carry the place of the text that brought them.

use serde_json::{Map, Value};
use std::sync::Arc;

/// Where a node stands: the source, and the number of the node in the order in which the parser meets them.
///
/// A line and column are found from it only when a message needs them ([`super::source::Sources::locate`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index into the sources.
    pub source: u16,
    /// Number of the node within its source.
    pub item: u32,
}

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub data: Data,
}

/// The content of a [`Node`].
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Null, a truth value, a number or text; never a list or a map.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the text, without duplicates.
    Map(Vec<(Key, Node)>),
    /// A value that could not be worked out; the reason is already reported, so it is checked no further.
    Hole,
}

/// A key with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Where it stands.
    pub place: Place,
    /// The key.
    pub text: Arc<str>,
}

impl Node {
    /// A node without children.
    #[must_use]
    pub fn scalar(place: Place, value: Value) -> Self {
        Self { place, data: Data::Scalar(value) }
    }
    /// The same value at one place throughout.
    #[must_use]
    pub fn from_value(place: Place, value: Value) -> Self {
        let data = match value {
            Value::Array(items) => Data::List(items.into_iter().map(|item| Self::from_value(place, item)).collect()),
            Value::Object(map) => {
                Data::Map(map.into_iter().map(|(key, value)| (Key { place, text: key.into() }, Self::from_value(place, value))).collect())
            }
            scalar => Data::Scalar(scalar),
        };
        Self { place, data }
    }
    /// The value without places.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::Hole => Value::Null,
            Data::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Data::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.text.to_string(), node.to_value())).collect::<Map<_, _>>())
            }
        }
    }
    /// A value that could not be worked out.
    #[must_use]
    pub fn hole(place: Place) -> Self {
        Self { place, data: Data::Hole }
    }
    /// Whether it is a [`Data::Hole`].
    #[must_use]
    pub fn is_hole(&self) -> bool {
        matches!(self.data, Data::Hole)
    }
    /// Whether it or a part of it is a [`Data::Hole`].
    #[must_use]
    pub fn has_hole(&self) -> bool {
        match &self.data {
            Data::Hole => true,
            Data::Scalar(_) => false,
            Data::List(items) => items.iter().any(Self::has_hole),
            Data::Map(entries) => entries.iter().any(|(_, node)| node.has_hole()),
        }
    }
    /// The text, when it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }
    /// Whether it is null.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Scalar(Value::Null))
    }
    /// The entries, when it is a map.
    #[must_use]
    pub fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.data {
            Data::Map(entries) => Some(entries),
            _ => None,
        }
    }
    /// The items, when it is a list.
    #[must_use]
    pub fn items(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(items) => Some(items),
            _ => None,
        }
    }
    /// The texts of a list with their places, or a single one, when it is nothing else.
    #[must_use]
    pub fn texts(&self) -> Option<Vec<(String, Place)>> {
        match self.items() {
            Some(items) => items.iter().map(|item| Some((item.text()?.to_owned(), item.place))).collect(),
            None => Some(vec![(self.text()?.to_owned(), self.place)]),
        }
    }
    /// The value of a key, when it is a map that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.iter().find(|(key, _)| &*key.text == name).map(|(_, node)| node)
    }
    /// Removes and returns the value of a key.
    pub fn take(&mut self, name: &str) -> Option<(Key, Node)> {
        let Data::Map(entries) = &mut self.data else { return None };
        let index = entries.iter().position(|(key, _)| &*key.text == name)?;
        Some(entries.remove(index))
    }
    /// What it is, for messages: ``text `abc` ``, `the number 3`, `a list`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.data {
            Data::Scalar(Value::Null) | Data::Hole => "nothing".to_owned(),
            Data::Scalar(Value::Bool(b)) => format!("`{b}`"),
            Data::Scalar(Value::String(text)) if is_huge(text) => format!("the number {text}, which is too large"),
            // What a number beyond the range of floats becomes, such as 1e400.
            Data::Scalar(Value::String(text)) if ["inf", "-inf", "NaN"].contains(&text.as_str()) => {
                format!("a number that is not finite (`{text}`)")
            }
            Data::Scalar(Value::String(text)) if text.chars().count() > 60 => {
                format!("text `{}...`", text.chars().take(57).collect::<String>())
            }
            Data::Scalar(Value::String(text)) => format!("text `{text}`"),
            Data::Scalar(number) => format!("the number {number}"),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a map".to_owned(),
        }
    }
}

/// Whether a text is a whole number beyond 64 bits, or a number beyond the range of floats: these are kept as text.
#[must_use]
pub fn is_huge(text: &str) -> bool {
    if text.bytes().any(|b| b.is_ascii_digit()) && text.parse::<f64>().is_ok_and(f64::is_infinite) {
        return true;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() >= 19 && digits.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_err() && text.parse::<i64>().is_err()
}

/// A value as short as a label needs it: text bare, a named map as `ditto(mu=0.1)`, other maps as `{a=1}`.
#[must_use]
pub fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(short).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let tag = name_of(map);
            let rest: Vec<String> = map
                .iter()
                .filter(|(key, _)| tag.is_none_or(|(tag, _)| tag != key.as_str()))
                .map(|(key, value)| format!("{key}={}", short(value)))
                .collect();
            match (tag, rest.is_empty()) {
                (Some((_, name)), true) => name.to_owned(),
                (Some((_, name)), false) => format!("{name}({})", rest.join(", ")),
                (None, _) => format!("{{{}}}", rest.join(", ")),
            }
        }
        // `1e6` is read as a number with a point, and nobody writes 1000000.0.
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(whole) if whole.fract() == 0.0 && (1e5..1e15).contains(&whole.abs()) => format!("{whole:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// The key and text by which a map is called: its `name`, else its `kind`.
#[must_use]
pub fn name_of(map: &Map<String, Value>) -> Option<(&str, &str)> {
    ["name", "kind"].iter().find_map(|key| Some((*key, map.get(*key)?.as_str()?)))
}

/// Whether two values are equal when `1` and `1.0` are the same number.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => match (x.as_i64(), y.as_i64()) {
            (Some(x), Some(y)) => x == y,
            _ => x.as_f64() == y.as_f64(),
        },
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y))),
        _ => a == b,
    }
}

/// Whether a value answers to what a condition names: it is the same, or it is a map of that name.
#[must_use]
pub fn answers_to(value: &Value, wanted: &Value) -> bool {
    same(value, wanted)
        || match (value, wanted) {
            (Value::Object(map), Value::String(text)) => name_of(map).is_some_and(|(_, name)| name == text),
            (Value::String(text), Value::Object(map)) => map.len() == 1 && name_of(map).is_some_and(|(_, name)| name == text),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_short_and_numbers_equal_across_types() {
        assert_eq!(short(&json!({"name": "ditto", "mu": 0.1})), "ditto(mu=0.1)");
        assert_eq!(short(&json!({"name": "ditto"})), "ditto");
        assert_eq!(short(&json!([1, "a"])), "[1, a]");
        assert_eq!(
            [json!(1e6), json!(-2.5e5), json!(0.5), json!(1.0), json!(7)].map(|n| short(&n)),
            ["1000000", "-250000", "0.5", "1.0", "7"]
        );
        assert!(same(&json!({"a": 1}), &json!({"a": 1.0})));
        assert!(answers_to(&json!({"name": "ditto", "mu": 1}), &json!("ditto")));
        assert!(!answers_to(&json!({"name": "ditto", "mu": 1}), &json!({"name": "ditto"})));
    }
}
