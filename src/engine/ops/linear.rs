//! The dense layer.

use super::{Backward, Forward, Op, Step, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearForward};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::dispatch;
use std::ops::Range;

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, out: usize, bias: bool) -> Outcome<()> {
    if !builder.flat {
        return Err(Fault::stage("the input is an image").help("flatten it first: a dense layer takes a vector"));
    }
    positive("outputs", out)?;
    let inputs = builder.shape.numel();
    let (order, init) = (Order::Linear { inputs, outputs: out, channels: builder.image }, Init::fan_in(inputs));
    let weight = builder.parameter(format!("{name}.weight"), vec![out, inputs], order, init)?;
    let bias = if bias { Some(builder.parameter(format!("{name}.bias"), vec![out], Order::Plain, init)?) } else { None };
    builder.end_layer();
    builder.image = 0;
    builder.step(Op::Linear { weight, bias }, Shape::vector(out))
}

pub(super) fn forward<F: Real>(step: &Step, weight: &Range<usize>, bias: Option<&Range<usize>>, pass: &mut Forward<'_, F>) {
    dispatch(LinearForward {
        rows: pass.rows,
        inputs: step.inputs,
        outputs: step.outputs,
        x: pass.x,
        weight: &pass.params[weight.clone()],
        bias: bias.map(|bias| &pass.params[bias.clone()]),
        relu: pass.relu,
        y: &mut pass.kept.value,
        padded: &mut pass.scratch.padded,
    });
}

pub(super) fn backward<F: Real>(step: &Step, weight: &Range<usize>, bias: Option<&Range<usize>>, pass: &mut Backward<'_, F>) {
    let (d_weight, d_bias) = split(pass.gradient.as_deref_mut(), weight, bias);
    let scratch = &mut *pass.scratch;
    dispatch(LinearBackward {
        rows: pass.rows,
        inputs: step.inputs,
        outputs: step.outputs,
        x: pass.x,
        weight: &pass.params[weight.clone()],
        d_y: &scratch.gradient,
        d_weight,
        d_bias,
        d_x: pass.down.then_some(&mut scratch.next),
        padded: &mut scratch.padded,
        turned: &mut scratch.turned,
    });
}
