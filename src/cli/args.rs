//! What may be typed: the global options, the commands, and the options that several commands share.
//!
//! Only texts and numbers are read here; [`super::context`] makes folders and handles of them.

use super::{
    algorithms, cache, check, completions, data, doctor, expand, graph, kinds, logs, new, partition, plan, plot, report, run, runs, schema,
    status, table, templates, watch, why, worker,
};
use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Exit codes:
  0    done, or everything was there already
  1    a stage failed
  2    the command line is wrong
  3    the pipeline is invalid
  4    trouble with the store, a data file or other input and output
  5    an executor or a device is not there
  6    the same stage gave two different results (`run --strict`)
  10   `plan --exit-code`: something would run
  70   a fault of pflpipe itself
  75   a worker's inputs are not there yet
  130  interrupted (Ctrl-C); the same command continues
  143  terminated (SIGTERM, or the terminal was closed); the same command continues

Environment:
  PFLPIPE_CACHE  the folder of the store, as --cache
  PFLPIPE_DATA   folders with data sets, separated as in PATH, after those of --data
  PFLPIPE_ARRAY  the most that a packed array of numpy may unpack to [default: 2GiB]
  PFLPIPE_CPU    portable, avx2, avx512, avx512-bf16 or neon instead of the best that the CPU has; results differ in the last digits
  NO_COLOR       no color and no bars

Example:
  pflpipe run pipelines/quickstart.yaml";

/// Runs benchmarks of personalised federated learning from a pipeline file: cached, resumable, and with the table at the end.
#[derive(Debug, Parser)]
#[command(name = "pflpipe", version, after_help = AFTER_HELP, arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true, max_term_width = 110)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) globals: Globals,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// Work in this folder
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(super) directory: Option<PathBuf>,
    /// The folder of the store [default: $PFLPIPE_CACHE, else `cache`]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) cache: Option<PathBuf>,
    /// A folder with data sets in their original formats; may be repeated
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) data: Vec<PathBuf>,
    /// How results are written
    #[arg(long, value_name = "FORM", default_value = "table", global = true)]
    pub(super) output: Form,
    /// When to use color
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(super) color: When,
    /// No progress and no remarks, only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Log what is done to standard error; twice for more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(super) verbose: u8,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people
    Table,
    /// For programs
    Json,
    /// Only what a script needs: names, keys
    Quiet,
}

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands, in the order of help.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Why(why::Args),
    Status(status::Args),
    Watch(watch::Args),
    Logs(logs::Args),
    Graph(graph::Args),
    Check(check::Args),
    Expand(expand::Args),
    New(new::Args),
    Schema(schema::Args),
    Templates(templates::Args),
    Table(table::Args),
    Plot(plot::Args),
    Report(report::Args),
    Runs(runs::Args),
    Cache(cache::Args),
    Algorithms(algorithms::Args),
    Kinds(kinds::Args),
    Data(data::Args),
    Partition(partition::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Worker(worker::Args),
}

/// What changes a pipeline from the command line.
#[derive(Clone, Debug, Default, clap::Args, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Changes {
    /// Set a variable, or a parameter such as `run.rounds`; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) set: Vec<String>,
    /// Replace or add an axis: `seed=0..3` (half-open) or `alpha=0.1,0.5`; may be repeated
    #[arg(long, value_name = "AXIS=VALUES")]
    pub(super) sweep: Vec<String>,
    /// Keep only the cells for which this holds: `algorithm != "gpfl"`; may be repeated
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub(super) filter: Vec<String>,
    /// The device of stages that do not choose one: `cpu` or `cuda:N`
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    pub(super) device: String,
}

/// A pipeline file with changes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PipelineArgs {
    /// The pipeline
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) changes: Changes,
}

fn device(text: &str) -> Result<String, String> {
    if crate::spec::stages::is_device(text) { Ok(text.to_owned()) } else { Err("write `cpu` or `cuda:N`".to_owned()) }
}

/// A duration: seconds as a number, or `90s`, `30min`, `2h`, `1d`, also joined: `1h30min`.
pub(super) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || "write seconds as a number, or `90s`, `30min`, `2h`, `1h30min`, `1d`".to_owned();
    let (mut rest, mut seconds) = (text.trim(), 0.0);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = rest[end..].trim_start();
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += number
            * match rest[..unit].trim() {
                "" | "s" => 1.0,
                "min" | "m" => 60.0,
                "h" => 3600.0,
                "d" => 86400.0,
                _ => return Err(wrong()),
            };
        rest = &rest[unit..];
    }
    std::time::Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// A duration above 0.
pub(super) fn limit(text: &str) -> Result<std::time::Duration, String> {
    duration(text).and_then(|limit| if limit.is_zero() { Err("it must be above 0".to_owned()) } else { Ok(limit) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let help = command.get_after_help().or_else(|| command.get_after_long_help()).map(ToString::to_string).unwrap_or_default();
        let path = format!("{path} {}", command.get_name());
        found.push((path.clone(), help));
        for inner in command.get_subcommands() {
            leaves(inner, &path, found);
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_ends_in_an_example() {
        let mut found = Vec::new();
        leaves(&Cli::command(), "", &mut found);
        assert!(found.len() > 20);
        for (command, help) in found {
            let last = help.lines().last().unwrap_or_default().trim();
            assert!(help.contains("Example") && last.starts_with("pflpipe "), "`{command}` ends in `{last}`");
        }
    }

    #[test]
    fn durations() {
        for (text, seconds) in [("90", 90.0), ("90s", 90.0), ("1h30min", 5400.0), ("0.5d", 43200.0), ("2 h", 7200.0)] {
            assert_eq!(duration(text).map(|d| d.as_secs_f64()), Ok(seconds), "{text}");
        }
        for text in ["", "h", "1y", "-1", "1..2", "1e400", "99999999999999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
