//! The parties: server, clients, and what a client uploads.

use super::rest::Rest;
use super::state::{State, Visitor};
use crate::engine::Model;

/// The server: the global model and the algorithm's own state.
#[derive(Clone, Debug)]
pub struct Server<S> {
    /// The global model.
    pub global: Model,
    /// The algorithm's state.
    pub state: S,
}

/// A client: its model, the algorithm's own state, and what the base needs to know of it.
#[derive(Clone, Debug)]
pub struct Client<S> {
    /// Its id, 0 to N-1.
    pub id: usize,
    /// Its local model.
    pub model: Model,
    /// The algorithm's state.
    pub state: S,
    /// How often it has taken part in a training; learning-rate decay counts these.
    pub participations: u64,
    /// Simulated seconds of training and of sending so far.
    pub seconds: [f64; 2],
    pub(super) rest: Rest,
}

impl<S: State> Client<S> {
    /// A client before its first round.
    #[must_use]
    pub fn new(id: usize, model: Model) -> Self {
        Self { id, model, state: S::default(), participations: 0, seconds: [0.0; 2], rest: Rest::default() }
    }
}

/// What the server received from one client in a round.
#[derive(Clone, Debug)]
pub struct Uploaded<U> {
    /// The client's id.
    pub client: usize,
    /// Its number of training samples, dropped batches included.
    pub samples: usize,
    /// Its share of the samples of all accepted uploads, in f64; sums to 1.
    pub weight: f64,
    /// Its model after training (shared, not copied).
    pub model: Model,
    /// The algorithm's own payload.
    pub extra: U,
}

impl<S: State> Server<S> {
    /// Shows everything that survives a round.
    pub fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.model("global", &mut self.global);
        self.state.visit(visitor);
    }
}
