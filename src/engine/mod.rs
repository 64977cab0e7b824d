//! The numbers: networks as fused steps on flat parameter vectors, losses, updates, and the bridge to dfdx's tape.
//!
//! This is the only place that names dfdx's devices. It knows nothing of clients, rounds or algorithms.

mod elementary;
mod kernels;
mod layout;
pub mod loss;
mod model;
mod network;
mod ops;
mod params;
mod plan;
mod precision;
mod real;
mod run;
pub mod simd;
mod steps;
mod stock;
mod support;
pub mod tape;
pub mod update;

/// Raised by hand whenever the engine's numbers change by more than their rounding on another class of CPU; it enters the key of
/// every training.
pub const REVISION: u32 = 3;

pub use layout::{BufferEntry, Entry, Init, Layout, Part, StateItem};
pub use model::{Model, Tensor};
pub use network::{Layer, Network, Shape};
pub use ops::activation::Activation;
pub use ops::positions::At;
pub use params::{Buffers, Params};
pub use precision::Precision;
pub use real::Real;
pub use run::{Compute, Engine, Parts};
pub use support::Support;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_and_models_move_between_threads() {
        fn sendable<T: Send>() {}
        fn shared<T: Send + Sync>() {}
        sendable::<Engine<f32>>();
        shared::<Model<f32>>();
        shared::<Network>();
    }
}
