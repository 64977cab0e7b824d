//! Batch normalisation: of channels over batch and positions, or of single elements over the batch; then ReLU and max-pool in the
//! same passes.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{NormBackward, NormForward, Window};
use crate::engine::layout::Order;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use crate::engine::simd::dispatch;
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
    /// Pooling in the same step.
    pub window: Option<Window>,
}

/// Of channels.
pub(in crate::engine) fn plan_channels(builder: &mut Builder, name: &str, eps: f64) -> Outcome<()> {
    builder.image_only()?;
    plan(builder, name, eps, builder.shape.channels, Order::Plain)
}

/// Of the elements of a vector.
pub(in crate::engine) fn plan_elements(builder: &mut Builder, name: &str, eps: f64) -> Outcome<()> {
    if !builder.flat {
        return Err(Fault::stage("the input is an image").help("flatten it first, or normalise its channels"));
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
    builder.step(Op::Norm(Norm { channels, weight, bias, mean, variance, counter, eps, window: None }), shape)
}

pub(super) fn forward<F: Real>(norm: &Norm, pass: &mut Forward<'_, F>) {
    let kept = &mut *pass.kept;
    if norm.window.is_some() && kept.picks.len() < pass.outputs {
        kept.picks.resize(pass.outputs, 0);
    }
    let (mut fixed, mut running) = (None, None);
    if pass.recording {
        let (mean, variance) = pass.buffers.values.split_at_mut(norm.variance.start);
        running = Some((&mut mean[norm.mean.clone()], &mut variance[..norm.channels]));
        pass.buffers.counters[norm.counter] += 1;
    } else {
        fixed = Some((&pass.buffers.values[norm.mean.clone()], &pass.buffers.values[norm.variance.clone()]));
    }
    dispatch(NormForward {
        x: &pass.x[..pass.inputs],
        weight: &pass.params[norm.weight.clone()],
        bias: &pass.params[norm.bias.clone()],
        eps: norm.eps,
        fixed,
        running,
        relu: pass.relu,
        window: norm.window,
        y: &mut kept.value[..pass.outputs],
        picks: &mut kept.picks,
        statistics: &mut kept.statistics,
        plane: &mut pass.scratch.plane,
    });
}

pub(super) fn backward<F: Real>(norm: &Norm, pass: &mut Backward<'_, F>) {
    let gradients = split(pass.gradient.as_deref_mut(), &norm.weight, Some(&norm.bias));
    let scratch = &mut *pass.scratch;
    dispatch(NormBackward {
        x: &pass.x[..pass.inputs],
        weight: &pass.params[norm.weight.clone()],
        d_y: &scratch.gradient[..pass.outputs],
        window: norm.window,
        picks: &pass.kept.picks,
        statistics: &mut pass.kept.statistics,
        gradients: gradients.0.zip(gradients.1),
        d_x: pass.down.then_some(&mut scratch.next[..]).map(|next| &mut next[..pass.inputs]),
        plane: &mut scratch.plane,
    });
}
