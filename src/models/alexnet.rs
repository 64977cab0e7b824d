//! AlexNet as torchvision has it, for images of at least 63 pixels a side.

use super::{DROPOUT, Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib AlexNet";
    Variant {
        name: "alexnet",
        doc: "Five convolutions, means over 6x6 windows, two dense layers, then the head; for images of at least 63 pixels a side.",
        revision: 1,
        fields: vec![
            Field::with(
                "widths",
                Type::List(Box::new(SIZES)),
                json!([64, 192, 384, 256, 256]),
                "Output channels of the five convolutions.",
            )
            .from("", SOURCE),
            Field::with("hidden", SIZES, 4096, "Units of both dense layers: the number of features.").from("", SOURCE),
            Field::with("dropout", DROPOUT, 0.5, "Probability that an input of a dense layer is set to 0 in training.").from("", SOURCE),
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let [a, b, c, d, e] = fields.widths()?;
    let (hidden, p) = (fields.size("hidden")?, fields.float("dropout")?);
    let first = Layer::Conv2d {
        name: "features.0".to_owned(),
        out: a,
        kernel: (11, 11),
        stride: (4, 4),
        padding: (2, 2),
        dilation: (1, 1),
        groups: 1,
        bias: true,
    };
    let mut layers = vec![first, Layer::Relu, Layer::max_pool(3, 2, 0)];
    layers.extend([Layer::conv("features.3", b, 5, 2), Layer::Relu, Layer::max_pool(3, 2, 0)]);
    layers.extend([Layer::conv("features.6", c, 3, 1), Layer::Relu]);
    layers.extend([Layer::conv("features.8", d, 3, 1), Layer::Relu]);
    layers.extend([Layer::conv("features.10", e, 3, 1), Layer::Relu, Layer::max_pool(3, 2, 0)]);
    layers.extend([Layer::AdaptiveAvgPool2d { size: (6, 6) }, Layer::Flatten]);
    for name in ["classifier.1", "classifier.4"] {
        layers.extend([Layer::Dropout { p, channels: false }, Layer::linear(name, hidden), Layer::Relu]);
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
