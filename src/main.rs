//! The `pflpipe` program.

fn main() {}
