//! The graph as text: Graphviz dot, Mermaid, JSON; one node a stage, or all nodes.

use super::expand::{Node, Plan};
use crate::base::text::count;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A form of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Graphviz.
    Dot,
    /// Mermaid, as Markdown viewers draw it.
    Mermaid,
    /// `{nodes: [{id, stage, kind, ...}], edges: [{from, to, slot}]}`.
    Json,
}

struct Drawing {
    nodes: Vec<(String, Value)>,
    edges: BTreeSet<(usize, usize, String)>,
}

impl Plan {
    /// The graph. `full` draws every node; otherwise the sweep is folded into one node a stage.
    #[must_use]
    pub fn export(&self, format: Format, full: bool) -> String {
        let drawing = if full { self.full() } else { self.collapsed() };
        match format {
            Format::Dot => dot(&self.pipeline, &drawing),
            Format::Mermaid => mermaid(&drawing),
            Format::Json => as_json(&self.pipeline, &drawing),
        }
    }

    fn full(&self) -> Drawing {
        let describe = |node: &Node| (node.label(), json!({"stage": &*node.stage, "kind": node.kind, "coords": node.coords}));
        let mut edges = BTreeSet::new();
        for id in self.order() {
            edges.extend(self.node(id).inputs.iter().map(|input| (input.node.index(), id.index(), input.slot.to_string())));
        }
        Drawing { nodes: self.nodes.iter().map(describe).collect(), edges }
    }

    fn collapsed(&self) -> Drawing {
        let stage_of = |node: &Node| self.stages().iter().position(|name| *name == node.stage).unwrap_or(0);
        let mut counts = vec![0usize; self.stages().len()];
        let mut kinds = vec![""; self.stages().len()];
        let mut edges = BTreeSet::new();
        for node in &self.nodes {
            let stage = stage_of(node);
            counts[stage] += 1;
            kinds[stage] = node.kind;
            for input in &node.inputs {
                edges.insert((stage_of(self.node(input.node)), stage, input.slot.to_string()));
            }
        }
        let nodes = self.stages().iter().zip(counts).zip(kinds).map(|((name, n), kind)| {
            let label = if n == 1 { format!("{name}\n{kind}") } else { format!("{name}\n{kind}, {}", count(n, "node")) };
            (label, json!({"stage": &**name, "kind": kind, "nodes": n}))
        });
        Drawing { nodes: nodes.collect(), edges }
    }
}

fn dot(name: &str, drawing: &Drawing) -> String {
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut out = format!("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n", quote(name));
    for (id, (label, _)) in drawing.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{id} [label=\"{}\"];", quote(label));
    }
    for (from, to, slot) in &drawing.edges {
        let _ = writeln!(out, "  n{from} -> n{to} [label=\"{}\"];", quote(slot));
    }
    out.push_str("}\n");
    out
}

fn mermaid(drawing: &Drawing) -> String {
    let quote = |text: &str| text.replace('"', "#quot;").replace('\n', "<br/>");
    let mut out = String::from("flowchart LR\n");
    for (id, (label, _)) in drawing.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{id}[\"{}\"]", quote(label));
    }
    for (from, to, slot) in &drawing.edges {
        let _ = writeln!(out, "  n{from} -->|\"{}\"| n{to}", quote(slot));
    }
    out
}

fn as_json(name: &str, drawing: &Drawing) -> String {
    let nodes: Vec<Value> = drawing
        .nodes
        .iter()
        .enumerate()
        .map(|(id, (label, value))| {
            let mut node = value.clone();
            node["id"] = id.into();
            node["label"] = label.replace('\n', " ").into();
            node
        })
        .collect();
    let edges: Vec<Value> = drawing.edges.iter().map(|(from, to, slot)| json!({"from": from, "to": to, "slot": slot})).collect();
    let mut out = serde_json::to_string_pretty(&json!({"pipeline": name, "nodes": nodes, "edges": edges})).unwrap_or_default();
    out.push('\n');
    out
}
