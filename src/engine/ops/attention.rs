//! Self-attention with several heads over a sequence, as torch's `MultiheadAttention` without masks.
//!
//! For each head, every position weighs all positions by the softmax of scaled products. Keys, values and their gradients are turned,
//! so that all inner loops run along positions; a few tokens share what is read.

use super::{Backward, Forward, Op, dropout};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearForward, SLACK, greatest, reserve, sum, sum_of_products};
use crate::engine::layout::{Init, Order};
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// Shapes, and where the parameters are.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Attention {
    pub width: usize,
    pub positions: usize,
    pub heads: usize,
    /// Probability that a weight is dropped.
    pub dropout: f64,
    pub in_weight: Range<usize>,
    pub in_bias: Range<usize>,
    pub out_weight: Range<usize>,
    pub out_bias: Range<usize>,
}

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, heads: usize, dropout: f64) -> Outcome<()> {
    builder.image_only()?;
    dropout::check(dropout)?;
    positive("heads", heads)?;
    let shape = builder.shape;
    let (width, positions) = (shape.channels, shape.height * shape.width);
    if width % heads != 0 {
        return Err(Fault::stage(format!("{width} channels cannot be divided among {heads} heads")));
    }
    let dense = |outputs| Order::Linear { inputs: width, outputs, channels: 0 };
    let zero = Init::Constant(0.0);
    // Xavier's bound for the three projections in one.
    let xavier = Init::Uniform((6.0 / (4 * width) as f64).sqrt());
    let in_weight = builder.parameter(format!("{name}.in_proj_weight"), vec![3 * width, width], dense(3 * width), xavier)?;
    let in_bias = builder.parameter(format!("{name}.in_proj_bias"), vec![3 * width], Order::Plain, zero)?;
    let out_weight = builder.parameter(format!("{name}.out_proj.weight"), vec![width, width], dense(width), Init::fan_in(width))?;
    let out_bias = builder.parameter(format!("{name}.out_proj.bias"), vec![width], Order::Plain, zero)?;
    builder.end_layer();
    builder.step(Op::Attention(Attention { width, positions, heads, dropout, in_weight, in_bias, out_weight, out_bias }), shape)
}

impl Attention {
    /// Numbers that are kept of a batch: queries, keys and values; weights; what the heads give; factors of dropout, where there is some.
    fn kept(&self, rows: usize) -> [usize; 4] {
        let (tokens, line) = (rows * self.positions, Head::row(self.positions));
        let factors = if self.dropout > 0.0 { tokens * self.heads * self.positions } else { 0 };
        [3 * tokens * self.width, tokens * self.heads * line, tokens * self.width, factors]
    }
    fn head(&self, head: usize) -> Head {
        let depth = self.width / self.heads;
        let query = head * depth;
        let (key, value) = (self.width + query, 2 * self.width + query);
        Head { depth, positions: self.positions, line: 3 * self.width, query, key, value }
    }
    /// Numbers of room for a head forward and backward.
    fn room(&self) -> (usize, usize) {
        let (line, depth) = (Head::row(self.positions), self.width / self.heads);
        ((2 * depth + TOKENS) * line, (4 * depth + 2 * TOKENS) * line)
    }
}

/// Cuts a buffer into parts of these lengths.
fn parts<F, const N: usize>(mut rest: &mut [F], sizes: [usize; N]) -> [&mut [F]; N] {
    sizes.map(|size| {
        let (part, after) = std::mem::take(&mut rest).split_at_mut(size);
        rest = after;
        part
    })
}

/// What scores of heads of that depth are multiplied by.
pub(in crate::engine) fn factor(depth: usize) -> f64 {
    1.0 / (depth as f64).sqrt()
}

/// Tokens at a time.
const TOKENS: usize = 4;

/// One head of one sample: where its numbers begin in a token's line of queries, keys and values.
#[derive(Clone, Copy)]
struct Head {
    depth: usize,
    positions: usize,
    /// Of a token: queries, keys and values of all heads.
    line: usize,
    query: usize,
    key: usize,
    value: usize,
}

impl Head {
    /// Numbers of a row of one for each position, filled up to whole packs of every instruction set.
    fn row(positions: usize) -> usize {
        positions.next_multiple_of(SLACK)
    }
    /// What scores are multiplied by.
    fn factor(&self) -> f64 {
        factor(self.depth)
    }
    /// The channels from `start` on as rows along the positions.
    #[inline(always)]
    fn turn<F: Real>(&self, from: &[F], start: usize, to: &mut [F]) {
        let row = Self::row(self.positions);
        for (t, token) in from.chunks_exact(self.line).enumerate() {
            for (to, &value) in to[t..].iter_mut().step_by(row).zip(&token[start..start + self.depth]) {
                *to = value;
            }
        }
        for to in to.chunks_exact_mut(row) {
            to[self.positions..].fill(F::ZERO);
        }
    }
    /// The way back of [`Head::turn`].
    #[inline(always)]
    fn turn_back<F: Real>(&self, from: &[F], start: usize, to: &mut [F]) {
        for (t, token) in to.chunks_exact_mut(self.line).enumerate() {
            for (to, from) in token[start..start + self.depth].iter_mut().zip(from[t..].iter().step_by(Self::row(self.positions))) {
                *to = *from;
            }
        }
    }
}

/// `out[t] = sum over channels c of tokens[t][c] * rows[c]`.
#[inline(always)]
fn mix<F: Real, S: Simd, const T: usize>(simd: S, tokens: [&[F]; T], rows: &[F], out: &mut [F]) {
    let (rows, _) = F::packs::<S>(rows);
    let (out, _) = F::packs_mut::<S>(out);
    let packs = out.len() / T;
    for p in 0..packs {
        let mut sums = [F::splat(simd, F::ZERO); T];
        for c in 0..tokens[0].len() {
            let row = rows[c * packs + p];
            for t in 0..T {
                sums[t] = F::pack_mul_add(simd, F::splat(simd, tokens[t][c]), row, sums[t]);
            }
        }
        for t in 0..T {
            out[t * packs + p] = sums[t];
        }
    }
}

/// `rows[c] += sum over t of tokens[t][c] * by[t]`.
#[inline(always)]
fn spread<F: Real, S: Simd, const T: usize>(simd: S, tokens: [&[F]; T], by: &[F], rows: &mut [F]) {
    let (by, _) = F::packs::<S>(by);
    let (rows, _) = F::packs_mut::<S>(rows);
    let packs = by.len() / T;
    for c in 0..tokens[0].len() {
        let mut factors = [F::splat(simd, F::ZERO); T];
        for t in 0..T {
            factors[t] = F::splat(simd, tokens[t][c]);
        }
        let row = &mut rows[c * packs..(c + 1) * packs];
        for p in 0..packs {
            let mut sum = row[p];
            for t in 0..T {
                sum = F::pack_mul_add(simd, factors[t], by[t * packs + p], sum);
            }
            row[p] = sum;
        }
    }
}

/// `out[t * line + c] = by[t] . rows[c]`, for as many channels as there are rows.
#[inline(always)]
fn gather<F: Real, S: Simd, const T: usize>(simd: S, by: &[F], rows: &[F], out: &mut [F], line: usize) {
    let (by, _) = F::packs::<S>(by);
    let (rows, _) = F::packs::<S>(rows);
    let packs = by.len() / T;
    let depth = rows.len() / packs;
    let mut c = 0;
    while c < depth {
        c += match depth - c {
            left if left >= 4 => products::<F, S, T, 4>(simd, by, &rows[c * packs..], packs, &mut out[c..], line),
            _ => products::<F, S, T, 1>(simd, by, &rows[c * packs..], packs, &mut out[c..], line),
        };
    }
}

#[inline(always)]
fn products<F: Real, S: Simd, const T: usize, const C: usize>(
    simd: S,
    by: &[F::Pack<S>],
    rows: &[F::Pack<S>],
    packs: usize,
    out: &mut [F],
    line: usize,
) -> usize {
    let mut sums = [[F::splat(simd, F::ZERO); C]; T];
    for p in 0..packs {
        for t in 0..T {
            let by = by[t * packs + p];
            for c in 0..C {
                sums[t][c] = F::pack_mul_add(simd, by, rows[c * packs + p], sums[t][c]);
            }
        }
    }
    for (t, sums) in sums.iter().enumerate() {
        for (c, &sum) in sums.iter().enumerate() {
            out[t * line + c] = F::pack_sum(simd, sum);
        }
    }
    C
}

/// Multiplies by the factors of dropout, where there are some.
#[inline(always)]
fn scale<F: Real>(values: &mut [F], factors: &[F]) {
    for (value, &factor) in values.iter_mut().zip(factors) {
        *value *= factor;
    }
}

struct HeadsForward<'a, F> {
    attention: &'a Attention,
    rows: usize,
    qkv: &'a [F],
    weights: &'a mut [F],
    /// Of each weight, or empty.
    factors: &'a [F],
    heads: &'a mut [F],
    /// Keys and values of a head by channels, and the weights of some tokens after dropout.
    room: &'a mut [F],
}

impl<F: Real> WithSimd for HeadsForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Attention { positions, heads, .. } = *self.attention;
        for row in 0..self.rows {
            for head in 0..heads {
                let mut t = 0;
                while t < positions {
                    t += match positions - t {
                        left if left >= TOKENS => self.tokens::<S, TOKENS>(simd, row, head, t),
                        _ => self.tokens::<S, 1>(simd, row, head, t),
                    };
                }
            }
        }
    }
}

impl<F: Real> HeadsForward<'_, F> {
    /// Tokens from `t` on; the first ones turn keys and values. Returns `T`.
    #[inline(always)]
    fn tokens<S: Simd, const T: usize>(&mut self, simd: S, row: usize, head: usize, t: usize) -> usize {
        let Attention { width, positions, heads, .. } = *self.attention;
        let own = self.attention.head(head);
        let line = Head::row(positions);
        let qkv = &self.qkv[row * positions * own.line..][..positions * own.line];
        let [keys, values, used] = parts(self.room, [own.depth * line, own.depth * line, TOKENS * line]);
        if t == 0 {
            own.turn(qkv, own.key, keys);
            own.turn(qkv, own.value, values);
        }
        let first = (row * heads + head) * positions + t;
        let weights = &mut self.weights[first * line..][..T * line];
        let mut queries: [&[F]; T] = [&[]; T];
        for (i, query) in queries.iter_mut().enumerate() {
            *query = &qkv[(t + i) * own.line + own.query..][..own.depth];
        }
        mix(simd, queries, keys, weights);
        let factor = F::from_f64(own.factor());
        for weights in weights.chunks_exact_mut(line) {
            let (weights, rest) = weights.split_at_mut(positions);
            softmax(weights, factor);
            rest.fill(F::ZERO);
        }
        let used = &mut used[..T * line];
        used.copy_from_slice(weights);
        if !self.factors.is_empty() {
            for (used, factors) in used.chunks_exact_mut(line).zip(self.factors[first * positions..].chunks_exact(positions)) {
                scale(used, factors);
            }
        }
        gather::<F, S, T>(simd, used, values, &mut self.heads[(row * positions + t) * width + own.query..], width);
        T
    }
}

/// The softmax of `factor` times the values, in place.
#[inline(always)]
fn softmax<F: Real>(values: &mut [F], factor: F) {
    let most = greatest(values);
    for value in values.iter_mut() {
        *value = ((*value - most) * factor).exp();
    }
    let sum = F::from_f64(sum(values));
    let share = F::ONE / sum;
    for value in values.iter_mut() {
        *value *= share;
    }
}

struct HeadsBackward<'a, F> {
    attention: &'a Attention,
    rows: usize,
    qkv: &'a [F],
    weights: &'a [F],
    factors: &'a [F],
    d_heads: &'a [F],
    d_qkv: &'a mut [F],
    /// Keys, values and their gradients of a head by channels; of some tokens the weights after dropout and their gradients.
    room: &'a mut [F],
}

impl<F: Real> WithSimd for HeadsBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Attention { positions, heads, .. } = *self.attention;
        for row in 0..self.rows {
            for head in 0..heads {
                let mut t = 0;
                while t < positions {
                    t += match positions - t {
                        left if left >= TOKENS => self.tokens::<S, TOKENS>(simd, row, head, t),
                        _ => self.tokens::<S, 1>(simd, row, head, t),
                    };
                }
            }
        }
    }
}

impl<F: Real> HeadsBackward<'_, F> {
    /// Tokens from `t` on; the first ones turn keys and values, the last ones turn back their gradients. Returns `T`.
    #[inline(always)]
    fn tokens<S: Simd, const T: usize>(&mut self, simd: S, row: usize, head: usize, t: usize) -> usize {
        let Attention { width, positions, heads, .. } = *self.attention;
        let own = self.attention.head(head);
        let line = Head::row(positions);
        let all = row * positions * own.line..(row + 1) * positions * own.line;
        let (qkv, d_qkv) = (&self.qkv[all.clone()], &mut self.d_qkv[all]);
        let by_channels = own.depth * line;
        let sizes = [by_channels, by_channels, by_channels, by_channels, TOKENS * line, TOKENS * line];
        let [keys, values, d_keys, d_values, used, d_weights] = parts(self.room, sizes);
        if t == 0 {
            own.turn(qkv, own.key, keys);
            own.turn(qkv, own.value, values);
            d_keys.fill(F::ZERO);
            d_values.fill(F::ZERO);
        }
        let first = (row * heads + head) * positions + t;
        let weights = &self.weights[first * line..][..T * line];
        let (mut queries, mut d_out): ([&[F]; T], [&[F]; T]) = ([&[]; T], [&[]; T]);
        for i in 0..T {
            queries[i] = &qkv[(t + i) * own.line + own.query..][..own.depth];
            d_out[i] = &self.d_heads[(row * positions + t + i) * width + own.query..][..own.depth];
        }
        let (used, d_weights) = (&mut used[..T * line], &mut d_weights[..T * line]);
        mix(simd, d_out, values, d_weights);
        used.copy_from_slice(weights);
        if !self.factors.is_empty() {
            let factors = self.factors[first * positions..].chunks_exact(positions);
            for ((used, d_weights), factors) in used.chunks_exact_mut(line).zip(d_weights.chunks_exact_mut(line)).zip(factors) {
                scale(used, factors);
                scale(d_weights, factors);
            }
        }
        spread(simd, d_out, used, d_values);
        // Through the softmax, and the scale before it.
        let factor = F::from_f64(own.factor());
        for (weights, d_weights) in weights.chunks_exact(line).zip(d_weights.chunks_exact_mut(line)) {
            let mean = F::from_f64(sum_of_products(weights, d_weights, F::ZERO));
            for (&weight, d) in weights.iter().zip(d_weights.iter_mut()) {
                *d = weight * (*d - mean) * factor;
            }
        }
        spread(simd, queries, d_weights, d_keys);
        gather::<F, S, T>(simd, d_weights, keys, &mut d_qkv[t * own.line + own.query..], own.line);
        if t + T == positions {
            own.turn_back(d_keys, own.key, d_qkv);
            own.turn_back(d_values, own.value, d_qkv);
        }
        T
    }
}

pub(super) fn forward<F: Real>(attention: &Attention, pass: &mut Forward<'_, F>) {
    let Attention { width, positions, .. } = *attention;
    let tokens = pass.rows * positions;
    let sizes = attention.kept(pass.rows);
    let scratch = &mut *pass.scratch;
    reserve(&mut pass.kept.floats, sizes.iter().sum());
    reserve(&mut scratch.border, attention.room().0);
    let [qkv, weights, given, factors] = parts(&mut pass.kept.floats, sizes);
    dropout::draw(attention.dropout, pass.recording, &mut scratch.noise, factors);
    dispatch(LinearForward {
        rows: tokens,
        inputs: width,
        outputs: 3 * width,
        x: pass.x,
        weight: &pass.params[attention.in_weight.clone()],
        bias: Some(&pass.params[attention.in_bias.clone()]),
        relu: false,
        y: qkv,
        padded: &mut scratch.padded,
    });
    dispatch(HeadsForward { attention, rows: pass.rows, qkv, weights, factors, heads: given, room: &mut scratch.border });
    dispatch(LinearForward {
        rows: tokens,
        inputs: width,
        outputs: width,
        x: given,
        weight: &pass.params[attention.out_weight.clone()],
        bias: Some(&pass.params[attention.out_bias.clone()]),
        relu: false,
        y: &mut pass.kept.value,
        padded: &mut scratch.padded,
    });
}

pub(super) fn backward<F: Real>(attention: &Attention, pass: &mut Backward<'_, F>) {
    let Attention { width, positions, .. } = *attention;
    let tokens = pass.rows * positions;
    let sizes = attention.kept(pass.rows);
    let scratch = &mut *pass.scratch;
    let [qkv, weights, given, factors] = parts(&mut pass.kept.floats, sizes);
    // The gradients of what the heads give and of queries, keys and values, and room for one head.
    let needed = [attention.room().1, tokens * width, 3 * tokens * width];
    reserve(&mut scratch.border, needed.iter().sum());
    let [room, d_given, d_qkv] = parts(&mut scratch.border, needed);
    let mut gradient = pass.gradient.as_deref_mut();
    let (mut d_in, mut d_out) = ((None, None), (None, None));
    if let Some(gradient) = gradient.take() {
        // The four parameters lie one after the other.
        let (start, end) = (attention.in_weight.start, attention.out_bias.end);
        let lens = [&attention.in_weight, &attention.in_bias, &attention.out_weight, &attention.out_bias].map(|range| range.len());
        let [in_weight, in_bias, out_weight, out_bias] = parts(&mut gradient[start..end], lens);
        (d_in, d_out) = ((Some(in_weight), Some(in_bias)), (Some(out_weight), Some(out_bias)));
    }
    dispatch(LinearBackward {
        rows: tokens,
        inputs: width,
        outputs: width,
        x: given,
        weight: &pass.params[attention.out_weight.clone()],
        d_y: &scratch.gradient,
        d_weight: d_out.0,
        d_bias: d_out.1,
        d_x: Some(d_given),
        padded: &mut scratch.padded,
        turned: &mut scratch.turned,
    });
    dispatch(HeadsBackward { attention, rows: pass.rows, qkv, weights, factors, d_heads: d_given, d_qkv, room });
    dispatch(LinearBackward {
        rows: tokens,
        inputs: width,
        outputs: 3 * width,
        x: pass.x,
        weight: &pass.params[attention.in_weight.clone()],
        d_y: d_qkv,
        d_weight: d_in.0,
        d_bias: d_in.1,
        d_x: pass.down.then_some(&mut scratch.next),
        padded: &mut scratch.padded,
        turned: &mut scratch.turned,
    });
}
