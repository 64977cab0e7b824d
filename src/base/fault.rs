//! The one error type: what went wrong, where, and what to do about it.
//!
//! A fault is plain data, so that it survives a process boundary and can be stored in a record.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `Result` with a [`Fault`].
pub type Outcome<T> = Result<T, Fault>;

/// The kind of a fault; it alone decides the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A stage failed while it ran (exit code 1).
    Stage,
    /// The command line is wrong (exit code 2).
    Usage,
    /// The pipeline is invalid (exit code 3).
    Pipeline,
    /// The store, a data file or other input and output (exit code 4).
    Storage,
    /// An executor or a device is not there (exit code 5).
    Device,
    /// The same stage gave two different results (exit code 6).
    NonDeterminism,
    /// `plan --exit-code` found something that would run (exit code 10).
    WouldRun,
    /// A fault of pflpipe itself (exit code 70).
    Internal,
    /// A worker's inputs are not there yet (exit code 75).
    InputsMissing,
    /// Stopped by SIGINT (exit code 130).
    Interrupted,
    /// Stopped by SIGTERM (exit code 143).
    Terminated,
}

impl FaultKind {
    /// The documented exit code of the process.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Stage => 1,
            Self::Usage => 2,
            Self::Pipeline => 3,
            Self::Storage => 4,
            Self::Device => 5,
            Self::NonDeterminism => 6,
            Self::WouldRun => 10,
            Self::Internal => 70,
            Self::InputsMissing => 75,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

/// What went wrong (`what`), in which file, stage or value (`at`), and the next action (`help`).
///
/// `what` is a lower-case fragment without a final period, with names in backticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Decides the exit code.
    pub kind: FaultKind,
    /// What went wrong.
    pub what: String,
    /// Where: a path, a stage with its coordinates, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Fault {
    /// A fault of the given kind.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), at: Vec::new(), help: None }
    }
    /// A stage that failed.
    pub fn stage(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Stage, what)
    }
    /// A wrong command line.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Usage, what)
    }
    /// An invalid pipeline.
    pub fn pipeline(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Pipeline, what)
    }
    /// Trouble with the store, a data file or other input and output.
    pub fn storage(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Storage, what)
    }
    /// A device or executor that is not there.
    pub fn device(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Device, what)
    }
    /// A broken invariant of pflpipe itself.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Internal, what)
    }
    /// An operating-system error on a path: `verb` is what was tried (`read`, `create`).
    pub fn io(verb: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let fault = Self::storage(format!("cannot {verb} `{}`: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::StorageFull => fault.help("free some space, or choose another store with `--cache DIR`"),
            std::io::ErrorKind::ReadOnlyFilesystem => fault.help("choose a folder that can be written; another store with `--cache DIR`"),
            std::io::ErrorKind::FileTooLarge => fault.help("allow larger files (`ulimit -f`), or choose another folder"),
            // EMFILE of every Unix.
            _ if cfg!(unix) && error.raw_os_error() == Some(24) => fault.help("allow the process more open files (`ulimit -n`)"),
            std::io::ErrorKind::PermissionDenied => fault.help("check the permissions, or choose another folder"),
            _ => fault,
        }
    }
    /// The system has no thread left for this process.
    pub fn no_thread(error: &dyn fmt::Display) -> Self {
        Self::device(format!("cannot start a thread: {error}")).help("allow this user or container more processes (`ulimit -u`)")
    }
    /// Adds the surroundings in which the fault happened.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.at.insert(0, place.into());
        self
    }
    /// The same as [`Fault::at`], unless the place is named already.
    #[must_use]
    pub fn in_place(self, place: &str) -> Self {
        if self.at.iter().any(|known| known == place) { self } else { self.at(place) }
    }
    /// Adds what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in &self.at {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

/// Adds a place to the fault of a result.
pub trait Placed<T> {
    /// Adds the surroundings, evaluated only for a fault.
    ///
    /// # Errors
    /// The same fault, with the place added.
    fn at<S: Into<String>>(self, place: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T> Placed<T> for Outcome<T> {
    fn at<S: Into<String>>(self, place: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|fault| fault.at(place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_printed_outermost_first() {
        let fault = Fault::stage("alpha is 0").at("client 3").at("stage `split`");
        assert_eq!(fault.to_string(), "stage `split`: client 3: alpha is 0");
    }

    #[test]
    fn a_fault_survives_a_process_boundary() {
        let fault = Fault::storage("gone").at("x").help("look");
        let text = serde_json::to_string(&fault).expect("plain data");
        assert_eq!(serde_json::from_str::<Fault>(&text).expect("same format"), fault);
    }
}
