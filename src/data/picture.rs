//! Pictures: png, jpeg and ppm decoded within bounds, and scaled as Pillow scales them.
//!
//! A jpeg may differ by a step or two from other decoders, as the format allows. Scaling is Pillow's bilinear filter with
//! antialiasing, across and then down, in the same fixed-point arithmetic (version 11; 13 may go down first, one step apart).

use crate::base::{Fault, Outcome};
use image::{DynamicImage, ImageReader};
use std::io::Cursor;

/// The most pixels along a side.
const GREATEST_SIDE: u32 = 20_000;
/// The most bytes that decoding may take.
const GREATEST_MEMORY: u64 = 1 << 30;
const BITS: u32 = 22;

/// A picture: height times width times channels, channels last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    pub bytes: Vec<u8>,
}

impl Picture {
    /// Decodes a picture to one gray channel or three colors, whatever the file has.
    pub fn decode(content: &[u8], channels: usize, name: &str) -> Outcome<Self> {
        let unsound = |e: &dyn std::fmt::Display| Fault::storage(format!("`{name}` is not a sound picture: {e}"));
        let mut reader = ImageReader::new(Cursor::new(content)).with_guessed_format().map_err(|e| unsound(&e))?;
        let mut limits = image::Limits::default();
        limits.max_image_width = Some(GREATEST_SIDE);
        limits.max_image_height = Some(GREATEST_SIDE);
        limits.max_alloc = Some(GREATEST_MEMORY);
        reader.limits(limits);
        let decoded = reader.decode().map_err(|e| unsound(&e))?;
        let (width, height) = (decoded.width() as usize, decoded.height() as usize);
        let bytes = if channels == 1 { gray(decoded) } else { eight_bits(decoded).into_rgb8().into_raw() };
        Ok(Self { width, height, channels, bytes })
    }
    /// A part of the picture, which must lie inside.
    pub fn part(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let row = |y: usize| &self.bytes[(y * self.width + left) * self.channels..(y * self.width + left + width) * self.channels];
        Self { width, height, channels: self.channels, bytes: (top..top + height).flat_map(row).copied().collect() }
    }
    /// Swaps left and right.
    pub fn turn(&mut self) {
        for row in self.bytes.chunks_exact_mut(self.width * self.channels) {
            row.reverse();
            row.chunks_exact_mut(self.channels).for_each(<[u8]>::reverse);
        }
    }
    /// The picture at another size.
    pub fn resized(self, width: usize, height: usize) -> Self {
        let across = if width == self.width { self } else { self.across(width) };
        if height == across.height { across } else { across.down(height) }
    }
    fn across(&self, width: usize) -> Self {
        let taps = taps(self.width, width);
        let mut bytes = Vec::with_capacity(width * self.height * self.channels);
        for row in self.bytes.chunks_exact(self.width * self.channels) {
            for (first, weights) in &taps {
                for channel in 0..self.channels {
                    let at = |tap: usize| row[(first + tap) * self.channels + channel];
                    bytes.push(weigh(weights.iter().enumerate().map(|(tap, weight)| (at(tap), *weight))));
                }
            }
        }
        Self { width, bytes, ..*self }
    }
    fn down(&self, height: usize) -> Self {
        let row = self.width * self.channels;
        let mut bytes = Vec::with_capacity(row * height);
        for (first, weights) in taps(self.height, height) {
            for place in 0..row {
                let at = |tap: usize| self.bytes[(first + tap) * row + place];
                bytes.push(weigh(weights.iter().enumerate().map(|(tap, weight)| (at(tap), *weight))));
            }
        }
        Self { height, bytes, ..*self }
    }
}

/// A picture of eight bits a value: of sixteen the higher ones, as Pillow takes them.
fn eight_bits(picture: DynamicImage) -> DynamicImage {
    let high = |values: Vec<u16>| values.into_iter().map(|value| (value >> 8) as u8).collect::<Vec<u8>>();
    let (width, height) = (picture.width(), picture.height());
    let made = match picture {
        DynamicImage::ImageLuma16(p) => image::GrayImage::from_raw(width, height, high(p.into_raw())).map(Into::into),
        DynamicImage::ImageLumaA16(p) => image::GrayAlphaImage::from_raw(width, height, high(p.into_raw())).map(Into::into),
        DynamicImage::ImageRgb16(p) => image::RgbImage::from_raw(width, height, high(p.into_raw())).map(Into::into),
        DynamicImage::ImageRgba16(p) => image::RgbaImage::from_raw(width, height, high(p.into_raw())).map(Into::into),
        other => Some(other),
    };
    made.expect("there are as many values as before")
}

/// Pillow's mode `L`: colors weighed in fixed point; what is transparent counts like the rest.
fn gray(picture: DynamicImage) -> Vec<u8> {
    match eight_bits(picture) {
        DynamicImage::ImageLuma8(gray) => gray.into_raw(),
        DynamicImage::ImageLumaA8(gray) => gray.into_raw().as_chunks::<2>().0.iter().map(|[v, _]| *v).collect(),
        colors => colors.into_rgb8().into_raw().as_chunks::<3>().0.iter().map(|[r, g, b]| weighed(*r, *g, *b)).collect(),
    }
}

fn weighed(r: u8, g: u8, b: u8) -> u8 {
    ((u32::from(r) * 19_595 + u32::from(g) * 38_470 + u32::from(b) * 7_471 + 0x8000) >> 16) as u8
}

fn weigh(values: impl Iterator<Item = (u8, i32)>) -> u8 {
    let sum = values.fold(1_i32 << (BITS - 1), |sum, (value, weight)| sum.wrapping_add(i32::from(value) * weight));
    (sum >> BITS).clamp(0, 255) as u8
}

/// For each pixel of `to` the first pixel of `from` that it is made of, and the weights in fixed point.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<i32>)> {
    let scale = from as f64 / to as f64;
    let support = scale.max(1.0);
    let one = |pixel: usize| {
        let center = (pixel as f64 + 0.5) * scale;
        let first = ((center - support + 0.5) as i64).max(0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let weight = |at: usize| (1.0 - ((at as f64 - center + 0.5) / support).abs()).max(0.0);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: f64| (0.5 + weight / sum * f64::from(1_u32 << BITS)) as i32;
        (first, weights.into_iter().map(fixed).collect())
    };
    (0..to).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Scaled by Pillow with tests/golden/pictures/make.py.
    #[test]
    fn scaling_is_pillows_to_the_last_bit() {
        for line in include_str!("../../tests/golden/pictures/scaled.jsonl").lines() {
            let golden: serde_json::Value = serde_json::from_str(line).expect("a golden line");
            let number = |key: &str| golden[key].as_u64().expect("a number") as usize;
            let (width, height) = (number("width"), number("height"));
            let bytes = (0..width * height * 3).map(|i| ((i * i * 31 + i * 7) >> 3) as u8).collect();
            let made = Picture { width, height, channels: 3, bytes }.resized(number("to_width"), number("to_height"));
            let wanted: Vec<u8> = golden["bytes"].as_array().expect("a list").iter().map(|v| v.as_u64().expect("a byte") as u8).collect();
            assert_eq!(made.bytes, wanted, "{width} x {height}");
        }
    }

    fn png(width: u32, height: u32, color: image::ExtendedColorType, bytes: &[u8]) -> Vec<u8> {
        use image::ImageEncoder;
        let mut out = Vec::new();
        image::codecs::png::PngEncoder::new(&mut out).write_image(bytes, width, height, color).expect("memory");
        out
    }

    // `Image.convert("L")` is (R * 19595 + G * 38470 + B * 7471 + 0x8000) >> 16, the weights of standard definition television.
    #[test]
    fn gray_is_pillows() {
        let colors =
            [[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [1, 2, 3], [200, 100, 50], [7, 7, 7], [13, 250, 91], [0, 1, 0]];
        let wanted = [255, 76, 150, 29, 2, 124, 7, 161, 1];
        let file = png(9, 1, image::ExtendedColorType::Rgb8, colors.as_flattened());
        assert_eq!(Picture::decode(&file, 1, "x.png").expect("sound").bytes, wanted);
        // With an alpha channel the same, whatever it says.
        let alpha: Vec<u8> = colors.iter().flat_map(|[r, g, b]| [*r, *g, *b, r ^ g]).collect();
        let file = png(9, 1, image::ExtendedColorType::Rgba8, &alpha);
        assert_eq!(Picture::decode(&file, 1, "x.png").expect("sound").bytes, wanted);
        // Gray pictures stay as they are; of sixteen bits the higher ones count.
        let file = png(3, 1, image::ExtendedColorType::La8, &[9, 0, 10, 128, 255, 255]);
        assert_eq!(Picture::decode(&file, 1, "x.png").expect("sound").bytes, [9, 10, 255]);
        let wide: Vec<u8> = [0x12ff_u16, 0xff80, 0x00ff].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let file = png(3, 1, image::ExtendedColorType::L16, &wide);
        assert_eq!(Picture::decode(&file, 1, "x.png").expect("sound").bytes, [0x12, 0xff, 0x00]);
        let file = png(1, 1, image::ExtendedColorType::Rgb16, &wide);
        assert_eq!(Picture::decode(&file, 3, "x.png").expect("sound").bytes, [0x12, 0xff, 0x00]);
    }

    #[test]
    fn what_is_no_picture_is_a_fault() {
        for content in [&b""[..], b"hello", b"\x89PNG\r\n\x1a\n", b"P6\n99999999 99999999\n255\n", b"\xff\xd8\xff\xe0\x00\x10JFIF"] {
            let fault = Picture::decode(content, 3, "x.png").expect_err("no picture");
            assert!(fault.what.starts_with("`x.png` is not a sound picture: "), "{fault}");
        }
        let sound = Picture::decode(b"P6\n2 1\n255\nabcdef", 3, "x.ppm").expect("sound");
        assert_eq!((sound.width, sound.height, sound.bytes.as_slice()), (2, 1, &b"abcdef"[..]));
    }
}
