//! Each operation as an expression of dfdx on a tape.
//!
//! A clone of a tensor keeps its identity, and an operation on two tensors of one identity panics; where a value is used twice,
//! each use has a tape of its own, and dfdx merges them in the order of their making.

use super::places::Sliding;
use super::{Constants, Matrix, Numbers, Taped, vector};
use crate::engine::kernels::{Conv, Window};
use crate::engine::ops::activation::Activation;
use crate::engine::ops::attention::Attention;
use crate::engine::ops::embedding::Embedding;
use crate::engine::ops::group_norm::GroupNorm;
use crate::engine::ops::grouped::Grouped;
use crate::engine::ops::lstm::{Lstm, order};
use crate::engine::ops::norm::Norm;
use crate::engine::ops::{Op, Step, attention, dropout};
use crate::engine::params::Buffers;
use crate::engine::steps::Noise;
use dfdx::prelude::*;
use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};
use std::ops::Range;

type Tape1<D> = Tensor<(usize,), f32, D, OwnedTape<f32, D>>;

/// What an expression needs beside the values.
pub(super) struct Context<'a, D: Device<f32>> {
    device: &'a D,
    index: usize,
    rows: usize,
    words: &'a [f32],
    training: bool,
    constants: &'a mut Constants<D>,
    numbers: &'a mut Numbers<D>,
    /// What dropout multiplies by.
    pub factors: Option<&'a Matrix<D>>,
    /// Where a normalisation's statistics go, on the way forward.
    pub buffers: Option<&'a mut Buffers<f32>>,
}

impl<'a, D: Device<f32>> Context<'a, D> {
    pub fn new(
        device: &'a D,
        index: usize,
        rows: usize,
        words: &'a [f32],
        training: bool,
        constants: &'a mut Constants<D>,
        numbers: &'a mut Numbers<D>,
    ) -> Self {
        Self { device, index, rows, words, training, constants, numbers, factors: None, buffers: None }
    }
    fn index(&mut self, what: usize, places: impl FnOnce() -> Vec<usize>) -> Tensor<(usize,), usize, D> {
        let device = self.device;
        let new = || {
            let places = places();
            let len = places.len();
            TensorFromVec::<usize>::tensor_from_vec(device, places, (len,))
        };
        self.constants.indices.entry((self.index, what)).or_insert_with(new).clone()
    }
    fn constant(&mut self, what: usize, values: impl FnOnce() -> Vec<f32>) -> Tensor<(usize,), f32, D> {
        let device = self.device;
        self.constants.values.entry((self.index, what)).or_insert_with(|| vector(device, values())).clone()
    }
    fn parameter(&mut self, range: &Range<usize>) -> Tape1<D> {
        self.numbers.parameter(self.device, range)
    }
    fn table(&mut self, range: &Range<usize>, rows: usize) -> Taped<D> {
        self.parameter(range).reshape_like(&(rows, range.len() / rows))
    }
    /// Adds a bias to each row.
    fn plus(&mut self, y: Taped<D>, bias: Option<&Range<usize>>) -> Taped<D> {
        match bias {
            Some(bias) => {
                let shape = *y.shape();
                y + self.parameter(bias).broadcast_like::<_, Axis<0>>(&shape)
            }
            None => y,
        }
    }
}

/// Draws what a step of dropout multiplies by, in the order of the fused steps; absent for others.
pub(super) fn draw(op: &Op, step: &Step, rows: usize, noise: &mut Noise) -> Option<Vec<f32>> {
    match op {
        Op::Dropout(dropout) => {
            let mut factors = vec![0.0; rows * step.outputs];
            dropout.draw(rows, noise, &mut factors);
            Some(factors)
        }
        Op::Attention(attention) if attention.dropout > 0.0 => {
            let mut factors = vec![0.0; rows * attention.heads * attention.positions * attention.positions];
            dropout::draw(attention.dropout, true, noise, &mut factors);
            Some(factors)
        }
        Op::Lstm(lstm) if lstm.factors(rows) > 0 => {
            let mut factors = vec![0.0; lstm.factors(rows)];
            dropout::draw(lstm.dropout, true, noise, &mut factors);
            Some(factors)
        }
        _ => None,
    }
}

/// A step's value.
pub(super) fn step<D: Device<f32>>(context: &mut Context<'_, D>, step: &Step, x: &Matrix<D>, others: &[Matrix<D>]) -> Taped<D> {
    let rows = context.rows;
    let input = || x.leaky_trace();
    let mut window = None;
    let mut y = match &step.op {
        Op::Conv { conv, weight, bias, window: fused } => {
            window = *fused;
            convolution(context, conv, weight, bias.as_ref(), input())
        }
        Op::Grouped(grouped) => grouped_convolution(context, grouped, input()),
        Op::Linear { weight, bias } => {
            let weight = context.table(weight, step.inputs);
            context.plus(input().matmul(weight), bias.as_ref())
        }
        Op::Dense(dense) => {
            let weight = context.table(&dense.weight, dense.inputs);
            let y = input().reshape_like(&(rows * dense.positions, dense.inputs)).matmul(weight);
            context.plus(y, dense.bias.as_ref()).reshape_like(&(rows, step.outputs))
        }
        Op::Norm(norm) => {
            window = norm.window;
            let y = batch_norm(context, norm, input().reshape_like(&(rows * step.inputs / norm.channels, norm.channels)));
            y.reshape_like(&(rows, step.inputs))
        }
        Op::GroupNorm(norm) => group_norm(context, norm, input()),
        Op::Embedding(embedding) => embed(context, embedding, step),
        Op::Signs(signs) => {
            let table = context.constant(0, || signs.table.iter().map(|&sign| sign as f32).collect());
            input() * signs.scale as f32 + table.broadcast_like::<_, Axis<0>>(&(rows, step.outputs))
        }
        Op::Pick(pick) => {
            // Depends on the words, so it is no constant of the plan.
            let places: Vec<usize> =
                pick.places(rows, context.words).enumerate().map(|(row, place)| row * pick.positions + place).collect();
            let places = TensorFromVec::<usize>::tensor_from_vec(context.device, places, (rows,));
            input().reshape_like(&(rows * pick.positions, pick.width)).gather(places)
        }
        Op::Attention(attention) => attend(context, attention, input()),
        Op::Tokens(tokens) => {
            let token = context.parameter(&tokens.token).broadcast_like::<_, Axis<0>>(&(rows, tokens.width));
            let places = context.parameter(&tokens.places).broadcast_like::<_, Axis<0>>(&(rows, step.outputs));
            (token, input()).concat_along(Axis::<1>) + places
        }
        Op::Pool(alone) => {
            window = Some(*alone);
            input()
        }
        Op::Average(average) => {
            let (pixels, outputs) = (average.pixels, average.rows.len() * average.columns.len());
            let shares = context.constant(0, || average.shares()).reshape_like(&(outputs, pixels));
            let shares = shares.broadcast_like::<_, Axis<0>>(&(rows, outputs, pixels));
            let x = input().reshape_like(&(rows, pixels, average.channels));
            shares.retaped::<OwnedTape<f32, D>>().matmul(x).reshape_like(&(rows, step.outputs))
        }
        Op::Dropout(_) => match context.factors {
            Some(factors) => input() * factors.clone(),
            None => input(),
        },
        Op::Activation(activation) => activate(*activation, x),
        Op::Add(other) if *other == step.from => input() * 2.0,
        Op::Add(_) => input() + others[0].clone().retaped::<OwnedTape<f32, D>>(),
        Op::Concat(parts) => {
            let line: usize = parts.iter().map(|part| part.1).sum();
            let pixels = rows * step.outputs / line;
            let mut joined: Option<Taped<D>> = None;
            for (i, (other, (value, channels))) in others.iter().zip(parts).enumerate() {
                let again = parts[..i].iter().any(|part| part.0 == *value);
                let part = if again { other.leaky_trace() * 1.0 } else { other.leaky_trace() };
                let part = part.reshape_like(&(pixels, *channels));
                joined = Some(match joined {
                    None => part,
                    Some(joined) => (joined, part).concat_along(Axis::<1>),
                });
            }
            joined.expect("a concatenation has parts").reshape_like(&(rows, step.outputs))
        }
        Op::Lstm(lstm) => remember(context, lstm, input()),
        // A ReLU with nothing before it.
        Op::Copy => input(),
    };
    if step.relu {
        y = y.relu();
    }
    match window {
        Some(window) => maximum(context, &window, y),
        None => y,
    }
}

/// What a kernel meets at each output: (rows x outputs x places of the kernel, channels).
fn patches<D: Device<f32>>(context: &mut Context<'_, D>, sliding: Sliding, channels: usize, x: Taped<D>) -> Taped<D> {
    let rows = context.rows;
    let pixels = x.reshape_like(&(rows * sliding.image.0 * sliding.image.1, channels));
    let met = pixels.gather(context.index(0, || sliding.patches(rows)));
    if !sliding.padded() {
        return met;
    }
    let shape = *met.shape();
    met * context.constant(0, || sliding.inside(rows)).broadcast_like::<_, Axis<1>>(&shape)
}

fn convolution<D: Device<f32>>(
    context: &mut Context<'_, D>,
    conv: &Conv,
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    x: Taped<D>,
) -> Taped<D> {
    let sliding = Sliding::from(conv);
    let rows = context.rows;
    let patches = patches(context, sliding, conv.channels, x).reshape_like(&(rows * conv.positions(), conv.patch()));
    let y = patches.matmul(context.table(weight, conv.out).permute::<_, Axes2<1, 0>>());
    context.plus(y, bias).reshape_like(&(rows, conv.positions() * conv.out))
}

fn grouped_convolution<D: Device<f32>>(context: &mut Context<'_, D>, grouped: &Grouped, x: Taped<D>) -> Taped<D> {
    let sliding = Sliding::from(grouped);
    let (rows, groups, taps) = (context.rows, grouped.groups, sliding.area());
    let (inputs, outputs, positions) = (grouped.channels / groups, grouped.out / groups, rows * sliding.outputs());
    let patches = patches(context, sliding, grouped.channels, x).reshape_like(&(positions, taps, groups, inputs));
    let patches = patches.permute::<_, Axes4<2, 0, 1, 3>>().reshape_like(&(groups, positions, taps * inputs));
    // Weights are ordered (place of the kernel, in, out).
    let weight = context.parameter(&grouped.weight).reshape_like(&(taps, inputs, groups, outputs));
    let weight = weight.permute::<_, Axes4<2, 0, 1, 3>>().reshape_like(&(groups, taps * inputs, outputs));
    let y = patches.matmul(weight).permute::<_, Axes3<1, 0, 2>>().reshape_like(&(positions, grouped.out));
    context.plus(y, grouped.bias.as_ref()).reshape_like(&(rows, sliding.outputs() * grouped.out))
}

/// The greatest of each window; of equal ones the first is chosen, and alone has a gradient.
fn maximum<D: Device<f32>>(context: &mut Context<'_, D>, window: &Window, x: Taped<D>) -> Taped<D> {
    let sliding = Sliding::from(window);
    let rows = context.rows;
    let (x, mut tape) = x.reshape_like(&(rows * window.height * window.width, window.channels)).split_tape();
    let mut best: Option<Matrix<D>> = None;
    // Numbers of constants: a convolution before the pool has 0.
    for element in 0..window.area() {
        let places = context.index(1 + element, || sliding.tap(rows, element));
        // One tape is handed from element to element.
        let mut values = x.clone().put_tape(tape).gather(places);
        if sliding.padded() {
            let shape = *values.shape();
            values = values + context.constant(1 + element, || sliding.beyond(rows, element)).broadcast_like::<_, Axis<1>>(&shape);
        }
        let chosen: Taped<D> = match best {
            None => values,
            Some(best) => {
                let (values, tape) = values.split_tape();
                values.gt(&best).choose(values.put_tape(tape), best.leaky_traced())
            }
        };
        let (plain, rest) = chosen.split_tape();
        (best, tape) = (Some(plain), rest);
    }
    let best = best.expect("a window has an element").put_tape(tape);
    best.reshape_like(&(rows, sliding.outputs() * window.channels))
}

/// Normalisation of each column.
fn batch_norm<D: Device<f32>>(context: &mut Context<'_, D>, norm: &Norm, x: Taped<D>) -> Taped<D> {
    let shape = *x.shape();
    let count = shape.0 as f32;
    let (centered, variance) = if context.training {
        let (x, tape) = x.split_tape();
        let mean = x.clone().put_tape(tape).mean::<_, Axis<0>>();
        let batch_mean = context.buffers.is_some().then(|| mean.as_vec());
        let (centered, tape) = (mean.broadcast_like::<_, Axis<0>>(&shape).negate() + x).split_tape();
        let variance = centered.clone().put_tape(tape).square().mean::<_, Axis<0>>();
        if let (Some(buffers), Some(batch_mean)) = (context.buffers.as_deref_mut(), batch_mean) {
            let batch_variance = variance.as_vec();
            let blend = |old: &mut f32, new: f32| *old = (0.9 * f64::from(*old) + 0.1 * f64::from(new)) as f32;
            for c in 0..norm.channels {
                blend(&mut buffers.values[norm.mean.start + c], batch_mean[c]);
                if count > 1.0 {
                    blend(&mut buffers.values[norm.variance.start + c], batch_variance[c] * count / (count - 1.0));
                }
            }
            buffers.counters[norm.counter] += 1;
        }
        (centered.leaky_traced(), variance)
    } else {
        let mean = context.numbers.statistic(context.device, &norm.mean);
        let variance = context.numbers.statistic(context.device, &norm.variance);
        (x - mean.broadcast_like::<_, Axis<0>>(&shape), variance.leaky_traced())
    };
    let scale = (variance + norm.eps as f32).sqrt().recip() * context.parameter(&norm.weight);
    let y = scale.broadcast_like::<_, Axis<0>>(&shape) * centered;
    context.plus(y, Some(&norm.bias))
}

/// Normalisation of groups of channels of blocks of pixels.
fn group_norm<D: Device<f32>>(context: &mut Context<'_, D>, norm: &GroupNorm, x: Taped<D>) -> Taped<D> {
    let whole = *x.shape();
    let (channels, width) = (norm.channels, norm.channels / norm.groups);
    let lines = whole.0 * whole.1 / channels;
    let shape = (lines / norm.pixels, norm.pixels, norm.groups, width);
    let (x, tape) = x.reshape_like(&shape).split_tape();
    let mean = x.clone().put_tape(tape).mean::<_, Axes2<1, 3>>();
    let (centered, tape) = (mean.broadcast_like::<_, Axes2<1, 3>>(&shape).negate() + x).split_tape();
    let variance = centered.clone().put_tape(tape).square().mean::<_, Axes2<1, 3>>();
    let scale = (variance + norm.eps as f32).sqrt().recip();
    let y = (scale.broadcast_like::<_, Axes2<1, 3>>(&shape) * centered).reshape_like(&(lines, channels));
    let shared = context.index(0, || (0..channels).map(|channel| channel / norm.share).collect());
    let weight = context.parameter(&norm.weight).gather(shared.clone()).broadcast_like::<_, Axis<0>>(&(lines, channels));
    let bias = context.parameter(&norm.bias).gather(shared).broadcast_like::<_, Axis<0>>(&(lines, channels));
    (y * weight + bias).reshape_like(&whole)
}

/// Rows of a table.
fn embed<D: Device<f32>>(context: &mut Context<'_, D>, embedding: &Embedding, step: &Step) -> Taped<D> {
    let words: Vec<usize> = context.words.iter().map(|&word| embedding.row(word)).collect();
    let len = words.len();
    let words = TensorFromVec::<usize>::tensor_from_vec(context.device, words, (len,));
    context.table(&embedding.weight, embedding.words).gather(words).reshape_like(&(context.rows, step.outputs))
}

/// Self-attention of several heads.
fn attend<D: Device<f32>>(context: &mut Context<'_, D>, attention: &Attention, x: Taped<D>) -> Taped<D> {
    let Attention { width, positions, heads, .. } = *attention;
    let (rows, depth) = (context.rows, width / heads);
    let tokens = rows * positions;
    let all = x.reshape_like(&(tokens, width)).matmul(context.table(&attention.in_weight, width));
    let (all, tape) = context.plus(all, Some(&attention.in_bias)).split_tape();
    let head = |all: Taped<D>, part: usize| {
        let own = all.slice((.., part * width..(part + 1) * width)).reshape_like(&(rows, positions, heads, depth));
        own.permute::<_, Axes4<0, 2, 1, 3>>().reshape_like(&(rows * heads, positions, depth))
    };
    let query = head(all.clone().put_tape(tape), 0);
    let key = head(all.leaky_trace(), 1);
    let value = head(all.leaky_trace(), 2);
    let scores = query.matmul(key.permute::<_, Axes3<0, 2, 1>>()) * attention::factor(depth) as f32;
    let all = *scores.shape();
    let mut weights = scores.reshape_like(&(tokens * heads, positions)).softmax::<Axis<1>>().reshape_like(&all);
    if let Some(factors) = context.factors {
        weights = weights * factors.clone().reshape_like(&(rows * heads, positions, positions));
    }
    let given = weights.matmul(value).reshape_like(&(rows, heads, positions, depth));
    let given = given.permute::<_, Axes4<0, 2, 1, 3>>().reshape_like(&(tokens, width));
    let y = given.matmul(context.table(&attention.out_weight, width));
    context.plus(y, Some(&attention.out_bias)).reshape_like(&(rows, positions * width))
}

/// A long short-term memory: all its layers, each one way or both ways.
fn remember<D: Device<f32>>(context: &mut Context<'_, D>, lstm: &Lstm, x: Taped<D>) -> Taped<D> {
    let (rows, hidden, positions) = (context.rows, lstm.hidden, lstm.positions);
    let tokens = rows * positions;
    let mut drawn = 0;
    let mut x = x.reshape_like(&(tokens, lstm.layers[0][0].inputs));
    for (layer, cells) in lstm.layers.iter().enumerate() {
        let width = cells[0].inputs;
        if let (Some(factors), true) = (context.factors, layer > 0) {
            // They were drawn position by position, each with the whole batch.
            let all = factors.clone().reshape_like(&(lstm.factors(rows),));
            let own = all.slice((drawn..drawn + tokens * width,)).reshape_like(&(positions, rows, width));
            x = x * own.permute::<_, Axes3<1, 0, 2>>().reshape_like(&(tokens, width));
            drawn += tokens * width;
        }
        let (plain, tape) = x.split_tape();
        let mut ways = Vec::new();
        let mut tape = Some(tape);
        for cell in cells {
            let x = plain.clone().put_tape(tape.take().unwrap_or_default());
            let gates = x.matmul(context.table(&cell.input, width));
            let (gates, mut gates_tape) = context.plus(gates, Some(&cell.input_bias)).split_tape();
            let mut states: Vec<Option<Taped<D>>> = (0..positions).map(|_| None).collect();
            let mut before: Option<(Matrix<D>, Matrix<D>)> = None;
            for (at, _) in order(positions, cell.backward) {
                let places = context.index(at, || (0..rows).map(|row| row * positions + at).collect());
                let sums = gates.clone().put_tape(std::mem::take(&mut gates_tape)).gather(places);
                let sums = match &before {
                    Some((state, _)) => sums + state.leaky_trace().matmul(context.table(&cell.state, hidden)),
                    None => sums,
                };
                let (sums, sums_tape) = context.plus(sums, Some(&cell.state_bias)).split_tape();
                let gate = |tape: OwnedTape<f32, D>, number: usize| {
                    sums.clone().put_tape(tape).slice((.., number * hidden..(number + 1) * hidden)).reshape_like(&(rows, hidden))
                };
                let new = gate(sums_tape, 0).sigmoid() * gate(OwnedTape::default(), 2).tanh();
                let memory = match &before {
                    Some((_, memory)) => new + gate(OwnedTape::default(), 1).sigmoid() * memory.leaky_trace(),
                    None => new,
                };
                let (memory, memory_tape) = memory.split_tape();
                let state = gate(OwnedTape::default(), 3).sigmoid() * memory.clone().put_tape(memory_tape).tanh();
                let (state, tape) = state.split_tape();
                states[at] = Some(state.clone().put_tape(tape));
                before = Some((state, memory));
            }
            let all: Vec<Taped<D>> = states.into_iter().flatten().collect();
            ways.push(all.stack().permute::<_, Axes3<1, 0, 2>>().reshape_like(&(tokens, hidden)));
        }
        x = ways.into_iter().reduce(|one, other| (one, other).concat_along(Axis::<1>)).expect("a layer has a cell");
    }
    let width = lstm.layers.last().map_or(0, |cells| cells.len() * hidden);
    x.reshape_like(&(rows, positions * width))
}

fn activate<D: Device<f32>>(activation: Activation, x: &Matrix<D>) -> Taped<D> {
    let input = || x.leaky_trace();
    match activation {
        Activation::Sigmoid => input().sigmoid(),
        Activation::Tanh => input().tanh(),
        Activation::Gelu => {
            // dfdx 0.13 has Phi + sqrt(2) x phi in place of the derivative Phi + x phi. The density phi, whose derivative is -x phi, puts
            // it right; subtracted from itself it changes no value.
            let (density, tape) = ((input().square() * -0.5).exp() * (0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI)).split_tape();
            let still = density.clone() * 1.0;
            input().accurate_gelu() + (density.put_tape(tape) - still) * (SQRT_2 - 1.0)
        }
        Activation::Silu => input().sigmoid() * x.clone().retaped::<OwnedTape<f32, D>>(),
        Activation::LeakyRelu { slope } => input().relu() + (input().negate().relu() * -(slope as f32)),
        Activation::Relu6 => input().relu().clamp(0.0, 6.0),
    }
}
