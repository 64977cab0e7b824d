//! Wires a plan to the scheduler: jobs and keys out of the plan, results out of the store, progress to the terminal.
//!
//! It knows no stage kind; `gather` makes tables of what comes out.

use super::context::Context;
use super::load::{self, Project};
use super::progress;
use super::target;
use crate::base::threads::Budget;
use crate::base::{Digest, Fault, FaultKind, Outcome};
use crate::exec::{
    ChildProcess, Event, Executor, InProcess, Interrupt, Job, Planner, Prepared, Schedule, Settings, State, Summary, WorkerCommand,
};
use crate::plan::{Input, NodeId, Plan, StageKey};
use crate::spec::catalog::RECIPE;
use crate::stage::task::{Outputs, Task};
use crate::store::{RunStart, RunStatus, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a pipeline is run.
pub(super) struct Options {
    /// Stages at a time, and threads in all.
    pub(super) jobs: usize,
    /// Go on after a failure.
    pub(super) keep_going: bool,
    /// Stages that run although their results are there.
    pub(super) force: Vec<String>,
    /// Each stage in a process of its own.
    pub(super) processes: bool,
    /// How often a failed attempt is repeated, where the stage does not say.
    pub(super) retries: u32,
    /// How long an attempt may take, where the stage does not say.
    pub(super) timeout: Option<Duration>,
    /// Seconds between two checkpoints.
    pub(super) checkpoint: f64,
    /// Bytes of memory for the clients of a training that are not used.
    pub(super) memory: Option<u64>,
    /// Where the time line goes.
    pub(super) trace: Option<PathBuf>,
    /// A second, different result of a key is a failure.
    pub(super) strict: bool,
}

/// What a run came to.
pub(super) struct Ran {
    /// The name of the run.
    pub(super) id: String,
    /// States, outputs and faults by the node's index.
    pub(super) summary: Summary,
    /// The labels of the nodes.
    pub(super) labels: Vec<String>,
}

/// Runs the plan until `interrupt` is raised.
///
/// # Errors
/// A fault when nothing could be started. What fails later is in the summary.
pub(super) fn run(project: &Project, options: &Options, store: &Store, interrupt: &Interrupt, context: &Context<'_>) -> Outcome<Ran> {
    let forced = forced(&project.plan, &options.force)?;
    let jobs = jobs(&project.plan, options, &forced);
    let trace = options.trace.as_deref().map(create).transpose()?;
    let budget = Budget::new(options.jobs);
    let executor: Box<dyn Executor> = if options.processes {
        // What the workers may use together is what one process would.
        let threads = (options.jobs / options.jobs.min(jobs.len()).max(1)).max(1);
        Box::new(ChildProcess::new(store, WorkerCommand::current()?, &context.data, threads))
    } else {
        Box::new(InProcess::new(store, Arc::new(load::stages()), &budget, &context.data))
    };
    let settings =
        Settings { slots: options.jobs, devices: devices(), keep_going: options.keep_going, strict: options.strict, ..Settings::default() };
    let history = store.begin_run(&start(project))?;
    let planner = FromPlan { plan: &project.plan, checkpoint: options.checkpoint, memory: options.memory };
    let schedule =
        Schedule { jobs: &jobs, planner: &planner, store, executor: &*executor, settings: &settings, interrupt, history: Some(&history) };
    let id = history.id().to_owned();
    let mut progress = progress::of(context.terminal, &jobs, options.jobs);
    let outcome = schedule.run(&mut |event: &Event| progress.event(event));
    progress.end();
    drop(progress);
    let summary = match outcome {
        Ok(summary) => summary,
        Err(fault) => {
            finish(history, RunStatus::Failed, BTreeMap::new(), context);
            return Err(fault);
        }
    };
    let status = match &summary {
        s if s.interrupted.is_some() => RunStatus::Interrupted,
        s if s.faults.is_empty() => RunStatus::Done,
        _ => RunStatus::Failed,
    };
    finish(history, status, counts(&summary), context);
    if let (Some(_), Some(path)) = (trace, &options.trace) {
        crate::exec::trace::write(path, &summary, &jobs)?;
    }
    Ok(Ran { id, summary, labels: jobs.into_iter().map(|job| job.label).collect() })
}

// The results are there whether or not the history could be ended.
fn finish(run: crate::store::Run, status: RunStatus, counts: BTreeMap<String, u64>, context: &Context<'_>) {
    if let Err(fault) = run.finish(status, counts) {
        context.terminal.warning(&fault.to_string());
    }
}

/// The number of stages by state, as the history keeps it.
pub(super) fn counts(summary: &Summary) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (state, n) in summary.counts() {
        // Several states are one word.
        *counts.entry(word(state).to_owned()).or_default() += n as u64;
    }
    counts
}

/// The name of a state for people and programs.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Unknown | State::Ready => "not-started",
        State::Waiting => "waiting",
        State::Running => "running",
        State::Done => "done",
        State::Cached => "cached",
        State::Failed => "failed",
        State::Blocked => "blocked",
        State::Interrupted => "interrupted",
    }
}

/// `12 executed, 73 cached, 1 failed, 2 blocked; 41.2 s`.
pub(super) fn summed_up(summary: &Summary) -> String {
    let n = |state| summary.counts().get(&state).copied().unwrap_or(0);
    let mut parts = vec![format!("{} executed", n(State::Done)), format!("{} cached", n(State::Cached))];
    let rest = n(State::Unknown) + n(State::Ready) + n(State::Waiting) + n(State::Running);
    for (n, word) in
        [(n(State::Failed), "failed"), (n(State::Blocked), "blocked"), (n(State::Interrupted), "interrupted"), (rest, "not started")]
    {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    format!("{}; {}", parts.join(", "), crate::base::text::duration(summary.wall_ms as f64 / 1e3))
}

/// The nodes that `-f` names.
///
/// # Errors
/// A usage fault for a name that no stage has.
pub(super) fn forced(plan: &Plan, names: &[String]) -> Outcome<Vec<bool>> {
    let mut forced = vec![false; plan.nodes.len()];
    for name in names {
        for id in target::Target::parse(name).find(plan)? {
            forced[id.index()] = true;
        }
    }
    Ok(forced)
}

fn jobs(plan: &Plan, options: &Options, forced: &[bool]) -> Vec<Job> {
    plan.nodes
        .iter()
        .zip(forced)
        .map(|(node, force)| Job {
            label: node.label(),
            stage: node.stage.to_string(),
            kind: node.kind.to_owned(),
            coords: node.coords.clone(),
            deps: node.inputs.iter().map(|input| input.node.index()).collect(),
            device: node.device.to_string(),
            timeout: node.timeout.or(options.timeout),
            retries: if node.retries > 0 { node.retries } else { options.retries },
            force: *force,
            // Rounds are all that is known of a stage's length beforehand; only the order of starting depends on it.
            cost_ms: node.params.get("rounds").and_then(serde_json::Value::as_u64).unwrap_or(1),
        })
        .collect()
}

fn start(project: &Project) -> RunStart {
    RunStart {
        pipeline: project.pipeline.name.clone(),
        text: project.pipeline.text.clone(),
        plan: json!({"file": project.file.display().to_string(), "changes": project.changes, "cells": project.plan.cells.len(), "stages": project.plan.nodes.len()}),
        command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
    }
}

// Opened before anything runs: a path that cannot be written is an error in the first second, not after the last hour.
fn create(path: &Path) -> Outcome<std::fs::File> {
    std::fs::File::create(path).map_err(|e| Fault::io("create", path, &e))
}

/// The devices other than the CPU that this build can use here.
pub(super) fn devices() -> Vec<String> {
    if !cfg!(feature = "cuda") {
        return Vec::new();
    }
    (0..64).filter(|n| Path::new(&format!("/dev/nvidia{n}")).exists()).map(|n| format!("cuda:{n}")).collect()
}

/// Keys and tasks out of a plan.
struct FromPlan<'a> {
    plan: &'a Plan,
    checkpoint: f64,
    memory: Option<u64>,
}

impl FromPlan<'_> {
    fn stage_key(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<StageKey> {
        let digest = |node: NodeId, output: &str| -> Option<Digest> { Some(outputs.get(node.index())?.as_ref()?.get(output)?.digest) };
        self.plan.key(NodeId::new(job), &digest).ok_or_else(|| {
            Fault::new(FaultKind::Internal, "an input lacks an output that it should have")
                .help("run the stage before it again with `-f STAGE`")
        })
    }
}

impl Planner for FromPlan<'_> {
    fn key(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Digest> {
        self.stage_key(job, outputs).map(|key| key.key)
    }

    fn prepare(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Prepared> {
        let key = self.stage_key(job, outputs)?;
        let node = &self.plan.nodes[job];
        let read = |input: &Input| -> Outputs {
            let there = outputs.get(input.node.index()).and_then(Option::as_ref);
            let wanted = there.into_iter().flatten().filter(|(name, _)| input.outputs.contains(&name.as_str()));
            wanted.map(|(name, object)| (name.clone(), *object)).collect()
        };
        let (mut inputs, mut params) = (BTreeMap::new(), node.params.to_map());
        for input in &node.inputs {
            inputs.insert(input.slot.to_string(), read(input));
            if input.outputs.contains(&RECIPE) {
                let other = self.plan.node(input.node);
                params.insert(input.slot.to_string(), Value::Object(other.params.to_map()));
                inputs.extend(other.inputs.iter().map(|inner| (format!("{}.{}", input.slot, inner.slot), read(inner))));
            }
        }
        let task = Task {
            key: key.key,
            kind: node.kind.to_owned(),
            label: node.label(),
            params,
            inputs,
            shorter: None,
            device: node.device.to_string(),
            checkpoint_seconds: self.checkpoint,
            memory: self.memory,
        };
        let manifest =
            serde_json::to_value(&key.manifest).map_err(|e| Fault::internal(format!("a key's components have no JSON form: {e}")))?;
        Ok(Prepared { task, manifest, lineage: key.lineage, extent: key.extent })
    }
}
