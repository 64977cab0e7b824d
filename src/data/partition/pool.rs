//! Which samples of a data set are given to clients, which are held out, and where test sets come from.
//!
//! It knows no rule.

use super::super::params::Params;
use super::known;
use super::population::Population;
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};

/// Which samples are given out.
pub(super) const POOLS: &[(&str, &str)] = &[
    ("all", "the original training and test samples together, as PFLlib does"),
    ("train", "only the original training samples, as FedML and NIID-Bench do; the original test samples are held out"),
];
/// Where a client's test set comes from.
pub(super) const TESTS: &[(&str, &str)] = &[
    ("split", "a part of the client's samples, by `train_ratio`"),
    ("original", "those of the client's samples that the data set's original split calls test samples"),
    ("hold-out", "the samples that are held out, the same for every client, as FedML has it; all of a client's own are for training"),
];

/// The positions in [`TESTS`].
pub(super) const ORIGINAL: usize = 1;
pub(super) const HOLD_OUT: usize = 2;

/// The samples that are given out, and those that are not.
pub(super) struct Pool {
    pub samples: Vec<u32>,
    pub hold_out: Vec<u32>,
    /// A position in [`TESTS`].
    pub test: usize,
}

impl Pool {
    pub fn of(params: &Params<'_>, population: &Population<'_>) -> Outcome<Self> {
        known::test(params.map())?;
        let only_train = params.choice("pool", POOLS)? == Some(1);
        let test = params.choice("test", TESTS)?.unwrap_or_default();
        let fraction = params.number("hold_out", -f64::MIN_POSITIVE, Some(1.0))?.unwrap_or_default();
        let given = if only_train { population.train } else { population.labels.len() } as u32;
        let mut samples: Vec<u32> = (0..given).collect();
        let mut hold_out: Vec<u32> = (given..population.labels.len() as u32).collect();
        if fraction > 0.0 {
            let seed = params.integer("seed", 0, u64::MAX)?.unwrap_or(1);
            let mut by_class = vec![Vec::new(); population.classes];
            samples.iter().for_each(|&i| {
                if let Some(own) = by_class.get_mut(population.labels[i as usize] as usize) {
                    own.push(i)
                }
            });
            for (class, own) in by_class.iter_mut().enumerate() {
                shuffle(&mut stream(seed, Purpose::Split, u64::MAX, class as u64, 0), own);
                hold_out.extend(&own[..(fraction * own.len() as f64).round() as usize]);
            }
            hold_out.sort_unstable();
            let mut held = vec![false; population.labels.len()];
            hold_out.iter().for_each(|&i| held[i as usize] = true);
            samples.retain(|&i| !held[i as usize]);
        }
        if population.train == population.labels.len() {
            known::no_test_set(params.map())?;
        }
        if test == HOLD_OUT && hold_out.is_empty() {
            return Err(known::nothing_held_out(fraction));
        }
        Ok(Self { samples, hold_out, test })
    }
    pub fn pick(&self, all: &[u32]) -> Vec<u32> {
        self.samples.iter().map(|&i| all[i as usize]).collect()
    }
}
