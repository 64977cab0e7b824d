//! A panic inside a stage becomes that stage's failure, with its text and place, and nothing is printed.

use crate::base::{Fault, Outcome};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// `Some` while this thread runs a stage; then the place of a panic comes in here.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `work`; a panic on this thread becomes a fault of kind `Stage`.
pub(super) fn caught<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    install();
    PLACE.with(|place| *place.borrow_mut() = Some(String::new()));
    // What a stage leaves half-done is its own temporary state: results are published only after it returns.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    let place = PLACE.with(|place| place.borrow_mut().take()).unwrap_or_default();
    match result {
        Ok(outcome) => outcome,
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("something that is not text");
            let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
            Err(Fault::stage(format!("the stage panicked{place}: {text}"))
                .help("this is a fault in the code of the stage; please report it"))
        }
    }
}

/// Replaces the panic hook once by one that is silent on threads that run stages and the former one elsewhere.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let captured = PLACE.with(|place| {
                let mut place = place.borrow_mut();
                if let Some(text) = place.as_mut() {
                    *text = info.location().map(ToString::to_string).unwrap_or_default();
                }
                place.is_some()
            });
            if !captured {
                former(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_fault_with_its_text_and_place() {
        let fault = caught::<()>(|| panic!("client {} is empty", 3)).expect_err("panicked");
        assert!(fault.what.contains("client 3 is empty") && fault.what.contains("panics.rs"), "{fault}");
        assert_eq!(caught(|| Ok(1)), Ok(1));
        assert_eq!(caught::<()>(|| Err(Fault::stage("no"))), Err(Fault::stage("no")));
    }
}
