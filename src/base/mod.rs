//! What everything else stands on: faults, digests, canonical encoding, random streams, shared bytes, text helpers.
//!
//! Nothing here knows of pipelines, stages or learning.

pub mod blob;
pub mod canon;
pub mod digest;
pub mod fault;
pub mod memory;
pub mod numerics;
pub mod random;
pub mod text;
pub mod threads;

pub use blob::Blob;
pub use digest::{Digest, ObjectRef};
pub use fault::{Fault, FaultKind, Outcome};
