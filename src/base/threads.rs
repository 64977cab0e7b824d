//! One budget of threads for stages and for the clients inside a stage.
//!
//! A running stage holds one permit; a round of clients borrows what is idle and gives it back at the end of the round.
//! So all cores work, and never more threads than cores, whatever the number of stages.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A counted budget of threads, shared by cloning.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    total: usize,
    idle: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    /// A budget of `total` threads, at least 1.
    #[must_use]
    pub fn new(total: usize) -> Self {
        let total = total.max(1);
        Self(Arc::new(Inner { total, idle: Mutex::new(total), freed: Condvar::new() }))
    }
    /// The size of the budget.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.total
    }
    /// Waits for a permit.
    #[must_use]
    pub fn acquire(&self) -> Permit {
        let mut idle = self.idle();
        while *idle == 0 {
            idle = self.0.freed.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
        *idle -= 1;
        Permit(self.clone())
    }
    /// A permit if one is idle now.
    #[must_use]
    pub fn try_acquire(&self) -> Option<Permit> {
        let mut idle = self.idle();
        (*idle > 0).then(|| {
            *idle -= 1;
            Permit(self.clone())
        })
    }
    // The count is never left half-changed, so a panic elsewhere does not spoil it.
    fn idle(&self) -> MutexGuard<'_, usize> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to keep one thread busy; given back when dropped.
#[derive(Debug)]
pub struct Permit(Budget);

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.idle() += 1;
        self.0.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_and_come_back() {
        let budget = Budget::new(2);
        let first = budget.acquire();
        let second = budget.try_acquire();
        assert!(second.is_some() && budget.try_acquire().is_none());
        drop(first);
        assert!(budget.try_acquire().is_some());
    }
}
