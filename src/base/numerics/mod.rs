//! Small numerics on plain slices: no tensors, no models.

pub mod low_rank;
pub mod simplex;
