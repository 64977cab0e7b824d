//! What a state takes of memory, and how to take its numbers out of it while its shape stays.

use super::state::Visitor;
use crate::engine::{Model, Params};

/// Adds up the bytes of a state's numbers. A vector that several states share counts for each of them by its share.
pub(super) struct Weigh<'a> {
    template: &'a Model,
    pub(super) bytes: u64,
}

impl<'a> Weigh<'a> {
    pub(super) fn new(template: &'a Model) -> Self {
        Self { template, bytes: 0 }
    }
}

impl Visitor for Weigh<'_> {
    fn model(&mut self, name: &str, model: &mut Model) {
        self.params(name, &mut model.params);
        self.params(name, &mut model.buffers.values);
    }
    fn params(&mut self, _: &str, params: &mut Params<f32>) {
        self.bytes += (4 * params.len() / params.owners()) as u64;
    }
    fn vector(&mut self, _: &str, vector: &mut Vec<f32>) {
        self.bytes += 4 * vector.len() as u64;
    }
    fn number(&mut self, _: &str, _: &mut f64) {}
    fn count(&mut self, _: &str, _: &mut u64) {}
    fn blank(&self) -> Model {
        self.template.clone()
    }
}

/// Empties every vector, so that only counts, networks and the number of items are left. A visit that loads fills it again.
pub(super) struct Empty<'a> {
    template: &'a Model,
}

impl<'a> Empty<'a> {
    pub(super) fn new(template: &'a Model) -> Self {
        Self { template }
    }
}

impl Visitor for Empty<'_> {
    fn model(&mut self, _: &str, model: &mut Model) {
        model.params = Params::default();
        model.buffers.values = Params::default();
    }
    fn params(&mut self, _: &str, params: &mut Params<f32>) {
        *params = Params::default();
    }
    fn vector(&mut self, _: &str, vector: &mut Vec<f32>) {
        *vector = Vec::new();
    }
    fn number(&mut self, _: &str, _: &mut f64) {}
    fn count(&mut self, _: &str, _: &mut u64) {}
    fn blank(&self) -> Model {
        self.template.clone()
    }
}
