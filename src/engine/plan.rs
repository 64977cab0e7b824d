//! From layers to steps: follows the shape of the current value, plans the parameters, and fuses what is computed in one pass.
//!
//! How a layer becomes a step is in the file of its operation; here is what they share.

use super::layout::{BufferEntry, Entry, Init, Layout, Order, Part, StateItem};
use super::network::{Layer, Shape};
use super::ops::{self, Op, Step};
use crate::base::text::quoted;
use crate::base::{Fault, Outcome};
use std::collections::BTreeMap;
use std::ops::Range;

/// How a kernel or window slides over an image; pairs are (rows, columns).
#[derive(Clone, Copy, Debug)]
pub(super) struct Slide {
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub padding: (usize, usize),
    pub dilation: (usize, usize),
    /// Whether the output size is rounded up.
    pub ceil: bool,
}

impl Slide {
    /// One without holes, whose output size is rounded down.
    pub fn dense(kernel: (usize, usize), stride: (usize, usize), padding: (usize, usize)) -> Self {
        Self { kernel, stride, padding, dilation: (1, 1), ceil: false }
    }
}

/// A value that was given a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub value: usize,
    pub shape: Shape,
    pub flat: bool,
    image: usize,
}

/// The plan so far, and the current value.
#[derive(Debug)]
pub(super) struct Builder {
    /// The number of the current value.
    pub value: usize,
    /// The shape of the network's input.
    input: Shape,
    pub shape: Shape,
    /// Whether the current value is a vector.
    pub flat: bool,
    /// Channels of the image that the current vector was, 0 when it was none.
    pub image: usize,
    pub part: Part,
    pub layout: Layout,
    pub steps: Vec<Step>,
    /// Values with names.
    names: BTreeMap<String, Saved>,
    layer: usize,
}

impl Builder {
    pub fn new(input: Shape) -> Self {
        Self {
            value: 0,
            input,
            shape: input,
            flat: input.height * input.width == 1,
            image: 0,
            part: Part::Base,
            layout: Layout::default(),
            steps: Vec::new(),
            names: BTreeMap::new(),
            layer: 0,
        }
    }
    pub fn add(&mut self, layer: &Layer) -> Outcome<()> {
        match layer {
            Layer::Conv2d { name, out, kernel, stride, padding, dilation: (1, 1), groups: 1, bias } => {
                ops::conv::plan(self, name, *out, Slide::dense(*kernel, *stride, *padding), *bias)
            }
            Layer::Conv2d { name, out, kernel, stride, padding, dilation, groups, bias } => {
                let slide = Slide { dilation: *dilation, ..Slide::dense(*kernel, *stride, *padding) };
                ops::grouped::plan(self, name, *out, slide, *groups, *bias)
            }
            Layer::BatchNorm2d { name, eps } => ops::norm::plan_channels(self, name, *eps),
            Layer::BatchNorm1d { name, eps } => ops::norm::plan_elements(self, name, *eps),
            Layer::Relu => self.relu(),
            Layer::Activation(activation) => ops::activation::plan(self, *activation),
            Layer::MaxPool2d { kernel, stride, padding, ceil } => {
                ops::pool::plan(self, Slide { ceil: *ceil, ..Slide::dense(*kernel, *stride, *padding) })
            }
            Layer::AvgPool2d { kernel, stride, padding } => ops::average::plan(self, Slide::dense(*kernel, *stride, *padding)),
            Layer::AdaptiveAvgPool2d { size } => ops::average::plan_adaptive(self, *size),
            Layer::Dropout { p, channels } => ops::dropout::plan(self, *p, *channels),
            Layer::Conv1d { name, out, kernel, stride, padding, bias } => {
                ops::conv::plan_sequence(self, name, *out, Slide::dense((1, *kernel), (1, *stride), (0, *padding)), *bias)
            }
            Layer::GroupNorm { name, groups, shared, eps } => ops::group_norm::plan(self, name, *groups, *shared, *eps),
            Layer::LayerNorm { name, eps } => ops::group_norm::plan_layer(self, name, *eps),
            Layer::Embedding { name, words, width, padding } => ops::embedding::plan(self, name, *words, *width, *padding),
            Layer::Positionwise { name, out, bias } => ops::positions::plan_dense(self, name, *out, *bias),
            Layer::Signs { scale } => ops::positions::plan_signs(self, *scale),
            Layer::Pick(at) => ops::positions::plan_pick(self, *at, self.input),
            Layer::Lstm { name, hidden, layers, both, dropout } => ops::lstm::plan(self, name, *hidden, *layers, *both, *dropout),
            Layer::Tokens { name } => ops::tokens::plan(self, name),
            Layer::Attention { name, heads, dropout } => ops::attention::plan(self, name, *heads, *dropout),
            Layer::Flatten => {
                if !self.flat {
                    self.image = self.shape.channels;
                    self.flat = true;
                    self.shape = Shape::vector(self.shape.numel());
                }
                Ok(())
            }
            Layer::Linear { name, out, bias } => ops::linear::plan(self, name, *out, *bias),
            Layer::Save { name } => {
                let saved = Saved { value: self.value, shape: self.shape, flat: self.flat, image: self.image };
                self.names.insert(name.clone(), saved);
                Ok(())
            }
            Layer::Load { name } => {
                let saved = self.saved(name)?;
                (self.value, self.shape, self.flat, self.image) = (saved.value, saved.shape, saved.flat, saved.image);
                Ok(())
            }
            Layer::Add { name } => ops::join::plan_add(self, name),
            Layer::Concat { names } => ops::join::plan_concat(self, names),
        }
    }
    /// The value of that name.
    pub fn saved(&self, name: &str) -> Outcome<Saved> {
        self.names.get(name).copied().ok_or_else(|| {
            let known = if self.names.is_empty() { "none".to_owned() } else { quoted(self.names.keys().map(String::as_str)) };
            Fault::stage(format!("there is no saved value `{name}`; there are {known}"))
        })
    }
    /// The step that made the current value, where it may still be changed: nobody else reads it.
    pub fn last(&mut self) -> Option<&mut Step> {
        let free = self.value == self.steps.len() && self.names.values().all(|saved| saved.value != self.value);
        if free { self.steps.last_mut() } else { None }
    }
    fn relu(&mut self) -> Outcome<()> {
        match self.last() {
            // The pass that makes the values also clamps them; after a fused pool the clamp commutes with the maximum.
            Some(step) => step.relu = true,
            None => {
                self.copy()?;
                self.last().expect("the copy has no other reader").relu = true;
            }
        }
        Ok(())
    }
    /// A step that only copies.
    fn copy(&mut self) -> Outcome<()> {
        let shape = self.shape;
        self.step(Op::Copy, shape)
    }
    /// Begins the head: the current value is the last step's.
    pub fn begin_head(&mut self) -> Outcome<()> {
        if self.value != self.steps.len() {
            self.copy()?;
        }
        self.part = Part::Head;
        self.layout.base_len = self.layout.len;
        Ok(())
    }
    pub fn image_only(&self) -> Outcome<()> {
        if self.flat && self.image > 0 {
            return Err(Fault::stage("the image is already flattened"));
        }
        Ok(())
    }
    /// The output size of a kernel or window that slides over the current image.
    pub fn slide(&self, slide: Slide) -> Outcome<(usize, usize)> {
        let Slide { kernel, stride, padding, dilation, ceil } = slide;
        let one = |what: &str, size: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
            positive("kernel", kernel)?;
            positive("stride", stride)?;
            positive("dilation", dilation)?;
            let (padded, reach) = (size + 2 * padding + if ceil { stride - 1 } else { 0 }, (kernel - 1) * dilation + 1);
            if padded < reach {
                return Err(Fault::stage(format!("a {what} of {size} is too small for a kernel of {reach} with padding {padding}"))
                    .help("use larger images, a smaller kernel, padding, or fewer layers"));
            }
            let count = (padded - reach) / stride + 1;
            // A window that would begin in the border behind the image is left out.
            Ok(if ceil && (count - 1) * stride >= size + padding { count - 1 } else { count })
        };
        Ok((
            one("height", self.shape.height, kernel.0, stride.0, padding.0, dilation.0)?,
            one("width", self.shape.width, kernel.1, stride.1, padding.1, dilation.1)?,
        ))
    }
    pub fn parameter(&mut self, name: String, shape: Vec<usize>, order: Order, init: Init) -> Outcome<Range<usize>> {
        let range = self.layout.len..self.layout.len + volume(&shape)?;
        self.layout.len = range.end;
        self.layout.order.push(StateItem::Parameter(self.layout.entries.len()));
        let (part, layer) = (self.part, self.layer);
        self.layout.entries.push(Entry { name, shape, range: range.clone(), part, norm: false, layer, order, init });
        Ok(range)
    }
    /// Weight and bias of a normalisation: at first the identity.
    pub fn affine(&mut self, name: &str, len: usize, order: &Order) -> Outcome<(Range<usize>, Range<usize>)> {
        let weight = self.parameter(format!("{name}.weight"), vec![len], order.clone(), Init::Constant(1.0))?;
        let bias = self.parameter(format!("{name}.bias"), vec![len], order.clone(), Init::Constant(0.0))?;
        self.layout.entries.iter_mut().rev().take(2).for_each(|entry| entry.norm = true);
        Ok((weight, bias))
    }
    pub fn buffer(&mut self, name: String, len: usize, order: Order) -> Range<usize> {
        let range = self.layout.buffers_len..self.layout.buffers_len + len;
        self.layout.buffers_len = range.end;
        self.layout.order.push(StateItem::Buffer(self.layout.buffers.len()));
        self.layout.buffers.push(BufferEntry { name, shape: vec![len], range: range.clone(), order });
        range
    }
    pub fn counter(&mut self, name: String) -> usize {
        let counter = self.layout.counters.len();
        self.layout.order.push(StateItem::Counter(counter));
        self.layout.counters.push(name);
        counter
    }
    /// The parameters since the last call are those of one layer.
    pub fn end_layer(&mut self) {
        self.layer += 1;
    }
    /// A step on the current value; its result is the current one then.
    pub fn step(&mut self, op: Op, shape: Shape) -> Outcome<()> {
        volume(&[shape.channels, shape.height, shape.width])?;
        self.steps.push(Step { op, from: self.value, inputs: self.shape.numel(), outputs: shape.numel(), relu: false });
        self.shape = shape;
        self.value = self.steps.len();
        Ok(())
    }
}

/// Of each value, whether its gradient is collected: unless its one reader is the next step.
pub(super) fn collects(steps: &[Step]) -> Vec<bool> {
    let mut readers = vec![0usize; steps.len() + 1];
    let mut chained = vec![false; steps.len() + 1];
    for (index, step) in steps.iter().enumerate() {
        if !step.op.spreads() {
            readers[step.from] += 1;
            chained[step.from] |= step.from == index;
        }
        for (other, _) in step.op.others() {
            readers[other] += 2;
        }
    }
    readers.iter().zip(chained).map(|(&readers, chained)| readers != 1 || !chained).collect()
}

/// Numbers in one tensor: far more than any machine trains, and few enough that no size overflows.
const LIMIT: usize = 1 << 31;

/// The product of sizes, if it is within [`LIMIT`].
pub(super) fn volume(sizes: &[usize]) -> Outcome<usize> {
    let product = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size).filter(|&product| product <= LIMIT));
    product.ok_or_else(|| Fault::stage(format!("{sizes:?} is more than 2^31 numbers")).help("use smaller layers"))
}

pub(super) fn positive(what: &str, value: usize) -> Outcome<()> {
    if value == 0 { Err(Fault::stage(format!("`{what}` is 0, but must be at least 1"))) } else { Ok(()) }
}
