//! What a run came to, and the one fault that decides its exit code.

use super::state::State;
use crate::base::{Digest, Fault, FaultKind, text};
use crate::stage::task::Outputs;
use std::collections::BTreeMap;

/// An attempt on a time line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The position of the job.
    pub job: usize,
    /// The slot's device.
    pub device: String,
    /// The number of the slot of that device.
    pub lane: usize,
    /// From the beginning of the run, in microseconds.
    pub start_us: u64,
    /// How long, in microseconds.
    pub wall_us: u64,
    /// The state that it led to.
    pub state: State,
}

/// What a run came to. Vectors are by the position of the job.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How far each job came; one that is not final was not started.
    pub states: Vec<State>,
    /// The outputs of done and cached jobs.
    pub outputs: Vec<Option<Outputs>>,
    /// The keys that came to be known.
    pub keys: Vec<Option<Digest>>,
    /// What failed, by position.
    pub faults: BTreeMap<usize, Fault>,
    /// The kind of interruption, when the run was interrupted.
    pub interrupted: Option<FaultKind>,
    /// Attempts in the order in which they ended.
    pub spans: Vec<Span>,
    /// How long the run took, in milliseconds.
    pub wall_ms: u64,
}

impl Summary {
    /// The number of jobs by state; states without jobs are left out.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        for state in &self.states {
            *counts.entry(*state).or_default() += 1;
        }
        counts
    }

    /// The fault of the whole run, if there is one: the interruption, else the first failure by position.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        if let Some(kind) = self.interrupted {
            let stopped = self.states.iter().filter(|s| **s == State::Interrupted).count();
            return Some(
                Fault::new(kind, format!("interrupted; {} stopped", text::count(stopped, "running stage")))
                    .help("run the same command again to continue"),
            );
        }
        let (_, first) = self.faults.iter().next()?;
        if self.faults.len() == 1 {
            return Some(first.clone());
        }
        let mut fault = first.clone();
        fault.what = format!("{} (the first of {})", fault.what, text::count(self.faults.len(), "failure"));
        Some(fault)
    }
}
