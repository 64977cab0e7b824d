//! Counts the samples that go through networks, by which the time of a round can be judged.

use std::sync::atomic::{AtomicU64, Ordering};

/// Samples that went through networks of the simulation's input so far, on all threads. Small modules of an algorithm, which see
/// features or labels, do not count.
#[derive(Debug, Default)]
pub struct Meter {
    forward: AtomicU64,
    backward: AtomicU64,
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
    pub(super) fn count(&self, forward: usize, backward: usize) {
        self.forward.fetch_add(forward as u64, Ordering::Relaxed);
        self.backward.fetch_add(backward as u64, Ordering::Relaxed);
    }
}
