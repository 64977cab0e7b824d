//! Snapshots of a simulation after a round: what to write down, and how to continue bit for bit.
//!
//! A snapshot is a list of named parts, one a client, so that a store can leave alone the parts that did not change.

use super::algorithm::Algorithm;
use super::intervention::Memory;
use super::parties::{Client, Server};
use super::round::Books;
use super::state::{Load, Save, State, Visitor};
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome};
use crate::engine::Model;

/// The state after a round.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let books: Books = serde_json::from_slice(books).map_err(|e| Fault::storage(format!("the checkpoint's books are damaged: {e}")))?;
        Ok(Self { round: books.round, parts })
    }
}

pub(super) fn take<A: Algorithm>(
    round: u64,
    algorithm: &A,
    template: &Model,
    server: &mut Server<A::Server>,
    clients: &mut [Client<A::Client>],
    memories: &mut [Memory],
    books: &Books,
) -> Snapshot {
    let books = Books { round, ..books.clone() };
    let books = serde_json::to_vec(&books).expect("counters and finite or absent numbers have a JSON form");
    let mut save = Save::new(template);
    server.visit(&mut save);
    let mut parts = vec![("books".to_owned(), books), ("server".to_owned(), save.bytes)];
    for client in clients {
        let mut save = Save::new(template);
        visit_client(algorithm, client, &mut save);
        parts.push((format!("client/{}", client.id), save.bytes));
    }
    if !memories.is_empty() {
        let mut save = Save::new(template);
        memories.iter_mut().for_each(|memory| memory.visit(&mut save));
        parts.push(("interventions".to_owned(), save.bytes));
    }
    Snapshot { round, parts }
}

pub(super) fn restore<A: Algorithm>(
    snapshot: &Snapshot,
    algorithm: &A,
    server: &mut Server<A::Server>,
    clients: &mut [Client<A::Client>],
    memories: &mut [Memory],
) -> Outcome<Books> {
    let part = |name: &str| {
        let found = snapshot.parts.iter().find(|(n, _)| n == name);
        found.map(|(_, bytes)| &bytes[..]).ok_or_else(|| Fault::storage(format!("the checkpoint lacks its part `{name}`")))
    };
    let template = server.global.clone();
    let mut load = Load::new(&template, part("server")?);
    server.visit(&mut load);
    load.finish().at(|| "server")?;
    for client in clients {
        let name = format!("client/{}", client.id);
        let mut load = Load::new(&template, part(&name)?);
        visit_client(algorithm, client, &mut load);
        load.finish().at(|| name)?;
    }
    if !memories.is_empty() {
        let mut load = Load::new(&template, part("interventions")?);
        memories.iter_mut().for_each(|memory| memory.visit(&mut load));
        load.finish().at(|| "interventions")?;
    }
    serde_json::from_slice(part("books")?).map_err(|e| Fault::storage(format!("the checkpoint's books are damaged: {e}")))
}

/// Shows what survives a round at a client: of its model only what the next broadcast does not overwrite anyway.
fn visit_client<A: Algorithm>(algorithm: &A, client: &mut Client<A::Client>, visitor: &mut dyn Visitor) {
    let model = &mut client.model;
    let net = model.net.clone();
    let entries = &net.layout().entries;
    if entries.iter().all(|e| algorithm.kept(e)) {
        visitor.model("model", model);
    } else {
        for entry in entries.iter().filter(|e| algorithm.kept(e)) {
            let mut values = model.params[entry.range.clone()].to_vec();
            visitor.vector(&entry.name, &mut values);
            if values.len() == entry.range.len() {
                model.params[entry.range.clone()].copy_from_slice(&values);
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
