//! GoogLeNet as torchvision has it, without the auxiliary classifiers: modules of four branches side by side.

use super::{DROPOUT, Fields};
use crate::base::Outcome;
use crate::engine::{Entry, Init, Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};

pub(super) fn variant() -> Variant {
    Variant {
        name: "googlenet",
        doc: "GoogLeNet: modules of four branches, the mean over all pixels, then the head.",
        revision: 1,
        fields: vec![
            Field::with("divide", Type::Int { min: 1, max: 64 }, 1, "All numbers of channels are divided by it, rounded up."),
            Field::with("dropout", DROPOUT, 0.2, "Probability that a feature is set to 0 in training.").from("", "PFLlib GoogLeNet"),
        ],
    }
}

/// Convolution, normalisation and ReLU.
fn unit(layers: &mut Vec<Layer>, name: &str, out: usize, kernel: usize, stride: usize) {
    layers.extend([
        Layer::plain_conv(&format!("{name}.conv"), out, kernel, stride, kernel / 2),
        Layer::BatchNorm2d { name: format!("{name}.bn"), eps: 1e-3 },
        Layer::Relu,
    ]);
}

/// A max-pool whose output size is rounded up.
fn pool(kernel: usize, stride: usize, padding: usize) -> Layer {
    Layer::MaxPool2d { kernel: (kernel, kernel), stride: (stride, stride), padding: (padding, padding), ceil: true }
}

/// Channels of the branches: 1x1; 1x1 then 3x3; 1x1 then 3x3; max-pool then 1x1.
const MODULES: [(&str, [usize; 6]); 9] = [
    ("inception3a", [64, 96, 128, 16, 32, 32]),
    ("inception3b", [128, 128, 192, 32, 96, 64]),
    ("inception4a", [192, 96, 208, 16, 48, 64]),
    ("inception4b", [160, 112, 224, 24, 64, 64]),
    ("inception4c", [128, 128, 256, 24, 64, 64]),
    ("inception4d", [112, 144, 288, 32, 64, 64]),
    ("inception4e", [256, 160, 320, 32, 128, 128]),
    ("inception5a", [256, 160, 320, 32, 128, 128]),
    ("inception5b", [384, 192, 384, 48, 128, 128]),
];

fn module(layers: &mut Vec<Layer>, name: &str, [a, b, c, e, f, g]: [usize; 6]) {
    layers.push(Layer::save("in"));
    unit(layers, &format!("{name}.branch1"), a, 1, 1);
    layers.extend([Layer::save("1"), Layer::load("in")]);
    unit(layers, &format!("{name}.branch2.0"), b, 1, 1);
    unit(layers, &format!("{name}.branch2.1"), c, 3, 1);
    layers.extend([Layer::save("2"), Layer::load("in")]);
    unit(layers, &format!("{name}.branch3.0"), e, 1, 1);
    unit(layers, &format!("{name}.branch3.1"), f, 3, 1);
    layers.extend([Layer::save("3"), Layer::load("in"), pool(3, 1, 1)]);
    unit(layers, &format!("{name}.branch4.1"), g, 1, 1);
    layers.push(Layer::Concat { names: ["1", "2", "3"].map(str::to_owned).to_vec() });
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (divide, p) = (fields.size("divide")?.max(1), fields.float("dropout")?);
    let channels = |count: usize| count.div_ceil(divide);
    let mut layers = Vec::new();
    unit(&mut layers, "conv1", channels(64), 7, 2);
    layers.push(pool(3, 2, 0));
    unit(&mut layers, "conv2", channels(64), 1, 1);
    unit(&mut layers, "conv3", channels(192), 3, 1);
    layers.push(pool(3, 2, 0));
    for (name, counts) in MODULES {
        module(&mut layers, name, counts.map(channels));
        match name {
            "inception3b" => layers.push(pool(3, 2, 0)),
            "inception4e" => layers.push(pool(2, 2, 0)),
            _ => {}
        }
    }
    layers.extend([Layer::mean(), Layer::Flatten, Layer::Dropout { p, channels: false }]);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Ok(Network::build(shape, layers, head)?.with_init(init))
}

/// All weights are nearly 0, and not far from it.
fn init(entry: &Entry) -> Option<Init> {
    (entry.shape.len() > 1).then_some(Init::Truncated { deviation: 0.01, bound: 2.0 })
}
