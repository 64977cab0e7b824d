//! Dropout: in training each element, or each channel, is set to 0 at random and the others are scaled up.
//!
//! The random numbers are those of the engine's stream, which whoever trains sets ([`Engine::draw_from`](crate::engine::Engine)).

use super::{Backward, Forward, Op};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::reserve;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use crate::engine::steps::Noise;
use rand::Rng;

#[derive(Clone, Debug)]
pub(in crate::engine) struct Dropout {
    p: f64,
    channels: usize,
    /// Whether whole channels of a sample are dropped.
    whole: bool,
}

/// Refuses what is no probability of dropout.
pub(super) fn check(p: f64) -> Outcome<()> {
    if (0.0..1.0).contains(&p) {
        return Ok(());
    }
    Err(Fault::stage(format!("the probability of dropout is {p}, but must be at least 0 and below 1")))
}

/// Draws factors of elements: 0, or what keeps the mean; 1 where nothing is dropped.
pub(super) fn draw<F: Real>(p: f64, recording: bool, noise: &mut Noise, factors: &mut [F]) {
    if p == 0.0 || !recording {
        return factors.fill(F::ONE);
    }
    let (scale, rng, bound) = (F::from_f64(1.0 / (1.0 - p)), noise.stream(), (p * f64::from(u32::MAX)) as u32);
    factors.iter_mut().for_each(|factor| *factor = if rng.next_u32() < bound { F::ZERO } else { scale });
}

pub(in crate::engine) fn plan(builder: &mut Builder, p: f64, whole: bool) -> Outcome<()> {
    check(p)?;
    // Dropping nothing is no step.
    if p == 0.0 {
        return Ok(());
    }
    if whole {
        builder.image_only()?;
    }
    let shape = builder.shape;
    builder.step(Op::Dropout(Dropout { p, channels: shape.channels, whole }), shape)
}

pub(super) fn forward<F: Real>(dropout: &Dropout, pass: &mut Forward<'_, F>) {
    let len = pass.outputs;
    let factors = &mut pass.kept.floats;
    reserve(factors, len);
    if pass.recording {
        let (scale, rng) = (F::from_f64(1.0 / (1.0 - dropout.p)), pass.scratch.noise.stream());
        let bound = (dropout.p * f64::from(u32::MAX)) as u32;
        let mut draw = || if rng.next_u32() < bound { F::ZERO } else { scale };
        if dropout.whole {
            for sample in factors[..len].chunks_exact_mut(len / pass.rows) {
                let (first, rest) = sample.split_at_mut(dropout.channels);
                first.iter_mut().for_each(|factor| *factor = draw());
                rest.chunks_exact_mut(dropout.channels).for_each(|pixel| pixel.copy_from_slice(first));
            }
        } else {
            factors[..len].iter_mut().for_each(|factor| *factor = draw());
        }
    } else {
        factors[..len].fill(F::ONE);
    }
    let terms = pass.x[..len].iter().zip(factors.iter());
    pass.kept.value[..len].iter_mut().zip(terms).for_each(|(y, (&x, &factor))| *y = x * factor);
}

pub(super) fn backward<F: Real>(pass: &mut Backward<'_, F>) {
    if pass.down {
        let scratch = &mut *pass.scratch;
        let terms = scratch.gradient[..pass.outputs].iter().zip(&pass.kept.floats);
        scratch.next[..pass.inputs].iter_mut().zip(terms).for_each(|(d_x, (&d_y, &factor))| *d_x = d_y * factor);
    }
}
