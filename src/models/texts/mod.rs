//! Models that run along a text: an embedding of words or characters, then recurrent or attending layers.
//!
//! PFLlib's and FedML's. PFLlib's log-softmax at the end is left out, for cross-entropy of logits is the same loss.

pub(super) mod bilstm;
pub(super) mod lstm;
pub(super) mod rnn;
pub(super) mod transformer;

use super::SIZES;
use crate::base::{Fault, Outcome};
use crate::engine::Shape;
use crate::spec::catalog::Field;

/// The width of the embedding and of what follows, PFLlib's `feature_dim`.
fn hidden(doc: &'static str) -> Field {
    Field::with("hidden", SIZES, 512, doc).from("feature_dim", "PFLlib")
}

/// The size of the vocabulary, for models whose padding is a word as any other.
fn words() -> Field {
    let [words, _] = super::of_words();
    words
}

/// Samples of these models are a row of words.
fn sequence(shape: Shape) -> Outcome<()> {
    if (shape.channels, shape.height) == (1, 1) {
        return Ok(());
    }
    Err(Fault::stage(format!("a model of texts takes rows of words, not {}x{}x{} samples", shape.channels, shape.height, shape.width)))
}
