//! The one round loop. An algorithm fills hooks and cannot change the order:
//!
//! ```text
//! setup; prepare (once)
//! for each round:
//!     draw the cohort
//!     evaluate, where the reference does so before receiving
//!     receive
//!     evaluate, where the reference does so after receiving
//!     train, upload
//!     evaluate, where the reference does so after training
//!     lose uploads, refuse late ones; let interventions act; aggregate; let interventions act; distribute
//! checkpoint
//! receive and evaluate once more; finish (and evaluate); new clients
//! ```

use super::algorithm::{Aggregation, Algorithm, Sends, When, Who};
use super::arena::{Arena, Phase, parallel, sorted};
use super::between::{self, Averaged};
use super::checkpoint::{self, Indexed, Parts, Snapshot, Stored, Taking};
use super::evaluate::{Evaluated, measure};
use super::history::{Evaluation, History, Status};
use super::intervention::{self, Memory, Needs, Place};
use super::meter::Work;
use super::newcomers;
use super::observe::Observable;
use super::parties::{Client, Server, Uploaded};
use super::rest::Resting;
use super::settings::TrainLoss;
use super::state::{Collect, Leaf};
use super::streams::Moment;
use super::trainer::Tally;
use super::world::World;
use crate::base::{Fault, FaultKind, Outcome};
use crate::engine::Model;
use crate::spec::rules::Breach;
use std::collections::BTreeMap;
use std::fs::File;

/// What surrounds a simulation: checkpoints, progress, interrupts, inspection. All but `stopping` have empty defaults.
#[expect(unused_variables, reason = "the defaults do nothing")]
pub trait Monitor {
    /// The state to continue from, if there is one.
    ///
    /// # Errors
    /// A storage fault.
    fn resume(&mut self) -> Outcome<Option<Snapshot>> {
        Ok(None)
    }
    /// The same, without all of it in memory; by default that of `resume`.
    ///
    /// # Errors
    /// A storage fault.
    fn stored(&mut self) -> Outcome<Option<Box<dyn Stored + '_>>> {
        Ok(self.resume()?.map(|snapshot| Box::new(Indexed::from(snapshot)) as Box<dyn Stored>))
    }
    /// A file for what has no room in memory; absent: everything stays there.
    ///
    /// # Errors
    /// A storage fault.
    fn shelf(&mut self) -> Outcome<Option<File>> {
        Ok(None)
    }
    /// A round is done.
    fn progress(&mut self, done: u64, total: u64, history: &History) {}
    /// Whether it is time for a checkpoint.
    fn checkpoint_due(&mut self) -> bool {
        false
    }
    /// Keeps a checkpoint.
    ///
    /// # Errors
    /// A storage fault.
    fn save(&mut self, snapshot: Snapshot) -> Outcome<()> {
        Ok(())
    }
    /// The same, part by part; by default what `save` gets.
    ///
    /// # Errors
    /// A storage fault.
    fn keep(&mut self, parts: &mut dyn Parts) -> Outcome<()> {
        self.save(Snapshot::collect(parts)?)
    }
    /// The state after the last round. What is returned becomes [`Simulated::last`]: everything by default, nothing where the monitor
    /// has kept it otherwise.
    ///
    /// # Errors
    /// A storage fault.
    fn conclude(&mut self, parts: &mut dyn Parts) -> Outcome<Snapshot> {
        Snapshot::collect(parts)
    }
    /// Whether to checkpoint and stop.
    fn stopping(&self) -> bool {
        false
    }
    /// Something worth knowing.
    fn note(&mut self, line: &str) {}
    /// Whether `inspect` wants to be called.
    fn inspects(&self) -> bool {
        false
    }
    /// The state at the end of a round (0: before the first), after everything that the round does.
    fn inspect(&mut self, round: u64, parties: &Parties) {}
}

/// A monitor that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Monitor for Quiet {}

/// The named leaves of all parties.
#[derive(Clone, Debug)]
pub struct Parties {
    /// The server's leaves; the global model is `global`.
    pub server: Vec<(String, Leaf)>,
    /// Each client's leaves; its model is `model`.
    pub clients: Vec<Vec<(String, Leaf)>>,
}

/// What a simulation leaves behind.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The measurements.
    pub history: History,
    /// The global model.
    pub global: Model,
    /// The state after the last round, from which more rounds may continue.
    pub last: Snapshot,
}

/// An algorithm ready to run, without its types.
pub trait Simulation: Observable + Send + Sync {
    /// Runs the whole simulation.
    ///
    /// # Errors
    /// A stage fault from a hook, a storage fault from the monitor, or `Interrupted`.
    fn simulate(&self, world: &World, monitor: &mut dyn Monitor) -> Outcome<Simulated>;
    /// Whether the number of rounds enters the updates.
    fn horizon(&self) -> bool;
    /// Whether clients that take no part in a round rest.
    fn rests(&self) -> bool;
    /// What the clients send.
    fn sends(&self) -> Sends;
    /// Whether clients may join after the last round.
    fn welcomes(&self) -> bool;
    /// Whether a round trains a client for the usual passes.
    fn usual_passes(&self) -> bool;
    /// What its training does with samples beside taking plain gradients.
    fn beside_gradients(&self) -> Option<&'static str>;
    /// What is wrong with its hyper-parameters together in so many rounds.
    fn rules(&self, rounds: u64) -> Vec<Breach>;
}

impl<A: Algorithm> Simulation for A {
    fn simulate(&self, world: &World, monitor: &mut dyn Monitor) -> Outcome<Simulated> {
        Run::start(self, world, monitor)?.finish()
    }
    fn horizon(&self) -> bool {
        Algorithm::horizon(self)
    }
    fn rests(&self) -> bool {
        Algorithm::rests(self)
    }
    fn sends(&self) -> Sends {
        Algorithm::sends(self)
    }
    fn welcomes(&self) -> bool {
        Algorithm::welcomes(self)
    }
    fn usual_passes(&self) -> bool {
        Algorithm::usual_passes(self)
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Algorithm::beside_gradients(self)
    }
    fn rules(&self, rounds: u64) -> Vec<Breach> {
        Algorithm::rules(self, rounds)
    }
}

/// A simulation under way.
pub(super) struct Run<'a, A: Algorithm> {
    pub(super) algorithm: &'a A,
    pub(super) world: &'a World,
    pub(super) monitor: &'a mut dyn Monitor,
    pub(super) server: Server<A::Server>,
    pub(super) clients: Vec<Client<A::Client>>,
    /// How clients rest that take no part.
    pub(super) resting: Resting,
    /// What each intervention remembers.
    pub(super) memories: Vec<Memory>,
    /// The layers between which interventions act; absent where none does.
    pub(super) averaged: Option<Averaged>,
    pub(super) books: Books,
    pub(super) round: u64,
}

/// What is counted along the way; part of every checkpoint.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Books {
    /// Rounds done when the books were written down.
    pub(super) round: u64,
    pub(super) history: History,
    pub(super) floats_down: u64,
    pub(super) floats_up: u64,
    pub(super) gradients: u64,
    /// Loss sum and rows of the last round's training.
    pub(super) running: (f64, u64),
    /// Rounds in which no client trained on any sample.
    #[serde(default, skip_serializing_if = "nothing")]
    pub(super) idle: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn nothing(n: &u64) -> bool {
    *n == 0
}

impl<'a, A: Algorithm> Run<'a, A> {
    pub(super) fn start(algorithm: &'a A, world: &'a World, monitor: &'a mut dyn Monitor) -> Outcome<Self> {
        if !world.interventions.is_empty() {
            intervention::check(world, A::describe().name, algorithm.sends())?;
        }
        if !world.newcomers.is_empty()
            && let Some(fault) = newcomers::refusal(A::describe().name, algorithm.welcomes())
        {
            return Err(fault);
        }
        if let Some(breach) = algorithm.rules(world.settings.rounds).into_iter().find(|breach| !breach.warns) {
            return Err(breach.fault);
        }
        let mut server = Server { global: world.initial.clone(), state: A::Server::default() };
        let mut clients: Vec<_> = (0..world.clients()).map(|id| Client::new(id, world.initial.clone())).collect();
        algorithm.setup(world, &mut server, &mut clients)?;
        let mut books = Books::default();
        books.history.headline = algorithm.views().last().copied().unwrap_or_default().to_owned();
        books.history.attackers = world.attackers();
        let memories = vec![Memory::default(); world.interventions.len()];
        let acting = world.interventions.iter().any(|intervention| intervention.needs() != Needs::Nothing);
        let averaged = acting.then(|| Averaged::of(algorithm, world));
        let resting = Resting::of(algorithm, world, monitor)?;
        let mut run = Self { algorithm, world, monitor, server, clients, resting, memories, averaged, books, round: 0 };
        if !run.resume()? {
            let mut arena = run.arena(0, &[], Phase::Prepare);
            algorithm.prepare(&mut arena)?;
            let tally = arena.tally;
            run.books.gradients += tally.gradients;
            run.lay_down()?;
            run.inspect();
        }
        Ok(run)
    }

    /// Continues from what the monitor has, if it has something.
    fn resume(&mut self) -> Outcome<bool> {
        let Some(stored) = self.monitor.stored()? else { return Ok(false) };
        if stored.round() > self.world.settings.rounds {
            return Ok(false);
        }
        let (server, clients, memories) = (&mut self.server, &mut self.clients, &mut self.memories);
        self.books = checkpoint::restore(&*stored, self.algorithm, &self.resting, server, clients, memories)?;
        self.round = stored.round();
        Ok(true)
    }

    fn finish(mut self) -> Outcome<Simulated> {
        let rounds = self.world.settings.rounds;
        while self.round < rounds && self.books.history.status == Status::Completed {
            if self.monitor.stopping() {
                self.checkpoint()?;
                return Err(Fault::new(FaultKind::Interrupted, format!("stopped after round {} of {rounds}", self.round)));
            }
            self.one_round()?;
            self.round += 1;
            self.lay_down()?;
            self.inspect();
            self.monitor.progress(self.round, rounds, &self.books.history);
            if self.monitor.checkpoint_due() && self.round < rounds {
                self.checkpoint()?;
            }
        }
        let last = self.taking(|monitor, parts| monitor.conclude(parts))?;
        if self.books.history.status == Status::Completed {
            self.after_the_last_round()?;
        }
        // Gradients beside the training, such as those of a merge, are no training.
        let gradients = self.books.history.evaluations.last().is_some_and(|last| last.gradient_evaluations > 0);
        self.books.history.untrained = rounds > 0 && self.books.idle == rounds && gradients;
        if let Some(caveat) = self.books.history.caveat() {
            self.monitor.note(caveat);
        }
        Ok(Simulated { history: self.books.history, global: self.server.global, last })
    }

    pub(super) fn one_round(&mut self) -> Outcome<()> {
        let (algorithm, world, round) = (self.algorithm, self.world, self.round);
        let settings = &world.settings;
        let nominal = settings.nominal_cohort(world.clients());
        let most = if settings.random_join_ratio { world.clients() } else { nominal };
        let cohort = world.streams.cohort(round, world.clients(), nominal, most);
        let due = round.is_multiple_of(settings.eval_every);

        self.evaluate(When::BeforeReceive, round, due, &cohort)?;
        self.receive(round, &cohort)?;
        self.evaluate(When::AfterReceive, round, due, &cohort)?;
        let down: u64 = cohort.iter().map(|id| algorithm.down(world, &self.server, &self.clients[*id])).sum();

        let mut arena = self.arena(round, &cohort, Phase::Train);
        let uploads = world.meter.time(Work::Train, || algorithm.train_phase(&mut arena))?;
        let tally = arena.tally;
        self.train_accounts(tally, &cohort);
        for (intervention, memory) in world.interventions.iter().zip(&mut self.memories) {
            intervention.trained(world, round, &cohort, memory)?;
        }
        let mut uploads = self.accept(uploads, &cohort)?;
        // Of the whole round, also where an evaluation follows the training.
        self.books.floats_down += down;
        self.books.floats_up += uploads.iter_mut().map(|upload| algorithm.up(world, &mut upload.extra)).sum::<u64>();
        let done = round + 1;
        self.evaluate(When::AfterTraining, done, done.is_multiple_of(settings.eval_every) || done == settings.rounds, &cohort)?;

        world.meter.time(Work::Aggregate, || self.second_half(uploads, &cohort, nominal, tally.loss))
    }

    /// What the server does with the uploads, until everybody has what it sends.
    fn second_half(&mut self, mut uploads: Vec<Uploaded<A::Upload>>, cohort: &[usize], nominal: usize, loss: f64) -> Outcome<()> {
        let (algorithm, world, round) = (self.algorithm, self.world, self.round);
        let (settings, done) = (&world.settings, round + 1);
        let mut context = Aggregation { round, rounds: settings.rounds, clients: world.clients(), nominal, cohort };
        let arrived = uploads.len();
        if let Some(averaged) = self.averaged.as_ref().filter(|_| arrived > 0) {
            between::sent(averaged, world, &mut self.memories, &context, &self.server.global, &mut uploads, Place::Secure)?;
            // What is refused was never asked for: sums that are divided by a constant count stay means.
            context.nominal = nominal.saturating_sub(arrived - uploads.len()).max(1);
        }
        if uploads.is_empty() {
            let why = if arrived == 0 { "no upload arrived" } else { "every upload was refused" };
            self.note(format!("round {}: {why}, so the server kept its state", round + 1));
        } else {
            let before = self.averaged.is_some().then(|| self.server.global.clone());
            let mut arena = self.arena(round, cohort, Phase::Aggregate);
            arena.serve(|trainer, server| algorithm.aggregate(trainer, server, &uploads, &context))?;
            let tally = arena.tally;
            self.books.gradients += tally.gradients;
            if let Some((averaged, before)) = self.averaged.as_ref().zip(before) {
                between::aggregated(averaged, world, &mut self.memories, &context, &before, &mut self.server.global)?;
            }
            let mut arena = self.arena(round, cohort, Phase::Distribute);
            algorithm.distribute(&mut arena, &uploads)?;
            let tally = arena.tally;
            self.books.gradients += tally.gradients;
        }
        let finite = loss.is_finite() && self.server.global.params.iter().all(|v| v.is_finite());
        if !finite {
            self.books.history.status = Status::Diverged { round: done };
            self.note(format!("round {done}: a loss or a parameter is no longer finite"));
        }
        Ok(())
    }

    fn after_the_last_round(&mut self) -> Outcome<()> {
        let (algorithm, rounds) = (self.algorithm, self.round);
        if algorithm.evaluates() == When::AfterReceive {
            self.receive(rounds, &[])?;
        }
        if algorithm.evaluates() != When::AfterTraining {
            self.evaluate(algorithm.evaluates(), rounds, true, &[])?;
        }
        let mut arena = self.arena(rounds, &[], Phase::Finish);
        let worked = algorithm.finish(&mut arena)?;
        let tally = arena.tally;
        self.books.gradients += tally.gradients;
        if worked {
            self.evaluate(algorithm.evaluates(), rounds, true, &[])?;
            if let Some(last) = self.books.history.evaluations.last_mut() {
                last.finished = true;
            }
            self.inspect();
        }
        self.books.history.newcomers = newcomers::join(algorithm, self.world, &self.server, rounds)?;
        Ok(())
    }

    pub(super) fn arena<'b>(&'b mut self, round: u64, cohort: &'b [usize], phase: Phase) -> Arena<'b, A> {
        Arena {
            world: self.world,
            server: &mut self.server,
            clients: &mut self.clients,
            round,
            cohort,
            algorithm: self.algorithm,
            resting: &self.resting,
            phase,
            calls: 0,
            tally: Tally::default(),
        }
    }

    pub(super) fn receive(&mut self, round: u64, cohort: &[usize]) -> Outcome<()> {
        let (algorithm, world) = (self.algorithm, self.world);
        let mut arena = self.arena(round, cohort, Phase::Receive);
        // Those that rest receive when they wake.
        let who = if arena.resting.active && algorithm.receives() == Who::All { Who::Cohort } else { algorithm.receives() };
        let ids = arena.ids(who);
        world.meter.time(Work::Receive, || arena.each(&ids, |trainer, server, client| algorithm.receive(trainer, server, client)))?;
        let tally = arena.tally;
        self.books.gradients += tally.gradients;
        Ok(())
    }

    pub(super) fn evaluate(&mut self, when: When, round: u64, due: bool, cohort: &[usize]) -> Outcome<()> {
        if self.algorithm.evaluates() != when {
            return Ok(());
        }
        let (algorithm, world) = (self.algorithm, self.world);
        if due {
            let mut arena = self.arena(round, cohort, Phase::Evaluate);
            let Evaluated { views, validation, train_loss: full, threat } =
                world.meter.time(Work::Evaluate, || measure(algorithm, &mut arena))?;
            let (sum, rows) = self.books.running;
            let running = (rows > 0).then(|| sum / rows as f64);
            let train_loss = match self.world.settings.train_loss {
                TrainLoss::Full => full,
                TrainLoss::Running => running,
                TrainLoss::Off => None,
            };
            self.books.history.evaluations.push(Evaluation {
                round,
                finished: false,
                views,
                train_loss,
                floats_down: self.books.floats_down,
                floats_up: self.books.floats_up,
                gradient_evaluations: self.books.gradients,
                threat,
                validation,
                figures: self.figures(round),
            });
        } else {
            let mut arena = self.arena(round, cohort, Phase::Evaluate);
            let ids: Vec<usize> = arena.clients.iter().filter(|client| !client.rest.asleep).map(|client| client.id).collect();
            arena.each(&ids, |trainer, server, client| algorithm.before_evaluation(trainer, server, client, false))?;
        }
        // Measured or not, evaluating leaves its mark, so that results do not depend on how often it is done.
        for client in &mut self.clients {
            if client.rest.asleep { client.rest.mark() } else { algorithm.evaluation_effect(client) }
        }
        Ok(())
    }

    /// What interventions say of the rounds so far.
    fn figures(&self, round: u64) -> BTreeMap<String, f64> {
        let said = self.world.interventions.iter().zip(&self.memories).flat_map(|(i, memory)| i.figures(self.world, round, memory));
        said.filter(|(_, value)| value.is_finite()).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Books the training phase: participations, simulated seconds, loss.
    pub(super) fn train_accounts(&mut self, tally: Tally, cohort: &[usize]) {
        let (world, round) = (self.world, self.round);
        self.books.gradients += tally.gradients;
        self.books.idle += u64::from(tally.rows == 0);
        self.books.running = if tally.loss.is_finite() { (tally.loss, tally.rows) } else { (0.0, 0) };
        for id in sorted(cohort) {
            let client = &mut self.clients[id];
            client.rest.saved = false;
            let at = Moment { client: id as u64, round, pass: 0 };
            let size = world.settings.batch_size;
            let batches =
                world.clock.epochs(world.streams.as_ref(), at, world.settings.local_epochs) * (world.shards[id].train.len() / size) as u64;
            client.participations += 1;
            client.seconds[0] += world.clock.training(world.streams.as_ref(), at, batches);
            client.seconds[1] += world.clock.sending(id);
        }
    }

    /// The uploads that arrive in time, in the order of ids, with their weights.
    pub(super) fn accept(&mut self, uploads: Vec<Uploaded<A::Upload>>, cohort: &[usize]) -> Outcome<Vec<Uploaded<A::Upload>>> {
        let settings = &self.world.settings;
        let arriving = self.world.streams.accepted(self.round, cohort.len(), settings.arriving(cohort.len()));
        let arrived: Vec<usize> = arriving.iter().map(|position| cohort[*position]).collect();
        let mut accepted: Vec<_> = uploads
            .into_iter()
            .filter(|upload| arrived.contains(&upload.client))
            .filter(|upload| {
                let client = &self.clients[upload.client];
                let mean = (client.seconds[0] + client.seconds[1]) / client.participations.max(1) as f64;
                settings.time_threshold.is_none_or(|most| mean <= most)
            })
            .collect();
        let total: usize = accepted.iter().map(|upload| upload.samples).sum();
        if total == 0 && !accepted.is_empty() {
            return Err(Fault::stage("no client in the round has a training sample").help("give the clients more samples in the partition"));
        }
        for upload in &mut accepted {
            upload.weight = upload.samples as f64 / total as f64;
        }
        Ok(accepted)
    }

    fn note(&mut self, line: String) {
        self.monitor.note(&line);
        self.books.history.notes.push(line);
    }

    /// Puts everybody to rest who is awake.
    pub(super) fn lay_down(&mut self) -> Outcome<()> {
        if !self.resting.active {
            return Ok(());
        }
        let (algorithm, world, resting) = (self.algorithm, self.world, &self.resting);
        let awake: Vec<&mut Client<A::Client>> = self.clients.iter_mut().filter(|client| !client.rest.asleep).collect();
        let lay_down = |client: &mut Client<A::Client>| resting.lay_down(algorithm, &world.initial, client);
        world.meter.time(Work::Rest, || parallel(world, awake, |_| 1, |_, client| lay_down(client)).into_iter().collect())
    }

    pub(super) fn checkpoint(&mut self) -> Outcome<()> {
        self.taking(|monitor, parts| monitor.keep(parts))
    }

    fn taking<R>(&mut self, take: impl FnOnce(&mut dyn Monitor, &mut dyn Parts) -> Outcome<R>) -> Outcome<R> {
        let mut parts = Taking {
            round: self.round,
            algorithm: self.algorithm,
            template: &self.world.initial,
            resting: &self.resting,
            server: &mut self.server,
            clients: &mut self.clients,
            memories: &mut self.memories,
            books: &self.books,
        };
        self.world.meter.time(Work::Checkpoint, || take(self.monitor, &mut parts))
    }

    fn inspect(&mut self) {
        if !self.monitor.inspects() {
            return;
        }
        let collect = |visit: &mut dyn FnMut(&mut Collect)| {
            let mut collect = Collect::new(&self.world.initial);
            visit(&mut collect);
            collect.leaves
        };
        let server = collect(&mut |v| self.server.visit(v));
        let clients = self
            .clients
            .iter_mut()
            .map(|client| {
                collect(&mut |v| {
                    super::state::Visitor::model(v, "model", &mut client.model);
                    super::state::State::visit(&mut client.state, v);
                })
            })
            .collect();
        self.monitor.inspect(self.round, &Parties { server, clients });
    }
}
