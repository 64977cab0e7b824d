//! Runs a graph of jobs: what is cached is taken from the store, the rest runs in parallel, and every outcome is recorded.
//!
//! One thread owns all state; executors start attempts and report by messages. This module does not know how a graph comes about
//! (a [`Planner`] gives keys and tasks when inputs are known) nor what a stage does (a [`crate::stage::task::Runner`] does).

mod child;
mod event;
mod executor;
mod interrupt;
mod job;
mod local;
mod panics;
mod perform;
mod ready;
mod schedule;
mod state;
mod summary;
pub mod trace;
pub mod worker;

pub use child::{ChildProcess, WorkerCommand};
pub use event::Event;
pub use executor::{Attempt, Executor, Finish, Mailbox, Message, Order, Say};
pub use interrupt::{Interrupt, Stop};
pub use job::{CPU, Job, Planner, Prepared};
pub use local::InProcess;
pub use perform::{Site, perform};
pub use schedule::{Schedule, Settings};
pub use state::State;
pub use summary::{Span, Summary};
