//! The convolutional network for windows of body-worn sensors: channels are signals, columns are times.

use super::{Fields, MOST, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib HARCNN";
    Variant {
        name: "harcnn",
        doc: "Blocks of convolution along time, ReLU and max-pool; then a head of several dense layers.",
        revision: 1,
        fields: vec![
            Field::with("widths", Type::List(Box::new(SIZES)), json!([32, 64]), "Output channels of each convolution.").from("", SOURCE),
            Field::with("kernel", Type::Int { min: 1, max: MOST }, 9, "Times that a kernel spans.").from("", SOURCE),
            Field::with("hidden", Type::List(Box::new(SIZES)), json!([1024, 512]), "Units of the head's hidden layers.").from("", SOURCE),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let kernel = (1, fields.size("kernel")?);
    let widths = fields.sizes("widths")?;
    let mut layers = Vec::new();
    for (index, &out) in widths.iter().enumerate() {
        let name = format!("conv{}.0", index + 1);
        let conv = Layer::Conv2d { name, out, kernel, stride: (1, 1), padding: (0, 0), dilation: (1, 1), groups: 1, bias: true };
        layers.extend([conv, Layer::Relu, Layer::MaxPool2d { kernel: (1, 2), stride: (2, 2), padding: (0, 0), ceil: false }]);
    }
    layers.push(Layer::Flatten);
    let head = layers.len();
    let hidden = fields.sizes("hidden")?;
    for (index, &units) in hidden.iter().enumerate() {
        layers.extend([Layer::linear(&format!("fc.{}", 2 * index), units), Layer::Relu]);
    }
    layers.push(Layer::linear(&format!("fc.{}", 2 * hidden.len()), classes));
    Network::build(shape, layers, head)
}
