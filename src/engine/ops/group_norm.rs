//! Normalisation within a sample: of groups of channels over all pixels, or of the channels of each pixel.
//!
//! Sums are kept in `f64`, as those of batch normalisation.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{reserve, sum, sum_of_products};
use crate::engine::layout::Order;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// Where a normalisation finds its numbers, and what it normalises together.
#[derive(Clone, Debug)]
pub(in crate::engine) struct GroupNorm {
    pub channels: usize,
    pub groups: usize,
    /// Pixels that are normalised together.
    pub pixels: usize,
    /// Channels that share a weight and a bias.
    pub share: usize,
    pub weight: Range<usize>,
    pub bias: Range<usize>,
    pub eps: f64,
}

/// Groups of channels over all pixels; with `shared`, a group has one weight and one bias.
pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, groups: usize, shared: bool, eps: f64) -> Outcome<()> {
    builder.image_only()?;
    let channels = builder.shape.channels;
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Fault::stage(format!("{channels} channels cannot be divided into {groups} equal groups")));
    }
    finish(builder, name, groups, builder.shape.height * builder.shape.width, if shared { channels / groups } else { 1 }, eps)
}

/// The channels of each pixel: of each position in a sequence, or all elements of a vector.
pub(in crate::engine) fn plan_layer(builder: &mut Builder, name: &str, eps: f64) -> Outcome<()> {
    finish(builder, name, 1, 1, 1, eps)
}

fn finish(builder: &mut Builder, name: &str, groups: usize, pixels: usize, share: usize, eps: f64) -> Outcome<()> {
    let channels = builder.shape.channels;
    let order = if builder.flat && builder.image > 1 { Order::Image { len: channels, channels: builder.image } } else { Order::Plain };
    let (weight, bias) = builder.affine(name, channels / share, &order)?;
    builder.end_layer();
    let shape = builder.shape;
    builder.step(Op::GroupNorm(GroupNorm { channels, groups, pixels, share, weight, bias, eps }), shape)
}

struct NormalizeForward<'a, F> {
    norm: &'a GroupNorm,
    x: &'a [F],
    weight: &'a [F],
    bias: &'a [F],
    y: &'a mut [F],
    /// Mean and scale of each group of each block.
    statistics: &'a mut [F],
}

impl<F: Real> WithSimd for NormalizeForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { norm, x, weight, bias, y, statistics } = self;
        let GroupNorm { channels, groups, pixels, share, .. } = *norm;
        let (block, width) = (pixels * channels, channels / groups);
        let count = (pixels * width) as f64;
        let blocks = x.chunks_exact(block).zip(y.chunks_exact_mut(block)).zip(statistics.chunks_exact_mut(2 * groups));
        for ((x, y), statistics) in blocks {
            for group in 0..groups {
                let first = group * width;
                let mut total = 0.0;
                for pixel in x.chunks_exact(channels) {
                    total += sum(&pixel[first..first + width]);
                }
                let mean = F::from_f64(total / count);
                let mut squares = 0.0;
                for (pixel, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                    // Their squares stand for a moment where the results will.
                    let (x, y) = (&pixel[first..first + width], &mut y[first..first + width]);
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = (x - mean) * (x - mean);
                    }
                    squares += sum(y);
                }
                let scale = F::from_f64(1.0 / (squares / count + norm.eps).sqrt());
                (statistics[2 * group], statistics[2 * group + 1]) = (mean, scale);
                for (pixel, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                    let (x, y) = (&pixel[first..first + width], &mut y[first..first + width]);
                    if share == 1 {
                        let affine = weight[first..first + width].iter().zip(&bias[first..first + width]);
                        for ((y, &x), (&weight, &bias)) in y.iter_mut().zip(x).zip(affine) {
                            *y = (x - mean) * scale * weight + bias;
                        }
                    } else {
                        for (c, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                            *y = (x - mean) * scale * weight[(first + c) / share] + bias[(first + c) / share];
                        }
                    }
                }
            }
        }
    }
}

struct NormalizeBackward<'a, F> {
    norm: &'a GroupNorm,
    x: &'a [F],
    weight: &'a [F],
    d_y: &'a [F],
    statistics: &'a [F],
    d_weight: Option<&'a mut [F]>,
    d_bias: Option<&'a mut [F]>,
    d_x: Option<&'a mut [F]>,
}

impl<F: Real> WithSimd for NormalizeBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { norm, x, weight, d_y, statistics, mut d_weight, mut d_bias, mut d_x } = self;
        let GroupNorm { channels, groups, pixels, share, .. } = *norm;
        let (block, width) = (pixels * channels, channels / groups);
        let count = (pixels * width) as f64;
        let blocks = x.chunks_exact(block).zip(d_y.chunks_exact(block)).zip(statistics.chunks_exact(2 * groups));
        for (index, ((x, d_y), statistics)) in blocks.enumerate() {
            for group in 0..groups {
                let own = group * width..(group + 1) * width;
                let (mean, scale) = (statistics[2 * group], statistics[2 * group + 1]);
                if let (Some(d_weight), Some(d_bias)) = (d_weight.as_deref_mut(), d_bias.as_deref_mut()) {
                    for (x, d_y) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)) {
                        let pairs = x[own.clone()].iter().zip(&d_y[own.clone()]);
                        if share == 1 {
                            let sums = d_weight[own.clone()].iter_mut().zip(&mut d_bias[own.clone()]);
                            for ((d_weight, d_bias), (&x, &d_y)) in sums.zip(pairs) {
                                *d_weight += d_y * (x - mean) * scale;
                                *d_bias += d_y;
                            }
                        } else {
                            for (c, (&x, &d_y)) in pairs.enumerate() {
                                d_weight[(own.start + c) / share] += d_y * (x - mean) * scale;
                                d_bias[(own.start + c) / share] += d_y;
                            }
                        }
                    }
                }
                let Some(d_x) = d_x.as_deref_mut() else { continue };
                let d_x = &mut d_x[index * block..(index + 1) * block];
                let (mut total, mut product) = (0.0, 0.0);
                for ((x, d_y), d_x) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)).zip(d_x.chunks_exact_mut(channels)) {
                    let (x, d_y, d_x) = (&x[own.clone()], &d_y[own.clone()], &mut d_x[own.clone()]);
                    if share == 1 {
                        for ((d_x, &d_y), &weight) in d_x.iter_mut().zip(d_y).zip(&weight[own.clone()]) {
                            *d_x = d_y * weight;
                        }
                    } else {
                        for (c, (d_x, &d_y)) in d_x.iter_mut().zip(d_y).enumerate() {
                            *d_x = d_y * weight[(own.start + c) / share];
                        }
                    }
                    total += sum(d_x);
                    product += sum_of_products(d_x, x, mean) * scale.to_f64();
                }
                let (total, product) = (F::from_f64(total / count), F::from_f64(product / count));
                for (x, d_x) in x.chunks_exact(channels).zip(d_x.chunks_exact_mut(channels)) {
                    for (d_x, &x) in d_x[own.clone()].iter_mut().zip(&x[own.clone()]) {
                        *d_x = scale * (*d_x - total - (x - mean) * scale * product);
                    }
                }
            }
        }
    }
}

pub(super) fn forward<F: Real>(norm: &GroupNorm, pass: &mut Forward<'_, F>) {
    let statistics = 2 * pass.outputs / (norm.pixels * norm.channels) * norm.groups;
    reserve(&mut pass.kept.floats, statistics);
    dispatch(NormalizeForward {
        norm,
        x: &pass.x[..pass.inputs],
        weight: &pass.params[norm.weight.clone()],
        bias: &pass.params[norm.bias.clone()],
        y: &mut pass.kept.value[..pass.outputs],
        statistics: &mut pass.kept.floats[..statistics],
    });
}

pub(super) fn backward<F: Real>(norm: &GroupNorm, pass: &mut Backward<'_, F>) {
    let (d_weight, d_bias) = split(pass.gradient.as_deref_mut(), &norm.weight, Some(&norm.bias));
    let scratch = &mut *pass.scratch;
    dispatch(NormalizeBackward {
        norm,
        x: &pass.x[..pass.inputs],
        weight: &pass.params[norm.weight.clone()],
        d_y: &scratch.gradient[..pass.outputs],
        statistics: &pass.kept.floats,
        d_weight,
        d_bias,
        d_x: pass.down.then_some(&mut scratch.next[..pass.inputs]),
    });
}
