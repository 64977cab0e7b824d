//! The scheduler: one thread that owns every state, starts what is ready, and hears what happens.
//!
//! A job's key is known when its inputs are; one whose result is there is never started. What another process runs is waited for.
//! The scheduler knows nothing of stages, and of executors only that they start attempts.

mod renew;
mod timeout;

use super::event::Event;
use super::executor::{Attempt, Executor, Finish, Mailbox, Message, Order, Say};
use super::interrupt::Interrupt;
use super::job::{Job, Planner};
use super::ready::{self, Ready};
use super::state::{State, States};
use super::summary::{Span, Summary};
use crate::base::{Digest, Fault, FaultKind, Outcome, text};
use crate::stage::task::{Outputs, Report};
use crate::store::{Run, Store, time_now};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How often an interrupt is looked for while nothing else happens.
const TICK: Duration = Duration::from_millis(25);
/// How soon a key that another process runs is looked at again: at first, and at most.
const RECHECK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How often a job's progress enters the run's history.
const PROGRESS: Duration = Duration::from_secs(1);

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CPU slots: how many stages run at a time, at least 1.
    pub slots: usize,
    /// Devices other than `cpu`; each runs one stage at a time.
    pub devices: Vec<String>,
    /// Go on with what does not depend on a failure.
    pub keep_going: bool,
    /// A second, different result of a key is a failure (of kind `NonDeterminism`) rather than a warning.
    pub strict: bool,
    /// How long a stage that timed out may take to checkpoint before it is killed or left behind.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { slots: 1, devices: Vec::new(), keep_going: false, strict: false, grace: Duration::from_secs(30) }
    }
}

/// All that a run needs.
pub struct Schedule<'a> {
    /// The graph.
    pub jobs: &'a [Job],
    /// Gives keys and tasks.
    pub planner: &'a dyn Planner,
    /// Where results are.
    pub store: &'a Store,
    /// What runs attempts.
    pub executor: &'a dyn Executor,
    /// How to run.
    pub settings: &'a Settings,
    /// Asks the run to stop.
    pub interrupt: &'a Interrupt,
    /// Where events are kept, if anywhere.
    pub history: Option<&'a Run>,
}

impl Schedule<'_> {
    /// Runs all jobs; `sink` hears every event, on this thread.
    ///
    /// # Errors
    /// A fault when nothing could be started at all: a device that is not there, or a graph that is none. What fails later is in
    /// the summary.
    pub fn run(&self, sink: &mut dyn FnMut(&Event)) -> Outcome<Summary> {
        let order = ready::order(self.jobs)?;
        let dependents = ready::dependents(self.jobs)?;
        let ranks = ready::ranks(self.jobs, &order, &dependents);
        let ready = Ready::new(self.settings.slots.max(1), &self.settings.devices, ranks);
        ready.check_devices(self.jobs)?;
        let (sender, receiver) = channel();
        let mut scheduler = Scheduler {
            with: self,
            sink,
            dependents,
            missing: self.jobs.iter().map(|job| job.deps.len()).collect(),
            states: States::new(self.jobs.len()),
            outputs: vec![None; self.jobs.len()],
            keys: vec![None; self.jobs.len()],
            faults: BTreeMap::new(),
            retries: self.jobs.iter().map(|job| job.retries).collect(),
            renewed: BTreeSet::new(),
            second_chances: BTreeSet::new(),
            fresh: order.into_iter().filter(|job| self.jobs[*job].deps.is_empty()).collect(),
            ready,
            running: BTreeMap::new(),
            parked: BTreeMap::new(),
            spans: Vec::new(),
            sender,
            serial: 0,
            halted: false,
            level: 0,
            begun: Instant::now(),
        };
        scheduler.go(&receiver);
        Ok(scheduler.end())
    }
}

struct Scheduler<'a, 'b> {
    with: &'a Schedule<'a>,
    sink: &'b mut dyn FnMut(&Event),
    dependents: Vec<Vec<usize>>,
    /// For each job the number of dependencies without outputs.
    missing: Vec<usize>,
    states: States,
    outputs: Vec<Option<Outputs>>,
    keys: Vec<Option<Digest>>,
    faults: BTreeMap<usize, Fault>,
    retries: Vec<u32>,
    /// Jobs that run once more because their results were found damaged.
    renewed: BTreeSet<usize>,
    /// Jobs that ran once more because what they read had just been made anew.
    second_chances: BTreeSet<usize>,
    /// Jobs whose inputs have just become known.
    fresh: VecDeque<usize>,
    ready: Ready,
    running: BTreeMap<usize, Running>,
    parked: BTreeMap<usize, Parked>,
    spans: Vec<Span>,
    sender: Sender<Message>,
    serial: u64,
    /// After a failure without `keep_going`, or an interrupt: nothing more is started.
    halted: bool,
    level: u8,
    begun: Instant,
}

struct Running {
    serial: u64,
    attempt: Box<dyn Attempt>,
    /// The number of the attempt and when it started, RFC 3339 in UTC; known once it has started.
    started: Option<(u32, String)>,
    lane: usize,
    begun: Instant,
    /// When it has to be asked to stop; known once it has started.
    deadline: Option<Instant>,
    /// When it is given up, after it was asked.
    give_up: Option<Instant>,
    progress: Option<Instant>,
}

/// A job whose key another process runs.
struct Parked {
    next: Instant,
    pause: Duration,
}

impl Scheduler<'_, '_> {
    fn go(&mut self, receiver: &Receiver<Message>) {
        let with = self.with;
        self.tell(&Event::Begin { jobs: with.jobs.len(), slots: with.settings.slots.max(1), executor: with.executor.name().to_owned() });
        loop {
            self.look_for_interrupt();
            if self.level >= 2 {
                return;
            }
            self.evaluate();
            self.check_parked();
            self.show_history();
            self.dispatch();
            self.check_deadlines();
            self.pass_warnings_on();
            if self.running.is_empty() && self.fresh.is_empty() && (self.parked.is_empty() || self.halted) {
                return;
            }
            match receiver.recv_timeout(self.next_wait()) {
                Ok(message) => {
                    self.hear(message);
                    // What else has come in is dealt with before anything is started.
                    while let Ok(message) = receiver.try_recv() {
                        self.hear(message);
                    }
                }
                Err(_) => self.show_history(),
            }
        }
    }

    fn end(mut self) -> Summary {
        for (job, running) in std::mem::take(&mut self.running) {
            running.attempt.kill();
            self.finish_attempt(job, &running, State::Interrupted);
            self.settle(job, State::Interrupted);
        }
        self.pass_warnings_on();
        // Who stops a run whose last stage is just ending has stopped nothing.
        let cut_short = |job| matches!(self.states.get(job), State::Interrupted) || !self.states.get(job).is_final();
        let interrupted = (self.level > 0 && (0..self.outputs.len()).any(cut_short)).then(|| self.with.interrupt.kind());
        let wall_ms = millis(self.begun.elapsed());
        let summary = Summary {
            states: std::mem::replace(&mut self.states, States::new(0)).into_inner(),
            outputs: std::mem::take(&mut self.outputs),
            keys: std::mem::take(&mut self.keys),
            faults: std::mem::take(&mut self.faults),
            interrupted,
            spans: std::mem::take(&mut self.spans),
            wall_ms,
        };
        self.tell(&Event::End { counts: summary.counts(), wall_ms });
        summary
    }

    /// Writes the run's events for whoever watches, and for garbage collection, which then leaves what the run found alone.
    fn show_history(&self) {
        if let Some(run) = self.with.history {
            run.flush();
        }
    }

    /// Finds the keys of jobs whose inputs are known: their results are there, or they are ready to run.
    fn evaluate(&mut self) {
        let mut looked = 0_usize;
        while !self.halted
            && let Some(job) = self.fresh.pop_front()
        {
            // A result that it reads was found damaged meanwhile.
            if self.missing[job] > 0 {
                continue;
            }
            looked += 1;
            if looked.is_multiple_of(256) {
                self.look_for_interrupt();
            }
            match self.with.planner.key(job, &self.outputs) {
                Ok(key) => {
                    self.keys[job] = Some(key);
                    let hit = if self.with.jobs[job].force { None } else { self.with.store.lookup(&key) };
                    match hit {
                        Some(outputs) => self.cached(job, outputs),
                        None => self.make_ready(job),
                    }
                }
                Err(fault) => self.fail(job, fault),
            }
        }
        if self.halted {
            self.fresh.clear();
        }
    }

    fn make_ready(&mut self, job: usize) {
        self.states.set(job, State::Ready);
        self.ready.push(job, &self.with.jobs[job].device);
    }

    fn dispatch(&mut self) {
        while !self.halted
            && let Some((job, lane)) = self.ready.pop()
        {
            if self.lacking(job) > 0 {
                self.ready.release(&self.with.jobs[job].device, lane);
                self.wait_for_inputs(job);
                continue;
            }
            self.serial += 1;
            let mailbox = Mailbox { job, serial: self.serial, sender: self.sender.clone() };
            match self.order(job).and_then(|order| self.with.executor.start(order, mailbox)) {
                Ok(attempt) => {
                    self.states.set(job, State::Running);
                    let running = Running {
                        serial: self.serial,
                        attempt,
                        lane,
                        begun: Instant::now(),
                        started: None,
                        deadline: None,
                        give_up: None,
                        progress: None,
                    };
                    self.running.insert(job, running);
                }
                Err(fault) => {
                    self.ready.release(&self.with.jobs[job].device, lane);
                    self.fail(job, fault);
                }
            }
        }
    }

    fn order(&self, job: usize) -> Outcome<Order> {
        let prepared = self.with.planner.prepare(job, &self.outputs)?;
        let described = &self.with.jobs[job];
        if Some(prepared.task.key) != self.keys[job] {
            return Err(Fault::internal("a job's task has another key than the job"));
        }
        Ok(Order {
            task: prepared.task,
            stage: described.stage.clone(),
            coords: described.coords.clone(),
            manifest: prepared.manifest,
            lineage: prepared.lineage,
            extent: prepared.extent,
            run: self.with.history.map(|run| run.id().to_owned()).unwrap_or_default(),
            // The record of a damaged result is still there.
            force: described.force || self.renewed.contains(&job),
        })
    }

    fn hear(&mut self, message: Message) {
        let Message { job, serial, say } = message;
        // An attempt that was given up may still talk.
        if self.running.get(&job).is_none_or(|running| running.serial != serial) {
            return;
        }
        match say {
            Say::Started { attempt } => self.started(job, attempt),
            Say::Report { report } => self.report(job, report),
            Say::Finished { finish } => self.ended(job, Ok(finish)),
            Say::Failed { fault } => self.ended(job, Err(fault)),
        }
    }

    fn started(&mut self, job: usize, attempt: u32) {
        let described = &self.with.jobs[job];
        if let Some(running) = self.running.get_mut(&job) {
            running.deadline = described.timeout.map(|timeout| Instant::now() + timeout);
            running.started = Some((attempt, time_now()));
        }
        if let Some(key) = self.keys[job] {
            self.tell(&Event::Started { job, label: described.label.clone(), key, attempt, device: described.device.clone() });
        }
    }

    fn report(&mut self, job: usize, report: Report) {
        let keep = match (&report, self.running.get_mut(&job)) {
            (Report::Progress { done, total, .. }, Some(running)) => {
                let due = done == total || running.progress.is_none_or(|last| last.elapsed() >= PROGRESS);
                if due {
                    running.progress = Some(Instant::now());
                }
                due
            }
            // Lines are in the stage's log.
            _ => false,
        };
        let event = Event::Report { job, report };
        if keep && let Some(run) = self.with.history {
            run.event(&event);
        }
        if tracing::enabled!(tracing::Level::TRACE) {
            tracing::trace!("{}", serde_json::to_string(&event).unwrap_or_default());
        }
        (self.sink)(&event);
    }

    fn ended(&mut self, job: usize, outcome: Outcome<Finish>) {
        let Some(running) = self.running.remove(&job) else { return };
        let label = &self.with.jobs[job].label;
        let timed_out = running.give_up.is_some();
        let state = match outcome {
            Ok(Finish::Busy) => {
                self.park(job);
                State::Waiting
            }
            Ok(Finish::Hit { outputs }) => {
                self.cached(job, outputs);
                State::Cached
            }
            Ok(Finish::Done { differs, .. }) if !differs.is_empty() && self.with.settings.strict => {
                let names = text::quoted(differs.iter().map(String::as_str));
                let fault = Fault::new(FaultKind::NonDeterminism, format!("the same stage gave two different results: {names} differ"))
                    .help("the first result is kept; the second lies beside its record in the store");
                self.fail(job, fault);
                State::Failed
            }
            Ok(Finish::Done { outputs, wall_ms, differs }) => {
                if !differs.is_empty() {
                    let names = text::quoted(differs.iter().map(String::as_str));
                    self.tell(&Event::Warning {
                        line: format!("{label} gave another result than before ({names} differ); the first one holds"),
                    });
                }
                self.done(job, outputs, wall_ms);
                State::Done
            }
            Err(fault) if is_stop(&fault) && timed_out => {
                let fault = self.timed_out(job);
                self.note_timeout(job, &running, &fault);
                self.attempt_failed(job, fault)
            }
            Err(fault) if is_stop(&fault) && self.level > 0 => {
                self.settle(job, State::Interrupted);
                State::Interrupted
            }
            Err(fault) if is_stop(&fault) => {
                let fault = Fault { kind: FaultKind::Stage, ..fault };
                self.attempt_failed(job, fault)
            }
            Err(fault) => self.attempt_failed(job, fault),
        };
        self.finish_attempt(job, &running, state);
    }

    /// Notes the time line and gives the slot back.
    fn finish_attempt(&mut self, job: usize, running: &Running, state: State) {
        let device = &self.with.jobs[job].device;
        self.ready.release(device, running.lane);
        self.spans.push(Span {
            job,
            device: device.clone(),
            lane: running.lane,
            start_us: micros(running.begun.duration_since(self.begun)),
            wall_us: micros(running.begun.elapsed()),
            state,
        });
    }

    fn cached(&mut self, job: usize, outputs: Outputs) {
        if let Some(key) = self.keys[job] {
            self.tell(&Event::Cached { job, label: self.with.jobs[job].label.clone(), key });
        }
        self.states.set(job, State::Cached);
        self.complete(job, outputs);
    }

    fn done(&mut self, job: usize, outputs: Outputs, wall_ms: u64) {
        if let Some(key) = self.keys[job] {
            // A worker process keeps no index: looking the result up enters it here.
            let _ = self.with.store.lookup(&key);
            self.tell(&Event::Done { job, label: self.with.jobs[job].label.clone(), key, wall_ms });
        }
        self.states.set(job, State::Done);
        self.complete(job, outputs);
    }

    fn complete(&mut self, job: usize, outputs: Outputs) {
        self.outputs[job] = Some(outputs);
        for n in 0..self.dependents[job].len() {
            let dependent = self.dependents[job][n];
            // When a damaged result is made anew, some that read it have gone on already.
            if self.states.get(dependent) == State::Unknown {
                self.missing[dependent] -= 1;
                if self.missing[dependent] == 0 {
                    self.fresh.push_back(dependent);
                }
            }
        }
    }

    /// An attempt failed: once more, or for good.
    fn attempt_failed(&mut self, job: usize, fault: Fault) -> State {
        if self.renew_inputs(job, &fault) {
            let label = self.with.jobs[job].label.clone();
            self.tell(&Event::Failed { job, label, key: self.keys[job], fault, retry: true });
            self.wait_for_inputs(job);
            if self.missing[job] == 0 {
                self.fresh.push_back(job);
            }
            return State::Unknown;
        }
        let again = self.retries[job] > 0 && !self.halted && may_retry(fault.kind);
        if !again {
            self.fail(job, fault);
            return State::Failed;
        }
        self.retries[job] -= 1;
        let label = self.with.jobs[job].label.clone();
        self.tell(&Event::Failed { job, label, key: self.keys[job], fault, retry: true });
        self.make_ready(job);
        State::Ready
    }

    fn fail(&mut self, job: usize, fault: Fault) {
        let label = &self.with.jobs[job].label;
        let fault = fault.in_place(label);
        self.tell(&Event::Failed { job, label: label.clone(), key: self.keys[job], fault: fault.clone(), retry: false });
        self.states.set(job, State::Failed);
        self.faults.insert(job, fault);
        self.block_dependents(job);
        if !self.with.settings.keep_going {
            self.halted = true;
        }
    }

    fn block_dependents(&mut self, by: usize) {
        let mut stack = self.dependents[by].clone();
        let mut blocked = Vec::new();
        while let Some(job) = stack.pop() {
            if self.states.get(job) == State::Unknown {
                self.states.set(job, State::Blocked);
                blocked.push(job);
                stack.extend(&self.dependents[job]);
            }
        }
        blocked.sort_unstable();
        for job in blocked {
            self.tell(&Event::Blocked { job, label: self.with.jobs[job].label.clone(), by });
        }
    }

    fn settle(&mut self, job: usize, state: State) {
        self.states.set(job, state);
        if let Some(key) = self.keys[job] {
            self.tell(&Event::Interrupted { job, label: self.with.jobs[job].label.clone(), key });
        }
    }

    fn park(&mut self, job: usize) {
        self.states.set(job, State::Waiting);
        if let Some(key) = self.keys[job] {
            let twin = self.running.keys().copied().find(|other| self.keys[*other] == Some(key));
            self.tell(&Event::Waiting { job, label: self.with.jobs[job].label.clone(), key, twin });
        }
        self.parked.insert(job, Parked { next: Instant::now() + RECHECK.0, pause: RECHECK.0 });
    }

    /// Looks whether what another process ran is there, or free to be run here.
    fn check_parked(&mut self) {
        let now = Instant::now();
        let due: Vec<usize> = self.parked.iter().filter(|(_, parked)| parked.next <= now).map(|(job, _)| *job).collect();
        for job in due {
            let Some(key) = self.keys[job] else { continue };
            if !self.with.jobs[job].force
                && let Some(outputs) = self.with.store.lookup(&key)
            {
                self.parked.remove(&job);
                self.cached(job, outputs);
            } else if !self.with.store.leased(&key) {
                self.parked.remove(&job);
                self.make_ready(job);
            } else if let Some(parked) = self.parked.get_mut(&job) {
                parked.pause = (parked.pause * 2).min(RECHECK.1);
                parked.next = now + parked.pause;
            }
        }
        // A result may have completed the inputs of others.
        if !self.fresh.is_empty() {
            self.evaluate();
        }
    }

    fn look_for_interrupt(&mut self) {
        let level = self.with.interrupt.level();
        if level <= self.level {
            return;
        }
        self.level = level;
        self.halted = true;
        self.tell(&Event::Stopping { level });
        for running in self.running.values() {
            running.attempt.stop();
        }
    }

    fn next_wait(&self) -> Duration {
        let now = Instant::now();
        let deadlines = self.running.values().filter_map(|running| running.give_up.or(running.deadline));
        let checks = self.parked.values().map(|parked| parked.next);
        let next = deadlines.chain(checks).min().map_or(TICK, |at| at.saturating_duration_since(now));
        next.min(TICK)
    }

    fn pass_warnings_on(&mut self) {
        for line in self.with.store.take_warnings() {
            self.tell(&Event::Warning { line });
        }
    }

    fn tell(&mut self, event: &Event) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!("{}", serde_json::to_string(event).unwrap_or_default());
        }
        if let Some(run) = self.with.history {
            run.event(event);
        }
        (self.sink)(event);
    }
}

fn is_stop(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Interrupted | FaultKind::Terminated)
}

/// Whether another attempt may go better.
fn may_retry(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Stage | FaultKind::Storage | FaultKind::Internal | FaultKind::InputsMissing)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
