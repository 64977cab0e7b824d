//! What a run says while it goes on: for the terminal, for the run's history, for whoever watches.

use super::State;
use crate::base::{Digest, Fault};
use crate::stage::task::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Something that happened. `job` is the position of a job, `label` its name for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The run begins.
    Begin {
        /// The number of jobs.
        jobs: usize,
        /// The number of CPU slots.
        slots: usize,
        /// What runs the jobs.
        executor: String,
    },
    /// The result was there.
    Cached {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key.
        key: Digest,
    },
    /// The same key runs elsewhere; its result will be taken.
    Waiting {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key.
        key: Digest,
        /// The job of this run that has the same key; none when another process runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        twin: Option<usize>,
    },
    /// An attempt has started.
    Started {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key.
        key: Digest,
        /// The attempt, counted from 1 over all runs.
        attempt: u32,
        /// Its device.
        device: String,
    },
    /// A running stage says something.
    Report {
        /// Position.
        job: usize,
        /// What it says.
        #[serde(flatten)]
        report: Report,
    },
    /// A job is done.
    Done {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key.
        key: Digest,
        /// How long the stage took, in milliseconds.
        wall_ms: u64,
    },
    /// An attempt failed.
    Failed {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key, when it came to be known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Digest>,
        /// What went wrong.
        fault: Fault,
        /// Whether another attempt follows.
        retry: bool,
    },
    /// A job cannot run, for `by` has failed.
    Blocked {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// The position of the job that failed.
        by: usize,
    },
    /// An attempt was asked to stop and did.
    Interrupted {
        /// Position.
        job: usize,
        /// Name.
        label: String,
        /// Key.
        key: Digest,
    },
    /// Something to know that stops nothing.
    Warning {
        /// The line.
        line: String,
    },
    /// The run was asked to stop: `level` 1 lets stages checkpoint, 2 does not wait.
    Stopping {
        /// How often it was asked.
        level: u8,
    },
    /// The run is over.
    End {
        /// The number of jobs by state.
        counts: BTreeMap<State, usize>,
        /// How long it took, in milliseconds.
        wall_ms: u64,
    },
}
