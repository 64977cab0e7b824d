//! The precision of products: what a network's convolutions and dense layers multiply.
//!
//! With bf16, every factor of their products is rounded to 8 significant bits, forward and backward; sums, biases, normalisations, losses
//! and the parameters themselves stay in single precision (Micikevicius et al., "Mixed Precision Training", ICLR 2018, with the format of
//! Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019). A product of two such numbers is exact in single precision, so
//! the kernels are the same; only dense layers have others where the CPU multiplies pairs of such numbers. Results are equal bit for bit on
//! CPUs of a class that all have such products, or all have not.

use super::network::Network;
use super::ops::Op;
use super::real::Real;
use super::simd::{self, WithSimd, dispatch};
use pulp::Simd;
use serde::Deserialize;
use std::ops::Range;

/// What products are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Single precision.
    #[default]
    F32,
    /// Factors rounded to bf16, sums in single precision.
    Bf16,
}

/// The nearest number with 8 significant bits, of two the even one, as IEEE 754 rounds; beyond the greatest lies infinity.
#[inline(always)]
pub(super) fn bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    // Rounding could make a NaN something else.
    if value.is_nan() { value } else { f32::from_bits(rounded) }
}

struct Round<'a, F> {
    from: &'a [F],
    to: &'a mut [F],
}

impl<F: Real> WithSimd for Round<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to = from.bf16();
        }
    }
}

/// Writes the rounded numbers to the beginning of `to`.
pub(super) fn round<F: Real>(from: &[F], to: &mut [F]) {
    dispatch(Round { from, to: &mut to[..from.len()] });
}

struct RoundHere<'a, F>(&'a mut [F]);

impl<F: Real> WithSimd for RoundHere<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for value in self.0 {
            *value = value.bf16();
        }
    }
}

/// Rounds in place.
pub(super) fn round_here<F: Real>(values: &mut [F]) {
    dispatch(RoundHere(values));
}

/// The weight of an operation whose products are rounded, and its bias, which is not.
pub(super) fn factors(op: &Op) -> Option<(&Range<usize>, Option<&Range<usize>>)> {
    match op {
        Op::Conv { weight, bias, .. } | Op::Linear { weight, bias } => Some((weight, bias.as_ref())),
        Op::Grouped(grouped) => Some((&grouped.weight, grouped.bias.as_ref())),
        Op::Dense(dense) => Some((&dense.weight, dense.bias.as_ref())),
        _ => None,
    }
}

/// Whether an operation's factors are multiplied as pairs, by the CPU's own products of bf16 numbers: it then rounds them itself.
pub(super) fn pairs<F: Real>(op: &Op) -> bool {
    matches!(op, Op::Linear { .. } | Op::Dense(_)) && F::singles(&mut []).is_some() && simd::pairs::multiplies()
}

/// Whether an operation's factors have to be rounded for it.
pub(super) fn rounds<F: Real>(op: &Op) -> bool {
    factors(op).is_some() && !pairs::<F>(op)
}

/// Makes `weights` the parameters of the steps' products: flat as the parameters, weights rounded. Those that are multiplied as pairs are
/// left out.
pub(super) fn round_weights<F: Real>(net: &Network, steps: Range<usize>, params: &[F], weights: &mut Vec<F>) {
    weights.resize(params.len(), F::ZERO);
    for (weight, bias) in net.steps[steps].iter().filter(|step| !pairs::<F>(&step.op)).filter_map(|step| factors(&step.op)) {
        round(&params[weight.clone()], &mut weights[weight.clone()]);
        if let Some(bias) = bias {
            weights[bias.clone()].copy_from_slice(&params[bias.clone()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bf16;

    #[test]
    fn halves_go_to_even() {
        assert_eq!(bf16(1.0), 1.0);
        // 2^-8 is half of the last place of 1: it goes to the even 1, and from the odd 1 + 2^-7 up.
        assert_eq!(bf16(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(bf16(1.0 + 1.0 / 128.0 + 1.0 / 256.0), 1.0 + 1.0 / 64.0);
        assert_eq!(bf16(1.0 + 1.0 / 256.0 + 1.0 / 65536.0), 1.0 + 1.0 / 128.0);
        assert_eq!(bf16(-3.1428), -3.140625);
        assert_eq!(bf16(f32::MAX), f32::INFINITY);
        assert!(bf16(f32::NAN).is_nan() && bf16(f32::from_bits(0x7fff_ffff)).is_nan());
        assert_eq!(bf16(1e-40), f32::from_bits((1e-40f32.to_bits() + 0x8000) & 0xffff_0000));
    }
}
