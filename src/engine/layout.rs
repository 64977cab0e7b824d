//! Names, torch shapes and places of a network's numbers in its flat vectors, and the way to and from torch's order.
//!
//! Inside the engine a convolution's weight is ordered (out, row, column, in), a dense layer's (in, out), and whatever follows a
//! flattened image counts its elements channel last; the number of floats is torch's exactly. Only import, export and
//! initialisation see torch's order.

use super::real::Real;
use crate::base::{Fault, Outcome};
use std::ops::Range;

/// The two parts of a model: the base, and the head that personalised methods keep or replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All layers up to the features.
    Base,
    /// The layers from the features to the logits.
    Head,
}

/// One parameter tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Torch's name: `conv1.0.weight`.
    pub name: String,
    /// Torch's shape.
    pub shape: Vec<usize>,
    /// Where it lies in the flat vector.
    pub range: Range<usize>,
    /// Base or head.
    pub part: Part,
    /// Whether it belongs to a normalisation layer.
    pub norm: bool,
    /// The layer it belongs to, counted from 0 over the layers that have parameters.
    pub layer: usize,
    /// How it is made at first.
    pub init: Init,
    pub(super) order: Order,
}

/// The distribution of a parameter's initial values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// The same number everywhere.
    Constant(f64),
    /// Uniform within plus or minus this bound.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Normal with mean 0 and this standard deviation, within plus or minus a bound.
    Truncated {
        /// The standard deviation before values beyond the bound are drawn again.
        deviation: f64,
        /// The bound, at least a standard deviation.
        bound: f64,
    },
    /// Normal with mean 0; of one row of a table, all is 0.
    Rows {
        /// The standard deviation.
        deviation: f64,
        /// Numbers in a row.
        width: usize,
        /// The row that is 0.
        zero: Option<usize>,
    },
    /// As an earlier parameter of the same shape, by its number among the entries.
    Copy(usize),
}

impl Init {
    /// Normal with the variance 2 / (places that one input reaches): output channels times positions of the kernel.
    #[must_use]
    pub fn fan_out(outputs: usize) -> Self {
        Self::Normal((2.0 / outputs as f64).sqrt())
    }
    /// Torch's default for dense layers and convolutions: uniform in plus or minus 1 / sqrt(inputs of one output).
    #[must_use]
    pub fn fan_in(inputs: usize) -> Self {
        Self::Uniform(1.0 / (inputs as f64).sqrt())
    }
}

/// One tensor of running statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferEntry {
    /// Torch's name: `conv1.1.running_mean`.
    pub name: String,
    /// Torch's shape.
    pub shape: Vec<usize>,
    /// Where it lies in the flat vector of buffers.
    pub range: Range<usize>,
    pub(super) order: Order,
}

/// How the engine orders a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// As torch.
    Plain,
    /// (out, row, column, in) for torch's (out, in, row, column).
    Conv { inputs: usize, positions: usize },
    /// (row, column, in, out) for torch's (out, in, row, column).
    Grouped { outputs: usize, inputs: usize, positions: usize },
    /// (in, out) for torch's (out, in); `channels` of a flattened image, or 0.
    Linear { inputs: usize, outputs: usize, channels: usize },
    /// One number for each element of a flattened image.
    Image { len: usize, channels: usize },
}

impl Order {
    /// Torch's index of the engine's `index`.
    fn torch(&self, index: usize) -> usize {
        match *self {
            Self::Plain => index,
            Self::Conv { inputs, positions } => {
                let (rest, input) = (index / inputs, index % inputs);
                let (out, position) = (rest / positions, rest % positions);
                (out * inputs + input) * positions + position
            }
            Self::Grouped { outputs, inputs, positions } => {
                let (rest, out) = (index / outputs, index % outputs);
                (out * inputs + rest % inputs) * positions + rest / inputs
            }
            Self::Linear { inputs, outputs, channels } => {
                let (input, out) = (index / outputs, index % outputs);
                out * inputs + channel_first(input, inputs, channels)
            }
            Self::Image { len, channels } => channel_first(index, len, channels),
        }
    }
}

/// The channel-first index of the channel-last `index` into an image of `len` elements; `channels` 0 or 1 changes nothing.
fn channel_first(index: usize, len: usize, channels: usize) -> usize {
    if channels < 2 {
        return index;
    }
    (index % channels) * (len / channels) + index / channels
}

/// One item of a state dict, by index into [`Layout::entries`], [`Layout::buffers`] or [`Layout::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateItem {
    /// A parameter.
    Parameter(usize),
    /// A running statistic.
    Buffer(usize),
    /// A batch counter.
    Counter(usize),
}

/// The plan of a network's flat vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// Parameters in torch's registration order: the base, then the head.
    pub entries: Vec<Entry>,
    /// Running statistics in registration order.
    pub buffers: Vec<BufferEntry>,
    /// Torch's names of the batch counters (`conv1.1.num_batches_tracked`).
    pub counters: Vec<String>,
    /// Length of the flat parameter vector.
    pub len: usize,
    /// Length of the flat vector of buffers.
    pub buffers_len: usize,
    pub(super) base_len: usize,
    pub(super) order: Vec<StateItem>,
}

impl Layout {
    /// The base's part of the flat vector.
    #[must_use]
    pub fn base(&self) -> Range<usize> {
        0..self.base_len
    }
    /// The head's part of the flat vector.
    #[must_use]
    pub fn head(&self) -> Range<usize> {
        self.base_len..self.len
    }
    /// The range of one part.
    #[must_use]
    pub fn part(&self, part: Part) -> Range<usize> {
        match part {
            Part::Base => self.base(),
            Part::Head => self.head(),
        }
    }
    /// The parameter of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
    /// Parameters, buffers and counters in the order of torch's state dict.
    #[must_use]
    pub fn state_order(&self) -> &[StateItem] {
        &self.order
    }
    /// A parameter's values in torch's order, from the flat vector.
    #[must_use]
    pub fn export<F: Real>(&self, flat: &[F], entry: &Entry) -> Vec<F> {
        export(&flat[entry.range.clone()], &entry.order)
    }
    /// Rows and columns as which a parameter of two dimensions lies in the flat vector: torch's matrix, or its transpose, perhaps with
    /// its rows in another order. Absent where it lies otherwise.
    #[must_use]
    pub fn matrix(&self, entry: &Entry) -> Option<(usize, usize)> {
        match (&entry.order, &entry.shape[..]) {
            (Order::Plain, [rows, columns]) => Some((*rows, *columns)),
            (Order::Linear { inputs, outputs, .. }, [_, _]) => Some((*inputs, *outputs)),
            _ => None,
        }
    }
    /// Writes torch's values of a parameter into the flat vector.
    ///
    /// # Errors
    /// A stage fault when the number of values is not the entry's.
    pub fn import<F: Real>(&self, flat: &mut [F], entry: &Entry, torch: &[F]) -> Outcome<()> {
        import(&mut flat[entry.range.clone()], &entry.order, torch, &entry.name)
    }
    /// A buffer's values in torch's order, from the flat vector of buffers.
    #[must_use]
    pub fn export_buffer<F: Real>(&self, flat: &[F], entry: &BufferEntry) -> Vec<F> {
        export(&flat[entry.range.clone()], &entry.order)
    }
    /// Writes torch's values of a buffer into the flat vector of buffers.
    ///
    /// # Errors
    /// A stage fault when the number of values is not the entry's.
    pub fn import_buffer<F: Real>(&self, flat: &mut [F], entry: &BufferEntry, torch: &[F]) -> Outcome<()> {
        import(&mut flat[entry.range.clone()], &entry.order, torch, &entry.name)
    }
}

fn export<F: Real>(own: &[F], order: &Order) -> Vec<F> {
    let mut torch = vec![F::ZERO; own.len()];
    for (index, &value) in own.iter().enumerate() {
        torch[order.torch(index)] = value;
    }
    torch
}

fn import<F: Real>(own: &mut [F], order: &Order, torch: &[F], name: &str) -> Outcome<()> {
    if own.len() != torch.len() {
        return Err(Fault::stage(format!("`{name}` has {} values, not {}", own.len(), torch.len())));
    }
    for (index, value) in own.iter_mut().enumerate() {
        *value = torch[order.torch(index)];
    }
    Ok(())
}
