//! The dense layer, forward and backward; weights are (in, out).
//!
//! Every output is one chain of sums over the inputs in order, so a sample's result does not depend on the samples beside it.
//!
//! A row of outputs that is no whole number of packs is read where it lies: the lanes behind its end hold the next row's values, whose
//! results are thrown away, or meet zeros.

use super::{add_rows, load, relu, reserve, store, widen};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// Inputs that are summed before the next columns: few enough that their weights stay near.
const BLOCK: usize = 16;

/// `y = relu?(x W + b)`.
pub(in crate::engine) struct LinearForward<'a, F> {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub x: &'a [F],
    pub weight: &'a [F],
    pub bias: Option<&'a [F]>,
    pub relu: bool,
    /// At least rows x outputs.
    pub y: &'a mut [F],
    /// Scratch: bias and result, with rows of whole packs.
    pub padded: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for LinearForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, inputs, outputs, x, weight, bias, .. } = self;
        let lanes = F::lanes::<S>();
        let packs = outputs.div_ceil(lanes);
        let line = packs * lanes;
        let y = if line == outputs {
            &mut self.y[..rows * outputs]
        } else {
            reserve(self.padded, rows * line);
            &mut self.padded[..rows * line]
        };
        for y in y.chunks_exact_mut(line) {
            match bias {
                Some(bias) => y[..outputs].copy_from_slice(bias),
                None => y.fill(F::ZERO),
            }
            y[outputs..].fill(F::ZERO);
        }
        let near = near(inputs, line);
        for (x, y) in x[..rows * inputs].chunks(near * inputs).zip(y.chunks_mut(near * line)) {
            let (y, _) = F::packs_mut::<S>(y);
            let rows = x.len() / inputs;
            let mut from = 0;
            while from < inputs {
                let count = BLOCK.min(inputs - from);
                let weight = &weight[from * outputs..];
                let mut row = 0;
                while row < rows {
                    let x = &x[row * inputs + from..];
                    let y = &mut y[row * packs..];
                    row += match rows - row {
                        left if left >= 5 => product::<F, S, 5, 2>(simd, inputs, outputs, count, x, weight, y),
                        left if left >= 2 => product::<F, S, 2, 4>(simd, inputs, outputs, count, x, weight, y),
                        _ => product::<F, S, 1, 8>(simd, inputs, outputs, count, x, weight, y),
                    };
                }
                from += count;
            }
        }
        if line != outputs {
            for (y, padded) in self.y.chunks_exact_mut(outputs).zip(self.padded.chunks_exact(line)).take(rows) {
                y.copy_from_slice(&padded[..outputs]);
            }
        }
        if self.relu {
            relu(&mut self.y[..rows * outputs]);
        }
    }
}

/// Rows at a time: so few that what is read and written of them stays near, and a multiple of the rows of a tile.
#[inline(always)]
fn near(inputs: usize, outputs: usize) -> usize {
    (16_384 / inputs.max(outputs) / 5 * 5).clamp(10, 60)
}

/// Adds the products of `count` inputs to the results of `ROWS` rows; returns `ROWS`.
#[inline(always)]
fn product<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    inputs: usize,
    outputs: usize,
    count: usize,
    x: &[F],
    weight: &[F],
    y: &mut [F::Pack<S>],
) -> usize {
    // The inputs of one place side by side, so that the inner loop reads them in order.
    let mut columns = [[F::ZERO; ROWS]; BLOCK];
    for r in 0..ROWS {
        for (column, &value) in columns.iter_mut().zip(&x[r * inputs..][..count]) {
            column[r] = value;
        }
    }
    let columns = &columns[..count];
    let lanes = F::lanes::<S>();
    let (whole, packs) = (outputs / lanes, outputs.div_ceil(lanes));
    let mut pack = 0;
    while pack + PACKS <= whole {
        product_tile::<F, S, ROWS, PACKS>(simd, (outputs, packs), columns, &weight[pack * lanes..], &mut y[pack..]);
        pack += PACKS;
    }
    while pack < packs {
        product_tile::<F, S, ROWS, 1>(simd, (outputs, packs), columns, &weight[pack * lanes..], &mut y[pack..]);
        pack += 1;
    }
    ROWS
}

#[inline(always)]
fn product_tile<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    (outputs, packs): (usize, usize),
    columns: &[[F; ROWS]],
    weight: &[F],
    y: &mut [F::Pack<S>],
) {
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; ROWS];
    for (r, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(&y[r * packs..][..PACKS]);
    }
    for (k, column) in columns.iter().enumerate() {
        // Several packs are always whole ones.
        let mut own = [F::splat(simd, F::ZERO); PACKS];
        if PACKS > 1 {
            own.copy_from_slice(F::packs::<S>(&weight[k * outputs..][..PACKS * F::lanes::<S>()]).0);
        } else {
            own[0] = load::<F, S>(weight, k * outputs);
        }
        for r in 0..ROWS {
            let value = F::splat(simd, column[r]);
            for p in 0..PACKS {
                sums[r][p] = F::pack_mul_add(simd, value, own[p], sums[r][p]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        y[r * packs..][..PACKS].copy_from_slice(sums);
    }
}

/// Adds to the gradients of weight and bias, and writes that of the input.
pub(in crate::engine) struct LinearBackward<'a, F> {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub x: &'a [F],
    pub weight: &'a [F],
    pub d_y: &'a [F],
    pub d_weight: Option<&'a mut [F]>,
    pub d_bias: Option<&'a mut [F]>,
    /// At least rows x inputs.
    pub d_x: Option<&'a mut [F]>,
    /// Scratch: gradient of the result, or of the input, with rows of whole packs.
    pub padded: &'a mut Vec<F>,
    /// Scratch: the weight turned.
    pub turned: &'a mut Vec<F>,
}

/// Outputs up to which the input's gradient is the product with the turned weight: shorter sums over packs would spend most of their
/// time on adding up lanes.
pub(super) const SHORT: usize = 64;

impl<F: Real> WithSimd for LinearBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (rows, inputs, outputs) = (self.rows, self.inputs, self.outputs);
        let lanes = F::lanes::<S>();
        let packs = outputs.div_ceil(lanes);
        let line = packs * lanes;
        if let Some(d_bias) = self.d_bias {
            add_rows(&self.d_y[..rows * outputs], d_bias);
        }
        let Self { x, weight, d_y, d_weight, d_x, padded, turned, .. } = self;
        let mut d_x = d_x;
        if outputs <= SHORT
            && let Some(d_x) = d_x.take()
        {
            input_by_turning(simd, rows, inputs, outputs, weight, d_y, d_x, turned, padded);
        }
        let d_y = if line == outputs {
            &d_y[..rows * outputs]
        } else {
            reserve(padded, rows * line);
            widen(&d_y[..rows * outputs], outputs, line, &mut padded[..rows * line]);
            &padded[..rows * line]
        };
        let (d_y, _) = F::packs::<S>(d_y);
        if let Some(d_x) = d_x {
            let near = near(inputs, line);
            for (d_y, d_x) in d_y.chunks(near * packs).zip(d_x.chunks_mut(near * inputs)) {
                let rows = d_y.len() / packs;
                let mut k = 0;
                while k < inputs {
                    k += match inputs - k {
                        // Of 32 registers 20 hold sums.
                        left if left >= 4 && S::F32_LANES == 16 => products::<F, S, 4>(simd, rows, inputs, outputs, k, weight, d_y, d_x),
                        left if left >= 2 => products::<F, S, 2>(simd, rows, inputs, outputs, k, weight, d_y, d_x),
                        _ => products::<F, S, 1>(simd, rows, inputs, outputs, k, weight, d_y, d_x),
                    };
                }
            }
        }
        if let Some(d_weight) = d_weight {
            match S::F32_LANES {
                16 => outer::<F, S, 8>(simd, rows, inputs, outputs, x, d_y, d_weight),
                _ => outer::<F, S, 4>(simd, rows, inputs, outputs, x, d_y, d_weight),
            }
        }
    }
}

/// The input's gradient as the product with the turned weight.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn input_by_turning<F: Real, S: Simd>(
    simd: S,
    rows: usize,
    inputs: usize,
    outputs: usize,
    weight: &[F],
    d_y: &[F],
    d_x: &mut [F],
    turned: &mut Vec<F>,
    padded: &mut Vec<F>,
) {
    reserve(turned, inputs * outputs);
    turn(weight, outputs, inputs, &mut turned[..inputs * outputs]);
    let (inputs, outputs) = (outputs, inputs);
    let weight = &turned[..inputs * outputs];
    LinearForward { rows, inputs, outputs, x: d_y, weight, bias: None, relu: false, y: d_x, padded }.with_simd(simd);
}

/// Rows of `line` numbers to columns, which begin `step` numbers apart, by blocks of a line of the cache.
#[inline(always)]
pub(super) fn turn<T: Copy>(from: &[T], line: usize, step: usize, to: &mut [T]) {
    const BLOCK: usize = 16;
    for (block, from) in from.chunks(BLOCK * line).enumerate() {
        for (column, to) in to.chunks_exact_mut(step).enumerate() {
            for (to, &value) in to[block * BLOCK..].iter_mut().zip(from[column..].iter().step_by(line)) {
                *to = value;
            }
        }
    }
}

/// The input gradient of inputs `k..k + INPUTS` for all rows; returns `INPUTS`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn products<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    outputs: usize,
    k: usize,
    weight: &[F],
    d_y: &[F::Pack<S>],
    d_x: &mut [F],
) -> usize {
    let mut rows_of_weight: [&[F]; INPUTS] = [&[]; INPUTS];
    for (i, row) in rows_of_weight.iter_mut().enumerate() {
        *row = &weight[(k + i) * outputs..][..outputs];
    }
    let weight = rows_of_weight;
    let mut row = 0;
    while row < rows {
        row += if rows - row >= 5 {
            dots::<F, S, INPUTS, 5>(simd, inputs, k, row, weight, d_y, d_x)
        } else {
            dots::<F, S, INPUTS, 1>(simd, inputs, k, row, weight, d_y, d_x)
        };
    }
    INPUTS
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn dots<F: Real, S: Simd, const INPUTS: usize, const ROWS: usize>(
    simd: S,
    inputs: usize,
    k: usize,
    row: usize,
    weight: [&[F]; INPUTS],
    d_y: &[F::Pack<S>],
    d_x: &mut [F],
) -> usize {
    let lanes = F::lanes::<S>();
    let packs = weight[0].len().div_ceil(lanes);
    let d_y = &d_y[row * packs..][..ROWS * packs];
    let mut sums = [[F::splat(simd, F::ZERO); INPUTS]; ROWS];
    let mut whole = [F::packs::<S>(weight[0]).0; INPUTS];
    for i in 1..INPUTS {
        whole[i] = F::packs::<S>(weight[i]).0;
    }
    for p in 0..packs {
        let mut own = [F::splat(simd, F::ZERO); INPUTS];
        for i in 0..INPUTS {
            own[i] = if p < whole[0].len() { whole[i][p] } else { load::<F, S>(weight[i], p * lanes) };
        }
        for r in 0..ROWS {
            for i in 0..INPUTS {
                sums[r][i] = F::pack_mul_add(simd, d_y[r * packs + p], own[i], sums[r][i]);
            }
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        for (i, sum) in sums.into_iter().enumerate() {
            d_x[(row + r) * inputs + k + i] = F::pack_sum(simd, sum);
        }
    }
    ROWS
}

/// Rows whose products are summed before the next ones: few enough that what is read of them stays near.
const ROWS: usize = 32;

/// Adds the outer products of all rows, in their order.
#[inline(always)]
fn outer<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    outputs: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    d_weight: &mut [F],
) {
    let packs = outputs.div_ceil(F::lanes::<S>());
    // The inputs side by side: rows of a power of two numbers would meet in the same places of the cache.
    let mut columns = [[F::ZERO; INPUTS]; ROWS];
    let mut single = [[F::ZERO; 1]; ROWS];
    let mut row = 0;
    while row < rows {
        let count = ROWS.min(rows - row);
        let (x, d_y) = (&x[row * inputs..][..count * inputs], &d_y[row * packs..][..count * packs]);
        let mut k = 0;
        while k < inputs {
            k += match inputs - k {
                left if left >= INPUTS => outer_tiles::<F, S, INPUTS>(simd, inputs, outputs, k, x, d_y, d_weight, &mut columns),
                _ => outer_tiles::<F, S, 1>(simd, inputs, outputs, k, x, d_y, d_weight, &mut single),
            };
        }
        row += count;
    }
}

/// For `INPUTS` inputs; returns `INPUTS`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn outer_tiles<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    inputs: usize,
    outputs: usize,
    k: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    d_weight: &mut [F],
    columns: &mut [[F; INPUTS]; ROWS],
) -> usize {
    let (whole, packs) = (outputs / F::lanes::<S>(), outputs.div_ceil(F::lanes::<S>()));
    let d_weight = &mut d_weight[k * outputs..][..INPUTS * outputs];
    let count = x.len() / inputs;
    for (column, x) in columns.iter_mut().zip(x.chunks_exact(inputs)) {
        column.copy_from_slice(&x[k..k + INPUTS]);
    }
    let columns = &columns[..count];
    let mut pack = 0;
    while pack < packs {
        pack += if whole - pack.min(whole) >= 2 {
            outer_tile::<F, S, INPUTS, 2>(simd, outputs, pack, columns, d_y, d_weight)
        } else {
            outer_tile::<F, S, INPUTS, 1>(simd, outputs, pack, columns, d_y, d_weight)
        };
    }
    INPUTS
}

/// Adds each row's products of some inputs and some packs of the output's gradient, whose rows are `packs` long.
#[inline(always)]
pub(super) fn add_products<F: Real, S: Simd, const INPUTS: usize, const PACKS: usize>(
    simd: S,
    columns: &[[F; INPUTS]],
    d_y: &[F::Pack<S>],
    packs: usize,
    sums: &mut [[F::Pack<S>; PACKS]; INPUTS],
) {
    for (r, column) in columns.iter().enumerate() {
        let d_y = &d_y[r * packs..][..PACKS];
        for i in 0..INPUTS {
            let value = F::splat(simd, column[i]);
            for p in 0..PACKS {
                sums[i][p] = F::pack_mul_add(simd, value, d_y[p], sums[i][p]);
            }
        }
    }
}

#[inline(always)]
fn outer_tile<F: Real, S: Simd, const INPUTS: usize, const PACKS: usize>(
    simd: S,
    outputs: usize,
    pack: usize,
    columns: &[[F; INPUTS]],
    d_y: &[F::Pack<S>],
    d_weight: &mut [F],
) -> usize {
    let lanes = F::lanes::<S>();
    let packs = outputs.div_ceil(lanes);
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; INPUTS];
    // Several packs are always whole ones.
    for i in 0..INPUTS {
        let row = &d_weight[i * outputs..][..outputs];
        if PACKS > 1 {
            sums[i].copy_from_slice(F::packs::<S>(&row[pack * lanes..][..PACKS * lanes]).0);
        } else {
            sums[i][0] = load::<F, S>(row, pack * lanes);
        }
    }
    add_products::<F, S, INPUTS, PACKS>(simd, columns, &d_y[pack..], packs, &mut sums);
    for i in 0..INPUTS {
        let row = &mut d_weight[i * outputs..][..outputs];
        if PACKS > 1 {
            F::packs_mut::<S>(&mut row[pack * lanes..][..PACKS * lanes]).0.copy_from_slice(&sums[i]);
        } else {
            store::<F, S>(sums[i][0], row, pack * lanes);
        }
    }
    PACKS
}
