//! FedML's recurrent networks: of characters (McMahan et al.), and of words (Reddi et al.).
//!
//! Both foretell what follows the last word of a text. FedML's network of words takes the batch for the sequence, as its LSTM lacks
//! `batch_first`; here it runs along the text.

use super::sequence;
use crate::base::Outcome;
use crate::engine::{At, Layer, Network, Shape};
use crate::models::{Fields, SIZES, of_words};
use crate::spec::catalog::{Field, Variant};

fn sizes(embedding: i64, hidden: i64, layers: i64) -> Vec<Field> {
    let mut fields = vec![
        Field::with("embedding", SIZES, embedding, "Width of the embedding.").from("embedding_dim", "FedML"),
        Field::with("hidden", SIZES, hidden, "Width of each recurrent layer.").from("hidden_size", "FedML"),
        Field::with("layers", SIZES, layers, "Recurrent layers on top of each other.").from("num_layers", "FedML"),
    ];
    fields.extend(of_words());
    fields
}

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "rnn",
        doc: "FedML's network of characters: an embedding, layers of long short-term memory, the output after the last character, the head.",
        revision: 1,
        fields: sizes(8, 256, 2),
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let mut layers = recurrent(fields, shape, "embeddings")?;
    layers.push(Layer::linear("fc", classes));
    let head = layers.len() - 1;
    Network::build(shape, layers, head)
}

pub(in crate::models) fn variant_words() -> Variant {
    Variant {
        name: "rnn-stackoverflow",
        doc: "FedML's network of words: an embedding, long short-term memory, the output after the last word, a dense layer, the head.",
        revision: 1,
        fields: sizes(96, 670, 1),
    }
}

pub(in crate::models) fn build_words(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let mut layers = recurrent(fields, shape, "word_embeddings")?;
    layers.extend([Layer::linear("fc1", fields.size("embedding")?), Layer::linear("fc2", classes)]);
    let head = layers.len() - 1;
    Network::build(shape, layers, head)
}

/// Up to the output after the last word.
fn recurrent(fields: &Fields<'_>, shape: Shape, name: &str) -> Outcome<Vec<Layer>> {
    sequence(shape)?;
    let embedding = fields.embedding(name, fields.size("embedding")?, true)?;
    let at = match embedding {
        Layer::Embedding { padding: Some(padding), .. } => At::LastWord { padding },
        _ => At::Last,
    };
    Ok(vec![
        embedding,
        Layer::Lstm { name: "lstm".into(), hidden: fields.size("hidden")?, layers: fields.size("layers")?, both: false, dropout: 0.0 },
        Layer::Pick(at),
    ])
}
