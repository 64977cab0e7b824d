//! The step of a dense layer without its gradient in memory: `W -= rate (x^T d_y + decay W)` in one pass over the weights.
//!
//! Each number is summed and rounded as [`LinearBackward`](super::LinearBackward) and [`Update`](super::Update) do it one after the
//! other, so that the results are the same bits; what is saved are the ways of the gradient through the cache.

use super::linear::add_products;
use super::{load, reserve, store, widen};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// Rows up to which the sums stay in registers; more of them go the other way.
pub(in crate::engine) const MOST_ROWS: usize = 32;

/// Weights are (in, out).
pub(in crate::engine) struct LinearDescent<'a, F> {
    /// At most [`MOST_ROWS`].
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub x: &'a [F],
    pub d_y: &'a [F],
    pub weight: &'a mut [F],
    pub rate: F,
    /// Factors of the weights that are added to the gradient, one after the other.
    pub decays: &'a [F],
    /// Scratch: the gradient of the result, with rows of whole packs.
    pub padded: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for LinearDescent<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, inputs, outputs, x, weight, rate, decays, padded, .. } = self;
        let lanes = F::lanes::<S>();
        let packs = outputs.div_ceil(lanes);
        let line = packs * lanes;
        let d_y = if line == outputs {
            &self.d_y[..rows * outputs]
        } else {
            reserve(padded, rows * line);
            widen(&self.d_y[..rows * outputs], outputs, line, &mut padded[..rows * line]);
            &padded[..rows * line]
        };
        let (d_y, _) = F::packs::<S>(d_y);
        let rate = F::splat(simd, -rate);
        match S::F32_LANES {
            16 => layer::<F, S, 8>(simd, rows, inputs, outputs, x, d_y, rate, decays, weight),
            _ => layer::<F, S, 4>(simd, rows, inputs, outputs, x, d_y, rate, decays, weight),
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn layer<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    outputs: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    rate: F::Pack<S>,
    decays: &[F],
    weight: &mut [F],
) {
    let mut columns = [[F::ZERO; INPUTS]; MOST_ROWS];
    let mut single = [[F::ZERO; 1]; MOST_ROWS];
    let mut k = 0;
    while k < inputs {
        if inputs - k >= INPUTS {
            some_inputs::<F, S, INPUTS>(simd, rows, inputs, outputs, k, x, d_y, rate, decays, weight, &mut columns);
            k += INPUTS;
        } else {
            some_inputs::<F, S, 1>(simd, rows, inputs, outputs, k, x, d_y, rate, decays, weight, &mut single);
            k += 1;
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn some_inputs<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    outputs: usize,
    k: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    rate: F::Pack<S>,
    decays: &[F],
    weight: &mut [F],
    columns: &mut [[F; INPUTS]; MOST_ROWS],
) {
    let (whole, packs) = (outputs / F::lanes::<S>(), outputs.div_ceil(F::lanes::<S>()));
    let weight = &mut weight[k * outputs..][..INPUTS * outputs];
    for (column, x) in columns.iter_mut().zip(x.chunks_exact(inputs).take(rows)) {
        column.copy_from_slice(&x[k..k + INPUTS]);
    }
    let columns = &columns[..rows];
    let mut pack = 0;
    while pack < packs {
        if whole - pack.min(whole) >= 2 {
            tile::<F, S, INPUTS, 2>(simd, outputs, pack, columns, d_y, rate, decays, weight);
            pack += 2;
        } else {
            tile::<F, S, INPUTS, 1>(simd, outputs, pack, columns, d_y, rate, decays, weight);
            pack += 1;
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn tile<F: Real, S: Simd, const INPUTS: usize, const PACKS: usize>(
    simd: S,
    outputs: usize,
    pack: usize,
    columns: &[[F; INPUTS]],
    d_y: &[F::Pack<S>],
    rate: F::Pack<S>,
    decays: &[F],
    weight: &mut [F],
) {
    let lanes = F::lanes::<S>();
    let packs = outputs.div_ceil(lanes);
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; INPUTS];
    add_products::<F, S, INPUTS, PACKS>(simd, columns, &d_y[pack..], packs, &mut sums);
    for i in 0..INPUTS {
        let row = &mut weight[i * outputs..][..outputs];
        let mut own = [F::splat(simd, F::ZERO); PACKS];
        // Several packs are always whole ones.
        if PACKS > 1 {
            own.copy_from_slice(F::packs::<S>(&row[pack * lanes..][..PACKS * lanes]).0);
        } else {
            own[0] = load::<F, S>(row, pack * lanes);
        }
        for p in 0..PACKS {
            for &decay in decays {
                sums[i][p] = F::pack_mul_add(simd, F::splat(simd, decay), own[p], sums[i][p]);
            }
            own[p] = F::pack_mul_add(simd, rate, sums[i][p], own[p]);
        }
        if PACKS > 1 {
            F::packs_mut::<S>(&mut row[pack * lanes..][..PACKS * lanes]).0.copy_from_slice(&own);
        } else {
            store::<F, S>(own[0], row, pack * lanes);
        }
    }
}
