//! `worker`: one stage in a process of its own, started by `run --executor child` and by cluster jobs.
//!
//! Its standard output belongs to the protocol of [`crate::exec::worker`], so it does not go through the output trait.

use super::load;
use crate::exec::worker;
use std::path::PathBuf;

/// Run one stage from its ticket. Started by pflpipe itself.
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "Example:
  pflpipe worker --task cache/tmp/ticket"
)]
pub(super) struct Args {
    /// The ticket
    #[arg(long, value_name = "FILE")]
    task: PathBuf,
}

pub(super) fn run(args: &Args) -> u8 {
    worker::main(&args.task, &load::stages(), std::io::stdin(), std::io::stdout())
}
