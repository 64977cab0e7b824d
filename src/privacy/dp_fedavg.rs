//! DP-FedAvg: every client's update is clipped, and the server adds Gaussian noise to their sum, divided by a constant (McMahan,
//! Ramage, Talwar, Zhang, ICLR 2018, Algorithm 1 with the fixed-denominator estimator).
//!
//! What it protects: whether a client took part at all, with all its samples, against everybody who sees the aggregates, so other
//! clients too. It does not protect a client against the server, which sees the updates; `secure` is about that. A personal model
//! stays at its client and is of no concern.

use super::Accounting;
use super::accountant::{Accountant, calibrate};
use super::mechanism::{add_gaussian, clip_l2, noise};
use super::rdp::gaussian;
use crate::base::Outcome;
use crate::fl::streams::Moment;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sends, Sent, World};
use serde::Deserialize;

/// Its parameters; [`super::variants`] documents them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    clip: Option<f64>,
    noise_multiplier: Option<f64>,
    epsilon: Option<f64>,
    delta: Option<f64>,
    weights: Weights,
    accounting: Accounting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    Uniform,
    Samples,
}

pub(super) struct DpFedAvg {
    clip: Option<f64>,
    noise: f64,
    delta: f64,
    /// The greatest number of samples of a client where updates are weighted by samples.
    heaviest: Option<f64>,
    /// The expected sum of weights in a round, q W.
    denominator: f64,
    accounting: Accounting,
    horizon: bool,
    seed: u64,
}

impl DpFedAvg {
    pub(super) fn new(params: &Params, world: &World, seed: u64) -> Outcome<Self> {
        super::one_of(params.noise_multiplier, params.epsilon)?;
        super::needs_delta(params.noise_multiplier.unwrap_or(1.0), params.delta)?;
        let delta = params.delta.unwrap_or_default();
        let (settings, clients) = (&world.settings, world.clients());
        let nominal = settings.nominal_cohort(clients);
        let noise = match (params.noise_multiplier, params.epsilon) {
            (Some(noise), _) => noise,
            (None, epsilon) => {
                let mut plan = Memory::default();
                for round in 0..settings.rounds {
                    let most = if settings.random_join_ratio { clients } else { nominal };
                    count(&mut plan, world.streams.cohort(round, clients, nominal, most).len());
                }
                calibrate(epsilon.unwrap_or_default(), |noise| spent(&plan, clients, noise, params.accounting).epsilon(delta))?
            }
        };
        super::needs_clip(noise, params.clip)?;
        let samples = |id: usize| world.shard(id).train.len() as f64;
        let heaviest = (params.weights == Weights::Samples).then(|| (0..clients).map(samples).fold(1.0, f64::max));
        let all = heaviest.map_or(clients as f64, |most| (0..clients).map(samples).sum::<f64>() / most);
        let denominator = all * nominal as f64 / clients as f64;
        let horizon = params.epsilon.is_some();
        Ok(Self { clip: params.clip, noise, delta, heaviest, denominator, accounting: params.accounting, horizon, seed })
    }
    /// In (0, 1]: weights that no client can exceed are what bounds its influence.
    fn weight(&self, sent: &Sent) -> f64 {
        self.heaviest.map_or(1.0, |most| sent.samples as f64 / most)
    }
}

/// Counts a round with a cohort of this size.
fn count(memory: &mut Memory, cohort: usize) {
    let counts = memory.vectors.entry(cohort).or_insert_with(|| vec![0.0]);
    counts[0] += 1.0;
}

fn spent(memory: &Memory, clients: usize, noise: f64, accounting: Accounting) -> Accountant {
    let mut accountant = Accountant::default();
    for (cohort, counts) in &memory.vectors {
        let rate = match accounting {
            Accounting::Poisson => *cohort as f64 / clients as f64,
            Accounting::Unamplified => 1.0,
        };
        accountant.add(&gaussian(rate, noise), counts.first().map_or(0, |count| *count as u64));
    }
    accountant
}

impl Intervention for DpFedAvg {
    fn name(&self) -> &'static str {
        "dp-fedavg"
    }
    fn place(&self) -> Place {
        Place::Privacy
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn horizon(&self) -> bool {
        self.horizon
    }
    fn fits(&self, world: &World, sends: Sends) -> Outcome<()> {
        super::nothing_else(self.name(), world, sends)?;
        match world.interventions.iter().find(|other| other.place() > Place::Privacy) {
            Some(other) => super::goes_with(self.name(), other.name()),
            None => Ok(()),
        }
    }
    fn trained(&self, _: &World, _: u64, cohort: &[usize], memory: &mut Memory) -> Outcome<()> {
        count(memory, cohort.len());
        Ok(())
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let Some(clip) = self.clip else { return Ok(None) };
        for sent in sent.iter_mut() {
            clip_l2(&mut sent.params, exchange.reference, clip);
        }
        // Without noise there is nothing to fit a denominator to, and the algorithm's own mean stands.
        if self.noise == 0.0 {
            return Ok(None);
        }
        let mut sum = vec![0.0f64; exchange.reference.len()];
        for sent in sent.iter() {
            let share = self.weight(sent) / self.denominator;
            for ((sum, p), r) in sum.iter_mut().zip(sent.params.iter()).zip(exchange.reference) {
                *sum += share * f64::from(*p - *r);
            }
        }
        let mut mean: Vec<f32> = sum.iter().zip(exchange.reference).map(|(sum, r)| (f64::from(*r) + sum) as f32).collect();
        let deviation = self.noise * clip / self.denominator;
        add_gaussian(&mut noise(self.seed, Moment::SERVER, exchange.round, 0), deviation, &mut mean);
        Ok(Some(mean))
    }
    fn figures(&self, world: &World, _: u64, memory: &Memory) -> Vec<(&'static str, f64)> {
        let epsilon = spent(memory, world.clients(), self.noise, self.accounting).epsilon(self.delta);
        super::figures(epsilon, self.delta, self.noise)
    }
}
