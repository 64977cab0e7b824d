//! Networks with branches, and with the layers that stand alone: small, with odd sizes.

use pflpipe::engine::{Activation, At, Layer, Network, Shape};

fn image(channels: usize, height: usize, width: usize) -> Shape {
    Shape { channels, height, width }
}

fn grouped(
    name: &str,
    out: usize,
    kernel: (usize, usize),
    stride: (usize, usize),
    padding: (usize, usize),
    dilation: (usize, usize),
    groups: usize,
) -> Layer {
    Layer::Conv2d { name: name.into(), out, kernel, stride, padding, dilation, groups, bias: true }
}

/// Name, input, base; each has the head `fc` of 3 classes.
fn cases() -> Vec<(&'static str, Shape, Vec<Layer>)> {
    let each = |activations: &[Activation]| -> Vec<Layer> {
        let layer = |(i, activation): (usize, &Activation)| [Layer::linear(&format!("fc{i}"), 6), Layer::Activation(*activation)];
        activations.iter().enumerate().flat_map(layer).collect()
    };
    vec![
        ("activations", Shape::vector(7), each(&[Activation::Sigmoid, Activation::Tanh])),
        (
            "more activations",
            Shape::vector(7),
            each(&[Activation::Gelu, Activation::Silu, Activation::LeakyRelu { slope: 0.1 }, Activation::Relu6]),
        ),
        (
            "residual",
            image(2, 7, 6),
            vec![
                Layer::conv("stem", 4, 3, 1),
                Layer::norm2d("bn"),
                Layer::Relu,
                Layer::save("a"),
                Layer::conv("b1.conv1", 4, 3, 1),
                Layer::norm2d("b1.bn1"),
                Layer::Relu,
                Layer::conv("b1.conv2", 4, 3, 1),
                Layer::norm2d("b1.bn2"),
                Layer::plus("a"),
                Layer::Relu,
                Layer::save("a"),
                Layer::conv("b2.conv1", 6, 3, 1),
                Layer::pool(2),
                Layer::save("main"),
                Layer::load("a"),
                Layer::conv("b2.down", 6, 1, 0),
                Layer::pool(2),
                Layer::plus("main"),
                Layer::Relu,
                Layer::Flatten,
            ],
        ),
        (
            "inception",
            image(3, 5, 4),
            vec![
                Layer::save("in"),
                Layer::conv("a", 4, 1, 0),
                Layer::Relu,
                Layer::save("a"),
                Layer::load("in"),
                Layer::conv("b", 5, 3, 1),
                Layer::save("b"),
                Layer::Relu,
                Layer::save("c"),
                Layer::load("in"),
                Layer::Relu,
                Layer::Concat { names: vec!["a".into(), "b".into(), "c".into(), "a".into()] },
                Layer::Relu,
                Layer::conv("d", 3, 2, 0),
                Layer::Flatten,
            ],
        ),
        (
            "means and groups",
            image(4, 9, 8),
            vec![
                grouped("a", 8, (3, 2), (2, 1), (1, 1), (1, 1), 2),
                Layer::Relu,
                Layer::GroupNorm { name: "gn".into(), groups: 4, shared: false, eps: 1e-5 },
                Layer::GroupNorm { name: "gn2".into(), groups: 2, shared: true, eps: 1e-5 },
                grouped("dw", 8, (3, 3), (1, 2), (1, 1), (1, 1), 8),
                Layer::AvgPool2d { kernel: (2, 3), stride: (1, 2), padding: (1, 1) },
                grouped("holes", 3, (2, 2), (1, 1), (2, 0), (2, 1), 1),
                Layer::AdaptiveAvgPool2d { size: (3, 2) },
                Layer::LayerNorm { name: "ln".into(), eps: 1e-5 },
                Layer::MaxPool2d { kernel: (2, 2), stride: (2, 2), padding: (0, 0), ceil: true },
                Layer::Flatten,
                Layer::LayerNorm { name: "ln2".into(), eps: 1e-5 },
            ],
        ),
        (
            "words",
            image(1, 1, 6),
            vec![
                Layer::Embedding { name: "embedding".into(), words: 5, width: 4, padding: None },
                Layer::save("x"),
                Layer::AdaptiveAvgPool2d { size: (1, 1) },
                Layer::save("mean"),
                Layer::load("x"),
                Layer::Conv1d { name: "conv".into(), out: 5, kernel: 3, stride: 1, padding: 0, bias: true },
                Layer::Relu,
                Layer::MaxPool2d { kernel: (1, 4), stride: (1, 1), padding: (0, 0), ceil: false },
                Layer::Dropout { p: 0.0, channels: false },
                Layer::Concat { names: vec!["mean".into()] },
                Layer::Flatten,
            ],
        ),
        (
            "tokens",
            image(2, 4, 6),
            vec![
                Layer::conv("project", 6, 2, 0),
                Layer::Tokens { name: "tokens".into() },
                Layer::Attention { name: "attention".into(), heads: 2, dropout: 0.0 },
                Layer::Pick(At::First),
            ],
        ),
        (
            "memories",
            image(3, 1, 5),
            vec![
                Layer::Lstm { name: "lstm".into(), hidden: 4, layers: 2, both: true, dropout: 0.0 },
                Layer::Lstm { name: "second".into(), hidden: 3, layers: 1, both: false, dropout: 0.0 },
                Layer::Flatten,
            ],
        ),
        (
            "twice",
            Shape::vector(5),
            vec![
                Layer::save("x"),
                Layer::plus("x"),
                Layer::save("y"),
                Layer::linear("unused", 4),
                Layer::load("y"),
                Layer::linear("fc1", 5),
                Layer::plus("y"),
                Layer::save("z"),
                Layer::linear("later", 6),
                Layer::load("z"),
            ],
        ),
    ]
}

pub fn networks() -> Vec<(&'static str, Network)> {
    let build = |(name, input, mut layers): (&'static str, Shape, Vec<Layer>)| {
        let head = layers.len();
        layers.push(Layer::linear("fc", 3));
        (name, Network::build(input, layers, head).unwrap_or_else(|e| panic!("{name}: {e}")))
    };
    cases().into_iter().map(build).collect()
}
