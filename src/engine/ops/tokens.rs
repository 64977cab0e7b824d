//! From an image of patches to the sequence of a vision transformer: a learned token before the patches, and learned places.

use super::{Backward, Forward, Op, split};
use crate::base::Outcome;
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(in crate::engine) struct Tokens {
    pub width: usize,
    /// The token, then a place for it and for each patch: they follow each other.
    pub token: Range<usize>,
    pub places: Range<usize>,
}

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str) -> Outcome<()> {
    builder.image_only()?;
    let Shape { channels: width, height, width: columns } = builder.shape;
    let positions = height * columns + 1;
    let token = builder.parameter(format!("{name}.class_token"), vec![1, 1, width], Order::Plain, Init::Constant(0.0))?;
    let shape = vec![1, positions, width];
    let places = builder.parameter(format!("{name}.pos_embedding"), shape, Order::Plain, Init::Normal(0.02))?;
    builder.end_layer();
    builder.step(Op::Tokens(Tokens { width, token, places }), Shape { channels: width, height: 1, width: positions })
}

pub(super) fn forward<F: Real>(tokens: &Tokens, pass: &mut Forward<'_, F>) {
    let (token, places) = (&pass.params[tokens.token.clone()], &pass.params[tokens.places.clone()]);
    let patches = places.len() - tokens.width;
    for (y, x) in pass.kept.value[..pass.outputs].chunks_exact_mut(places.len()).zip(pass.x.chunks_exact(patches)) {
        y[..tokens.width].copy_from_slice(token);
        y[tokens.width..].copy_from_slice(x);
        y.iter_mut().zip(places).for_each(|(y, &place)| *y += place);
    }
}

pub(super) fn backward<F: Real>(tokens: &Tokens, pass: &mut Backward<'_, F>) {
    let len = tokens.places.len();
    let scratch = &mut *pass.scratch;
    if let (Some(d_token), Some(d_places)) = split(pass.gradient.as_deref_mut(), &tokens.token, Some(&tokens.places)) {
        for d_y in scratch.gradient[..pass.outputs].chunks_exact(len) {
            d_token.iter_mut().zip(d_y).for_each(|(sum, &value)| *sum += value);
            d_places.iter_mut().zip(d_y).for_each(|(sum, &value)| *sum += value);
        }
    }
    if pass.down {
        let samples = scratch.gradient[..pass.outputs].chunks_exact(len);
        for (d_x, d_y) in scratch.next[..pass.inputs].chunks_exact_mut(len - tokens.width).zip(samples) {
            d_x.copy_from_slice(&d_y[tokens.width..]);
        }
    }
}
