//! Replays what the reference implementation computed, step by step, through the round loop and the engine that users run.
//!
//! The fixtures stand in `fixtures/`, with a README that explains their format. More folders of the same format can be named in
//! `PFLPIPE_CONFORMANCE` (separated by colons). An algorithm that is not built yet is counted but not a failure, unless
//! `PFLPIPE_CONFORMANCE_ALL` is 1. A build with CUDA computes on the first GPU, where there is one; `PFLPIPE_CONFORMANCE_DEVICE` chooses
//! `cpu`, `cuda:N`, or `stock`: on the CPU what a GPU would run. An argument replays only the fixtures whose path contains it.

mod compare;
mod fixture;
mod mapping;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let strict = std::env::var("PFLPIPE_CONFORMANCE_ALL").is_ok_and(|v| v == "1");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/fixtures");
    let mut folders: Vec<PathBuf> = ["full", "partial", "bn", "clip", "decay", "norm", "lost"].map(|f| own.join(f)).to_vec();
    if let Some(more) = std::env::var_os("PFLPIPE_CONFORMANCE") {
        folders.extend(std::env::split_paths(&more).filter(|p| !p.as_os_str().is_empty()));
    }
    let mut paths = Vec::new();
    for folder in &folders {
        let found = fixture::list(folder);
        if found.is_empty() {
            eprintln!("no fixture in {}", folder.display());
            return ExitCode::FAILURE;
        }
        paths.extend(found);
    }
    paths.retain(|p| p.to_string_lossy().contains(&filter));

    let (mut passed, mut failed) = (0, 0);
    let mut algorithms: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for path in &paths {
        let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let shown = path.strip_prefix(&own).unwrap_or(path).display().to_string();
        let outcome = std::panic::catch_unwind(|| fixture::Fixture::read(path).and_then(|f| replay::replay(&f, path.starts_with(&own))));
        let outcome = outcome.unwrap_or_else(|_| Err("it panicked".to_owned()));
        match &outcome {
            Ok(worst) => {
                passed += 1;
                println!("ok       {shown:40} {worst}");
            }
            Err(why) if why == replay::NOT_BUILT => {
                println!("{} {shown:40} {why}", if strict { "FAILED  " } else { "-       " });
                failed += usize::from(strict);
            }
            Err(why) => {
                failed += 1;
                println!("FAILED   {shown:40} {why}");
            }
        }
        algorithms.entry(name).or_default().insert(outcome.is_ok());
    }
    let whole = algorithms.values().filter(|outcomes| !outcomes.contains(&false)).count();
    match replay::compute() {
        Ok(compute) => println!("networks ran on {compute:?}"),
        Err(why) => println!("{why}"),
    }
    println!("conformance: {whole} of {} algorithms, {passed} of {} fixtures", algorithms.len(), paths.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
