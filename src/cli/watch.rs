//! `watch`: how far a run is, drawn again and again until it ends.
//!
//! It reads what the run wrote into the store, so it may watch a run of another process and stop at any time.

use super::args::Changes;
use super::context::Context;
use super::memory::Memory;
use super::output::{Text, columns};
use super::{Reply, annotate, gather, runs, status, table};
use crate::base::text::{count, duration};
use crate::base::{Fault, Outcome};
use crate::exec::Event;
use crate::plan::decide;
use crate::stage::task::Report;
use crate::store::{RunInfo, RunStatus, Store};
use crate::table::{Look, format};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Watch a run: its stages, their rounds and newest measurements, and when it will be over.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit code is 0 when the run ended well, 1 otherwise.

Examples:
  pflpipe watch
  pflpipe watch pipelines/quickstart.yaml
  pflpipe watch --tables --interval 10")]
pub(super) struct Args {
    /// The run, or a pipeline for its newest one [default: the newest of all]
    #[arg(value_name = "FILE|RUN")]
    run: Option<String>,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::args::duration)]
    interval: Duration,
    /// Look once, and end
    #[arg(long)]
    once: bool,
    /// Show the tables below, as far as they are there
    #[arg(long)]
    tables: bool,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let store = context.needed_store()?;
    let id = match &args.run {
        Some(file) if Path::new(file).is_file() => {
            let path = std::path::absolute(file).unwrap_or_else(|_| file.into()).display().to_string();
            let of = |id: &str| store.run_plan(id).and_then(|plan| Some(plan.get("file")?.as_str()? == path)).unwrap_or_default();
            let newest = runs::newest_first(&store).into_iter().find(|run| of(&run.id));
            newest
                .ok_or_else(|| Fault::storage(format!("`{file}` was never run with this store")).help("`pflpipe runs` lists the runs"))?
                .id
        }
        Some(id) => status::find(&store, id)?.id,
        None => {
            let newest = runs::newest_first(&store).into_iter().next();
            newest.ok_or_else(|| Fault::storage("there is no run in the store").help("`pflpipe run FILE` starts one"))?.id
        }
    };
    let redraw = std::io::stdout().is_terminal() && !context.json();
    // Read once: the pipeline of a run does not change, and it knows the stages that are still to come.
    let project = table::open(Path::new(&id), &Changes::default(), Some(&store), context).ok();
    let labels: Vec<String> = project.iter().flat_map(|project| project.plan.nodes.iter().map(crate::plan::Node::label)).collect();
    let mut before = String::new();
    loop {
        // Asked before the events are read: a run that ends between the two is looked at once more.
        let info = status::find(&store, &id)?;
        let seen = Seen::of(store.run_events(&id).into_iter().filter_map(|event| serde_json::from_value(event).ok()));
        let mut text = seen.frame(&info, &labels, height(redraw));
        if args.tables
            && let Some(project) = &project
        {
            text.push('\n');
            text.push_str(&tables(project, &store)?);
        }
        let over = info.status != RunStatus::Running;
        if text != before || over {
            // A terminal's old frame is wiped; elsewhere frames follow each other.
            let shown = if redraw { format!("\u{1b}[H\u{1b}[2J{text}") } else { text.clone() };
            context.show(&Text { text: shown, json: seen.json(&info), quiet: format!("{}\n", runs::word(info.status)) })?;
            before = text;
        }
        if over || args.once {
            return Ok(u8::from(!matches!(info.status, RunStatus::Done | RunStatus::Running)));
        }
        std::thread::sleep(args.interval.max(Duration::from_millis(50)));
    }
}

fn tables(project: &super::load::Project, store: &Store) -> Outcome<String> {
    let memory = Memory::of(Some(store));
    let decisions = decide(&project.plan, &memory, &|_| false);
    let found = gather::found(&project.plan, &decisions, Some(store));
    let layouts: Vec<_> = project.plan.tables.iter().collect();
    let mut tables = gather::tables(&project.plan, &layouts, &found, Some(store))?.tables;
    annotate::complete(&mut tables, project, &layouts)?;
    format::find("term")?.render(&tables, Look::default())
}

/// The lines that running stages may take.
fn height(terminal: bool) -> usize {
    let lines = terminal.then(terminal_size::terminal_size).flatten().map_or(30, |(_, height)| usize::from(height.0));
    lines.saturating_sub(8).max(3)
}

/// What is known of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stage {
    label: String,
    state: &'static str,
    done: u64,
    total: u64,
    values: BTreeMap<String, f64>,
    wall: f64,
    note: String,
}

/// What the events of a run tell.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    jobs: usize,
    slots: usize,
    stages: BTreeMap<usize, Stage>,
}

impl Seen {
    fn of(events: impl Iterator<Item = Event>) -> Self {
        let mut seen = Self::default();
        for event in events {
            let (job, label, state, wall, note) = match event {
                Event::Begin { jobs, slots, .. } => {
                    (seen.jobs, seen.slots) = (jobs, slots);
                    continue;
                }
                Event::Cached { job, label, .. } => (job, label, "cached", 0.0, String::new()),
                Event::Waiting { job, label, .. } => (job, label, "waiting", 0.0, String::new()),
                Event::Started { job, label, attempt, .. } => {
                    (job, label, "running", 0.0, if attempt > 1 { format!("attempt {attempt}") } else { String::new() })
                }
                Event::Done { job, label, wall_ms, .. } => (job, label, "done", wall_ms as f64 / 1e3, String::new()),
                Event::Failed { job, label, fault, .. } => (job, label, "failed", 0.0, fault.to_string()),
                Event::Blocked { job, label, .. } => (job, label, "blocked", 0.0, String::new()),
                Event::Interrupted { job, label, .. } => (job, label, "interrupted", 0.0, String::new()),
                Event::Report { job, report: Report::Progress { done, total, values } } => {
                    if let Some(stage) = seen.stages.get_mut(&job) {
                        (stage.done, stage.total) = (done, total);
                        stage.values.extend(values);
                    }
                    continue;
                }
                _ => continue,
            };
            let stage = seen.stages.entry(job).or_default();
            (stage.label, stage.state, stage.wall, stage.note) = (label, state, wall, note);
        }
        seen
    }

    fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for stage in self.stages.values() {
            *counts.entry(stage.state).or_default() += 1;
        }
        if self.jobs > self.stages.len() {
            counts.insert("to come", self.jobs - self.stages.len());
        }
        counts
    }

    /// Seconds until the end by the mean time of done stages of the same name; none where a name has no done stage yet.
    fn eta(&self, labels: &[String]) -> Option<f64> {
        let name = |label: &str| label.split('[').next().unwrap_or_default().to_owned();
        let mut taken: BTreeMap<String, (f64, usize)> = BTreeMap::new();
        for stage in self.stages.values().filter(|stage| stage.state == "done") {
            let (sum, n) = taken.entry(name(&stage.label)).or_default();
            *sum += stage.wall;
            *n += 1;
        }
        let mut rest = 0.0;
        for (job, label) in labels.iter().enumerate() {
            let left = match self.stages.get(&job) {
                None => 1.0,
                Some(stage) if stage.state == "running" => 1.0 - if stage.total > 0 { stage.done as f64 / stage.total as f64 } else { 0.0 },
                Some(stage) if stage.state == "waiting" => 1.0,
                Some(_) => 0.0,
            };
            if left > 0.0 {
                let (sum, n) = taken.get(&name(label))?;
                rest += left * sum / *n as f64;
            }
        }
        Some(rest / self.slots.max(1) as f64)
    }

    fn frame(&self, info: &RunInfo, labels: &[String], lines: usize) -> String {
        let over = |state: &str| matches!(state, "done" | "cached" | "failed" | "blocked" | "interrupted");
        let settled = self.stages.values().filter(|stage| over(stage.state)).count();
        let running = info.status == RunStatus::Running;
        let time = match (running, runs::took(info)) {
            (true, _) => format!("since {}", info.started.get(..19).unwrap_or(&info.started).replace('T', " ")),
            (false, took) if took.is_empty() => String::new(),
            (false, took) => format!("after {took}"),
        };
        let mut text = format!("run {} of {}: {} {time}\n", info.id, info.pipeline, runs::word(info.status));
        let part = if self.jobs > 0 { settled as f64 / self.jobs as f64 } else { 0.0 };
        let filled = (part * 40.0).round() as usize;
        let counts: Vec<String> = self.counts().iter().map(|(state, n)| format!("{n} {state}")).collect();
        let eta = if running { self.eta(labels).filter(|eta| *eta >= 1.0).map(|eta| format!("; ETA {}", duration(eta))) } else { None };
        text.push_str(&format!(
            "[{}{}] {settled} of {}: {}{}\n",
            "#".repeat(filled),
            "-".repeat(40 - filled),
            count(self.jobs, "stage"),
            counts.join(", "),
            eta.unwrap_or_default()
        ));
        let mut shown: Vec<&Stage> = self.stages.values().filter(|stage| !matches!(stage.state, "done" | "cached" | "blocked")).collect();
        shown.sort_by_key(|stage| stage.state != "failed");
        let rows: Vec<Vec<String>> = shown
            .iter()
            .take(lines)
            .map(|stage| {
                let progress = if stage.total > 0 { format!("{}/{}", stage.done, stage.total) } else { String::new() };
                let values: Vec<String> = stage.values.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
                let detail =
                    [values.join(", "), stage.note.clone()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
                vec![stage.label.clone(), stage.state.to_owned(), progress, detail]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str(&columns(&["stage", "state", "rounds", "newest"], &rows));
        }
        if shown.len() > lines {
            text.push_str(&format!("and {} more\n", shown.len() - lines));
        }
        text
    }

    fn json(&self, info: &RunInfo) -> Value {
        let stages: Vec<Value> = self
            .stages
            .values()
            .map(|stage| json!({"label": stage.label, "state": stage.state, "done": stage.done, "total": stage.total, "values": stage.values, "note": stage.note}))
            .collect();
        json!({"run": info, "counts": self.counts(), "stages": stages})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Digest;

    fn events() -> Vec<Event> {
        let key = Digest::of(b"k");
        let label = |n: usize| format!("run[seed={n}]");
        vec![
            Event::Begin { jobs: 4, slots: 1, executor: "threads".into() },
            Event::Started { job: 0, label: label(0), key, attempt: 1, device: "cpu".into() },
            Event::Done { job: 0, label: label(0), key, wall_ms: 10_000 },
            Event::Started { job: 1, label: label(1), key, attempt: 2, device: "cpu".into() },
            Event::Report { job: 1, report: Report::Progress { done: 5, total: 10, values: BTreeMap::from([("accuracy".into(), 0.5)]) } },
            Event::Cached { job: 2, label: label(2), key },
        ]
    }

    #[test]
    fn a_frame_shows_what_runs_and_when_it_ends() {
        let seen = Seen::of(events().into_iter());
        let labels: Vec<String> = (0..4).map(|n| format!("run[seed={n}]")).collect();
        // Half of one stage and one whole one are left, ten seconds each, on one slot.
        assert_eq!(seen.eta(&labels), Some(15.0));
        let info = RunInfo {
            id: "r1".into(),
            pipeline: "small".into(),
            digest: Digest::of(b"p"),
            command: Vec::new(),
            host: crate::store::HostInfo::default(),
            version: String::new(),
            started: "2026-01-31T09:45:00Z".into(),
            ended: None,
            status: RunStatus::Running,
            counts: BTreeMap::new(),
        };
        let text = seen.frame(&info, &labels, 10);
        assert!(text.contains("2 of 4 stages: 1 cached, 1 done, 1 running, 1 to come; ETA 15"), "{text}");
        assert!(text.contains("run[seed=1]  running  5/10    accuracy 0.5000; attempt 2"), "{text}");
        assert!(!text.contains("run[seed=0]"), "what went well needs no line");
    }
}
