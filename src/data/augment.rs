//! The random steps of PFLlib's scripts, frozen by a seed: pictures cut and turned (DomainNet), and a class drawn up to another's size
//! (COVIDx).
//!
//! A picture's draw depends on the seed and its path alone, so that neither order nor threads enter. PFLlib itself freezes an unseeded
//! draw when its script runs; the law is the same, the numbers cannot be.

use super::partition::numpy::Legacy;
use super::picture::Picture;
use crate::base::random::{Purpose, below, stream, unit};
use crate::base::{Digest, Fault, Outcome};
use crate::spec::catalog::{Field, Type};

pub(super) fn cut_field() -> Field {
    Field::optional(
        "cut_seed",
        Type::Int { min: 0, max: i64::MAX },
        "Cut 75 to 100 % out of each training picture and turn every second one, as PFLlib does, frozen by this seed; only scaled when absent.",
    )
}

pub(super) fn draw_field() -> Field {
    Field::optional(
        "draw_seed",
        Type::Int { min: 0, max: u32::MAX as i64 },
        "Draw the positive training pictures, with replacement, until they are as many as the negative ones, and shuffle all, as PFLlib \
         does; numpy's seed. Each picture once when absent.",
    )
}

/// torchvision's `RandomResizedCrop(size, scale=(0.75, 1))` and `RandomHorizontalFlip`, drawn for the picture of this path.
pub(super) fn cut(picture: &Picture, size: usize, seed: u64, path: &str) -> Picture {
    let digest = Digest::of(path.as_bytes());
    let own = digest.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut rng = stream(seed, Purpose::Noise, own, 0, 0);
    let (width, height) = (picture.width as f64, picture.height as f64);
    let between = |u: f64, low: f64, high: f64| low + u * (high - low);
    // Ten tries, then the largest cut in the middle whose sides are between 3:4 and 4:3.
    let drawn = (0..10).find_map(|_| {
        let area = width * height * between(unit(&mut rng), 0.75, 1.0);
        let ratio = between(unit(&mut rng), 0.75_f64.ln(), (4.0_f64 / 3.0).ln()).exp();
        let (w, h) = ((area * ratio).sqrt().round_ties_even() as usize, (area / ratio).sqrt().round_ties_even() as usize);
        if w == 0 || h == 0 || w > picture.width || h > picture.height {
            return None;
        }
        let top = below(&mut rng, (picture.height - h + 1) as u64) as usize;
        let left = below(&mut rng, (picture.width - w + 1) as u64) as usize;
        Some((left, top, w, h))
    });
    let (left, top, w, h) = drawn.unwrap_or_else(|| {
        let (mut w, mut h) = (picture.width, picture.height);
        if width / height < 0.75 {
            h = ((width / 0.75).round_ties_even() as usize).clamp(1, h);
        } else if width / height > 4.0 / 3.0 {
            w = ((height * 4.0 / 3.0).round_ties_even() as usize).clamp(1, w);
        }
        ((picture.width - w) / 2, (picture.height - h) / 2, w, h)
    });
    let mut made = picture.part(left, top, w, h).resized(size, size);
    if unit(&mut rng) < 0.5 {
        made.turn();
    }
    made
}

/// Which training samples to take, in which order: negatives and as many drawn positives, shuffled with numpy's generator.
///
/// # Errors
/// A storage fault when one of the two classes is missing.
pub(super) fn draw(labels: &[u32], seed: u32) -> Outcome<Vec<u32>> {
    let of = |class: u32| (0_u32..).zip(labels).filter(move |(_, label)| **label == class).map(|(at, _)| at);
    let (mut all, positive): (Vec<u32>, Vec<u32>) = (of(0).collect(), of(1).collect());
    let Some(last) = positive.len().checked_sub(1).filter(|_| !all.is_empty()) else {
        return Err(Fault::storage("one of the two classes has no training pictures"));
    };
    let mut numpy = Legacy::new(seed);
    for _ in 0..all.len() {
        all.push(positive[numpy.up_to(last as u32) as usize]);
    }
    numpy.shuffle(&mut all);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_the_pictures_own() {
        let bytes: Vec<u8> = (0..40 * 30 * 3).map(|i| (i % 256) as u8).collect();
        let picture = Picture { width: 40, height: 30, channels: 3, bytes };
        let made = cut(&picture, 16, 7, "clipart/a.png");
        assert_eq!((made.width, made.height, made.bytes.len()), (16, 16, 768));
        assert_eq!(made, cut(&picture, 16, 7, "clipart/a.png"));
        assert_ne!(made, cut(&picture, 16, 7, "clipart/b.png"));
        assert_ne!(made, cut(&picture, 16, 8, "clipart/a.png"));
        // No cut of the allowed shape: what is left of the middle.
        let strip = Picture { width: 100, height: 1, channels: 1, bytes: (0..100).collect() };
        assert_eq!(cut(&strip, 4, 0, "x").bytes.len(), 16);
    }

    #[test]
    fn positives_are_drawn_up_to_the_negatives() {
        let labels = [0, 0, 1, 0, 0, 1, 0];
        let drawn = draw(&labels, 1).expect("both classes");
        assert_eq!(drawn.len(), 10);
        assert_eq!(drawn.iter().filter(|&&at| labels[at as usize] == 1).count(), 5);
        let mut negatives: Vec<u32> = drawn.iter().copied().filter(|&at| labels[at as usize] == 0).collect();
        negatives.sort_unstable();
        assert_eq!(negatives, [0, 1, 3, 4, 6]);
        assert!(draw(&[0, 0], 1).is_err() && draw(&[1], 1).is_err());
    }
}
