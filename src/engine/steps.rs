//! Runs the steps of a network's plan forward and backward, and keeps what the way back needs.
//!
//! A step reads values that earlier steps made. In a chain, where each value has one reader and that is the next step, two gradients
//! take turns; a value with other readers has a place of its own where their gradients are added up ([`Collected`]). Buffers only
//! grow: once a network and a batch size were seen, a step allocates nothing.

use super::kernels::pairs::Laid;
use super::kernels::{Entries, Statistics, Taps, Tiles, reserve};
use super::network::Network;
use super::ops::{self, Backward, Forward, Step};
use super::params::Buffers;
use super::precision::{self, Precision};
use super::real::Real;
use super::update::Descent;
use crate::base::random::{Purpose, Stream, stream};
use std::ops::{Deref, Range};

/// What one step keeps.
#[derive(Debug, Default)]
pub(super) struct Kept<F> {
    pub value: Vec<F>,
    /// The convolution's input with its border, where it has one.
    pub padded: Vec<F>,
    pub picks: Vec<u8>,
    pub places: Vec<u32>,
    pub statistics: Statistics<F>,
    /// The rounded input, where products are of a lower precision.
    pub rounded: Vec<F>,
    /// Whatever else an operation needs on the way back.
    pub floats: Vec<F>,
}

/// The values of one forward pass.
#[derive(Debug, Default)]
pub(super) struct Record<F> {
    input: Vec<F>,
    kept: Vec<Kept<F>>,
    /// The parameters of products with their weights rounded, where products are of a lower precision.
    weights: Vec<F>,
}

/// The parameters on the way back.
#[derive(Debug)]
pub(super) enum Weights<'a, F> {
    /// As they are.
    Still(&'a [F]),
    /// Those of which a step knows how ([`steppers`]) take their own at once.
    Stepping(&'a mut [F], Descent<'a, F>),
}

impl<F: Real> Weights<'_, F> {
    /// The same for a while, with steps only where they are wanted.
    pub fn stepping(&mut self, wanted: bool) -> Weights<'_, F> {
        match self {
            Self::Still(params) => Weights::Still(params),
            Self::Stepping(params, descent) => {
                if wanted {
                    Weights::Stepping(params, *descent)
                } else {
                    Weights::Still(params)
                }
            }
        }
    }
}

impl<F> Deref for Weights<'_, F> {
    type Target = [F];
    fn deref(&self) -> &[F] {
        match self {
            Self::Still(params) => params,
            Self::Stepping(params, _) => params,
        }
    }
}

/// The weights that take their step on the way back of a batch of so many rows, in order.
pub(super) fn steppers(net: &Network, steps: Range<usize>, rows: usize) -> impl Iterator<Item = Range<usize>> {
    net.steps[steps].iter().filter_map(move |step| stepper(net, step, rows).cloned())
}

/// Products of a lower precision have kernels of their own, which make gradients.
fn stepper<'n>(net: &Network, step: &'n Step, rows: usize) -> Option<&'n Range<usize>> {
    step.op.stepper(rows).filter(|_| net.precision == Precision::F32)
}

/// The values before a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a, F> {
    input: &'a [F],
    kept: &'a [Kept<F>],
}

impl<'a, F> Values<'a, F> {
    /// The value of that number, with slack behind it.
    pub fn get(&self, value: usize) -> &'a [F] {
        match value.checked_sub(1) {
            None => self.input,
            Some(step) => &self.kept[step].value,
        }
    }
}

/// Memory that no pass relies on after it ends.
#[derive(Debug, Default)]
pub(super) struct Scratch<F> {
    pub packed: Vec<F>,
    pub padded: Vec<F>,
    /// The turned weight of a dense layer.
    pub turned: Vec<F>,
    pub plane: Vec<F>,
    pub tiles: Tiles<F>,
    pub laid: Laid,
    pub taps: Taps,
    pub entries: Entries<F>,
    /// The gradient of a padded image.
    pub border: Vec<F>,
    /// The gradient that a step receives; after the pass, that of the first step's input.
    pub gradient: Vec<F>,
    /// The gradient of a step's input.
    pub next: Vec<F>,
    pub collected: Collected<F>,
    pub noise: Noise,
}

/// Where random numbers of a forward pass come from.
#[derive(Debug, Default)]
pub(super) struct Noise(Option<Stream>);

impl Noise {
    pub fn set(&mut self, stream: Stream) {
        self.0 = Some(stream);
    }
    /// The stream that was set; a fixed one where none was.
    pub fn stream(&mut self) -> &mut Stream {
        self.0.get_or_insert_with(|| stream(0, Purpose::Dropout, 0, 0, 0))
    }
}

/// The gradients of values that several steps read, or one that is not the next.
#[derive(Debug, Default)]
pub(super) struct Collected<F> {
    sums: Vec<Vec<F>>,
    filled: Vec<bool>,
}

impl<F: Real> Collected<F> {
    /// Forgets all; room for the values of a network.
    fn clear(&mut self, values: usize) {
        if self.sums.len() < values {
            self.sums.resize_with(values, Vec::new);
        }
        self.filled.clear();
        self.filled.resize(values, false);
    }
    /// The sum so far of a value's gradient, and whether nothing was written to it yet.
    pub fn open(&mut self, value: usize, len: usize) -> (&mut [F], bool) {
        let first = !std::mem::replace(&mut self.filled[value], true);
        reserve(&mut self.sums[value], len);
        (&mut self.sums[value][..len], first)
    }
    /// Adds a reader's gradient.
    pub fn add(&mut self, value: usize, gradient: &[F]) {
        let (sum, first) = self.open(value, gradient.len());
        if first {
            sum.copy_from_slice(gradient);
        } else {
            sum.iter_mut().zip(gradient).for_each(|(sum, &value)| *sum += value);
        }
    }
    /// Writes the sum to `gradient`: 0 where nobody read the value.
    fn take(&mut self, value: usize, len: usize, gradient: &mut Vec<F>) {
        let (sum, first) = self.open(value, len);
        reserve(gradient, len);
        if first {
            gradient[..len].fill(F::ZERO);
        } else {
            gradient[..len].copy_from_slice(sum);
        }
    }
}

impl<F: Real> Record<F> {
    /// Takes a batch in.
    pub fn load(&mut self, x: &[F]) {
        reserve(&mut self.input, x.len());
        self.input[..x.len()].copy_from_slice(x);
    }
    /// Takes in the value of number `index`, as if the steps before it had been run.
    pub fn load_at(&mut self, net: &Network, index: usize, x: &[F]) {
        if self.kept.len() < net.steps.len() {
            self.kept.resize_with(net.steps.len(), Kept::default);
        }
        let target = match index.checked_sub(1) {
            None => &mut self.input,
            Some(i) => &mut self.kept[i].value,
        };
        reserve(target, x.len());
        target[..x.len()].copy_from_slice(x);
    }
    /// The value of number `index`.
    pub fn value(&self, index: usize, len: usize) -> &[F] {
        &Values { input: &self.input, kept: &self.kept }.get(index)[..len]
    }
    #[allow(clippy::too_many_arguments)]
    /// Runs steps of `net`. With `recording`, normalisations use the batch's statistics and mix them into these buffers.
    pub fn forward(
        &mut self,
        net: &Network,
        steps: Range<usize>,
        rows: usize,
        params: &[F],
        buffers: &mut Buffers<F>,
        recording: bool,
        scratch: &mut Scratch<F>,
    ) {
        if self.kept.len() < net.steps.len() {
            self.kept.resize_with(net.steps.len(), Kept::default);
        }
        let rounds = net.precision == Precision::Bf16;
        if rounds {
            precision::round_weights(net, steps.clone(), params, &mut self.weights);
        }
        for index in steps {
            let step = &net.steps[index];
            let (before, after) = self.kept.split_at_mut(index);
            let values = Values { input: &self.input, kept: before };
            let (mut x, mut factors) = (values.get(step.from), params);
            let mut rounded = std::mem::take(&mut after[0].rounded);
            if rounds && precision::rounds::<F>(&step.op) {
                reserve(&mut rounded, rows * step.inputs);
                precision::round(&x[..rows * step.inputs], &mut rounded);
                (x, factors) = (&rounded, &self.weights);
            }
            ops::forward(
                step,
                Forward {
                    rows,
                    inputs: rows * step.inputs,
                    outputs: rows * step.outputs,
                    relu: step.relu,
                    x,
                    values,
                    params: factors,
                    buffers,
                    recording,
                    pairs: rounds && precision::pairs::<F>(&step.op),
                    kept: &mut after[0],
                    scratch,
                },
            );
            after[0].rounded = rounded;
        }
    }
    /// Runs steps of `net` backward from the gradient in `scratch.gradient`, adds to the parameters' gradient or lets them take their
    /// step ([`steppers`]), and leaves the gradient of the first step's input in `scratch.gradient` where it is asked for.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &mut self,
        net: &Network,
        steps: Range<usize>,
        rows: usize,
        mut params: Weights<'_, F>,
        mut gradient: Option<&mut [F]>,
        input_gradient: bool,
        scratch: &mut Scratch<F>,
    ) {
        let (first, end) = (steps.start, steps.end);
        // The two gradients take turns; each has room for the widest from the first step on.
        let widest = self.kept[steps.clone()].iter().map(|kept| kept.value.len()).fold(self.input.len(), usize::max);
        reserve(&mut scratch.gradient, widest);
        reserve(&mut scratch.next, widest);
        scratch.collected.clear(net.steps.len() + 1);
        for index in steps.rev() {
            let step = &net.steps[index];
            if index + 1 < end && net.collects[index + 1] {
                scratch.collected.take(index + 1, rows * step.outputs, &mut scratch.gradient);
            }
            let (before, after) = self.kept.split_at_mut(index);
            let down = step.from > first || input_gradient;
            let mut x = Values { input: &self.input, kept: before }.get(step.from);
            let mut factors = params.stepping(gradient.is_some() && stepper(net, step, rows).is_some());
            let rounded = std::mem::take(&mut after[0].rounded);
            let rounds = net.precision == Precision::Bf16;
            if rounds && precision::factors(&step.op).is_some() {
                precision::round_here(&mut scratch.gradient[..rows * step.outputs]);
            }
            if rounds && precision::rounds::<F>(&step.op) {
                (x, factors) = (&rounded, Weights::Still(&self.weights));
            }
            ops::backward(
                step,
                Backward {
                    rows,
                    inputs: rows * step.inputs,
                    outputs: rows * step.outputs,
                    x,
                    params: factors,
                    gradient: gradient.as_deref_mut(),
                    down: down && !step.op.spreads(),
                    pairs: rounds && precision::pairs::<F>(&step.op),
                    kept: &mut after[0],
                    scratch,
                },
            );
            after[0].rounded = rounded;
            if down && !step.op.spreads() {
                if net.collects[step.from] {
                    scratch.collected.add(step.from, &scratch.next[..rows * step.inputs]);
                } else {
                    std::mem::swap(&mut scratch.gradient, &mut scratch.next);
                }
            }
        }
        if input_gradient && net.collects[first] {
            let len = if first == 0 { net.input().numel() } else { net.steps[first - 1].outputs };
            scratch.collected.take(first, rows * len, &mut scratch.gradient);
        }
    }
}
