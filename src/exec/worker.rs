//! The worker process: takes one ticket, runs its attempt, and says what happens as lines of JSON.
//!
//! It opens no index and knows no graph. A line `stop`, or the end of its input (its parent is gone), asks it to checkpoint and
//! stop.

use super::executor::{Finish, Order, Say};
use super::interrupt::Stop;
use super::perform::{Site, perform};
use crate::base::threads::Budget;
use crate::base::{Fault, FaultKind, Outcome};
use crate::stage::task::Runner;
use crate::store::{Disk, Store};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// All that a worker needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ticket {
    /// The attempt.
    pub order: Order,
    /// The folder of the store.
    pub store: PathBuf,
    /// Whether writes are forced to the disk.
    pub durable: bool,
    /// The folders with original data sets.
    pub data_dirs: Vec<PathBuf>,
    /// How many threads the stage may use.
    pub threads: usize,
}

/// Runs the ticket in that file and returns the exit code of the process: 0 when the attempt did not fail, 75 when an input is
/// not in the store yet, else the code of the fault.
///
/// `input` is watched for `stop` on a thread of its own, and `output` carries one JSON line for each [`Say`].
pub fn main(ticket: &Path, runner: &dyn Runner, input: impl Read + Send + 'static, output: impl Write + Send) -> u8 {
    let output = Mutex::new(output);
    let say = |say: Say| {
        if let Ok(mut line) = serde_json::to_vec(&say) {
            line.push(b'\n');
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            // A parent that is gone reads nothing; the end of the input says so as well.
            let _ = output.write_all(&line).and_then(|()| output.flush());
        }
    };
    let stop = Stop::new();
    watch(input, stop.clone());
    let outcome = run(ticket, runner, &stop, &say);
    let code = outcome.as_ref().map_or_else(|fault| fault.kind.exit_code(), |_| 0);
    say(Say::last(outcome));
    code
}

fn run(ticket: &Path, runner: &dyn Runner, stop: &Stop, say: &(dyn Fn(Say) + Sync)) -> Outcome<Finish> {
    let bytes = std::fs::read(ticket).map_err(|e| Fault::io("read", ticket, &e))?;
    let ticket: Ticket =
        serde_json::from_slice(&bytes).map_err(|e| Fault::usage(format!("`{}` is not a worker's ticket: {e}", ticket.display())))?;
    let store = Store::open_unindexed(&ticket.store, Arc::new(Disk), ticket.durable)?;
    for (slot, outputs) in &ticket.order.task.inputs {
        if let Some((name, _)) = outputs.iter().find(|(_, object)| !store.has(object)) {
            return Err(Fault::new(FaultKind::InputsMissing, format!("input `{slot}`: output `{name}` is not in the store yet")));
        }
    }
    let budget = Budget::new(ticket.threads);
    perform(&ticket.order, &Site { store: &store, runner, budget: &budget, data_dirs: &ticket.data_dirs }, stop, say)
}

fn watch(input: impl Read + Send + 'static, stop: Stop) {
    let work = move || {
        for line in BufReader::new(input).lines() {
            match line {
                Ok(line) if line.trim() != "stop" => {}
                _ => break,
            }
        }
        stop.raise();
    };
    // Without the thread the worker only cannot be asked to stop; it can still be killed.
    let _ = std::thread::Builder::new().name("watch".to_owned()).spawn(work);
}
