//! Looking at a finished training: what clients send in a round, and how their models answer samples. The training is not changed.
//!
//! An observer starts from a snapshot or from the beginning, and the rounds up to the observed one are the training's own. It is a
//! curious server: it knows what it sent and received, and the recipe of the local training.

use super::algorithm::{Aggregation, Algorithm, Sends, When, Who};
use super::arena::Phase;
use super::batch::{Order, Pass};
use super::between;
use super::history::Status;
use super::intervention::Place;
use super::parties::{Client, Server, Uploaded};
use super::round::{Monitor, Run};
use super::trainer::Trainer;
use super::world::World;
use crate::base::{Fault, FaultKind, Outcome};
use crate::engine::loss::{argmax, cross_entropy_sum};
use crate::engine::{Entry, Layout, Model, Params};
use std::collections::BTreeMap;
use std::ops::Range;

/// What an upload shows of parameters: before and after the client's training, and which of them were sent.
#[derive(Clone, Debug)]
pub struct Exposed {
    /// The ranges of the flat vectors that were sent, in order; the rest of the two vectors is nobody's business.
    pub sent: Vec<Range<usize>>,
    /// The parameters from which the client started.
    pub before: Params<f32>,
    /// The parameters that the client sent.
    pub after: Params<f32>,
}

impl Exposed {
    /// The entries that are `wanted`, from two vectors.
    #[must_use]
    pub fn of(layout: &Layout, wanted: impl Fn(&Entry) -> bool, before: &Params<f32>, after: &Params<f32>) -> Self {
        let sent = layout.entries.iter().filter(|entry| wanted(entry)).map(|entry| entry.range.clone()).collect();
        Self { sent, before: before.clone(), after: after.clone() }
    }
    /// Nothing but what is no parameter of the model.
    #[must_use]
    pub fn nothing() -> Self {
        Self { sent: Vec::new(), before: Params::default(), after: Params::default() }
    }
}

/// What the observer has of one client in a round.
#[derive(Clone, Debug)]
pub struct Glimpse {
    /// The client's id.
    pub client: usize,
    /// The model before the round: what was sent stands there as the client had it, the rest as the server has it.
    pub before: Model,
    /// The same after the client's training.
    pub after: Model,
    /// The ranges of the parameters that were sent; empty where the algorithm sends none.
    pub sent: Vec<Range<usize>>,
    /// The client's step size in this round.
    pub rate: f64,
    /// Its epochs in this round.
    pub epochs: u64,
}

/// A round as it was observed.
#[derive(Clone, Debug)]
pub enum Observed<T> {
    /// What there is of each client, by id.
    Clients(Vec<T>),
    /// The training diverged after so many rounds, before the observed one.
    Diverged(u64),
    /// There is nothing to look at: why, as the rest of a sentence that begins with the algorithm.
    Nothing(&'static str),
}

/// How a model answers one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    /// The cross-entropy.
    pub loss: f32,
    /// The logarithm of the odds of the true class.
    pub odds: f32,
    /// The entropy of the answer, in nats.
    pub entropy: f32,
    /// Whether the greatest score is that of the true class.
    pub right: bool,
}

impl Response {
    /// The answer in a row of scores (logits). All are NaN when the label is not below the number of scores.
    #[must_use]
    pub fn of(scores: &[f32], label: u32) -> Self {
        let loss = cross_entropy_sum(scores, &[label], scores.len());
        let greatest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let logs: Vec<f64> = scores.iter().map(|v| f64::from(v - greatest)).collect();
        let (mut sum, mut others) = (0.0, 0.0);
        for (class, log) in logs.iter().enumerate() {
            sum += log.exp();
            others += if class == label as usize { 0.0 } else { log.exp() };
        }
        let entropy = logs.iter().map(|log| log.exp() / sum * (sum.ln() - log)).sum::<f64>();
        let odds = logs.get(label as usize).map_or(f64::NAN, |own| own - others.ln());
        Self { loss: loss as f32, odds: odds as f32, entropy: entropy as f32, right: argmax(scores) == label as usize }
    }
}

/// How one model of a client answers its training and its test samples.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The client's id.
    pub client: usize,
    /// The view; `global` is the server's model.
    pub view: &'static str,
    /// The answers to its training samples.
    pub members: Vec<Response>,
    /// The answers to its test samples.
    pub others: Vec<Response>,
}

/// An algorithm whose finished trainings can be looked at.
pub trait Observable {
    /// What the clients send in the round that begins when `round` rounds are done.
    ///
    /// The monitor may bring a snapshot of at most so many rounds; then only the rounds after it are run.
    ///
    /// # Errors
    /// A stage fault from a hook, a storage fault from the monitor, or `Interrupted`.
    fn observe(&self, world: &World, monitor: &mut dyn Monitor, round: u64) -> Outcome<Observed<Glimpse>>;
    /// How the models that clients are evaluated with answer their samples when `round` rounds are done, and, as the view `global`, how
    /// the server's model does where clients send all of it.
    ///
    /// # Errors
    /// As [`Observable::observe`].
    fn examine(&self, world: &World, monitor: &mut dyn Monitor, round: u64) -> Outcome<Observed<Examined>>;
}

impl<A: Algorithm> Observable for A {
    fn observe(&self, world: &World, monitor: &mut dyn Monitor, round: u64) -> Outcome<Observed<Glimpse>> {
        let mut run = Run::start(self, world, monitor)?;
        if let Some(round) = run.reach(round)? {
            return Ok(Observed::Diverged(round));
        }
        if world.interventions.iter().any(|intervention| intervention.place() == Place::Secure) {
            return Ok(Observed::Nothing("sums uploads securely, so that nobody sees a single one"));
        }
        let glimpses = run.sent()?;
        if glimpses.is_empty() {
            return Ok(Observed::Nothing("gets no upload in this round: `drop_rate` or `time_threshold` leaves none"));
        }
        if glimpses.iter().all(|glimpse| glimpse.sent.is_empty()) {
            let (Sends::Other(reason) | Sends::Models(reason)) = self.sends() else {
                return Ok(Observed::Nothing("sends no parameters of its model"));
            };
            return Ok(Observed::Nothing(reason));
        }
        Ok(Observed::Clients(glimpses))
    }
    fn examine(&self, world: &World, monitor: &mut dyn Monitor, round: u64) -> Outcome<Observed<Examined>> {
        let mut run = Run::start(self, world, monitor)?;
        if let Some(round) = run.reach(round)? {
            return Ok(Observed::Diverged(round));
        }
        run.answers().map(Observed::Clients)
    }
}

impl<A: Algorithm> Run<'_, A> {
    /// Runs until `round` rounds are done; says after which round the training diverged, if it did.
    fn reach(&mut self, round: u64) -> Outcome<Option<u64>> {
        while self.round < round && self.books.history.status == Status::Completed {
            if self.monitor.stopping() {
                self.checkpoint()?;
                return Err(Fault::new(FaultKind::Interrupted, format!("stopped before round {} of {round}", self.round + 1)));
            }
            self.one_round()?;
            self.round += 1;
            self.lay_down()?;
            self.monitor.progress(self.round, round, &self.books.history);
            if self.monitor.checkpoint_due() {
                self.checkpoint()?;
            }
        }
        Ok(match self.books.history.status {
            Status::Completed => None,
            Status::Diverged { round } => Some(round),
        })
    }

    /// The first half of a round, up to the uploads that arrive, with what threats and the clients' own privacy make of them.
    fn sent(&mut self) -> Outcome<Vec<Glimpse>> {
        let (algorithm, round) = (self.algorithm, self.round);
        let settings = &self.world.settings;
        let nominal = settings.nominal_cohort(self.world.clients());
        let most = if settings.random_join_ratio { self.world.clients() } else { nominal };
        let cohort = self.world.streams.cohort(round, self.world.clients(), nominal, most);
        self.evaluate(When::BeforeReceive, round, false, &cohort)?;
        self.receive(round, &cohort)?;
        self.evaluate(When::AfterReceive, round, false, &cohort)?;
        let started: Vec<Model> = self.clients.iter().map(|client| client.model.clone()).collect();
        let recipe: BTreeMap<usize, (f64, u64)> = {
            let mut arena = self.arena(round, &cohort, Phase::Train);
            // This question uses up no random answer: a trainer is only asked what it would do.
            let ids = arena.ids(Who::Cohort);
            arena.each(&ids, |trainer, _, client| Ok((client.id, (f64::from(trainer.rate()), trainer.epochs()))))?.into_iter().collect()
        };
        let mut arena = self.arena(round, &cohort, Phase::Train);
        let uploads = algorithm.train_phase(&mut arena)?;
        let tally = arena.tally;
        self.train_accounts(tally, &cohort);
        let mut uploads = self.accept(uploads, &cohort)?;
        if let Some(averaged) = self.averaged.as_ref().filter(|_| !uploads.is_empty()) {
            let (rounds, clients) = (self.world.settings.rounds, self.world.clients());
            let context = Aggregation { round, rounds, clients, nominal, cohort: &cohort };
            between::sent(averaged, self.world, &mut self.memories, &context, &self.server.global, &mut uploads, Place::Privacy)?;
        }
        let (server, world) = (&self.server, self.world);
        let sent = |upload: &Uploaded<A::Upload>| {
            let id = upload.client;
            let exposed = algorithm.exposes(server, &started[id], upload);
            let stand_in = Model { training: true, ..Model { params: server.global.params.clone(), ..world.initial.clone() } };
            let filled = |from: &Params<f32>| {
                let mut model = stand_in.clone();
                for range in &exposed.sent {
                    model.params[range.clone()].copy_from_slice(&from[range.clone()]);
                }
                model
            };
            let (rate, epochs) = recipe[&id];
            let (mut before, mut after) = (filled(&exposed.before), filled(&exposed.after));
            if started[id].buffers.values.len() == before.buffers.values.len() {
                before.buffers = started[id].buffers.clone();
                after.buffers = upload.model.buffers.clone();
            }
            Glimpse { client: id, before, after, sent: exposed.sent, rate, epochs }
        };
        Ok(uploads.iter().map(sent).collect())
    }

    /// As the evaluation after the last round, but sample by sample.
    fn answers(&mut self) -> Outcome<Vec<Examined>> {
        let (algorithm, round) = (self.algorithm, self.round);
        if algorithm.evaluates() == When::AfterReceive {
            self.receive(round, &[])?;
        }
        if round == self.world.settings.rounds {
            let mut arena = self.arena(round, &[], Phase::Finish);
            algorithm.finish(&mut arena)?;
        }
        let whole = self.world.layout().entries.iter().all(|entry| algorithm.averaged(entry));
        let views = algorithm.views();
        let mut arena = self.arena(round, &[], Phase::Evaluate);
        let ids = arena.ids(Who::All);
        let all = arena.each(&ids, |trainer, server, client| {
            algorithm.before_evaluation(trainer, server, client, true)?;
            let mut found = Vec::new();
            for (view, name) in views.iter().enumerate() {
                let members = answer(algorithm, Some(view), trainer, server, client, Order::Stored)?;
                let others = answer(algorithm, Some(view), trainer, server, client, Order::Test)?;
                found.push(Examined { client: client.id, view: name, members, others });
            }
            if whole && !views.contains(&"global") {
                let members = answer(algorithm, None, trainer, server, client, Order::Stored)?;
                let others = answer(algorithm, None, trainer, server, client, Order::Test)?;
                found.push(Examined { client: client.id, view: "global", members, others });
            }
            Ok(found)
        })?;
        Ok(all.into_iter().flatten().collect())
    }
}

/// The answers of a view, or of the server's model, to a client's samples.
fn answer<A: Algorithm>(
    algorithm: &A,
    view: Option<usize>,
    trainer: &mut Trainer<'_>,
    server: &Server<A::Server>,
    client: &Client<A::Client>,
    order: Order,
) -> Outcome<Vec<Response>> {
    let mut all = Vec::new();
    trainer.pass(Pass { size: 128, drop_last: false, order }, |trainer, batch| {
        let scores = match view {
            Some(view) => algorithm.scores(view, trainer, server, client, batch)?,
            None => trainer.predict(&server.global, batch)?,
        };
        let classes = scores.len() / batch.rows().max(1);
        if classes > 0 {
            all.extend(scores.chunks_exact(classes).zip(&batch.y).map(|(row, label)| Response::of(row, *label)));
        }
        Ok(())
    })?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_agree_with_their_definitions() {
        let scores = [1.0f32, 2.0, 0.5];
        let sum: f32 = scores.iter().map(|v| v.exp()).sum();
        let p: Vec<f32> = scores.iter().map(|v| v.exp() / sum).collect();
        let found = Response::of(&scores, 1);
        assert!((found.loss + p[1].ln()).abs() < 1e-6 && found.right);
        assert!((found.odds - (p[1] / (1.0 - p[1])).ln()).abs() < 1e-5);
        assert!((found.entropy + p.iter().map(|p| p * p.ln()).sum::<f32>()).abs() < 1e-6);
        assert!(Response::of(&scores, 7).loss.is_nan() && !Response::of(&scores, 0).right);
    }
}
