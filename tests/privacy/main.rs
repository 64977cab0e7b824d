//! Differential privacy and secure aggregation: the accountant against other accountants, and both in trainings.

mod accountant;
mod determinism;
mod noise;
mod protected;
mod refusals;
mod secure;
#[allow(dead_code, reason = "shared with the tests of the simulation, which use more of it")]
#[path = "../simulation/small.rs"]
mod small;
