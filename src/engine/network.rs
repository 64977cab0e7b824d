//! A network as an immutable description: layers in, a checked plan of fused steps and a layout of the parameters out.
//!
//! No numbers are here; a `Model` has them.

use super::layout::{Entry, Init, Layout};
use super::ops::Step;
use super::ops::activation::Activation;
use super::ops::positions::At;
use super::plan::{Builder, collects, volume};
use super::precision::Precision;
use crate::base::{Fault, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The shape of one sample: an image of `channels` planes, stored channels-last (row by row, within a row pixel by pixel, within a
/// pixel channel by channel); a plain vector is `(len, 1, 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Channels of a pixel: 1 for gray, 3 for red, green, blue.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Shape {
    /// A plain vector.
    #[must_use]
    pub fn vector(len: usize) -> Self {
        Self { channels: len, height: 1, width: 1 }
    }
    /// Numbers in one sample, saturating.
    #[must_use]
    pub fn numel(&self) -> usize {
        self.channels.saturating_mul(self.height).saturating_mul(self.width)
    }
}

/// One layer. `name` is torch's module name, from which the parameters' names follow. Pairs are (rows, columns).
#[derive(Clone, Debug, PartialEq)]
pub enum Layer {
    /// Cross-correlation with a bias.
    Conv2d {
        /// Module name: `conv1.0`.
        name: String,
        /// Output channels.
        out: usize,
        /// Kernel size.
        kernel: (usize, usize),
        /// Step between neighboring outputs.
        stride: (usize, usize),
        /// Zeros added at each border.
        padding: (usize, usize),
        /// Distance between neighboring elements of the kernel; 1 means none is left out.
        dilation: (usize, usize),
        /// Groups of channels that do not see each other.
        groups: usize,
        /// Whether it has a bias.
        bias: bool,
    },
    /// Normalisation of each channel over batch and positions.
    BatchNorm2d {
        /// Module name.
        name: String,
        /// Added to the variance.
        eps: f64,
    },
    /// Normalisation of each element over the batch.
    BatchNorm1d {
        /// Module name.
        name: String,
        /// Added to the variance.
        eps: f64,
    },
    /// `max(x, 0)`.
    Relu,
    /// Another function of each element.
    Activation(Activation),
    /// The greatest value of each window; the output size is rounded down unless `ceil`.
    MaxPool2d {
        /// Window size.
        kernel: (usize, usize),
        /// Step between neighboring windows.
        stride: (usize, usize),
        /// Border that is never the maximum.
        padding: (usize, usize),
        /// Whether the output size is rounded up instead; every window begins within the image or its border.
        ceil: bool,
    },
    /// The mean of each window; the border counts as zeros.
    AvgPool2d {
        /// Window size.
        kernel: (usize, usize),
        /// Step between neighboring windows.
        stride: (usize, usize),
        /// Zeros added at each border.
        padding: (usize, usize),
    },
    /// The means of as many windows as wanted, evenly spread.
    AdaptiveAvgPool2d {
        /// Rows and columns of the output.
        size: (usize, usize),
    },
    /// Normalisation of groups of channels over the pixels of a sample.
    GroupNorm {
        /// Module name.
        name: String,
        /// Number of groups.
        groups: usize,
        /// Whether all channels of a group share one weight and one bias.
        shared: bool,
        /// Added to the variance.
        eps: f64,
    },
    /// Normalisation of the channels of each pixel: of each position of a sequence, or of a vector.
    LayerNorm {
        /// Module name.
        name: String,
        /// Added to the variance.
        eps: f64,
    },
    /// Sets elements to 0 at random in training, and scales up the others.
    Dropout {
        /// The probability, at least 0 and below 1.
        p: f64,
        /// Whether whole channels of an image are dropped.
        channels: bool,
    },
    /// A convolution of a sequence (an image of height 1), whose weight is (outputs, inputs, length).
    Conv1d {
        /// Module name.
        name: String,
        /// Output channels.
        out: usize,
        /// Length of the kernel.
        kernel: usize,
        /// Step between neighboring outputs.
        stride: usize,
        /// Zeros added at both ends.
        padding: usize,
        /// Whether it has a bias.
        bias: bool,
    },
    /// Numbers of words to rows of a table: a sequence, which is an image of height 1.
    Embedding {
        /// Module name.
        name: String,
        /// Rows of the table.
        words: usize,
        /// Numbers in a row.
        width: usize,
        /// The word whose row is 0 and stays so.
        padding: Option<usize>,
    },
    /// The same dense layer at every position of a sequence, or pixel of an image.
    Positionwise {
        /// Module name.
        name: String,
        /// Outputs at a position.
        out: usize,
        /// Whether it has a bias.
        bias: bool,
    },
    /// Elements times `scale`, plus sines and cosines by which positions can be told apart.
    Signs {
        /// The factor.
        scale: f64,
    },
    /// The pixels of an image as a sequence, with a learned token before them; to each place something learned is added.
    Tokens {
        /// Module name.
        name: String,
    },
    /// One position of a sequence, as a vector.
    Pick(At),
    /// A long short-term memory along a sequence.
    Lstm {
        /// Module name.
        name: String,
        /// Outputs of one direction at a position.
        hidden: usize,
        /// Layers on top of each other.
        layers: usize,
        /// Whether it runs both ways; the outputs stand side by side.
        both: bool,
        /// Probability of dropout between layers.
        dropout: f64,
    },
    /// Self-attention along a sequence, with as many outputs as inputs.
    Attention {
        /// Module name.
        name: String,
        /// Heads, which share the channels evenly.
        heads: usize,
        /// Probability that a position's weight is dropped.
        dropout: f64,
    },
    /// An image to a vector.
    Flatten,
    /// `x W + b`.
    Linear {
        /// Module name: `fc1.0`.
        name: String,
        /// Outputs.
        out: usize,
        /// Whether it has a bias.
        bias: bool,
    },
    /// Gives the current value a name, under which later layers find it; an earlier value of the name is forgotten.
    Save {
        /// The name.
        name: String,
    },
    /// Goes on from a saved value instead of the current one.
    Load {
        /// The name.
        name: String,
    },
    /// The sum of the current value and a saved one of the same shape.
    Add {
        /// The name of the saved one.
        name: String,
    },
    /// Channels of saved values, then those of the current one; all have the same height and width.
    Concat {
        /// The names of the saved ones.
        names: Vec<String>,
    },
}

impl Layer {
    /// A convolution with a square kernel, stride 1, the given padding and a bias.
    #[must_use]
    pub fn conv(name: &str, out: usize, kernel: usize, padding: usize) -> Self {
        Self::Conv2d {
            name: name.to_owned(),
            out,
            kernel: (kernel, kernel),
            stride: (1, 1),
            padding: (padding, padding),
            dilation: (1, 1),
            groups: 1,
            bias: true,
        }
    }
    /// A convolution with a square kernel and without a bias.
    #[must_use]
    pub fn plain_conv(name: &str, out: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        Self::Conv2d {
            name: name.to_owned(),
            out,
            kernel: (kernel, kernel),
            stride: (stride, stride),
            padding: (padding, padding),
            dilation: (1, 1),
            groups: 1,
            bias: false,
        }
    }
    /// A square max-pool.
    #[must_use]
    pub fn max_pool(kernel: usize, stride: usize, padding: usize) -> Self {
        Self::MaxPool2d { kernel: (kernel, kernel), stride: (stride, stride), padding: (padding, padding), ceil: false }
    }
    /// The mean over all pixels of each channel.
    #[must_use]
    pub fn mean() -> Self {
        Self::AdaptiveAvgPool2d { size: (1, 1) }
    }
    /// A square max-pool whose windows touch and do not overlap.
    #[must_use]
    pub fn pool(size: usize) -> Self {
        Self::MaxPool2d { kernel: (size, size), stride: (size, size), padding: (0, 0), ceil: false }
    }
    /// A dense layer with a bias.
    #[must_use]
    pub fn linear(name: &str, out: usize) -> Self {
        Self::Linear { name: name.to_owned(), out, bias: true }
    }
    /// A normalisation of channels with torch's eps.
    #[must_use]
    pub fn norm2d(name: &str) -> Self {
        Self::BatchNorm2d { name: name.to_owned(), eps: 1e-5 }
    }
    /// Gives the current value a name.
    #[must_use]
    pub fn save(name: &str) -> Self {
        Self::Save { name: name.to_owned() }
    }
    /// Goes on from a saved value.
    #[must_use]
    pub fn load(name: &str) -> Self {
        Self::Load { name: name.to_owned() }
    }
    /// Adds a saved value.
    #[must_use]
    pub fn plus(name: &str) -> Self {
        Self::Add { name: name.to_owned() }
    }
    /// A normalisation of vector elements with torch's eps.
    #[must_use]
    pub fn norm1d(name: &str) -> Self {
        Self::BatchNorm1d { name: name.to_owned(), eps: 1e-5 }
    }
}

/// The most layers of a network, each layer of a recurrent one counted: a thousand times as deep as usual, and still made at once.
pub const MOST_LAYERS: usize = 10_000;

/// An immutable network.
#[derive(Clone, Debug)]
pub struct Network {
    input: Shape,
    layers: Vec<Layer>,
    layout: Layout,
    pub(super) steps: Vec<Step>,
    /// Of each value, whether the gradients of its readers are added up; otherwise its reader is the next step alone.
    pub(super) collects: Vec<bool>,
    pub(super) base_steps: usize,
    features: usize,
    classes: usize,
    pub(super) precision: Precision,
}

impl Network {
    /// Checks the layers against the input and plans the network; `head_from` is the index of the head's first layer.
    ///
    /// The head may consist of `Linear` and `Relu` layers only, and begins with a `Linear`.
    ///
    /// # Errors
    /// A stage fault that names the layer: an input too small for a kernel or window, a layer for images after `Flatten`, a size of
    /// 0, a name twice, a head that is missing or holds other layers.
    pub fn build(input: Shape, layers: Vec<Layer>, head_from: usize) -> Outcome<Self> {
        volume(&[input.channels, input.height, input.width])?;
        if input.numel() == 0 {
            return Err(Fault::stage(format!("the input {}x{}x{} is empty", input.channels, input.height, input.width)));
        }
        if !matches!(layers.get(head_from), Some(Layer::Linear { .. })) {
            return Err(Fault::stage("the head of a network begins with a dense layer"));
        }
        if let Some(layer) = layers[head_from..].iter().find(|layer| !matches!(layer, Layer::Linear { .. } | Layer::Relu)) {
            return Err(Fault::stage(format!("a head has dense layers and ReLUs only, not {}", label(layer))));
        }
        let depth = layers
            .iter()
            .fold(0_usize, |depth, layer| depth.saturating_add(if let Layer::Lstm { layers, .. } = layer { *layers } else { 1 }));
        if depth > MOST_LAYERS {
            return Err(
                Fault::stage(format!("the network has {depth} layers, but at most {MOST_LAYERS} are possible")).help("choose fewer layers")
            );
        }
        let mut builder = Builder::new(input);
        let (mut base_steps, mut features) = (0, 0);
        for (index, layer) in layers.iter().enumerate() {
            if index == head_from {
                builder.begin_head()?;
                (base_steps, features) = (builder.steps.len(), builder.shape.numel());
            }
            builder.add(layer).map_err(|fault| fault.at(format!("layer {} ({})", index + 1, label(layer))))?;
        }
        let Builder { layout, steps, shape, .. } = builder;
        let mut names = HashSet::new();
        if let Some(entry) = layout.entries.iter().find(|entry| !names.insert(entry.name.as_str())) {
            return Err(Fault::stage(format!("two layers have a parameter `{}`", entry.name)));
        }
        let collects = collects(&steps);
        Ok(Self { input, layers, layout, steps, collects, base_steps, features, classes: shape.numel(), precision: Precision::F32 })
    }
    /// The network with other initial parameters where `init` says so; the rest keeps torch's defaults of its layer.
    #[must_use]
    pub fn with_init(mut self, init: impl Fn(&Entry) -> Option<Init>) -> Self {
        for entry in &mut self.layout.entries {
            if let Some(init) = init(entry) {
                entry.init = init;
            }
        }
        self
    }
    /// The network with products of that precision.
    #[must_use]
    pub fn with_precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }
    /// The shape of one sample.
    #[must_use]
    pub fn input(&self) -> Shape {
        self.input
    }
    /// The layers as given.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }
    /// The plan of the flat vectors.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Whether a sample's outputs are the same in training as in evaluation, whatever the batch: no layer normalises by the batch or
    /// drops at random.
    #[must_use]
    pub fn same_in_training(&self) -> bool {
        let random = |layer: &Layer| match layer {
            Layer::Dropout { p, .. } => *p > 0.0,
            Layer::Lstm { dropout, .. } | Layer::Attention { dropout, .. } => *dropout > 0.0,
            _ => false,
        };
        self.layout.buffers.is_empty() && !self.layers.iter().any(random)
    }
    /// Features of one sample: what the base gives to the head.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }
    /// Logits of one sample.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }
}

/// The layer for messages.
fn label(layer: &Layer) -> String {
    match layer {
        Layer::Conv2d { name, .. } | Layer::Conv1d { name, .. } => format!("convolution `{name}`"),
        Layer::BatchNorm2d { name, .. } | Layer::BatchNorm1d { name, .. } => format!("batch norm `{name}`"),
        Layer::Relu => "ReLU".to_owned(),
        Layer::Activation(activation) => activation.name().to_owned(),
        Layer::MaxPool2d { .. } => "max-pool".to_owned(),
        Layer::GroupNorm { name, .. } => format!("group norm `{name}`"),
        Layer::LayerNorm { name, .. } => format!("layer norm `{name}`"),
        Layer::Embedding { name, .. } => format!("embedding `{name}`"),
        Layer::Positionwise { name, .. } => format!("dense at each position `{name}`"),
        Layer::Signs { .. } => "signs of positions".to_owned(),
        Layer::Pick(_) => "choice of a position".to_owned(),
        Layer::Lstm { name, .. } => format!("LSTM `{name}`"),
        Layer::Tokens { name } => format!("tokens `{name}`"),
        Layer::Attention { name, .. } => format!("attention `{name}`"),
        Layer::AvgPool2d { .. } | Layer::AdaptiveAvgPool2d { .. } => "average pool".to_owned(),
        Layer::Dropout { .. } => "dropout".to_owned(),
        Layer::Flatten => "flatten".to_owned(),
        Layer::Linear { name, .. } => format!("dense `{name}`"),
        Layer::Save { name } => format!("save `{name}`"),
        Layer::Load { name } => format!("load `{name}`"),
        Layer::Add { name } => format!("add `{name}`"),
        Layer::Concat { .. } => "concatenation".to_owned(),
    }
}
