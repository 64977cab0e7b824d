//! Small numerics on plain slices: no tensors, no models.

pub mod simplex;
