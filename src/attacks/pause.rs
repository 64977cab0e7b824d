//! How a search is interrupted, and goes on later as if it had not been.
//!
//! A state is a list of numbers, restored bit for bit. Where it is kept is the caller's business.

use crate::base::{Fault, FaultKind, Outcome};

/// The other side of a search: who may stop it, and who keeps what it has done. A function that says whether to stop keeps nothing.
pub trait Pause: Sync {
    /// Whether to stop at the next opportunity.
    fn stopping(&self) -> bool;
    /// Whether it is time to keep the state.
    fn due(&self) -> bool {
        false
    }
    /// Keeps a state in place of the one before.
    ///
    /// # Errors
    /// A storage fault.
    fn keep(&self, state: &[f64]) -> Outcome<()> {
        let _ = state;
        Ok(())
    }
    /// Keeps the state of a search that has ended; it may be written later, together with others.
    ///
    /// # Errors
    /// A storage fault.
    fn finish(&self, state: &[f64]) -> Outcome<()> {
        let _ = state;
        Ok(())
    }
    /// The state that was kept.
    fn kept(&self) -> Option<Vec<f64>> {
        None
    }
}

impl<F: Fn() -> bool + Sync> Pause for F {
    fn stopping(&self) -> bool {
        self()
    }
}

/// An opportunity: keeps the state when it is due, and stops when asked to, which keeps it too.
///
/// # Errors
/// `Interrupted`, or a storage fault.
pub fn rest(pause: &dyn Pause, state: impl FnOnce() -> Vec<f64>) -> Outcome<()> {
    let stopping = pause.stopping();
    if stopping || pause.due() {
        pause.keep(&state())?;
    }
    if stopping { Err(Fault::new(FaultKind::Interrupted, "stopped during an attack")) } else { Ok(()) }
}

/// Takes a state apart, from its beginning.
pub(super) struct Parts<'a>(pub &'a [f64]);

impl<'a> Parts<'a> {
    /// The next number.
    pub fn number(&mut self) -> Option<f64> {
        self.list(1).map(|list| list[0])
    }
    /// The next whole number.
    pub fn count(&mut self) -> Option<usize> {
        self.number().filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n < 9e15).map(|n| n as usize)
    }
    /// The next so many numbers.
    pub fn list(&mut self, count: usize) -> Option<&'a [f64]> {
        let (list, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(list)
    }
}
