//! The cells of a pipeline as a graph of stages: equal stages of different cells are one node.
//!
//! A stage is equal in two cells when the axes that it reads agree there and its inputs are equal; other axes do not enter.

use super::key::KeyedKind;
use crate::base::{Digest, Fault, Outcome};
use crate::spec::catalog::Catalog;
use crate::spec::node::short;
use crate::spec::pipeline::{Axis, Cell, Pipeline};
use crate::spec::{Params, Table};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The number of a node in its plan. Every node has a greater number than those that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NodeId(u32);

impl NodeId {
    /// As an index into [`Plan::nodes`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
    /// The node of an index; it need not exist.
    ///
    /// # Panics
    /// When the index is beyond 32 bits, which no plan reaches.
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("a plan has fewer than 2^32 nodes"))
    }
}

/// A stage to run.
#[derive(Clone, Debug)]
pub struct Node {
    /// The name of the stage in the pipeline.
    pub stage: Arc<str>,
    /// The name of its kind.
    pub kind: &'static str,
    /// The values of the axes that it or one of its inputs reads.
    pub coords: BTreeMap<String, Value>,
    /// Its effective parameters.
    pub params: Arc<Params>,
    /// Its inputs, in the order of the slots.
    pub inputs: Vec<Input>,
    /// The revision of its kind.
    pub revision: u32,
    /// It fails when it runs longer.
    pub timeout: Option<Duration>,
    /// How often it is tried again after a failure.
    pub retries: u32,
    /// `cpu` or `cuda:N`.
    pub device: Arc<str>,
    /// The digest of files that no published checksum vouches for; it enters the key, so that changed files are noticed.
    pub content: Option<Digest>,
}

/// An input of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name of the slot.
    pub slot: Arc<str>,
    /// The node that it comes from.
    pub node: NodeId,
    /// The outputs that are read.
    pub outputs: &'static [&'static str],
    /// What the outputs are called in the key.
    pub(super) components: Arc<[Arc<str>]>,
}

impl Node {
    /// `run[algorithm=ditto, alpha=0.1, seed=0]`; without coordinates only the stage's name.
    #[must_use]
    pub fn label(&self) -> String {
        if self.coords.is_empty() {
            return self.stage.to_string();
        }
        let coords: Vec<String> = self.coords.iter().map(|(axis, value)| format!("{axis}={}", short(value))).collect();
        format!("{}[{}]", self.stage, coords.join(", "))
    }
}

/// Slots met so far, with their names and those of their outputs in keys; shared by all nodes.
type Slots = HashMap<(String, &'static [&'static str]), (Arc<str>, Arc<[Arc<str>]>)>;

/// The whole plan.
#[derive(Clone)]
pub struct Plan {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The nodes; each comes after those that it needs.
    pub nodes: Vec<Node>,
    /// The axes of the sweep.
    pub axes: Vec<Axis>,
    /// The cells of the sweep.
    pub cells: Vec<Cell>,
    /// The tables of the pipeline.
    pub tables: Vec<Table>,
    graph: DiGraph<(), ()>,
    stages: Vec<Arc<str>>,
    node_of: Vec<Vec<NodeId>>,
    kinds: BTreeMap<&'static str, Arc<KeyedKind>>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({}, {} nodes, {} cells)", self.pipeline, self.nodes.len(), self.cells.len())
    }
}

impl Plan {
    /// Expands a pipeline. `device` is for the stages that do not choose one.
    ///
    /// # Errors
    /// An internal fault when the catalog is not the one that checked the pipeline.
    pub fn new(pipeline: &Pipeline, catalog: &dyn Catalog, device: &str) -> Outcome<Self> {
        let mut plan = Self {
            pipeline: pipeline.name.clone(),
            nodes: Vec::new(),
            axes: pipeline.axes.clone(),
            cells: pipeline.cells.clone(),
            tables: pipeline.tables.clone(),
            graph: DiGraph::new(),
            stages: pipeline.stages.iter().map(|stage| stage.name.as_str().into()).collect(),
            node_of: Vec::with_capacity(pipeline.stages.len()),
            kinds: BTreeMap::new(),
        };
        let mut devices: BTreeMap<String, Arc<str>> = BTreeMap::new();
        let mut slots: Slots = HashMap::new();
        for (index, stage) in pipeline.stages.iter().enumerate() {
            let kind = catalog.kind(stage.kind).ok_or_else(|| Fault::internal(format!("the kind `{}` has gone", stage.kind)))?;
            plan.kinds.entry(kind.name).or_insert_with(|| Arc::new(KeyedKind::new(kind)));
            let mut known: HashMap<Vec<u32>, NodeId> = HashMap::new();
            let mut of_cell = Vec::with_capacity(pipeline.cells.len());
            let mut key = Vec::new();
            for (cell, instance_index) in stage.instance_of.iter().enumerate() {
                let instance = &stage.instances[*instance_index as usize];
                key.clear();
                key.push(*instance_index);
                key.extend(instance.inputs.iter().map(|(_, input, _)| plan.node_of[*input][cell].0));
                if let Some(id) = known.get(&key) {
                    of_cell.push(*id);
                    continue;
                }
                let id = NodeId::new(plan.nodes.len());
                let mut coords = BTreeMap::new();
                let mut inputs = Vec::with_capacity(instance.inputs.len());
                for (slot, input, outputs) in &instance.inputs {
                    let node = plan.node_of[*input][cell];
                    for (axis, value) in &plan.nodes[node.index()].coords {
                        if !coords.contains_key(axis) {
                            coords.insert(axis.clone(), value.clone());
                        }
                    }
                    let (slot, components) = slots.entry((slot.clone(), *outputs)).or_insert_with(|| {
                        (slot.as_str().into(), outputs.iter().map(|output| format!("input.{slot}.{output}").into()).collect())
                    });
                    inputs.push(Input { slot: slot.clone(), node, outputs, components: components.clone() });
                }
                inputs.sort_by(|a, b| a.slot.cmp(&b.slot));
                for axis in &stage.axes {
                    if let Some(value) = pipeline.cells[cell].value(*axis) {
                        let axis = &pipeline.axes[*axis];
                        coords.insert(axis.name.clone(), axis.values[value].clone());
                    }
                }
                // What no device can change runs on the CPU; the pipeline warns of a stage that says otherwise.
                let chosen = instance.options.device.as_deref().unwrap_or(device);
                let device = if kind.device_sensitive { chosen } else { "cpu" };
                plan.graph.add_node(());
                // `update_edge` would walk all edges of an input that everything needs.
                let mut sources: Vec<NodeId> = inputs.iter().map(|input: &Input| input.node).collect();
                sources.sort_unstable();
                sources.dedup();
                for source in sources {
                    plan.graph.add_edge(NodeIndex::new(source.index()), NodeIndex::new(id.index()), ());
                }
                plan.nodes.push(Node {
                    stage: plan.stages[index].clone(),
                    kind: kind.name,
                    coords,
                    params: instance.params.clone(),
                    inputs,
                    revision: kind.revision,
                    timeout: instance.options.timeout,
                    retries: instance.options.retries,
                    device: devices.entry(device.to_owned()).or_insert_with(|| device.into()).clone(),
                    content: None,
                });
                known.insert(key.clone(), id);
                of_cell.push(id);
            }
            plan.node_of.push(of_cell);
        }
        Ok(plan)
    }
    /// The node of that number.
    ///
    /// # Panics
    /// When the number is of another plan.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
    /// The nodes, each after those that it needs.
    pub fn order(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }
    /// The names of the stages, each after those that it needs.
    #[must_use]
    pub fn stages(&self) -> &[Arc<str>] {
        &self.stages
    }
    /// The node of a stage in a cell.
    #[must_use]
    pub fn node_for(&self, cell: usize, stage: &str) -> Option<NodeId> {
        let stage = self.stages.iter().position(|name| **name == *stage)?;
        self.node_of[stage].get(cell).copied()
    }
    /// The coordinates of a cell: all its axes with their values.
    #[must_use]
    pub fn coords(&self, cell: usize) -> BTreeMap<&str, &Value> {
        let axes = self.axes.iter().enumerate();
        axes.filter_map(|(index, axis)| Some((axis.name.as_str(), &axis.values[self.cells.get(cell)?.value(index)?]))).collect()
    }
    /// The nodes that read an output of this one, in order.
    #[must_use]
    pub fn dependents(&self, id: NodeId) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self
            .graph
            .neighbors_directed(NodeIndex::new(id.index()), Direction::Outgoing)
            .map(|index| NodeId::new(index.index()))
            .collect();
        ids.sort_unstable();
        ids
    }
    /// The graph: an edge leads from a node to each that needs it; the indices are those of [`Plan::nodes`].
    #[must_use]
    pub fn graph(&self) -> &DiGraph<(), ()> {
        &self.graph
    }
    /// What the keys need to know of a node's kind.
    pub(super) fn kind(&self, node: &Node) -> &KeyedKind {
        &self.kinds[node.kind]
    }
    /// The nodes whose label, or whose stage, is the text.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<NodeId> {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join("");
        let same = |node: &Node| *node.stage == *text || node.label().replace(' ', "") == text;
        self.order().filter(|id| same(self.node(*id))).collect()
    }
}
