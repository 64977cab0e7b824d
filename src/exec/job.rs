//! What is to be run: jobs, their order, and the planner that knows each job's key once its inputs are known.

use crate::base::{Digest, Outcome};
use crate::stage::task::{Outputs, Task};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The device of jobs that need no slot but a CPU one.
pub const CPU: &str = "cpu";

/// One node of the graph. A job is known by its position in the slice of jobs.
#[derive(Clone, Debug)]
pub struct Job {
    /// The stage with its coordinates, for people: `run[algorithm=ditto, seed=0]`.
    pub label: String,
    /// The stage's name.
    pub stage: String,
    /// The stage kind.
    pub kind: String,
    /// The coordinates by axis.
    pub coords: BTreeMap<String, Value>,
    /// The positions of the jobs whose outputs it reads.
    pub deps: Vec<usize>,
    /// `cpu`, or a device of which it takes the one slot: `cuda:0`.
    pub device: String,
    /// How long an attempt may take.
    pub timeout: Option<Duration>,
    /// How often a failed attempt is repeated.
    pub retries: u32,
    /// Run it even when its result is there.
    pub force: bool,
    /// How long it is expected to take, in milliseconds; only the order of starting depends on it.
    pub cost_ms: u64,
}

impl Job {
    /// A job on a CPU slot, without timeout and retries.
    #[must_use]
    pub fn new(stage: &str, kind: &str, deps: Vec<usize>) -> Self {
        Self {
            label: stage.to_owned(),
            stage: stage.to_owned(),
            kind: kind.to_owned(),
            coords: BTreeMap::new(),
            deps,
            device: CPU.to_owned(),
            timeout: None,
            retries: 0,
            force: false,
            cost_ms: 1,
        }
    }
}

/// A job whose inputs are known, ready to be run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The task; `shorter` is filled in by the executor.
    pub task: Task,
    /// What the key is made of, for `why`.
    pub manifest: Value,
    /// The key without the parameter that may be extended.
    pub lineage: Option<Digest>,
    /// The value of that parameter.
    pub extent: Option<u64>,
}

/// Gives keys and tasks once inputs are known. `outputs` holds the outputs of every finished job by position; those of the job's
/// dependencies are there.
pub trait Planner {
    /// The job's key. Called once for each job, so it should be quick: ten thousand cached jobs cost ten thousand calls.
    ///
    /// # Errors
    /// A fault becomes the failure of that job.
    fn key(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Digest>;
    /// The job's task, with the same key. Called only when the job has to run.
    ///
    /// # Errors
    /// As [`Planner::key`].
    fn prepare(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Prepared>;
}
