//! Models of texts: an embedding of words or characters, then a network along the sequence.
//!
//! PFLlib's and FedML's, without their dropout: a pass has no random numbers of its own. PFLlib's log-softmax at the end is left out,
//! for cross-entropy of logits is the same loss.

pub(super) mod bilstm;
pub(super) mod fasttext;
pub(super) mod lstm;
pub(super) mod rnn;
pub(super) mod textcnn;
pub(super) mod transformer;

use super::{Fields, SIZES};
use crate::base::{Fault, Outcome};
use crate::engine::{Layer, Shape};
use crate::spec::catalog::{Field, Type};

/// The families that are here.
pub(super) const NAMES: [&str; 7] = ["fasttext", "textcnn", "lstm", "bilstm", "transformer", "rnn", "rnn-stackoverflow"];

/// The most words, as a data set may have.
const MOST_WORDS: u64 = 1 << 24;

/// Rows of the embedding.
fn words() -> Field {
    let kind = Type::Int { min: 1, max: MOST_WORDS as i64 };
    Field::optional("words", kind, "Rows of the embedding; the vocabulary of the data set when absent.").from("vocab_size", "PFLlib")
}

/// The word whose row is 0.
fn padding() -> Field {
    let kind = Type::Int { min: 0, max: MOST_WORDS as i64 - 1 };
    Field::optional("padding", kind, "The word whose row of the embedding is 0 and stays so; the one that fills texts up when absent.")
        .from("", "PFLlib 0")
}

/// The width of the embedding and of what follows, PFLlib's `feature_dim`.
fn hidden(default: i64, doc: &'static str) -> Field {
    Field::with("hidden", SIZES, default, doc).from("feature_dim", "PFLlib")
}

impl Fields<'_> {
    fn number(&self, name: &str) -> Option<usize> {
        self.value(name)?.as_u64().filter(|number| *number <= MOST_WORDS).and_then(|number| usize::try_from(number).ok())
    }
    /// The embedding of that name and width, with a padding where the family has one.
    fn embedding(&self, name: &str, width: usize) -> Outcome<Layer> {
        let words = self.number("words").ok_or_else(|| self.fault("words", "the number of words of the data set"))?;
        let padding = self.variant.fields.iter().any(|field| field.name == "padding").then(|| self.number("padding")).flatten();
        Ok(Layer::Embedding { name: name.to_owned(), words, width, padding })
    }
}

/// Samples of these models are a row of words.
fn sequence(shape: Shape) -> Outcome<()> {
    if (shape.channels, shape.height) == (1, 1) {
        return Ok(());
    }
    Err(Fault::stage(format!("a model of texts takes rows of words, not {}x{}x{} samples", shape.channels, shape.height, shape.width)))
}
