//! The network of the five sets of digits: convolutions and dense layers, each with batch normalisation.

use super::{DROPOUT, Fields, SIZES, unless};
use crate::base::{Fault, Outcome};
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use crate::spec::rules::Breach;
use serde_json::json;

const DEFAULT_DROPOUT: f64 = 0.5;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib Digit5CNN";
    let sizes = || Type::List(Box::new(SIZES));
    Variant {
        name: "digit5cnn",
        doc: "5x5 convolutions and dense layers with batch normalisation; max-pools between the convolutions.",
        revision: 1,
        fields: vec![
            Field::with("widths", sizes(), json!([64, 64, 128]), "Output channels of each convolution.").from("", SOURCE),
            Field::with("hidden", sizes(), json!([3072, 2048]), "Units of each dense layer; the last is the number of features.")
                .from("", SOURCE),
            Field::with(
                "dropout",
                DROPOUT,
                DEFAULT_DROPOUT,
                "Probability that a unit is set to 0 in training, but for the last dense layer.",
            )
            .from("", SOURCE),
        ],
    }
}

/// Refuses a dropout that no layer has.
pub(super) fn rules(fields: &Fields<'_>) -> Vec<Breach> {
    let (layers, p) = (fields.sizes("hidden").map_or(2, |hidden| hidden.len()), fields.float("dropout").unwrap_or(DEFAULT_DROPOUT));
    unless(layers > 1 || p == DEFAULT_DROPOUT, "dropout", || {
        Fault::stage(format!("`dropout` {p} is not read with {layers} dense layers, for the last has none"))
            .help("leave it out, or give more units in `hidden`")
    })
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (widths, hidden, p) = (fields.sizes("widths")?, fields.sizes("hidden")?, fields.float("dropout")?);
    let mut layers = Vec::new();
    for (index, &width) in widths.iter().enumerate() {
        let number = index + 1;
        layers.extend([
            Layer::conv(&format!("encoder.conv{number}"), width, 5, 2),
            Layer::norm2d(&format!("encoder.bn{number}")),
            Layer::Relu,
        ]);
        if number < widths.len() {
            layers.push(Layer::max_pool(3, 2, 1));
        }
    }
    layers.push(Layer::Flatten);
    for (index, &units) in hidden.iter().enumerate() {
        let number = index + 1;
        layers.extend([
            Layer::linear(&format!("linear.fc{number}"), units),
            Layer::norm1d(&format!("linear.bn{}", widths.len() + number)),
            Layer::Relu,
        ]);
        if number < hidden.len() {
            layers.push(Layer::Dropout { p, channels: false });
        }
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
