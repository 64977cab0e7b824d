//! All parties in one phase of a round, and the way to let many clients work at once.

use super::algorithm::{Algorithm, Who};
use super::parties::{Client, Server, Uploaded};
use super::rest::Resting;
use super::streams::Moment;
use super::trainer::{Tally, Trainer};
use super::world::{Worker, World};
use crate::base::{Fault, Outcome};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The phases of a simulation; each has its own random streams, so that evaluating more often changes nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prepare,
    Receive,
    Train,
    Aggregate,
    Distribute,
    Evaluate,
    Finish,
    Adopt,
}

/// Server and clients in one phase.
pub struct Arena<'a, A: Algorithm> {
    /// What everybody shares.
    pub world: &'a World,
    /// The server.
    pub server: &'a mut Server<A::Server>,
    /// All clients by id.
    pub clients: &'a mut [Client<A::Client>],
    /// The round, from 0.
    pub round: u64,
    /// The round's cohort in the order drawn.
    pub cohort: &'a [usize],
    pub(super) algorithm: &'a A,
    pub(super) resting: &'a Resting,
    pub(super) phase: Phase,
    pub(super) calls: u64,
    pub(super) tally: Tally,
}

/// What a client does in a phase; the first argument is its place among those that do.
type Work<'w, A> =
    dyn Fn(usize, &mut Trainer<'_>, &Server<<A as Algorithm>::Server>, &mut Client<<A as Algorithm>::Client>) -> Outcome<()> + Sync + 'w;

impl<'a, A: Algorithm> Arena<'a, A> {
    /// The ids of a group in ascending order.
    #[must_use]
    pub fn ids(&self, who: Who) -> Vec<usize> {
        match who {
            Who::All => (0..self.clients.len()).collect(),
            Who::Cohort => sorted(self.cohort),
            Who::None => Vec::new(),
        }
    }

    /// Lets the clients with these ascending ids work, as many at once as there are idle threads; the results stand in the order of
    /// `ids`. Clients with many samples start first, so that none of them is left alone at the end.
    ///
    /// # Errors
    /// The fault of the first client in id order that has one.
    pub fn each<R: Send>(
        &mut self,
        ids: &[usize],
        work: impl Fn(&mut Trainer<'_>, &Server<A::Server>, &mut Client<A::Client>) -> Outcome<R> + Sync,
    ) -> Outcome<Vec<R>> {
        let results: Vec<Mutex<Option<R>>> = ids.iter().map(|_| Mutex::new(None)).collect();
        self.visit(ids, &|place, trainer, server, client| {
            let result = work(trainer, server, client)?;
            *results[place].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            Ok(())
        })?;
        Ok(results.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
    }

    /// [`Arena::each`] for work that keeps its own results, by the place of the client in `ids`. It is compiled once an algorithm.
    fn visit(&mut self, ids: &[usize], work: &Work<'_, A>) -> Outcome<()> {
        let (world, server, round, cohort) = (self.world, &*self.server, self.round, self.cohort);
        let (algorithm, resting, phase) = (self.algorithm, self.resting, self.phase);
        let first_pass = pass_base(self.phase, self.calls);
        let trains = matches!(self.phase, Phase::Prepare | Phase::Receive | Phase::Train);
        self.calls += 1;
        let mut jobs = Vec::with_capacity(ids.len());
        let mut wanted = ids.iter().peekable();
        for client in self.clients.iter_mut() {
            if wanted.next_if(|id| **id == client.id).is_some() {
                jobs.push((jobs.len(), client));
            }
        }
        let costs: Vec<usize> = jobs.iter().map(|(_, client)| world.shard(client.id).train.len()).collect();
        resting.expect(|| dear_first(&costs).into_iter().map(|place| &jobs[place].1.rest));
        let done = parallel(
            world,
            jobs,
            |(place, _)| costs[*place],
            |worker, (place, client)| {
                let at = Moment { client: client.id as u64, round, pass: first_pass };
                let position = cohort.iter().position(|id| *id == client.id);
                let done = |client: &mut Client<A::Client>, worker: &mut Worker| {
                    let mut trainer = trainer(world, worker, at, client.participations, position);
                    trainer.trains = trains;
                    work(place, &mut trainer, server, client)?;
                    Ok(trainer.tally)
                };
                if !client.rest.asleep {
                    return done(client, worker);
                }
                // An evaluation leaves a resting client as it is; everything else wakes it until the end of the round.
                let mut copy = None;
                let measured = phase == Phase::Evaluate;
                let client = if measured { copy.insert(client.clone()) } else { client };
                resting.wake(algorithm, &world.initial, &server.global, client, measured)?;
                if phase != Phase::Receive && algorithm.receives() == Who::All {
                    let at = Moment { pass: pass_base(Phase::Receive, 0), ..at };
                    algorithm.receive(&mut trainer(world, worker, at, client.participations, position), server, client)?;
                }
                done(client, worker)
            },
        );
        for (outcome, id) in done.into_iter().zip(ids) {
            self.tally.add(outcome.map_err(|fault: Fault| fault.in_place(&format!("client {id}")))?);
        }
        Ok(())
    }

    /// The default training phase: local updates, then the uploads of the cohort in the order of ids.
    ///
    /// # Errors
    /// The fault of the first client in id order that has one.
    pub fn train(&mut self, algorithm: &A) -> Outcome<Vec<Uploaded<A::Upload>>> {
        let ids = self.ids(algorithm.trains());
        let (world, resting) = (self.world, self.resting);
        let uploads = self.each(&ids, |trainer, server, client| {
            algorithm.local_update(trainer, server, client)?;
            if trainer.position().is_none() {
                return Ok(None);
            }
            let extra = algorithm.upload(trainer, server, client)?;
            let upload = Uploaded { client: client.id, samples: trainer.samples(), weight: 0.0, model: client.model.clone(), extra };
            if resting.soon {
                resting.lay_down(algorithm, &world.initial, client)?;
            }
            Ok(Some(upload))
        })?;
        Ok(uploads.into_iter().flatten().collect())
    }

    /// Work of the server itself.
    ///
    /// # Errors
    /// The fault of `work`.
    pub fn serve<R>(&mut self, work: impl FnOnce(&mut Trainer<'_>, &mut Server<A::Server>) -> Outcome<R>) -> Outcome<R> {
        let mut worker = self.world.worker();
        let at = Moment { client: Moment::SERVER, round: self.round, pass: pass_base(self.phase, self.calls) };
        self.calls += 1;
        let mut trainer = trainer(self.world, &mut worker, at, 0, None);
        let result = work(&mut trainer, self.server);
        self.tally.gradients += trainer.tally.gradients;
        self.world.give_back(worker);
        result
    }
}

pub(super) fn sorted(ids: &[usize]) -> Vec<usize> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

fn pass_base(phase: Phase, calls: u64) -> u64 {
    ((phase as u64) << 48) | (calls << 32)
}

pub(super) fn trainer<'a>(
    world: &'a World,
    worker: &'a mut Worker,
    at: Moment,
    participations: u64,
    position: Option<usize>,
) -> Trainer<'a> {
    let settings = &world.settings;
    let mut rate = settings.learning_rate;
    if let Some(gamma) = settings.learning_rate_decay {
        // The reference multiplies once a participation; a power would round differently.
        for _ in 0..participations {
            rate *= gamma;
        }
    }
    let epochs = world.clock.epochs(world.streams.as_ref(), Moment { pass: 0, ..at }, settings.local_epochs);
    worker.engine.draw_from(world.streams.dropout(at));
    Trainer {
        world,
        worker,
        at,
        first_pass: at.pass,
        steps: 0,
        trains: false,
        rewound: false,
        batch_gradients: 0,
        epochs,
        rate,
        position,
        tally: Tally::default(),
    }
}

/// Runs `work` on every job, on this thread and on as many more as the budget has idle; the results stand in the order of `jobs`.
pub(super) fn parallel<J: Send, R: Send>(
    world: &World,
    jobs: Vec<J>,
    cost: impl Fn(&J) -> usize,
    work: impl Fn(&mut Worker, J) -> R + Sync,
) -> Vec<R> {
    let costs: Vec<usize> = jobs.iter().map(cost).collect();
    let slots: Vec<Mutex<(Option<J>, Option<R>)>> = jobs.into_iter().map(|job| Mutex::new((Some(job), None))).collect();
    spread(world, &costs, &|worker, i| {
        let job = slots[i].lock().unwrap_or_else(PoisonError::into_inner).0.take();
        if let Some(job) = job {
            let result = work(worker, job);
            slots[i].lock().unwrap_or_else(PoisonError::into_inner).1 = Some(result);
        }
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

/// The places of the costs, the greatest first.
fn dear_first(costs: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(costs[*i]));
    order
}

/// Calls `work` with every number below that of `costs`, dear ones first. The algorithms' many kinds of work share this one function:
/// threads and sorting compiled for each of them were a third of the library.
fn spread(world: &World, costs: &[usize], work: &(dyn Fn(&mut Worker, usize) + Sync)) {
    let order = dear_first(costs);
    let next = AtomicUsize::new(0);
    let run = || {
        let mut worker = world.worker();
        while let Some(i) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(&mut worker, *i);
        }
        world.give_back(worker);
    };
    // A thread opens the device anew, which takes longer than a round.
    let most = if world.compute.is_a_device() { 0 } else { costs.len() };
    world.budget.spread(most, run);
}
