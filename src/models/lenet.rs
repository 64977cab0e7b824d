//! LeNet as PFLlib has it: two convolutions with max-pool before the ReLU, a bottleneck with batch normalisation, and the head.
//!
//! PFLlib's ends with a log-softmax; cross-entropy of logits is the same loss, so there is none here.

use super::{DROPOUT, Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Entry, Init, Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib LeNet";
    Variant {
        name: "lenet",
        doc: "Two convolutions, a dense layer with batch normalisation, then the head; with dropout.",
        revision: 1,
        fields: vec![
            Field::with("widths", Type::List(Box::new(SIZES)), json!([20, 50]), "Output channels of the two convolutions.")
                .from("", SOURCE),
            Field::with("hidden", SIZES, 256, "Units of the dense layer: the number of features.").from("", SOURCE),
            Field::with("dropout", DROPOUT, 0.5, "Probability that a channel or a feature is set to 0 in training.").from("", SOURCE),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let [first, second] = fields.widths()?;
    let (hidden, p) = (fields.size("hidden")?, fields.float("dropout")?);
    let layers = vec![
        Layer::conv("conv_params.0", first, 5, 0),
        Layer::pool(2),
        Layer::Relu,
        Layer::conv("conv_params.3", second, 5, 0),
        Layer::Dropout { p, channels: true },
        Layer::pool(2),
        Layer::Relu,
        Layer::Flatten,
        Layer::linear("bottleneck", hidden),
        Layer::norm1d("bn"),
        Layer::Dropout { p, channels: false },
        Layer::linear("fc", classes),
    ];
    Ok(Network::build(shape, layers, 11)?.with_init(init))
}

/// Dense layers are normal by inputs and outputs together, with biases of 0.
fn init(entry: &Entry) -> Option<Init> {
    match (entry.name.starts_with("bottleneck.") || entry.name.starts_with("fc."), &entry.shape[..]) {
        (true, [out, inputs]) => Some(Init::Normal((2.0 / (out + inputs) as f64).sqrt())),
        (true, _) => Some(Init::Constant(0.0)),
        _ => None,
    }
}
