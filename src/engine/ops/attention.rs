//! Self-attention with several heads over a sequence, as torch's `MultiheadAttention` without masks.
//!
//! For each head, every position weighs all positions by the softmax of scaled products. Inner loops run along positions or along a
//! head's channels, so that they are computed in whole packs.

use super::{Backward, Forward, Op, dropout};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearForward, reserve};
use crate::engine::layout::{Init, Order};
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// Shapes, and where the parameters are.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Attention {
    width: usize,
    positions: usize,
    heads: usize,
    /// Probability that a weight is dropped.
    dropout: f64,
    in_weight: Range<usize>,
    in_bias: Range<usize>,
    out_weight: Range<usize>,
    out_bias: Range<usize>,
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
        let tokens = rows * self.positions;
        let weights = tokens * self.heads * self.positions;
        [3 * tokens * self.width, weights, tokens * self.width, if self.dropout > 0.0 { weights } else { 0 }]
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

/// `y += a x`.
#[inline(always)]
fn add<F: Real>(y: &mut [F], a: F, x: &[F]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y += a * x);
}

/// Writes a head's columns of the tokens of one sample as rows: (channels of a head, positions).
#[inline(always)]
fn turn<F: Real>(from: &[F], line: usize, start: usize, depth: usize, positions: usize, to: &mut [F]) {
    for t in 0..positions {
        for d in 0..depth {
            to[d * positions + t] = from[t * line + start + d];
        }
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
    turned: &'a mut [F],
}

impl<F: Real> WithSimd for HeadsForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Attention { width, positions, heads, .. } = *self.attention;
        let (depth, line) = (width / heads, 3 * width);
        let scale = F::from_f64(1.0 / (depth as f64).sqrt());
        self.heads.fill(F::ZERO);
        for row in 0..self.rows {
            let qkv = &self.qkv[row * positions * line..][..positions * line];
            for head in 0..heads {
                let own = head * depth;
                turn(qkv, line, width + own, depth, positions, self.turned);
                for t in 0..positions {
                    let weights = &mut self.weights[((row * heads + head) * positions + t) * positions..][..positions];
                    weights.fill(F::ZERO);
                    for d in 0..depth {
                        add(weights, qkv[t * line + own + d] * scale, &self.turned[d * positions..][..positions]);
                    }
                    let greatest = weights.iter().fold(F::NEG_INFINITY, |most, &value| most.max(value));
                    let mut sum = F::ZERO;
                    for weight in weights.iter_mut() {
                        *weight = (*weight - greatest).exp();
                        sum += *weight;
                    }
                    let factor = F::ONE / sum;
                    weights.iter_mut().for_each(|weight| *weight *= factor);
                    let out = &mut self.heads[(row * positions + t) * width + own..][..depth];
                    let factors = self.factors.get(((row * heads + head) * positions + t) * positions..);
                    for (u, &weight) in weights.iter().enumerate() {
                        let weight = factors.and_then(|factors| factors.get(u)).map_or(weight, |&factor| weight * factor);
                        add(out, weight, &qkv[u * line + 2 * width + own..][..depth]);
                    }
                }
            }
        }
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
    turned: &'a mut [F],
    d_weights: &'a mut [F],
}

impl<F: Real> WithSimd for HeadsBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Attention { width, positions, heads, .. } = *self.attention;
        let (depth, line) = (width / heads, 3 * width);
        let scale = F::from_f64(1.0 / (depth as f64).sqrt());
        self.d_qkv.fill(F::ZERO);
        for row in 0..self.rows {
            let qkv = &self.qkv[row * positions * line..][..positions * line];
            let d_qkv = &mut self.d_qkv[row * positions * line..][..positions * line];
            for head in 0..heads {
                let own = head * depth;
                turn(qkv, line, 2 * width + own, depth, positions, self.turned);
                for t in 0..positions {
                    let weights = &self.weights[((row * heads + head) * positions + t) * positions..][..positions];
                    let d_out = &self.d_heads[(row * positions + t) * width + own..][..depth];
                    self.d_weights.fill(F::ZERO);
                    for (d, &d_out) in d_out.iter().enumerate() {
                        add(self.d_weights, d_out, &self.turned[d * positions..][..positions]);
                    }
                    let first = ((row * heads + head) * positions + t) * positions;
                    let factors = self.factors.get(first..first + positions);
                    if let Some(factors) = factors {
                        self.d_weights.iter_mut().zip(factors).for_each(|(d, &factor)| *d *= factor);
                    }
                    let mean: F = weights.iter().zip(self.d_weights.iter()).map(|(&weight, &d)| weight * d).sum();
                    for u in 0..positions {
                        let used = factors.map_or(weights[u], |factors| weights[u] * factors[u]);
                        add(&mut d_qkv[u * line + 2 * width + own..][..depth], used, d_out);
                        // Through the softmax, and the scale before it.
                        let d_score = weights[u] * (self.d_weights[u] - mean) * scale;
                        add(&mut d_qkv[t * line + own..][..depth], d_score, &qkv[u * line + width + own..][..depth]);
                        add(&mut d_qkv[u * line + width + own..][..depth], d_score, &qkv[t * line + own..][..depth]);
                    }
                }
            }
        }
    }
}

pub(super) fn forward<F: Real>(attention: &Attention, pass: &mut Forward<'_, F>) {
    let Attention { width, positions, heads, .. } = *attention;
    let tokens = pass.rows * positions;
    let sizes = attention.kept(pass.rows);
    let turned = width / heads * positions;
    reserve(&mut pass.kept.floats, sizes.iter().sum::<usize>() + turned);
    let [qkv, weights, given, factors, turned] = parts(&mut pass.kept.floats, [sizes[0], sizes[1], sizes[2], sizes[3], turned]);
    let scratch = &mut *pass.scratch;
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
        packed: &mut scratch.packed,
        padded: &mut scratch.padded,
    });
    dispatch(HeadsForward { attention, rows: pass.rows, qkv, weights, factors, heads: given, turned });
    dispatch(LinearForward {
        rows: tokens,
        inputs: width,
        outputs: width,
        x: given,
        weight: &pass.params[attention.out_weight.clone()],
        bias: Some(&pass.params[attention.out_bias.clone()]),
        relu: false,
        y: &mut pass.kept.value,
        packed: &mut scratch.packed,
        padded: &mut scratch.padded,
    });
}

pub(super) fn backward<F: Real>(attention: &Attention, pass: &mut Backward<'_, F>) {
    let Attention { width, positions, heads, .. } = *attention;
    let tokens = pass.rows * positions;
    let sizes = attention.kept(pass.rows);
    let scratch = &mut *pass.scratch;
    let [qkv, weights, given, factors] = parts(&mut pass.kept.floats, sizes);
    // The gradients of what the heads give and of queries, keys and values, and room for one head.
    let needed = [tokens * width, 3 * tokens * width, width / heads * positions, positions];
    reserve(&mut scratch.border, needed.iter().sum());
    let [d_given, d_qkv, turned, d_weights] = parts(&mut scratch.border, needed);
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
        packed: &mut scratch.packed,
        padded: &mut scratch.padded,
        wide: &mut scratch.wide,
    });
    dispatch(HeadsBackward { attention, rows: pass.rows, qkv, weights, factors, d_heads: d_given, d_qkv, turned, d_weights });
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
        packed: &mut scratch.packed,
        padded: &mut scratch.padded,
        wide: &mut scratch.wide,
    });
}
