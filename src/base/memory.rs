//! Whether what is about to be allocated can fit this machine: an allocation that fails aborts the whole process, so that what is
//! far too large is refused before.

use super::text::bytes;
use super::{Fault, Outcome};
use std::sync::OnceLock;

/// The memory of this machine in bytes; the greatest number where it is unknown.
#[must_use]
pub fn total() -> u64 {
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| {
        let memory = sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram());
        sysinfo::System::new_with_specifics(memory).map_or(u64::MAX, |system| system.total_memory().max(1))
    })
}

/// Refuses a demand for more memory than this machine has in all. What is there now is not asked, for it changes.
///
/// # Errors
/// A stage fault that names both sizes.
pub fn demand(needed: u64, what: &str) -> Outcome<()> {
    let total = total();
    if needed <= total {
        return Ok(());
    }
    Err(Fault::stage(format!("{what} needs at least {} of memory, and this machine has {}", bytes(needed), bytes(total)))
        .help("choose a smaller model, or fewer clients"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_fit_is_refused() {
        assert!(demand(1 << 20, "a model").is_ok());
        let fault = demand(u64::MAX - 1, "a model").expect_err("more than any machine has");
        assert!(fault.what.starts_with("a model needs at least "), "{fault}");
    }
}
