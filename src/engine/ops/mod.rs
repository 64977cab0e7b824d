//! The operations that steps are made of, one file each: how it is planned, forward, and backward.
//!
//! A new operation is a file here with `plan`, `forward` and `backward`, a variant of [`Op`] with its arms in this file, and a
//! `Layer` (with its arms in `network` and `plan`) by which models name it. An operation reads its input and writes its output; which
//! values those are, and where gradients of several readers meet, is the business of `steps`.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod average;
pub(super) mod conv;
pub(super) mod dropout;
pub(super) mod embedding;
pub(super) mod group_norm;
pub(super) mod grouped;
pub(super) mod join;
pub(super) mod linear;
pub(super) mod lstm;
pub(super) mod norm;
pub(super) mod pool;
pub(super) mod positions;
pub(super) mod tokens;

use super::kernels::{Conv, MOST_ROWS, Window, relu, relu_backward, reserve};
use super::params::Buffers;
use super::real::Real;
use super::steps::{Kept, Scratch, Values, Weights};
use activation::Activation;
use attention::Attention;
use average::Average;
use dropout::Dropout;
use embedding::Embedding;
use group_norm::GroupNorm;
use grouped::Grouped;
use lstm::Lstm;
use norm::Norm;
use positions::{Dense, Pick, Signs};
use smallvec::SmallVec;
use std::ops::Range;

/// One step of the plan: a layer, or several that are computed in one pass. The value that step `i` makes has the number `i + 1`;
/// value 0 is the network's input.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub op: Op,
    /// The value that it reads.
    pub from: usize,
    /// Numbers of one sample that come in.
    pub inputs: usize,
    /// Numbers of one sample that go out.
    pub outputs: usize,
    /// Whether a ReLU is applied to the result.
    pub relu: bool,
}

/// A part of a concatenation: a value and its channels.
pub(super) type Joined = SmallVec<[(usize, usize); 4]>;

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
    GroupNorm(GroupNorm),
    Grouped(Grouped),
    Embedding(Embedding),
    Dense(Dense),
    Signs(Signs),
    Pick(Pick),
    Lstm(Lstm),
    Attention(Attention),
    Pool(Window),
    Average(Average),
    Dropout(Dropout),
    Tokens(tokens::Tokens),
    Activation(Activation),
    /// The sum with another value.
    Add(usize),
    /// Values beside each other in every pixel; the step's own input is one of them.
    Concat(Joined),
    /// The values as they are: a ReLU with nothing before it.
    Copy,
}

impl Op {
    /// The values that it reads beside the step's input. Those of a concatenation are all here, so that their gradients meet alike.
    pub fn others(&self) -> Joined {
        match self {
            Self::Add(other) => SmallVec::from_slice(&[(*other, 0)]),
            Self::Concat(parts) => parts.clone(),
            _ => SmallVec::new(),
        }
    }
    /// The weight that takes its step on the way back of a batch of so many rows: a large one of a dense layer, whose gradient would have to
    /// be carried to memory and back. A small one stays in the second cache beside its gradient, and is a few percent faster apart.
    pub fn stepper(&self, rows: usize) -> Option<&Range<usize>> {
        /// Numbers of a weight that does not stay in the second cache beside its gradient.
        const MANY: usize = 100_000;
        match self {
            Self::Linear { weight, .. } if rows <= MOST_ROWS && weight.len() >= MANY => Some(weight),
            _ => None,
        }
    }
    /// Whether all gradients of what it reads go to the others, none to the step's input.
    pub fn spreads(&self) -> bool {
        matches!(self, Self::Concat(_))
    }
    /// Whether the ReLU is part of the operation itself, forward and backward.
    fn clamps(&self) -> (bool, bool) {
        match self {
            Self::Conv { window, .. } => (true, window.is_some()),
            Self::Linear { .. } => (true, false),
            Self::Norm(norm) => (true, norm.window.is_some()),
            _ => (false, false),
        }
    }
}

/// What a step sees on the way forward.
pub(super) struct Forward<'a, F> {
    pub rows: usize,
    /// Numbers of the whole batch that come in.
    pub inputs: usize,
    /// Numbers of the whole batch that go out.
    pub outputs: usize,
    pub relu: bool,
    /// The input, with slack behind it.
    pub x: &'a [F],
    /// All earlier values.
    pub values: Values<'a, F>,
    pub params: &'a [F],
    pub buffers: &'a mut Buffers<F>,
    /// Whether statistics of the batch are used and recorded.
    pub recording: bool,
    /// Whether factors are multiplied as pairs of bf16 numbers.
    pub pairs: bool,
    /// Its own memory; `value` has room for the output.
    pub kept: &'a mut Kept<F>,
    pub scratch: &'a mut Scratch<F>,
}

/// What a step sees on the way back: the output's gradient is in `scratch.gradient`, the input's goes to `scratch.next`.
pub(super) struct Backward<'a, F> {
    pub rows: usize,
    /// Numbers of the whole batch that came in.
    pub inputs: usize,
    /// Numbers of the whole batch that went out.
    pub outputs: usize,
    pub x: &'a [F],
    pub params: Weights<'a, F>,
    /// The gradient of all parameters, where they get one; added to.
    pub gradient: Option<&'a mut [F]>,
    /// Whether the input's gradient is wanted.
    pub down: bool,
    /// As on the way forward.
    pub pairs: bool,
    pub kept: &'a mut Kept<F>,
    pub scratch: &'a mut Scratch<F>,
}

/// Runs one step.
pub(super) fn forward<F: Real>(step: &Step, mut pass: Forward<'_, F>) {
    reserve(&mut pass.kept.value, pass.outputs);
    match &step.op {
        Op::Conv { conv, weight, bias, window } => conv::forward(conv, weight, bias.as_ref(), *window, &mut pass),
        Op::Linear { weight, bias } => linear::forward(step, weight, bias.as_ref(), &mut pass),
        Op::Norm(norm) => norm::forward(norm, &mut pass),
        Op::GroupNorm(norm) => group_norm::forward(norm, &mut pass),
        Op::Grouped(grouped) => grouped::forward(grouped, &mut pass),
        Op::Embedding(embedding) => embedding::forward(embedding, &mut pass),
        Op::Dense(dense) => positions::forward(dense, &mut pass),
        Op::Signs(signs) => positions::signs_forward(signs, &mut pass),
        Op::Pick(pick) => positions::pick_forward(*pick, &mut pass),
        Op::Lstm(lstm) => lstm::forward(lstm, &mut pass),
        Op::Attention(attention) => attention::forward(attention, &mut pass),
        Op::Pool(window) => pool::forward(window, &mut pass),
        Op::Average(average) => average::forward(average, &mut pass),
        Op::Dropout(dropout) => dropout::forward(dropout, &mut pass),
        Op::Tokens(tokens) => tokens::forward(tokens, &mut pass),
        Op::Activation(activation) => activation::forward(*activation, &mut pass),
        Op::Add(other) => join::add(*other, &mut pass),
        Op::Concat(parts) => join::concat(parts, &mut pass),
        Op::Copy => pass.kept.value[..pass.outputs].copy_from_slice(&pass.x[..pass.inputs]),
    }
    if step.relu && !step.op.clamps().0 {
        relu(&mut pass.kept.value[..pass.outputs]);
    }
}

/// Runs one step backward. What it read beside its input gets its gradient there, too.
pub(super) fn backward<F: Real>(step: &Step, mut pass: Backward<'_, F>) {
    if step.relu && !step.op.clamps().1 {
        relu_backward(&mut pass.scratch.gradient[..pass.outputs], &pass.kept.value[..pass.outputs]);
    }
    if pass.down {
        reserve(&mut pass.scratch.next, pass.inputs);
    }
    match &step.op {
        Op::Conv { conv, weight, bias, window } => conv::backward(conv, weight, bias.as_ref(), *window, &mut pass),
        Op::Linear { weight, bias } => linear::backward(step, weight, bias.as_ref(), &mut pass),
        Op::Norm(norm) => norm::backward(norm, &mut pass),
        Op::GroupNorm(norm) => group_norm::backward(norm, &mut pass),
        Op::Grouped(grouped) => grouped::backward(grouped, &mut pass),
        Op::Embedding(embedding) => embedding::backward(embedding, &mut pass),
        Op::Dense(dense) => positions::backward(dense, &mut pass),
        Op::Signs(signs) => positions::signs_backward(signs, &mut pass),
        Op::Pick(pick) => positions::pick_backward(*pick, &mut pass),
        Op::Lstm(lstm) => lstm::backward(lstm, &mut pass),
        Op::Attention(attention) => attention::backward(attention, &mut pass),
        Op::Pool(window) => pool::backward(window, &mut pass),
        Op::Average(average) => average::backward(average, &mut pass),
        Op::Dropout(_) => dropout::backward(&mut pass),
        Op::Tokens(tokens) => tokens::backward(tokens, &mut pass),
        Op::Activation(activation) => activation::backward(*activation, &mut pass),
        Op::Add(other) => join::add_backward(*other, &mut pass),
        Op::Concat(parts) => join::concat_backward(parts, &mut pass),
        Op::Copy => {
            if pass.down {
                pass.scratch.next[..pass.inputs].copy_from_slice(&pass.scratch.gradient[..pass.inputs]);
            }
        }
    }
}

/// The gradients of a weight and of the bias that follows it.
pub(super) fn split<'a, F>(
    gradient: Option<&'a mut [F]>,
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
) -> (Option<&'a mut [F]>, Option<&'a mut [F]>) {
    let Some(gradient) = gradient else { return (None, None) };
    match bias {
        None => (Some(&mut gradient[weight.clone()]), None),
        Some(bias) => {
            let (head, tail) = gradient.split_at_mut(bias.start);
            (Some(&mut head[weight.clone()]), Some(&mut tail[..bias.len()]))
        }
    }
}
