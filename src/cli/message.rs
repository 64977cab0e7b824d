//! What is said on standard error: errors with their place and what to do, warnings, remarks.
//!
//! It knows no command. That a line cannot be written is ignored: there is nobody left to tell.

use super::args::Globals;
use super::output::wants_color;
use crate::base::Fault;
use crate::spec::Diagnostics;
use std::any::Any;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Standard error.
pub(super) struct Terminal {
    /// No remarks.
    pub(super) quiet: bool,
    /// How much is logged: 0 is nothing.
    pub(super) verbose: u8,
    /// ANSI sequences are wanted.
    pub(super) color: bool,
    /// Bars may be drawn.
    pub(super) bars: bool,
}

impl Terminal {
    pub(super) fn new(globals: &Globals) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let color = wants_color(globals.color, terminal);
        // Log lines would tear bars apart.
        let bars = terminal && color && !globals.quiet && globals.verbose == 0;
        Self { quiet: globals.quiet, verbose: globals.verbose, color, bars }
    }

    /// An error: what, where, and what to do.
    pub(super) fn error(&self, fault: &Fault) {
        self.fault("error", "31", fault);
    }

    /// A warning of one line.
    pub(super) fn warning(&self, line: &str) {
        say(&format!("{} {line}", self.paint("warning:", "1;33")));
    }

    /// A remark, left out with `-q`.
    pub(super) fn note(&self, line: impl Display) {
        if !self.quiet {
            say(&line);
        }
    }

    /// All messages about a pipeline.
    pub(super) fn diagnostics(&self, all: &Diagnostics) {
        say(&all.render(self.color).trim_end());
    }

    fn fault(&self, word: &str, color: &str, fault: &Fault) {
        let mut text = format!("{} {}", self.paint(&format!("{word}:"), &format!("1;{color}")), fault.what);
        if !fault.at.is_empty() {
            text.push_str(&format!("\n  {} {}", self.paint("-->", "1;34"), fault.at.join(": ")));
        }
        if let Some(help) = &fault.help {
            text.push_str(&format!("\n{} {help}", self.paint("help:", "1;36")));
        }
        say(&text);
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Writes a line.
pub(super) fn say(line: &dyn Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// The fault behind a panic that nothing caught before the top.
pub(super) fn internal(panic: &(dyn Any + Send)) -> Fault {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Fault::internal(format!("pflpipe broke: {}", text.unwrap_or("a panic without a text")))
        .help("this is a fault of the program; results in the store are not affected. Please report it with the command line")
}

/// Panics are told by whoever catches them, in one line; the default hook would print a second text with a back trace.
/// `RUST_BACKTRACE` brings it back for those who look for the cause.
pub(super) fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_short_internal_fault() {
        let panic = std::panic::catch_unwind(|| panic!("index {} of 3", 5)).expect_err("it panics");
        let fault = internal(&*panic);
        assert_eq!((fault.kind.exit_code(), fault.what.as_str()), (70, "pflpipe broke: index 5 of 3"));
    }
}
