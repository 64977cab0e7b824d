//! The convolution backward through pool and ReLU: only arg-maxima whose ReLU is on carry a gradient, and only they are touched.
//!
//! Without a pool most positions have one, so that sums over all of them are faster: by tiles ([`super::winograd`]) or as products
//! with the rows of patches. An input gradient that goes neither way leaves out what is exactly 0.

use super::pool::unpool;
use super::taps::{self, Taps};
use super::winograd::{self, Back, Grid, Tiles};
use super::{Conv, OFF, SLACK, Window, add_rows, load, reserve, store, widen};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// One gradient before the pool: where its patch or its filter begins, and its value. No tensor has 2^32 numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Entry<F> {
    offset: u32,
    gradient: F,
}

/// The gradients before the pool; scratch that only grows.
#[derive(Debug, Default)]
pub(in crate::engine) struct Entries<F> {
    list: Vec<Entry<F>>,
    starts: Vec<usize>,
    /// Dense gradients with rows of whole packs.
    wide: Vec<F>,
}

/// Adds to the gradients of weight and bias, and writes that of the padded input.
pub(in crate::engine) struct ConvBackward<'a, F> {
    pub conv: Conv,
    /// The pool of the same step.
    pub window: Option<Window>,
    pub rows: usize,
    /// Padded images, with slack.
    pub x: &'a [F],
    pub weight: &'a [F],
    /// Gradient of the step's output; already 0 where the ReLU of a step without a pool was off.
    pub d_out: &'a [F],
    pub picks: &'a [u8],
    pub d_weight: Option<&'a mut [F]>,
    pub d_bias: Option<&'a mut [F]>,
    /// The gradient of the padded images, with slack.
    pub d_x: Option<&'a mut Vec<F>>,
    pub entries: &'a mut Entries<F>,
    /// Scratch: the weight with whole packs in each row of a filter.
    pub packed: &'a mut Vec<F>,
    pub tiles: &'a mut Tiles<F>,
    pub taps: &'a mut Taps,
}

impl<F: Real> WithSimd for ConvBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if let Some(d_x) = self.d_x.as_deref_mut() {
            reserve(d_x, self.rows * self.conv.padded_len());
            d_x[..self.rows * self.conv.padded_len() + SLACK].fill(F::ZERO);
        }
        if self.window.is_some() {
            match self.d_weight.is_some() {
                true if self.dense_pays::<S>() => self.unpooled_weight_gradient(simd),
                false if self.d_bias.is_none() => {}
                _ => self.weight_gradient(simd),
            }
            if self.d_x.is_some() {
                self.input_gradient(simd);
            }
            return;
        }
        if let Some(d_bias) = self.d_bias.as_deref_mut() {
            add_rows(&self.d_out[..self.rows * self.conv.positions() * self.conv.out], d_bias);
        }
        if taps::fits(&self.conv) {
            let Self { conv, rows, x, weight, d_out, d_weight, d_x, taps, .. } = self;
            let d_x = d_x.map(|d_x| &mut d_x[..]);
            taps::backward(simd, &conv, rows, x, weight, d_out, d_weight, d_x, taps);
            return;
        }
        if winograd::fits(&self.conv) {
            let Self { rows, x, weight, d_out, d_weight, d_x, tiles, .. } = self;
            let d_x = d_x.map(|d_x| &mut d_x[..]);
            winograd::backward(simd, &Grid::new(&self.conv), Back { rows, x, weight, d_out, d_weight, d_x, tiles });
            return;
        }
        if self.d_weight.is_some() {
            // The gradients with rows of whole packs.
            let (channels, lanes) = (self.conv.out, F::lanes::<S>());
            let columns = channels.div_ceil(lanes) * lanes;
            let total = self.rows * self.conv.positions();
            if columns == channels {
                let d_out = &self.d_out[..total * channels];
                self.dense_weight_gradient(simd, d_out);
            } else {
                let mut wide = std::mem::take(&mut self.entries.wide);
                reserve(&mut wide, total * columns);
                widen(&self.d_out[..total * channels], channels, columns, &mut wide[..total * columns]);
                self.dense_weight_gradient(simd, &wide[..total * columns]);
                self.entries.wide = wide;
            }
        }
        if self.d_x.is_some() {
            self.input_gradient(simd);
        }
    }
}

/// Where the patches of a window's elements begin in a padded image.
#[derive(Clone, Copy)]
struct Starts {
    window: Window,
    /// From one row and column of the plane before the pool to the next.
    steps: (usize, usize),
    /// From the patch of a window's first element to that of each; divisions are too slow for the inner loops.
    elements: [usize; 256],
}

impl Starts {
    fn new(conv: &Conv, window: &Window) -> Self {
        let steps = (conv.stride.0 * conv.row_stride(), conv.stride.1 * conv.channels);
        let mut elements = [0; 256];
        for (pick, element) in elements[..window.area().min(256)].iter_mut().enumerate() {
            *element = pick / window.kernel.1 * steps.0 + pick % window.kernel.1 * steps.1;
        }
        Self { window: *window, steps, elements }
    }
    /// Of window (y, x). In a padded window the first element may lie before the image; then this wraps, and comes back when the
    /// distance to an element inside is added.
    #[inline(always)]
    fn of(&self, y: usize, x: usize) -> usize {
        let row = (y * self.window.stride.0).wrapping_sub(self.window.padding.0);
        let column = (x * self.window.stride.1).wrapping_sub(self.window.padding.1);
        row.wrapping_mul(self.steps.0).wrapping_add(column.wrapping_mul(self.steps.1))
    }
}

impl<F: Real> ConvBackward<'_, F> {
    #[inline(always)]
    fn window(&self) -> Window {
        self.window.unwrap_or_else(|| Window::single(self.conv.out, self.conv.out_height, self.conv.out_width))
    }

    /// Whether products over all positions before the pool take less time than lists of those that have a gradient: where patches
    /// are so short that making a list takes longer than its sums. By cycles for an image, half of the ReLUs being on.
    #[inline(always)]
    fn dense_pays<S: Simd>(&self) -> bool {
        let (conv, window, lanes) = (self.conv, self.window(), F::lanes::<S>());
        let each = 10 + conv.kernel.0 * conv.row().div_ceil(lanes) / 2;
        let listed = window.out_height * window.out_width * conv.out * each;
        conv.out.is_multiple_of(lanes) && conv.positions() * conv.patch() * (conv.out / lanes) < listed
    }

    /// By the gradients of all positions before the pool, most of which are 0.
    #[inline(always)]
    fn unpooled_weight_gradient<S: Simd>(&mut self, simd: S) {
        let total = self.rows * self.conv.positions() * self.conv.out;
        let mut wide = std::mem::take(&mut self.entries.wide);
        reserve(&mut wide, total);
        unpool(&self.window(), self.rows, self.d_out, self.picks, self.conv.out, &mut wide);
        if let Some(d_bias) = self.d_bias.as_deref_mut() {
            add_rows(&wide[..total], d_bias);
        }
        self.dense_weight_gradient(simd, &wide[..total]);
        self.entries.wide = wide;
    }

    /// Sums over the batch, channel by channel, with the sums in registers.
    #[inline(always)]
    fn weight_gradient<S: Simd>(&mut self, simd: S) {
        let (conv, window) = (self.conv, self.window());
        let total = self.rows * window.out_height * window.out_width;
        let channels = conv.out;
        let Entries { list, starts, .. } = &mut *self.entries;
        if list.len() < total * channels {
            list.resize(total * channels, Entry::default());
        }
        starts.clear();
        starts.resize(channels, 0);
        let counts = &mut starts[..channels];
        let starts = Starts::new(&conv, &window);
        for place in 0..total {
            let (row, at) = (place / (window.out_height * window.out_width), place % (window.out_height * window.out_width));
            let (y, x) = (at / window.out_width, at % window.out_width);
            let d_out = &self.d_out[place * channels..(place + 1) * channels];
            let first = starts.of(y, x).wrapping_add(row * conv.padded_len());
            let picks = &self.picks[place * channels..(place + 1) * channels];
            for c in 0..channels {
                let offset = first.wrapping_add(starts.elements[usize::from(picks[c])]);
                list[c * total + counts[c]] = Entry { offset: offset as u32, gradient: d_out[c] };
                // Every other gradient is 0, without a pattern: a branch would be guessed wrong half of the time.
                counts[c] += usize::from((picks[c] != OFF) & (d_out[c] != F::ZERO));
            }
        }
        let patch = conv.patch();
        for c in 0..channels {
            let entries = &list[c * total..c * total + counts[c]];
            if let Some(d_bias) = self.d_bias.as_deref_mut() {
                let mut sum = F::ZERO;
                for entry in entries {
                    sum += entry.gradient;
                }
                d_bias[c] += sum;
            }
            if let Some(d_weight) = self.d_weight.as_deref_mut() {
                filter_gradient(simd, &conv, self.x, entries, &mut d_weight[c * patch..(c + 1) * patch]);
            }
        }
    }

    /// Sums over all positions, some elements of all filters at a time, with the sums in registers. `d_out` is (image, position,
    /// channel) with rows of whole packs.
    #[inline(always)]
    fn dense_weight_gradient<S: Simd>(&mut self, simd: S, d_out: &[F]) {
        match S::F32_LANES {
            1 => self.by_elements::<S, 4>(simd, d_out),
            8 => self.by_elements::<S, 6>(simd, d_out),
            // Thirteen where fewer of the last ones are in vain: a 5x5 kernel of one channel has 25.
            _ if self.conv.patch().div_ceil(13) * 13 < self.conv.patch().div_ceil(12) * 12 => self.by_elements::<S, 13>(simd, d_out),
            _ => self.by_elements::<S, 12>(simd, d_out),
        }
    }
    #[inline(always)]
    fn by_elements<S: Simd, const ROWS: usize>(&mut self, simd: S, d_out: &[F]) {
        let conv = self.conv;
        let lanes = F::lanes::<S>();
        let packs = conv.out.div_ceil(lanes);
        let (line, patch) = (packs * lanes, conv.patch());
        let starts = &mut self.entries.starts;
        starts.clear();
        for row in 0..self.rows {
            let image = row * conv.padded_len();
            starts.extend((0..conv.positions()).map(|at| image + conv.patch_start(at / conv.out_width, at % conv.out_width)));
        }
        reserve(self.packed, patch * line);
        let (d_out, _) = F::packs::<S>(d_out);
        let (sums, _) = F::packs_mut::<S>(&mut self.packed[..patch * line]);
        let place = |element: usize| element / conv.row() * conv.row_stride() + element % conv.row();
        let mut element = 0;
        while element < patch {
            let count = ROWS.min(patch - element);
            // Elements past the end repeat the last one and are not kept.
            let mut shifts = [0; ROWS];
            for (r, shift) in shifts.iter_mut().enumerate() {
                *shift = place((element + r).min(patch - 1));
            }
            let mut pack = 0;
            while pack < packs {
                pack += if packs - pack >= 2 {
                    over_positions::<F, S, ROWS, 2>(
                        simd,
                        self.x,
                        starts,
                        shifts,
                        &d_out[pack..],
                        packs,
                        &mut sums[element * packs + pack..],
                        count,
                    )
                } else {
                    over_positions::<F, S, ROWS, 1>(
                        simd,
                        self.x,
                        starts,
                        shifts,
                        &d_out[pack..],
                        packs,
                        &mut sums[element * packs + pack..],
                        count,
                    )
                };
            }
            element += count;
        }
        let d_weight = self.d_weight.as_deref_mut().expect("called only with a place for the gradient");
        for (channel, d_filter) in d_weight.chunks_exact_mut(patch).enumerate() {
            for (sum, value) in d_filter.iter_mut().zip(self.packed[channel..].iter().step_by(line)) {
                *sum += *value;
            }
        }
    }

    /// Scatters each gradient through its filter, position by position.
    #[inline(always)]
    fn input_gradient<S: Simd>(&mut self, simd: S) {
        let (conv, window) = (self.conv, self.window());
        let lanes = F::lanes::<S>();
        let (rows, row, channels) = (conv.kernel.0, conv.row(), conv.out);
        let packs = row.div_ceil(lanes);
        let line = packs * lanes;
        let (places, area) = (window.out_height * window.out_width, window.area());
        // The filters, each row filled up to whole packs with zeros.
        reserve(self.packed, channels * rows * line);
        for (source, target) in self.weight.chunks_exact(row).zip(self.packed.chunks_exact_mut(line)) {
            target[..row].copy_from_slice(source);
            target[row..].fill(F::ZERO);
        }
        // The lists: for each window and each of its elements the filters with a gradient there.
        let Entries { list, starts, .. } = &mut *self.entries;
        // One more, where those land that are left out.
        let most = self.rows * places * channels;
        if list.len() <= most {
            list.resize(most + 1, Entry::default());
        }
        starts.clear();
        let mut end = 0;
        for place in 0..self.rows * places {
            let d_out = &self.d_out[place * channels..(place + 1) * channels];
            if self.window.is_some() {
                let picks = &self.picks[place * channels..(place + 1) * channels];
                let mut counts = [0usize; 256];
                for c in 0..channels {
                    counts[usize::from(picks[c])] += usize::from(d_out[c] != F::ZERO);
                }
                for count in &mut counts[..area] {
                    starts.push(end);
                    end += std::mem::replace(count, end);
                }
                for c in 0..channels {
                    let kept = (picks[c] != OFF) & (d_out[c] != F::ZERO);
                    let slot = &mut counts[usize::from(picks[c])];
                    list[if kept { *slot } else { most }] = Entry { offset: (c * rows * line) as u32, gradient: d_out[c] };
                    *slot += usize::from(kept);
                }
            } else {
                starts.push(end);
                for c in 0..channels {
                    list[end] = Entry { offset: (c * rows * line) as u32, gradient: d_out[c] };
                    end += usize::from(d_out[c] != F::ZERO);
                }
            }
        }
        starts.push(end);
        let d_x = self.d_x.as_deref_mut().expect("called only with a place for the gradient");
        let patches = Starts::new(&conv, &window);
        let scatter = Scatter { conv, window, patches, rows: self.rows, list, starts, packed: self.packed, line };
        for i in 0..rows {
            let mut pack = 0;
            while pack < packs {
                pack += match packs - pack {
                    left if left >= 10 => scatter.run::<S, 10>(simd, d_x, i, pack * lanes),
                    left if left >= 5 => scatter.run::<S, 5>(simd, d_x, i, pack * lanes),
                    left if left >= 2 => scatter.run::<S, 2>(simd, d_x, i, pack * lanes),
                    _ => scatter.run::<S, 1>(simd, d_x, i, pack * lanes),
                };
            }
        }
    }
}

/// `ROWS` elements of the patches times `PACKS` packs of gradients, summed over all positions; the first `count` are written.
/// Returns `PACKS`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn over_positions<F: Real, S: Simd, const ROWS: usize, const PACKS: usize>(
    simd: S,
    x: &[F],
    starts: &[usize],
    shifts: [usize; ROWS],
    d_out: &[F::Pack<S>],
    packs: usize,
    target: &mut [F::Pack<S>],
    count: usize,
) -> usize {
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; ROWS];
    for (place, &start) in starts.iter().enumerate() {
        let d_out = &d_out[place * packs..][..PACKS];
        let x = &x[start..];
        for r in 0..ROWS {
            let value = F::splat(simd, x[shifts[r]]);
            for p in 0..PACKS {
                sums[r][p] = F::pack_mul_add(simd, value, d_out[p], sums[r][p]);
            }
        }
    }
    for (r, sums) in sums.iter().enumerate().take(count) {
        target[r * packs..][..PACKS].copy_from_slice(sums);
    }
    PACKS
}

struct Scatter<'a, F> {
    conv: Conv,
    window: Window,
    patches: Starts,
    rows: usize,
    list: &'a [Entry<F>],
    starts: &'a [usize],
    packed: &'a [F],
    line: usize,
}

impl<F: Real> Scatter<'_, F> {
    /// `PACKS` packs from column `from` on of kernel row `i`, for all positions; returns `PACKS`.
    #[inline(always)]
    fn run<S: Simd, const PACKS: usize>(&self, simd: S, d_x: &mut [F], i: usize, from: usize) -> usize {
        let (conv, window) = (&self.conv, &self.window);
        let width = PACKS * F::lanes::<S>();
        let filters = &self.packed[i * self.line + from..];
        let shift = i * conv.row_stride() + from;
        let area = window.area();
        let mut list = 0;
        for row in 0..self.rows {
            for y in 0..window.out_height {
                for x in 0..window.out_width {
                    let first = self.patches.of(y, x).wrapping_add(row * conv.padded_len() + shift);
                    for pick in 0..area {
                        let entries = &self.list[self.starts[list]..self.starts[list + 1]];
                        list += 1;
                        if entries.is_empty() {
                            continue;
                        }
                        let start = first.wrapping_add(self.patches.elements[pick]);
                        let (target, _) = F::packs_mut::<S>(&mut d_x[start..start + width]);
                        let (target, _) = target.as_chunks_mut::<PACKS>();
                        let Some(target) = target.first_mut() else { continue };
                        let mut sums = *target;
                        for entry in entries {
                            let gradient = F::splat(simd, entry.gradient);
                            let (filter, _) = F::packs::<S>(&filters[entry.offset as usize..][..width]);
                            for p in 0..PACKS {
                                sums[p] = F::pack_mul_add(simd, gradient, filter[p], sums[p]);
                            }
                        }
                        *target = sums;
                    }
                }
            }
        }
        PACKS
    }
}

/// Adds the gradient of one filter.
#[inline(always)]
fn filter_gradient<F: Real, S: Simd>(simd: S, conv: &Conv, x: &[F], entries: &[Entry<F>], d_filter: &mut [F]) {
    let (lanes, row) = (F::lanes::<S>(), conv.row());
    let packs = row.div_ceil(lanes);
    if packs >= 5 {
        for (i, d_row) in d_filter.chunks_exact_mut(row).enumerate() {
            let mut pack = 0;
            while pack < packs {
                let x = &x[i * conv.row_stride() + pack * lanes..];
                let target = &mut d_row[pack * lanes..];
                pack += match packs - pack {
                    left if left >= 10 => side_by_side::<F, S, 10>(simd, x, entries, target),
                    left if left >= 5 => side_by_side::<F, S, 5>(simd, x, entries, target),
                    left if left >= 2 => side_by_side::<F, S, 2>(simd, x, entries, target),
                    _ => side_by_side::<F, S, 1>(simd, x, entries, target),
                };
            }
        }
    } else {
        // Short rows: packs of several rows at once, so that enough sums run side by side.
        let all = packs * conv.kernel.0;
        let mut pack = 0;
        while pack < all {
            let first = pack;
            let place = |p: usize| ((first + p) / packs, (first + p) % packs * lanes);
            pack += match all - pack {
                left if left >= 10 => apart::<F, S, 10>(simd, conv, x, entries, d_filter, place),
                left if left >= 5 => apart::<F, S, 5>(simd, conv, x, entries, d_filter, place),
                left if left >= 3 => apart::<F, S, 3>(simd, conv, x, entries, d_filter, place),
                _ => apart::<F, S, 1>(simd, conv, x, entries, d_filter, place),
            };
        }
    }
}

/// `PACKS` neighboring packs of one row of the filter.
#[inline(always)]
fn side_by_side<F: Real, S: Simd, const PACKS: usize>(simd: S, x: &[F], entries: &[Entry<F>], target: &mut [F]) -> usize {
    let width = PACKS * F::lanes::<S>();
    let mut sums = [F::splat(simd, F::ZERO); PACKS];
    for entry in entries {
        let gradient = F::splat(simd, entry.gradient);
        let (x, _) = F::packs::<S>(&x[entry.offset as usize..][..width]);
        for p in 0..PACKS {
            sums[p] = F::pack_mul_add(simd, gradient, x[p], sums[p]);
        }
    }
    let lanes = F::lanes::<S>();
    for (p, sum) in sums.into_iter().enumerate() {
        add_lanes::<F, S>(simd, sum, &mut target[p * lanes..]);
    }
    PACKS
}

/// `PACKS` packs at `place(0)`, `place(1)` ... (row and column of the filter).
#[inline(always)]
fn apart<F: Real, S: Simd, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    x: &[F],
    entries: &[Entry<F>],
    d_filter: &mut [F],
    place: impl Fn(usize) -> (usize, usize),
) -> usize {
    let lanes = F::lanes::<S>();
    let shifts: [usize; PACKS] = std::array::from_fn(|p| place(p).0 * conv.row_stride() + place(p).1);
    let mut sums = [F::splat(simd, F::ZERO); PACKS];
    for entry in entries {
        let gradient = F::splat(simd, entry.gradient);
        for p in 0..PACKS {
            let at = entry.offset as usize + shifts[p];
            let (x, _) = F::packs::<S>(&x[at..at + lanes]);
            sums[p] = F::pack_mul_add(simd, gradient, x[0], sums[p]);
        }
    }
    for (p, sum) in sums.into_iter().enumerate() {
        let (i, column) = place(p);
        let row = &mut d_filter[i * conv.row()..(i + 1) * conv.row()];
        add_lanes::<F, S>(simd, sum, &mut row[column..]);
    }
    PACKS
}

/// Adds as many lanes as there is room for.
#[inline(always)]
pub(super) fn add_lanes<F: Real, S: Simd>(simd: S, sum: F::Pack<S>, target: &mut [F]) {
    store::<F, S>(F::pack_add(simd, load::<F, S>(target, 0), sum), target, 0);
}
