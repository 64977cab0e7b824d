//! fastText as PFLlib has it: the mean of the words, a dense layer without activation, the head.

use super::{hidden, padding, sequence, words};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::models::Fields;
use crate::spec::catalog::Variant;

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "fasttext",
        doc: "PFLlib's fastText: the mean of all words of a text, padding included, a dense layer, then the head.",
        revision: 1,
        fields: vec![hidden(512, "Width of the embedding, and features."), words(), padding()],
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let width = fields.size("hidden")?;
    let layers = vec![
        fields.embedding("embedding", width)?,
        Layer::AdaptiveAvgPool2d { size: (1, 1) },
        Layer::Flatten,
        Layer::linear("fc1", width),
        Layer::linear("fc", classes),
    ];
    Network::build(shape, layers, 4)
}
