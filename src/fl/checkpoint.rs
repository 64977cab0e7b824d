//! Snapshots of a simulation after a round: what to write down, and how to continue bit for bit.
//!
//! A checkpoint is a sequence of named parts, one a client, of which only one has to be in memory at a time; each says whether it
//! changed, so that a store can leave alone those that did not.

use super::algorithm::Algorithm;
use super::intervention::Memory;
use super::parties::{Client, Server};
use super::rest::Resting;
use super::round::Books;
use super::state::{Load, Save, State, Visitor};
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome};
use crate::engine::Model;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The state after a round, all of it in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Rounds done.
    pub round: u64,
    /// `books`, `server`, `client/ID` and, where something intervenes, `interventions`, each with its bytes.
    pub parts: Vec<(String, Vec<u8>)>,
}

impl Snapshot {
    /// A snapshot of stored parts.
    ///
    /// # Errors
    /// A storage fault: the part that says how many rounds were done is missing or damaged.
    pub fn of(parts: Vec<(String, Vec<u8>)>) -> Outcome<Self> {
        let books = parts.iter().find(|(name, _)| name == "books").map_or(&[][..], |(_, bytes)| bytes);
        Ok(Self { round: rounds(books)?, parts })
    }
    /// A snapshot of everything that a checkpoint has.
    ///
    /// # Errors
    /// A storage fault from a part that is not in memory.
    pub fn collect(parts: &mut dyn Parts) -> Outcome<Self> {
        let mut snapshot = Self { round: parts.round(), parts: Vec::new() };
        parts.each(&mut |part| {
            snapshot.parts.push((part.name.to_owned(), (part.bytes)()?));
            Ok(())
        })?;
        Ok(snapshot)
    }
}

/// How many rounds were done, out of the part `books`.
///
/// # Errors
/// A storage fault: the part is missing (empty) or damaged.
pub fn rounds(books: &[u8]) -> Outcome<u64> {
    read_books(books).map(|books| books.round)
}

fn read_books(bytes: &[u8]) -> Outcome<Books> {
    serde_json::from_slice(bytes).map_err(|e| Fault::storage(format!("the checkpoint's books are damaged: {e}")))
}

/// A part of a checkpoint that is being taken.
pub struct Part<'a> {
    /// Its name, as in [`Snapshot::parts`].
    pub name: &'a str,
    /// Whether it may differ from what the last checkpoint has, or the one from which the run continued.
    pub changed: bool,
    /// Makes its bytes.
    pub bytes: &'a mut dyn FnMut() -> Outcome<Vec<u8>>,
}

/// A checkpoint that is being taken.
pub trait Parts {
    /// Rounds done.
    fn round(&self) -> u64;
    /// Shows every part, in a fixed order.
    ///
    /// # Errors
    /// The first fault of `take`, or a storage fault from a part that is not in memory.
    fn each(&mut self, take: &mut dyn FnMut(Part<'_>) -> Outcome<()>) -> Outcome<()>;
}

/// A checkpoint from which a run may continue.
pub trait Stored {
    /// Rounds done.
    fn round(&self) -> u64;
    /// The bytes of a part.
    ///
    /// # Errors
    /// A storage fault: there is no such part, or it is damaged.
    fn part(&self, name: &str) -> Outcome<Cow<'_, [u8]>>;
}

/// A snapshot whose parts are found by name.
pub(super) struct Indexed {
    round: u64,
    parts: BTreeMap<String, Vec<u8>>,
}

impl From<Snapshot> for Indexed {
    fn from(snapshot: Snapshot) -> Self {
        Self { round: snapshot.round, parts: snapshot.parts.into_iter().collect() }
    }
}

impl Stored for Indexed {
    fn round(&self) -> u64 {
        self.round
    }
    fn part(&self, name: &str) -> Outcome<Cow<'_, [u8]>> {
        self.parts.get(name).map(|bytes| Cow::Borrowed(&bytes[..])).ok_or_else(|| missing(name))
    }
}

/// The fault of a checkpoint without that part.
#[must_use]
pub fn missing(name: &str) -> Fault {
    Fault::storage(format!("the checkpoint lacks its part `{name}`"))
}

/// The state of a simulation, as parts.
pub(super) struct Taking<'a, A: Algorithm> {
    pub(super) round: u64,
    pub(super) algorithm: &'a A,
    pub(super) template: &'a Model,
    pub(super) resting: &'a Resting,
    pub(super) server: &'a mut Server<A::Server>,
    pub(super) clients: &'a mut [Client<A::Client>],
    pub(super) memories: &'a mut [Memory],
    pub(super) books: &'a Books,
}

impl<A: Algorithm> Parts for Taking<'_, A> {
    fn round(&self) -> u64 {
        self.round
    }
    fn each(&mut self, take: &mut dyn FnMut(Part<'_>) -> Outcome<()>) -> Outcome<()> {
        let (algorithm, template) = (self.algorithm, self.template);
        let books = Books { round: self.round, ..self.books.clone() };
        take(Part {
            name: "books",
            changed: true,
            bytes: &mut || Ok(serde_json::to_vec(&books).expect("counters and finite or absent numbers have a JSON form")),
        })?;
        let save = |visit: &mut dyn FnMut(&mut Save<'_>)| {
            let mut save = Save::new(template);
            visit(&mut save);
            Ok(save.bytes)
        };
        take(Part { name: "server", changed: true, bytes: &mut || save(&mut |save| self.server.visit(save)) })?;
        for client in self.clients.iter_mut() {
            let name = format!("client/{}", client.id);
            let changed = !client.rest.saved;
            take(Part { name: &name, changed, bytes: &mut || self.resting.part(algorithm, template, client) })?;
            // Whoever is awake may change without notice.
            client.rest.saved = client.rest.asleep;
        }
        if !self.memories.is_empty() {
            let mut visit = |save: &mut Save<'_>| self.memories.iter_mut().for_each(|memory| memory.visit(save));
            take(Part { name: "interventions", changed: true, bytes: &mut || save(&mut visit) })?;
        }
        Ok(())
    }
}

pub(super) fn restore<A: Algorithm>(
    stored: &dyn Stored,
    algorithm: &A,
    resting: &Resting,
    server: &mut Server<A::Server>,
    clients: &mut [Client<A::Client>],
    memories: &mut [Memory],
) -> Outcome<Books> {
    let template = server.global.clone();
    let bytes = stored.part("server")?;
    let mut load = Load::new(&template, &bytes);
    server.visit(&mut load);
    load.finish().at(|| "server")?;
    for client in clients {
        let name = format!("client/{}", client.id);
        let bytes = stored.part(&name)?;
        let mut load = Load::new(&template, &bytes);
        visit_client(algorithm, client, &mut load);
        load.finish().at(|| name)?;
        if resting.active {
            resting.lay_down(algorithm, &template, client)?;
            client.rest.saved = true;
        }
    }
    if !memories.is_empty() {
        let bytes = stored.part("interventions")?;
        let mut load = Load::new(&template, &bytes);
        memories.iter_mut().for_each(|memory| memory.visit(&mut load));
        load.finish().at(|| "interventions")?;
    }
    read_books(&stored.part("books")?)
}

/// Shows what survives a round at a client: of its model only what the next broadcast does not overwrite anyway.
pub(super) fn visit_client<A: Algorithm>(algorithm: &A, client: &mut Client<A::Client>, visitor: &mut dyn Visitor) {
    let model = &mut client.model;
    let net = model.net.clone();
    let entries = &net.layout().entries;
    if entries.iter().all(|e| algorithm.kept(e)) {
        visitor.model("model", model);
    } else {
        let kept = entries.iter().filter(|e| algorithm.kept(e));
        if let Some(packed) = &mut client.rest.packed {
            let (old, mut at) = (std::mem::take(packed), 0);
            for entry in kept {
                let end = at + entry.range.len();
                let mut values = old.get(at..end).unwrap_or_default().to_vec();
                visitor.vector(&entry.name, &mut values);
                packed.extend(values);
                at = end;
            }
        } else {
            for entry in kept {
                let mut values = model.params[entry.range.clone()].to_vec();
                visitor.vector(&entry.name, &mut values);
                // A visitor that only looks must not cut the vector off from those that share it.
                if values.len() == entry.range.len() && model.params[entry.range.clone()] != values {
                    model.params[entry.range.clone()].copy_from_slice(&values);
                }
            }
        }
        visitor.params("buffers", &mut model.buffers.values);
        for (i, counter) in model.buffers.counters.iter_mut().enumerate() {
            visitor.count(&format!("counter[{i}]"), counter);
        }
        let mut training = u64::from(model.training);
        visitor.count("training", &mut training);
        model.training = training != 0;
    }
    visitor.count("participations", &mut client.participations);
    visitor.number("seconds training", &mut client.seconds[0]);
    visitor.number("seconds sending", &mut client.seconds[1]);
    client.state.visit(visitor);
}
