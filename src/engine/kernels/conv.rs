//! The convolution forward: bias, product, ReLU and max-pool of one image in one pass.
//!
//! Channels last make a row of a patch contiguous, so this is a matrix product without building the matrix of patches.

use super::pool::greatest;
use super::taps::{self, Taps};
use super::winograd::{self, Grid, Tiles};
use super::{Conv, SLACK, Window, relu as clamp, reserve};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// `out = max over windows of relu(conv(x) + bias)`, and which element of each window it was.
pub(in crate::engine) struct ConvForward<'a, F> {
    pub conv: Conv,
    /// Pooling in the same pass.
    pub window: Option<Window>,
    pub relu: bool,
    pub rows: usize,
    /// Padded images.
    pub x: &'a [F],
    /// (out, row, column, in).
    pub weight: &'a [F],
    pub bias: Option<&'a [F]>,
    pub out: &'a mut [F],
    /// One for each pooled output; not written without a window.
    pub picks: &'a mut [u8],
    /// Scratch: the weight by blocks of output channels, the bias, some images' values before pooling, tiles.
    pub packed: &'a mut Vec<F>,
    pub padded_bias: &'a mut Vec<F>,
    pub plane: &'a mut Vec<F>,
    pub tiles: &'a mut Tiles<F>,
    pub taps: &'a mut Taps,
}

impl<F: Real> WithSimd for ConvForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers: 16 of 8 lanes (AVX2), 32 of 16 (AVX-512) or of 4 (NEON).
        let blocks = self.conv.out.div_ceil(F::lanes::<S>());
        match S::F32_LANES {
            1 => self.run::<S, 4, 2>(simd),
            8 if blocks > 1 => self.run::<S, 6, 2>(simd),
            8 => self.run::<S, 8, 1>(simd),
            _ if blocks > 2 => self.run::<S, 6, 4>(simd),
            _ => self.run::<S, 8, 2>(simd),
        }
    }
}

impl<F: Real> ConvForward<'_, F> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize, const PACKS: usize>(self, simd: S) {
        let Self { conv, window, relu, rows, x, weight, bias, out, picks, packed, padded_bias, plane, tiles, taps } = self;
        if window.is_none() && taps::fits_forward(&conv) {
            taps::forward(simd, &conv, rows, x, weight, bias, out, taps);
            if relu {
                clamp(&mut out[..rows * conv.positions() * conv.out]);
            }
            return;
        }
        let (lanes, patch, positions) = (F::lanes::<S>(), conv.patch(), conv.positions());
        let block = PACKS * lanes;
        let blocks = conv.out.div_ceil(block);
        let columns = blocks * block;
        reserve(padded_bias, columns);
        padded_bias[..columns].fill(F::ZERO);
        if let Some(bias) = bias {
            padded_bias[..conv.out].copy_from_slice(bias);
        }
        let grid = winograd::fits(&conv).then(|| Grid::new(&conv));
        match &grid {
            Some(grid) => winograd::prepare(simd, grid, weight, columns, tiles),
            None => {
                reserve(packed, blocks * patch * block);
                pack(weight, conv.out, patch, patch, block, packed);
            }
        }
        let group = grid.map_or(1, |grid| grid.group(rows));
        reserve(plane, group * positions * columns);
        let image_len = conv.padded_len();
        let out_len = window.map_or(positions, |w| w.out_height * w.out_width) * conv.out;
        if grid.is_none() && window.is_none() && columns == conv.out {
            // Nothing is left to do but the ReLU.
            let (packed, _) = F::packs::<S>(&packed[..blocks * patch * block]);
            let (bias, _) = F::packs::<S>(&padded_bias[..columns]);
            for (row, out) in out.chunks_exact_mut(out_len).take(rows).enumerate() {
                let image = &x[row * image_len..(row + 1) * image_len];
                direct::<F, S, ROWS, PACKS>(simd, &conv, image, packed, bias, F::packs_mut::<S>(out).0);
                if relu {
                    clamp(out);
                }
            }
            return;
        }
        let mut row = 0;
        while row < rows {
            let count = group.min(rows - row);
            match &grid {
                Some(grid) => winograd::outputs(simd, grid, count, &x[row * image_len..], padded_bias, columns, plane, tiles),
                None => {
                    let (packed, _) = F::packs::<S>(&packed[..blocks * patch * block]);
                    let (bias, _) = F::packs::<S>(&padded_bias[..columns]);
                    let (plane, _) = F::packs_mut::<S>(&mut plane[..positions * columns]);
                    direct::<F, S, ROWS, PACKS>(simd, &conv, &x[row * image_len..(row + 1) * image_len], packed, bias, plane);
                }
            }
            for (image, plane) in plane.chunks_exact(positions * columns).take(count).enumerate() {
                let range = (row + image) * out_len..(row + image + 1) * out_len;
                let out = &mut out[range.clone()];
                match &window {
                    Some(window) => {
                        greatest(simd, window, relu, plane, columns, out, &mut picks[range]);
                    }
                    None => {
                        for (out, values) in out.chunks_exact_mut(conv.out).zip(plane.chunks_exact(columns)) {
                            out.copy_from_slice(&values[..conv.out]);
                            if relu {
                                clamp(out);
                            }
                        }
                    }
                }
            }
            row += count;
        }
    }
}

/// The outputs of one image before ReLU and pooling, (position, column).
#[inline(always)]
fn direct<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    image: &[F],
    packed: &[F::Pack<S>],
    bias: &[F::Pack<S>],
    plane: &mut [F::Pack<S>],
) {
    let (packed, _) = packed.as_chunks::<PACKS>();
    let (bias, _) = bias.as_chunks::<PACKS>();
    let (plane, _) = plane.as_chunks_mut::<PACKS>();
    let (positions, patch, blocks) = (conv.positions(), conv.patch(), bias.len());
    for b in 0..blocks {
        let weight = &packed[b * patch..(b + 1) * patch];
        let mut at = 0;
        while at < positions {
            let left = positions - at;
            // The last tile of a plane is as wide as needed; every width adds in the same order.
            at += match left {
                l if l >= ROWS => tile::<F, S, ROWS, PACKS>(simd, conv, image, at, weight, &bias[b], plane, blocks, b),
                l if l >= 4 => tile::<F, S, 4, PACKS>(simd, conv, image, at, weight, &bias[b], plane, blocks, b),
                l if l >= 2 => tile::<F, S, 2, PACKS>(simd, conv, image, at, weight, &bias[b], plane, blocks, b),
                _ => tile::<F, S, 1, PACKS>(simd, conv, image, at, weight, &bias[b], plane, blocks, b),
            };
        }
    }
}

/// `len` elements of each of `out` filters, which are `patch` apart, by blocks of `block` output channels, each (element, channel),
/// with zeros where there is no channel.
#[inline(always)]
pub(super) fn pack<F: Real>(weight: &[F], out: usize, patch: usize, len: usize, block: usize, packed: &mut [F]) {
    /// Elements of a filter at a time, so that what is written stays in the first cache.
    const RUN: usize = 16;
    for (b, target) in packed.chunks_exact_mut(len * block).take(out.div_ceil(block)).enumerate() {
        let (from, to) = (b * block, out.min((b + 1) * block));
        if to - from < block {
            target.fill(F::ZERO);
        }
        for (run, target) in target.chunks_mut(RUN * block).enumerate() {
            for channel in from..to {
                let source = &weight[channel * patch + run * RUN..channel * patch + len];
                for (value, target) in source.iter().zip(target[channel - from..].iter_mut().step_by(block)) {
                    *target = *value;
                }
            }
        }
    }
}

/// `ROWS` outputs from position `at` on, for one block of channels; returns `ROWS`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn tile<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    image: &[F],
    at: usize,
    weight: &[[F::Pack<S>; PACKS]],
    bias: &[F::Pack<S>; PACKS],
    plane: &mut [[F::Pack<S>; PACKS]],
    blocks: usize,
    block: usize,
) -> usize {
    let mut sums = [*bias; ROWS];
    let mut starts = [0; ROWS];
    let (mut y, mut x) = (at / conv.out_width, at % conv.out_width);
    for start in &mut starts {
        *start = conv.patch_start(y, x);
        x += 1;
        if x == conv.out_width {
            (y, x) = (y + 1, 0);
        }
    }
    let (row, stride) = (conv.row(), conv.row_stride());
    for i in 0..conv.kernel.0 {
        let mut x: [&[F]; ROWS] = [&[]; ROWS];
        for (x, start) in x.iter_mut().zip(starts) {
            *x = &image[start + i * stride..][..row];
        }
        let weight = &weight[i * row..(i + 1) * row];
        for (k, weight) in weight.iter().enumerate() {
            for r in 0..ROWS {
                let value = F::splat(simd, x[r][k]);
                for p in 0..PACKS {
                    sums[r][p] = F::pack_mul_add(simd, value, weight[p], sums[r][p]);
                }
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        plane[(at + r) * blocks + block] = *sums;
    }
    ROWS
}

/// Copies images into larger ones with a border of zeros.
pub(in crate::engine) fn pad<F: Real>(conv: &Conv, rows: usize, x: &[F], padded: &mut Vec<F>) {
    let (len, padded_len) = (conv.height * conv.width * conv.channels, conv.padded_len());
    reserve(padded, rows * padded_len + SLACK);
    padded[..rows * padded_len].fill(F::ZERO);
    let line = conv.width * conv.channels;
    for row in 0..rows {
        for y in 0..conv.height {
            let from = row * len + y * line;
            let to = row * padded_len + (y + conv.padding.0) * conv.row_stride() + conv.padding.1 * conv.channels;
            padded[to..to + line].copy_from_slice(&x[from..from + line]);
        }
    }
}

/// Copies what lies inside the borders of padded gradients to the gradients of the images.
pub(in crate::engine) fn unpad<F: Real>(conv: &Conv, rows: usize, padded: &[F], x: &mut [F]) {
    let (len, padded_len) = (conv.height * conv.width * conv.channels, conv.padded_len());
    let line = conv.width * conv.channels;
    for row in 0..rows {
        for y in 0..conv.height {
            let to = row * len + y * line;
            let from = row * padded_len + (y + conv.padding.0) * conv.row_stride() + conv.padding.1 * conv.channels;
            x[to..to + line].copy_from_slice(&padded[from..from + line]);
        }
    }
}
