//! Logs and failures of attempts. A log is opened before a stage starts, so an attempt counts even when the machine dies in it.

use super::{Store, record};
use crate::base::{Digest, Fault, Outcome};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A failed attempt. It is kept for people and never counts as a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The key that was tried.
    pub key: Digest,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The stage with its coordinates.
    pub label: String,
    /// The run.
    pub run: String,
    /// When it started, RFC 3339 in UTC.
    pub started: String,
    /// How long it took, in milliseconds.
    pub wall_ms: u64,
    /// What went wrong.
    pub fault: Fault,
}

/// Appends lines to the log of one attempt. A log that cannot be written warns once and never stops a stage.
#[derive(Debug)]
pub struct LogWriter {
    store: Store,
    path: PathBuf,
    broken: AtomicBool,
}

impl LogWriter {
    /// Appends one line with the time.
    pub fn line(&self, text: &str) {
        let line = format!("{} {text}\n", super::time_now());
        if let Err(error) = self.store.files().append(&self.path, line.as_bytes())
            && !self.broken.swap(true, Ordering::Relaxed)
        {
            self.store.warn(format!("cannot write `{}`: {error}", self.path.display()));
        }
    }

    /// The log's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Store {
    /// Begins the next attempt of a key: its number, from 1, and its log.
    ///
    /// # Errors
    /// A storage fault when the log cannot be made.
    pub fn begin_attempt(&self, key: &Digest) -> Outcome<(u32, LogWriter)> {
        for attempt in 1..=u32::MAX {
            let path = self.layout().log(key, attempt);
            match self.files().write_new(&path, b"", false) {
                Ok(()) => return Ok((attempt, self.log_writer(key, attempt))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Fault::io("create", &path, &error)),
            }
        }
        Err(Fault::internal("more attempts than can be counted"))
    }

    /// The log of an attempt, for appending.
    #[must_use]
    pub fn log_writer(&self, key: &Digest, attempt: u32) -> LogWriter {
        LogWriter { store: self.clone(), path: self.layout().log(key, attempt), broken: AtomicBool::new(false) }
    }

    /// The text of an attempt's log.
    ///
    /// # Errors
    /// A storage fault when there is none or it cannot be read.
    pub fn log(&self, key: &Digest, attempt: u32) -> Outcome<String> {
        let path = self.layout().log(key, attempt);
        let bytes = self.files().read(&path).map_err(|e| Fault::io("read", &path, &e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// How many attempts of a key were begun.
    #[must_use]
    pub fn attempts(&self, key: &Digest) -> u32 {
        (1..u32::MAX).find(|n| self.files().stat(&self.layout().log(key, *n)).is_err()).map_or(0, |n| n - 1)
    }

    /// Records a failed attempt.
    ///
    /// # Errors
    /// A storage fault when it cannot be written.
    pub fn failure(&self, failure: &Failure) -> Outcome<()> {
        self.replace(&self.layout().failure(&failure.key, failure.attempt), &record::encode(failure)?)
    }

    /// The failed attempts of a key, in order; damaged ones are left out.
    #[must_use]
    pub fn failures(&self, key: &Digest) -> Vec<Failure> {
        (1..=self.attempts(key))
            .filter_map(|n| self.files().read(&self.layout().failure(key, n)).ok())
            .filter_map(|bytes| record::decode(&bytes).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_and_failures_kept_beside_their_logs() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        let key = Digest::of(b"k");
        let (first, log) = store.begin_attempt(&key).expect("writable");
        log.line("started");
        log.line("round 1");
        assert_eq!((first, store.log(&key, 1).expect("there").lines().count()), (1, 2));
        let failure = Failure {
            key,
            attempt: 1,
            label: "run".to_owned(),
            run: String::new(),
            started: crate::store::time_now(),
            wall_ms: 5,
            fault: Fault::stage("it broke"),
        };
        store.failure(&failure).expect("writable");
        assert_eq!(store.begin_attempt(&key).expect("writable").0, 2);
        assert_eq!((store.attempts(&key), store.failures(&key)), (2, vec![failure]));
        assert_eq!(store.lookup(&key), None, "a failure is no hit");
    }
}
