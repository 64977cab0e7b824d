//! APPLE: each client learns in what proportion to mix everybody's core models, and trains its own core through the mixture.

use super::shared::flat::dot;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::update::add_scaled;
use crate::engine::{Entry, Layout, Model, Params, Parts};
use crate::fl::algorithm::Who;
use crate::fl::{
    Aggregation, Algorithm, Arena, Client, Description, Exposed, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};

/// Luo, Wu, IJCAI 2022, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Apple {
    variant: Variant,
    relation_rate: f64,
    mu: f64,
    schedule: f64,
    cores: Option<Cores>,
    product: Option<Product>,
    start: Option<Start>,
    timing: Option<Timing>,
    core_rate: Option<CoreRate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CoreRate {
    TimesClients,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Cores {
    Shared,
    Private,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Product {
    Mean,
    Sum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    Uniform,
    Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Timing {
    Late,
    Current,
}

/// The core models m_i at the server; empty where the clients share them within a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stock(Vec<Params<f32>>);

impl State for Stock {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("cores", visitor);
    }
}

/// The directed relations p_c to all clients, and the trained core until it is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relations {
    p: Vec<f64>,
    trained: Option<Params<f32>>,
}

impl State for Relations {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.p.visit("p", visitor);
    }
}

/// The trained core, where cores are private.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    core: Option<Params<f32>>,
}

impl State for Sent {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.core.visit("core", visitor);
    }
}

fn mix(into: &mut [f32], cores: &[Params<f32>], p: &[f64]) {
    into.fill(0.0);
    for (core, share) in cores.iter().zip(p) {
        add_scaled(into, *share as f32, core);
    }
}

impl Apple {
    fn private(&self) -> bool {
        self.variant.choose(self.cores, Cores::Shared, Cores::Private) == Cores::Private
    }
    /// The weight of the pull of p to the sample shares in a round; a cosine that falls to 0 in a share of the rounds.
    fn pull(&self, round: u64, rounds: u64) -> f64 {
        let last = (self.schedule * rounds.saturating_sub(1) as f64) as u64;
        let at = |round| if round < last { ((round as f64 * std::f64::consts::PI / last as f64).cos() + 1.0) / 2.0 } else { 0.0 };
        match self.variant.choose(self.timing, Timing::Late, Timing::Current) {
            Timing::Late => round.checked_sub(1).map_or(1.0, at),
            Timing::Current => at(round),
        }
    }
    /// The derivative of the loss by the share of a core.
    fn slope(&self, layout: &Layout, gradient: &[f32], core: &[f32]) -> f64 {
        match self.variant.choose(self.product, Product::Mean, Product::Sum) {
            Product::Sum => dot(gradient, core),
            Product::Mean => {
                let mean = |entry: &Entry| dot(&gradient[entry.range.clone()], &core[entry.range.clone()]) / entry.range.len() as f64;
                layout.entries.iter().map(mean).sum::<f64>() / layout.entries.len() as f64
            }
        }
    }
    /// The local training on these cores, of which it changes the client's own. Returns the mixture after it; the model is the one
    /// of the last batch.
    fn learn(&self, trainer: &mut Trainer<'_>, client: &mut Client<Relations>, cores: &mut [Params<f32>]) -> Outcome<Params<f32>> {
        let Client { id, model, state: Relations { p, .. }, .. } = client;
        let world = trainer.world;
        let samples: f64 = world.shards.iter().map(|shard| shard.train.len() as f64).sum();
        let rate = match self.variant.choose(self.core_rate, CoreRate::TimesClients, CoreRate::Plain) {
            CoreRate::TimesClients => world.settings.learning_rate * cores.len() as f64,
            CoreRate::Plain => f64::from(trainer.rate()),
        };
        let pull = self.mu * self.pull(trainer.round(), world.settings.rounds);
        let mut next = Params::zeros(model.params.len());
        mix(&mut next, cores, p);
        model.training = true;
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                std::mem::swap(&mut model.params, &mut next);
                trainer.gradients(&mut [&mut *model], batch, &Objective::CrossEntropy, Parts::All)?;
                let gradient = trainer.gradient(0);
                add_scaled(&mut cores[*id], -((rate * p[*id]) as f32), gradient);
                if self.relation_rate > 0.0 {
                    for ((p, core), shard) in p.iter_mut().zip(&*cores).zip(&world.shards) {
                        let prior = shard.train.len() as f64 / samples;
                        *p -= self.relation_rate * (self.slope(model.net.layout(), gradient, core) + pull * (*p - prior));
                    }
                }
                mix(&mut next, cores, p);
                Ok(())
            })?;
        }
        Ok(next)
    }
}

impl Algorithm for Apple {
    type Server = Stock;
    type Client = Relations;
    type Upload = Sent;

    fn describe() -> Description {
        Description {
            name: "apple",
            title: "APPLE",
            family: "personalised aggregation",
            paper: "Luo, Wu, Adapt to Adaptation: Learning Personalization for Cross-Silo Federated Learning, IJCAI 2022",
            year: 2022,
            personal: "relations p_c and the mixture W_c",
            down: "N w",
            up: "w",
            rule: "W = sum_i p_c[i] m_i; each step at client c: m_c <- m_c - lr p_c[c] grad(W); \
                   p_c[i] <- p_c[i] - eta_2 (<grad(W), m_i> + r(t) mu (p_c[i] - n_i/n)), r a cosine from 1 to 0 in L T rounds; m_c goes to \
                   the server",
            differences: "in PFLlib all clients train in every round, one after the other on the same cores, and hand on their last mixture \
                          instead of their core (`cores: shared`); it divides the inner product by tensor sizes, so that p hardly moves \
                          (`product: mean`), starts p at 1/N (`start: uniform`, the authors at n_i/n) and applies r(t) a round late \
                          (`timing: late`). The default is `paper`, because p is frozen in PFLlib's. PFLlib multiplies the learning rate \
                          of the core by N (`core_rate: times-clients`), which suits p = 1/N; where p_c[c] is learned and nears 1, the \
                          mixture would move at N times the rate and diverge. The authors' default schedule is exponential, they use \
                          momentum and batches of 256. Nothing makes p sum to 1, and once its pull has ended nothing holds it: with small \
                          batches, which give more steps a round, eta_2 = 0.001 may diverge (seen with batches of 10 at lr = 0.05; 0.0005 \
                          did not)",
            fields: vec![
                Variant::Paper.field(),
                Field::with("relation_rate", Type::non_negative(), 0.001, "Learning rate of the relations.")
                    .from("eta_2", "the authors' defaults; PFLlib's is 0"),
                Field::with("mu", Type::non_negative(), 0.1, "Pull of the relations to the sample shares.")
                    .from("mu", "the authors' defaults; PFLlib's is 0"),
                Field::with("schedule", Type::fraction(), 0.1, "Share of the rounds in which the pull falls to 0.")
                    .from("L", "the authors' defaults; PFLlib's is 1"),
                Field::optional(
                    "cores",
                    Type::Choice(&[
                        ("shared", "one after the other on the same cores, as PFLlib"),
                        ("private", "each on the cores as sent, as the paper"),
                    ]),
                    "Which cores a client trains on.",
                ),
                Field::optional(
                    "product",
                    Type::Choice(&[("mean", "a mean over tensors and elements, as PFLlib"), ("sum", "the inner product, as the paper")]),
                    "The derivative of the loss by a relation.",
                ),
                Field::optional(
                    "start",
                    Type::Choice(&[("uniform", "1/N, as PFLlib"), ("samples", "the sample shares, as the authors")]),
                    "The relations at the start.",
                ),
                Field::optional(
                    "timing",
                    Type::Choice(&[("late", "that of the round before, as PFLlib"), ("current", "that of the round, as the paper")]),
                    "Which round's weight the pull has.",
                ),
                Field::optional(
                    "core_rate",
                    Type::Choice(&[
                        ("times-clients", "N times the learning rate, without its decay, as PFLlib"),
                        ("plain", "the learning rate, as the paper and the authors"),
                    ]),
                    "The learning rate of the core.",
                ),
            ],
            revision: 2,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Other("shares the core model of each client and makes no mean of them")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }
    fn receives(&self) -> Who {
        Who::None
    }
    fn horizon(&self) -> bool {
        true
    }
    /// All cores.
    fn down(&self, world: &World, _: &Server<Stock>, _: &Client<Relations>) -> u64 {
        (world.clients() * world.layout().len) as u64
    }
    fn up(&self, world: &World, _: &mut Sent) -> u64 {
        world.layout().len as u64
    }

    /// The client's core model; the server keeps the one before.
    fn exposes(&self, server: &Server<Stock>, started: &Model, upload: &Uploaded<Sent>) -> Exposed {
        match (&upload.extra.core, server.state.0.get(upload.client)) {
            (Some(core), Some(before)) => Exposed::of(started.net.layout(), |_| true, before, core),
            _ => Exposed::nothing(),
        }
    }

    fn setup(&self, world: &World, server: &mut Server<Stock>, clients: &mut [Client<Relations>]) -> Outcome<()> {
        let total: f64 = world.shards.iter().map(|shard| shard.train.len() as f64).sum();
        let p: Vec<f64> = match self.variant.choose(self.start, Start::Uniform, Start::Samples) {
            Start::Samples if total > 0.0 => world.shards.iter().map(|shard| shard.train.len() as f64 / total).collect(),
            _ => vec![1.0 / clients.len() as f64; clients.len()],
        };
        clients.iter_mut().for_each(|client| client.state.p.clone_from(&p));
        if self.private() {
            server.state.0 = vec![world.initial.params.clone(); clients.len()];
        }
        Ok(())
    }

    fn train_phase(&self, arena: &mut Arena<'_, Self>) -> Outcome<Vec<Uploaded<Sent>>> {
        if self.private() {
            return arena.train(self);
        }
        let cores: Mutex<Vec<_>> = Mutex::new(arena.clients.iter().map(|client| client.model.params.clone()).collect());
        let mut uploads = Vec::new();
        // Each client sees what those before it have changed, so there is nothing to do at once.
        for id in arena.ids(Who::All) {
            let sent = arena.each(&[id], |trainer, _, client| {
                self.learn(trainer, client, &mut cores.lock().unwrap_or_else(PoisonError::into_inner))?;
                let (samples, model) = (trainer.samples(), client.model.clone());
                let extra = Sent { core: None };
                Ok(trainer.position().map(|_| Uploaded { client: id, samples, weight: 0.0, model, extra }))
            })?;
            uploads.extend(sent.into_iter().flatten());
        }
        Ok(uploads)
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Stock>, client: &mut Client<Relations>) -> Outcome<()> {
        let mut cores = server.state.0.clone();
        client.model.params = self.learn(trainer, client, &mut cores)?;
        client.state.trained = Some(cores.swap_remove(client.id));
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Stock>, client: &mut Client<Relations>) -> Outcome<Sent> {
        Ok(Sent { core: client.state.trained.take() })
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Stock>, uploads: &[Uploaded<Sent>], _: &Aggregation<'_>) -> Outcome<()> {
        for upload in uploads {
            if let Some(core) = &upload.extra.core {
                server.state.0[upload.client] = core.clone();
            }
        }
        Ok(())
    }

    /// There is no server model to adopt: a new client starts from the initial one and trains alone.
    fn adopt(&self, _: &mut Trainer<'_>, _: &Server<Stock>, _: &mut Client<Relations>) -> Outcome<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apple(variant: Variant) -> Apple {
        Apple {
            variant,
            relation_rate: 0.1,
            mu: 1.0,
            schedule: 0.5,
            cores: None,
            product: None,
            start: None,
            timing: None,
            core_rate: None,
        }
    }

    #[test]
    fn the_pull_falls_as_a_cosine_and_pfllib_is_a_round_late() {
        // 9 rounds: T = 8, so the pull is gone after 4 rounds.
        let half_way = |variant| (0..6).map(|round| apple(variant).pull(round, 9)).collect::<Vec<_>>();
        let paper = half_way(Variant::Paper);
        assert!((paper[0] - 1.0).abs() < 1e-12 && (paper[2] - 0.5).abs() < 1e-12 && paper[4] == 0.0);
        let late = half_way(Variant::Pfllib);
        assert_eq!(late[0], 1.0);
        assert_eq!(late[1..6], paper[0..5]);
    }

    #[test]
    fn a_mixture_is_the_weighted_sum_of_the_cores() {
        let cores = [Params::from(vec![1.0, 2.0]), Params::from(vec![-1.0, 4.0])];
        let mut into = [9.0; 2];
        mix(&mut into, &cores, &[0.25, 0.75]);
        assert_eq!(into, [-0.5, 3.5]);
    }
}
