//! pflpipe: a declarative, cached and resumable runner for personalised federated learning benchmarks.
//!
//! Data flows one way, and a module imports only from those after it:
//!
//! ```text
//! cli -> report -> exec -> stage -> plots -> table -> results -> attacks, privacy, secure, threats, defences -> algorithms -> fl -> models -> data -> engine -> store -> base
//!        spec -> plan (these two import nothing but base)
//! ```
//!
//! [`ARCHITECTURE.md`](https://docs.rs/crate/pflpipe) describes each part.

pub mod algorithms;
pub mod attacks;
pub mod base;
pub mod catalog;
pub mod cli;
pub mod data;
pub mod defences;
pub mod engine;
pub mod exec;
pub mod fl;
pub mod models;
pub mod plan;
pub mod plots;
pub mod privacy;
pub mod report;
pub mod results;
pub mod secure;
pub mod spec;
pub mod stage;
pub mod store;
pub mod table;
pub mod threats;
