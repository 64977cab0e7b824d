//! A network as an immutable description: layers in, a checked plan of fused steps and a layout of the parameters out.
//!
//! No numbers are here; a `Model` has them.

use super::kernels::{Conv, Window};
use super::layout::{BufferEntry, Entry, Layout, Order, Part, StateItem};
use crate::base::{Fault, Outcome};
use serde::{Deserialize, Serialize};
use std::ops::Range;

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
    /// The greatest value of each window; the output size is rounded down.
    MaxPool2d {
        /// Window size.
        kernel: (usize, usize),
        /// Step between neighboring windows.
        stride: (usize, usize),
        /// Border that is never the maximum.
        padding: (usize, usize),
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
}

impl Layer {
    /// A convolution with a square kernel, stride 1, the given padding and a bias.
    #[must_use]
    pub fn conv(name: &str, out: usize, kernel: usize, padding: usize) -> Self {
        Self::Conv2d { name: name.to_owned(), out, kernel: (kernel, kernel), stride: (1, 1), padding: (padding, padding), bias: true }
    }
    /// A square max-pool whose windows touch and do not overlap.
    #[must_use]
    pub fn pool(size: usize) -> Self {
        Self::MaxPool2d { kernel: (size, size), stride: (size, size), padding: (0, 0) }
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
    /// A normalisation of vector elements with torch's eps.
    #[must_use]
    pub fn norm1d(name: &str) -> Self {
        Self::BatchNorm1d { name: name.to_owned(), eps: 1e-5 }
    }
}

/// One step of the plan: a layer, or several that are computed in one pass.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub op: Op,
    /// Numbers of one sample that come in.
    pub inputs: usize,
    /// Numbers of one sample that go out.
    pub outputs: usize,
    /// Whether a ReLU is applied to the result.
    pub relu: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Convolution, then the ReLU, then the maximum of each window.
    Conv {
        conv: Conv,
        weight: Range<usize>,
        bias: Option<Range<usize>>,
        window: Option<Window>,
    },
    Linear {
        weight: Range<usize>,
        bias: Option<Range<usize>>,
    },
    Norm(Norm),
    Pool(Window),
    /// The values as they are: a ReLU with nothing before it.
    Copy,
}

/// Where a normalisation finds its numbers.
#[derive(Clone, Debug)]
pub(super) struct Norm {
    pub channels: usize,
    pub weight: Range<usize>,
    pub bias: Range<usize>,
    pub mean: Range<usize>,
    pub variance: Range<usize>,
    pub counter: usize,
    pub eps: f64,
}

/// An immutable network.
#[derive(Clone, Debug)]
pub struct Network {
    input: Shape,
    layers: Vec<Layer>,
    layout: Layout,
    pub(super) steps: Vec<Step>,
    pub(super) base_steps: usize,
    features: usize,
    classes: usize,
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
        let mut builder = Builder {
            shape: input,
            flat: input.height * input.width == 1,
            image: 0,
            layout: Layout::default(),
            steps: Vec::new(),
            layer: 0,
        };
        let (mut base_steps, mut features) = (0, 0);
        for (index, layer) in layers.iter().enumerate() {
            if index == head_from {
                (base_steps, features) = (builder.steps.len(), builder.shape.numel());
                builder.layout.base_len = builder.layout.len;
            }
            let part = if index < head_from { Part::Base } else { Part::Head };
            builder.add(layer, part).map_err(|fault| fault.at(format!("layer {} ({})", index + 1, label(layer))))?;
        }
        let Builder { layout, steps, shape, .. } = builder;
        for (index, entry) in layout.entries.iter().enumerate() {
            if layout.entries[..index].iter().any(|other| other.name == entry.name) {
                return Err(Fault::stage(format!("two layers have a parameter `{}`", entry.name)));
            }
        }
        Ok(Self { input, layers, layout, steps, base_steps, features, classes: shape.numel() })
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
        Layer::Conv2d { name, .. } => format!("convolution `{name}`"),
        Layer::BatchNorm2d { name, .. } | Layer::BatchNorm1d { name, .. } => format!("batch norm `{name}`"),
        Layer::Relu => "ReLU".to_owned(),
        Layer::MaxPool2d { .. } => "max-pool".to_owned(),
        Layer::Flatten => "flatten".to_owned(),
        Layer::Linear { name, .. } => format!("dense `{name}`"),
    }
}

struct Builder {
    shape: Shape,
    /// Whether the current value is a vector.
    flat: bool,
    /// Channels of the image that the current vector was, 0 when it was none.
    image: usize,
    layout: Layout,
    steps: Vec<Step>,
    layer: usize,
}

impl Builder {
    fn add(&mut self, layer: &Layer, part: Part) -> Outcome<()> {
        match layer {
            Layer::Conv2d { name, out, kernel, stride, padding, bias } => {
                self.image_only()?;
                let (height, width) = self.slide(*kernel, *stride, *padding)?;
                positive("output channels", *out)?;
                let (positions, inputs) = (kernel.0 * kernel.1, self.shape.channels);
                let conv = Conv {
                    channels: inputs,
                    height: self.shape.height,
                    width: self.shape.width,
                    out: *out,
                    kernel: *kernel,
                    stride: *stride,
                    padding: *padding,
                    out_height: height,
                    out_width: width,
                };
                let weight = self.parameter(
                    format!("{name}.weight"),
                    vec![*out, inputs, kernel.0, kernel.1],
                    Order::Conv { inputs, positions },
                    part,
                    false,
                )?;
                let bias = if *bias { Some(self.parameter(format!("{name}.bias"), vec![*out], Order::Plain, part, false)?) } else { None };
                self.layer += 1;
                self.step(Op::Conv { conv, weight, bias, window: None }, Shape { channels: *out, height, width })?;
            }
            Layer::BatchNorm2d { name, eps } => {
                self.image_only()?;
                self.norm(name, *eps, self.shape.channels, Order::Plain, part)?;
            }
            Layer::BatchNorm1d { name, eps } => {
                if !self.flat {
                    return Err(Fault::stage("the input is an image").help("put a `Flatten` before it, or use `BatchNorm2d`"));
                }
                let len = self.shape.numel();
                let order = if self.image > 1 { Order::Image { len, channels: self.image } } else { Order::Plain };
                self.norm(name, *eps, len, order, part)?;
            }
            Layer::Relu => match self.steps.last_mut() {
                // The pass that makes the values also clamps them; after a fused pool the clamp commutes with the maximum.
                Some(step) => step.relu = true,
                None => {
                    let shape = self.shape;
                    self.step(Op::Copy, shape)?;
                    self.steps[0].relu = true;
                }
            },
            Layer::MaxPool2d { kernel, stride, padding } => {
                self.image_only()?;
                if padding.0 * 2 > kernel.0 || padding.1 * 2 > kernel.1 {
                    return Err(Fault::stage("the padding of a window is at most half its size"));
                }
                let (out_height, out_width) = self.slide(*kernel, *stride, *padding)?;
                let window = Window {
                    channels: self.shape.channels,
                    height: self.shape.height,
                    width: self.shape.width,
                    kernel: *kernel,
                    stride: *stride,
                    padding: *padding,
                    out_height,
                    out_width,
                };
                let shape = Shape { channels: self.shape.channels, height: out_height, width: out_width };
                match self.steps.last_mut() {
                    Some(Step { op: Op::Conv { window: fused @ None, .. }, outputs, .. }) if window.picks_fit() => {
                        *fused = Some(window);
                        *outputs = shape.numel();
                        self.shape = shape;
                    }
                    _ => self.step(Op::Pool(window), shape)?,
                }
            }
            Layer::Flatten => {
                if !self.flat {
                    self.image = self.shape.channels;
                    self.flat = true;
                    self.shape = Shape::vector(self.shape.numel());
                }
            }
            Layer::Linear { name, out, bias } => {
                if !self.flat {
                    return Err(Fault::stage("the input is an image").help("put a `Flatten` before it"));
                }
                positive("outputs", *out)?;
                let inputs = self.shape.numel();
                let order = Order::Linear { inputs, outputs: *out, channels: self.image };
                let weight = self.parameter(format!("{name}.weight"), vec![*out, inputs], order, part, false)?;
                let bias = if *bias { Some(self.parameter(format!("{name}.bias"), vec![*out], Order::Plain, part, false)?) } else { None };
                self.layer += 1;
                self.image = 0;
                self.step(Op::Linear { weight, bias }, Shape::vector(*out))?;
            }
        }
        Ok(())
    }
    fn image_only(&self) -> Outcome<()> {
        if self.flat && self.image > 0 {
            return Err(Fault::stage("the image is already flattened"));
        }
        Ok(())
    }
    /// The output size of a kernel or window that slides over the current image.
    fn slide(&self, kernel: (usize, usize), stride: (usize, usize), padding: (usize, usize)) -> Outcome<(usize, usize)> {
        let one = |what: &str, size: usize, kernel: usize, stride: usize, padding: usize| {
            positive("kernel", kernel)?;
            positive("stride", stride)?;
            let padded = size + 2 * padding;
            if padded < kernel {
                return Err(Fault::stage(format!("a {what} of {size} is too small for a kernel of {kernel} with padding {padding}"))
                    .help("use larger images, a smaller kernel, padding, or fewer layers"));
            }
            Ok((padded - kernel) / stride + 1)
        };
        Ok((
            one("height", self.shape.height, kernel.0, stride.0, padding.0)?,
            one("width", self.shape.width, kernel.1, stride.1, padding.1)?,
        ))
    }
    fn parameter(&mut self, name: String, shape: Vec<usize>, order: Order, part: Part, norm: bool) -> Outcome<Range<usize>> {
        let range = self.layout.len..self.layout.len + volume(&shape)?;
        self.layout.len = range.end;
        self.layout.order.push(StateItem::Parameter(self.layout.entries.len()));
        self.layout.entries.push(Entry { name, shape, range: range.clone(), part, norm, layer: self.layer, order });
        Ok(range)
    }
    fn buffer(&mut self, name: String, len: usize, order: Order) -> Range<usize> {
        let range = self.layout.buffers_len..self.layout.buffers_len + len;
        self.layout.buffers_len = range.end;
        self.layout.order.push(StateItem::Buffer(self.layout.buffers.len()));
        self.layout.buffers.push(BufferEntry { name, shape: vec![len], range: range.clone(), order });
        range
    }
    fn norm(&mut self, name: &str, eps: f64, channels: usize, order: Order, part: Part) -> Outcome<()> {
        let weight = self.parameter(format!("{name}.weight"), vec![channels], order.clone(), part, true)?;
        let bias = self.parameter(format!("{name}.bias"), vec![channels], order.clone(), part, true)?;
        let mean = self.buffer(format!("{name}.running_mean"), channels, order.clone());
        let variance = self.buffer(format!("{name}.running_var"), channels, order);
        let counter = self.layout.counters.len();
        self.layout.order.push(StateItem::Counter(counter));
        self.layout.counters.push(format!("{name}.num_batches_tracked"));
        self.layer += 1;
        let shape = self.shape;
        self.step(Op::Norm(Norm { channels, weight, bias, mean, variance, counter, eps }), shape)
    }
    fn step(&mut self, op: Op, shape: Shape) -> Outcome<()> {
        volume(&[shape.channels, shape.height, shape.width])?;
        self.steps.push(Step { op, inputs: self.shape.numel(), outputs: shape.numel(), relu: false });
        self.shape = shape;
        Ok(())
    }
}

/// Numbers in one tensor: far more than any machine trains, and few enough that no size overflows.
const LIMIT: usize = 1 << 31;

/// The product of sizes, if it is within [`LIMIT`].
fn volume(sizes: &[usize]) -> Outcome<usize> {
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size).filter(|&product| product <= LIMIT));
    product.ok_or_else(|| Fault::stage(format!("{sizes:?} is more than 2^31 numbers")).help("use smaller layers"))
}

fn positive(what: &str, value: usize) -> Outcome<()> {
    if value == 0 { Err(Fault::stage(format!("`{what}` is 0, but must be at least 1"))) } else { Ok(()) }
}
