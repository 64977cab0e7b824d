//! What a stage of each kind does: data set, partition, model, training, attack.
//!
//! A stage reads its inputs from the store, writes its outputs there, and knows neither the pipeline nor the other stages.

mod attack;
mod dataset;
pub mod features;
mod journal;
mod model;
mod partition;
pub mod task;
mod train;

use crate::algorithms::Algorithms;
use crate::base::fault::Placed;
use crate::base::{Fault, ObjectRef, Outcome};
use task::{Host, Outputs, Runner, Task};

/// The stages of this program.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The algorithms that a training may name.
    pub algorithms: Algorithms,
}

impl Runner for Stages {
    fn run(&self, task: &Task, host: &dyn Host) -> Outcome<Outputs> {
        match task.kind.as_str() {
            "dataset" => dataset::run(task, host),
            "partition" => partition::run(task, host),
            "model" => model::run(task, host),
            "attack" => attack::run(task, host, &self.algorithms),
            "train" => train::run(task, host, &self.algorithms),
            kind => Err(Fault::internal(format!("there is no stage kind `{kind}`"))),
        }
    }
}

/// The object behind an output of an input slot.
fn input(task: &Task, slot: &str, output: &str) -> Outcome<ObjectRef> {
    let found = task.inputs.get(slot).and_then(|outputs| outputs.get(output));
    found.copied().ok_or_else(|| Fault::internal(format!("the task has no input `{slot}.{output}`")))
}

/// The text of a tag parameter.
fn tag<'a>(task: &'a Task, name: &str) -> Outcome<&'a str> {
    let found = task.params.get(name).and_then(serde_json::Value::as_str);
    found.ok_or_else(|| Fault::internal(format!("the task has no parameter `{name}`")))
}

/// Puts each named output into the store.
fn outputs<const N: usize>(host: &dyn Host, named: [(&str, &[u8]); N]) -> Outcome<Outputs> {
    named.into_iter().map(|(name, bytes)| Ok((name.to_owned(), host.store().put(bytes).at(|| format!("output `{name}`"))?))).collect()
}
