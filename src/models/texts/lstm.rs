//! The LSTM as PFLlib has it: the output of the last position, a ReLU, the head.

use super::{hidden, padding, sequence, words};
use crate::base::Outcome;
use crate::engine::{At, Layer, Network, Shape};
use crate::models::{Fields, SIZES};
use crate::spec::catalog::{Field, Variant};

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "lstm",
        doc: "PFLlib's LSTM: layers of long short-term memory, the output of the last position with a ReLU, then the head.",
        revision: 1,
        fields: vec![
            hidden(512, "Width of the embedding and of each layer, and features."),
            Field::with("layers", SIZES, 2, "Layers on top of each other.").from("num_layers", "PFLlib"),
            words(),
            padding(),
        ],
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let hidden = fields.size("hidden")?;
    let layers = vec![
        fields.embedding("embedding", hidden)?,
        Layer::Lstm { name: "lstm".into(), hidden, layers: fields.size("layers")?, both: false },
        Layer::Pick(At::Last),
        Layer::Relu,
        Layer::linear("fc", classes),
    ];
    Network::build(shape, layers, 4)
}
