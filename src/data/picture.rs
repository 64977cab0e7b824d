//! Pictures: png, jpeg and ppm decoded within bounds, and scaled as Pillow scales them.
//!
//! A jpeg may differ by a step or two from other decoders, as the format allows. Scaling is Pillow's bilinear filter with
//! antialiasing, across and then down, in the same fixed-point arithmetic (version 11; 13 may go down first, one step apart).

use crate::base::{Fault, Outcome};
use image::ImageReader;
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
        let bytes = if channels == 1 { decoded.into_luma8().into_raw() } else { decoded.into_rgb8().into_raw() };
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
