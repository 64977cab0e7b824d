//! What does not change during a simulation: network, data, clients' samples, options and random streams.

use super::clock::Clock;
use super::intervention::Intervention;
use super::meter::Meter;
use super::settings::Settings;
use super::streams::{Law, Streams};
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::threads::Budget;
use crate::data::Dataset;
use crate::data::partition::{Client as Shard, few_shot};
use crate::engine::{Compute, Engine, Layout, Model, Network, Precision, Support};
use std::sync::{Arc, Mutex, PoisonError};

/// Everything that all clients share and nobody changes.
pub struct World {
    /// The initial model; its network is everybody's unless an algorithm says otherwise.
    pub initial: Model,
    /// All samples.
    pub data: Arc<Dataset>,
    /// The clients that train, by id.
    pub shards: Vec<Shard>,
    /// The training samples of each client that trains that are put aside, so that its model may be chosen by them.
    pub validation: Vec<Vec<u32>>,
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
    /// What the networks have worked so far.
    pub meter: Meter,
    /// What acts on rounds from outside the algorithm, in the order in which it acts.
    pub interventions: Vec<Box<dyn Intervention>>,
    /// Where networks run.
    pub compute: Compute,
    /// Bytes that the states of resting clients may take of memory; what is beyond lies in a file. Absent: no limit.
    pub memory: Option<u64>,
    workers: Mutex<Vec<Worker>>,
}

/// The scratch of one worker thread.
#[derive(Default)]
pub struct Worker {
    pub(super) engine: Engine<f32>,
    pub(super) grads: Vec<Vec<f32>>,
    /// Where each of them may differ from 0.
    pub(super) supports: Vec<Support>,
    pub(super) d_logits: Vec<f32>,
    /// What a module sees in place of a batch.
    pub(super) zeros: Vec<f32>,
    pub(super) batch: super::batch::Batch,
    /// The gradient of one sample.
    pub(super) sample: Vec<f32>,
    /// The samples of the present batch, as the data set numbers them.
    pub(super) chosen: Vec<u32>,
}

impl World {
    /// Puts a simulation together; holds back the new clients, puts validation samples aside, and applies the few-shot cap.
    ///
    /// # Errors
    /// A stage fault when nobody would be left to train, or the cohort of a round would be empty.
    pub fn new(
        mut initial: Model,
        data: Arc<Dataset>,
        mut shards: Vec<Shard>,
        settings: Settings,
        streams: Box<dyn Streams>,
        budget: Budget,
    ) -> Outcome<Self> {
        let training = settings.training(shards.len())?;
        if settings.precision != Precision::F32 {
            initial.net = Arc::new(Network::clone(&initial.net).with_precision(settings.precision));
        }
        let mut newcomers = shards.split_off(training);
        let aside = |(id, shard): (usize, &mut Shard)| {
            let count = settings.validating(shard.train.len());
            put_aside(id, &mut shard.train, count)
        };
        let validation = shards.iter_mut().enumerate().map(aside).collect();
        if settings.few_shot > 0 {
            for shard in shards.iter_mut().chain(&mut newcomers) {
                shard.train = few_shot(&shard.train, data.labels(), settings.few_shot);
            }
        }
        let clock = Clock::new(&settings, shards.len(), streams.as_ref());
        Ok(Self {
            initial,
            data,
            shards,
            validation,
            newcomers,
            settings,
            streams,
            budget,
            clock,
            meter: Meter::default(),
            interventions: Vec::new(),
            compute: Compute::default(),
            memory: None,
            workers: Mutex::new(Vec::new()),
        })
    }
    /// Adds something that acts on rounds, at its place among the others.
    #[must_use]
    pub fn with(mut self, intervention: Box<dyn Intervention>) -> Self {
        self.interventions.push(intervention);
        self.interventions.sort_by_key(|intervention| intervention.place());
        self
    }
    /// The clients that are malicious at some time, ascending.
    #[must_use]
    pub fn attackers(&self) -> Vec<usize> {
        let mut ids: Vec<usize> = self.interventions.iter().flat_map(|i| i.attackers().iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
    /// The number of uploads that arrive in a round in which the nominal number of clients takes part.
    #[must_use]
    pub fn uploads(&self) -> usize {
        self.settings.arriving(self.settings.nominal_cohort(self.clients()))
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
    /// A model of an algorithm's own network with torch's default start. Equal names start equally, at every client.
    ///
    /// Weights and biases are uniform in plus or minus 1 / sqrt(inputs of one output); normalisations start as the identity.
    #[must_use]
    pub fn module(&self, name: &str, net: Arc<Network>) -> Model {
        let mut model = Model::init(net.clone(), &mut stream(0, Purpose::Initialisation, 0, 0, 0));
        let mut bound = 0.0;
        for entry in net.layout().entries.iter().filter(|entry| !entry.norm) {
            // A bias follows its weight and has the same bound.
            if entry.shape.len() > 1 {
                bound = 1.0 / (entry.shape[1..].iter().product::<usize>() as f32).sqrt();
            }
            let mut values = vec![0.0; entry.range.len()];
            self.streams.initial(&format!("{name}.{}", entry.name), Law::Uniform(bound), &mut values);
            net.layout().import(&mut model.params, entry, &values).expect("there are as many values as the entry has");
        }
        model
    }
    /// The samples of a client; new clients follow the others.
    #[must_use]
    pub fn shard(&self, client: usize) -> &Shard {
        self.shards.get(client).unwrap_or_else(|| &self.newcomers[client - self.shards.len()])
    }
    /// The validation samples of a client; new clients have none.
    #[must_use]
    pub fn validation(&self, client: usize) -> &[u32] {
        self.validation.get(client).map_or(&[], Vec::as_slice)
    }
    pub(super) fn worker(&self) -> Worker {
        self.workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_else(|| Worker { engine: Engine::on(self.compute), ..Worker::default() })
    }
    pub(super) fn give_back(&self, worker: Worker) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
}

/// Takes so many samples out of a client's training set; the rest keeps its order. Which ones depends on the client and on how many
/// samples it has, and on no seed of the training, so that all algorithms and repetitions are validated on the same ones.
fn put_aside(client: usize, train: &mut Vec<u32>, count: usize) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    let mut places: Vec<usize> = (0..train.len()).collect();
    shuffle(&mut stream(0, Purpose::Validation, client as u64, 0, 0), &mut places);
    places.truncate(count);
    places.sort_unstable();
    let aside: Vec<u32> = places.iter().map(|place| train[*place]).collect();
    let mut place = 0;
    train.retain(|_| {
        place += 1;
        places.binary_search(&(place - 1)).is_err()
    });
    aside
}
