//! The max-pool: within the pass that makes its inputs, and alone.

use super::{OFF, SLACK, Window};
use crate::engine::real::Real;
use pulp::Simd;

/// The greatest value of each channel over each window of an image, after the ReLU where there is one, and its place in the window;
/// ties go to the first, NaN wins.
///
/// `plane` is (position, column) with `columns` a multiple of the lanes and at least `window.channels`.
#[inline(always)]
pub(super) fn greatest<F: Real, S: Simd>(
    simd: S,
    window: &Window,
    relu: bool,
    plane: &[F],
    columns: usize,
    out: &mut [F],
    picks: &mut [u8],
) {
    let (lanes, channels) = (F::lanes::<S>(), window.channels);
    let packs = columns / lanes;
    let (plane, _) = F::packs::<S>(&plane[..window.height * window.width * columns]);
    let (zero, off) = (F::splat(simd, F::ZERO), F::splat(simd, F::from_usize(usize::from(OFF))));
    for y in 0..window.out_height {
        for x in 0..window.out_width {
            let start = (y * window.out_width + x) * channels;
            for pack in 0..channels.div_ceil(lanes) {
                // Places are counted in floats, so that one mask serves both; below 256 they are exact.
                let (mut best, mut place, mut first) = (zero, zero, true);
                for i in 0..window.kernel.0 {
                    // Before the image this wraps to a large number.
                    let row = (y * window.stride.0 + i).wrapping_sub(window.padding.0);
                    if row >= window.height {
                        continue;
                    }
                    for j in 0..window.kernel.1 {
                        let column = (x * window.stride.1 + j).wrapping_sub(window.padding.1);
                        if column >= window.width {
                            continue;
                        }
                        let value = plane[(row * window.width + column) * packs + pack];
                        let at = F::splat(simd, F::from_usize(i * window.kernel.1 + j));
                        if first {
                            (best, place, first) = (value, at, false);
                            continue;
                        }
                        let (greater, number) = (F::pack_greater(simd, value, best), F::pack_equal(simd, value, value));
                        let higher = F::pack_select(simd, greater, value, best);
                        let there = F::pack_select(simd, greater, at, place);
                        best = F::pack_select(simd, number, higher, value);
                        place = F::pack_select(simd, number, there, at);
                    }
                }
                if relu {
                    let negative = F::pack_at_most(simd, best, zero);
                    best = F::pack_select(simd, negative, zero, best);
                    place = F::pack_select(simd, negative, off, place);
                }
                let mut spill = [[F::ZERO; SLACK]; 2];
                F::packs_mut::<S>(&mut spill[0][..lanes]).0[0] = best;
                F::packs_mut::<S>(&mut spill[1][..lanes]).0[0] = place;
                let (from, count) = (start + pack * lanes, lanes.min(channels - pack * lanes));
                if count == lanes {
                    out[from..from + lanes].copy_from_slice(&spill[0][..lanes]);
                    for (pick, place) in picks[from..from + lanes].iter_mut().zip(&spill[1][..lanes]) {
                        *pick = place.to_u8();
                    }
                } else {
                    out[from..from + count].copy_from_slice(&spill[0][..count]);
                    for (pick, place) in picks[from..from + count].iter_mut().zip(&spill[1]) {
                        *pick = place.to_u8();
                    }
                }
            }
        }
    }
}

/// The gradients before the pool of `rows` images, (image, position, column), from those after it and their places; `columns` is at
/// least the number of channels.
#[inline(always)]
pub(super) fn unpool<F: Real>(window: &Window, rows: usize, d_out: &[F], picks: &[u8], columns: usize, plane: &mut [F]) {
    let channels = window.channels;
    let image = window.height * window.width * columns;
    // Windows that do not overlap write each position once, and only what no window covers must be cleared.
    let apart = window.stride.0 >= window.kernel.0 && window.stride.1 >= window.kernel.1;
    let covers = |size: usize, kernel: usize, stride: usize, count: usize| stride == kernel && count * kernel == size;
    let covered = covers(window.height, window.kernel.0, window.stride.0, window.out_height)
        && covers(window.width, window.kernel.1, window.stride.1, window.out_width)
        && columns == channels;
    if !covered {
        plane[..rows * image].fill(F::ZERO);
    }
    let mut at = 0;
    for plane in plane[..rows * image].chunks_exact_mut(image) {
        for y in 0..window.out_height {
            for x in 0..window.out_width {
                let (d_out, picks) = (&d_out[at..at + channels], &picks[at..at + channels]);
                at += channels;
                for i in 0..window.kernel.0 {
                    let row = (y * window.stride.0 + i).wrapping_sub(window.padding.0);
                    for j in 0..window.kernel.1 {
                        let column = (x * window.stride.1 + j).wrapping_sub(window.padding.1);
                        if row >= window.height || column >= window.width {
                            continue;
                        }
                        let target = &mut plane[(row * window.width + column) * columns..][..channels];
                        let place = (i * window.kernel.1 + j) as u8;
                        for c in 0..channels {
                            let value = if picks[c] == place { d_out[c] } else { F::ZERO };
                            target[c] = if apart { value } else { target[c] + value };
                        }
                    }
                }
            }
        }
    }
}

/// The maxima, and where in its image each one was; ties go to the first, NaN wins.
pub(in crate::engine) fn pool_forward<F: Real>(window: &Window, rows: usize, x: &[F], y: &mut [F], places: &mut Vec<u32>) {
    let channels = window.channels;
    let image = window.height * window.width * channels;
    let outputs = window.out_height * window.out_width;
    if places.len() < rows * outputs * channels {
        places.resize(rows * outputs * channels, 0);
    }
    let results = y.chunks_exact_mut(channels).zip(places.chunks_exact_mut(channels));
    for (at, (y, places)) in results.take(rows * outputs).enumerate() {
        let x = &x[at / outputs * image..][..image];
        let (out_y, out_x) = (at % outputs / window.out_width, at % window.out_width);
        let mut first = true;
        for pick in 0..window.area() {
            let Some((row, column)) = window.place(out_y, out_x, pick) else { continue };
            let from = (row * window.width + column) * channels;
            for c in 0..channels {
                let value = x[from + c];
                if first || value > y[c] || value.is_nan() {
                    (y[c], places[c]) = (value, (from + c) as u32);
                }
            }
            first = false;
        }
    }
}

/// Writes the input's gradient.
pub(in crate::engine) fn pool_backward<F: Real>(window: &Window, rows: usize, d_y: &[F], places: &[u32], d_x: &mut [F]) {
    let image = window.height * window.width * window.channels;
    let outputs = window.out_height * window.out_width * window.channels;
    d_x[..rows * image].fill(F::ZERO);
    for row in 0..rows {
        let d_x = &mut d_x[row * image..(row + 1) * image];
        for at in row * outputs..(row + 1) * outputs {
            d_x[places[at] as usize] += d_y[at];
        }
    }
}
