//! Convolutions with square kernels of 3 or 5 and stride 1 by minimal filtering (Winograd, 1980; Lavin and Gray, CVPR 2016,
//! arXiv 1509.09308): a tile of 6 x 6 inputs gives 4 x 4 or 2 x 2 outputs with 36 products a channel instead of 144 or 100.
//!
//! ```text
//! Y = A^T [ sum over channels of (G g G^T) * (B^T d B) ] A        g: filter, d: tile, *: element by element
//! ```
//!
//! The transforms evaluate polynomials at 0, +-3/4, +-3/2 and infinity. With the usual points 0, +-1, +-2 rounding errors are four
//! times those of the direct sum, with these two times (32 channels); the way back is the same three steps transposed, so it is
//! the gradient of just what the way forward computes.
//!
//! For each of the 36 places of a tile the sums over channels are one matrix product. Some images are taken together, so that the
//! products have enough rows, but few enough that all matrices stay in the second cache. A tile's result does not depend on the
//! tiles beside it.

mod lines;

use super::{Conv, load, reserve};
use crate::engine::real::Real;
use lines::{FilterBack, FilterLine, InputBack, InputLine, OutputBack, OutputLine, both};
use pulp::Simd;

/// Inputs of a tile in a row.
const SIDE: usize = 6;
/// Places of a tile, each with a product for each channel.
const AREA: usize = SIDE * SIDE;
/// Tiles that are multiplied together, at least.
const TOGETHER: usize = 48;
/// Filters (in x out) up to which the 36 numbers of each are worth their memory.
const MOST_FILTERS: usize = 128 * 128;

/// From one place's numbers to the next one's, in packs: odd, so that the places of a tile do not share a set of the cache.
fn apart(packs: usize) -> usize {
    packs | 1
}

/// Scratch that only grows. Each is a list by place of a tile, but the first, which is by place of a kernel.
#[derive(Debug, Default)]
pub(in crate::engine) struct Tiles<F> {
    /// Filters: (in, out) on the way forward, (out, in) on the way back.
    packed: Vec<F>,
    /// Transformed filters, likewise.
    filters: Vec<F>,
    /// Transformed inputs: (tile, in).
    inputs: Vec<F>,
    /// Outputs before their transform, or their gradients: (tile, out).
    outputs: Vec<F>,
    /// Gradients of the transformed filters, (out, in).
    d_filters: Vec<F>,
    /// Gradients of the transformed inputs, (tile, in).
    d_inputs: Vec<F>,
}

/// Whether this way is open and pays: tiny images and few channels are better summed directly.
pub(super) fn fits(conv: &Conv) -> bool {
    matches!(conv.kernel, (3, 3) | (5, 5))
        && conv.stride == (1, 1)
        && conv.channels >= 8
        && conv.out >= 8
        && conv.channels * conv.out <= MOST_FILTERS
        && conv.out_height.min(conv.out_width) > (SIDE - conv.kernel.0) / 2
}

/// The tiles of an image.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    conv: Conv,
    /// Outputs of a tile in a row.
    size: usize,
    across: usize,
    /// Tiles of an image.
    count: usize,
}

impl Grid {
    pub fn new(conv: &Conv) -> Self {
        let size = SIDE + 1 - conv.kernel.0;
        let across = conv.out_width.div_ceil(size);
        Self { conv: *conv, size, across, count: across * conv.out_height.div_ceil(size) }
    }
    /// Images that are worked on together.
    pub fn group(&self, rows: usize) -> usize {
        TOGETHER.div_ceil(self.count).min(rows).max(1)
    }
    /// Image, row and column of the first output of a tile; its first input has the same row and column in the padded image.
    fn corner(&self, tile: usize) -> (usize, usize, usize) {
        let (image, at) = (tile / self.count, tile % self.count);
        (image, at / self.across * self.size, at % self.across * self.size)
    }
}

/// Transforms the filters for the way forward; `columns` is `conv.out` filled up to whole packs.
#[inline(always)]
pub(super) fn prepare<F: Real, S: Simd>(simd: S, grid: &Grid, weight: &[F], columns: usize, tiles: &mut Tiles<F>) {
    let conv = &grid.conv;
    let lanes = F::lanes::<S>();
    let count = conv.channels * columns / lanes;
    let step = apart(count) * lanes;
    let area = conv.kernel.0 * conv.kernel.1;
    reserve(&mut tiles.packed, area * step);
    for (place, packed) in tiles.packed[..area * step].chunks_exact_mut(step).enumerate() {
        let packed = &mut packed[..count * lanes];
        super::conv::pack(&weight[place * conv.channels..], conv.out, conv.patch(), conv.channels, columns, packed);
    }
    transform_filters(simd, conv, count, tiles);
}

/// Transforms `count` packs of filters in each place.
#[inline(always)]
fn transform_filters<F: Real, S: Simd>(simd: S, conv: &Conv, count: usize, tiles: &mut Tiles<F>) {
    let (lanes, step) = (F::lanes::<S>(), apart(count));
    reserve(&mut tiles.filters, AREA * step * lanes);
    let (packed, _) = F::packs::<S>(&tiles.packed[..conv.kernel.0 * conv.kernel.1 * step * lanes]);
    let (filters, _) = F::packs_mut::<S>(&mut tiles.filters[..AREA * step * lanes]);
    match conv.kernel.0 {
        3 => filters_of::<F, S, 3>(simd, packed, count, filters),
        _ => filters_of::<F, S, 5>(simd, packed, count, filters),
    }
}

#[inline(always)]
fn filters_of<F: Real, S: Simd, const K: usize>(simd: S, packed: &[F::Pack<S>], count: usize, filters: &mut [F::Pack<S>]) {
    let step = apart(count);
    for at in 0..count {
        let values = gather::<F, S, K>(simd, packed, at, step);
        scatter::<F, S>(both::<F, S, FilterLine, K, SIDE>(simd, values), filters, at, step);
    }
}

/// The values of all places, `step` apart.
#[inline(always)]
fn gather<F: Real, S: Simd, const N: usize>(simd: S, values: &[F::Pack<S>], at: usize, step: usize) -> [[F::Pack<S>; N]; N] {
    let mut grid = [[F::splat(simd, F::ZERO); N]; N];
    for (place, value) in grid.as_flattened_mut().iter_mut().enumerate() {
        *value = values[place * step + at];
    }
    grid
}

/// Puts the values of all places `step` apart.
#[inline(always)]
fn scatter<F: Real, S: Simd>(grid: [[F::Pack<S>; SIDE]; SIDE], values: &mut [F::Pack<S>], at: usize, step: usize) {
    for (place, value) in grid.as_flattened().iter().enumerate() {
        values[place * step + at] = *value;
    }
}

/// The outputs of `images` images before ReLU and pooling, (image, position, column).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn outputs<F: Real, S: Simd>(
    simd: S,
    grid: &Grid,
    images: usize,
    x: &[F],
    bias: &[F],
    columns: usize,
    plane: &mut [F],
    tiles: &mut Tiles<F>,
) {
    let conv = &grid.conv;
    let count = images * grid.count;
    transform_inputs(simd, grid, count, x, &mut tiles.inputs);
    let lanes = F::lanes::<S>();
    let (line, packs) = (conv.channels.div_ceil(lanes) * lanes, columns / lanes);
    let (by_filter, by_input, by_output) = (apart(conv.channels * packs), apart(count * line / lanes), apart(count * packs));
    reserve(&mut tiles.outputs, AREA * by_output * lanes);
    let (filters, _) = F::packs::<S>(&tiles.filters[..AREA * by_filter * lanes]);
    let (outputs, _) = F::packs_mut::<S>(&mut tiles.outputs[..AREA * by_output * lanes]);
    for (place, (filters, outputs)) in filters.chunks_exact(by_filter).zip(outputs.chunks_exact_mut(by_output)).enumerate() {
        let inputs = &tiles.inputs[place * by_input * lanes..][..count * line];
        multiply::<F, S>(simd, (count, conv.channels, packs), inputs, (line, 1), filters, outputs, false);
    }
    let (bias, _) = F::packs::<S>(&bias[..columns]);
    let (plane, _) = F::packs_mut::<S>(&mut plane[..images * conv.positions() * columns]);
    match grid.size {
        4 => transform_outputs::<F, S, 4>(simd, grid, count, outputs, bias, plane),
        _ => transform_outputs::<F, S, 2>(simd, grid, count, outputs, bias, plane),
    }
}

/// `inputs` (place, tile, in) of `count` tiles.
#[inline(always)]
fn transform_inputs<F: Real, S: Simd>(simd: S, grid: &Grid, count: usize, x: &[F], inputs: &mut Vec<F>) {
    let conv = &grid.conv;
    let lanes = F::lanes::<S>();
    let packs = conv.channels.div_ceil(lanes);
    let step = apart(count * packs);
    reserve(inputs, AREA * step * lanes);
    let (inputs, _) = F::packs_mut::<S>(&mut inputs[..AREA * step * lanes]);
    let (height, width) = conv.padded();
    let zero = F::splat(simd, F::ZERO);
    for tile in 0..count {
        let (image, y, left) = grid.corner(tile);
        for pack in 0..packs {
            let corner = image * conv.padded_len() + (y * width + left) * conv.channels + pack * lanes;
            // The last tiles may reach over the border; what lies there meets no output.
            let mut values = [[zero; SIDE]; SIDE];
            for (i, values) in values.iter_mut().enumerate().take(height - y) {
                for (j, value) in values.iter_mut().enumerate().take(width - left) {
                    *value = load::<F, S>(x, corner + (i * width + j) * conv.channels);
                }
            }
            scatter::<F, S>(both::<F, S, InputLine, SIDE, SIDE>(simd, values), inputs, tile * packs + pack, step);
        }
    }
}

#[inline(always)]
fn transform_outputs<F: Real, S: Simd, const SIZE: usize>(
    simd: S,
    grid: &Grid,
    count: usize,
    outputs: &[F::Pack<S>],
    bias: &[F::Pack<S>],
    plane: &mut [F::Pack<S>],
) {
    let conv = &grid.conv;
    let packs = bias.len();
    for tile in 0..count {
        let (image, y, left) = grid.corner(tile);
        for pack in 0..packs {
            let values = gather::<F, S, SIDE>(simd, outputs, tile * packs + pack, apart(count * packs));
            let values = both::<F, S, OutputLine, SIDE, SIZE>(simd, values);
            for (i, values) in values.iter().enumerate().take(conv.out_height - y) {
                let from = image * conv.positions() + (y + i) * conv.out_width + left;
                for (j, value) in values.iter().enumerate().take(conv.out_width - left) {
                    plane[(from + j) * packs + pack] = F::pack_add(simd, *value, bias[pack]);
                }
            }
        }
    }
}

/// What the way back reads and writes; see [`super::ConvBackward`].
pub(super) struct Back<'a, F> {
    pub rows: usize,
    pub x: &'a [F],
    pub weight: &'a [F],
    /// Of all outputs, (image, position, out).
    pub d_out: &'a [F],
    pub d_weight: Option<&'a mut [F]>,
    /// Zeros at first.
    pub d_x: Option<&'a mut [F]>,
    pub tiles: &'a mut Tiles<F>,
}

/// Adds to the gradients of weight and padded input.
#[inline(always)]
pub(super) fn backward<F: Real, S: Simd>(simd: S, grid: &Grid, back: Back<'_, F>) {
    let Back { rows, x, weight, d_out, d_weight, mut d_x, tiles } = back;
    let conv = &grid.conv;
    let lanes = F::lanes::<S>();
    let (packs, out_packs) = (conv.channels.div_ceil(lanes), conv.out.div_ceil(lanes));
    let out_line = out_packs * lanes;
    let by_filter = apart(conv.out * packs);
    if d_x.is_some() {
        prepare_back(simd, conv, weight, tiles);
    }
    if d_weight.is_some() {
        reserve(&mut tiles.d_filters, AREA * by_filter * lanes);
        tiles.d_filters[..AREA * by_filter * lanes].fill(F::ZERO);
    }
    let group = grid.group(rows);
    let mut row = 0;
    while row < rows {
        let images = group.min(rows - row);
        let count = images * grid.count;
        let (by_input, by_output) = (apart(count * packs), apart(count * out_packs));
        reserve(&mut tiles.outputs, AREA * by_output * lanes);
        let (outputs, _) = F::packs_mut::<S>(&mut tiles.outputs[..AREA * by_output * lanes]);
        let d_group = &d_out[row * conv.positions() * conv.out..];
        match grid.size {
            4 => gradients_of_outputs::<F, S, 4>(simd, grid, count, d_group, outputs),
            _ => gradients_of_outputs::<F, S, 2>(simd, grid, count, d_group, outputs),
        }
        let outputs = tiles.outputs[..AREA * by_output * lanes].chunks_exact(by_output * lanes);
        if d_weight.is_some() {
            transform_inputs(simd, grid, count, &x[row * conv.padded_len()..], &mut tiles.inputs);
            let (inputs, _) = F::packs::<S>(&tiles.inputs[..AREA * by_input * lanes]);
            let (d_filters, _) = F::packs_mut::<S>(&mut tiles.d_filters[..AREA * by_filter * lanes]);
            let places = outputs.clone().zip(inputs.chunks_exact(by_input)).zip(d_filters.chunks_exact_mut(by_filter));
            for ((outputs, inputs), d_filters) in places {
                multiply::<F, S>(simd, (conv.out, count, packs), outputs, (1, out_line), inputs, d_filters, true);
            }
        }
        if let Some(d_x) = d_x.as_deref_mut() {
            reserve(&mut tiles.d_inputs, AREA * by_input * lanes);
            let (filters, _) = F::packs::<S>(&tiles.filters[..AREA * by_filter * lanes]);
            let (d_inputs, _) = F::packs_mut::<S>(&mut tiles.d_inputs[..AREA * by_input * lanes]);
            let places = outputs.zip(filters.chunks_exact(by_filter)).zip(d_inputs.chunks_exact_mut(by_input));
            for ((outputs, filters), d_inputs) in places {
                multiply::<F, S>(simd, (count, conv.out, packs), outputs, (out_line, 1), filters, d_inputs, false);
            }
            gradients_of_inputs(simd, grid, count, d_inputs, &mut d_x[row * conv.padded_len()..]);
        }
        row += images;
    }
    if let Some(d_weight) = d_weight {
        let (d_filters, _) = F::packs::<S>(&tiles.d_filters[..AREA * by_filter * lanes]);
        match conv.kernel.0 {
            3 => gradients_of_filters::<F, S, 3>(simd, conv, d_filters, d_weight),
            _ => gradients_of_filters::<F, S, 5>(simd, conv, d_filters, d_weight),
        }
    }
}

/// Transforms the filters for the way back; the inputs of each are filled up to whole packs with zeros.
#[inline(always)]
fn prepare_back<F: Real, S: Simd>(simd: S, conv: &Conv, weight: &[F], tiles: &mut Tiles<F>) {
    let lanes = F::lanes::<S>();
    let line = conv.channels.div_ceil(lanes) * lanes;
    let count = conv.out * line / lanes;
    let step = apart(count) * lanes;
    reserve(&mut tiles.packed, conv.kernel.0 * conv.kernel.1 * step);
    for (out, filter) in weight.chunks_exact(conv.patch()).enumerate() {
        for (place, values) in filter.chunks_exact(conv.channels).enumerate() {
            let target = &mut tiles.packed[place * step + out * line..][..line];
            target[..conv.channels].copy_from_slice(values);
            target[conv.channels..].fill(F::ZERO);
        }
    }
    transform_filters(simd, conv, count, tiles);
}

/// `outputs` (place, tile, out) of `count` tiles; 0 for outputs that are not there.
#[inline(always)]
fn gradients_of_outputs<F: Real, S: Simd, const SIZE: usize>(simd: S, grid: &Grid, count: usize, d_out: &[F], outputs: &mut [F::Pack<S>]) {
    let conv = &grid.conv;
    let lanes = F::lanes::<S>();
    let packs = conv.out.div_ceil(lanes);
    let zero = F::splat(simd, F::ZERO);
    for tile in 0..count {
        let (image, y, left) = grid.corner(tile);
        for pack in 0..packs {
            let from = pack * lanes;
            let width = lanes.min(conv.out - from);
            let mut values = [[zero; SIZE]; SIZE];
            for (i, values) in values.iter_mut().enumerate().take(conv.out_height - y) {
                let start = image * conv.positions() + (y + i) * conv.out_width + left;
                for (j, value) in values.iter_mut().enumerate().take(conv.out_width - left) {
                    *value = load::<F, S>(&d_out[(start + j) * conv.out + from..][..width], 0);
                }
            }
            scatter::<F, S>(both::<F, S, OutputBack, SIZE, SIDE>(simd, values), outputs, tile * packs + pack, apart(count * packs));
        }
    }
}

/// Adds to `d_x` what the tiles' inputs get; tiles overlap.
#[inline(always)]
fn gradients_of_inputs<F: Real, S: Simd>(simd: S, grid: &Grid, count: usize, d_inputs: &[F::Pack<S>], d_x: &mut [F]) {
    let conv = &grid.conv;
    let lanes = F::lanes::<S>();
    let packs = conv.channels.div_ceil(lanes);
    let (height, width) = conv.padded();
    for tile in 0..count {
        let (image, y, left) = grid.corner(tile);
        for pack in 0..packs {
            let values = gather::<F, S, SIDE>(simd, d_inputs, tile * packs + pack, apart(count * packs));
            let values = both::<F, S, InputBack, SIDE, SIDE>(simd, values);
            let from = pack * lanes;
            for (i, values) in values.iter().enumerate().take(height - y) {
                for (j, value) in values.iter().enumerate().take(width - left) {
                    let at = image * conv.padded_len() + ((y + i) * width + left + j) * conv.channels + from;
                    super::conv_back::add_lanes::<F, S>(simd, *value, &mut d_x[at..at + lanes.min(conv.channels - from)]);
                }
            }
        }
    }
}

#[inline(always)]
fn gradients_of_filters<F: Real, S: Simd, const K: usize>(simd: S, conv: &Conv, d_filters: &[F::Pack<S>], d_weight: &mut [F]) {
    let lanes = F::lanes::<S>();
    let packs = conv.channels.div_ceil(lanes);
    let count = conv.out * packs;
    for at in 0..count {
        let values = gather::<F, S, SIDE>(simd, d_filters, at, apart(count));
        let values = both::<F, S, FilterBack, SIDE, K>(simd, values);
        let (out, from) = (at / packs, at % packs * lanes);
        for (place, value) in values.as_flattened().iter().enumerate() {
            let start = out * conv.patch() + place * conv.channels + from;
            super::conv_back::add_lanes::<F, S>(simd, *value, &mut d_weight[start..start + lanes.min(conv.channels - from)]);
        }
    }
}

/// `y[r][p] (+)= sum over s of x[r][s] w[s][p]` with `(rows, steps, packs)` and, in `x`, the distances from row to row and from step
/// to step. Each sum runs in the order of steps.
#[inline(always)]
fn multiply<F: Real, S: Simd>(
    simd: S,
    size: (usize, usize, usize),
    x: &[F],
    strides: (usize, usize),
    w: &[F::Pack<S>],
    y: &mut [F::Pack<S>],
    add: bool,
) {
    // Registers: 32 with 16 lanes (AVX-512) or 4 (NEON), 16 with 8 (AVX2).
    match S::F32_LANES {
        1 => rows_of::<F, S, 4>(simd, size, x, strides, w, y, add),
        8 => rows_of::<F, S, 6>(simd, size, x, strides, w, y, add),
        _ => rows_of::<F, S, 12>(simd, size, x, strides, w, y, add),
    }
}

#[inline(always)]
fn rows_of<F: Real, S: Simd, const ROWS: usize>(
    simd: S,
    (rows, steps, packs): (usize, usize, usize),
    x: &[F],
    (row_stride, step_stride): (usize, usize),
    w: &[F::Pack<S>],
    y: &mut [F::Pack<S>],
    add: bool,
) {
    let mut pack = 0;
    while pack < packs {
        let two = packs - pack >= 2;
        let mut row = 0;
        while row < rows {
            let x = &x[row * row_stride..];
            let y = &mut y[row * packs + pack..];
            let (w, strides) = (&w[pack..], (row_stride, step_stride, packs));
            row += match (rows - row, two) {
                (left, true) if left >= ROWS => block::<F, S, ROWS, 2>(simd, steps, x, strides, w, y, add),
                (left, false) if left >= ROWS => block::<F, S, ROWS, 1>(simd, steps, x, strides, w, y, add),
                (left, true) if left >= 4 => block::<F, S, 4, 2>(simd, steps, x, strides, w, y, add),
                (left, false) if left >= 4 => block::<F, S, 4, 1>(simd, steps, x, strides, w, y, add),
                (_, true) => block::<F, S, 1, 2>(simd, steps, x, strides, w, y, add),
                (_, false) => block::<F, S, 1, 1>(simd, steps, x, strides, w, y, add),
            };
        }
        pack += if two { 2 } else { 1 };
    }
}

#[inline(always)]
fn block<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    steps: usize,
    x: &[F],
    (row_stride, step_stride, packs): (usize, usize, usize),
    w: &[F::Pack<S>],
    y: &mut [F::Pack<S>],
    add: bool,
) -> usize {
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; ROWS];
    if add {
        for (r, sums) in sums.iter_mut().enumerate() {
            sums.copy_from_slice(&y[r * packs..][..PACKS]);
        }
    }
    for step in 0..steps {
        let w = &w[step * packs..][..PACKS];
        let x = &x[step * step_stride..];
        for r in 0..ROWS {
            let value = F::splat(simd, x[r * row_stride]);
            for p in 0..PACKS {
                sums[r][p] = F::pack_mul_add(simd, value, w[p], sums[r][p]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        y[r * packs..][..PACKS].copy_from_slice(sums);
    }
    ROWS
}
