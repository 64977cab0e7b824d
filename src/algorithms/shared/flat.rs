//! Inner products and distances of flat parameter vectors, at memory speed and the same on every machine.

use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;

/// Numbers summed in `f32` before `f64` takes over.
const BLOCK: usize = 1024;
/// Sums that run side by side, so that the compiler can use vector registers.
const LANES: usize = 16;

/// The sum of `a * b`, or of `(a - b)^2`; each product and each sum is rounded, so that every instruction set finds the same.
struct Sum<'a, const DISTANCE: bool> {
    a: &'a [f32],
    b: &'a [f32],
}

impl<const DISTANCE: bool> WithSimd for Sum<'_, DISTANCE> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut total = 0.0;
        for (a, b) in self.a.chunks(BLOCK).zip(self.b.chunks(BLOCK)) {
            let mut sums = [0.0f32; LANES];
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            for (a, b) in a.iter().zip(b) {
                for i in 0..LANES {
                    sums[i] += term::<DISTANCE>(a[i], b[i]);
                }
            }
            let mut rest = 0.0;
            for (a, b) in a_rest.iter().zip(b_rest) {
                rest += term::<DISTANCE>(*a, *b);
            }
            total += f64::from(sums.iter().sum::<f32>() + rest);
        }
        total
    }
}

#[inline(always)]
fn term<const DISTANCE: bool>(a: f32, b: f32) -> f32 {
    if DISTANCE { (a - b) * (a - b) } else { a * b }
}

/// The inner product of two vectors of the same length.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    dispatch(Sum::<false> { a, b })
}

/// The squared Euclidean distance of two vectors of the same length.
pub(crate) fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    dispatch(Sum::<true> { a, b })
}

/// `to += factor * values`, product and sum rounded.
pub(crate) fn add_scaled(to: &mut [f32], factor: f32, values: &[f32]) {
    dispatch(AddScaled { to, factor, values });
}

struct AddScaled<'a> {
    to: &'a mut [f32],
    factor: f32,
    values: &'a [f32],
}

impl WithSimd for AddScaled<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (to, value) in self.to.iter_mut().zip(self.values) {
            *to += self.factor * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_counts_once_whatever_the_length() {
        for len in [0, 1, 15, 16, 17, 1023, 1024, 1025, 5000] {
            let a: Vec<f32> = (0..len).map(|i| (i % 7) as f32).collect();
            let b: Vec<f32> = (0..len).map(|i| (i % 3) as f32).collect();
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert_eq!(dot(&a, &b), f64::from(exact));
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
            assert_eq!(squared_distance(&a, &b), f64::from(exact));
        }
    }
}
