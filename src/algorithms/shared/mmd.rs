//! The maximum mean discrepancy of two batches of features under a sum of Gaussian kernels.

use super::flat::squared_distance;

/// Widths s of the kernels exp(-distance^2 / (2 s)).
const WIDTHS: [f64; 4] = [10.0, 15.0, 20.0, 50.0];

/// The sum of the kernels at a squared distance, and its derivative by it.
fn kernels(distance: f64) -> (f64, f64) {
    WIDTHS.iter().fold((0.0, 0.0), |(value, slope), width| {
        let kernel = (-0.5 * distance / width).exp();
        (value + kernel, slope - 0.5 / width * kernel)
    })
}

/// The mean over all pairs of rows of `k(a, a) + k(b, b) - 2 k(a, b)`, and its gradient by `a`. Both have as many rows, of `columns`
/// numbers.
pub(crate) fn mmd(a: &[f32], b: &[f32], columns: usize) -> (f32, Vec<f32>) {
    let rows = a.len() / columns.max(1);
    let pairs = (rows * rows).max(1) as f64;
    let row = |i: usize| i * columns..(i + 1) * columns;
    // Both orders of a pair have the same distance.
    let within = |values: &[f32]| {
        let mut table = vec![(0.0, 0.0); rows * rows];
        for i in 0..rows {
            for j in i..rows {
                let pair = kernels(squared_distance(&values[row(i)], &values[row(j)]));
                (table[i * rows + j], table[j * rows + i]) = (pair, pair);
            }
        }
        table
    };
    let (within_a, within_b) = (within(a), within(b));
    let (mut value, mut gradient) = (0.0, vec![0.0; a.len()]);
    for (i, own) in a.chunks_exact(columns).enumerate() {
        let gradient = &mut gradient[i * columns..][..columns];
        for (j, (near, far)) in a.chunks_exact(columns).zip(b.chunks_exact(columns)).enumerate() {
            let (within, slope) = within_a[i * rows + j];
            let (across, slope_across) = kernels(squared_distance(own, far));
            value += within + within_b[i * rows + j].0 - 2.0 * across;
            // Each pair within `a` occurs twice, and a squared distance has the slope 2 (own - near).
            let (toward, away) = ((4.0 * slope / pairs) as f32, (4.0 * slope_across / pairs) as f32);
            for (((sum, own), near), far) in gradient.iter_mut().zip(own).zip(near).zip(far) {
                *sum += toward * (own - near) - away * (own - far);
            }
        }
    }
    ((value / pairs) as f32, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_batches_have_no_discrepancy_and_no_gradient() {
        let a = [1.0, -2.0, 0.5, 3.0, 0.0, 1.0];
        let (value, gradient) = mmd(&a, &a, 2);
        assert!(value.abs() < 1e-7 && gradient.iter().all(|g| g.abs() < 1e-7), "{value} {gradient:?}");
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_value() {
        let (a, b) = ([1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 4.0, -1.0]);
        let (_, gradient) = mmd(&a, &b, 2);
        for i in 0..4 {
            let at = |step: f32| {
                let mut a = a;
                a[i] += step;
                f64::from(mmd(&a, &b, 2).0)
            };
            let slope = (at(0.125) - at(-0.125)) / 0.25;
            assert!((slope - f64::from(gradient[i])).abs() < 2e-4, "{slope} and {}", gradient[i]);
        }
    }

    #[test]
    fn one_row_each_by_hand() {
        // Squared distance 4: 2 (4 - sum of exp(-2/s)).
        let expected = 2.0 * (4.0 - WIDTHS.iter().map(|s| (-2.0 / s).exp()).sum::<f64>());
        assert!((f64::from(mmd(&[0.0], &[2.0], 1).0) - expected).abs() < 1e-6);
    }
}
