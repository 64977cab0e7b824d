//! Small numerics on plain slices: no tensors, no models.

pub mod assignment;
pub mod lbfgs;
pub mod simplex;
