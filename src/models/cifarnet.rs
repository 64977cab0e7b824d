//! PFLlib's small network for color images: two convolutions, two dense layers, head.
//!
//! PFLlib's ends with a log-softmax; cross-entropy of logits is the same loss, so there is none here.

use super::{Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib CifarNet";
    let sizes = || Type::List(Box::new(SIZES));
    Variant {
        name: "cifarnet",
        doc: "Blocks of 5x5 convolution, ReLU and max-pool, then dense layers and the head.",
        revision: 1,
        fields: vec![
            Field::with("widths", sizes(), json!([6, 10]), "Output channels of each convolution.").from("", SOURCE),
            Field::with("hidden", sizes(), json!([120, 84]), "Units of each dense layer; the last is the number of features.")
                .from("", SOURCE),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let mut layers = Vec::new();
    for (index, &width) in fields.sizes("widths")?.iter().enumerate() {
        layers.extend([Layer::conv(&format!("conv{}", index + 1), width, 5, 0), Layer::Relu, Layer::pool(2)]);
    }
    layers.push(Layer::Flatten);
    for (index, &units) in fields.sizes("hidden")?.iter().enumerate() {
        layers.extend([Layer::linear(&format!("fc{}", index + 1), units), Layer::Relu]);
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
