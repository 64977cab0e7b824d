//! The transformer that classifies, as PFLlib has it: encoder layers with normalisation behind each part, then the first position.
//!
//! All encoder layers start equal, since torch makes them as copies of one.

use super::{hidden, sequence, words};
use crate::base::Outcome;
use crate::engine::{At, Init, Layer, Network, Shape};
use crate::models::{DROPOUT, Fields, SIZES};
use crate::spec::catalog::{Field, Variant};

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "transformer",
        doc: "PFLlib's transformer: encoder layers of attention and two dense layers, the first position, then the head.",
        revision: 1,
        fields: vec![
            hidden("Width of the embedding and of every position, and features; a multiple of `heads`."),
            Field::with("heads", SIZES, 8, "Heads of the attention.").from("nhead", "PFLlib"),
            Field::with("layers", SIZES, 2, "Encoder layers.").from("nlayers", "PFLlib"),
            Field::with("feed", SIZES, 2048, "Units between the two dense layers of an encoder layer.").from("d_hid", "torch"),
            Field::with(
                "dropout",
                DROPOUT,
                0.1,
                "Probability that a number is set to 0 in training: of positions, attention and dense layers.",
            )
            .from("", "PFLlib"),
            words(),
        ],
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let (width, heads, feed, dropout) = (fields.size("hidden")?, fields.size("heads")?, fields.size("feed")?, fields.float("dropout")?);
    let drop = || Layer::Dropout { p: dropout, channels: false };
    let mut layers = vec![fields.embedding("embedding", width, false)?, Layer::Signs { scale: (width as f64).sqrt() }, drop()];
    for layer in 0..fields.size("layers")? {
        let name = |part: &str| format!("encoder.layers.{layer}.{part}");
        let dense = |part: &str, out: usize| Layer::Positionwise { name: name(part), out, bias: true };
        let norm = |part: &str| Layer::LayerNorm { name: name(part), eps: 1e-5 };
        layers.extend([
            Layer::save("in"),
            Layer::Attention { name: name("self_attn"), heads, dropout },
            drop(),
            Layer::plus("in"),
            norm("norm1"),
            Layer::save("in"),
            dense("linear1", feed),
            Layer::Relu,
            drop(),
            dense("linear2", width),
            drop(),
            Layer::plus("in"),
            norm("norm2"),
        ]);
    }
    layers.push(Layer::Pick(At::First));
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    let net = Network::build(shape, layers, head)?;
    let names: Vec<String> = net.layout().entries.iter().map(|entry| entry.name.clone()).collect();
    Ok(net.with_init(|entry| match entry.name.as_str() {
        "embedding.weight" | "fc.weight" => Some(Init::Uniform(0.1)),
        "fc.bias" => Some(Init::Constant(0.0)),
        name => {
            let (number, part) = name.strip_prefix("encoder.layers.")?.split_once('.')?;
            let first = format!("encoder.layers.0.{part}");
            (number != "0").then(|| names.iter().position(|name| *name == first)).flatten().map(Init::Copy)
        }
    }))
}
