//! Random streams: one ChaCha8 generator for each (seed, purpose, client, round, pass), so that the order of execution cannot matter.
//!
//! There is no global and no thread-local generator anywhere in the crate.

use chacha20::ChaCha8Rng;
use rand::{Rng, RngExt, SeedableRng};

/// The generator of every stream: ChaCha with 8 rounds, the same on every platform.
pub type Stream = ChaCha8Rng;

/// What a stream is for. Streams of different purposes are independent even with equal seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Which clients take part in a round, and in which order.
    Cohort,
    /// Which uploads are lost.
    Drops,
    /// Which clients are slow.
    Stragglers,
    /// The order of the training samples in one pass.
    Batches,
    /// Labels drawn by an algorithm.
    Labels,
    /// Noise drawn by an algorithm.
    Noise,
    /// The initial parameters of a model.
    Initialisation,
    /// Which elements a network's dropout sets to 0.
    Dropout,
    /// How samples are given to clients.
    Partition,
    /// How a client's samples are split into training and test sets.
    Split,
    /// Which training samples of a client are put aside for validation.
    Validation,
    /// Who is malicious, and what malicious clients draw.
    Threat,
    /// What a defence draws.
    Defence,
    /// Noise that protects privacy.
    Privacy,
    /// Masks and dropouts of secure aggregation.
    Secure,
    /// What an observer of a finished training guesses.
    Attack,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Cohort => "cohort",
            Self::Drops => "drops",
            Self::Stragglers => "stragglers",
            Self::Batches => "batches",
            Self::Labels => "labels",
            Self::Noise => "noise",
            Self::Initialisation => "initialisation",
            Self::Dropout => "dropout",
            Self::Partition => "partition",
            Self::Split => "split",
            Self::Validation => "validation",
            Self::Threat => "threat",
            Self::Defence => "defence",
            Self::Privacy => "privacy",
            Self::Secure => "secure",
            Self::Attack => "attack",
        }
    }
}

/// The stream of one purpose, client, round and pass.
#[must_use]
pub fn stream(seed: u64, purpose: Purpose, client: u64, round: u64, pass: u64) -> Stream {
    let mut hasher = blake3::Hasher::new_derive_key("pflpipe 2026 random stream v1");
    hasher.update(&seed.to_le_bytes());
    hasher.update(purpose.name().as_bytes()).update(&[0]);
    hasher.update(&client.to_le_bytes()).update(&round.to_le_bytes()).update(&pass.to_le_bytes());
    Stream::from_seed(*hasher.finalize().as_bytes())
}

/// A uniform integer in `0..bound` by rejection; no bias, the same on every platform.
///
/// # Panics
/// When `bound` is 0.
pub fn below(rng: &mut impl Rng, bound: u64) -> u64 {
    assert!(bound > 0, "an empty range has no random element");
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        let value = rng.next_u64();
        if value < zone {
            return value % bound;
        }
    }
}

/// Fisher-Yates shuffle in place.
pub fn shuffle<T>(rng: &mut impl Rng, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        let j = usize::try_from(below(rng, i as u64 + 1)).unwrap_or(i);
        items.swap(i, j);
    }
}

/// A uniform `f64` in [0, 1).
pub fn unit(rng: &mut impl Rng) -> f64 {
    rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_every_coordinate_and_repeat() {
        let first = |s: u64, p, c, r, q| stream(s, p, c, r, q).next_u64();
        let base = first(1, Purpose::Batches, 2, 3, 4);
        assert_eq!(base, first(1, Purpose::Batches, 2, 3, 4));
        for other in [
            first(2, Purpose::Batches, 2, 3, 4),
            first(1, Purpose::Noise, 2, 3, 4),
            first(1, Purpose::Batches, 1, 3, 4),
            first(1, Purpose::Batches, 2, 4, 4),
            first(1, Purpose::Batches, 2, 3, 5),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn shuffle_is_a_permutation_and_below_is_in_range() {
        let mut rng = stream(7, Purpose::Cohort, 0, 0, 0);
        let mut items: Vec<u32> = (0..50).collect();
        shuffle(&mut rng, &mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
        assert!((0..1000).all(|_| below(&mut rng, 7) < 7));
    }
}
