//! The command line: one file a command, and nothing else in the crate prints.
//!
//! Results go to standard output through `output`, everything else to standard error through `message` and `progress`.
//! A command returns its exit code or a `Stop`; which code a fault has is decided in [`crate::base::FaultKind::exit_code`] alone.

mod algorithms;
mod annotate;
mod args;
mod cache;
mod check;
mod compared;
mod completions;
mod context;
mod data;
mod diff;
mod doctor;
mod drive;
mod evidence;
mod expand;
mod gather;
mod graph;
mod kinds;
mod load;
mod logs;
mod memory;
mod message;
mod new;
mod output;
mod partition;
mod pfllib;
mod plan;
mod plot;
mod progress;
mod report;
mod run;
mod runs;
mod schema;
mod signals;
mod spare;
mod status;
mod table;
mod target;
mod templates;
mod warned;
mod watch;
mod why;
mod worker;

use crate::base::{Fault, FaultKind, Outcome};
use crate::spec::Diagnostics;
use args::{Cli, Command, Form};
use clap::Parser;
use context::Context;
use message::Terminal;
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Why a command ends without its result.
enum Stop {
    /// Something went wrong.
    Fault(Fault),
    /// The pipeline is invalid; every message with its place.
    Invalid(Box<Diagnostics>),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Diagnostics> for Stop {
    fn from(all: Diagnostics) -> Self {
        Self::Invalid(Box::new(all))
    }
}

/// The exit code of a command that came to its end, or why it did not.
type Reply = Result<u8, Stop>;

/// Runs the program on the process's arguments and returns its exit code. Nothing that a user types makes it panic; should a
/// broken invariant do so nevertheless, the code is 70 and the text short.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that is asked for goes to standard output. That it cannot be written is no reason to fail.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FaultKind::Usage.exit_code()));
        }
    };
    let terminal = Terminal::new(&cli.globals);
    message::quiet_panics();
    let form = cli.globals.output;
    signals::large_files_are_errors();
    let reply = catch_unwind(AssertUnwindSafe(|| dispatch(cli, &terminal)));
    ExitCode::from(match reply {
        Ok(Ok(code)) => code,
        Ok(Err(Stop::Fault(fault))) => failed(&fault, form, &terminal),
        Ok(Err(Stop::Invalid(all))) => {
            terminal.diagnostics(&all);
            output::failed(form, &json!({"fault": {"kind": all.kind(), "what": "the pipeline is invalid"}, "messages": all.to_json()}));
            all.kind().exit_code()
        }
        Err(panic) => failed(&message::internal(&*panic), form, &terminal),
    })
}

/// Starts the threads that hash and prepare data; rayon would panic where there are none at their first use.
fn start_threads() -> Outcome<()> {
    rayon::ThreadPoolBuilder::new().build_global().map_err(|error| Fault::no_thread(&error))
}

fn failed(fault: &Fault, form: Form, terminal: &Terminal) -> u8 {
    terminal.error(fault);
    output::failed(form, &json!({"fault": fault}));
    fault.kind.exit_code()
}

impl Command {
    /// Whether it reads results or data. The others print what is built in; shells run some of them whenever they start.
    fn reads(&self) -> bool {
        !matches!(self, Self::New(_) | Self::Schema(_) | Self::Templates(_) | Self::Algorithms(_) | Self::Kinds(_) | Self::Completions(_))
    }
}

fn dispatch(cli: Cli, terminal: &Terminal) -> Reply {
    if cli.command.reads() {
        start_threads()?;
    }
    let mut context = Context::new(&cli.globals, terminal)?;
    match cli.command {
        Command::Run(args) => run::run(&args, &mut context),
        Command::Plan(args) => plan::run(&args, &mut context),
        Command::Why(args) => why::run(&args, &mut context),
        Command::Status(args) => status::run(&args, &mut context),
        Command::Watch(args) => watch::run(&args, &mut context),
        Command::Logs(args) => logs::run(&args, &mut context),
        Command::Graph(args) => graph::run(&args, &mut context),
        Command::Check(args) => check::run(&args, &mut context),
        Command::Expand(args) => expand::run(&args, &mut context),
        Command::New(args) => new::run(&args, &mut context),
        Command::Schema(args) => schema::run(&args, &mut context),
        Command::Templates(args) => templates::run(&args, &mut context),
        Command::Table(args) => table::run(&args, &mut context),
        Command::Plot(args) => plot::run(&args, &mut context),
        Command::Report(args) => report::run(&args, &mut context),
        Command::Runs(args) => runs::run(&args, &mut context),
        Command::Cache(args) => cache::run(&args, &mut context),
        Command::Algorithms(args) => algorithms::run(&args, &mut context),
        Command::Kinds(args) => kinds::run(&args, &mut context),
        Command::Data(args) => data::run(&args, &mut context),
        Command::Partition(args) => partition::run(&args, &mut context),
        Command::Doctor(args) => doctor::run(&args, &mut context),
        Command::Completions(args) => completions::run(&args, &mut context),
        Command::Worker(args) => Ok(worker::run(&args)),
    }
}
