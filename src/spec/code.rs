//! Trees of values with expressions in their text: compiled once, evaluated for each combination of axes.
//!
//! Knows where expressions begin and end; what they mean is [`super::expr`]'s business.

use super::diagnostic::{Diagnostic, Problems};
use super::expr::{Engine, Failure, Names, Program, Scope};
use super::node::{Data, Key, Node, Place};
use serde_json::Value;
use std::collections::BTreeSet;

/// A tree of values in which text with `{{ }}` is compiled.
pub enum Code<'e> {
    /// No expression in it.
    Const(Node),
    /// A value that is only one expression; it keeps its type.
    Expr(Program<'e>),
    /// Text with expressions in it.
    Text(Place, Vec<Piece<'e>>),
    /// A list.
    List(Place, Vec<Code<'e>>),
    /// A map.
    Map(Place, Vec<(Key, Code<'e>)>),
}

/// A part of a text.
pub enum Piece<'e> {
    /// As it stands.
    Text(String),
    /// The text of a value.
    Expr(Program<'e>),
}

impl<'e> Code<'e> {
    /// Compiles all expressions of a tree; what cannot be compiled is reported and becomes a hole.
    pub fn compile(engine: &'e Engine, node: &Node, names: &dyn Names, problems: &mut Problems) -> Self {
        match &node.data {
            Data::Scalar(Value::String(text)) if text.contains("{{") || text.contains("{%") => {
                Self::compile_text(engine, text, node.place, names).unwrap_or_else(|problem| {
                    problems.push(*problem);
                    Self::Const(Node::hole(node.place))
                })
            }
            Data::Scalar(_) | Data::Hole => Self::Const(node.clone()),
            Data::List(items) => {
                let items: Vec<Self> = items.iter().map(|item| Self::compile(engine, item, names, problems)).collect();
                if items.iter().all(|item| matches!(item, Self::Const(_))) {
                    Self::constant(items, node)
                } else {
                    Self::List(node.place, items)
                }
            }
            Data::Map(entries) => {
                let entries: Vec<(Key, Self)> =
                    entries.iter().map(|(key, value)| (key.clone(), Self::compile(engine, value, names, problems))).collect();
                Self::Map(node.place, entries)
            }
        }
    }
    // Holes must survive, so the compiled items are kept rather than the original.
    fn constant(items: Vec<Self>, node: &Node) -> Self {
        let items = items.into_iter().filter_map(|item| if let Self::Const(node) = item { Some(node) } else { None }).collect();
        Self::Const(Node { place: node.place, data: Data::List(items) })
    }
    fn compile_text(engine: &'e Engine, text: &str, place: Place, names: &dyn Names) -> Result<Self, Box<Diagnostic>> {
        let pieces = split(text).map_err(|message| Box::new(Diagnostic::error("expression", message).at(place)))?;
        if let [Raw::Expr(source)] = pieces.as_slice() {
            return Ok(Self::Expr(Program::compile(engine, source, place, names)?));
        }
        let pieces = pieces
            .into_iter()
            .map(|piece| match piece {
                Raw::Text(text) => Ok(Piece::Text(text)),
                Raw::Expr(source) => Program::compile(engine, &source, place, names).map(Piece::Expr),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Text(place, pieces))
    }
    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Const(node) => node.place,
            Self::Expr(program) => program.place(),
            Self::Text(place, _) | Self::List(place, _) | Self::Map(place, _) => *place,
        }
    }
    /// Adds the names that it reads.
    pub fn names(&self, into: &mut BTreeSet<String>) {
        match self {
            Self::Const(_) => {}
            Self::Expr(program) => into.extend(program.names().iter().cloned()),
            Self::Text(_, pieces) => {
                for piece in pieces {
                    if let Piece::Expr(program) = piece {
                        into.extend(program.names().iter().cloned());
                    }
                }
            }
            Self::List(_, items) => items.iter().for_each(|item| item.names(into)),
            Self::Map(_, entries) => entries.iter().for_each(|(_, value)| value.names(into)),
        }
    }
    /// The value; what has none is reported and becomes a hole.
    pub fn eval(&self, scope: &Scope<'_>, problems: &mut Problems) -> Node {
        let mut fail = |place, failure| {
            match failure {
                Failure::Undefined(problem) | Failure::Wrong(problem) => problems.push(*problem),
                Failure::Reported => {}
            }
            Node::hole(place)
        };
        match self {
            Self::Const(node) => node.clone(),
            Self::Expr(program) => program.eval(scope).unwrap_or_else(|failure| fail(program.place(), failure)),
            Self::Text(place, pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(part) => text.push_str(part),
                        Piece::Expr(program) => match program.print(scope) {
                            Ok(part) => text.push_str(&part),
                            Err(failure) => return fail(*place, failure),
                        },
                    }
                }
                Node::scalar(*place, Value::String(text))
            }
            Self::List(place, items) => {
                Node { place: *place, data: Data::List(items.iter().map(|item| item.eval(scope, problems)).collect()) }
            }
            Self::Map(place, entries) => Node {
                place: *place,
                data: Data::Map(entries.iter().map(|(key, value)| (key.clone(), value.eval(scope, problems))).collect()),
            },
        }
    }
}

enum Raw {
    Text(String),
    Expr(String),
}

/// Splits text at `{{ }}`, minding quotes and braces inside the expressions.
fn split(text: &str) -> Result<Vec<Raw>, String> {
    if text.contains("{%") {
        return Err("`{% %}` is not understood here; only `{{ }}` is".to_owned());
    }
    let whole = text.trim();
    let mut pieces = Vec::new();
    // Spaces around a single expression do not make it text.
    let mut rest = if whole.starts_with("{{") && expression_end(whole).is_some_and(|end| end == whole.len()) { whole } else { text };
    while let Some(start) = rest.find("{{") {
        if start > 0 {
            pieces.push(Raw::Text(rest[..start].to_owned()));
        }
        rest = &rest[start..];
        let end = expression_end(rest).ok_or("an expression opened with `{{` is not closed with `}}`")?;
        pieces.push(Raw::Expr(rest[2..end - 2].to_owned()));
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        pieces.push(Raw::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// The byte after the `}}` that closes the `{{` at the start.
fn expression_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut i, mut depth, mut quote) = (2, 0usize, None);
    while i < bytes.len() {
        match (quote, bytes[i]) {
            (Some(_), b'\\') => i += 1,
            (Some(q), b) if b == q => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(bytes[i]),
            (None, b'{') => depth += 1,
            (None, b'}') if depth > 0 => depth -= 1,
            (None, b'}') if bytes.get(i + 1) == Some(&b'}') => return Some(i + 2),
            _ => {}
        }
        i += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::expr::Bound;
    use serde_json::json;
    use std::sync::Arc;

    const HERE: Place = Place { source: 0, item: 0 };

    fn eval(text: &str, values: &[(&str, Value)]) -> Result<Value, String> {
        let engine = Engine::default();
        let names: BTreeSet<String> = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut scope = Scope::default();
        for (name, value) in values {
            scope.bound.insert(name, Arc::new(Bound::new(Node::from_value(HERE, value.clone()), true)));
        }
        let mut problems = Problems::default();
        let code = Code::compile(&engine, &Node::scalar(HERE, json!(text)), &names, &mut problems);
        let value = code.eval(&scope, &mut problems).to_value();
        problems.into_items().first().map_or(Ok(value), |problem| Err(problem.message.clone()))
    }

    #[test]
    fn one_expression_keeps_its_type_and_text_around_it_does_not() {
        let a = [("a", json!(0.5)), ("l", json!([1, 2]))];
        assert_eq!(eval("{{ a }}", &a), Ok(json!(0.5)));
        assert_eq!(eval(" {{ a * 2 }} ", &a), Ok(json!(1.0)));
        assert_eq!(eval("x-{{ a }}-{{ l[0] }}", &a), Ok(json!("x-0.5-1")));
        assert_eq!(eval("{{ l }}", &a), Ok(json!([1, 2])));
        assert_eq!(eval("{{ {'k': {'a': a}} }}", &a), Ok(json!({"k": {"a": 0.5}})));
        assert_eq!(eval("{{ '}}' }}", &a), Ok(json!("}}")));
        assert_eq!(eval("{{ l | length + 1 }}", &a), Ok(json!(3)));
        assert_eq!(eval("{{ l[0:1] }}", &a), Ok(json!([1])));
        assert_eq!(eval("{{ (l | default([7, 8]))[1:] }}", &a), Ok(json!([2])));
        assert_eq!(eval("{{ 'a: [l]'[0:3] }}", &[]), Ok(json!("a: ")));
    }

    #[test]
    fn named_maps_compare_by_name_and_keep_their_parameters() {
        let values = [("algorithm", json!({"name": "ditto", "mu": 0.1})), ("other", json!("fedavg"))];
        for (text, expected) in [
            ("{{ algorithm == 'ditto' }}", json!(true)),
            ("{{ 'ditto' != algorithm }}", json!(false)),
            ("{{ algorithm in ['ditto', 'gpfl'] }}", json!(true)),
            ("{{ algorithm not in ['gpfl'] }}", json!(true)),
            ("{{ algorithm.name == \"ditto\" and algorithm.mu == 0.1 }}", json!(true)),
            ("{{ algorithm['mu'] }}", json!(0.1)),
            ("{{ other.name == 'fedavg' }}", json!(true)),
            ("{{ algorithm if other == 'fedavg' else other }}", json!({"name": "ditto", "mu": 0.1})),
            ("{{ other if other == 'fedavg' else algorithm }}", json!("fedavg")),
            ("with {{ algorithm }}", json!("with ditto")),
            ("{{ 'algorithm == x' }}", json!("algorithm == x")),
        ] {
            assert_eq!(eval(text, &values), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_name_the_cause() {
        let a = [("alpha", json!(0.5))];
        assert_eq!(eval("{{ alhpa }}", &a), Err("`alhpa` is neither a variable nor an axis".to_owned()));
        assert!(eval("{{ alpha + }}", &a).expect_err("syntax").starts_with("`alpha +` is not an expression"));
        assert!(eval("{{ alpha", &a).expect_err("open").contains("not closed"));
        assert!(eval("{% if alpha %}", &a).expect_err("statement").contains("only `{{ }}`"));
        assert!(eval("{{ alpha | foo }}", &a).expect_err("filter").contains("foo"));
        assert!(eval("{{ alpha + 'x' }}", &a).is_err());
        assert!(eval("{{ }}", &a).is_err());
    }
}
