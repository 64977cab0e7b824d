//! The convolutional network of texts as PFLlib has it: windows of several widths, of each the greatest value over the text.

use super::{hidden, padding, sequence, words};
use crate::base::{Fault, Outcome};
use crate::engine::{Layer, Network, Shape};
use crate::models::{Fields, SIZES};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(in crate::models) fn variant() -> Variant {
    Variant {
        name: "textcnn",
        doc: "PFLlib's TextCNN: convolutions of several widths along the text, each with its greatest value, then the head.",
        revision: 1,
        fields: vec![
            hidden(512, "Width of the embedding."),
            Field::with("channels", SIZES, 100, "Output channels of each convolution.").from("num_channels", "PFLlib"),
            Field::with("kernels", Type::List(Box::new(SIZES)), json!([3, 4, 5]), "Words that each convolution sees at once.")
                .from("kernel_size", "PFLlib"),
            words(),
            padding(),
        ],
    }
}

pub(in crate::models) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    sequence(shape)?;
    let (width, channels, kernels) = (fields.size("hidden")?, fields.size("channels")?, fields.sizes("kernels")?);
    let Some(widest) = kernels.iter().max() else { return Err(fields.fault("kernels", "a list of at least one width")) };
    if *widest > shape.width || kernels.contains(&0) {
        return Err(
            Fault::stage(format!("`kernels` are {kernels:?}, but texts have {} words", shape.width)).help("choose widths from 1 to that")
        );
    }
    let mut layers = vec![fields.embedding("embedding", width)?, Layer::save("words")];
    let mut names = Vec::new();
    for (index, &kernel) in kernels.iter().enumerate() {
        let over = shape.width - kernel + 1;
        layers.extend([
            Layer::load("words"),
            Layer::Conv2d {
                name: format!("conv{}.0", index + 1),
                out: channels,
                kernel: (1, kernel),
                stride: (1, 1),
                padding: (0, 0),
                dilation: (1, 1),
                groups: 1,
                bias: true,
            },
            Layer::Relu,
            Layer::MaxPool2d { kernel: (1, over), stride: (1, over), padding: (0, 0), ceil: false },
        ]);
        if index + 1 < kernels.len() {
            let name = format!("greatest {index}");
            layers.push(Layer::save(&name));
            names.push(name);
        }
    }
    if !names.is_empty() {
        layers.push(Layer::Concat { names });
    }
    layers.push(Layer::Flatten);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Ok(Network::build(shape, layers, head)?.along_sequences())
}
