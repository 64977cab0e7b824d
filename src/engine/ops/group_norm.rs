//! Normalisation within a sample: of groups of channels over all pixels, or of the channels of each pixel.
//!
//! Sums are kept in `f64`, as those of batch normalisation.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::reserve;
use crate::engine::layout::Order;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use std::ops::Range;

/// Where a normalisation finds its numbers, and what it normalises together.
#[derive(Clone, Debug)]
pub(in crate::engine) struct GroupNorm {
    channels: usize,
    groups: usize,
    /// Pixels that are normalised together.
    pixels: usize,
    /// Channels that share a weight and a bias.
    share: usize,
    weight: Range<usize>,
    bias: Range<usize>,
    eps: f64,
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

pub(super) fn forward<F: Real>(norm: &GroupNorm, pass: &mut Forward<'_, F>) {
    let GroupNorm { channels, groups, pixels, share, .. } = *norm;
    let (weight, bias) = (&pass.params[norm.weight.clone()], &pass.params[norm.bias.clone()]);
    let (block, width) = (pixels * channels, channels / groups);
    let count = (pixels * width) as f64;
    let blocks = pass.outputs / block;
    // Mean and scale of each group of each block.
    let statistics = &mut pass.kept.floats;
    reserve(statistics, 2 * blocks * groups);
    let statistics = statistics.chunks_exact_mut(2 * groups);
    let values = pass.x[..pass.inputs].chunks_exact(block).zip(pass.kept.value[..pass.outputs].chunks_exact_mut(block));
    for ((x, y), statistics) in values.zip(statistics) {
        for group in 0..groups {
            let own = group * width..(group + 1) * width;
            let each = || x.chunks_exact(channels).flat_map(|pixel| &pixel[own.clone()]).map(|value| value.to_f64());
            let mean = each().sum::<f64>() / count;
            let variance = each().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
            let (mean, scale) = (F::from_f64(mean), F::from_f64(1.0 / (variance + norm.eps).sqrt()));
            (statistics[2 * group], statistics[2 * group + 1]) = (mean, scale);
            for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
                for c in own.clone() {
                    y[c] = (x[c] - mean) * scale * weight[c / share] + bias[c / share];
                }
            }
        }
    }
}

pub(super) fn backward<F: Real>(norm: &GroupNorm, pass: &mut Backward<'_, F>) {
    let GroupNorm { channels, groups, pixels, share, .. } = *norm;
    let weight = &pass.params[norm.weight.clone()];
    let (block, width) = (pixels * channels, channels / groups);
    let count = (pixels * width) as f64;
    let (mut d_weight, mut d_bias) = split(pass.gradient.as_deref_mut(), &norm.weight, Some(&norm.bias));
    let scratch = &mut *pass.scratch;
    let d_y = &scratch.gradient[..pass.outputs];
    let blocks = pass.x[..pass.inputs].chunks_exact(block).zip(d_y.chunks_exact(block)).zip(pass.kept.floats.chunks_exact(2 * groups));
    for (index, ((x, d_y), statistics)) in blocks.enumerate() {
        if let (Some(d_weight), Some(d_bias)) = (d_weight.as_deref_mut(), d_bias.as_deref_mut()) {
            for (x, d_y) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)) {
                for c in 0..channels {
                    let group = c / width;
                    d_weight[c / share] += d_y[c] * (x[c] - statistics[2 * group]) * statistics[2 * group + 1];
                    d_bias[c / share] += d_y[c];
                }
            }
        }
        if !pass.down {
            continue;
        }
        let d_x = &mut scratch.next[index * block..(index + 1) * block];
        for group in 0..groups {
            let own = group * width..(group + 1) * width;
            let (mean, scale) = (statistics[2 * group], statistics[2 * group + 1]);
            let (mut sum, mut product) = (0.0, 0.0);
            for (x, d_y) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)) {
                for c in own.clone() {
                    let d = (d_y[c] * weight[c / share]).to_f64();
                    sum += d;
                    product += d * ((x[c] - mean) * scale).to_f64();
                }
            }
            let (sum, product) = (F::from_f64(sum / count), F::from_f64(product / count));
            for ((x, d_y), d_x) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)).zip(d_x.chunks_exact_mut(channels)) {
                for c in own.clone() {
                    d_x[c] = scale * (d_y[c] * weight[c / share] - sum - (x[c] - mean) * scale * product);
                }
            }
        }
    }
}
