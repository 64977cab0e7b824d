//! What a stage of each kind does: data set, partition, model, training.

pub mod task;
