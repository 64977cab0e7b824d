//! `status`: how far a run is or came, or how much of a pipeline is in the store.

use super::args::{Changes, PipelineArgs};
use super::context::Context;
use super::memory::Memory;
use super::output::{Listing, Text, columns};
use super::warned::Warned;
use super::{Reply, gather, load, runs};
use crate::base::text::{count, duration, nearest};
use crate::base::{Digest, Fault, Outcome};
use crate::exec::Event;
use crate::plan::{Decision, decide};
use crate::stage::task::Report;
use crate::store::{RunInfo, RunStatus, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Show how far a run is: the newest one, the named one, or what the store has of a pipeline.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe status
  pflpipe status pipelines/quickstart.yaml")]
pub(super) struct Args {
    /// A pipeline, or the name of a run [default: the newest run]
    #[arg(value_name = "FILE|RUN")]
    source: Option<PathBuf>,
    #[command(flatten)]
    changes: Changes,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    match &args.source {
        Some(file) if file.exists() => of_pipeline(file, &args.changes, context),
        Some(id) => {
            let store = context.needed_store()?;
            let info = find(&store, &id.to_string_lossy())?;
            of_run(&store, &info, context)
        }
        None => {
            let store = context.needed_store()?;
            let newest = runs::newest_first(&store).into_iter().next();
            let info = newest.ok_or_else(|| Fault::storage("there is no run in the store").help("`pflpipe run FILE` starts one"))?;
            of_run(&store, &info, context)
        }
    }
}

/// The run of that name.
///
/// # Errors
/// A usage fault that names the nearest run.
pub(super) fn find(store: &Store, id: &str) -> Outcome<RunInfo> {
    store.run(id).ok_or_else(|| {
        let names: Vec<String> = store.runs().into_iter().map(|run| run.id).collect();
        let help = match nearest(id, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`pflpipe runs` lists the runs".to_owned(),
        };
        Fault::usage(format!("`{id}` is neither a file nor a run")).help(help)
    })
}

/// The last thing that happened to a stage of a run.
#[derive(Clone, Debug, Default)]
struct Last {
    label: String,
    state: &'static str,
    detail: String,
}

fn of_run(store: &Store, info: &RunInfo, context: &mut Context<'_>) -> Reply {
    let mut last: BTreeMap<usize, Last> = BTreeMap::new();
    let mut results: BTreeMap<usize, (String, Digest)> = BTreeMap::new();
    let mut jobs = 0;
    for event in store.run_events(&info.id).into_iter().filter_map(|event| serde_json::from_value::<Event>(event).ok()) {
        if let Event::Cached { job, label, key } | Event::Done { job, label, key, .. } = &event {
            results.insert(*job, (label.clone(), *key));
        }
        let (job, label, state, detail) = match event {
            Event::Begin { jobs: n, .. } => {
                jobs = n;
                continue;
            }
            Event::Cached { job, label, .. } => (job, label, "cached", String::new()),
            Event::Waiting { job, label, .. } => (job, label, "waiting", String::new()),
            Event::Started { job, label, attempt, .. } => {
                (job, label, "running", if attempt > 1 { format!("attempt {attempt}") } else { String::new() })
            }
            Event::Done { job, label, wall_ms, .. } => (job, label, "done", duration(wall_ms as f64 / 1e3)),
            Event::Failed { job, label, fault, .. } => (job, label, "failed", fault.to_string()),
            Event::Blocked { job, label, .. } => (job, label, "blocked", String::new()),
            Event::Interrupted { job, label, .. } => (job, label, "interrupted", String::new()),
            Event::Report { job, report: Report::Progress { done, total, values } } => {
                if let Some(entry) = last.get_mut(&job) {
                    let values: String = values.iter().map(|(name, value)| format!(", {name} {value:.4}")).collect();
                    entry.detail = format!("{done}/{total}{values}");
                }
                continue;
            }
            _ => continue,
        };
        last.insert(job, Last { label, state, detail });
    }
    // Whoever was killed could not say how its stages ended.
    if info.status != RunStatus::Running {
        for entry in last.values_mut().filter(|entry| matches!(entry.state, "running" | "waiting")) {
            entry.state = "cut short";
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in last.values() {
        *counts.entry(entry.state).or_default() += 1;
    }
    if jobs > last.len() {
        counts.insert("not-started", jobs - last.len());
    }
    // What went well needs no line of its own.
    let shown: Vec<&Last> = last.values().filter(|entry| !matches!(entry.state, "done" | "cached")).collect();
    let states: Vec<String> = counts.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let ended = match (info.status, runs::took(info)) {
        (RunStatus::Running, _) => format!("running since {}", info.started),
        (status, took) if took.is_empty() => runs::word(status).to_owned(),
        (status, took) => format!("{} after {took}", runs::word(status)),
    };
    let mut text = format!("run {} of {}: {ended}\n{}\n", info.id, info.pipeline, states.join(", "));
    let rows: Vec<Vec<String>> =
        shown.iter().map(|entry| vec![entry.label.clone(), entry.state.to_owned(), entry.detail.clone()]).collect();
    if !rows.is_empty() {
        text.push_str(&columns(&["stage", "state", "detail"], &rows));
    }
    let warned = Warned::of(results.into_values().filter_map(|(label, key)| Some((label, store.record(&key).ok()??))));
    warned.told().iter().for_each(|line| text.push_str(&format!("{line}\n")));
    let stages: Vec<_> = last.values().map(|entry| json!({"label": entry.label, "state": entry.state, "detail": entry.detail})).collect();
    let json = json!({"run": info, "counts": counts, "stages": stages, "warnings": warned.json()});
    context.show(&Text { text, json, quiet: format!("{}\n", runs::word(info.status)) })?;
    Ok(0)
}

fn of_pipeline(file: &Path, changes: &Changes, context: &mut Context<'_>) -> Reply {
    let project = load::load(&PipelineArgs { file: file.to_owned(), changes: changes.clone() }, context)?;
    let store = context.existing_store()?;
    let memory = Memory::of(store.as_ref());
    let decisions = decide(&project.plan, &memory, &|_| false);
    let found = gather::found(&project.plan, &decisions, store.as_ref());
    let begun = store.as_ref().map(Store::checkpointed).unwrap_or_default();
    let (mut rows, mut listed) = (Vec::new(), Vec::new());
    for stage in project.plan.stages() {
        let mut n: BTreeMap<&str, usize> = BTreeMap::new();
        let mut kind = "";
        for ((node, decision), found) in project.plan.nodes.iter().zip(&decisions).zip(&found).filter(|((node, _), _)| node.stage == *stage)
        {
            kind = node.kind;
            let state = match (decision, found) {
                (Decision::Cached { .. }, _) => "there",
                (_, gather::Found::Running) => "running",
                (_, gather::Found::Failed) => "failed",
                (Decision::Run { key, .. }, _) if begun.contains(key) => "begun",
                _ => "open",
            };
            *n.entry(state).or_default() += 1;
        }
        let of = |state| n.get(state).copied().unwrap_or(0);
        listed.push(json!({"stage": &**stage, "kind": kind, "states": n}));
        let row = [of("there"), of("running"), of("begun"), of("failed"), of("open")]
            .map(|n| if n == 0 { "-".to_owned() } else { n.to_string() });
        rows.push([vec![stage.to_string(), kind.to_owned()], row.to_vec()].concat());
    }
    let there = decisions.iter().filter(|decision| matches!(decision, Decision::Cached { .. })).count();
    let records = project.plan.nodes.iter().zip(&decisions).filter_map(|(node, decision)| match decision {
        Decision::Cached { key, .. } => Some((node.label(), store.as_ref()?.record(key).ok()??)),
        _ => None,
    });
    let warned = Warned::of(records);
    let mut note = format!("{there} of {} are there", count(decisions.len(), "stage"));
    warned.told().iter().for_each(|line| note.push_str(&format!("\n{line}")));
    context.show(&Listing {
        header: vec!["stage", "kind", "there", "running", "begun", "failed", "open"],
        rows,
        note,
        json: json!({
            "pipeline": project.plan.pipeline,
            "there": there,
            "total": decisions.len(),
            "stages": listed,
            "warnings": warned.json(),
        }),
        key: 0,
    })?;
    Ok(0)
}
