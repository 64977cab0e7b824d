//! Ctrl-C, SIGTERM and SIGHUP: the first lets stages checkpoint and stop, the second ends the program now.
//!
//! It knows only the [`Interrupt`] that it raises.

use super::message::say;
use crate::exec::Interrupt;

/// Raises the interrupt at every signal from now on.
#[cfg(unix)]
pub(super) fn watch(interrupt: &Interrupt) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupt = interrupt.clone();
    // Under `nohup` a closed terminal is no reason to stop.
    let heard = if ignored(SIGHUP) { &[SIGINT, SIGTERM][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let Ok(mut signals) = signal_hook::iterator::Signals::new(heard) else {
        // Without handlers a signal kills at once, which loses at most the work since the last checkpoint.
        return;
    };
    let work = move || {
        for signal in signals.forever() {
            interrupt.raise(signal != SIGINT);
            if interrupt.level() == 1 {
                say(&"stopping: running stages write a checkpoint first; once more stops at once");
                continue;
            }
            // The scheduler sees it in a moment and says how far the run came. Whatever else the program is at, it ends.
            std::thread::sleep(std::time::Duration::from_secs(1));
            std::process::exit(i32::from(interrupt.kind().exit_code()));
        }
    };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(work);
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail like one on a full disk, instead of ending the process.
#[cfg(unix)]
pub(super) fn large_files_are_errors() {
    // Nobody reads the flag: a handler is enough for the write to return.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

#[cfg(not(unix))]
pub(super) fn large_files_are_errors() {}

/// Whether the process was started with that signal ignored, as far as the system tells (Linux).
#[cfg(unix)]
fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Elsewhere Ctrl-C keeps its meaning: the program ends, and the next run continues from the last checkpoints.
#[cfg(not(unix))]
pub(super) fn watch(_: &Interrupt) {}
