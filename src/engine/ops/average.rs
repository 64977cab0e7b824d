//! The mean of windows: average pooling, with windows of one size, or as many as the output has pixels.

use super::{Backward, Forward, Op};
use crate::base::Outcome;
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, Slide, positive};
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// The windows of one image.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Average {
    pub channels: usize,
    pub width: usize,
    pub pixels: usize,
    /// The rows of each output row, within the image.
    pub rows: Vec<Range<usize>>,
    pub columns: Vec<Range<usize>>,
    /// What sums are divided by, where it is not the number of pixels summed: a border counts as zeros.
    pub area: Option<usize>,
}

/// Windows of one size; zeros beyond the border count, as in torch.
pub(in crate::engine) fn plan(builder: &mut Builder, slide: Slide) -> Outcome<()> {
    builder.image_only()?;
    let (height, width) = builder.slide(slide)?;
    let ranges = |count: usize, size: usize, kernel: usize, stride: usize, padding: usize| -> Vec<Range<usize>> {
        let range = |i: usize| (i * stride).saturating_sub(padding).min(size)..(i * stride + kernel).saturating_sub(padding).min(size);
        (0..count).map(range).collect()
    };
    let rows = ranges(height, builder.shape.height, slide.kernel.0, slide.stride.0, slide.padding.0);
    let columns = ranges(width, builder.shape.width, slide.kernel.1, slide.stride.1, slide.padding.1);
    finish(builder, rows, columns, Some(slide.kernel.0 * slide.kernel.1))
}

/// As many windows as the output has pixels, evenly spread.
pub(in crate::engine) fn plan_adaptive(builder: &mut Builder, size: (usize, usize)) -> Outcome<()> {
    builder.image_only()?;
    positive("output height", size.0)?;
    positive("output width", size.1)?;
    let ranges = |count: usize, size: usize| (0..count).map(|i| i * size / count..((i + 1) * size).div_ceil(count)).collect();
    let (rows, columns) = (ranges(size.0, builder.shape.height), ranges(size.1, builder.shape.width));
    finish(builder, rows, columns, None)
}

fn finish(builder: &mut Builder, rows: Vec<Range<usize>>, columns: Vec<Range<usize>>, area: Option<usize>) -> Outcome<()> {
    let Shape { channels, height, width } = builder.shape;
    let shape = Shape { channels, height: rows.len(), width: columns.len() };
    builder.step(Op::Average(Average { channels, width, pixels: height * width, rows, columns, area }), shape)
}

impl Average {
    /// What each pixel contributes to each output: a row for each output.
    pub fn shares(&self) -> Vec<f32> {
        let mut shares = vec![0.0; self.rows.len() * self.columns.len() * self.pixels];
        let windows = self.rows.iter().flat_map(|rows| self.columns.iter().map(move |columns| (rows, columns)));
        for (shares, (rows, columns)) in shares.chunks_exact_mut(self.pixels).zip(windows) {
            for row in rows.clone() {
                shares[row * self.width + columns.start..row * self.width + columns.end].fill(self.factor(rows, columns));
            }
        }
        shares
    }
    fn factor<F: Real>(&self, rows: &Range<usize>, columns: &Range<usize>) -> F {
        F::ONE / F::from_usize(self.area.unwrap_or(rows.len() * columns.len()))
    }
}

struct Means<'a, F> {
    average: &'a Average,
    x: &'a [F],
    y: &'a mut [F],
}

impl<F: Real> WithSimd for Means<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Average { channels, width, pixels, rows, columns, .. } = self.average;
        let mut outputs = self.y.chunks_exact_mut(*channels);
        for image in self.x.chunks_exact(pixels * channels) {
            for window_rows in rows {
                for window_columns in columns {
                    let Some(sum) = outputs.next() else { return };
                    sum.fill(F::ZERO);
                    for row in window_rows.clone() {
                        let line = &image[(row * width + window_columns.start) * channels..(row * width + window_columns.end) * channels];
                        for pixel in line.chunks_exact(*channels) {
                            sum.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += value);
                        }
                    }
                    let factor = self.average.factor(window_rows, window_columns);
                    sum.iter_mut().for_each(|sum| *sum *= factor);
                }
            }
        }
    }
}

struct MeansBack<'a, F> {
    average: &'a Average,
    d_y: &'a [F],
    d_x: &'a mut [F],
}

impl<F: Real> WithSimd for MeansBack<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Average { channels, width, pixels, rows, columns, .. } = self.average;
        self.d_x.fill(F::ZERO);
        let mut outputs = self.d_y.chunks_exact(*channels);
        for image in self.d_x.chunks_exact_mut(pixels * channels) {
            for window_rows in rows {
                for window_columns in columns {
                    let Some(d_y) = outputs.next() else { return };
                    let factor: F = self.average.factor(window_rows, window_columns);
                    for row in window_rows.clone() {
                        let line = (row * width + window_columns.start) * channels..(row * width + window_columns.end) * channels;
                        for pixel in image[line].chunks_exact_mut(*channels) {
                            pixel.iter_mut().zip(d_y).for_each(|(sum, &value)| *sum += factor * value);
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn forward<F: Real>(average: &Average, pass: &mut Forward<'_, F>) {
    dispatch(Means { average, x: &pass.x[..pass.inputs], y: &mut pass.kept.value[..pass.outputs] });
}

pub(super) fn backward<F: Real>(average: &Average, pass: &mut Backward<'_, F>) {
    if pass.down {
        let scratch = &mut *pass.scratch;
        dispatch(MeansBack { average, d_y: &scratch.gradient[..pass.outputs], d_x: &mut scratch.next[..pass.inputs] });
    }
}
