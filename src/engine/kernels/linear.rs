//! The dense layer, forward and backward; weights are (in, out).
//!
//! Every output is one chain of sums over the inputs in order, so a sample's result does not depend on the samples beside it.

use super::{relu, reserve};
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
    /// Scratch: weight, and bias and result, with rows of whole packs.
    pub packed: &'a mut Vec<F>,
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
        let weight = if line == outputs {
            weight
        } else {
            reserve(self.packed, inputs * line);
            widen(weight, outputs, line, &mut self.packed[..inputs * line]);
            &self.packed[..inputs * line]
        };
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
        let (weight, _) = F::packs::<S>(weight);
        let (y_packs, _) = F::packs_mut::<S>(y);
        let mut from = 0;
        while from < inputs {
            let count = BLOCK.min(inputs - from);
            let weight = &weight[from * packs..(from + count) * packs];
            let mut row = 0;
            while row < rows {
                let x = &x[row * inputs + from..];
                let y = &mut y_packs[row * packs..];
                row += match rows - row {
                    left if left >= 5 => product::<F, S, 5, 2>(simd, inputs, packs, count, x, weight, y),
                    left if left >= 2 => product::<F, S, 2, 4>(simd, inputs, packs, count, x, weight, y),
                    _ => product::<F, S, 1, 8>(simd, inputs, packs, count, x, weight, y),
                };
            }
            from += count;
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

/// Adds the products of `count` inputs to the results of `ROWS` rows; returns `ROWS`.
#[inline(always)]
fn product<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    inputs: usize,
    packs: usize,
    count: usize,
    x: &[F],
    weight: &[F::Pack<S>],
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
    let mut pack = 0;
    while pack + PACKS <= packs {
        product_tile::<F, S, ROWS, PACKS>(simd, packs, columns, &weight[pack..], &mut y[pack..]);
        pack += PACKS;
    }
    while pack < packs {
        product_tile::<F, S, ROWS, 1>(simd, packs, columns, &weight[pack..], &mut y[pack..]);
        pack += 1;
    }
    ROWS
}

#[inline(always)]
fn product_tile<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    packs: usize,
    columns: &[[F; ROWS]],
    weight: &[F::Pack<S>],
    y: &mut [F::Pack<S>],
) {
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; ROWS];
    for (r, sums) in sums.iter_mut().enumerate() {
        sums.copy_from_slice(&y[r * packs..][..PACKS]);
    }
    for (k, column) in columns.iter().enumerate() {
        let weight = &weight[k * packs..][..PACKS];
        for r in 0..ROWS {
            let value = F::splat(simd, column[r]);
            for p in 0..PACKS {
                sums[r][p] = F::pack_mul_add(simd, value, weight[p], sums[r][p]);
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
    /// Scratch: weight, gradient of the result and gradient of the weight, with rows of whole packs.
    pub packed: &'a mut Vec<F>,
    pub padded: &'a mut Vec<F>,
    pub wide: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for LinearBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (rows, inputs, outputs) = (self.rows, self.inputs, self.outputs);
        let lanes = F::lanes::<S>();
        let packs = outputs.div_ceil(lanes);
        let line = packs * lanes;
        if let Some(d_bias) = self.d_bias.as_deref_mut() {
            for d_y in self.d_y[..rows * outputs].chunks_exact(outputs) {
                for (sum, &value) in d_bias.iter_mut().zip(d_y) {
                    *sum += value;
                }
            }
        }
        let whole = line == outputs;
        let d_y = if whole {
            &self.d_y[..rows * outputs]
        } else {
            reserve(self.padded, rows * line);
            widen(&self.d_y[..rows * outputs], outputs, line, &mut self.padded[..rows * line]);
            &self.padded[..rows * line]
        };
        let (d_y, _) = F::packs::<S>(d_y);
        if let Some(d_x) = self.d_x.as_deref_mut() {
            let weight = if whole {
                self.weight
            } else {
                reserve(self.packed, inputs * line);
                widen(self.weight, outputs, line, &mut self.packed[..inputs * line]);
                &self.packed[..inputs * line]
            };
            let (weight, _) = F::packs::<S>(weight);
            let mut k = 0;
            while k < inputs {
                k += if inputs - k >= 2 {
                    products::<F, S, 2>(simd, rows, inputs, packs, k, weight, d_y, d_x)
                } else {
                    products::<F, S, 1>(simd, rows, inputs, packs, k, weight, d_y, d_x)
                };
            }
        }
        if let Some(d_weight) = self.d_weight.as_deref_mut() {
            if whole {
                let (d_weight, _) = F::packs_mut::<S>(d_weight);
                outer(simd, rows, inputs, packs, self.x, d_y, d_weight);
            } else {
                reserve(self.wide, inputs * line);
                let wide = &mut self.wide[..inputs * line];
                wide.fill(F::ZERO);
                outer(simd, rows, inputs, packs, self.x, d_y, F::packs_mut::<S>(wide).0);
                for (sum, value) in d_weight.chunks_exact_mut(outputs).zip(wide.chunks_exact(line)) {
                    for (sum, &value) in sum.iter_mut().zip(value) {
                        *sum += value;
                    }
                }
            }
        }
    }
}

/// The input gradient of inputs `k..k + INPUTS` for all rows; returns `INPUTS`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn products<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    packs: usize,
    k: usize,
    weight: &[F::Pack<S>],
    d_y: &[F::Pack<S>],
    d_x: &mut [F],
) -> usize {
    let weight: [&[F::Pack<S>]; INPUTS] = std::array::from_fn(|i| &weight[(k + i) * packs..][..packs]);
    let mut row = 0;
    while row < rows {
        row += if rows - row >= 5 {
            dots::<F, S, INPUTS, 5>(simd, inputs, packs, k, row, weight, d_y, d_x)
        } else {
            dots::<F, S, INPUTS, 1>(simd, inputs, packs, k, row, weight, d_y, d_x)
        };
    }
    INPUTS
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn dots<F: Real, S: Simd, const INPUTS: usize, const ROWS: usize>(
    simd: S,
    inputs: usize,
    packs: usize,
    k: usize,
    row: usize,
    weight: [&[F::Pack<S>]; INPUTS],
    d_y: &[F::Pack<S>],
    d_x: &mut [F],
) -> usize {
    let d_y: [&[F::Pack<S>]; ROWS] = std::array::from_fn(|r| &d_y[(row + r) * packs..][..packs]);
    let mut sums = [[F::splat(simd, F::ZERO); INPUTS]; ROWS];
    for p in 0..packs {
        let weight: [F::Pack<S>; INPUTS] = std::array::from_fn(|i| weight[i][p]);
        for r in 0..ROWS {
            for i in 0..INPUTS {
                sums[r][i] = F::pack_mul_add(simd, d_y[r][p], weight[i], sums[r][i]);
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

/// Adds the outer products of all rows.
#[inline(always)]
fn outer<F: Real, S: Simd>(simd: S, rows: usize, inputs: usize, packs: usize, x: &[F], d_y: &[F::Pack<S>], d_weight: &mut [F::Pack<S>]) {
    let mut k = 0;
    while k < inputs {
        k += match inputs - k {
            left if left >= 4 => outer_tiles::<F, S, 4>(simd, rows, inputs, packs, k, x, d_y, d_weight),
            _ => outer_tiles::<F, S, 1>(simd, rows, inputs, packs, k, x, d_y, d_weight),
        };
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn outer_tiles<F: Real, S: Simd, const INPUTS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    packs: usize,
    k: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    d_weight: &mut [F::Pack<S>],
) -> usize {
    let mut pack = 0;
    while pack < packs {
        pack += if packs - pack >= 2 {
            outer_tile::<F, S, INPUTS, 2>(simd, rows, inputs, packs, k, pack, x, d_y, d_weight)
        } else {
            outer_tile::<F, S, INPUTS, 1>(simd, rows, inputs, packs, k, pack, x, d_y, d_weight)
        };
    }
    INPUTS
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn outer_tile<F: Real, S: Simd, const INPUTS: usize, const PACKS: usize>(
    simd: S,
    rows: usize,
    inputs: usize,
    packs: usize,
    k: usize,
    pack: usize,
    x: &[F],
    d_y: &[F::Pack<S>],
    d_weight: &mut [F::Pack<S>],
) -> usize {
    let mut sums: [[F::Pack<S>; PACKS]; INPUTS] = std::array::from_fn(|i| std::array::from_fn(|p| d_weight[(k + i) * packs + pack + p]));
    for r in 0..rows {
        let x = &x[r * inputs + k..][..INPUTS];
        let d_y = &d_y[r * packs + pack..][..PACKS];
        for i in 0..INPUTS {
            let value = F::splat(simd, x[i]);
            for p in 0..PACKS {
                sums[i][p] = F::pack_mul_add(simd, value, d_y[p], sums[i][p]);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        d_weight[(k + i) * packs + pack..][..PACKS].copy_from_slice(sums);
    }
    PACKS
}

/// Copies rows of `from` numbers into rows of `to`, the rest 0.
#[inline(always)]
fn widen<F: Real>(source: &[F], from: usize, to: usize, target: &mut [F]) {
    for (source, target) in source.chunks_exact(from).zip(target.chunks_exact_mut(to)) {
        target[..from].copy_from_slice(source);
        target[from..].fill(F::ZERO);
    }
}
