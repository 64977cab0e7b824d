//! The convolution with the fused kernels: bias, ReLU and max-pool in one pass.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{Conv, ConvBackward, ConvForward, Window, pad, unpad};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, Slide, positive};
use crate::engine::real::Real;
use crate::engine::simd::dispatch;
use std::ops::Range;

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, out: usize, slide: Slide, bias: bool) -> Outcome<()> {
    builder.image_only()?;
    let (out_height, out_width) = builder.slide(slide)?;
    positive("output channels", out)?;
    let (positions, inputs) = (slide.kernel.0 * slide.kernel.1, builder.shape.channels);
    let conv = Conv {
        channels: inputs,
        height: builder.shape.height,
        width: builder.shape.width,
        out,
        kernel: slide.kernel,
        stride: slide.stride,
        padding: slide.padding,
        out_height,
        out_width,
    };
    let init = Init::fan_in(inputs * positions);
    let shape = vec![out, inputs, slide.kernel.0, slide.kernel.1];
    let weight = builder.parameter(format!("{name}.weight"), shape, Order::Conv { inputs, positions }, init)?;
    let bias = if bias { Some(builder.parameter(format!("{name}.bias"), vec![out], Order::Plain, init)?) } else { None };
    builder.end_layer();
    builder.step(Op::Conv { conv, weight, bias, window: None }, Shape { channels: out, height: out_height, width: out_width })
}

/// Of a sequence.
pub(in crate::engine) fn plan_sequence(builder: &mut Builder, name: &str, out: usize, slide: Slide, bias: bool) -> Outcome<()> {
    if builder.shape.height != 1 {
        return Err(Fault::stage(format!("the input has {} rows, but a sequence has one", builder.shape.height)));
    }
    let first = builder.layout.entries.len();
    plan(builder, name, out, slide, bias)?;
    builder.layout.entries[first].shape.remove(2);
    Ok(())
}

pub(super) fn forward<F: Real>(
    conv: &Conv,
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    window: Option<Window>,
    pass: &mut Forward<'_, F>,
) {
    let x = if conv.padding == (0, 0) {
        pass.x
    } else {
        pad(conv, pass.rows, pass.x, &mut pass.kept.padded);
        &pass.kept.padded
    };
    if window.is_some() && pass.kept.picks.len() < pass.outputs {
        pass.kept.picks.resize(pass.outputs, 0);
    }
    dispatch(ConvForward {
        conv: *conv,
        window,
        relu: pass.relu,
        rows: pass.rows,
        x,
        weight: &pass.params[weight.clone()],
        bias: bias.map(|bias| &pass.params[bias.clone()]),
        out: &mut pass.kept.value,
        picks: &mut pass.kept.picks,
        packed: &mut pass.scratch.packed,
        padded_bias: &mut pass.scratch.padded,
        plane: &mut pass.scratch.plane,
        tiles: &mut pass.scratch.tiles,
        taps: &mut pass.scratch.taps,
    });
}

pub(super) fn backward<F: Real>(
    conv: &Conv,
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    window: Option<Window>,
    pass: &mut Backward<'_, F>,
) {
    let bordered = conv.padding != (0, 0);
    let (d_weight, d_bias) = split(pass.gradient.as_deref_mut(), weight, bias);
    let scratch = &mut *pass.scratch;
    dispatch(ConvBackward {
        conv: *conv,
        window,
        rows: pass.rows,
        x: if bordered { &pass.kept.padded } else { pass.x },
        weight: &pass.params[weight.clone()],
        d_out: &scratch.gradient,
        picks: &pass.kept.picks,
        d_weight,
        d_bias,
        d_x: pass.down.then_some(if bordered { &mut scratch.border } else { &mut scratch.next }),
        entries: &mut scratch.entries,
        packed: &mut scratch.packed,
        tiles: &mut scratch.tiles,
        taps: &mut scratch.taps,
    });
    if pass.down && bordered {
        unpad(conv, pass.rows, &scratch.border, &mut scratch.next);
    }
}
