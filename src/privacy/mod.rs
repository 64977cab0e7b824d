//! Differential privacy of a training.

pub mod accountant;
pub mod rdp;
