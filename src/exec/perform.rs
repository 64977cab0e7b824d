//! One attempt from beginning to end, the same for every executor: lease, look again, run, publish.
//!
//! It knows one task and one store; who asked for it, and on which thread or machine, is not its business.

use super::executor::{Finish, Order, Say};
use super::interrupt::Stop;
use super::panics;
use crate::base::text;
use crate::base::threads::{Budget, Permit};
use crate::base::{Digest, Fault, FaultKind, Outcome};
use crate::stage::task::{Host, Outputs, Report, Runner};
use crate::store::{Failure, LogWriter, Published, Record, Store};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Where attempts run.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The store.
    pub store: &'a Store,
    /// What runs the stages.
    pub runner: &'a dyn Runner,
    /// The budget of threads.
    pub budget: &'a Budget,
    /// The folders with original data sets.
    pub data_dirs: &'a [PathBuf],
}

/// Runs one attempt to its end. `say` hears that it started and what the stage reports.
///
/// # Errors
/// The stage's fault (also recorded as a failed attempt), a storage fault, or `Interrupted` when it was asked to stop.
pub fn perform(order: &Order, site: &Site<'_>, stop: &Stop, say: &(dyn Fn(Say) + Sync)) -> Outcome<Finish> {
    let task = &order.task;
    let Some(_lease) = site.store.try_lease(&task.key)? else {
        return Ok(Finish::Busy);
    };
    // Between the scheduler's look and the lease, somebody may have finished the same key.
    if !order.force
        && let Some(outputs) = site.store.lookup(&task.key)
    {
        return Ok(Finish::Hit { outputs });
    }
    // A stage on another device leaves the CPU to others most of the time.
    let _permit: Option<Permit> = (task.device == super::CPU).then(|| site.budget.acquire());
    if stop.raised() {
        return Err(Fault::new(FaultKind::Interrupted, "stopped before it started"));
    }
    let (attempt, log) = site.store.begin_attempt(&task.key)?;
    let mut record = Record::new(task.key, &task.kind, &order.stage, Outputs::new());
    log.line(&format!("{} attempt {attempt} in run {} on {}, device {}", task.label, order.run, record.host.name, task.device));
    say(Say::Started { attempt });

    let host = StageHost { site: *site, log, stop, say, first: AtomicU64::new(0), warned: Mutex::default() };
    let clock = Instant::now();
    let outcome = panics::caught(|| site.runner.run(task, &host));
    let wall_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
    let outcome = outcome.and_then(|outputs| {
        record.label.clone_from(&task.label);
        record.coords.clone_from(&order.coords);
        record.manifest.clone_from(&order.manifest);
        record.outputs = outputs;
        (record.lineage, record.extent) = (order.lineage, order.extent);
        record.run.clone_from(&order.run);
        (record.wall_ms, record.attempt) = (wall_ms, attempt);
        // The first step that is told was done here; those before it were there already.
        record.begun_at = host.first.load(Ordering::Relaxed).checked_sub(1).filter(|begun| *begun > 0);
        record.measure_memory();
        record.warnings = warnings(site.store, &task.key, attempt, &host.warned.lock().unwrap_or_else(PoisonError::into_inner));
        let published = site.store.publish(&record)?;
        Ok(match published {
            Published::Differs { first, names, .. } => Finish::Done { outputs: first, wall_ms, differs: names },
            Published::New | Published::Same => Finish::Done { outputs: record.outputs.clone(), wall_ms, differs: Vec::new() },
        })
    });
    match &outcome {
        Ok(_) => {
            site.store.drop_checkpoint(&task.key);
            host.log.line(&format!("done after {}", text::duration(clock.elapsed().as_secs_f64())));
        }
        Err(fault) if matches!(fault.kind, FaultKind::Interrupted | FaultKind::Terminated) => {
            host.log.line(&format!("stopped after {}: {fault}", text::duration(clock.elapsed().as_secs_f64())));
        }
        Err(fault) => {
            host.log.line(&format!("failed after {}: {fault}", text::duration(clock.elapsed().as_secs_f64())));
            let failure = Failure {
                key: task.key,
                attempt,
                label: task.label.clone(),
                run: order.run.clone(),
                started: record.started.clone(),
                wall_ms,
                fault: fault.clone(),
            };
            // The fault itself matters more than that it could not be written down.
            if let Err(second) = site.store.failure(&failure) {
                host.log.line(&format!("cannot record the failure: {second}"));
            }
        }
    }
    outcome
}

/// Of what is warned in a log.
const WARNING: &str = "warning: ";

/// How many warnings of a stage its record keeps; its log has all.
const MOST: usize = 100;

/// What this attempt warned of and, as it may continue what an earlier one had begun, the warnings in the logs before; each once.
fn warnings(store: &Store, key: &Digest, attempt: u32, own: &[String]) -> Vec<String> {
    let logs: Vec<String> = (1..attempt).filter_map(|n| store.log(key, n).ok()).collect();
    // A line begins with its time.
    let before = logs.iter().flat_map(|log| log.lines()).filter_map(|line| line.split_once(' ')?.1.strip_prefix(WARNING));
    let mut all: Vec<String> = Vec::new();
    for line in before.chain(own.iter().map(String::as_str)) {
        if all.len() < MOST && !all.iter().any(|known| known == line) {
            all.push(line.to_owned());
        }
    }
    all
}

struct StageHost<'a> {
    site: Site<'a>,
    log: LogWriter,
    stop: &'a Stop,
    say: &'a (dyn Fn(Say) + Sync),
    /// The first step that was done, counted from 1; 0 where none is yet.
    first: AtomicU64,
    /// What it warned of.
    warned: Mutex<Vec<String>>,
}

impl Host for StageHost<'_> {
    fn store(&self) -> &Store {
        self.site.store
    }
    fn budget(&self) -> &Budget {
        self.site.budget
    }
    fn data_dirs(&self) -> &[PathBuf] {
        self.site.data_dirs
    }
    fn report(&self, report: Report) {
        if let Report::Log { warning, line } = &report {
            if *warning {
                self.warned.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
            }
            self.log.line(&if *warning { format!("{WARNING}{line}") } else { line.clone() });
        }
        if let Report::Progress { done, .. } = &report {
            let _ = self.first.compare_exchange(0, *done, Ordering::Relaxed, Ordering::Relaxed);
        }
        (self.say)(Say::Report { report });
    }
    fn stopping(&self) -> bool {
        self.stop.raised()
    }
}
