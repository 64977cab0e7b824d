//! The max-pool; after a convolution it is part of that step.

use super::{Backward, Forward, Op, Step};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{Window, pool_backward, pool_forward};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, Slide};
use crate::engine::real::Real;

pub(in crate::engine) fn plan(builder: &mut Builder, slide: Slide) -> Outcome<()> {
    builder.image_only()?;
    if slide.padding.0 * 2 > slide.kernel.0 || slide.padding.1 * 2 > slide.kernel.1 {
        return Err(Fault::stage("the padding of a window is at most half its size"));
    }
    let (out_height, out_width) = builder.slide(slide)?;
    let window = Window {
        channels: builder.shape.channels,
        height: builder.shape.height,
        width: builder.shape.width,
        kernel: slide.kernel,
        stride: slide.stride,
        padding: slide.padding,
        out_height,
        out_width,
    };
    let shape = Shape { channels: builder.shape.channels, height: out_height, width: out_width };
    match builder.last() {
        Some(Step { op: Op::Conv { window: fused @ None, .. }, outputs, .. }) if window.picks_fit() => {
            *fused = Some(window);
            *outputs = shape.numel();
            builder.shape = shape;
            Ok(())
        }
        _ => builder.step(Op::Pool(window), shape),
    }
}

pub(super) fn forward<F: Real>(window: &Window, pass: &mut Forward<'_, F>) {
    pool_forward(window, pass.rows, pass.x, &mut pass.kept.value, &mut pass.kept.places);
}

pub(super) fn backward<F: Real>(window: &Window, pass: &mut Backward<'_, F>) {
    if pass.down {
        pool_backward(window, pass.rows, &pass.scratch.gradient, &pass.kept.places, &mut pass.scratch.next);
    }
}
