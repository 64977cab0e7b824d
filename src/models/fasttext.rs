//! fastText: the mean of a text's word vectors, one dense layer without an activation, and the head.
//!
//! The mean is over all positions, those that fill a text up included, as PFLlib takes it. PFLlib's ends with a log-softmax;
//! cross-entropy of logits is the same loss, so there is none here.

use super::{Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Variant};

pub(super) fn variant() -> Variant {
    let mut fields =
        vec![Field::with("hidden", SIZES, 512, "Numbers of a word's vector, and units of the dense layer.").from("feature_dim", "PFLlib")];
    fields.extend(super::of_words());
    Variant { name: "fasttext", doc: "The mean of a text's word vectors, one dense layer, then the head.", revision: 1, fields }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let hidden = fields.size("hidden")?;
    let layers = vec![
        fields.embedding("embedding", hidden, true)?,
        Layer::mean(),
        Layer::Flatten,
        Layer::linear("fc1", hidden),
        Layer::linear("fc", classes),
    ];
    Network::build(shape, layers, 4)
}
