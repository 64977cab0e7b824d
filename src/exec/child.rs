//! The executor that runs each attempt in a process of its own: one that crashes or runs out of memory takes nothing else along,
//! and one that does not stop can be killed.

use super::executor::{Attempt, Executor, Finish, Mailbox, Order, Say, start_thread};
use super::local::seek_shorter;
use super::worker::Ticket;
use crate::base::{Digest, Fault, FaultKind, Outcome};
use crate::stage::task::Report;
use crate::store::{Failure, LogWriter, Store, time_now};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes of a dead worker's error output a fault quotes.
const LAST_WORDS: usize = 2000;
/// How long a worker may take to end after its last word.
const FAREWELL: Duration = Duration::from_secs(2);

/// The command line of a worker; the path of its ticket follows as the last argument.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments before the ticket.
    pub arguments: Vec<OsString>,
    /// Further environment variables.
    pub environment: Vec<(OsString, OsString)>,
}

impl WorkerCommand {
    /// This program with `worker --task`.
    ///
    /// # Errors
    /// An internal fault when the program cannot be found.
    pub fn current() -> Outcome<Self> {
        let program = std::env::current_exe().map_err(|e| Fault::internal(format!("cannot find this program: {e}")))?;
        Ok(Self { program, arguments: vec!["worker".into(), "--task".into()], environment: Vec::new() })
    }
}

/// Runs attempts in child processes.
#[derive(Clone, Debug)]
pub struct ChildProcess {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    command: WorkerCommand,
    data_dirs: Vec<PathBuf>,
    threads: usize,
}

impl ChildProcess {
    /// An executor on that store; each worker may use so many threads.
    #[must_use]
    pub fn new(store: &Store, command: WorkerCommand, data_dirs: &[PathBuf], threads: usize) -> Self {
        let inner = Inner { store: store.clone(), command, data_dirs: data_dirs.to_vec(), threads: threads.max(1) };
        Self { inner: Arc::new(inner) }
    }
}

impl Executor for ChildProcess {
    fn name(&self) -> &str {
        "processes"
    }

    fn start(&self, mut order: Order, mailbox: Mailbox) -> Outcome<Box<dyn Attempt>> {
        let handle = Handle::default();
        let (inner, seen) = (Arc::clone(&self.inner), handle.clone());
        start_thread(std::thread::Builder::new().name("worker".to_owned()), mailbox, move |mailbox| {
            seek_shorter(&inner.store, &mut order);
            inner.run(order, &seen, mailbox)
        })?;
        Ok(Box::new(handle))
    }
}

impl Inner {
    fn run(&self, order: Order, handle: &Handle, mailbox: &Mailbox) -> Outcome<Finish> {
        let (key, label, run) = (order.task.key, order.task.label.clone(), order.run.clone());
        let ticket = Ticket {
            order,
            store: self.store.root().to_owned(),
            durable: self.store.durable(),
            data_dirs: self.data_dirs.clone(),
            threads: self.threads,
        };
        let text = serde_json::to_vec(&ticket).map_err(|e| Fault::internal(format!("a ticket could not be written: {e}")))?;
        let path = self.store.put_ticket(&text)?;
        let result = self.run_ticket(&key, &path, handle, mailbox);
        self.store.drop_ticket(&path);
        let (attempt, started, clock) = (result.attempt, result.started, result.clock);
        result.outcome.unwrap_or_else(|fault| {
            // A worker that says how it failed has recorded it, too; this one died.
            if let Some(attempt) = attempt {
                let wall_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
                let failure = Failure { key, attempt, label, run, started, wall_ms, fault: fault.clone() };
                if let Err(second) = self.store.failure(&failure) {
                    tracing::warn!("cannot record the failure of {}: {second}", Digest::short(&key));
                }
            }
            Err(fault)
        })
    }

    fn run_ticket(&self, key: &Digest, ticket: &Path, handle: &Handle, mailbox: &Mailbox) -> Ran {
        let mut ran = Ran { outcome: Ok(Ok(Finish::Busy)), attempt: None, started: time_now(), clock: Instant::now() };
        let mut pipes = match self.spawn(ticket, handle) {
            Ok(pipes) => pipes,
            Err(fault) => {
                ran.outcome = Ok(Err(fault));
                return ran;
            }
        };
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (kept, words) = (Arc::clone(&heard), mailbox.clone());
        // Without a thread to listen, what the worker says of its errors is lost, and nothing else.
        let listener = pipes.errors.take().and_then(|errors| std::thread::Builder::new().spawn(move || listen(errors, &kept, &words)).ok());
        let mut last = None;
        for line in BufReader::new(pipes.output).split(b'\n') {
            let Ok(line) = line else { break };
            match serde_json::from_slice::<Say>(&line) {
                Ok(Say::Finished { finish }) => last = Some(Ok(finish)),
                Ok(Say::Failed { fault }) => last = Some(Err(fault)),
                Ok(say) => {
                    if let Say::Started { attempt } = say {
                        ran.attempt = Some(attempt);
                        lock(&heard).open(self.store.log_writer(key, attempt));
                        (ran.started, ran.clock) = (time_now(), Instant::now());
                    }
                    mailbox.say(say);
                }
                // Something in the process wrote to its output by itself.
                Err(_) => {}
            }
            if last.is_some() {
                break;
            }
        }
        let status = handle.wait(last.is_some().then_some(FAREWELL));
        if let Some(listener) = listener {
            let _ = listener.join();
        }
        if let Some(last) = last {
            ran.outcome = Ok(last);
            return ran;
        }
        let words = String::from_utf8_lossy(&lock(&heard).words).trim().to_owned();
        ran.outcome = Err(died(status, &words));
        ran
    }

    fn spawn(&self, ticket: &Path, handle: &Handle) -> Outcome<Pipes> {
        let mut command = Command::new(&self.command.program);
        command.args(&self.command.arguments).arg(ticket).envs(self.command.environment.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C on the terminal is for the parent, which asks its workers to stop.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut slot = handle.slot();
        if slot.killed {
            return Err(Fault::new(FaultKind::Interrupted, "stopped before it started"));
        }
        let mut child = command.spawn().map_err(|e| Fault::device(format!("cannot start `{}`: {e}", self.command.program.display())))?;
        slot.input = child.stdin.take();
        let pipes =
            Pipes { output: child.stdout.take().ok_or_else(|| Fault::internal("a worker has no output"))?, errors: child.stderr.take() };
        slot.child = Some(child);
        if slot.stopped {
            slot.ask();
        }
        Ok(pipes)
    }
}

struct Pipes {
    output: std::process::ChildStdout,
    errors: Option<std::process::ChildStderr>,
}

struct Ran {
    /// The worker's own word, or the fault of its dying without one.
    outcome: Result<Outcome<Finish>, Fault>,
    attempt: Option<u32>,
    started: String,
    clock: Instant,
}

/// What a worker wrote to its error output.
#[derive(Default)]
struct Heard {
    /// The end of it.
    words: Vec<u8>,
    /// What was said before the attempt was known to have begun: the two pipes of a worker are read side by side.
    early: Vec<String>,
    /// Where it is written down, once the attempt has begun.
    log: Option<LogWriter>,
}

impl Heard {
    fn open(&mut self, log: LogWriter) {
        for line in self.early.drain(..) {
            log.line(&line);
        }
        self.log = Some(log);
    }

    fn line(&mut self, line: &[u8], text: &str) {
        self.words.extend(line);
        self.words.push(b'\n');
        let excess = self.words.len().saturating_sub(LAST_WORDS);
        self.words.drain(..excess);
        let line = format!("error output: {text}");
        match &self.log {
            Some(log) => log.line(&line),
            None => self.early.push(line),
        }
    }
}

/// Passes a worker's error output on as lines of its log and keeps the end of it.
fn listen(errors: impl Read, heard: &Mutex<Heard>, mailbox: &Mailbox) {
    for line in BufReader::new(errors).split(b'\n') {
        let Ok(line) = line else { break };
        let text = String::from_utf8_lossy(&line).into_owned();
        lock(heard).line(&line, &text);
        mailbox.say(Say::Report { report: Report::Log { warning: true, line: text } });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn died(status: Option<ExitStatus>, words: &str) -> Fault {
    #[cfg(unix)]
    let signal = status.and_then(|s| std::os::unix::process::ExitStatusExt::signal(&s));
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let how = match (signal, status.and_then(|s| s.code())) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("ended with exit code {code} and without a result"),
        (None, None) => "ended without a result".to_owned(),
    };
    let last = if words.is_empty() { String::new() } else { format!("; its last words: {words}") };
    let fault = Fault::stage(format!("the worker process {how}{last}"));
    if signal == Some(9) {
        fault.help("signal 9 often means that the machine ran out of memory: run fewer stages at a time with `-j`")
    } else {
        fault
    }
}

#[derive(Clone, Debug, Default)]
struct Handle(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    child: Option<Child>,
    input: Option<ChildStdin>,
    stopped: bool,
    killed: bool,
}

impl Slot {
    fn ask(&mut self) {
        // Closing the pipe says the same, should the line not get through.
        if let Some(mut input) = self.input.take() {
            let _ = input.write_all(b"stop\n");
        }
    }
}

impl Handle {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.0)
    }

    /// Waits for the process in small steps, so that it can be killed meanwhile; one that has a limit is killed after it.
    fn wait(&self, limit: Option<Duration>) -> Option<ExitStatus> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(200);
        self.slot().input = None;
        loop {
            match self.slot().child.as_mut()?.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => {}
                Err(_) => return None,
            }
            if limit.is_some_and(|limit| begun.elapsed() > limit) {
                self.kill();
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Attempt for Handle {
    fn stop(&self) {
        let mut slot = self.slot();
        slot.stopped = true;
        slot.ask();
    }

    fn kill(&self) {
        let mut slot = self.slot();
        slot.killed = true;
        if let Some(child) = slot.child.as_mut() {
            let _ = child.kill();
        }
    }
}
