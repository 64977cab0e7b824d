//! What a training step computes: convolution, dense layer, normalisation, pooling and update, each forward and backward.
//!
//! Activations are channels last (N, H, W, C). A buffer that a kernel reads may be longer than its content says; [`SLACK`] extra
//! elements let it load whole packs at the end. Kernels know slices and sizes, not layers or models.

// Several slices march in step, and a plain index says so best.
#![allow(clippy::needless_range_loop)]

mod conv;
mod conv_back;
mod descent;
mod linear;
mod norm;
pub(super) mod pairs;
mod pool;
mod sums;
mod taps;
#[cfg(test)]
mod tests;
mod update;
mod winograd;

pub(super) use conv::{ConvForward, pad, unpad};
pub(super) use conv_back::{ConvBackward, Entries};
pub(super) use descent::{LinearDescent, MOST_ROWS};
pub(super) use linear::{LinearBackward, LinearForward};
pub(super) use norm::{NormBackward, NormForward, Statistics};
pub(super) use pool::{pool_backward, pool_forward};
pub(super) use sums::{greatest, sum, sum_of_products};
pub(super) use taps::Taps;
pub(super) use update::{AddScaled, Term, Update};
pub(super) use winograd::Tiles;

use super::real::Real;
use pulp::Simd;

/// Extra elements at the end of buffers, at least the lanes of the widest pack.
pub(super) const SLACK: usize = 16;
/// In a list of arg-maxima: the ReLU was off, so no gradient passes.
pub(super) const OFF: u8 = u8::MAX;

/// The geometry of a convolution of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Conv {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub out: usize,
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub padding: (usize, usize),
    pub out_height: usize,
    pub out_width: usize,
}

impl Conv {
    /// Rows and columns of the image with its border.
    pub fn padded(&self) -> (usize, usize) {
        (self.height + 2 * self.padding.0, self.width + 2 * self.padding.1)
    }
    pub fn padded_len(&self) -> usize {
        let (height, width) = self.padded();
        height * width * self.channels
    }
    /// Numbers in one row of the kernel: they lie side by side in the image.
    pub fn row(&self) -> usize {
        self.kernel.1 * self.channels
    }
    /// Numbers in the whole kernel.
    pub fn patch(&self) -> usize {
        self.kernel.0 * self.row()
    }
    /// From one row of the padded image to the next.
    pub fn row_stride(&self) -> usize {
        self.padded().1 * self.channels
    }
    pub fn positions(&self) -> usize {
        self.out_height * self.out_width
    }
    /// Where the patch of output (y, x) begins in the padded image.
    #[inline(always)]
    pub fn patch_start(&self, y: usize, x: usize) -> usize {
        y * self.stride.0 * self.row_stride() + x * self.stride.1 * self.channels
    }
}

/// The geometry of a max-pool of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub kernel: (usize, usize),
    pub stride: (usize, usize),
    pub padding: (usize, usize),
    pub out_height: usize,
    pub out_width: usize,
}

impl Window {
    /// The window of a step without pooling: each value alone.
    pub fn single(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width, kernel: (1, 1), stride: (1, 1), padding: (0, 0), out_height: height, out_width: width }
    }
    /// Whether the place of a maximum in its window fits a byte, beside [`OFF`].
    pub fn picks_fit(&self) -> bool {
        self.area() < usize::from(OFF)
    }
    pub fn area(&self) -> usize {
        self.kernel.0 * self.kernel.1
    }
    /// Row and column of element `pick` of window (y, x), where it lies in the image.
    #[inline(always)]
    pub fn place(&self, y: usize, x: usize, pick: usize) -> Option<(usize, usize)> {
        let row = (y * self.stride.0 + pick / self.kernel.1).checked_sub(self.padding.0)?;
        let column = (x * self.stride.1 + pick % self.kernel.1).checked_sub(self.padding.1)?;
        (row < self.height && column < self.width).then_some((row, column))
    }
}

/// Makes the buffer at least `len` plus slack long; what is there stays.
pub(super) fn reserve<F: Real>(buffer: &mut Vec<F>, len: usize) {
    if buffer.len() < len + SLACK {
        buffer.resize(len + SLACK, F::ZERO);
    }
}

/// A pack from `at` on; what is not there is 0.
#[inline(always)]
fn load<F: Real, S: Simd>(values: &[F], at: usize) -> F::Pack<S> {
    let lanes = F::lanes::<S>();
    match values.get(at..at + lanes) {
        Some(values) => F::packs::<S>(values).0[0],
        None => {
            let mut filled = [F::ZERO; SLACK];
            let values = &values[at.min(values.len())..];
            filled[..values.len()].copy_from_slice(values);
            F::packs::<S>(&filled[..lanes]).0[0]
        }
    }
}

/// Writes a pack from `at` on, as much as there is room for.
#[inline(always)]
fn store<F: Real, S: Simd>(pack: F::Pack<S>, values: &mut [F], at: usize) {
    let lanes = F::lanes::<S>();
    match values.get_mut(at..at + lanes) {
        Some(values) => F::packs_mut::<S>(values).0[0] = pack,
        None => {
            let mut spill = [F::ZERO; SLACK];
            F::packs_mut::<S>(&mut spill[..lanes]).0[0] = pack;
            let at = at.min(values.len());
            let count = values.len() - at;
            values[at..].copy_from_slice(&spill[..count]);
        }
    }
}

/// Copies rows of `from` numbers into rows of `to`, the rest 0.
#[inline(always)]
fn widen<F: Real>(source: &[F], from: usize, to: usize, target: &mut [F]) {
    for (source, target) in source.chunks_exact(from).zip(target.chunks_exact_mut(to)) {
        target[..from].copy_from_slice(source);
        target[from..].fill(F::ZERO);
    }
}

/// Adds all rows, each as long as the sums.
#[inline(always)]
fn add_rows<F: Real>(rows: &[F], sums: &mut [F]) {
    for row in rows.chunks_exact(sums.len()) {
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

/// `max(x, 0)` in place; NaN stays, as in torch.
#[inline(always)]
pub(super) fn relu<F: Real>(values: &mut [F]) {
    for value in values {
        *value = if *value <= F::ZERO { F::ZERO } else { *value };
    }
}

/// Clears the gradient wherever the ReLU's output is not positive.
#[inline(always)]
pub(super) fn relu_backward<F: Real>(gradient: &mut [F], output: &[F]) {
    for (gradient, &output) in gradient.iter_mut().zip(output) {
        *gradient = if output <= F::ZERO { F::ZERO } else { *gradient };
    }
}
