//! The floats that the engine computes in: `f32` for training, `f64` for gradient attacks and tests.

use super::elementary;
use super::precision;
use super::simd::Lanes;
use statrs::function::erf::erfc;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A float of the engine.
pub trait Real:
    Lanes
    + Default
    + PartialEq
    + PartialOrd
    + Debug
    + Display
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Minus infinity.
    const NEG_INFINITY: Self;

    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The value, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value.
    fn from_usize(value: usize) -> Self;
    /// The whole number within 0 to 255 that is nearest towards 0.
    fn to_u8(self) -> u8;
    /// `self * a + b`, rounded once on every CPU; slow where the CPU has no such instruction, so not for kernels.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The exponential; in single precision without branches, for whole packs (`elementary`).
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The hyperbolic tangent, as the exponential.
    fn tanh(self) -> Self;
    /// The share of a standard normal distribution below the value, as the exponential.
    fn normal_share(self) -> Self;
    /// The nearest number with 8 significant bits, of two the even one; a double is made single first.
    fn bf16(self) -> Self;
    /// The same number as the upper half of the bits of a single; the lower half is 0.
    fn bf16_bits(self) -> u32;
    /// The numbers, if they are single.
    fn singles(values: &mut [Self]) -> Option<&mut [f32]>;
    /// The greater of two values; the other one where one is NaN.
    fn max(self, other: Self) -> Self;
    /// The lesser of two values; the other one where one is NaN.
    fn min(self, other: Self) -> Self;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// NaN.
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($float:ty, $exp:path, $tanh:path, $normal_share:path, $bf16:path, $singles:expr) => {
        impl Real for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = <$float>::NEG_INFINITY;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn from_usize(value: usize) -> Self {
                value as $float
            }
            #[inline(always)]
            fn to_u8(self) -> u8 {
                self as u8
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                <$float>::mul_add(self, a, b)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                <$float>::ln(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                <$float>::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                <$float>::abs(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline(always)]
            fn normal_share(self) -> Self {
                $normal_share(self)
            }
            #[inline(always)]
            fn bf16(self) -> Self {
                $bf16(self)
            }
            #[inline(always)]
            fn bf16_bits(self) -> u32 {
                ($bf16(self) as f32).to_bits()
            }
            #[inline(always)]
            fn singles(values: &mut [Self]) -> Option<&mut [f32]> {
                $singles(values)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                <$float>::max(self, other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                <$float>::min(self, other)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                <$float>::is_finite(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$float>::is_nan(self)
            }
        }
    };
}

real!(f32, elementary::exp, elementary::tanh, elementary::normal_share, precision::bf16, Some);
real!(f64, f64::exp, f64::tanh, normal_share, bf16, |_| None);

#[inline(always)]
fn bf16(value: f64) -> f64 {
    f64::from(precision::bf16(value as f32))
}

/// In double precision.
fn normal_share(x: f64) -> f64 {
    0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
