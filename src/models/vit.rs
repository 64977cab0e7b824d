//! A small vision transformer: patches of an image as a sequence with a learned token, encoder layers with normalisation before each
//! part, and the token's place as the features.
//!
//! Layers and their start are those of torchvision's, but for the head, which has torch's default start instead of 0.

use super::{DROPOUT, Fields, SIZES};
use crate::base::{Fault, Outcome};
use crate::engine::{Activation, At, Entry, Init, Layer, Network, Shape};
use crate::spec::catalog::{Field, Variant};

pub(super) fn variant() -> Variant {
    Variant {
        name: "vit",
        doc: "A small vision transformer: patches as a sequence, encoder layers of attention and two dense layers, then the head.",
        revision: 1,
        fields: vec![
            Field::with("patch", SIZES, 4, "Rows and columns of a patch; it divides the image's."),
            Field::with("width", SIZES, 64, "Numbers of a patch, and features; a multiple of `heads`."),
            Field::with("heads", SIZES, 4, "Heads of the attention."),
            Field::with("depth", SIZES, 4, "Encoder layers."),
            Field::with("feed", SIZES, 128, "Units between the two dense layers of an encoder layer."),
            Field::with("dropout", DROPOUT, 0.0, "Probability that a number is set to 0 in training, after attention and dense layers."),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (patch, width, heads, feed) = (fields.size("patch")?, fields.size("width")?, fields.size("heads")?, fields.size("feed")?);
    if patch == 0 || !shape.height.is_multiple_of(patch) || !shape.width.is_multiple_of(patch) {
        return Err(Fault::stage(format!("{}x{} pixels cannot be divided into patches of {patch}x{patch}", shape.height, shape.width))
            .help("choose a `patch` that divides rows and columns"));
    }
    let p = fields.float("dropout")?;
    let drop = || Layer::Dropout { p, channels: false };
    let norm = |name: String| Layer::LayerNorm { name, eps: 1e-6 };
    let project = Layer::Conv2d {
        name: "conv_proj".to_owned(),
        out: width,
        kernel: (patch, patch),
        stride: (patch, patch),
        padding: (0, 0),
        dilation: (1, 1),
        groups: 1,
        bias: true,
    };
    let mut layers = vec![project, Layer::Tokens { name: "tokens".to_owned() }, drop()];
    for index in 0..fields.size("depth")? {
        let name = |part: &str| format!("encoder.layers.encoder_layer_{index}.{part}");
        let dense = |part: &str, out: usize| Layer::Positionwise { name: name(part), out, bias: true };
        layers.extend([
            Layer::save("in"),
            norm(name("ln_1")),
            Layer::Attention { name: name("self_attention"), heads, dropout: 0.0 },
            drop(),
            Layer::plus("in"),
            Layer::save("in"),
            norm(name("ln_2")),
            dense("mlp.0", feed),
            Layer::Activation(Activation::Gelu),
            drop(),
            dense("mlp.3", width),
            drop(),
            Layer::plus("in"),
        ]);
    }
    layers.extend([norm("encoder.ln".to_owned()), Layer::Pick(At::First)]);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Ok(Network::build(shape, layers, head)?.with_init(init))
}

/// The projection is normal by its inputs, the dense layers uniform by inputs and outputs.
fn init(entry: &Entry) -> Option<Init> {
    let name = entry.name.as_str();
    match entry.shape[..] {
        [_, inputs, rows, columns] => {
            let deviation = (1.0 / (inputs * rows * columns) as f64).sqrt();
            Some(Init::Truncated { deviation, bound: 2.0 })
        }
        [out, inputs] if name.contains(".mlp.") => Some(Init::Uniform((6.0 / (out + inputs) as f64).sqrt())),
        [_] if name.contains(".mlp.") => Some(Init::Normal(1e-6)),
        [_] if name == "conv_proj.bias" => Some(Init::Constant(0.0)),
        _ => None,
    }
}
