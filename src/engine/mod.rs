//! The numbers: networks as fused steps on flat parameter vectors, losses, updates, and the bridge to dfdx's tape.
//!
//! This is the only place that names dfdx's devices. It knows nothing of clients, rounds or algorithms.

mod kernels;
mod layout;
pub mod loss;
mod model;
mod network;
mod params;
mod real;
mod run;
pub mod simd;
mod steps;
pub mod stock;
pub mod tape;
pub mod update;

pub use layout::{BufferEntry, Entry, Layout, Part, StateItem};
pub use model::{Model, Tensor};
pub use network::{Layer, Network, Shape};
pub use params::{Buffers, Params};
pub use real::Real;
pub use run::{Engine, Parts};
