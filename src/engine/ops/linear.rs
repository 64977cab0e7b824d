//! The dense layer.

use super::{Backward, Forward, Op, Step, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearDescent, LinearForward, pairs};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::dispatch;
use crate::engine::steps::{Scratch, Weights};
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
    let rows = Rows { positions: 1, inputs: step.inputs, outputs: step.outputs, weight, bias };
    rows.forward(pass.relu, pass);
}

pub(super) fn backward<F: Real>(step: &Step, weight: &Range<usize>, bias: Option<&Range<usize>>, pass: &mut Backward<'_, F>) {
    let (rows, inputs, outputs) = (pass.rows, step.inputs, step.outputs);
    let (Weights::Stepping(params, descent), Some(gradient)) = (&mut pass.params, pass.gradient.as_deref_mut()) else {
        return Rows { positions: 1, inputs, outputs, weight, bias }.backward(pass);
    };
    let terms = &descent.terms(weight);
    let Scratch { gradient: d_y, next, padded, turned, .. } = &mut *pass.scratch;
    let (x, d_x) = (pass.x, pass.down.then_some(&mut next[..]));
    let d_bias = bias.map(|bias| &mut gradient[bias.clone()]);
    let (weight, rate) = (&mut params[weight.clone()], descent.rate);
    dispatch(LinearDescent { rows, inputs, outputs, x, d_y, weight, rate, terms, d_bias, d_x, padded, turned });
}

/// A dense layer on each of some positions of every sample.
pub(super) struct Rows<'a> {
    pub positions: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub weight: &'a Range<usize>,
    pub bias: Option<&'a Range<usize>>,
}

impl Rows<'_> {
    pub fn forward<F: Real>(&self, relu: bool, pass: &mut Forward<'_, F>) {
        let &Self { positions, inputs, outputs, .. } = self;
        let rows = pass.rows * positions;
        let (weight, bias) = (&pass.params[self.weight.clone()], self.bias.map(|bias| &pass.params[bias.clone()]));
        let (x, y, scratch) = (pass.x, &mut pass.kept.value, &mut *pass.scratch);
        if pass.pairs {
            pairs::forward(pairs::Shape { rows, inputs, outputs }, x, weight, bias, relu, y, &mut scratch.laid);
        } else {
            dispatch(LinearForward { rows, inputs, outputs, x, weight, bias, relu, y, padded: &mut scratch.padded });
        }
    }
    pub fn backward<F: Real>(&self, pass: &mut Backward<'_, F>) {
        let &Self { positions, inputs, outputs, .. } = self;
        let rows = pass.rows * positions;
        let (d_weight, d_bias) = split(pass.gradient.as_deref_mut(), self.weight, self.bias);
        let scratch = &mut *pass.scratch;
        let (x, weight, d_y) = (pass.x, &pass.params[self.weight.clone()], &scratch.gradient[..]);
        let d_x = pass.down.then_some(&mut scratch.next[..]);
        if pass.pairs {
            let shape = pairs::Shape { rows, inputs, outputs };
            pairs::Backward { shape, x, weight, d_y, d_weight, d_bias, d_x, positions: positions > 1 }.run(&mut scratch.laid);
        } else {
            let (padded, turned) = (&mut scratch.padded, &mut scratch.turned);
            dispatch(LinearBackward { rows, inputs, outputs, x, weight, d_y, d_weight, d_bias, d_x, padded, turned });
        }
    }
}
