//! What an observer learns of clients: samples rebuilt from what they send, and who was in a training set.
//!
//! Nothing here knows pipelines or the store: a model, an update or losses go in, samples and numbers come out. What an algorithm
//! really sends is said by [`Algorithm::exposes`](crate::fl::Algorithm::exposes).

pub mod dlg;
pub mod findings;
pub mod inverting;
mod kinds;
pub mod labels;
pub mod leak;
pub mod matching;
pub mod membership;
pub mod pause;
pub mod picture;
pub mod problem;
pub mod replay;
pub mod score;
pub mod shadow;
pub mod similarity;

pub use findings::{Findings, Outcome as Ending};
pub use kinds::{Trained, enough_clients, round_of, rules, shape};
pub use matching::{Distance, Seen};
pub use pause::Pause;
pub use problem::{Problem, Reconstruction};
pub use replay::{Replay, Target};

/// Raised by hand whenever the result of an attack changes.
pub const REVISION: u32 = 2;
