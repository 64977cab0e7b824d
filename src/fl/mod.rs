//! The simulation of federated learning: one round loop, clients, server, sampling, evaluation, checkpoints.
//!
//! An algorithm fills the hooks of [`Algorithm`] and cannot change the order of a round ([`round`]). Nothing here knows an
//! algorithm by name, a pipeline or a store.

pub mod algorithm;
pub mod arena;
pub mod batch;
mod between;
pub mod checkpoint;
pub mod clock;
pub mod evaluate;
mod footprint;
pub mod history;
pub mod intervention;
mod mean;
pub mod meter;
pub mod newcomers;
pub mod objective;
pub mod observe;
pub mod parties;
pub mod per_sample;
mod rest;
pub mod round;
pub mod settings;
mod shelf;
pub mod state;
pub mod streams;
pub mod trainer;
pub mod world;

pub use algorithm::{Aggregation, Algorithm, Description, Sends, When, Who};
pub use arena::Arena;
pub use batch::{Batch, Order, Pass};
pub use history::{Evaluation, History, Status};
pub use intervention::{Exchange, Intervention, Memory, Needs, Place, Sent, Smoothing, Trial};
pub use objective::Objective;
pub use observe::{Examined, Exposed, Glimpse, Observable, Observed, Response};
pub use parties::{Client, Server, Uploaded};
pub use round::{Monitor, Simulation};
pub use settings::Settings;
pub use state::{Item, State, Visitor};
pub use streams::{Seeded, Streams};
pub use trainer::{Trainer, Update};
pub use world::World;

/// Raised when the round loop, the sampling or the evaluation changes a result; enters the key of every training.
pub const REVISION: u32 = 2;
