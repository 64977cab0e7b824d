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
    /// Does the work on this thread, and at the same time on as many others as are idle, up to `most` in all; it has to share out what
    /// there is to do by itself. Where the system has no threads left, fewer do it.
    pub fn spread(&self, most: usize, work: impl Fn() + Sync) {
        let permits: Vec<_> = (1..most).map_while(|_| self.try_acquire()).collect();
        std::thread::scope(|scope| {
            for permit in permits {
                let work = &work;
                let helper = move || {
                    work();
                    drop(permit);
                };
                if std::thread::Builder::new().spawn_scoped(scope, helper).is_err() {
                    break;
                }
            }
            work();
        });
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn permits_are_counted_and_come_back() {
        let budget = Budget::new(2);
        let first = budget.acquire();
        let second = budget.try_acquire();
        assert!(second.is_some() && budget.try_acquire().is_none());
        drop(first);
        assert!(budget.try_acquire().is_some());
    }

    #[test]
    fn work_is_spread_over_what_is_idle() {
        let budget = Budget::new(4);
        let _busy = budget.acquire();
        for most in [0, 1, 3, 9] {
            let at_work = AtomicUsize::new(0);
            budget.spread(most, || {
                at_work.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(at_work.into_inner(), most.clamp(1, 4));
        }
        assert_eq!((0..4).map_while(|_| budget.try_acquire()).collect::<Vec<_>>().len(), 3, "all came back");
    }
}
