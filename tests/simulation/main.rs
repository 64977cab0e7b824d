//! Every algorithm under every option: the same result whatever the threads, interruptions and evaluations, and a defined one in
//! every corner.

mod corners;
mod determinism;
mod golden;
mod reductions;
mod reductions_features;
mod reductions_models;
mod small;
