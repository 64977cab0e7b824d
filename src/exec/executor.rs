//! How attempts run: an executor starts one and reports by messages. It knows nothing of the graph.

use crate::base::{Digest, Fault, Outcome};
use crate::stage::task::{Outputs, Report, Task};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

/// One attempt as plain data: a child process or another machine can take it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// What to run.
    pub task: Task,
    /// The stage's name.
    pub stage: String,
    /// The coordinates by axis.
    pub coords: BTreeMap<String, Value>,
    /// What the key is made of.
    pub manifest: Value,
    /// The key without the parameter that may be extended.
    pub lineage: Option<Digest>,
    /// The value of that parameter.
    pub extent: Option<u64>,
    /// The name of the run.
    pub run: String,
    /// Run it even when its result is there.
    pub force: bool,
}

/// How an attempt ended when it did not fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "finish")]
pub enum Finish {
    /// It ran, and its result is published.
    Done {
        /// The outputs that hold for the key.
        outputs: Outputs,
        /// How long the stage took, in milliseconds.
        wall_ms: u64,
        /// The names of outputs that differ from an earlier result of the same key, which holds.
        differs: Vec<String>,
    },
    /// Somebody else had published the result meanwhile.
    Hit {
        /// The outputs.
        outputs: Outputs,
    },
    /// Somebody else runs the key now.
    Busy,
}

/// What an attempt says; also one line of a worker process's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum Say {
    /// It holds the lease and begins to run.
    Started {
        /// The attempt, counted from 1 over all runs.
        attempt: u32,
    },
    /// The stage says something.
    Report {
        /// What it says.
        #[serde(flatten)]
        report: Report,
    },
    /// The last thing that it says, when it did not fail.
    Finished {
        /// How it ended.
        #[serde(flatten)]
        finish: Finish,
    },
    /// The last thing that it says, when it failed.
    Failed {
        /// What went wrong.
        fault: Fault,
    },
}

impl Say {
    /// The last message of an attempt.
    #[must_use]
    pub fn last(outcome: Outcome<Finish>) -> Self {
        match outcome {
            Ok(finish) => Self::Finished { finish },
            Err(fault) => Self::Failed { fault },
        }
    }
}

/// A message to the scheduler.
#[derive(Debug)]
pub struct Message {
    /// The position of the job.
    pub job: usize,
    /// Tells an attempt from an earlier one of the same job that was given up.
    pub serial: u64,
    /// What it says.
    pub say: Say,
}

/// Where an attempt sends its messages. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Mailbox {
    pub(super) job: usize,
    pub(super) serial: u64,
    pub(super) sender: Sender<Message>,
}

impl Mailbox {
    /// Sends a message. A scheduler that is gone no longer cares.
    pub fn say(&self, say: Say) {
        let _ = self.sender.send(Message { job: self.job, serial: self.serial, say });
    }
}

/// Lets an attempt run on a thread of its own and say how it ended.
///
/// # Errors
/// A device fault: the system has no thread left.
pub(super) fn start_thread(
    thread: std::thread::Builder,
    mailbox: Mailbox,
    run: impl FnOnce(&Mailbox) -> Outcome<Finish> + Send + 'static,
) -> Outcome<()> {
    let life = move || {
        // All that `run` held is gone before the last word: whoever hears it may close the store, and then delete its folder.
        let outcome = run(&mailbox);
        mailbox.say(Say::last(outcome));
    };
    thread.spawn(life).map(drop).map_err(|error| Fault::no_thread(&error))
}

/// A started attempt.
pub trait Attempt: Send {
    /// Asks it to checkpoint and stop; it still says how it ended.
    fn stop(&self);
    /// Ends it at once where that is possible; nothing more is expected of it.
    fn kill(&self);
}

/// Starts attempts.
pub trait Executor: Sync {
    /// Its name, for people.
    fn name(&self) -> &str;
    /// Starts an attempt and returns at once. The attempt sends [`Say::Finished`] or [`Say::Failed`] exactly once, last.
    ///
    /// # Errors
    /// A fault when it cannot be started at all.
    fn start(&self, order: Order, mailbox: Mailbox) -> Outcome<Box<dyn Attempt>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ObjectRef;

    #[test]
    fn what_is_said_survives_a_line_of_text() {
        let outputs = BTreeMap::from([("m".to_owned(), ObjectRef { digest: Digest::of(b"x"), size: 1 })]);
        for say in [
            Say::Started { attempt: 2 },
            Say::Report { report: Report::Log { warning: true, line: "two\nlines".to_owned() } },
            Say::Report { report: Report::Progress { done: 1, total: 2, values: BTreeMap::from([("loss".to_owned(), 0.5)]) } },
            Say::last(Ok(Finish::Done { outputs: outputs.clone(), wall_ms: 3, differs: vec!["m".to_owned()] })),
            Say::last(Ok(Finish::Hit { outputs })),
            Say::last(Ok(Finish::Busy)),
            Say::last(Err(Fault::stage("no").help("yes"))),
        ] {
            let line = serde_json::to_string(&say).expect("plain data");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Say>(&line).expect("same format"), say, "{line}");
        }
    }
}
