//! The contract between the executors and the stages: a task goes in, named outputs come out.
//!
//! A task is plain data, so that a child process or another machine can run it.

use crate::base::threads::Budget;
use crate::base::{Digest, ObjectRef, Outcome};
use crate::store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The outputs of a stage by name.
pub type Outputs = BTreeMap<String, ObjectRef>;

/// One stage to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The key of the result.
    pub key: Digest,
    /// The stage kind.
    pub kind: String,
    /// The stage with its coordinates, for messages: `run[algorithm=ditto, seed=0]`.
    pub label: String,
    /// Every effective parameter.
    pub params: Map<String, Value>,
    /// For each input slot the outputs that it reads.
    pub inputs: BTreeMap<String, Outputs>,
    /// The outputs of a finished stage that is equal but for a smaller value of the kind's `extends` parameter.
    pub shorter: Option<Outputs>,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Seconds between two checkpoints; 0 means after every round.
    pub checkpoint_seconds: f64,
    /// Bytes of memory that the states of a training's clients may take while they are not used; what is beyond goes to the store's
    /// `tmp/`. Absent: a quarter of the machine's memory. It changes no result.
    #[serde(default)]
    pub memory: Option<u64>,
}

/// What a running stage says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "report")]
pub enum Report {
    /// `done` of `total` steps (rounds of a training), with the newest measurements by name.
    Progress {
        /// Steps done.
        done: u64,
        /// Steps in all.
        total: u64,
        /// Newest measurements.
        values: BTreeMap<String, f64>,
    },
    /// A line for the stage's log.
    Log {
        /// Whether it is a warning.
        warning: bool,
        /// The line.
        line: String,
    },
}

/// What a stage may use while it runs.
pub trait Host: Sync {
    /// The store: inputs are read from it, outputs and checkpoints written to it.
    fn store(&self) -> &Store;
    /// The budget of threads; the stage itself already holds one permit.
    fn budget(&self) -> &Budget;
    /// The folders that hold data sets in their original formats, in order of preference.
    fn data_dirs(&self) -> &[PathBuf];
    /// Passes a report on.
    fn report(&self, report: Report);
    /// Whether the stage should checkpoint and stop with a fault of kind `Interrupted`.
    fn stopping(&self) -> bool;
}

/// Runs tasks of every kind. `lib.rs` wires in the real stages; tests bring small ones.
pub trait Runner: Sync {
    /// Runs the task to its end and returns its outputs, already in the store.
    ///
    /// # Errors
    /// A fault of kind `Stage`, `Storage`, `Device` or, when the host is stopping, `Interrupted`.
    fn run(&self, task: &Task, host: &dyn Host) -> Outcome<Outputs>;
}
