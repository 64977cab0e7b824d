//! FedFomo: each client mixes the models of others by what they gain on its own validation samples.

use super::shared::flat::squared_distance;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::update::add_scaled;
use crate::engine::{Model, Params};
use crate::fl::algorithm::Who;
use crate::fl::streams::NoiseKind;
use crate::fl::{
    Aggregation, Algorithm, Batch, Client, Description, Item, Objective, Order, Pass, Sends, Server, State, Trainer, Update, Uploaded,
    Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Zhang et al., ICLR 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedFomo {
    variant: Variant,
    models: usize,
    validation: f64,
    exploration: Option<f64>,
    validation_mode: Option<Mode>,
    shuffle: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Training,
    Evaluation,
}

/// Every client's last upload, who likes whom (row by row), and how many uploads arrived last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Market {
    models: Vec<Model>,
    affinity: Vec<f32>,
    arrived: u64,
}

impl State for Market {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.models.visit("models", visitor);
        self.affinity.visit("affinity", visitor);
        self.arrived.visit("arrived", visitor);
    }
}

/// The model after the last mixing, the gain of each client's model, and whose models were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judge {
    mixed: Params<f32>,
    gains: Vec<f32>,
    received: Vec<u64>,
}

impl State for Judge {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.params("mixed", &mut self.mixed);
        self.gains.visit("gains", visitor);
        self.received.visit("received", visitor);
    }
}

/// The gains that a client reports, one for each received model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    ids: Vec<u64>,
    gains: Vec<f32>,
}

impl State for Report {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.ids.visit("ids", visitor);
        self.gains.visit("gains", visitor);
    }
}

impl FedFomo {
    /// How many of `n` samples train; the rest, the last ones, validate.
    fn training(&self, n: usize) -> usize {
        n - (n as f64 * self.validation) as usize
    }
    /// The chance that a model is chosen by chance: PFLlib never explores, the authors' falls by 0.05 a round from 0.3.
    fn exploration(&self, round: u64) -> f64 {
        self.variant.choose(self.exploration, 0.0, (0.3 - 0.05 * round as f64).max(0.0))
    }
    /// The mean over the validation batches of their mean loss.
    fn validate(&self, trainer: &mut Trainer<'_>, model: &Model) -> Outcome<f64> {
        let training = self.variant.choose(self.validation_mode, Mode::Training, Mode::Evaluation) == Mode::Training;
        let mut model = Model { training, ..model.clone() };
        let (start, n) = (self.training(trainer.samples()), trainer.samples());
        let pass = Pass { drop_last: false, order: Order::Window { start, len: n - start }, ..trainer.training() };
        let (mut sum, mut batches) = (0.0, 0);
        trainer.pass(pass, |trainer, batch| {
            let (_, scores) = trainer.forward(&mut model, batch)?;
            sum += f64::from(trainer.cross_entropy(&scores, &batch.y));
            batches += 1;
            Ok(())
        })?;
        Ok(sum / f64::from(batches.max(1)))
    }

    /// Judges the received models against the client's last mixture, and mixes those that are better.
    fn mix(&self, trainer: &mut Trainer<'_>, market: &Market, client: &mut Client<Judge>) -> Outcome<()> {
        let Client { model, state: Judge { mixed, gains, received }, .. } = client;
        let base = self.validate(trainer, &Model { params: mixed.clone(), ..model.clone() })?;
        let mut shares = Vec::with_capacity(received.len());
        for id in received.iter().map(|id| *id as usize) {
            let candidate = &market.models[id];
            let distance = squared_distance(&candidate.params, mixed).sqrt() as f32;
            let gain = 1.0 / (distance + 1e-5) * (base - self.validate(trainer, candidate)?) as f32;
            gains[id] += gain;
            shares.push((id, gain.max(0.0)));
        }
        let total: f32 = shares.iter().map(|(_, share)| share).sum();
        if total > 0.0 {
            let mut sum = vec![0.0; mixed.len()];
            for (id, share) in shares.iter().filter(|(_, share)| *share > 0.0) {
                add_scaled(&mut sum, share / total, &market.models[*id].params);
            }
            model.params = sum.into();
        }
        Ok(())
    }
}

impl Algorithm for FedFomo {
    type Server = Market;
    type Client = Judge;
    type Upload = Report;

    fn describe() -> Description {
        Description {
            name: "fedfomo",
            title: "FedFomo",
            family: "personalised aggregation",
            paper: "Zhang et al., Personalized Federated Learning with First Order Model Optimization, ICLR 2021",
            year: 2021,
            personal: "the whole model",
            down: "M w",
            up: "w + M",
            rule: "client c receives the M models of highest affinity; u_j = (L_val(w_c) - L_val(w_j)) / ||w_j - w_c||; \
                   w_c <- sum_j max(u_j, 0) w_j / sum max(u, 0) where any is positive, then local training; the affinity of c to j grows by \
                   u_j",
            differences: "PFLlib holds back the last fifth of the samples for validation, never shuffles the rest (`shuffle`), validates in \
                          training mode (`validation_mode`) and never explores (`exploration`). w_c above is the mixture of the client's \
                          last participation. Equal affinities are ordered at random, where PFLlib leaves it to torch; clients \
                          outside the round receive nothing, since they would not use it. A client with too few samples to hold any back \
                          does not mix, where PFLlib fails; an incomplete last validation batch always counts. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("models", Type::at_least(0), 5, "Models sent to a client, at most the nominal cohort size.")
                    .from("M", "the authors' README; PFLlib"),
                Field::with("validation", Type::fraction(), 0.2, "Share of the training samples that validate.").from("", "PFLlib"),
                Field::optional("exploration", Type::fraction(), "Chance that a model is chosen by chance instead of by affinity.")
                    .from("epsilon", "paper: the authors' 0.3, less 0.05 a round; pfllib: 0"),
                Field::optional(
                    "validation_mode",
                    Type::Choice(&[("training", "batch statistics, as PFLlib"), ("evaluation", "running statistics, as the paper")]),
                    "How normalisation layers work in validation.",
                ),
                Field::optional("shuffle", Type::Bool, "Whether training shuffles; pfllib: no, paper: yes."),
            ],
            revision: 1,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Models("forwards the models of single clients to others and makes no mean of them")
    }

    fn receives(&self) -> Who {
        Who::Cohort
    }
    fn down(&self, world: &World, _: &Server<Market>, client: &Client<Judge>) -> u64 {
        (client.state.received.len() * world.layout().len) as u64
    }
    fn up(&self, world: &World, report: &mut Report) -> u64 {
        (world.layout().len + report.gains.len()) as u64
    }

    fn setup(&self, world: &World, server: &mut Server<Market>, clients: &mut [Client<Judge>]) -> Outcome<()> {
        let n = clients.len();
        let affinity = (0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }).collect();
        server.state = Market { models: vec![world.initial.clone(); n], affinity, arrived: 0 };
        for client in clients {
            client.state = Judge { mixed: world.initial.params.clone(), gains: vec![0.0; n], received: Vec::new() };
        }
        Ok(())
    }

    fn welcomes(&self) -> bool {
        false
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<Market>, client: &mut Client<Judge>) -> Outcome<()> {
        let n = trainer.world.clients();
        let most = self.models.min(trainer.world.settings.nominal_cohort(n)).min(server.state.arrived as usize);
        client.state.received.clear();
        if most == 0 {
            return Ok(());
        }
        let mut chance = vec![0.0; n];
        trainer.noise(NoiseKind::Uniform, &mut chance);
        let affinity = &server.state.affinity[client.id * n..][..n];
        let mut left: Vec<usize> = (0..n).collect();
        left.sort_by(|a, b| affinity[*b].total_cmp(&affinity[*a]).then(chance[*a].total_cmp(&chance[*b])));
        let exploration = self.exploration(trainer.round());
        let mut explores = vec![1.0; most];
        if exploration > 0.0 {
            trainer.noise(NoiseKind::Uniform, &mut explores);
        }
        for draw in explores {
            let explored = (0..left.len()).min_by(|a, b| chance[left[*a]].total_cmp(&chance[left[*b]]));
            let place = explored.filter(|_| f64::from(draw) < exploration).unwrap_or(0);
            client.state.received.push(left.remove(place) as u64);
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Market>, client: &mut Client<Judge>) -> Outcome<()> {
        let len = self.training(trainer.samples());
        client.state.gains.fill(0.0);
        if len < trainer.samples() && !client.state.received.is_empty() {
            self.mix(trainer, &server.state, client)?;
        }
        let model = &mut client.model;
        client.state.mixed = model.params.clone();
        model.training = true;
        let shuffle = self.variant.choose(self.shuffle, false, true);
        let order = if shuffle { Order::ShuffledWindow { start: 0, len } } else { Order::Window { start: 0, len } };
        let pass = Pass { order, ..trainer.training() };
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer
                .pass(pass, |trainer, batch| trainer.step(model, batch, &Objective::CrossEntropy, Update::new(&mut optimiser)).map(drop))?;
        }
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Market>, client: &mut Client<Judge>) -> Outcome<Report> {
        let Judge { gains, received, .. } = &client.state;
        Ok(Report { ids: received.clone(), gains: received.iter().map(|id| gains[*id as usize]).collect() })
    }

    fn aggregate(
        &self,
        _: &mut Trainer<'_>,
        server: &mut Server<Market>,
        uploads: &[Uploaded<Report>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        let market = &mut server.state;
        market.arrived = uploads.len() as u64;
        for upload in uploads {
            market.models[upload.client] = upload.model.clone();
            for (id, gain) in upload.extra.ids.iter().zip(&upload.extra.gains) {
                market.affinity[upload.client * round.clients + *id as usize] += gain;
            }
        }
        Ok(())
    }

    /// Measured on the samples that train, in their order.
    fn training_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Market>,
        client: &Client<Judge>,
    ) -> Outcome<Option<(f64, u64)>> {
        let len = self.training(trainer.samples());
        let (mut sum, mut rows) = (0.0, 0);
        trainer.pass(Pass { order: Order::Window { start: 0, len }, ..trainer.training() }, |trainer, batch: &mut Batch| {
            let loss = self.train_loss(view, trainer, server, client, batch)?.unwrap_or(0.0);
            sum += loss * batch.rows() as f64;
            rows += batch.rows() as u64;
            Ok(())
        })?;
        Ok(Some((sum, rows)))
    }
}
