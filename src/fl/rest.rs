//! Clients at rest: what is kept of a client between two uses, in memory or on a shelf.
//!
//! A client that takes no part in a round is left alone if its algorithm allows it ([`Algorithm::rests`]): of its model only what is
//! `kept` stays in memory, and it receives when it is next used. What is beyond the limit of memory lies on the [`Shelf`].
//! Neither changes a number.

use super::algorithm::{Algorithm, When, Who};
use super::checkpoint::visit_client;
use super::footprint::{Empty, Weigh};
use super::parties::Client;
use super::round::Monitor;
use super::shelf::{Shelf, Slot};
use super::state::{Load, Save};
use super::world::World;
use crate::base::Outcome;
use crate::base::fault::Placed;
use crate::engine::Model;
use std::sync::atomic::{AtomicU64, Ordering};

/// Smaller states stay in memory: writing them would free next to nothing. Vectors that are shared count for little.
const WORTH_A_PLACE: u64 = 256;

/// How a client rests. The default is a client that does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    /// Whether it has yet to receive, and whether the other fields mean anything.
    pub(super) asleep: bool,
    /// What is kept of its model's parameters, entry after entry; absent where the model is whole.
    pub(super) packed: Option<Vec<f32>>,
    /// Where its state lies, if not in memory.
    away: Option<Slot>,
    /// Whether evaluations have left their mark that is not applied yet.
    effect_due: bool,
    /// Whether its part of the last checkpoint says what it is now.
    pub(super) saved: bool,
    /// Bytes of memory that it was counted with.
    weight: u64,
}

impl Rest {
    /// An evaluation has passed over the client in its sleep.
    pub(super) fn mark(&mut self) {
        self.saved &= self.effect_due;
        self.effect_due = true;
    }
}

/// Puts clients to rest and wakes them.
pub(super) struct Resting {
    /// Whether clients rest at all.
    pub(super) active: bool,
    /// Whether they rest as soon as they have sent: nothing in the rest of a round looks at what is not `kept`.
    pub(super) soon: bool,
    shelf: Option<Shelf>,
    limit: u64,
    held: AtomicU64,
}

impl Resting {
    /// Decides whether clients rest. An inspecting monitor looks at everybody after every round, so that there nobody does.
    pub(super) fn of<A: Algorithm>(algorithm: &A, world: &World, monitor: &mut dyn Monitor) -> Outcome<Self> {
        let whole = world.layout().entries.iter().all(|entry| algorithm.kept(entry));
        let early = algorithm.evaluates() == When::BeforeReceive && !whole;
        let active = algorithm.rests() && algorithm.trains() != Who::All && !early && !monitor.inspects();
        // A model that is kept whole is shared with its upload, and would be weighed as if half of it stayed.
        let soon = active && !whole && algorithm.evaluates() != When::AfterTraining;
        let shelf = if active && world.memory.is_some() { monitor.shelf()?.map(Shelf::new).transpose()? } else { None };
        Ok(Self { active, soon, shelf, limit: world.memory.unwrap_or(u64::MAX), held: AtomicU64::new(0) })
    }

    /// Says which clients will be woken next, in this order, so that those on the shelf are read ahead. Without a shelf nobody asks.
    pub(super) fn expect<'a, I: Iterator<Item = &'a Rest>>(&self, clients: impl FnOnce() -> I) {
        if let Some(shelf) = &self.shelf {
            shelf.expect(clients().filter_map(|rest| rest.away.clone()).collect());
        }
    }

    /// Makes a client whole again, but for what it still has to receive. With `copy`, it is a copy that is used once and dropped: the
    /// original goes on resting.
    pub(super) fn wake<A: Algorithm>(
        &self,
        algorithm: &A,
        template: &Model,
        global: &Model,
        client: &mut Client<A::Client>,
        copy: bool,
    ) -> Outcome<()> {
        self.fetch(algorithm, template, client)?;
        if let Some(slot) = client.rest.away.take()
            && !copy
            && let Some(shelf) = &self.shelf
        {
            shelf.free(slot);
        }
        if !copy {
            self.held.fetch_sub(client.rest.weight, Ordering::Relaxed);
        }
        if let Some(packed) = client.rest.packed.take() {
            let model = &mut client.model;
            model.params = global.params.clone();
            let net = model.net.clone();
            let mut rest = &packed[..];
            for entry in net.layout().entries.iter().filter(|entry| algorithm.kept(entry)) {
                let (own, others) = rest.split_at(entry.range.len());
                model.params[entry.range.clone()].copy_from_slice(own);
                rest = others;
            }
        }
        let effect_due = client.rest.effect_due;
        client.rest = Rest::default();
        if effect_due {
            algorithm.evaluation_effect(client);
        }
        Ok(())
    }

    /// Puts a client to rest after its use. What is counted of its participation may still change.
    pub(super) fn lay_down<A: Algorithm>(&self, algorithm: &A, template: &Model, client: &mut Client<A::Client>) -> Outcome<()> {
        let untouched = client.model.params.ptr_eq(&template.params);
        let net = client.model.net.clone();
        let entries = &net.layout().entries;
        if !untouched && !entries.iter().all(|entry| algorithm.kept(entry)) {
            let kept = entries.iter().filter(|entry| algorithm.kept(entry));
            client.rest.packed = Some(kept.flat_map(|entry| &client.model.params[entry.range.clone()]).copied().collect());
            client.model.params = template.params.clone();
        }
        client.rest.asleep = true;
        let mut weigh = Weigh::new(template);
        visit_client(algorithm, client, &mut weigh);
        let weight = weigh.bytes;
        let held = self.held.fetch_add(weight, Ordering::Relaxed) + weight;
        let Some(shelf) = self.shelf.as_ref().filter(|_| held > self.limit && weight >= WORTH_A_PLACE) else {
            client.rest.weight = weight;
            return Ok(());
        };
        self.held.fetch_sub(weight, Ordering::Relaxed);
        // Names and lengths take less than an eighth of vectors that are worth writing.
        let sheet = shelf.sheet((weight + weight / 8) as usize).written(|bytes| {
            let mut save = Save::after(template, bytes);
            visit_client(algorithm, client, &mut save);
            save.bytes
        });
        let slot = shelf.put(client.id, sheet)?;
        visit_client(algorithm, client, &mut Empty::new(template));
        client.rest.away = Some(slot);
        Ok(())
    }

    /// The client's part of a checkpoint.
    pub(super) fn part<A: Algorithm>(&self, algorithm: &A, template: &Model, client: &mut Client<A::Client>) -> Outcome<Vec<u8>> {
        let bytes = |client: &mut Client<A::Client>| {
            let mut save = Save::new(template);
            visit_client(algorithm, client, &mut save);
            save.bytes
        };
        if client.rest.away.is_none() {
            // It stays due, which changes nothing more: so the part stays what it is while evaluations go on.
            if client.rest.effect_due {
                algorithm.evaluation_effect(client);
            }
            return Ok(bytes(client));
        }
        let mut copy = client.clone();
        self.fetch(algorithm, template, &mut copy)?;
        if copy.rest.effect_due {
            algorithm.evaluation_effect(&mut copy);
        }
        Ok(bytes(&mut copy))
    }

    /// Brings the numbers of a client back from the shelf, where they stay. What is counted of it never left.
    fn fetch<A: Algorithm>(&self, algorithm: &A, template: &Model, client: &mut Client<A::Client>) -> Outcome<()> {
        let Some((slot, shelf)) = client.rest.away.as_ref().zip(self.shelf.as_ref()) else { return Ok(()) };
        let sheet = shelf.get(slot)?;
        let (participations, seconds) = (client.participations, client.seconds);
        let mut load = Load::new(template, sheet.content());
        visit_client(algorithm, client, &mut load);
        (client.participations, client.seconds) = (participations, seconds);
        let done = load.finish();
        shelf.done_with(sheet);
        done.at(|| format!("client {}", client.id))
    }
}
