//! The convolutional network of the federated-learning benchmarks: blocks of convolution, ReLU and max-pool, one dense layer, head.
//!
//! The defaults are PFLlib's 4-layer CNN (McMahan et al. 2017, with 512 hidden units): two blocks of 5x5 kernels.

use super::{Fields, MOST, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib FedAvgCNN";
    Variant {
        name: "cnn",
        doc: "Blocks of convolution, ReLU and 2x2 max-pool, then one dense layer and the head.",
        revision: 1,
        fields: vec![
            Field::with("widths", Type::List(Box::new(SIZES)), json!([32, 64]), "Output channels of each convolution.").from("", SOURCE),
            Field::with("kernel", SIZES, 5, "Rows and columns of every kernel.").from("", SOURCE),
            Field::with("padding", Type::Int { min: 0, max: MOST }, 0, "Zeros added at every border before each convolution.")
                .from("", SOURCE),
            Field::with("pool", SIZES, 2, "Rows, columns and step of every max-pool; 1 means none.").from("", SOURCE),
            Field::with("hidden", SIZES, 512, "Units of the dense layer: the number of features.").from("", SOURCE),
            Field::with(
                "norm",
                Type::Choice(&[("none", "no normalisation"), ("batch", "batch normalisation after every convolution")]),
                "none",
                "Normalisation.",
            )
            .from("", SOURCE),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (kernel, padding, pool) = (fields.size("kernel")?, fields.size("padding")?, fields.size("pool")?);
    let batch_norm = match fields.word("norm")?.as_str() {
        "none" => false,
        "batch" => true,
        _ => return Err(fields.fault("norm", "`none` or `batch`")),
    };
    let widths = fields.sizes("widths")?;
    let mut layers = Vec::new();
    for (index, &width) in widths.iter().enumerate() {
        let block = format!("conv{}", index + 1);
        layers.push(Layer::conv(&format!("{block}.0"), width, kernel, padding));
        if batch_norm {
            layers.push(Layer::norm2d(&format!("{block}.1")));
        }
        layers.push(Layer::Relu);
        if pool != 1 {
            layers.push(Layer::pool(pool));
        }
    }
    layers.extend([Layer::Flatten, Layer::linear("fc1.0", fields.size("hidden")?), Layer::Relu]);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
