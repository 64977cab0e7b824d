//! `completions`: scripts that let a shell complete commands and options.

use super::Reply;
use super::args::Cli;
use super::context::Context;
use super::output::Verbatim;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print a script for command completion in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe completions bash > ~/.local/share/bash-completion/completions/pflpipe")]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pflpipe", &mut script);
    context.show(&Verbatim(String::from_utf8_lossy(&script).into_owned()))?;
    Ok(0)
}
