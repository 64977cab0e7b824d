//! The LSTM as PFLlib has it: the output of the last position, a ReLU, the head.

use super::{hidden, sequence};
use crate::base::Outcome;
use crate::engine::{At, Layer, Network, Shape};
use crate::models::{DROPOUT, Fields, SIZES, of_words};
use crate::spec::catalog::{Field, Variant};

pub(in crate::models) fn variant() -> Variant {
    let mut fields = vec![
        hidden("Width of the embedding and of each layer, and features."),
        Field::with("layers", SIZES, 2, "Layers on top of each other.").from("num_layers", "PFLlib"),
        Field::with("dropout", DROPOUT, 0.2, "Probability that a number is set to 0 in training, between layers and before the head.")
            .from("", "PFLlib LSTM"),
    ];
    fields.extend(of_words());
    Variant {
        name: "lstm",
        doc: "PFLlib's LSTM: layers of long short-term memory, the output of the last position with a ReLU, then the head.",
        revision: 1,
        fields,
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let (hidden, dropout) = (fields.size("hidden")?, fields.float("dropout")?);
    let layers = vec![
        fields.embedding("embedding", hidden, true)?,
        Layer::Lstm { name: "lstm".into(), hidden, layers: fields.size("layers")?, both: false, dropout },
        Layer::Pick(At::Last),
        Layer::Relu,
        Layer::Dropout { p: dropout, channels: false },
        Layer::linear("fc", classes),
    ];
    Network::build(shape, layers, 5)
}
