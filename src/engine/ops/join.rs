//! Where branches meet: sums and concatenations.

use super::{Backward, Forward, Joined, Op};
use crate::base::{Fault, Outcome};
use crate::engine::network::Shape;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use smallvec::smallvec;

/// The current value plus the one of that name.
pub(in crate::engine) fn plan_add(builder: &mut Builder, name: &str) -> Outcome<()> {
    let other = builder.saved(name)?;
    if (other.shape, other.flat) != (builder.shape, builder.flat) {
        let size = |shape: Shape| format!("{}x{}x{}", shape.channels, shape.height, shape.width);
        return Err(Fault::stage(format!("`{name}` is {}, but what is added to it is {}", size(other.shape), size(builder.shape))));
    }
    let shape = builder.shape;
    builder.step(Op::Add(other.value), shape)
}

/// The values of those names, then the current one, channel after channel.
pub(in crate::engine) fn plan_concat(builder: &mut Builder, names: &[String]) -> Outcome<()> {
    let mut parts: Joined = smallvec![];
    let mut channels = 0;
    let own = builder.shape;
    for name in names {
        let other = builder.saved(name)?;
        if (other.shape.height, other.shape.width, other.flat) != (own.height, own.width, builder.flat) {
            return Err(Fault::stage(format!(
                "`{name}` has {}x{} pixels, but what follows it has {}x{}",
                other.shape.height, other.shape.width, own.height, own.width
            )));
        }
        parts.push((other.value, other.shape.channels));
        channels += other.shape.channels;
    }
    if builder.flat && builder.image > 1 {
        return Err(Fault::stage("a flattened image is concatenated").help("flatten after the concatenation"));
    }
    parts.push((builder.value, own.channels));
    channels += own.channels;
    builder.step(Op::Concat(parts), Shape { channels, ..own })
}

pub(super) fn add<F: Real>(other: usize, pass: &mut Forward<'_, F>) {
    let terms = pass.x.iter().zip(pass.values.get(other));
    for (sum, (&a, &b)) in pass.kept.value[..pass.outputs].iter_mut().zip(terms) {
        *sum = a + b;
    }
}

pub(super) fn add_backward<F: Real>(other: usize, pass: &mut Backward<'_, F>) {
    let scratch = &mut *pass.scratch;
    scratch.collected.add(other, &scratch.gradient[..pass.outputs]);
    if pass.down {
        std::mem::swap(&mut scratch.gradient, &mut scratch.next);
    }
}

pub(super) fn concat<F: Real>(parts: &Joined, pass: &mut Forward<'_, F>) {
    let line: usize = parts.iter().map(|part| part.1).sum();
    let mut from = 0;
    for &(value, channels) in parts {
        let pixels = pass.kept.value[..pass.outputs].chunks_exact_mut(line);
        for (pixel, source) in pixels.zip(pass.values.get(value).chunks_exact(channels)) {
            pixel[from..from + channels].copy_from_slice(source);
        }
        from += channels;
    }
}

pub(super) fn concat_backward<F: Real>(parts: &Joined, pass: &mut Backward<'_, F>) {
    let line: usize = parts.iter().map(|part| part.1).sum();
    let scratch = &mut *pass.scratch;
    let pixels = pass.outputs / line;
    let mut from = 0;
    for &(value, channels) in parts {
        let (sum, first) = scratch.collected.open(value, pixels * channels);
        for (sum, pixel) in sum.chunks_exact_mut(channels).zip(scratch.gradient[..pass.outputs].chunks_exact(line)) {
            let pixel = &pixel[from..from + channels];
            if first {
                sum.copy_from_slice(pixel);
            } else {
                sum.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += value);
            }
        }
        from += channels;
    }
}
