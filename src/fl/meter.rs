//! Counts the samples that go through networks, and the time that the parts of a round take: by these a round can be judged.
//!
//! Times are for people and benches; no result depends on them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What the time of a round is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Receiving the server's broadcast.
    Receive,
    /// The clients' training.
    Train,
    /// From the uploads' arrival to the end of what the server does.
    Aggregate,
    /// Measuring.
    Evaluate,
    /// Putting clients to rest, but for those that rest as soon as they have sent, which belongs to their training.
    Rest,
    /// Taking checkpoints, with what the monitor does to keep them.
    Checkpoint,
}

impl Work {
    /// All of it, in the order of a round.
    pub const ALL: [Self; 6] = [Self::Receive, Self::Train, Self::Aggregate, Self::Evaluate, Self::Rest, Self::Checkpoint];
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Train => "train",
            Self::Aggregate => "aggregate",
            Self::Evaluate => "evaluate",
            Self::Rest => "rest",
            Self::Checkpoint => "check",
        }
    }
}

/// Samples that went through networks of the simulation's input so far, on all threads, and seconds on the wall by work. An algorithm's own
/// dense layers, which see features or labels, are counted apart.
#[derive(Debug, Default)]
pub struct Meter {
    forward: AtomicU64,
    backward: AtomicU64,
    modules: AtomicU64,
    nanoseconds: [AtomicU64; Work::ALL.len()],
}

impl Meter {
    /// Samples that went forward, with or without a way back.
    #[must_use]
    pub fn forward(&self) -> u64 {
        self.forward.load(Ordering::Relaxed)
    }
    /// Samples whose gradient went backward through a base.
    #[must_use]
    pub fn backward(&self) -> u64 {
        self.backward.load(Ordering::Relaxed)
    }
    /// Rows that went through dense layers of an algorithm's own, forward and back to a step, times the weights of those layers.
    #[must_use]
    pub fn modules(&self) -> u64 {
        self.modules.load(Ordering::Relaxed)
    }
    /// Seconds on the wall that were spent on this.
    #[must_use]
    pub fn seconds(&self, work: Work) -> f64 {
        self.nanoseconds[work as usize].load(Ordering::Relaxed) as f64 * 1e-9
    }
    pub(super) fn count(&self, forward: usize, backward: usize) {
        self.forward.fetch_add(forward as u64, Ordering::Relaxed);
        self.backward.fetch_add(backward as u64, Ordering::Relaxed);
    }
    pub(super) fn count_module(&self, products: u64) {
        self.modules.fetch_add(products, Ordering::Relaxed);
    }
    /// Books the time of `done`.
    pub(super) fn time<R>(&self, work: Work, done: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let result = done();
        self.nanoseconds[work as usize].fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}
