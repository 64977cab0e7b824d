//! The random questions that a simulation asks, and the answers that users get.
//!
//! Every answer depends on the seed, the purpose, the client, the round and the pass alone, never on what was asked before. Tests
//! that replay a reference bring their own answers.

use crate::base::Digest;
use crate::base::random::{Purpose, Stream, below, shuffle, stream, unit};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// Who asks: a client (or the server) in a round, for the n-th time in that round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The client's id; [`Moment::SERVER`] for the server.
    pub client: u64,
    /// The round, from 0.
    pub round: u64,
    /// Counts the passes of this client in this round.
    pub pass: u64,
}

impl Moment {
    /// The id under which the server asks.
    pub const SERVER: u64 = u64::MAX;
}

/// The distribution of a noise tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoiseKind {
    /// Uniform in [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Standard Gumbel, -ln(-ln u).
    Gumbel,
    /// Standard logistic, ln(u / (1 - u)): the difference of two standard Gumbel variables.
    Logistic,
}

/// The distribution of the start of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Uniform in plus or minus this bound.
    Uniform(f32),
    /// Normal around 0 with this standard deviation.
    Normal(f32),
}

/// The questions.
pub trait Streams: Send + Sync {
    /// The ordered cohort of a round: distinct ids below `clients`, at least `least` and at most `most` of them, the number drawn
    /// uniformly where these differ.
    fn cohort(&self, round: u64, clients: usize, least: usize, most: usize) -> Vec<usize>;
    /// The random numbers of dropout in the passes of one phase.
    fn dropout(&self, at: Moment) -> Stream {
        stream(0, Purpose::Dropout, at.client, at.round, at.pass)
    }
    /// Which `keep` of `count` positions of the cohort upload in time, ascending.
    fn accepted(&self, round: u64, count: usize, keep: usize) -> Vec<usize>;
    /// The order of `n` training samples in one pass.
    fn order(&self, at: Moment, n: usize) -> Vec<u32>;
    /// The order of `n` training samples in the pass that only measures the training loss.
    fn measuring_order(&self, at: Moment, n: usize) -> Vec<u32> {
        let _ = at;
        (0..n as u32).collect()
    }
    /// `count` uniform integers below `bound`, for labels and windows.
    fn integers(&self, at: Moment, count: usize, bound: usize) -> Vec<usize>;
    /// Fills `out` with noise.
    fn noise(&self, at: Moment, kind: NoiseKind, out: &mut [f32]);
    /// `count` draws below `bound` that mark the slow clients, with or without replacement.
    fn slow(&self, sender: bool, count: usize, bound: usize, replacement: bool) -> Vec<usize>;
    /// The start of a parameter of an algorithm's own module, in torch's order; equal names get equal values.
    fn initial(&self, name: &str, law: Law, out: &mut [f32]);
    /// A uniform number in [0, 1) for the simulated clock and the shortened epochs of slow clients.
    fn delay(&self, at: Moment) -> f64;
}

/// ChaCha8 streams of two seeds: one for sampling (cohorts, drops, slow clients), one for batches, labels, noise and the start of
/// algorithms' own modules.
#[derive(Clone, Copy, Debug)]
pub struct Seeded {
    /// Seed of cohorts, drops and slow clients.
    pub sampling: u64,
    /// Seed of batch orders, labels, noise and the start of algorithms' own modules.
    pub batches: u64,
}

impl Streams for Seeded {
    fn cohort(&self, round: u64, clients: usize, least: usize, most: usize) -> Vec<usize> {
        let mut rng = stream(self.sampling, Purpose::Cohort, 0, round, 0);
        let count = least + below(&mut rng, (most - least) as u64 + 1) as usize;
        let mut ids: Vec<usize> = (0..clients).collect();
        shuffle(&mut rng, &mut ids);
        ids.truncate(count);
        ids
    }
    fn accepted(&self, round: u64, count: usize, keep: usize) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..count).collect();
        if keep < count {
            shuffle(&mut stream(self.sampling, Purpose::Drops, 0, round, 0), &mut positions);
            positions.truncate(keep);
            positions.sort_unstable();
        }
        positions
    }
    fn dropout(&self, at: Moment) -> Stream {
        stream(self.batches, Purpose::Dropout, at.client, at.round, at.pass)
    }
    fn order(&self, at: Moment, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        shuffle(&mut stream(self.batches, Purpose::Batches, at.client, at.round, at.pass), &mut order);
        order
    }
    fn integers(&self, at: Moment, count: usize, bound: usize) -> Vec<usize> {
        let mut rng = stream(self.batches, Purpose::Labels, at.client, at.round, at.pass);
        (0..count).map(|_| below(&mut rng, bound.max(1) as u64) as usize).collect()
    }
    fn noise(&self, at: Moment, kind: NoiseKind, out: &mut [f32]) {
        let mut rng = stream(self.batches, Purpose::Noise, at.client, at.round, at.pass);
        for v in out {
            *v = match kind {
                NoiseKind::Uniform => unit(&mut rng) as f32,
                NoiseKind::Normal => StandardNormal.sample(&mut rng),
                NoiseKind::Gumbel => (-(-(1.0 - unit(&mut rng)).ln()).max(f64::MIN_POSITIVE).ln()) as f32,
                // From 2^-33 to 1 - 2^-33 in steps of 2^-32, so that neither logarithm is of 0.
                NoiseKind::Logistic => {
                    let u = (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
                    ((u / (1.0 - u)) as f32).ln()
                }
            };
        }
    }
    fn slow(&self, sender: bool, count: usize, bound: usize, replacement: bool) -> Vec<usize> {
        let mut rng = stream(self.sampling, Purpose::Stragglers, u64::from(sender), 0, 0);
        if replacement {
            return (0..count).map(|_| below(&mut rng, bound as u64) as usize).collect();
        }
        let mut ids: Vec<usize> = (0..bound).collect();
        shuffle(&mut rng, &mut ids);
        ids.truncate(count);
        ids
    }
    fn initial(&self, name: &str, law: Law, out: &mut [f32]) {
        let name = Digest::of(name.as_bytes());
        let name = name.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut rng = stream(self.batches, Purpose::Initialisation, 0, 0, name);
        for v in out {
            *v = match law {
                Law::Uniform(bound) => ((2.0 * unit(&mut rng) - 1.0) * f64::from(bound)) as f32,
                Law::Normal(deviation) => {
                    let v: f32 = StandardNormal.sample(&mut rng);
                    v * deviation
                }
            };
        }
    }
    fn delay(&self, at: Moment) -> f64 {
        unit(&mut stream(self.sampling, Purpose::Stragglers, at.client, at.round + 1, at.pass))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMS: Seeded = Seeded { sampling: 1, batches: 2 };

    #[test]
    fn cohorts_are_distinct_ids_in_range_and_every_client_is_chosen_about_equally_often() {
        let mut seen = [0; 10];
        for round in 0..2000 {
            let cohort = STREAMS.cohort(round, 10, 3, 5);
            assert!((3..=5).contains(&cohort.len()));
            let mut sorted = cohort.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), cohort.len());
            cohort.iter().for_each(|c| seen[*c] += 1);
        }
        // 2000 rounds of 4 of 10 on average: 800 each, sd about 22.
        assert!(seen.iter().all(|n| (690..910).contains(n)), "{seen:?}");
    }

    #[test]
    fn exact_slow_clients_are_distinct() {
        let mut slow = STREAMS.slow(false, 10, 20, false);
        slow.sort_unstable();
        slow.dedup();
        assert_eq!(slow.len(), 10);
    }

    #[test]
    fn the_start_of_a_parameter_depends_on_its_name_alone() {
        let start = |name| {
            let mut out = [0.0; 50];
            STREAMS.initial(name, Law::Uniform(0.5), &mut out);
            out
        };
        assert_eq!(start("fc.weight"), start("fc.weight"));
        assert_ne!(start("fc.weight"), start("fc.bias"));
        assert!(start("fc.weight").iter().all(|v| v.abs() <= 0.5));
    }

    #[test]
    fn logistic_noise_is_symmetric_with_the_right_spread() {
        let mut out = vec![0.0; 20_000];
        STREAMS.noise(Moment { client: 0, round: 0, pass: 0 }, NoiseKind::Logistic, &mut out);
        let mean = out.iter().map(|v| f64::from(*v)).sum::<f64>() / out.len() as f64;
        let square = out.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / out.len() as f64;
        // Variance pi^2 / 3.
        assert!(mean.abs() < 0.05 && (square - 3.29).abs() < 0.15, "{mean} {square}");
    }

    #[test]
    fn gumbel_noise_has_the_right_mean() {
        let mut out = vec![0.0; 20_000];
        STREAMS.noise(Moment { client: 0, round: 0, pass: 0 }, NoiseKind::Gumbel, &mut out);
        let mean = out.iter().map(|v| f64::from(*v)).sum::<f64>() / out.len() as f64;
        assert!((mean - 0.577).abs() < 0.03, "{mean}");
    }
}
