//! `run`: what is not there yet is executed, then every table of the pipeline is printed.

use super::args::{PipelineArgs, duration, limit};
use super::context::Context;
use super::load::Project;
use super::output::Answer;
use super::warned::Warned;
use super::{Reply, annotate, drive, gather, load, plan, signals, spare};
use crate::base::text::count;
use crate::base::text::size;
use crate::base::{Digest, Fault, Outcome};
use crate::exec::{Interrupt, State, Summary};
use crate::store::Store;
use crate::table::{Look, Table, format};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Run a pipeline and print its tables.
///
/// What is in the store already is not executed again. Ctrl-C stops after a checkpoint; the same command continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe run pipelines/quickstart.yaml -j 8
  pflpipe run table2.yaml --set rounds=5 --sweep seed=0..3 --where 'algorithm != \"gpfl\"'")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Only say what would run, as `plan` does
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// So many stages at a time, and threads in all [default: the cores of this machine]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// After a failure, go on with what does not depend on it
    #[arg(short, long)]
    keep_going: bool,
    /// Run a stage although its result is there: `run`, `run[algorithm=ditto]`; may be repeated
    #[arg(short, long, value_name = "STAGE")]
    force: Vec<String>,
    /// Where stages run
    #[arg(long, value_name = "KIND", default_value = "in-process")]
    executor: Kind,
    /// Repeat a failed stage so often, where the stage does not say
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Fail a stage that takes longer, where the stage does not say: `90s`, `2h`
    #[arg(long, value_name = "TIME", value_parser = limit)]
    timeout: Option<Duration>,
    /// Time between two checkpoints of a training; 0 is after every round
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = duration)]
    checkpoint: Duration,
    /// How much memory the clients of a training may take while they are not used: `2GiB`, `500MB`; the rest of them lies in the
    /// store, and no result changes [default: a quarter of this machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Write the time line of the run for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Fail (exit code 6) when a stage gives another result than the store has for it; use with -f
    #[arg(long)]
    strict: bool,
    /// The folder of the files that the tables' `formats` ask for [default: `results` beside the pipeline]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Where stages run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// On threads of this process
    InProcess,
    /// Each in a process of its own, which may crash without taking others along
    Child,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let project = load::load(&args.pipeline, context)?;
    if args.dry_run {
        return plan::show(&project, &args.force, false, context).map(|_| 0);
    }
    let layouts: Vec<_> = project.plan.tables.iter().collect();
    let folder = annotate::folder(&project, args.results.as_deref());
    annotate::prepare(&folder, &layouts, &project)?;
    args.trace.as_deref().map_or(Ok(()), |trace| spare::pipeline(trace, &project))?;
    let interrupt = Interrupt::new();
    signals::watch(&interrupt);
    let store = context.store()?;
    let jobs = args.jobs.map_or_else(cores, usize::from);
    let options = drive::Options {
        jobs,
        keep_going: args.keep_going,
        force: args.force.clone(),
        processes: args.executor == Kind::Child,
        retries: args.retries,
        timeout: args.timeout,
        checkpoint: args.checkpoint.as_secs_f64(),
        memory: args.memory,
        trace: args.trace.clone(),
        strict: args.strict,
    };
    let (ran, tables) = to_the_end(&project, options, &store, &interrupt, context)?;
    let stopped = ran.summary.fault();
    if ran.summary.interrupted.is_none() {
        annotate::write(&tables, &layouts, &project, &folder, context)?;
    }
    context.show(&Ended { ran: &ran, tables, fault: stopped.clone() })?;
    Ok(stopped.map_or(0, |fault| fault.kind.exit_code()))
}

/// Runs the pipeline and gathers its tables. Damage in a result that no stage reads is found only by the table, so that what
/// was put aside then runs once more.
fn to_the_end(
    project: &Project,
    mut options: drive::Options,
    store: &Store,
    interrupt: &Interrupt,
    context: &Context<'_>,
) -> Outcome<(drive::Ran, Vec<Table>)> {
    let mut again = false;
    loop {
        let ran = drive::run(project, &options, store, interrupt, context)?;
        context.pass_warnings(store);
        failures(&ran, context);
        warned(&ran, store).told().into_iter().for_each(|line| context.terminal.note(line));
        context.terminal.note(drive::summed_up(&ran.summary));
        // Whoever stops a run wants the prompt back; the table of what is there is a command away.
        if ran.summary.interrupted.is_some() {
            return Ok((ran, Vec::new()));
        }
        let gathered = tables(project, &ran.summary, store)?;
        context.pass_warnings(store);
        if gathered.damaged == 0 || again {
            return Ok((ran, gathered.tables));
        }
        context.terminal.note(format!("{} damaged: the stages that made them run once more", count(gathered.damaged, "result")));
        again = true;
        // What was forced has run.
        options.force.clear();
    }
}

fn tables(project: &Project, summary: &Summary, store: &Store) -> Outcome<gather::Gathered> {
    let found: Vec<gather::Found> = summary
        .states
        .iter()
        .zip(&summary.outputs)
        .zip(&summary.keys)
        .map(|((state, outputs), key)| match (outputs.as_ref().and_then(|outputs| outputs.get("metrics")).zip(*key), state) {
            (Some((object, key)), _) => gather::Found::Metrics(object.digest, key),
            (None, State::Failed | State::Blocked) => gather::Found::Failed,
            (None, _) => gather::Found::Missing,
        })
        .collect();
    let layouts: Vec<_> = project.plan.tables.iter().collect();
    let mut gathered = gather::tables(&project.plan, &layouts, &found, Some(store))?;
    annotate::complete(&mut gathered.tables, project, &layouts)?;
    Ok(gathered)
}

/// What the stages that are done or cached warned of.
fn warned(ran: &drive::Ran, store: &Store) -> Warned {
    let of = |(key, label): (&Option<Digest>, &String)| Some((label.clone(), store.record(&(*key)?).ok()??));
    Warned::of(ran.summary.keys.iter().zip(&ran.labels).filter_map(of))
}

/// The cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Failures that are equal but for the stage are told once.
fn failures(ran: &drive::Ran, context: &Context<'_>) {
    let mut told: Vec<(Fault, &str, usize)> = Vec::new();
    for (job, fault) in &ran.summary.faults {
        let label = ran.labels[*job].as_str();
        let mut fault = fault.clone();
        // Failures of several stages are compared without their places.
        fault.at.retain(|place| place != label);
        match told.iter_mut().find(|(other, ..)| *other == fault) {
            Some((_, _, more)) => *more += 1,
            None => told.push((fault, label, 0)),
        }
    }
    for (mut fault, label, more) in told {
        let others = if more > 0 { format!(" and {}", count(more, "other stage")) } else { String::new() };
        if fault.help.is_none() {
            fault.help = Some(format!("`pflpipe logs '{label}'` shows its log"));
        }
        context.terminal.error(&fault.at(format!("{label}{others}")));
    }
    if let Some(kind) = ran.summary.interrupted {
        let fault = ran.summary.fault().unwrap_or_else(|| Fault::new(kind, "interrupted"));
        context.terminal.error(&fault);
    }
}

struct Ended<'a> {
    ran: &'a drive::Ran,
    tables: Vec<Table>,
    fault: Option<Fault>,
}

impl Answer for Ended<'_> {
    fn table(&self, look: Look) -> Outcome<String> {
        if self.tables.is_empty() { Ok(String::new()) } else { format::find("term")?.render(&self.tables, look) }
    }
    fn json(&self) -> Outcome<Value> {
        let summary = &self.ran.summary;
        let stages: Vec<Value> = summary
            .states
            .iter()
            .enumerate()
            .map(|(job, state)| {
                json!({
                    "label": self.ran.labels[job],
                    "state": drive::word(*state),
                    "key": summary.keys[job],
                    "fault": summary.faults.get(&job),
                })
            })
            .collect();
        let tables = format::find("json")?.render(&self.tables, Look::default())?;
        let tables: Value = serde_json::from_str(&tables).map_err(|e| Fault::internal(format!("a table is not JSON: {e}")))?;
        Ok(json!({
            "run": self.ran.id,
            "counts": drive::counts(summary),
            "wall_ms": summary.wall_ms,
            "fault": self.fault,
            "stages": stages,
            "tables": tables,
        }))
    }
}
