//! MobileNetV2: blocks that widen, convolve each channel alone, and narrow again.

use super::{DROPOUT, Fields};
use crate::base::Outcome;
use crate::engine::{Activation, Entry, Init, Layer, Network, Shape};
use crate::spec::catalog::{Bound, Field, Type, Variant};

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib MobileNetV2";
    let range = Type::Float { min: Bound::Incl(0.01), max: Bound::Incl(10.0) };
    Variant {
        name: "mobilenet",
        doc: "MobileNetV2: inverted residual blocks with convolutions of single channels, the mean over all pixels, then the head.",
        revision: 1,
        fields: vec![
            Field::with("width", range, 1.0, "Factor of the numbers of channels, which are rounded to multiples of 8.").from("", SOURCE),
            Field::with("dropout", DROPOUT, 0.2, "Probability that a feature is set to 0 in training.").from("", SOURCE),
        ],
    }
}

/// Expansion, channels, blocks, stride of the first block.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// The multiple of 8 nearest to `channels`, at least 8, and not below nine tenths of it.
fn rounded(channels: f64) -> usize {
    let near = (((channels + 4.0) / 8.0) as usize * 8).max(8);
    if (near as f64) < 0.9 * channels { near + 8 } else { near }
}

/// Convolution, normalisation and ReLU6; a `groups` of more than 1 convolves each channel alone.
fn unit(layers: &mut Vec<Layer>, name: &str, out: usize, kernel: usize, stride: usize, groups: usize) {
    layers.extend([
        Layer::Conv2d {
            name: format!("{name}.0"),
            out,
            kernel: (kernel, kernel),
            stride: (stride, stride),
            padding: (kernel / 2, kernel / 2),
            dilation: (1, 1),
            groups,
            bias: false,
        },
        Layer::norm2d(&format!("{name}.1")),
        Layer::Activation(Activation::Relu6),
    ]);
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (factor, p) = (fields.float("width")?, fields.float("dropout")?);
    let mut layers = Vec::new();
    let mut channels = rounded(32.0 * factor);
    unit(&mut layers, "features.0", channels, 3, 2, 1);
    let mut number = 1;
    for (expansion, width, blocks, first) in STAGES {
        let out = rounded(width as f64 * factor);
        for block in 0..blocks {
            let stride = if block == 0 { first } else { 1 };
            let name = format!("features.{number}.conv");
            let wide = channels * expansion;
            let adds = stride == 1 && channels == out;
            layers.extend(adds.then(|| Layer::save("in")));
            let mut part = 0;
            if expansion != 1 {
                unit(&mut layers, &format!("{name}.{part}"), wide, 1, 1, 1);
                part += 1;
            }
            unit(&mut layers, &format!("{name}.{part}"), wide, 3, stride, wide);
            layers.push(Layer::plain_conv(&format!("{name}.{}", part + 1), out, 1, 1, 0));
            layers.push(Layer::norm2d(&format!("{name}.{}", part + 2)));
            layers.extend(adds.then(|| Layer::plus("in")));
            (channels, number) = (out, number + 1);
        }
    }
    unit(&mut layers, &format!("features.{number}"), rounded(1280.0 * factor.max(1.0)), 1, 1, 1);
    layers.extend([Layer::mean(), Layer::Flatten, Layer::Dropout { p, channels: false }]);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Ok(Network::build(shape, layers, head)?.with_init(init))
}

/// Convolutions are normal by their outputs, the head is nearly 0.
fn init(entry: &Entry) -> Option<Init> {
    match (&entry.shape[..], entry.name.as_str()) {
        ([out, _, height, width], _) => Some(Init::fan_out(out * height * width)),
        (_, "fc.weight") => Some(Init::Normal(0.01)),
        (_, "fc.bias") => Some(Init::Constant(0.0)),
        _ => None,
    }
}
