//! YAML text to [`Node`]s, and the way back from a node to its line and column. The only file that names serde_yaml.
//!
//! serde_yaml keeps no positions, but attaches one to any error raised while a node is read. So the builder counts the nodes it
//! meets, and a second pass that fails on purpose at node `n` yields the position of node `n`. One parser, hence one truth.

use super::diagnostic::{At, Diagnostic};
use super::node::{Data, Key, Node, Place};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::fmt;

/// Reads one document. `Err` when the text is not YAML; duplicate keys and the like come beside the node.
///
/// # Errors
/// The syntax error, explained, with its position.
pub fn parse(text: &str, source: u16) -> Result<(Node, Vec<Diagnostic>), Box<Diagnostic>> {
    let state = State { source, next: Cell::new(0), fail_at: None, problems: RefCell::default() };
    match Build(&state).deserialize(serde_yaml::Deserializer::from_str(text)) {
        Ok(mut node) => {
            let mut problems = state.problems.into_inner();
            merge_keys(&mut node, &mut problems);
            Ok((node, problems))
        }
        Err(error) => Err(Box::new(explain(&error, text, source))),
    }
}

/// The byte offset of the node of that number, or `None` when there is none.
#[must_use]
pub fn locate(text: &str, item: u32) -> Option<usize> {
    let state = State { source: 0, next: Cell::new(0), fail_at: Some(item), problems: RefCell::default() };
    let error = Build(&state).deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    Some(byte_offset(text, error.location()?.index()))
}

// The index counts bytes, but may lie inside a character when the text is cut off.
fn byte_offset(text: &str, index: usize) -> usize {
    let mut byte = index.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

struct State {
    source: u16,
    next: Cell<u32>,
    fail_at: Option<u32>,
    problems: RefCell<Vec<Diagnostic>>,
}

impl State {
    fn enter<E: de::Error>(&self) -> Result<Place, E> {
        let item = self.next.get();
        self.next.set(item + 1);
        if self.fail_at == Some(item) { Err(E::custom("here")) } else { Ok(Place { source: self.source, item }) }
    }
    fn scalar<E: de::Error>(&self, value: Value) -> Result<Node, E> {
        Ok(Node::scalar(self.enter()?, value))
    }
}

#[derive(Clone, Copy)]
struct Build<'a>(&'a State);

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_> {
    type Value = Node;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML without tags")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        self.0.scalar(Value::Null)
    }
    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        self.0.scalar(Value::Null)
    }
    fn visit_bool<E: de::Error>(self, v: bool) -> Result<Node, E> {
        self.0.scalar(Value::Bool(v))
    }
    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Node, E> {
        self.0.scalar(v.into())
    }
    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Node, E> {
        self.0.scalar(v.into())
    }
    // Integers beyond 64 bits stay text, so that the check names them instead of rounding them.
    fn visit_i128<E: de::Error>(self, v: i128) -> Result<Node, E> {
        self.0.scalar(Value::String(v.to_string()))
    }
    fn visit_u128<E: de::Error>(self, v: u128) -> Result<Node, E> {
        self.0.scalar(Value::String(v.to_string()))
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Node, E> {
        // JSON has no infinity and no NaN: they stay text and are refused where a number is expected.
        let value = serde_json::Number::from_f64(v).map_or_else(|| Value::String(v.to_string()), Value::Number);
        self.0.scalar(value)
    }
    fn visit_str<E: de::Error>(self, v: &str) -> Result<Node, E> {
        self.0.scalar(Value::String(v.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let place = self.0.enter()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Node { place, data: Data::List(items) })
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let place = self.0.enter()?;
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen: std::collections::HashMap<std::sync::Arc<str>, Place> = std::collections::HashMap::new();
        let mut complex: Option<Node> = None;
        let mut refused = false;
        while let Some(key) = access.next_key_seed(self)? {
            let value = access.next_value_seed(self)?;
            let text: std::sync::Arc<str> = match &key.data {
                Data::Scalar(Value::String(text)) => text.as_str().into(),
                Data::Scalar(other) => other.to_string().into(),
                _ => {
                    // `{{ alpha }}` without quotes is YAML for a map whose key is a map.
                    let simple = unquoted(&key).filter(|_| value.is_null());
                    match simple {
                        Some(source) if entries.is_empty() && complex.is_none() => {
                            complex = Some(Node::scalar(place, Value::String(format!("{{{{ {source} }}}}"))));
                        }
                        _ => {
                            refused = true;
                            self.0.problems.borrow_mut().push(complex_key(key.place));
                        }
                    }
                    continue;
                }
            };
            if let Some(first) = seen.get(&text) {
                self.0.problems.borrow_mut().push(
                    Diagnostic::error("duplicate-key", format!("the key `{text}` is there twice"))
                        .at(key.place)
                        .label("again here")
                        .also(At::Place(*first), "first here")
                        .help("remove one of the two"),
                );
                continue;
            }
            seen.insert(text.clone(), key.place);
            entries.push((Key { place: key.place, text }, value));
        }
        match complex {
            Some(node) if entries.is_empty() => Ok(node),
            Some(node) => {
                self.0.problems.borrow_mut().push(complex_key(node.place));
                Ok(Node { place, data: Data::Map(entries) })
            }
            None if refused && entries.iter().all(|(_, value)| value.is_null()) => Ok(Node::hole(place)),
            None => Ok(Node { place, data: Data::Map(entries) }),
        }
    }
}

/// The expression of the inner map of an unquoted `{{ alpha }}`: one plain key without a value.
fn unquoted(key: &Node) -> Option<String> {
    match key.entries()? {
        [(inner, value)] if value.is_null() => Some(inner.text.to_string()),
        _ => None,
    }
}

fn complex_key(place: Place) -> Diagnostic {
    Diagnostic::error("unquoted-expression", "a map or a list stands where a key belongs")
        .at(place)
        .help("if this is an expression, quote it: \"{{ ... }}\"")
}

/// Replaces `<<: *anchor` by the entries of the anchor; entries beside it win.
fn merge_keys(node: &mut Node, problems: &mut Vec<Diagnostic>) {
    match &mut node.data {
        Data::Scalar(_) | Data::Hole => {}
        Data::List(items) => items.iter_mut().for_each(|item| merge_keys(item, problems)),
        Data::Map(entries) => {
            entries.iter_mut().for_each(|(_, value)| merge_keys(value, problems));
            let Some(index) = entries.iter().position(|(key, _)| &*key.text == "<<") else { return };
            let (key, merged) = entries.remove(index);
            let maps = match merged.data {
                Data::Map(map) => vec![map],
                Data::List(items) if items.iter().all(|item| item.entries().is_some()) => {
                    items.into_iter().filter_map(|item| if let Data::Map(map) = item.data { Some(map) } else { None }).collect()
                }
                _ => {
                    problems.push(Diagnostic::error("merge-key", "`<<` merges a map or a list of maps").at(key.place));
                    return;
                }
            };
            for (key, value) in maps.into_iter().flatten() {
                if !entries.iter().any(|(own, _)| own.text == key.text) {
                    entries.push((key, value));
                }
            }
        }
    }
}

/// Whether `{{` stands in the line outside of quotes.
fn has_bare_expression(line: &str) -> bool {
    let mut quote = None;
    line.char_indices().any(|(i, c)| {
        match quote {
            Some(q) if q == c => quote = None,
            Some(_) => {}
            // An apostrophe inside a word opens nothing.
            None if matches!(c, '"' | '\'') && !line[..i].ends_with(char::is_alphanumeric) => quote = Some(c),
            None => return line[i..].starts_with("{{"),
        }
        false
    })
}

/// A syntax error in words that say what to do.
fn explain(error: &serde_yaml::Error, text: &str, source: u16) -> Diagnostic {
    let raw = error.to_string();
    let offset = error.location().map_or(0, |l| byte_offset(text, l.index()));
    let line_start = text[..offset].rfind('\n').map_or(0, |n| n + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    // The parser often notices a broken expression only on the line after it.
    let previous = text[..line_start.saturating_sub(1)].lines().last().unwrap_or("");
    let at = At::Offset { source, offset };
    let problem = raw.split(" at line ").next().unwrap_or(&raw).to_owned();
    let say = |code, message: &str, help: &str| Diagnostic::error(code, message).at(at).help(help);

    if raw.contains("repetition limit") {
        return say("yaml-aliases", "the anchors repeat too much text", "write the values out, or use `extends` and `defaults`");
    }
    if raw.contains("recursion limit") {
        return say(
            "yaml-depth",
            "the maps and lists are nested too deeply",
            "a pipeline needs fewer than ten levels, and no anchor may contain itself",
        );
    }
    if raw.contains("more than one document") {
        return say(
            "yaml-documents",
            "the file holds more than one document",
            "remove the line `---` and what follows, or put it in a file of its own",
        );
    }
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    if indent.contains('\t') {
        let at = At::Offset { source, offset: line_start + indent.find('\t').unwrap_or(0) };
        return Diagnostic::error("yaml-tab", "a tab indents this line").at(at).help("YAML allows only spaces for indentation");
    }
    if raw.contains("plain YAML without tags") {
        return say("yaml-tag", "a tag such as `!name` stands here", "remove the tag; if the text begins with `!`, quote it");
    }
    if raw.contains("unknown anchor") {
        return say(
            "yaml-anchor",
            "this refers to an anchor that is not defined above",
            "define it with `&name`; if the text begins with `*`, quote it",
        );
    }
    if has_bare_expression(line) || has_bare_expression(previous) {
        return say("unquoted-expression", "an expression in braces is not quoted", "quote the whole value: \"{{ ... }}\"");
    }
    if problem.contains("mapping values are not allowed") {
        return say("yaml-syntax", "`:` is not allowed here", "check the indentation, or quote a text that contains `: `");
    }
    if problem.contains("unexpected end of stream") {
        return say("yaml-syntax", "the text ends inside a quotation or a bracket", "close it");
    }
    if problem.contains("could not find expected ':'") {
        return say("yaml-syntax", "a key without `:` stands here", "write `key: value`");
    }
    if problem.contains("unexpected ':'") {
        return say("yaml-syntax", "this `:` belongs to nothing", "write a space and a value after the `:` of a key, or quote the text");
    }
    if problem.contains("cannot start any token") {
        return say("yaml-syntax", "this character cannot begin a value", "quote the value");
    }
    say("yaml-syntax", &problem, "check the indentation and the brackets around this place")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        parse(text, 0).expect("valid").0.to_value()
    }

    #[test]
    fn an_unquoted_expression_is_understood() {
        assert_eq!(value("a: {{ alpha }}"), json!({"a": "{{ alpha }}"}));
        assert_eq!(value("{a: {{ alpha * 2 }}, b: 1}"), json!({"a": "{{ alpha * 2 }}", "b": 1}));
        let (_, problems) = parse("a: {{ x, y }}", 0).expect("valid YAML");
        assert_eq!(problems[0].code, "unquoted-expression");
    }

    #[test]
    fn every_node_is_found_again() {
        let text = "é: [1, {b: two}]\nc: &x {d: 3}\ne: *x\n";
        let (node, _) = parse(text, 0).expect("valid");
        let two = node.get("é").and_then(|l| l.items()?[1].get("b")).expect("there");
        let offset = locate(text, two.place.item).expect("there");
        assert!(text[offset..].starts_with("two"));
        let d = &node.get("e").expect("alias").entries().expect("map")[0].0;
        assert!(text[locate(text, d.place.item).expect("there")..].starts_with("d: 3"));
    }

    #[test]
    fn merge_keys_and_numbers() {
        assert_eq!(value("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}"), json!({"a": {"x": 1, "y": 2}, "b": {"y": 3, "x": 1}}));
        assert_eq!(value("[1e-5, .5, 010, 1_0, yes, 0x10]"), json!([1e-5, 0.5, "010", "1_0", "yes", 16]));
    }

    #[test]
    fn syntax_errors_are_explained() {
        for (text, code) in [
            ("a:\n\tb: 1", "yaml-tab"),
            ("a: {{ x }}-y\nb: 1", "unquoted-expression"),
            ("a: !tag x", "yaml-tag"),
            ("a: *x", "yaml-anchor"),
            ("a: 'x", "yaml-syntax"),
            ("a: 1\n---\nb: 2", "yaml-documents"),
            ("a: b: c", "yaml-syntax"),
        ] {
            assert_eq!(parse(text, 0).expect_err(text).code, code, "{text}");
        }
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for i in 1..9 {
            bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
        }
        assert_eq!(parse(&bomb, 0).expect_err("bomb").code, "yaml-aliases");
    }
}
