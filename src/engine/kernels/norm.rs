//! Batch normalisation of rows of channels, forward and backward, with the ReLU and the max-pool that follow it.
//!
//! Each pass goes over all values once, some channels side by side: mean, deviation, result; and on the way back sums, result. Sums of
//! a few rows are made in the values' own precision and added up in `f64`.

use super::pool::{greatest, unpool};
use super::{Window, load, relu as clamp, reserve, store};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// What a forward pass leaves for the backward pass, by channel.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Statistics<F> {
    mean: Vec<F>,
    /// `1 / sqrt(variance + eps)`.
    scale: Vec<F>,
    /// Whether mean and variance are those of this batch.
    batch: bool,
    sums: Vec<f64>,
    squares: Vec<f64>,
    /// What each value's difference from the mean is multiplied with, and what is added to it; filled up to whole packs.
    factor: Vec<F>,
    shift: Vec<F>,
    /// What a gradient is multiplied with.
    direct: Vec<F>,
}

/// Share of the newest batch in the running statistics.
const MOMENTUM: f64 = 0.1;
/// Rows whose sum is made in the values' own precision.
const RUN: usize = 32;

/// `y = (x - mean) / sqrt(variance + eps) * weight + bias`, channel by channel, then ReLU, then the maximum of each window.
pub(in crate::engine) struct NormForward<'a, F> {
    /// (row, channel): a row is a position of an image, or a sample.
    pub x: &'a [F],
    pub weight: &'a [F],
    pub bias: &'a [F],
    pub eps: f64,
    /// Mean and variance; of this batch where absent.
    pub fixed: Option<(&'a [F], &'a [F])>,
    /// With statistics of the batch: where mean and unbiased variance are mixed in. A batch of one value a channel has no unbiased
    /// variance and leaves the running one alone.
    pub running: Option<(&'a mut [F], &'a mut [F])>,
    pub relu: bool,
    pub window: Option<Window>,
    pub y: &'a mut [F],
    /// One for each pooled value; not written without a window.
    pub picks: &'a mut [u8],
    pub statistics: &'a mut Statistics<F>,
    /// Scratch: one image before pooling.
    pub plane: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for NormForward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, bias, eps, fixed, running, relu, window, y, picks, statistics, plane } = self;
        let channels = weight.len();
        let lanes = F::lanes::<S>();
        let columns = channels.div_ceil(lanes) * lanes;
        statistics.measure(simd, x, eps, channels, fixed, running);
        let Statistics { mean, scale, factor, shift, .. } = statistics;
        for values in [&mut *factor, &mut *shift] {
            values.clear();
            values.resize(columns, F::ZERO);
        }
        for c in 0..channels {
            factor[c] = scale[c] * weight[c];
            shift[c] = bias[c];
        }
        let Some(window) = window else {
            for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
                affine(simd, x, [mean, factor, shift], y);
                if relu {
                    clamp(y);
                }
            }
            return;
        };
        let positions = window.height * window.width;
        let outputs = window.out_height * window.out_width * channels;
        reserve(plane, positions * columns);
        for (image, x) in x.chunks_exact(positions * channels).enumerate() {
            for (row, x) in plane.chunks_exact_mut(columns).zip(x.chunks_exact(channels)) {
                affine(simd, x, [mean, factor, shift], &mut row[..channels]);
            }
            let range = image * outputs..(image + 1) * outputs;
            greatest(simd, &window, relu, plane, columns, &mut y[range.clone()], &mut picks[range]);
        }
    }
}

/// `y = (x - mean) * factor + shift` of one row. The difference comes first: a mean that is large beside the deviation would cancel.
#[inline(always)]
fn affine<F: Real, S: Simd>(simd: S, x: &[F], [mean, factor, shift]: [&[F]; 3], y: &mut [F]) {
    let lanes = F::lanes::<S>();
    let minus = F::splat(simd, -F::ONE);
    let numbers = F::packs::<S>(mean).0.iter().zip(F::packs::<S>(factor).0).zip(F::packs::<S>(shift).0);
    for (pack, ((&mean, &factor), &shift)) in numbers.enumerate() {
        let from = pack * lanes;
        let difference = F::pack_mul_add(simd, minus, mean, load::<F, S>(x, from));
        store::<F, S>(F::pack_mul_add(simd, difference, factor, shift), y, from);
    }
}

impl<F: Real> Statistics<F> {
    /// Mean and scale, and the running statistics.
    #[inline(always)]
    fn measure<S: Simd>(
        &mut self,
        simd: S,
        x: &[F],
        eps: f64,
        channels: usize,
        fixed: Option<(&[F], &[F])>,
        running: Option<(&mut [F], &mut [F])>,
    ) {
        let Self { mean, scale, batch, sums, squares, .. } = self;
        // Filled up to whole packs: what lies past the channels is never used.
        let lanes = F::lanes::<S>();
        let columns = channels.div_ceil(lanes) * lanes;
        mean.clear();
        mean.resize(columns, F::ZERO);
        scale.resize(channels, F::ZERO);
        *batch = fixed.is_none();
        if let Some((fixed_mean, fixed_variance)) = fixed {
            mean[..channels].copy_from_slice(fixed_mean);
            for (scale, &variance) in scale.iter_mut().zip(fixed_variance) {
                *scale = F::from_f64(1.0 / (variance.to_f64() + eps).sqrt());
            }
            return;
        }
        let count = (x.len() / channels) as f64;
        sums.clear();
        sums.resize(columns, 0.0);
        squares.clear();
        squares.resize(columns, 0.0);
        let zero = F::splat(simd, F::ZERO);
        for rows in x.chunks(RUN * channels) {
            for pack in 0..columns / lanes {
                let mut sum = zero;
                for row in rows.chunks_exact(channels) {
                    sum = F::pack_add(simd, sum, load::<F, S>(row, pack * lanes));
                }
                add_up::<F, S>(sum, &mut sums[pack * lanes..][..lanes]);
            }
        }
        for c in 0..channels {
            sums[c] /= count;
            mean[c] = F::from_f64(sums[c]);
        }
        let minus = F::splat(simd, -F::ONE);
        for rows in x.chunks(RUN * channels) {
            for pack in 0..columns / lanes {
                let mean = load::<F, S>(mean, pack * lanes);
                let mut sum = zero;
                for row in rows.chunks_exact(channels) {
                    let difference = F::pack_mul_add(simd, minus, mean, load::<F, S>(row, pack * lanes));
                    sum = F::pack_mul_add(simd, difference, difference, sum);
                }
                add_up::<F, S>(sum, &mut squares[pack * lanes..][..lanes]);
            }
        }
        for c in 0..channels {
            // The differences were from the rounded mean.
            let rounded = mean[c].to_f64() - sums[c];
            squares[c] = (squares[c] - count * rounded * rounded).max(0.0);
            scale[c] = F::from_f64(1.0 / (squares[c] / count + eps).sqrt());
        }
        if let Some((running_mean, running_variance)) = running {
            let mix = |old: F, new: f64| F::from_f64((1.0 - MOMENTUM) * old.to_f64() + MOMENTUM * new);
            for c in 0..channels {
                running_mean[c] = mix(running_mean[c], sums[c]);
                if count > 1.0 {
                    running_variance[c] = mix(running_variance[c], squares[c] / (count - 1.0));
                }
            }
        }
    }
}

/// Adds each lane to its sum.
#[inline(always)]
fn add_up<F: Real, S: Simd>(values: F::Pack<S>, sums: &mut [f64]) {
    let mut spill = [F::ZERO; super::SLACK];
    F::packs_mut::<S>(&mut spill[..sums.len()]).0[0] = values;
    for (sum, value) in sums.iter_mut().zip(spill) {
        *sum += value.to_f64();
    }
}

/// Adds to the gradients of weight and bias, and writes that of the input.
pub(in crate::engine) struct NormBackward<'a, F> {
    pub x: &'a [F],
    pub weight: &'a [F],
    /// Of the result; already 0 where the ReLU of a step without a pool was off.
    pub d_y: &'a [F],
    pub window: Option<Window>,
    pub picks: &'a [u8],
    pub statistics: &'a mut Statistics<F>,
    /// Of weight and bias.
    pub gradients: Option<(&'a mut [F], &'a mut [F])>,
    pub d_x: Option<&'a mut [F]>,
    /// Scratch: gradients before the pool.
    pub plane: &'a mut Vec<F>,
}

impl<F: Real> WithSimd for NormBackward<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, weight, d_y, window, picks, statistics, gradients, d_x, plane } = self;
        let channels = weight.len();
        let lanes = F::lanes::<S>();
        let columns = channels.div_ceil(lanes) * lanes;
        let d_y = match window {
            None => &d_y[..x.len()],
            Some(window) => {
                reserve(plane, x.len());
                unpool(&window, x.len() / (window.height * window.width * channels), d_y, picks, channels, &mut plane[..x.len()]);
                &plane[..x.len()]
            }
        };
        let Statistics { mean, scale, batch, sums, squares, factor, shift, direct } = statistics;
        // Of the gradient, and of the gradient times the normalised input.
        sums.clear();
        sums.resize(columns, 0.0);
        squares.clear();
        squares.resize(columns, 0.0);
        let (zero, minus) = (F::splat(simd, F::ZERO), F::splat(simd, -F::ONE));
        for (x, d_y) in x.chunks(RUN * channels).zip(d_y.chunks(RUN * channels)) {
            for pack in 0..columns / lanes {
                let from = pack * lanes;
                let mean = load::<F, S>(mean, from);
                let (mut sum, mut square) = (zero, zero);
                for (x, d_y) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)) {
                    let d_y = load::<F, S>(d_y, from);
                    let difference = F::pack_mul_add(simd, minus, mean, load::<F, S>(x, from));
                    sum = F::pack_add(simd, sum, d_y);
                    square = F::pack_mul_add(simd, d_y, difference, square);
                }
                add_up::<F, S>(sum, &mut sums[from..from + lanes]);
                add_up::<F, S>(square, &mut squares[from..from + lanes]);
            }
        }
        for c in 0..channels {
            squares[c] *= scale[c].to_f64();
        }
        if let Some((d_weight, d_bias)) = gradients {
            for c in 0..channels {
                d_weight[c] += F::from_f64(squares[c]);
                d_bias[c] += F::from_f64(sums[c]);
            }
        }
        let Some(d_x) = d_x else { return };
        // weight * scale * (d_y - mean(d_y) - normalised * mean(d_y * normalised)) = direct * d_y + factor * (x - mean) + shift
        let count = (x.len() / channels) as f64;
        for values in [&mut *factor, &mut *shift, &mut *direct] {
            values.clear();
            values.resize(columns, F::ZERO);
        }
        for c in 0..channels {
            let scale = scale[c].to_f64();
            let own = weight[c].to_f64() * scale;
            direct[c] = F::from_f64(own);
            if *batch {
                let slope = -own * scale * squares[c] / count;
                factor[c] = F::from_f64(slope);
                shift[c] = F::from_f64(-own * sums[c] / count);
            }
        }
        let rows = d_x.chunks_exact_mut(channels).zip(x.chunks_exact(channels)).zip(d_y.chunks_exact(channels));
        for ((d_x, x), d_y) in rows {
            for pack in 0..columns / lanes {
                let from = pack * lanes;
                let difference = F::pack_mul_add(simd, minus, load::<F, S>(mean, from), load::<F, S>(x, from));
                let affine = F::pack_mul_add(simd, difference, load::<F, S>(factor, from), load::<F, S>(shift, from));
                let value = F::pack_mul_add(simd, load::<F, S>(d_y, from), load::<F, S>(direct, from), affine);
                store::<F, S>(value, d_x, from);
            }
        }
    }
}
