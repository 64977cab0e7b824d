//! Every algorithm under every option: the same result whatever the threads, interruptions and evaluations, and a defined one in
//! every corner.

mod attacked;
mod by_hand;
mod by_hand_features;
mod corners;
mod descent;
mod determinism;
mod golden;
mod hand;
mod interventions;
mod meter;
mod reductions;
mod reductions_features;
mod reductions_models;
mod resting;
mod small;
mod traffic;
