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
pub(in crate::engine) fn draw<F: Real>(p: f64, recording: bool, noise: &mut Noise, factors: &mut [F]) {
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

impl Dropout {
    /// Draws the factors of a batch.
    pub fn draw<F: Real>(&self, rows: usize, noise: &mut Noise, factors: &mut [F]) {
        if !self.whole {
            return draw(self.p, true, noise, factors);
        }
        let len = factors.len() / rows;
        for sample in factors.chunks_exact_mut(len) {
            let (first, rest) = sample.split_at_mut(self.channels);
            draw(self.p, true, noise, first);
            rest.chunks_exact_mut(self.channels).for_each(|pixel| pixel.copy_from_slice(first));
        }
    }
}

pub(super) fn forward<F: Real>(dropout: &Dropout, pass: &mut Forward<'_, F>) {
    let len = pass.outputs;
    let factors = &mut pass.kept.floats;
    reserve(factors, len);
    if pass.recording {
        dropout.draw(pass.rows, &mut pass.scratch.noise, &mut factors[..len]);
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
