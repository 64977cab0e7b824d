//! Activations element by element, other than the ReLU, which is part of the step before it.

use super::{Backward, Forward, Op};
use crate::base::Outcome;
use crate::engine::kernels::reserve;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use statrs::function::erf::erf;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x` times the share of a standard normal distribution below `x`.
    Gelu,
    /// `x` times its sigmoid.
    Silu,
    /// `x`, but a fraction of it where it is negative.
    LeakyRelu {
        /// The fraction.
        slope: f64,
    },
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Activation {
    /// The name for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Gelu => "GELU",
            Self::Silu => "SiLU",
            Self::LeakyRelu { .. } => "leaky ReLU",
            Self::Relu6 => "ReLU6",
        }
    }
}

pub(in crate::engine) fn plan(builder: &mut Builder, activation: Activation) -> Outcome<()> {
    let shape = builder.shape;
    builder.step(Op::Activation(activation), shape)
}

/// The logistic function.
#[inline(always)]
pub(in crate::engine) fn sigmoid<F: Real>(x: F) -> F {
    F::ONE / (F::ONE + (-x).exp())
}

pub(super) fn forward<F: Real>(activation: Activation, pass: &mut Forward<'_, F>) {
    let (x, y) = (&pass.x[..pass.inputs], &mut pass.kept.value[..pass.outputs]);
    match activation {
        Activation::Sigmoid => y.iter_mut().zip(x).for_each(|(y, &x)| *y = sigmoid(x)),
        Activation::Tanh => y.iter_mut().zip(x).for_each(|(y, &x)| *y = x.tanh()),
        Activation::Gelu | Activation::Silu => {
            // The factor of x is needed again on the way back.
            let factors = &mut pass.kept.floats;
            reserve(factors, pass.inputs);
            for ((y, factor), &x) in y.iter_mut().zip(factors).zip(x) {
                *factor = match activation {
                    Activation::Gelu => F::from_f64(0.5 * (1.0 + erf(x.to_f64() * FRAC_1_SQRT_2))),
                    _ => sigmoid(x),
                };
                *y = x * *factor;
            }
        }
        Activation::LeakyRelu { slope } => {
            let slope = F::from_f64(slope);
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = if x <= F::ZERO { slope * x } else { x });
        }
        Activation::Relu6 => {
            let six = F::from_f64(6.0);
            // NaN stays, as in torch.
            for (y, &x) in y.iter_mut().zip(x) {
                let low = if x <= F::ZERO { F::ZERO } else { x };
                *y = if low >= six { six } else { low };
            }
        }
    }
}

pub(super) fn backward<F: Real>(activation: Activation, pass: &mut Backward<'_, F>) {
    if !pass.down {
        return;
    }
    let scratch = &mut *pass.scratch;
    let (x, y, d_y) = (&pass.x[..pass.inputs], &pass.kept.value[..pass.outputs], &scratch.gradient[..pass.outputs]);
    let outputs = scratch.next[..pass.inputs].iter_mut().zip(d_y);
    match activation {
        Activation::Sigmoid => outputs.zip(y).for_each(|((d_x, &d_y), &y)| *d_x = d_y * y * (F::ONE - y)),
        Activation::Tanh => outputs.zip(y).for_each(|((d_x, &d_y), &y)| *d_x = d_y * (F::ONE - y * y)),
        Activation::Gelu => {
            let scale = F::from_f64(1.0 / (2.0 * PI).sqrt());
            let half = F::from_f64(-0.5);
            for (((d_x, &d_y), &x), &share) in outputs.zip(x).zip(&pass.kept.floats) {
                *d_x = d_y * (share + x * scale * (half * x * x).exp());
            }
        }
        Activation::Silu => {
            for (((d_x, &d_y), &x), &s) in outputs.zip(x).zip(&pass.kept.floats) {
                *d_x = d_y * (s + x * s * (F::ONE - s));
            }
        }
        Activation::LeakyRelu { slope } => {
            let slope = F::from_f64(slope);
            outputs.zip(x).for_each(|((d_x, &d_y), &x)| *d_x = if x <= F::ZERO { slope * d_y } else { d_y });
        }
        Activation::Relu6 => {
            let six = F::from_f64(6.0);
            outputs.zip(x).for_each(|((d_x, &d_y), &x)| *d_x = if x <= F::ZERO || x >= six { F::ZERO } else { d_y });
        }
    }
}
