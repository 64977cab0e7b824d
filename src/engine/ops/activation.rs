//! Activations element by element, other than the ReLU, which is part of the step before it.

use super::{Backward, Forward, Op};
use crate::base::Outcome;
use crate::engine::kernels::reserve;
use crate::engine::plan::Builder;
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::f64::consts::PI;

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

/// The function of every number, and for those that are a product with `x` its other factor, which the way back needs.
struct Curve<'a, F> {
    activation: Activation,
    x: &'a [F],
    y: &'a mut [F],
    factors: &'a mut [F],
}

impl<F: Real> WithSimd for Curve<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { activation, x, y, factors } = self;
        let pairs = y.iter_mut().zip(x);
        match activation {
            Activation::Sigmoid => {
                for (y, &x) in pairs {
                    *y = sigmoid(x);
                }
            }
            Activation::Tanh => {
                for (y, &x) in pairs {
                    *y = x.tanh();
                }
            }
            Activation::Gelu => {
                for ((y, &x), factor) in pairs.zip(factors) {
                    *factor = x.normal_share();
                    *y = x * *factor;
                }
            }
            Activation::Silu => {
                for ((y, &x), factor) in pairs.zip(factors) {
                    *factor = sigmoid(x);
                    *y = x * *factor;
                }
            }
            Activation::LeakyRelu { slope } => {
                let slope = F::from_f64(slope);
                for (y, &x) in pairs {
                    *y = if x <= F::ZERO { slope * x } else { x };
                }
            }
            Activation::Relu6 => {
                let six = F::from_f64(6.0);
                // NaN stays, as in torch.
                for (y, &x) in pairs {
                    let low = if x <= F::ZERO { F::ZERO } else { x };
                    *y = if low >= six { six } else { low };
                }
            }
        }
    }
}

/// The gradient of `x` from that of `y`.
struct Slope<'a, F> {
    activation: Activation,
    x: &'a [F],
    y: &'a [F],
    factors: &'a [F],
    d_y: &'a [F],
    d_x: &'a mut [F],
}

impl<F: Real> WithSimd for Slope<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { activation, x, y, factors, d_y, d_x } = self;
        let pairs = d_x.iter_mut().zip(d_y);
        match activation {
            Activation::Sigmoid => {
                for ((d_x, &d_y), &y) in pairs.zip(y) {
                    *d_x = d_y * y * (F::ONE - y);
                }
            }
            Activation::Tanh => {
                for ((d_x, &d_y), &y) in pairs.zip(y) {
                    *d_x = d_y * (F::ONE - y * y);
                }
            }
            Activation::Gelu => {
                let scale = F::from_f64(1.0 / (2.0 * PI).sqrt());
                let half = F::from_f64(-0.5);
                for (((d_x, &d_y), &x), &share) in pairs.zip(x).zip(factors) {
                    *d_x = d_y * (share + x * scale * (half * x * x).exp());
                }
            }
            Activation::Silu => {
                for (((d_x, &d_y), &x), &s) in pairs.zip(x).zip(factors) {
                    *d_x = d_y * (s + x * s * (F::ONE - s));
                }
            }
            Activation::LeakyRelu { slope } => {
                let slope = F::from_f64(slope);
                for ((d_x, &d_y), &x) in pairs.zip(x) {
                    *d_x = if x <= F::ZERO { slope * d_y } else { d_y };
                }
            }
            Activation::Relu6 => {
                let six = F::from_f64(6.0);
                for ((d_x, &d_y), &x) in pairs.zip(x) {
                    *d_x = if x <= F::ZERO || x >= six { F::ZERO } else { d_y };
                }
            }
        }
    }
}

pub(super) fn forward<F: Real>(activation: Activation, pass: &mut Forward<'_, F>) {
    if matches!(activation, Activation::Gelu | Activation::Silu) {
        reserve(&mut pass.kept.floats, pass.inputs);
    }
    dispatch(Curve { activation, x: &pass.x[..pass.inputs], y: &mut pass.kept.value[..pass.outputs], factors: &mut pass.kept.floats });
}

pub(super) fn backward<F: Real>(activation: Activation, pass: &mut Backward<'_, F>) {
    if !pass.down {
        return;
    }
    let (scratch, kept) = (&mut *pass.scratch, &*pass.kept);
    dispatch(Slope {
        activation,
        x: &pass.x[..pass.inputs],
        y: &kept.value[..pass.outputs],
        factors: &kept.floats,
        d_y: &scratch.gradient[..pass.outputs],
        d_x: &mut scratch.next[..pass.inputs],
    });
}
