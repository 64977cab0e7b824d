//! A max-pool that stands alone, of any window.

use super::Window;
use crate::engine::real::Real;

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
