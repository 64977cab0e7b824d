//! The states of a job and the one function through which they change.

use serde::{Deserialize, Serialize};

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its inputs are not all there, so its key is not known.
    Unknown,
    /// Its key is known, has no result, and another process (or an equal job) runs it now.
    Waiting,
    /// Its key is known and has no result; it waits for a slot.
    Ready,
    /// An attempt runs.
    Running,
    /// It ran and its result is published.
    Done,
    /// Its result was there.
    Cached,
    /// Its last attempt failed.
    Failed,
    /// A job that it needs has failed.
    Blocked,
    /// Its attempt was asked to stop; it continues from its checkpoint next time.
    Interrupted,
}

impl State {
    /// Whether nothing more happens to it in this run.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cached | Self::Failed | Self::Blocked | Self::Interrupted)
    }

    /// Whether its outputs are there.
    #[must_use]
    pub fn has_outputs(self) -> bool {
        matches!(self, Self::Done | Self::Cached)
    }

    fn may_become(self, next: Self) -> bool {
        use State::{Blocked, Cached, Done, Failed, Interrupted, Ready, Running, Unknown, Waiting};
        match self {
            Unknown => matches!(next, Cached | Ready | Failed | Blocked),
            Ready => matches!(next, Running | Failed),
            Running => matches!(next, Done | Cached | Failed | Ready | Waiting | Interrupted),
            Waiting => matches!(next, Cached | Ready),
            Done | Cached | Failed | Blocked | Interrupted => false,
        }
    }
}

/// The states of all jobs.
#[derive(Clone, Debug)]
pub(super) struct States(Vec<State>);

impl States {
    pub(super) fn new(jobs: usize) -> Self {
        Self(vec![State::Unknown; jobs])
    }

    pub(super) fn get(&self, job: usize) -> State {
        self.0[job]
    }

    /// The only way a state changes.
    pub(super) fn set(&mut self, job: usize, next: State) {
        let now = self.0[job];
        debug_assert!(now.may_become(next), "job {job} cannot go from {now:?} to {next:?}");
        self.0[job] = next;
    }

    /// Takes a job back whose result was found damaged (to `Ready`), or one that reads such a result (to `Unknown`).
    pub(super) fn reopen(&mut self, job: usize, next: State) {
        debug_assert!(matches!(next, State::Ready | State::Unknown), "job {job} cannot be taken back to {next:?}");
        self.0[job] = next;
    }

    pub(super) fn into_inner(self) -> Vec<State> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_states_are_final() {
        let all = [
            State::Unknown,
            State::Waiting,
            State::Ready,
            State::Running,
            State::Done,
            State::Cached,
            State::Failed,
            State::Blocked,
            State::Interrupted,
        ];
        for state in all {
            assert_eq!(state.is_final(), all.iter().all(|next| !state.may_become(*next)), "{state:?}");
        }
    }
}
