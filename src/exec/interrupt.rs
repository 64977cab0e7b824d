//! Being asked to stop: the whole run by a signal, or one attempt by the scheduler.

use crate::base::FaultKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Interrupts a run. The first time, stages checkpoint and stop; the second time, they are abandoned or killed.
///
/// Cloning shares it, so that a signal handler can hold one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    level: AtomicU8,
    terminated: AtomicBool,
}

impl Interrupt {
    /// One that was not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Raises it once more; `terminated` for SIGTERM, which has another exit code than SIGINT.
    pub fn raise(&self, terminated: bool) {
        if terminated {
            self.0.terminated.store(true, Ordering::SeqCst);
        }
        // More than two signals say nothing new, and the count must not wrap.
        let _ = self.0.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < 2).then_some(n + 1));
    }
    /// How often it was raised, at most 2.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.0.level.load(Ordering::SeqCst)
    }
    /// The kind of fault that it leads to.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        if self.0.terminated.load(Ordering::SeqCst) { FaultKind::Terminated } else { FaultKind::Interrupted }
    }
}

/// Asks one attempt to checkpoint and stop. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that was not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Asks to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
    /// Whether it was asked.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
