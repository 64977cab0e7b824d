//! Whether what is about to be allocated can fit this machine: an allocation that fails aborts the whole process, so that what is
//! far too large is refused before.

use super::text::bytes;
use super::{Fault, Outcome};
use std::sync::OnceLock;

/// The memory of this machine in bytes, or what the group of this process may have of it (a container, a batch job); the greatest
/// number where it is unknown.
#[must_use]
pub fn total() -> u64 {
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| {
        let memory = sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram());
        sysinfo::System::new_with_specifics(memory).map_or(u64::MAX, |system| {
            let group = system.cgroup_limits().map(|limits| limits.total_memory).filter(|limit| *limit > 0);
            system.total_memory().min(group.unwrap_or(u64::MAX)).max(1)
        })
    })
}

/// Refuses a demand for more memory than this machine has in all, or than this process may have. What is there now is not asked, for it
/// changes.
///
/// # Errors
/// A stage fault that names both sizes.
pub fn demand(needed: u64, what: &str) -> Outcome<()> {
    demand_or(needed, what, "choose a smaller model, or fewer clients")
}

/// As [`demand`], with what there is to do about it.
///
/// # Errors
/// As [`demand`].
pub fn demand_or(needed: u64, what: &str, help: &str) -> Outcome<()> {
    let total = total();
    let (limit, used) = address_space();
    let left = limit.saturating_sub(used);
    if limit < u64::MAX && needed > left {
        let what = format!(
            "{what} needs at least {} of memory, and of the limit of this process, {}, {} are left",
            bytes(needed),
            bytes(limit),
            bytes(left)
        );
        return Err(Fault::stage(what).help(format!("raise the limit (`ulimit -v`), or {help}")));
    }
    if needed <= total {
        return Ok(());
    }
    Err(Fault::stage(format!("{what} needs at least {} of memory, and this machine has {}", bytes(needed), bytes(total))).help(help))
}

/// The limit on addresses of this process and how many it uses, in bytes; no limit where the system does not say one.
fn address_space() -> (u64, u64) {
    // "Max address space     unlimited            unlimited            bytes": the first number is the one that holds.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space")?.split_whitespace().next()?.parse().ok());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.split_whitespace().next()?.parse::<u64>().ok());
    (limit.unwrap_or(u64::MAX), used.unwrap_or(0).saturating_mul(1024))
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
