//! The LSTM both ways as PFLlib has it: the outputs of the last position, a dense layer without activation, the head.

use super::{hidden, sequence, words};
use crate::base::Outcome;
use crate::engine::{At, Layer, Network, Shape};
use crate::models::{Fields, SIZES};
use crate::spec::catalog::{Field, Variant};

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "bilstm",
        doc: "PFLlib's BiLSTM: long short-term memory both ways, the outputs of the last position, a dense layer, then the head.",
        revision: 1,
        fields: vec![
            hidden("Width of the embedding and of each direction, and features."),
            Field::with("layers", SIZES, 1, "Layers on top of each other.").from("num_layers", "PFLlib"),
            words(),
        ],
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let hidden = fields.size("hidden")?;
    let layers = vec![
        fields.embedding("embedding", hidden, false)?,
        Layer::Lstm { name: "lstm".into(), hidden, layers: fields.size("layers")?, both: true, dropout: 0.0 },
        Layer::Pick(At::Last),
        Layer::linear("fc1", hidden),
        Layer::linear("fc", classes),
    ];
    Network::build(shape, layers, 4)
}
