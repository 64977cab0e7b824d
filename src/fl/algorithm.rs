//! The hooks of a round. The defaults are FedAvg (McMahan et al., AISTATS 2017, Algorithm 1).

use super::arena::Arena;
use super::batch::Batch;
use super::mean::mean_on;
pub use super::mean::{copy_layers, weighted_mean};
use super::objective::Objective;
use super::observe::Exposed;
use super::parties::{Client, Server, Uploaded};
use super::state::{Floats, State};
use super::trainer::Trainer;
use super::world::World;
use crate::base::Outcome;
use crate::engine::update::Correction;
use crate::engine::{Entry, Layout, Model};
use crate::spec::catalog::Field;
use crate::spec::rules::Breach;

/// Which clients a phase concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All clients.
    All,
    /// The clients selected in this round.
    Cohort,
    /// Nobody.
    None,
}

/// When in a round the reference evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the server's model is received.
    BeforeReceive,
    /// After it is received and before training: FedAvg's evaluation is of the broadcast model.
    AfterReceive,
    /// After training and before aggregation.
    AfterTraining,
}

/// What the clients of an algorithm send: what threats, privacy and defences can act on.
///
/// The text of the last two is a predicate that completes "`name` ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// The parameters of `averaged`, of which the server makes a mean, and nothing else.
    Averaged,
    /// The same, but the server or other clients also use this, on which no intervention acts.
    AveragedAnd(&'static str),
    /// Whole models, of which the server makes no single mean.
    Models(&'static str),
    /// No parameters that interventions know.
    Other(&'static str),
}

/// What an aggregation may know of the round.
#[derive(Clone, Copy, Debug)]
pub struct Aggregation<'a> {
    /// The round, from 0.
    pub round: u64,
    /// All rounds of the simulation.
    pub rounds: u64,
    /// All clients, N.
    pub clients: usize,
    /// The nominal size of a cohort, trunc(N * join_ratio): a constant, whatever was drawn or lost.
    pub nominal: usize,
    /// The round's cohort in the order in which it was drawn.
    pub cohort: &'a [usize],
}

/// The letters of [`Description::down`] and [`Description::up`].
pub const FLOATS: &str = "down and up are the floats that a client receives and sends in a round in which it takes part: w of the model, b of \
                          its base, h of its head, n of its normalisations; f features, C classes (where prototypes or heads of classes travel, those that the round before met), c classes of the \
                          client, N clients, M models of others, r singular values kept of each m x n matrix, v numbers outside such matrices";

/// What `pflpipe algorithms` tells of an algorithm.
#[derive(Clone, Debug)]
pub struct Description {
    /// The name in pipelines: lower case, no separators.
    pub name: &'static str,
    /// The name as its paper writes it.
    pub title: &'static str,
    /// The family in PFLlib's taxonomy.
    pub family: &'static str,
    /// Authors, title, venue and year.
    pub paper: &'static str,
    /// The year of publication.
    pub year: u16,
    /// What stays personal.
    pub personal: &'static str,
    /// Floats that a client receives in a round with the default hyper-parameters, the first round excepted, in which there may be nothing
    /// to send yet; [`FLOATS`] explains the letters.
    pub down: &'static str,
    /// Floats that it sends.
    pub up: &'static str,
    /// The update rule in plain text.
    pub rule: &'static str,
    /// Where the reference's code differs from the paper or from this implementation.
    pub differences: &'static str,
    /// Hyper-parameters.
    pub fields: Vec<Field>,
    /// Raised whenever a result changes.
    pub revision: u32,
}

/// How many numbers of a model are in the layers that count.
fn floats(layout: &Layout, counts: impl Fn(&Entry) -> bool) -> u64 {
    layout.entries.iter().filter(|entry| counts(entry)).map(|entry| entry.range.len() as u64).sum()
}

/// A federated learning algorithm: what is new in it, and nothing else.
///
/// Hooks run in the order in which they stand here; [`super::round`] prints the loop. Receiving, training and evaluating happen for
/// several clients at a time, so those hooks see the server read-only. Everything is summed in the order of client ids.
#[expect(unused_variables, reason = "the defaults ignore most of what they are offered")]
pub trait Algorithm: Send + Sync + Sized + 'static {
    /// The server's own state.
    type Server: State;
    /// A client's own state.
    type Client: State;
    /// What an upload carries beside the model.
    type Upload: State;

    /// Its documentation and hyper-parameters.
    fn describe() -> Description;

    /// Which parameters the default `receive` takes from the server. FedPer: the base.
    fn shared(&self, layer: &Entry) -> bool {
        true
    }
    /// Which parameters the default `aggregate` averages.
    fn averaged(&self, layer: &Entry) -> bool {
        self.shared(layer)
    }
    /// Which parameters of a client's model matter after the round; the rest is not stored in checkpoints. Overriding `receive`
    /// so that it reads the old model means overriding this too.
    fn kept(&self, layer: &Entry) -> bool {
        !(self.shared(layer) && self.receives() == Who::All)
    }
    /// Whether a client that takes no part in a round may be left alone until it is next used, so that thousands of clients need
    /// neither time nor memory in every round. It may if
    ///
    /// - `receive`, where all receive, depends on the server and on what is `kept` only, draws nothing, and changes nothing `kept`;
    /// - `before_evaluation` leaves nothing behind that outlasts the evaluation;
    /// - `evaluation_effect` does the same however often it is applied, and does not look at parameters;
    /// - the other hooks look at no client outside the cohort, and after its upload at no client at all.
    ///
    /// Results do not depend on it, if that is so.
    fn rests(&self) -> bool {
        false
    }
    /// What the clients send, and whether the server makes a mean of it.
    fn sends(&self) -> Sends {
        Sends::Averaged
    }
    /// What its training does with samples beside taking one plain cross-entropy gradient of each shuffled batch, as a predicate: then
    /// gradients of single samples cannot be clipped. One of the reasons in [`per_sample`](super::per_sample).
    fn beside_gradients(&self) -> Option<&'static str> {
        None
    }
    /// Whether a round trains a client for as many passes as `local_epochs` says, and no more.
    fn usual_passes(&self) -> bool {
        true
    }
    /// Whether the server's mean gives every upload the same weight, and not that of its samples.
    fn equal_weights(&self) -> bool {
        false
    }
    /// Which clients receive.
    fn receives(&self) -> Who {
        Who::All
    }
    /// Which clients run `local_update`; only the cohort uploads.
    fn trains(&self) -> Who {
        Who::Cohort
    }
    /// When the reference evaluates.
    fn evaluates(&self) -> When {
        When::AfterReceive
    }
    /// Whether the number of rounds enters the updates, so that a longer run cannot continue a shorter one.
    fn horizon(&self) -> bool {
        false
    }
    /// Floats that the server sends to a client for a round in which it takes part, counted after `receive`. By default what `shared`
    /// names.
    fn down(&self, world: &World, server: &Server<Self::Server>, client: &Client<Self::Client>) -> u64 {
        floats(world.layout(), |layer| self.shared(layer))
    }
    /// Floats that it sends to the server. By default what `averaged` names, and all that the upload carries beside.
    fn up(&self, world: &World, upload: &mut Self::Upload) -> u64 {
        floats(world.layout(), |layer| self.averaged(layer)) + Floats::of(&world.initial, upload)
    }

    /// Builds the states before round 0: counts, extra modules. Cheap, and done again when a run resumes.
    ///
    /// # Errors
    /// A stage fault when the algorithm cannot work on this data or model.
    fn setup(&self, world: &World, server: &mut Server<Self::Server>, clients: &mut [Client<Self::Client>]) -> Outcome<()> {
        Ok(())
    }
    /// Work before round 0 (FedDBE trains every client once).
    ///
    /// # Errors
    /// A stage fault.
    fn prepare(&self, arena: &mut Arena<'_, Self>) -> Outcome<()> {
        Ok(())
    }
    /// What a client does with the server's broadcast.
    ///
    /// # Errors
    /// A stage fault.
    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<Self::Server>, client: &mut Client<Self::Client>) -> Outcome<()> {
        copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
        Ok(())
    }
    /// The loss of the default `local_update`.
    fn objective<'a>(&'a self, server: &'a Server<Self::Server>, state: &'a Self::Client) -> Objective<'a> {
        Objective::CrossEntropy
    }
    /// What the default `local_update` adds to each gradient.
    fn corrections<'a>(&'a self, server: &'a Server<Self::Server>, state: &'a Self::Client) -> Vec<Correction<'a, f32>> {
        Vec::new()
    }
    /// The local training of a round: by default E epochs of steps on `objective` with `corrections`.
    ///
    /// # Errors
    /// A stage fault.
    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Self::Server>, client: &mut Client<Self::Client>) -> Outcome<()> {
        trainer.descend(&mut client.model, &self.objective(server, &client.state), &self.corrections(server, &client.state))
    }
    /// What the client sends beside its model.
    ///
    /// # Errors
    /// A stage fault.
    fn upload(&self, trainer: &mut Trainer<'_>, server: &Server<Self::Server>, client: &mut Client<Self::Client>) -> Outcome<Self::Upload> {
        Ok(Self::Upload::default())
    }
    /// The whole training phase; only an algorithm whose clients change one another's models overrides it (APPLE).
    ///
    /// # Errors
    /// A stage fault.
    fn train_phase(&self, arena: &mut Arena<'_, Self>) -> Outcome<Vec<Uploaded<Self::Upload>>> {
        arena.train(self)
    }
    /// The server's step, by default the sample-weighted mean; never called without uploads.
    ///
    /// # Errors
    /// A stage fault.
    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Self::Server>,
        uploads: &[Uploaded<Self::Upload>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        let budget = Some(&trainer.world.budget);
        mean_on(budget, &mut server.global, uploads, |upload| upload.weight, |layer| self.averaged(layer));
        Ok(())
    }
    /// What the server sends at the end of the round.
    ///
    /// # Errors
    /// A stage fault.
    fn distribute(&self, arena: &mut Arena<'_, Self>, uploads: &[Uploaded<Self::Upload>]) -> Outcome<()> {
        Ok(())
    }
    /// What an upload shows of the parameters of a client's model to the server, which knows the model from which the client `started`.
    /// By default what `averaged` names.
    fn exposes(&self, server: &Server<Self::Server>, started: &Model, upload: &Uploaded<Self::Upload>) -> Exposed {
        Exposed::of(server.global.net.layout(), |layer| self.averaged(layer), &started.params, &upload.model.params)
    }
    /// Work after the last round (FedBABU fine-tunes everybody). Returns whether there was any; then all are evaluated once more.
    ///
    /// # Errors
    /// A stage fault.
    fn finish(&self, arena: &mut Arena<'_, Self>) -> Outcome<bool> {
        Ok(false)
    }

    /// Work before a client is evaluated (Per-FedAvg adapts a copy of its model). It runs in every round; where the round is not
    /// `measured`, only what outlasts the evaluation matters.
    ///
    /// # Errors
    /// A stage fault.
    fn before_evaluation(
        &self,
        trainer: &mut Trainer<'_>,
        server: &Server<Self::Server>,
        client: &mut Client<Self::Client>,
        measured: bool,
    ) -> Outcome<()> {
        Ok(())
    }
    /// The models that it reports, the headline last.
    fn views(&self) -> &'static [&'static str] {
        &["model"]
    }
    /// The model behind a view.
    fn evaluated<'a>(&self, view: usize, server: &'a Server<Self::Server>, client: &'a Client<Self::Client>) -> &'a Model {
        &client.model
    }
    /// The scores (logits) of a batch, rows x classes.
    ///
    /// # Errors
    /// A stage fault.
    fn scores(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Self::Server>,
        client: &Client<Self::Client>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        trainer.predict(self.evaluated(view, server, client), batch)
    }
    /// Whether the AUC of a view is taken on softmax probabilities instead of raw scores.
    fn softmax_auc(&self, view: usize) -> bool {
        false
    }
    /// The training loss of a view, summed over samples, and the number of samples; absent where the reference measures none. By
    /// default the sum of `train_loss` over the measuring pass.
    ///
    /// # Errors
    /// A stage fault.
    fn training_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Self::Server>,
        client: &Client<Self::Client>,
    ) -> Outcome<Option<(f64, u64)>> {
        let mut total = Some((0.0, 0));
        trainer.pass(trainer.measuring(), |trainer, batch| {
            let loss = self.train_loss(view, trainer, server, client, batch)?;
            total = total.zip(loss).map(|((sum, rows), loss)| (sum + loss * batch.rows() as f64, rows + batch.rows() as u64));
            Ok(())
        })?;
        Ok(total)
    }
    /// The batch mean of the training loss of a view in evaluation mode; absent where the reference measures none.
    ///
    /// # Errors
    /// A stage fault.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Self::Server>,
        client: &Client<Self::Client>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y))))
    }
    /// What evaluating does to a client, applied every round whether or not it is measured.
    fn evaluation_effect(&self, client: &mut Client<Self::Client>) {
        client.model.training = false;
    }
    /// Whether the server has a model to offer to clients that join after the last round. Without one they are refused.
    fn welcomes(&self) -> bool {
        true
    }
    /// What is wrong with hyper-parameters together, or with them in so many rounds; paths are names of hyper-parameters.
    fn rules(&self, rounds: u64) -> Vec<Breach> {
        Vec::new()
    }
    /// What a new client takes from the server before it is fine-tuned.
    ///
    /// # Errors
    /// A stage fault.
    fn adopt(&self, trainer: &mut Trainer<'_>, server: &Server<Self::Server>, client: &mut Client<Self::Client>) -> Outcome<()> {
        copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
        Ok(())
    }
}
