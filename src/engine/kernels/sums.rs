//! Reductions of a slice with as many partial results as fill the widest registers, for kernels that are no products.

use crate::engine::real::Real;

/// Partial results side by side.
const SUMS: usize = 16;

/// The sum, of partial sums added in `f64`.
#[inline(always)]
pub(in crate::engine) fn sum<F: Real>(values: &[F]) -> f64 {
    let (blocks, rest) = values.as_chunks::<SUMS>();
    let mut sums = [F::ZERO; SUMS];
    for block in blocks {
        for i in 0..SUMS {
            sums[i] += block[i];
        }
    }
    let mut total = 0.0;
    for value in sums.iter().chain(rest) {
        total += value.to_f64();
    }
    total
}

/// The sum of `a * (b - less)`, as [`sum`].
#[inline(always)]
pub(in crate::engine) fn sum_of_products<F: Real>(a: &[F], b: &[F], less: F) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    let mut sums = [F::ZERO; SUMS];
    for (a, b) in a.iter().zip(b) {
        for i in 0..SUMS {
            sums[i] += a[i] * (b[i] - less);
        }
    }
    let mut total = 0.0;
    for value in sums {
        total += value.to_f64();
    }
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        total += (a * (b - less)).to_f64();
    }
    total
}

/// The greatest value; NaN is passed over.
#[inline(always)]
pub(in crate::engine) fn greatest<F: Real>(values: &[F]) -> F {
    let (blocks, rest) = values.as_chunks::<SUMS>();
    let mut most = [F::NEG_INFINITY; SUMS];
    for block in blocks {
        for i in 0..SUMS {
            most[i] = if block[i] > most[i] { block[i] } else { most[i] };
        }
    }
    let mut greatest = F::NEG_INFINITY;
    for &value in most.iter().chain(rest) {
        greatest = if value > greatest { value } else { greatest };
    }
    greatest
}
