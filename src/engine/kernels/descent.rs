//! The step of a dense layer without its gradient in memory: `W -= rate (x^T d_y + corrections)`, and on the way the gradient of its
//! input, of the weights before the step. Weights go through the cache once.
//!
//! Each number is summed and rounded as [`LinearBackward`](super::LinearBackward) and [`Update`](super::Update) do it one after the
//! other, so that the results are the same bits; what is saved are the ways of the gradient through the cache.

use super::linear::{SHORT, add_products, input_by_turning, products};
use super::{Term, add_rows, load, reserve, store, widen};
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
    /// What corrects the gradient, one after the other.
    pub terms: &'a [Term<'a, F>],
    /// Added to; the bias takes no step here.
    pub d_bias: Option<&'a mut [F]>,
    /// At least rows x inputs.
    pub d_x: Option<&'a mut [F]>,
    /// Scratch: the gradient of the result, or of the input, with rows of whole packs.
    pub padded: &'a mut Vec<F>,
    /// Scratch: the weight turned.
    pub turned: &'a mut Vec<F>,
}

/// What all tiles of a layer share.
#[derive(Clone, Copy)]
struct Layer<'a, F: Real, S: Simd> {
    rows: usize,
    inputs: usize,
    outputs: usize,
    x: &'a [F],
    d_y: &'a [F::Pack<S>],
    rate: F::Pack<S>,
    terms: &'a [Term<'a, F>],
}

impl<F: Real> WithSimd for LinearDescent<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, inputs, outputs, x, weight, rate, terms, padded, .. } = self;
        let lanes = F::lanes::<S>();
        let packs = outputs.div_ceil(lanes);
        let line = packs * lanes;
        if let Some(d_bias) = self.d_bias {
            add_rows(&self.d_y[..rows * outputs], d_bias);
        }
        let mut d_x = self.d_x;
        if outputs <= SHORT
            && let Some(d_x) = d_x.take()
        {
            input_by_turning(simd, rows, inputs, outputs, weight, self.d_y, d_x, self.turned, padded);
        }
        let d_y = if line == outputs {
            &self.d_y[..rows * outputs]
        } else {
            reserve(padded, rows * line);
            widen(&self.d_y[..rows * outputs], outputs, line, &mut padded[..rows * line]);
            &padded[..rows * line]
        };
        let (d_y, _) = F::packs::<S>(d_y);
        let layer = Layer { rows, inputs, outputs, x, d_y, rate: F::splat(simd, -rate), terms };
        match S::F32_LANES {
            16 => all_inputs::<F, S, 8, 4>(simd, layer, weight, d_x),
            _ => all_inputs::<F, S, 4, 2>(simd, layer, weight, d_x),
        }
    }
}

/// `INPUTS` inputs at a time, of whose gradient `DOTS` at a time.
#[inline(always)]
fn all_inputs<F: Real, S: Simd, const INPUTS: usize, const DOTS: usize>(
    simd: S,
    layer: Layer<'_, F, S>,
    weight: &mut [F],
    mut d_x: Option<&mut [F]>,
) {
    let mut columns = [[F::ZERO; INPUTS]; MOST_ROWS];
    let mut single = [[F::ZERO; 1]; MOST_ROWS];
    let mut k = 0;
    while k < layer.inputs {
        if layer.inputs - k >= INPUTS {
            some_inputs::<F, S, INPUTS, DOTS>(simd, layer, k, weight, d_x.as_deref_mut(), &mut columns);
            k += INPUTS;
        } else {
            some_inputs::<F, S, 1, 1>(simd, layer, k, weight, d_x.as_deref_mut(), &mut single);
            k += 1;
        }
    }
}

#[inline(always)]
fn some_inputs<F: Real, S: Simd, const INPUTS: usize, const DOTS: usize>(
    simd: S,
    layer: Layer<'_, F, S>,
    k: usize,
    weight: &mut [F],
    d_x: Option<&mut [F]>,
    columns: &mut [[F; INPUTS]; MOST_ROWS],
) {
    let Layer { rows, inputs, outputs, x, d_y, .. } = layer;
    if let Some(d_x) = d_x {
        for dots in 0..INPUTS / DOTS {
            products::<F, S, DOTS>(simd, rows, inputs, outputs, k + dots * DOTS, weight, d_y, d_x);
        }
    }
    let (whole, packs) = (outputs / F::lanes::<S>(), outputs.div_ceil(F::lanes::<S>()));
    for (column, x) in columns.iter_mut().zip(x.chunks_exact(inputs).take(rows)) {
        column.copy_from_slice(&x[k..k + INPUTS]);
    }
    let columns = &columns[..rows];
    let mut pack = 0;
    while pack < packs {
        if whole - pack.min(whole) >= 2 {
            tile::<F, S, INPUTS, 2>(simd, layer, k, pack, columns, weight);
            pack += 2;
        } else {
            tile::<F, S, INPUTS, 1>(simd, layer, k, pack, columns, weight);
            pack += 1;
        }
    }
}

/// Packs of a row from a place on. Several of them are always whole ones.
#[inline(always)]
fn read<F: Real, S: Simd, const PACKS: usize>(simd: S, row: &[F], at: usize) -> [F::Pack<S>; PACKS] {
    let mut own = [F::splat(simd, F::ZERO); PACKS];
    if PACKS > 1 {
        own.copy_from_slice(F::packs::<S>(&row[at..][..PACKS * F::lanes::<S>()]).0);
    } else {
        own[0] = load::<F, S>(row, at);
    }
    own
}

#[inline(always)]
fn tile<F: Real, S: Simd, const INPUTS: usize, const PACKS: usize>(
    simd: S,
    layer: Layer<'_, F, S>,
    k: usize,
    pack: usize,
    columns: &[[F; INPUTS]],
    weight: &mut [F],
) {
    let (outputs, lanes) = (layer.outputs, F::lanes::<S>());
    let (packs, at) = (outputs.div_ceil(lanes), pack * lanes);
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; INPUTS];
    add_products::<F, S, INPUTS, PACKS>(simd, columns, &layer.d_y[pack..], packs, &mut sums);
    // Rows of constant number in the innermost loops, so that the sums stay in registers.
    for term in layer.terms {
        match *term {
            Term::Proximal(mu, reference) => {
                let mu = F::splat(simd, mu);
                for i in 0..INPUTS {
                    let own = read::<F, S, PACKS>(simd, &weight[(k + i) * outputs..][..outputs], at);
                    let reference = read::<F, S, PACKS>(simd, &reference[(k + i) * outputs..][..outputs], at);
                    for p in 0..PACKS {
                        let pull = F::pack_mul(simd, mu, F::pack_sub(simd, own[p], reference[p]));
                        sums[i][p] = F::pack_add(simd, sums[i][p], pull);
                    }
                }
            }
            Term::Add(values) => {
                for i in 0..INPUTS {
                    let values = read::<F, S, PACKS>(simd, &values[(k + i) * outputs..][..outputs], at);
                    for p in 0..PACKS {
                        sums[i][p] = F::pack_add(simd, sums[i][p], values[p]);
                    }
                }
            }
            Term::Subtract(values) => {
                for i in 0..INPUTS {
                    let values = read::<F, S, PACKS>(simd, &values[(k + i) * outputs..][..outputs], at);
                    for p in 0..PACKS {
                        sums[i][p] = F::pack_sub(simd, sums[i][p], values[p]);
                    }
                }
            }
            Term::Decay(factor) => {
                let factor = F::splat(simd, factor);
                for i in 0..INPUTS {
                    let own = read::<F, S, PACKS>(simd, &weight[(k + i) * outputs..][..outputs], at);
                    for p in 0..PACKS {
                        sums[i][p] = F::pack_mul_add(simd, factor, own[p], sums[i][p]);
                    }
                }
            }
        }
    }
    for i in 0..INPUTS {
        let row = &mut weight[(k + i) * outputs..][..outputs];
        let mut own = read::<F, S, PACKS>(simd, row, at);
        for p in 0..PACKS {
            own[p] = F::pack_mul_add(simd, layer.rate, sums[i][p], own[p]);
        }
        if PACKS > 1 {
            F::packs_mut::<S>(&mut row[at..][..PACKS * lanes]).0.copy_from_slice(&own);
        } else {
            store::<F, S>(own[0], row, at);
        }
    }
}
