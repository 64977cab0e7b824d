//! The history of runs: for each run its pipeline, its plan, its events as JSON lines, and how it ended.
//!
//! An event that carries a `key` keeps that key's result through garbage collection as long as the run is one of the last of its
//! pipeline. What else an event says is the caller's business.

use super::{Lease, Store, held, record};
use crate::base::{Digest, Fault, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const BUFFER: usize = 1 << 16;

/// What is known when a run begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStart {
    /// The pipeline's name.
    pub pipeline: String,
    /// The pipeline's resolved text.
    pub text: String,
    /// A summary of the plan, as the caller likes it.
    pub plan: Value,
    /// The command line.
    pub command: Vec<String>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// Its process lives.
    Running,
    /// All stages are done or cached.
    Done,
    /// At least one stage failed.
    Failed,
    /// It was asked to stop.
    Interrupted,
    /// Its process ended without a word.
    Died,
}

/// A run of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Sorts by time: `20260131-094500-1f3a`.
    pub id: String,
    /// The pipeline's name.
    pub pipeline: String,
    /// The digest of the pipeline's resolved text.
    pub digest: Digest,
    /// The command line.
    pub command: Vec<String>,
    /// The machine.
    pub host: record::HostInfo,
    /// The version of pflpipe.
    pub version: String,
    /// RFC 3339 in UTC.
    pub started: String,
    /// RFC 3339 in UTC, when it has ended.
    #[serde(default)]
    pub ended: Option<String>,
    /// How far it is.
    pub status: RunStatus,
    /// The number of stages by state.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
}

/// A run that goes on; its events reach the disk in blocks.
#[derive(Debug)]
pub struct Run {
    store: Store,
    info: RunInfo,
    state: Mutex<Events>,
    /// Says that the process lives.
    _alive: Option<Lease>,
}

#[derive(Debug, Default)]
struct Events {
    buffer: Vec<u8>,
    broken: bool,
}

impl Run {
    /// The run's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.info.id
    }

    /// Appends an event. A history that cannot be written warns once and stops nothing.
    pub fn event(&self, event: &impl Serialize) {
        let mut state = held(&self.state);
        let before = state.buffer.len();
        if serde_json::to_writer(&mut state.buffer, event).is_ok() {
            state.buffer.push(b'\n');
        } else {
            state.buffer.truncate(before);
        }
        if state.buffer.len() >= BUFFER {
            self.write(&mut state);
        }
    }

    /// Writes the events so far, for whoever watches.
    pub fn flush(&self) {
        self.write(&mut held(&self.state));
    }

    /// Ends the run.
    ///
    /// # Errors
    /// A storage fault when its end cannot be written; results are not affected.
    pub fn finish(mut self, status: RunStatus, counts: BTreeMap<String, u64>) -> Outcome<RunInfo> {
        self.flush();
        self.info.ended = Some(super::time_now());
        self.info.status = status;
        self.info.counts = counts;
        let path = self.store.layout().run(&self.info.id).join("run.json");
        self.store.replace(&path, &record::encode(&self.info)?)?;
        self.store.0.index.flush();
        Ok(self.info.clone())
    }

    fn write(&self, state: &mut Events) {
        if state.buffer.is_empty() {
            return;
        }
        let path = self.store.layout().run(&self.info.id).join("events.jsonl");
        let result = self.store.files().append(&path, &state.buffer);
        state.buffer.clear();
        if let Err(error) = result
            && !std::mem::replace(&mut state.broken, true)
        {
            self.store.warn(format!("cannot write `{}`: {error}", path.display()));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Store {
    /// Begins a run of the history.
    ///
    /// # Errors
    /// A storage fault when its folder cannot be written.
    pub fn begin_run(&self, start: &RunStart) -> Outcome<Run> {
        let started = super::time_now();
        let id = self.new_run_id(&started)?;
        let alive = self.lock_lease(self.alive(&id), false)?;
        let info = RunInfo {
            id,
            pipeline: start.pipeline.clone(),
            digest: Digest::of(start.text.as_bytes()),
            command: start.command.clone(),
            host: record::HostInfo::here(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            ended: None,
            status: RunStatus::Running,
            counts: BTreeMap::new(),
        };
        let folder = self.layout().run(&info.id);
        let plan = serde_json::to_vec(&start.plan).map_err(|e| Fault::internal(format!("a plan could not be written: {e}")))?;
        for (name, bytes) in [("pipeline.yaml", start.text.as_bytes()), ("plan.json", &plan), ("run.json", &record::encode(&info)?)] {
            let path = folder.join(name);
            self.files().write_new(&path, bytes, false).map_err(|e| Fault::io("write", &path, &e))?;
        }
        Ok(Run { store: self.clone(), info, state: Mutex::default(), _alive: alive })
    }

    /// The runs, newest first; damaged ones are left out.
    #[must_use]
    pub fn runs(&self) -> Vec<RunInfo> {
        let names = self.files().list(&self.layout().folder("runs")).unwrap_or_default();
        names.iter().rev().filter_map(|id| self.run(id)).collect()
    }

    /// One run by its name.
    #[must_use]
    pub fn run(&self, id: &str) -> Option<RunInfo> {
        let path = self.run_file(id, "run.json")?;
        let mut info: RunInfo = record::decode(&self.files().read(&path).ok()?).ok()?;
        if info.status == RunStatus::Running && !self.is_locked(self.alive(&info.id)) {
            info.status = RunStatus::Died;
        }
        Some(info)
    }

    /// The events of a run in order; a line cut short by a crash is left out.
    #[must_use]
    pub fn run_events(&self, id: &str) -> Vec<Value> {
        let bytes = self.run_file(id, "events.jsonl").and_then(|path| self.files().read(&path).ok()).unwrap_or_default();
        bytes.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// The resolved text of a run's pipeline.
    ///
    /// # Errors
    /// A storage fault when there is no such run or it cannot be read.
    pub fn run_text(&self, id: &str) -> Outcome<String> {
        let path = self.run_file(id, "pipeline.yaml").ok_or_else(|| Fault::storage(format!("`{id}` is not the name of a run")))?;
        let bytes = self.files().read(&path).map_err(|e| Fault::io("read", &path, &e))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The summary of a run's plan.
    #[must_use]
    pub fn run_plan(&self, id: &str) -> Option<Value> {
        serde_json::from_slice(&self.files().read(&self.run_file(id, "plan.json")?).ok()?).ok()
    }

    /// Where a run's events are written, for whoever follows them.
    #[must_use]
    pub fn run_events_path(&self, id: &str) -> Option<PathBuf> {
        self.run_file(id, "events.jsonl")
    }

    /// The keys that a run used.
    pub(super) fn run_keys(&self, id: &str) -> Vec<Digest> {
        self.run_events(id).iter().filter_map(|event| event.get("key")?.as_str()?.parse().ok()).collect()
    }

    fn run_file(&self, id: &str, name: &str) -> Option<PathBuf> {
        // A name from the command line must not lead out of the store.
        let plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        plain.then(|| self.layout().run(id).join(name))
    }

    fn alive(&self, id: &str) -> PathBuf {
        self.layout().folder("lease").join(format!("run-{id}"))
    }

    fn new_run_id(&self, started: &str) -> Outcome<String> {
        // "2026-01-31T09:45:00.123Z" becomes "20260131-094500".
        let digits: String = started.chars().take(19).filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(digits.len().min(8));
        for n in 0..100 {
            let salt = Digest::of(format!("{}{n}{:?}", self.0.prefix, self.temporary()).as_bytes());
            let id = format!("{day}-{time}-{}", &salt.hex()[..4]);
            let path = self.layout().run(&id);
            if self.files().stat(&path).is_ok() {
                continue;
            }
            self.files().create_folder(&path).map_err(|e| Fault::io("create the folder", &path, &e))?;
            // Whoever writes this file first owns the name.
            match self.files().write_new(&path.join("events.jsonl"), b"", false) {
                Ok(()) => return Ok(id),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Fault::io("write", Path::new(&path), &error)),
            }
        }
        Err(Fault::internal("no name for the run was free"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_running_then_done_and_dead_without_a_word() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let start = RunStart { pipeline: "table2".to_owned(), text: "name: table2".to_owned(), ..RunStart::default() };
        let run = store.begin_run(&start).expect("writable");
        let id = run.id().to_owned();
        let key = Digest::of(b"k");
        run.event(&serde_json::json!({"event": "cached", "key": key}));
        run.flush();
        assert_eq!(store.run(&id).map(|r| r.status), Some(RunStatus::Running));
        assert_eq!(store.run_keys(&id), [key]);
        assert_eq!(store.run_text(&id).expect("there"), "name: table2");
        run.finish(RunStatus::Done, BTreeMap::from([("cached".to_owned(), 1)])).expect("writable");
        assert_eq!(store.runs().iter().map(|r| r.status).collect::<Vec<_>>(), [RunStatus::Done]);
        drop(store.begin_run(&start).expect("writable"));
        assert!(store.runs().iter().any(|r| r.status == RunStatus::Died));
        assert_eq!(store.run("../../etc"), None);
    }

    #[test]
    fn a_cut_line_is_left_out() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let run = store.begin_run(&RunStart::default()).expect("writable");
        run.event(&1);
        run.flush();
        let path = store.run_events_path(run.id()).expect("a name");
        std::fs::OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut f| std::io::Write::write_all(&mut f, b"{\"key\": \"ab"))
            .expect("writable");
        assert_eq!(store.run_events(run.id()), [serde_json::json!(1)]);
    }
}
