//! The multi-layer perceptron of the product reviews: as `mlp`, with PFLlib's sizes and names.

use super::{Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    Variant {
        name: "amazonmlp",
        doc: "Dense layers with ReLUs on counts of words, then the head.",
        revision: 1,
        fields: vec![
            Field::with(
                "hidden",
                Type::List(Box::new(SIZES)),
                json!([1000, 500, 100]),
                "Units of each hidden layer; the last is the number of features.",
            )
            .from("", "PFLlib AmazonMLP"),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let mut layers = vec![Layer::Flatten];
    for (index, &units) in fields.sizes("hidden")?.iter().enumerate() {
        layers.extend([Layer::linear(&format!("encoder.{}", 2 * index), units), Layer::Relu]);
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
