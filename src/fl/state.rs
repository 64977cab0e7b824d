//! Plain, serialisable state: one `visit` over a state serves checkpoints, traffic counts and inspection.
//!
//! A visitor meets every tensor and number of a state by name, in a fixed order, and may read or replace it.

use crate::base::{Fault, Outcome};
use crate::engine::{Model, Params};
use std::collections::BTreeMap;

/// What a visitor does with each leaf of a state.
pub trait Visitor {
    /// A whole model: parameters, buffers, counters and the training flag.
    fn model(&mut self, name: &str, model: &mut Model);
    /// A flat parameter vector in the layout of the simulation's network.
    fn params(&mut self, name: &str, params: &mut Params<f32>);
    /// Any other vector of floats.
    fn vector(&mut self, name: &str, vector: &mut Vec<f32>);
    /// A number that need not travel as a float of 4 bytes.
    fn number(&mut self, name: &str, number: &mut f64);
    /// A count, an id or a flag.
    fn count(&mut self, name: &str, count: &mut u64);
    /// A fresh model with the simulation's network, for an optional model that is about to be loaded.
    fn blank(&self) -> Model;
}

/// The state that an algorithm keeps at the server, at a client, or sends with an upload.
pub trait State: Clone + Default + Send + Sync + 'static {
    /// Shows every leaf to the visitor, always in the same order.
    fn visit(&mut self, visitor: &mut dyn Visitor);
}

impl State for () {
    fn visit(&mut self, _: &mut dyn Visitor) {}
}

/// A part of a state.
pub trait Item {
    /// Shows the part under `name`.
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor);
    /// An empty part, about to be loaded.
    fn blank(visitor: &dyn Visitor) -> Self;
}

impl Item for Model {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.model(name, self);
    }
    fn blank(visitor: &dyn Visitor) -> Self {
        visitor.blank()
    }
}

impl Item for Params<f32> {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.params(name, self);
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::from(Vec::new())
    }
}

impl Item for Vec<f32> {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.vector(name, self);
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::new()
    }
}

impl Item for f64 {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.number(name, self);
    }
    fn blank(_: &dyn Visitor) -> Self {
        0.0
    }
}

impl Item for u64 {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.count(name, self);
    }
    fn blank(_: &dyn Visitor) -> Self {
        0
    }
}

impl Item for bool {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let mut count = u64::from(*self);
        visitor.count(name, &mut count);
        *self = count != 0;
    }
    fn blank(_: &dyn Visitor) -> Self {
        false
    }
}

impl<T: Item> Item for Option<T> {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let mut present = self.is_some();
        present.visit(&format!("{name}?"), visitor);
        if present {
            self.get_or_insert_with(|| T::blank(visitor)).visit(name, visitor);
        } else {
            *self = None;
        }
    }
    fn blank(_: &dyn Visitor) -> Self {
        None
    }
}

impl<T: Item> Item for Vec<T> {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let mut length = self.len() as u64;
        visitor.count(&format!("{name}.len"), &mut length);
        self.truncate(length as usize);
        while (self.len() as u64) < length {
            self.push(T::blank(visitor));
        }
        for (i, item) in self.iter_mut().enumerate() {
            item.visit(&format!("{name}[{i}]"), visitor);
        }
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::new()
    }
}

impl<T: Item> Item for BTreeMap<usize, T> {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let mut keys: Vec<u64> = self.keys().map(|k| *k as u64).collect();
        let mut length = keys.len() as u64;
        visitor.count(&format!("{name}.len"), &mut length);
        keys.resize(length as usize, 0);
        for (i, key) in keys.iter_mut().enumerate() {
            visitor.count(&format!("{name}.key[{i}]"), key);
        }
        let wanted: Vec<usize> = keys.iter().map(|k| *k as usize).collect();
        self.retain(|k, _| wanted.contains(k));
        for key in wanted {
            self.entry(key).or_insert_with(|| T::blank(visitor)).visit(&format!("{name}[{key}]"), visitor);
        }
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::new()
    }
}

/// One leaf of a state, shared rather than copied where it is a parameter vector.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// A whole model.
    Model(Model),
    /// A flat parameter vector.
    Params(Params<f32>),
    /// Another vector.
    Vector(Vec<f32>),
    /// A number.
    Number(f64),
    /// A count.
    Count(u64),
}

/// Collects every leaf by name: for inspection and for comparison with reference values.
#[derive(Debug)]
pub struct Collect {
    template: Model,
    /// The leaves in the order of the visit.
    pub leaves: Vec<(String, Leaf)>,
}

impl Collect {
    /// An empty collection; `template` gives the network.
    #[must_use]
    pub fn new(template: &Model) -> Self {
        Self { template: template.clone(), leaves: Vec::new() }
    }
}

impl Visitor for Collect {
    fn model(&mut self, name: &str, model: &mut Model) {
        self.leaves.push((name.to_owned(), Leaf::Model(model.clone())));
    }
    fn params(&mut self, name: &str, params: &mut Params<f32>) {
        self.leaves.push((name.to_owned(), Leaf::Params(params.clone())));
    }
    fn vector(&mut self, name: &str, vector: &mut Vec<f32>) {
        self.leaves.push((name.to_owned(), Leaf::Vector(vector.clone())));
    }
    fn number(&mut self, name: &str, number: &mut f64) {
        self.leaves.push((name.to_owned(), Leaf::Number(*number)));
    }
    fn count(&mut self, name: &str, count: &mut u64) {
        self.leaves.push((name.to_owned(), Leaf::Count(*count)));
    }
    fn blank(&self) -> Model {
        self.template.clone()
    }
}

/// Counts the floats that a state would send; counts and presence flags are free.
#[derive(Debug)]
pub struct Floats<'a> {
    template: &'a Model,
    /// Floats met so far.
    pub total: u64,
}

impl<'a> Floats<'a> {
    /// Starts at 0.
    #[must_use]
    pub fn new(template: &'a Model) -> Self {
        Self { template, total: 0 }
    }
    /// The floats of a state.
    pub fn of(template: &'a Model, state: &mut impl State) -> u64 {
        let mut floats = Self::new(template);
        state.visit(&mut floats);
        floats.total
    }
}

impl Visitor for Floats<'_> {
    fn model(&mut self, _: &str, model: &mut Model) {
        self.total += model.params.len() as u64;
    }
    fn params(&mut self, _: &str, params: &mut Params<f32>) {
        self.total += params.len() as u64;
    }
    fn vector(&mut self, _: &str, vector: &mut Vec<f32>) {
        self.total += vector.len() as u64;
    }
    fn number(&mut self, _: &str, _: &mut f64) {
        self.total += 1;
    }
    fn count(&mut self, _: &str, _: &mut u64) {}
    fn blank(&self) -> Model {
        self.template.clone()
    }
}

/// Writes every leaf to bytes: name, kind, length and little-endian content, so that a mix-up is noticed on reading.
#[derive(Debug)]
pub struct Save<'a> {
    template: &'a Model,
    /// The bytes so far.
    pub bytes: Vec<u8>,
}

impl<'a> Save<'a> {
    /// Starts with no bytes.
    #[must_use]
    pub fn new(template: &'a Model) -> Self {
        Self { template, bytes: Vec::new() }
    }
    /// Starts behind bytes that are there.
    pub(super) fn after(template: &'a Model, bytes: Vec<u8>) -> Self {
        Self { template, bytes }
    }
    fn leaf(&mut self, name: &str, kind: u8, length: usize) {
        self.bytes.extend((name.len() as u32).to_le_bytes());
        self.bytes.extend(name.as_bytes());
        self.bytes.push(kind);
        self.bytes.extend((length as u64).to_le_bytes());
    }
    fn floats(&mut self, name: &str, floats: &[f32]) {
        self.leaf(name, b'v', floats.len());
        self.bytes.reserve(4 * floats.len());
        // In blocks of known length this is a copy of memory; byte by byte it would take longer than a training step.
        let mut block = [[0; 4]; 1024];
        for floats in floats.chunks(block.len()) {
            block.iter_mut().zip(floats).for_each(|(place, value)| *place = value.to_le_bytes());
            self.bytes.extend_from_slice(block[..floats.len()].as_flattened());
        }
    }
}

impl Visitor for Save<'_> {
    fn model(&mut self, name: &str, model: &mut Model) {
        self.floats(&format!("{name}.params"), &model.params);
        self.floats(&format!("{name}.buffers"), &model.buffers.values);
        self.leaf(&format!("{name}.counters"), b'c', model.buffers.counters.len());
        self.bytes.extend(model.buffers.counters.iter().flat_map(|v| v.to_le_bytes()));
        self.bytes.push(u8::from(model.training));
    }
    fn params(&mut self, name: &str, params: &mut Params<f32>) {
        self.floats(name, params);
    }
    fn vector(&mut self, name: &str, vector: &mut Vec<f32>) {
        self.floats(name, vector);
    }
    fn number(&mut self, name: &str, number: &mut f64) {
        self.leaf(name, b'n', 1);
        self.bytes.extend(number.to_bits().to_le_bytes());
    }
    fn count(&mut self, name: &str, count: &mut u64) {
        self.leaf(name, b'u', 1);
        self.bytes.extend(count.to_le_bytes());
    }
    fn blank(&self) -> Model {
        self.template.clone()
    }
}

/// Reads back what [`Save`] wrote. After the visit, [`Load::finish`] says whether everything fitted.
#[derive(Debug)]
pub struct Load<'a> {
    template: &'a Model,
    bytes: &'a [u8],
    fault: Option<Fault>,
}

impl<'a> Load<'a> {
    /// Starts at the beginning of `bytes`.
    #[must_use]
    pub fn new(template: &'a Model, bytes: &'a [u8]) -> Self {
        Self { template, bytes, fault: None }
    }
    /// Whether every leaf was there and nothing is left over.
    ///
    /// # Errors
    /// A storage fault: the bytes are damaged, or of another algorithm or version.
    pub fn finish(self) -> Outcome<()> {
        match self.fault {
            Some(fault) => Err(fault),
            None if self.bytes.is_empty() => Ok(()),
            None => Err(Fault::storage("the checkpoint holds more than this algorithm's state")),
        }
    }
    fn take(&mut self, n: usize) -> &'a [u8] {
        if n > self.bytes.len() {
            self.fail("ends too early");
            return &[];
        }
        let (head, tail) = self.bytes.split_at(n);
        self.bytes = tail;
        head
    }
    fn fail(&mut self, why: &str) {
        self.fault.get_or_insert_with(|| Fault::storage(format!("the checkpoint {why}")));
    }
    fn leaf(&mut self, name: &str, kind: u8) -> usize {
        let length = number32(self.take(4)) as usize;
        let found = self.take(length);
        let found_kind = self.take(1).first().copied();
        let count = number64(self.take(8)) as usize;
        if found != name.as_bytes() || found_kind != Some(kind) {
            self.fail(&format!("has `{}` where `{name}` belongs", String::from_utf8_lossy(found)));
        }
        if self.fault.is_some() { 0 } else { count }
    }
    fn floats(&mut self, name: &str) -> Vec<f32> {
        let count = self.leaf(name, b'v');
        self.take(count.saturating_mul(4)).as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
    }
}

fn number32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |c| u32::from_le_bytes(*c))
}

fn number64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |c| u64::from_le_bytes(*c))
}

impl Visitor for Load<'_> {
    fn model(&mut self, name: &str, model: &mut Model) {
        let params = self.floats(&format!("{name}.params"));
        let buffers = self.floats(&format!("{name}.buffers"));
        let count = self.leaf(&format!("{name}.counters"), b'c');
        let counters = self.take(count.saturating_mul(8)).as_chunks::<8>().0.iter().map(|c| u64::from_le_bytes(*c)).collect::<Vec<_>>();
        let training = self.take(1) == [1];
        // The network says how long they are: the numbers themselves may lie in a store.
        let layout = model.net.layout();
        if params.len() != layout.len || buffers.len() != layout.buffers_len {
            self.fail(&format!("holds a model `{name}` of another size"));
            return;
        }
        model.params = Params::from(params);
        model.buffers.values = Params::from(buffers);
        model.buffers.counters = counters;
        model.training = training;
    }
    fn params(&mut self, name: &str, params: &mut Params<f32>) {
        *params = Params::from(self.floats(name));
    }
    fn vector(&mut self, name: &str, vector: &mut Vec<f32>) {
        *vector = self.floats(name);
    }
    fn number(&mut self, name: &str, number: &mut f64) {
        self.leaf(name, b'n');
        *number = f64::from_bits(number64(self.take(8)));
    }
    fn count(&mut self, name: &str, count: &mut u64) {
        self.leaf(name, b'u');
        // A damaged length must not become a huge allocation: no state has more items than the file has bytes.
        *count = number64(self.take(8));
        if self.fault.is_some() {
            *count = 0;
        }
    }
    fn blank(&self) -> Model {
        self.template.clone()
    }
}
