//! Originals beside reconstructions as one PNG.

use super::score::Truth;
use crate::base::{Fault, Outcome};
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

/// Pixels between two pictures.
const GAP: usize = 2;
/// The width that a single picture should at least have: small ones are enlarged by a whole number.
const WANTED: usize = 56;

/// A PNG with one row a sample: the true one at the left, the made-up one `x` at the right. One and three channels are gray and color;
/// of others the mean is shown.
///
/// # Errors
/// An internal fault when the picture cannot be written.
pub fn beside(truth: &Truth<'_>, x: &[f64]) -> Outcome<Vec<u8>> {
    let (shape, (least, most)) = (truth.shape, truth.range);
    let (width, colors) = (shape.numel(), if shape.channels == 3 { 3 } else { 1 });
    let zoom = WANTED.div_ceil(shape.width.max(shape.height)).max(1);
    let (wide, high) = (shape.width * zoom, shape.height * zoom);
    let samples = x.len() / width.max(1);
    let (columns, rows) = (2 * wide + GAP, samples * high + samples.saturating_sub(1) * GAP);
    let mut pixels = vec![255u8; columns * rows * colors];
    let byte = |v: f64| ((v - least) / (most - least).max(f64::MIN_POSITIVE) * 255.0).round().clamp(0.0, 255.0) as u8;
    for (side, source) in [truth.x, x].into_iter().enumerate() {
        for (sample, picture) in source.chunks_exact(width).enumerate() {
            for row in 0..high {
                for column in 0..wide {
                    let at = ((row / zoom) * shape.width + column / zoom) * shape.channels;
                    let pixel = &picture[at..at + shape.channels];
                    let to = ((sample * (high + GAP) + row) * columns + side * (wide + GAP) + column) * colors;
                    if colors == 3 {
                        pixels[to..to + 3].iter_mut().zip(pixel).for_each(|(p, v)| *p = byte(*v));
                    } else {
                        pixels[to] = byte(pixel.iter().sum::<f64>() / pixel.len() as f64);
                    }
                }
            }
        }
    }
    let color = if colors == 3 { ExtendedColorType::Rgb8 } else { ExtendedColorType::L8 };
    let mut png = Vec::new();
    PngEncoder::new(&mut png)
        .write_image(&pixels, columns as u32, rows as u32, color)
        .map_err(|e| Fault::internal(format!("a picture could not be written: {e}")))?;
    Ok(png)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Shape;

    #[test]
    fn the_picture_can_be_read_back() {
        let shape = Shape { channels: 1, height: 2, width: 2 };
        let truth = Truth { x: &[-1.0, 1.0, 0.0, -1.0], labels: &[0], shape, range: (-1.0, 1.0) };
        let png = beside(&truth, &[1.0, 1.0, 1.0, 1.0]).expect("a picture");
        let read = image::load_from_memory(&png).expect("a PNG").to_luma8();
        assert_eq!((read.width(), read.height()), (2 * 56 + 2, 56));
        let at = |x, y| read.get_pixel(x, y).0[0];
        assert_eq!([at(0, 0), at(55, 0), at(0, 55), at(56, 0), at(58, 0), at(113, 55)], [0, 255, 128, 255, 255, 255]);
    }
}
