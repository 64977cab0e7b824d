//! Batch normalisation: of channels over batch and positions, or of single elements over the batch.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{norm_backward, norm_forward};
use crate::engine::layout::Order;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use std::ops::Range;

/// Where a normalisation finds its numbers.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Norm {
    pub channels: usize,
    pub weight: Range<usize>,
    pub bias: Range<usize>,
    pub mean: Range<usize>,
    pub variance: Range<usize>,
    pub counter: usize,
    pub eps: f64,
}

/// Of channels.
pub(in crate::engine) fn plan_channels(builder: &mut Builder, name: &str, eps: f64) -> Outcome<()> {
    builder.image_only()?;
    plan(builder, name, eps, builder.shape.channels, Order::Plain)
}

/// Of the elements of a vector.
pub(in crate::engine) fn plan_elements(builder: &mut Builder, name: &str, eps: f64) -> Outcome<()> {
    if !builder.flat {
        return Err(Fault::stage("the input is an image").help("put a `Flatten` before it, or use `BatchNorm2d`"));
    }
    let len = builder.shape.numel();
    let order = if builder.image > 1 { Order::Image { len, channels: builder.image } } else { Order::Plain };
    plan(builder, name, eps, len, order)
}

fn plan(builder: &mut Builder, name: &str, eps: f64, channels: usize, order: Order) -> Outcome<()> {
    let (weight, bias) = builder.affine(name, channels, &order)?;
    let mean = builder.buffer(format!("{name}.running_mean"), channels, order.clone());
    let variance = builder.buffer(format!("{name}.running_var"), channels, order);
    let counter = builder.counter(format!("{name}.num_batches_tracked"));
    builder.end_layer();
    let shape = builder.shape;
    builder.step(Op::Norm(Norm { channels, weight, bias, mean, variance, counter, eps }), shape)
}

pub(super) fn forward<F: Real>(norm: &Norm, pass: &mut Forward<'_, F>) {
    let pair = (&pass.params[norm.weight.clone()], &pass.params[norm.bias.clone()]);
    let (x, y) = (&pass.x[..pass.inputs], &mut pass.kept.value[..pass.outputs]);
    if pass.recording {
        let (mean, variance) = pass.buffers.values.split_at_mut(norm.variance.start);
        let running = (&mut mean[norm.mean.clone()], &mut variance[..norm.channels]);
        norm_forward(x, y, pair, norm.eps, Some(running), None, &mut pass.kept.statistics);
        pass.buffers.counters[norm.counter] += 1;
    } else {
        let fixed = (&pass.buffers.values[norm.mean.clone()], &pass.buffers.values[norm.variance.clone()]);
        norm_forward(x, y, pair, norm.eps, None, Some(fixed), &mut pass.kept.statistics);
    }
}

pub(super) fn backward<F: Real>(norm: &Norm, pass: &mut Backward<'_, F>) {
    let gradients = split(pass.gradient.as_deref_mut(), &norm.weight, Some(&norm.bias));
    let gradients = gradients.0.zip(gradients.1);
    let scratch = &mut *pass.scratch;
    let d_x = pass.down.then_some(&mut scratch.next[..]).map(|next| &mut next[..pass.inputs]);
    let d_y = &scratch.gradient[..pass.outputs];
    norm_backward(&pass.x[..pass.inputs], d_y, &pass.params[norm.weight.clone()], &mut pass.kept.statistics, gradients, d_x);
}
