//! The convolution forward: bias, product, ReLU and max-pool of one image in one pass.
//!
//! Channels last make a row of a patch contiguous, so this is a matrix product without building the matrix of patches.

use super::{Conv, SLACK, Window, greatest, relu, reserve};
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
    /// Scratch: the weight by blocks of output channels, the bias, one image's values before pooling.
    pub packed: &'a mut Vec<F>,
    pub padded_bias: &'a mut Vec<F>,
    pub plane: &'a mut Vec<F>,
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
        let conv = self.conv;
        let (lanes, patch) = (F::lanes::<S>(), conv.patch());
        let block = PACKS * lanes;
        let blocks = conv.out.div_ceil(block);
        let columns = blocks * block;
        reserve(self.packed, blocks * patch * block);
        pack(self.weight, conv.out, patch, block, self.packed);
        reserve(self.padded_bias, columns);
        self.padded_bias[..columns].fill(F::ZERO);
        if let Some(bias) = self.bias {
            self.padded_bias[..conv.out].copy_from_slice(bias);
        }
        let positions = conv.positions();
        reserve(self.plane, positions * columns);
        let (packed, _) = F::packs::<S>(&self.packed[..blocks * patch * block]);
        let (packed, _) = packed.as_chunks::<PACKS>();
        let (bias, _) = F::packs::<S>(&self.padded_bias[..columns]);
        let (bias, _) = bias.as_chunks::<PACKS>();
        let image_len = conv.padded_len();
        let out_len = self.window.map_or(positions, |w| w.out_height * w.out_width) * conv.out;
        for row in 0..self.rows {
            let image = &self.x[row * image_len..(row + 1) * image_len];
            let (plane, _) = F::packs_mut::<S>(&mut self.plane[..positions * columns]);
            let (plane, _) = plane.as_chunks_mut::<PACKS>();
            for b in 0..blocks {
                let weight = &packed[b * patch..(b + 1) * patch];
                let mut at = 0;
                while at < positions {
                    let left = positions - at;
                    // The last tile of a plane is as wide as needed; every width adds in the same order.
                    at += match left {
                        l if l >= ROWS => tile::<F, S, ROWS, PACKS>(simd, &conv, image, at, weight, &bias[b], plane, blocks, b),
                        l if l >= 4 => tile::<F, S, 4, PACKS>(simd, &conv, image, at, weight, &bias[b], plane, blocks, b),
                        l if l >= 2 => tile::<F, S, 2, PACKS>(simd, &conv, image, at, weight, &bias[b], plane, blocks, b),
                        _ => tile::<F, S, 1, PACKS>(simd, &conv, image, at, weight, &bias[b], plane, blocks, b),
                    };
                }
            }
            let plane = &self.plane[..positions * columns];
            let out = &mut self.out[row * out_len..(row + 1) * out_len];
            match &self.window {
                Some(window) => {
                    let picks = &mut self.picks[row * out_len..(row + 1) * out_len];
                    let outputs = out.chunks_exact_mut(conv.out).zip(picks.chunks_exact_mut(conv.out));
                    for (place, (out, picks)) in outputs.enumerate() {
                        let (y, x) = (place / window.out_width, place % window.out_width);
                        greatest(window, (y, x), self.relu, plane, columns, out, picks);
                    }
                }
                None => {
                    for (out, values) in out.chunks_exact_mut(conv.out).zip(plane.chunks_exact(columns)) {
                        out.copy_from_slice(&values[..conv.out]);
                        if self.relu {
                            relu(out);
                        }
                    }
                }
            }
        }
    }
}

/// The weight by blocks of `block` output channels, each (patch, channel), with zeros where there is no channel.
#[inline(always)]
fn pack<F: Real>(weight: &[F], out: usize, patch: usize, block: usize, packed: &mut [F]) {
    for (b, target) in packed.chunks_exact_mut(patch * block).take(out.div_ceil(block)).enumerate() {
        let (from, to) = (b * block, out.min((b + 1) * block));
        if to - from < block {
            target.fill(F::ZERO);
        }
        for channel in from..to {
            let source = &weight[channel * patch..(channel + 1) * patch];
            for (value, target) in source.iter().zip(target[channel - from..].iter_mut().step_by(block)) {
                *target = *value;
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
