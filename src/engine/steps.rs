//! Runs the steps of a network's plan forward and backward, and keeps what the way back needs.
//!
//! Buffers only grow: once a network and a batch size were seen, a step allocates nothing.

use super::kernels::{
    ConvBackward, ConvForward, Entries, LinearBackward, LinearForward, Statistics, norm_backward, norm_forward, pad, pool_backward,
    pool_forward, relu, relu_backward, reserve, unpad,
};
use super::network::{Network, Op, Step};
use super::params::Buffers;
use super::real::Real;
use super::simd::dispatch;
use std::ops::Range;

/// What one step keeps.
#[derive(Debug, Default)]
struct Kept<F> {
    value: Vec<F>,
    /// The convolution's input with its border, where it has one.
    padded: Vec<F>,
    picks: Vec<u8>,
    places: Vec<u32>,
    statistics: Statistics<F>,
}

/// The values of one forward pass.
#[derive(Debug, Default)]
pub(super) struct Record<F> {
    input: Vec<F>,
    kept: Vec<Kept<F>>,
}

/// Memory that no pass relies on after it ends.
#[derive(Debug, Default)]
pub(super) struct Scratch<F> {
    packed: Vec<F>,
    padded: Vec<F>,
    wide: Vec<F>,
    plane: Vec<F>,
    entries: Entries<F>,
    /// The gradient of a padded image.
    border: Vec<F>,
    /// The gradient that a step receives; after the pass, that of the first step's input.
    pub gradient: Vec<F>,
    next: Vec<F>,
}

impl<F: Real> Record<F> {
    /// Takes a batch in.
    pub fn load(&mut self, x: &[F]) {
        reserve(&mut self.input, x.len());
        self.input[..x.len()].copy_from_slice(x);
    }
    /// Takes in what goes into step `index`, as if the steps before it had been run.
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
    /// What goes into step `index`, or comes out of the one before.
    pub fn value(&self, index: usize, len: usize) -> &[F] {
        match index.checked_sub(1) {
            None => &self.input[..len],
            Some(i) => &self.kept[i].value[..len],
        }
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
        for index in steps {
            let (before, after) = self.kept.split_at_mut(index);
            let x = before.last().map_or(&self.input, |kept| &kept.value);
            forward(&net.steps[index], rows, x, params, buffers, recording, &mut after[0], scratch);
        }
    }
    /// Runs steps of `net` backward from the gradient in `scratch.gradient`, adds to the parameters' gradient, and leaves the
    /// gradient of the first step's input in `scratch.gradient` where it is asked for.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &mut self,
        net: &Network,
        steps: Range<usize>,
        rows: usize,
        params: &[F],
        mut gradient: Option<&mut [F]>,
        input_gradient: bool,
        scratch: &mut Scratch<F>,
    ) {
        let first = steps.start;
        // The two gradients take turns; each has room for the widest from the first step on.
        let widest = self.kept[steps.clone()].iter().map(|kept| kept.value.len()).fold(self.input.len(), usize::max);
        reserve(&mut scratch.gradient, widest);
        reserve(&mut scratch.next, widest);
        for index in steps.rev() {
            let (before, after) = self.kept.split_at_mut(index);
            let x = before.last().map_or(&self.input, |kept| &kept.value);
            let down = index > first || input_gradient;
            backward(&net.steps[index], rows, x, params, gradient.as_deref_mut(), down, &mut after[0], scratch);
            if down {
                std::mem::swap(&mut scratch.gradient, &mut scratch.next);
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn forward<F: Real>(
    step: &Step,
    rows: usize,
    x: &[F],
    params: &[F],
    buffers: &mut Buffers<F>,
    recording: bool,
    kept: &mut Kept<F>,
    scratch: &mut Scratch<F>,
) {
    let (inputs, outputs) = (rows * step.inputs, rows * step.outputs);
    reserve(&mut kept.value, outputs);
    match &step.op {
        Op::Conv { conv, weight, bias, window } => {
            let x = if conv.padding == (0, 0) {
                x
            } else {
                pad(conv, rows, x, &mut kept.padded);
                &kept.padded
            };
            if window.is_some() && kept.picks.len() < outputs {
                kept.picks.resize(outputs, 0);
            }
            dispatch(ConvForward {
                conv: *conv,
                window: *window,
                relu: step.relu,
                rows,
                x,
                weight: &params[weight.clone()],
                bias: bias.clone().map(|bias| &params[bias]),
                out: &mut kept.value,
                picks: &mut kept.picks,
                packed: &mut scratch.packed,
                padded_bias: &mut scratch.padded,
                plane: &mut scratch.plane,
            });
        }
        Op::Linear { weight, bias } => dispatch(LinearForward {
            rows,
            inputs: step.inputs,
            outputs: step.outputs,
            x,
            weight: &params[weight.clone()],
            bias: bias.clone().map(|bias| &params[bias]),
            relu: step.relu,
            y: &mut kept.value,
            packed: &mut scratch.packed,
            padded: &mut scratch.padded,
        }),
        Op::Norm(norm) => {
            let pair = (&params[norm.weight.clone()], &params[norm.bias.clone()]);
            let (x, y) = (&x[..inputs], &mut kept.value[..outputs]);
            if recording {
                let (mean, variance) = buffers.values.split_at_mut(norm.variance.start);
                let running = (&mut mean[norm.mean.clone()], &mut variance[..norm.channels]);
                norm_forward(x, y, pair, norm.eps, Some(running), None, &mut kept.statistics);
                buffers.counters[norm.counter] += 1;
            } else {
                let fixed = (&buffers.values[norm.mean.clone()], &buffers.values[norm.variance.clone()]);
                norm_forward(x, y, pair, norm.eps, None, Some(fixed), &mut kept.statistics);
            }
            if step.relu {
                relu(&mut kept.value[..outputs]);
            }
        }
        Op::Pool(window) => {
            pool_forward(window, rows, x, &mut kept.value, &mut kept.places);
            if step.relu {
                relu(&mut kept.value[..outputs]);
            }
        }
        Op::Copy => {
            kept.value[..outputs].copy_from_slice(&x[..inputs]);
            if step.relu {
                relu(&mut kept.value[..outputs]);
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn backward<F: Real>(
    step: &Step,
    rows: usize,
    x: &[F],
    params: &[F],
    gradient: Option<&mut [F]>,
    down: bool,
    kept: &mut Kept<F>,
    scratch: &mut Scratch<F>,
) {
    let (inputs, outputs) = (rows * step.inputs, rows * step.outputs);
    let fused_relu = matches!(&step.op, Op::Conv { window: Some(_), .. });
    if step.relu && !fused_relu {
        relu_backward(&mut scratch.gradient[..outputs], &kept.value[..outputs]);
    }
    if down {
        reserve(&mut scratch.next, inputs);
    }
    match &step.op {
        Op::Conv { conv, weight, bias, window } => {
            let bordered = conv.padding != (0, 0);
            let (d_weight, d_bias) = split(gradient, weight, bias.as_ref());
            dispatch(ConvBackward {
                conv: *conv,
                window: *window,
                rows,
                x: if bordered { &kept.padded } else { x },
                weight: &params[weight.clone()],
                d_out: &scratch.gradient,
                picks: &kept.picks,
                d_weight,
                d_bias,
                d_x: down.then_some(if bordered { &mut scratch.border } else { &mut scratch.next }),
                entries: &mut scratch.entries,
                packed: &mut scratch.packed,
            });
            if down && bordered {
                unpad(conv, rows, &scratch.border, &mut scratch.next);
            }
        }
        Op::Linear { weight, bias } => {
            let (d_weight, d_bias) = split(gradient, weight, bias.as_ref());
            dispatch(LinearBackward {
                rows,
                inputs: step.inputs,
                outputs: step.outputs,
                x,
                weight: &params[weight.clone()],
                d_y: &scratch.gradient,
                d_weight,
                d_bias,
                d_x: down.then_some(&mut scratch.next),
                packed: &mut scratch.packed,
                padded: &mut scratch.padded,
                wide: &mut scratch.wide,
            });
        }
        Op::Norm(norm) => {
            let gradients = split(gradient, &norm.weight, Some(&norm.bias));
            let gradients = gradients.0.zip(gradients.1);
            let d_x = down.then_some(&mut scratch.next[..]).map(|next| &mut next[..inputs]);
            let d_y = &scratch.gradient[..outputs];
            norm_backward(&x[..inputs], d_y, &params[norm.weight.clone()], &mut kept.statistics, gradients, d_x);
        }
        Op::Pool(window) => {
            if down {
                pool_backward(window, rows, &scratch.gradient, &kept.places, &mut scratch.next);
            }
        }
        Op::Copy => {
            if down {
                scratch.next[..inputs].copy_from_slice(&scratch.gradient[..inputs]);
            }
        }
    }
}

/// The gradients of a weight and of the bias that follows it.
fn split<'a, F>(
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
