//! DP-SGD: on every local step the gradient of each sample is clipped, and Gaussian noise is added to their mean (Abadi et al., CCS
//! 2016, Algorithm 1).
//!
//! What it protects: whether a sample was in a client's training set, against everybody who sees what that client sends. The
//! epsilon is that of the client which has spent most; the samples of different clients do not add up, since each is at one client.

use super::Accounting;
use super::accountant::{Accountant, calibrate};
use super::mechanism::{add_gaussian, noise};
use super::rdp::gaussian;
use crate::base::Outcome;
use crate::fl::streams::Moment;
use crate::fl::{Intervention, Memory, Needs, Place, Sends, World};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Its parameters; [`super::variants`] documents them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    clip: Option<f64>,
    noise_multiplier: Option<f64>,
    epsilon: Option<f64>,
    delta: Option<f64>,
    accounting: Accounting,
}

pub(super) struct DpSgd {
    clip: Option<f64>,
    noise: f64,
    delta: f64,
    accounting: Accounting,
    /// Whether the noise was found for a number of steps, which then must not be exceeded.
    planned: bool,
    seed: u64,
    /// Steps of this round by client and rows; clients of a round work at once, and sums do not depend on their order.
    steps: Mutex<Steps>,
    /// Curves by the bits of the sampling rate.
    curves: Mutex<BTreeMap<u64, Arc<Vec<f64>>>>,
}

/// Steps by client and rows of the batch.
type Steps = BTreeMap<(usize, usize), u64>;

impl DpSgd {
    pub(super) fn new(params: &Params, world: &World, seed: u64) -> Outcome<Self> {
        let delta = params.delta.unwrap_or_default();
        super::one_of(params.noise_multiplier, params.epsilon)?;
        super::needs_delta(params.noise_multiplier.unwrap_or(1.0), params.delta)?;
        let noise = match (params.noise_multiplier, params.epsilon) {
            (Some(noise), _) => noise,
            (None, epsilon) => {
                let mut plan = Steps::new();
                for round in 0..world.settings.rounds {
                    plan_round(world, round, &cohort(world, round), &mut plan);
                }
                noise_for(epsilon.unwrap_or_default(), delta, params.accounting, &plan, world)?
            }
        };
        super::needs_clip(noise, params.clip)?;
        Ok(Self {
            clip: params.clip,
            noise,
            delta,
            accounting: params.accounting,
            planned: params.epsilon.is_some(),
            seed,
            steps: Mutex::default(),
            curves: Mutex::default(),
        })
    }
    fn curve(&self, rate: f64) -> Arc<Vec<f64>> {
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        curves.entry(rate.to_bits()).or_insert_with(|| Arc::new(gaussian(rate, self.noise))).clone()
    }
}

fn cohort(world: &World, round: u64) -> Vec<usize> {
    let nominal = world.settings.nominal_cohort(world.clients());
    let most = if world.settings.random_join_ratio { world.clients() } else { nominal };
    world.streams.cohort(round, world.clients(), nominal, most)
}

/// The rows of each batch of a usual pass of a client, and how many there are of such.
fn batches(world: &World, client: usize) -> Vec<(usize, u64)> {
    let (n, size) = (world.shard(client).train.len(), world.settings.batch_size);
    let whole = (size, (n / size) as u64);
    let rest = (n % size, u64::from(!world.settings.drop_last && !n.is_multiple_of(size)));
    [whole, rest].into_iter().filter(|(_, count)| *count > 0).collect()
}

/// The steps of the usual local training of a round.
fn plan_round(world: &World, round: u64, cohort: &[usize], steps: &mut Steps) {
    for client in cohort {
        let at = Moment { client: *client as u64, round, pass: 0 };
        let epochs = world.clock.epochs(world.streams.as_ref(), at, world.settings.local_epochs);
        for (rows, count) in batches(world, *client) {
            *steps.entry((*client, rows)).or_default() += epochs * count;
        }
    }
}

/// For each client its releases: sampling rate and number.
fn releases(steps: &Steps, accounting: Accounting, world: &World) -> Vec<Vec<(f64, u64)>> {
    let mut clients: BTreeMap<usize, Vec<(usize, u64)>> = BTreeMap::new();
    for ((client, rows), count) in steps {
        clients.entry(*client).or_default().push((*rows, *count));
    }
    let of = |(client, steps): (usize, Vec<(usize, u64)>)| match accounting {
        Accounting::Poisson => {
            let n = world.shard(client).train.len().max(1) as f64;
            steps.into_iter().map(|(rows, count)| (rows as f64 / n, count)).collect()
        }
        // A pass shows every sample at most once, so it is one release of each.
        Accounting::Unamplified => {
            let pass: u64 = batches(world, client).iter().map(|(_, count)| count).sum();
            vec![(1.0, steps.iter().map(|(_, count)| count).sum::<u64>().div_ceil(pass.max(1)))]
        }
    };
    clients.into_iter().map(of).collect()
}

/// The noise multiplier at which the client that spends most reaches `epsilon`.
fn noise_for(epsilon: f64, delta: f64, accounting: Accounting, plan: &Steps, world: &World) -> Outcome<f64> {
    let mut all = releases(plan, accounting, world);
    all.sort_by(|a, b| a.partial_cmp(b).expect("rates are finite"));
    all.dedup();
    let spent = |releases: &[(f64, u64)], noise: f64| {
        let mut accountant = Accountant::default();
        releases.iter().for_each(|(rate, count)| accountant.add(&gaussian(*rate, noise), *count));
        accountant.epsilon(delta)
    };
    let mut noise = 0.0;
    // Finding the noise for one client takes as long as checking thirty others, and few are ever the worst.
    for releases in &all {
        if noise == 0.0 || spent(releases, noise) > epsilon {
            noise = calibrate(epsilon, |noise| spent(releases, noise))?;
        }
    }
    Ok(noise)
}

/// Steps in a memory: by client, then rows and count one after the other.
fn remembered(memory: &Memory) -> Steps {
    let mut steps = Steps::new();
    for (client, numbers) in &memory.vectors {
        for pair in numbers.as_chunks::<2>().0 {
            steps.insert((*client, pair[0] as usize), pair[1] as u64);
        }
    }
    steps
}

impl Intervention for DpSgd {
    fn name(&self) -> &'static str {
        "dp-sgd"
    }
    fn place(&self) -> Place {
        Place::Privacy
    }
    fn needs(&self) -> Needs {
        Needs::Parameters
    }
    fn horizon(&self) -> bool {
        self.planned
    }
    fn fits(&self, world: &World, sends: Sends) -> Outcome<()> {
        super::nothing_else(self.name(), world, sends)
    }
    fn sample_clip(&self) -> Option<f32> {
        self.clip.map(|clip| clip as f32)
    }
    fn gradient(&self, at: Moment, _: usize, rows: usize, gradient: &mut [f32]) {
        if let Some(clip) = self.clip.filter(|_| self.noise > 0.0) {
            let deviation = self.noise * clip / rows as f64;
            add_gaussian(&mut noise(self.seed, at.client, at.round, at.pass), deviation, gradient);
        }
        *self.steps.lock().unwrap_or_else(PoisonError::into_inner).entry((at.client as usize, rows)).or_default() += 1;
    }
    fn trained(&self, world: &World, round: u64, cohort: &[usize], memory: &mut Memory) -> Outcome<()> {
        let done = std::mem::take(&mut *self.steps.lock().unwrap_or_else(PoisonError::into_inner));
        if self.planned {
            let mut plan = Steps::new();
            plan_round(world, round, cohort, &mut plan);
            if let Some(((client, _), steps)) = done.iter().find(|(key, steps)| plan.get(*key).is_none_or(|planned| planned < *steps)) {
                let planned = plan.iter().filter(|((id, _), _)| id == client).map(|(_, steps)| steps).sum::<u64>();
                return Err(super::unplanned(&format!("client {client} took {steps} steps in round {} and not {planned}", round + 1)));
            }
        }
        let mut steps = remembered(memory);
        for (key, count) in done {
            *steps.entry(key).or_default() += count;
        }
        memory.vectors.clear();
        for ((client, rows), count) in steps {
            memory.vectors.entry(client).or_default().extend([rows as f32, count as f32]);
        }
        Ok(())
    }
    fn figures(&self, world: &World, _: u64, memory: &Memory) -> Vec<(&'static str, f64)> {
        let clients = releases(&remembered(memory), self.accounting, world);
        let spent = |releases: Vec<(f64, u64)>| {
            let mut accountant = Accountant::default();
            releases.into_iter().for_each(|(rate, count)| accountant.add(&self.curve(rate), count));
            accountant.epsilon(self.delta)
        };
        super::figures(clients.into_iter().map(spent).fold(0.0, f64::max), self.delta, self.noise)
    }
}
