//! The `pflpipe` program: the command line of the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    pflpipe::cli::main()
}
