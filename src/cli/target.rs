//! Names of stages as they are typed: `run`, `run[algorithm=ditto]`, `run[algorithm=ditto, seed=0]`.
//!
//! Coordinates that are left out match any value, so a name may mean several stages.

use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::{NodeId, Plan};
use crate::spec::node::short;
use std::collections::BTreeSet;

/// A stage with some of its coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    text: String,
    stage: String,
    coords: Vec<(String, String)>,
    /// Whether the brackets, and each coordinate in them, are as they should be.
    regular: bool,
}

impl Target {
    /// Reads a name. Any text is one; a misspelled one matches nothing.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        let (stage, inside) = match text.split_once('[') {
            Some((stage, rest)) => (stage.trim(), rest.trim_end().strip_suffix(']').unwrap_or(rest)),
            None => (text, ""),
        };
        let parts: Vec<&str> = split(inside).into_iter().map(str::trim).filter(|part| !part.is_empty()).collect();
        let regular = text.contains('[') == text.ends_with(']') && parts.iter().all(|part| part.contains('='));
        let coords = parts
            .into_iter()
            .map(|part| part.split_once('=').map_or((part.trim(), ""), |(axis, value)| (axis.trim(), value.trim())))
            .filter(|(axis, _)| !axis.is_empty())
            .map(|(axis, value)| (axis.to_owned(), plain(value)))
            .collect();
        Self { text: text.to_owned(), stage: stage.to_owned(), coords, regular }
    }

    /// Whether a label such as `run[algorithm=ditto, seed=0]` names a stage that is meant.
    pub(super) fn matches(&self, label: &str) -> bool {
        let other = Self::parse(label);
        self.stage == other.stage && self.coords.iter().all(|pair| other.coords.contains(pair))
    }

    /// The nodes that are meant, in the order of the plan.
    ///
    /// # Errors
    /// A usage fault when there is none, with the nearest stage or the axes and values that the stage has.
    pub(super) fn find(&self, plan: &Plan) -> Outcome<Vec<NodeId>> {
        if !self.regular {
            return Err(Fault::usage(format!("`{}` does not name a stage", self.text))
                .help("write `STAGE`, or `STAGE[AXIS=VALUE, ...]` as `plan` shows it"));
        }
        let found: Vec<NodeId> = plan
            .order()
            .filter(|id| {
                let node = plan.node(*id);
                let has = |(axis, value): &(String, String)| node.coords.get(axis).is_some_and(|v| plain(&short(v)) == *value);
                *node.stage == *self.stage && self.coords.iter().all(has)
            })
            .collect();
        if found.is_empty() { Err(self.unknown(plan)) } else { Ok(found) }
    }

    fn unknown(&self, plan: &Plan) -> Fault {
        let names: Vec<&str> = plan.stages().iter().map(|name| &**name).collect();
        if !names.contains(&self.stage.as_str()) {
            let help = match nearest(&self.stage, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the stages are {}", quoted(names)),
            };
            return Fault::usage(format!("`{}` is not a stage of the pipeline", self.stage)).help(help);
        }
        let nodes = || plan.nodes.iter().filter(|node| *node.stage == *self.stage);
        let axes: BTreeSet<&str> = nodes().flat_map(|node| node.coords.keys().map(String::as_str)).collect();
        let fault = Fault::usage(format!("no stage is called `{}`", self.text));
        if let Some((axis, _)) = self.coords.iter().find(|(axis, _)| !axes.contains(axis.as_str())) {
            return fault.help(match axes.len() {
                0 => format!("`{}` reads no axis; leave the coordinates out", self.stage),
                _ => format!("`{}` does not read `{axis}`; its axes are {}", self.stage, quoted(axes)),
            });
        }
        for (axis, value) in &self.coords {
            let values: BTreeSet<String> = nodes().filter_map(|node| node.coords.get(axis)).map(short).collect();
            if !values.iter().any(|v| plain(v) == *value) {
                let shown: Vec<&str> = values.iter().take(12).map(String::as_str).collect();
                return fault.help(format!("`{axis}` is one of {}", quoted(shown)));
            }
        }
        fault.help("these values do not occur together in the sweep")
    }
}

/// Splits at the commas that stand in no brackets: a value may be `ditto(mu=0.1, steps=2)`.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// A value without blanks and quotes, and numbers in one spelling: `0.10` is `0.1`.
fn plain(value: &str) -> String {
    let bare: String = value.trim_matches(['"', '\'']).chars().filter(|c| !c.is_whitespace()).collect();
    match bare.parse::<f64>() {
        Ok(number) if number.is_finite() => number.to_string(),
        _ => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_coordinates_match_any_value() {
        let label = "run[algorithm=ditto(mu=0.1, steps=2), alpha=0.1, seed=0]";
        for text in ["run", "run[]", "run[seed=0]", "run[ alpha = 0.10 ]", "run[algorithm=ditto(mu=0.1,steps=2)]", label] {
            assert!(Target::parse(text).matches(label), "{text}");
        }
        for text in ["split", "run[seed=1]", "run[beta=0]", "run[algorithm=ditto]", "run[seed"] {
            assert!(!Target::parse(text).matches(label), "{text}");
        }
        for text in ["run[", "run[seed=0", "run]", "run[seed]", "run[seed=0, ditto]"] {
            assert!(!Target::parse(text).regular, "{text}");
        }
    }
}
