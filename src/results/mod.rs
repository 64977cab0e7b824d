//! What results mean: statistics of small samples, and published results to compare with.
//!
//! Numbers in, numbers out: it knows neither tables nor where a result is stored.

pub mod h5;
pub mod plane;
pub mod published;
pub mod stats;
