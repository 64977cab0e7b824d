//! The `pflpipe` program: the command line of the library beside it.

use pflpipe::engine::simd::Aligned;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Aligned = Aligned;

fn main() -> ExitCode {
    Aligned::give_back_large();
    pflpipe::cli::main()
}
