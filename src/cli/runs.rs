//! `runs`: the history of runs in the store.

use super::context::Context;
use super::output::Listing;
use super::{Reply, diff};
use crate::store::{RunInfo, RunStatus, Store};
use serde_json::json;

/// List the runs in the store, newest first, or compare two of them.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  pflpipe runs -n 5
  pflpipe runs diff 20260131-094500-1f3a 20260131-101500-77c2")]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Only of the pipeline of this name
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Diff(diff::Args),
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    if let Some(Action::Diff(args)) = &args.action {
        return diff::run(args, context);
    }
    let runs = context.existing_store()?.map(|store| newest_first(&store)).unwrap_or_default();
    let chosen: Vec<RunInfo> =
        runs.into_iter().filter(|run| args.pipeline.as_ref().is_none_or(|name| run.pipeline == *name)).take(args.limit).collect();
    let row = |run: &RunInfo| vec![run.id.clone(), run.pipeline.clone(), word(run.status).to_owned(), took(run), counts(run)];
    context.show(&Listing {
        header: vec!["run", "pipeline", "status", "time", "stages"],
        rows: chosen.iter().map(row).collect(),
        note: if chosen.is_empty() { "no runs".to_owned() } else { String::new() },
        json: json!(chosen),
        key: 0,
    })?;
    Ok(0)
}

/// The runs of a store. Their names carry seconds only; what started within one second is told apart here.
pub(super) fn newest_first(store: &Store) -> Vec<RunInfo> {
    let mut runs = store.runs();
    runs.sort_by(|a, b| b.started.cmp(&a.started));
    runs
}

/// The status in a word.
pub(super) fn word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Died => "died",
    }
}

/// `12 done, 73 cached`.
pub(super) fn counts(run: &RunInfo) -> String {
    run.counts.iter().map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", ")
}

/// How long it took, or the empty string for a run without an end.
pub(super) fn took(run: &RunInfo) -> String {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    match (time(&run.started), run.ended.as_deref().and_then(time)) {
        (Some(start), Some(end)) => crate::base::text::duration(end.duration_since(start).as_secs_f64().max(0.0)),
        _ => String::new(),
    }
}
