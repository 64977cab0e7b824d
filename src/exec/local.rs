//! The executor that runs each attempt on a thread of this process.

use super::executor::{Attempt, Executor, Mailbox, Order, start_thread};
use super::interrupt::Stop;
use super::perform::{Site, perform};
use crate::base::Outcome;
use crate::base::threads::Budget;
use crate::stage::task::Runner;
use crate::store::Store;
use std::path::PathBuf;
use std::sync::Arc;

/// Runs attempts on threads of this process. An attempt that does not stop when asked can only be left behind.
#[derive(Clone)]
pub struct InProcess {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    runner: Arc<dyn Runner + Send>,
    budget: Budget,
    data_dirs: Vec<PathBuf>,
}

impl InProcess {
    /// An executor on that store; attempts share the budget of threads.
    #[must_use]
    pub fn new(store: &Store, runner: Arc<dyn Runner + Send>, budget: &Budget, data_dirs: &[PathBuf]) -> Self {
        let inner = Inner { store: store.clone(), runner, budget: budget.clone(), data_dirs: data_dirs.to_vec() };
        Self { inner: Arc::new(inner) }
    }
}

impl Executor for InProcess {
    fn name(&self) -> &str {
        "threads"
    }

    fn start(&self, mut order: Order, mailbox: Mailbox) -> Outcome<Box<dyn Attempt>> {
        let stop = Stop::new();
        let inner = Arc::clone(&self.inner);
        let seen = stop.clone();
        start_thread(std::thread::Builder::new().name("stage".to_owned()).stack_size(8 << 20), mailbox, move |mailbox| {
            seek_shorter(&inner.store, &mut order);
            let site = Site { store: &inner.store, runner: &*inner.runner, budget: &inner.budget, data_dirs: &inner.data_dirs };
            perform(&order, &site, &seen, &|say| mailbox.say(say))
        })?;
        Ok(Box::new(Thread { stop }))
    }
}

/// Looks for a shorter result from which the stage may continue.
pub(super) fn seek_shorter(store: &Store, order: &mut Order) {
    if let (None, Some(lineage), Some(extent)) = (&order.task.shorter, &order.lineage, order.extent) {
        order.task.shorter = store.shorter(lineage, extent).map(|record| record.outputs);
    }
}

struct Thread {
    stop: Stop,
}

impl Attempt for Thread {
    fn stop(&self) {
        self.stop.raise();
    }
    fn kill(&self) {
        self.stop.raise();
    }
}
