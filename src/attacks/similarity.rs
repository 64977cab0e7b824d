//! How alike two pictures are: mean squared error, PSNR, SSIM.
//!
//! Pictures are channels-last slices of numbers in a stated range.

use crate::engine::Shape;

/// The greatest PSNR that is reported, in dB: identical pictures have it too, whose PSNR is infinite.
pub const MOST_PSNR: f64 = 100.0;

/// The mean squared difference of two pictures; NaN for empty ones.
#[must_use]
pub fn mean_squared_error(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / a.len() as f64
}

/// The peak signal-to-noise ratio in dB, 10 log10(range^2 / MSE), at most [`MOST_PSNR`]; `range` is the greatest minus the least value
/// that the data can have.
#[must_use]
pub fn psnr(a: &[f64], b: &[f64], range: f64) -> f64 {
    let error = mean_squared_error(a, b);
    if error == 0.0 { MOST_PSNR } else { (10.0 * (range * range / error).log10()).min(MOST_PSNR) }
}

/// PFLlib's PSNR of a whole batch: for a range of 1 whatever the data's, with a third of the mean squared error, which adds 4.77 dB;
/// 100 for identical pictures.
#[must_use]
pub fn psnr_pfllib(a: &[f64], b: &[f64]) -> f64 {
    let error = mean_squared_error(a, b) / 3.0;
    if error == 0.0 { 100.0 } else { 20.0 * (1.0 / error.sqrt()).log10() }
}

/// The greatest side of SSIM's window.
const WINDOW: usize = 11;
/// The standard deviation of SSIM's window, in pixels.
const SPREAD: f64 = 1.5;

/// The structural similarity (Wang et al., 2004), mean over channels and over all places of an 11 x 11 window with Gaussian weights
/// (standard deviation 1.5) that lie wholly inside; K1 = 0.01, K2 = 0.03.
///
/// A picture with a side below 11 is seen through a window whose side is there the greatest odd number that fits.
///
/// # Panics
/// When a picture has fewer numbers than `shape`.
#[must_use]
pub fn ssim(a: &[f64], b: &[f64], shape: Shape, range: f64) -> f64 {
    let (rows, columns) = (weights(shape.height), weights(shape.width));
    let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
    let (mut sum, mut places) = (0.0, 0.0);
    for channel in 0..shape.channels {
        for top in 0..=shape.height - rows.len() {
            for left in 0..=shape.width - columns.len() {
                let (mut ma, mut mb, mut aa, mut bb, mut ab) = (0.0, 0.0, 0.0, 0.0, 0.0);
                for (row, wr) in rows.iter().enumerate() {
                    for (column, wc) in columns.iter().enumerate() {
                        let at = ((top + row) * shape.width + left + column) * shape.channels + channel;
                        let (w, x, y) = (wr * wc, a[at], b[at]);
                        ma += w * x;
                        mb += w * y;
                        aa += w * x * x;
                        bb += w * y * y;
                        ab += w * x * y;
                    }
                }
                let (va, vb, cov) = (aa - ma * ma, bb - mb * mb, ab - ma * mb);
                sum += (2.0 * ma * mb + c1) * (2.0 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
                places += 1.0;
            }
        }
    }
    sum / places
}

/// Gaussian weights with sum 1 of a window that fits into `size` pixels.
fn weights(size: usize) -> Vec<f64> {
    let side = if size >= WINDOW { WINDOW } else { size - (size + 1) % 2 };
    let middle = (side / 2) as f64;
    let raw: Vec<f64> = (0..side).map(|i| (-(i as f64 - middle).powi(2) / (2.0 * SPREAD * SPREAD)).exp()).collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|w| w / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(shape: Shape) -> Vec<f64> {
        (0..shape.numel()).map(|i| ((i * i * 7 + i * 3) % 17) as f64 / 8.0 - 1.0).collect()
    }

    #[test]
    fn identical_pictures_are_as_alike_as_can_be() {
        let shape = Shape { channels: 3, height: 13, width: 12 };
        let a = picture(shape);
        assert_eq!(mean_squared_error(&a, &a), 0.0);
        assert_eq!((psnr(&a, &a, 2.0), psnr_pfllib(&a, &a)), (MOST_PSNR, 100.0));
        assert!((ssim(&a, &a, shape, 2.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_constant_shift_has_the_psnr_of_its_square() {
        let shape = Shape { channels: 1, height: 8, width: 8 };
        let a = picture(shape);
        let b: Vec<f64> = a.iter().map(|v| v + 0.2).collect();
        // 10 log10(4 / 0.04) = 20 dB in a range of 2.
        assert!((psnr(&a, &b, 2.0) - 20.0).abs() < 1e-9);
        // In PFLlib's terms 10 log10(3 / 0.04).
        assert!((psnr_pfllib(&a, &b) - 10.0 * 75f64.log10()).abs() < 1e-9);
        // Flat pictures have no structure: only their means differ.
        let (dark, light) = ([0.25; 64], [0.75; 64]);
        let c1 = (0.01f64).powi(2);
        let want = (2.0 * 0.25 * 0.75 + c1) / (0.25f64.powi(2) + 0.75f64.powi(2) + c1);
        assert!((ssim(&dark, &light, shape, 1.0) - want).abs() < 1e-12);
    }

    #[test]
    fn a_window_of_one_place_is_the_formula_itself() {
        // 3 x 1 pixels: one window of weights w, 1 - 2w, w.
        let w = (-1.0 / 4.5f64).exp() / (1.0 + 2.0 * (-1.0 / 4.5f64).exp());
        let (a, b) = ([0.0, 1.0, 0.0], [0.5, 0.5, 0.0]);
        let (ma, mb) = (1.0 - 2.0 * w, 0.5 * (1.0 - w));
        let (va, vb) = (ma - ma * ma, 0.25 * (1.0 - w) - mb * mb);
        let cov = 0.5 * (1.0 - 2.0 * w) - ma * mb;
        let (c1, c2) = (1e-4, 9e-4);
        let want = (2.0 * ma * mb + c1) * (2.0 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
        let found = ssim(&a, &b, Shape { channels: 1, height: 3, width: 1 }, 1.0);
        assert!((found - want).abs() < 1e-12, "{found} {want}");
    }

    #[test]
    fn noise_lowers_all_of_them() {
        let shape = Shape { channels: 1, height: 28, width: 28 };
        let a = picture(shape);
        let noisy = |size: f64| a.iter().enumerate().map(|(i, v)| v + size * ((i * 31 % 13) as f64 / 6.0 - 1.0)).collect::<Vec<_>>();
        let (little, much) = (noisy(0.1), noisy(1.0));
        assert!(psnr(&a, &little, 2.0) > psnr(&a, &much, 2.0) + 10.0);
        assert!(ssim(&a, &little, shape, 2.0) > ssim(&a, &much, shape, 2.0));
    }
}
