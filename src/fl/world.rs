//! What does not change during a simulation: network, data, clients' samples, options and random streams.

use super::clock::Clock;
use super::settings::Settings;
use super::streams::Streams;
use crate::base::threads::Budget;
use crate::base::{Fault, Outcome};
use crate::data::Dataset;
use crate::data::partition::{Client as Shard, few_shot};
use crate::engine::{Engine, Layout, Model, Network};
use std::sync::{Arc, Mutex, PoisonError};

/// Everything that all clients share and nobody changes.
pub struct World {
    /// The initial model; its network is everybody's unless an algorithm says otherwise.
    pub initial: Model,
    /// All samples.
    pub data: Arc<Dataset>,
    /// The clients that train, by id.
    pub shards: Vec<Shard>,
    /// The clients that join after the last round.
    pub newcomers: Vec<Shard>,
    /// The options.
    pub settings: Settings,
    /// The random answers.
    pub streams: Box<dyn Streams>,
    /// The budget of threads; the caller already holds one permit.
    pub budget: Budget,
    /// Who is slow, and how long things take.
    pub clock: Clock,
    workers: Mutex<Vec<Worker>>,
}

/// The scratch of one worker thread.
#[derive(Default)]
pub struct Worker {
    pub(super) engine: Engine<f32>,
    pub(super) grads: Vec<Vec<f32>>,
    pub(super) d_logits: Vec<f32>,
    pub(super) batch: super::batch::Batch,
}

impl World {
    /// Puts a simulation together; holds back the new clients and applies the few-shot cap.
    ///
    /// # Errors
    /// A stage fault when nobody would be left to train, or the cohort of a round would be empty.
    pub fn new(
        initial: Model,
        data: Arc<Dataset>,
        mut shards: Vec<Shard>,
        settings: Settings,
        streams: Box<dyn Streams>,
        budget: Budget,
    ) -> Outcome<Self> {
        if settings.new_clients >= shards.len() {
            return Err(Fault::stage(format!(
                "`new_clients` is {}, but the partition has {} clients: nobody is left to train",
                settings.new_clients,
                shards.len()
            ))
            .help("ask for more clients in the partition, or for fewer new ones"));
        }
        if settings.few_shot > 0 {
            for shard in &mut shards {
                shard.train = few_shot(&shard.train, data.labels(), settings.few_shot);
            }
        }
        let newcomers = shards.split_off(shards.len() - settings.new_clients);
        if settings.nominal_cohort(shards.len()) == 0 {
            return Err(Fault::stage(format!(
                "`join_ratio` {} of {} clients leaves no client in a round",
                settings.join_ratio,
                shards.len()
            ))
            .help("raise `join_ratio`: the count is N times the ratio, rounded down"));
        }
        let clock = Clock::new(&settings, shards.len(), streams.as_ref());
        Ok(Self { initial, data, shards, newcomers, settings, streams, budget, clock, workers: Mutex::new(Vec::new()) })
    }
    /// The number of clients that train, N.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shards.len()
    }
    /// The shared network.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        &self.initial.net
    }
    /// The layout of its flat parameter vector.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.initial.net.layout()
    }
    /// The samples of a client; new clients follow the others.
    #[must_use]
    pub fn shard(&self, client: usize) -> &Shard {
        self.shards.get(client).unwrap_or_else(|| &self.newcomers[client - self.shards.len()])
    }
    pub(super) fn worker(&self) -> Worker {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
    pub(super) fn give_back(&self, worker: Worker) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
}
