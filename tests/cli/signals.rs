//! Interrupts: a first signal leaves a checkpoint, and the next run comes to the very result of a run that was never stopped.
#![cfg(unix)]

use crate::space::{Done, Space};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Long enough that a signal meets it while it trains.
const LONG: [&str; 8] = ["run", "small.yaml", "--set", "rounds=400", "--where", "algorithm == 'ditto'", "--checkpoint", "0"];

/// The checkpoints with their times of writing.
fn checkpoints(space: &Space) -> Vec<(PathBuf, Option<SystemTime>)> {
    let time = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).ok();
    space.files("cache/ckpt").into_iter().map(|path| (path.clone(), time(&path))).collect()
}

/// Starts the run and waits until it has written a checkpoint.
fn start_training(space: &Space) -> Child {
    let before = checkpoints(space);
    let mut child = space.program(&LONG).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begun = Instant::now();
    while checkpoints(space) == before {
        assert!(begun.elapsed() < Duration::from_secs(60), "no checkpoint after a minute");
        assert_eq!(child.try_wait().expect("a child"), None, "it ended too soon");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(status.success());
}

#[test]
fn a_stopped_run_continues_bit_for_bit() {
    let space = Space::new();
    let want = space.run(&[&LONG[..], &["--cache", "whole"]].concat()).ok();
    // A program that is started under `nohup`, as these tests may be, does not stop when the terminal closes.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let hung_up = mask.is_none_or(|mask| mask & 1 == 0).then_some(("-HUP", 143));
    for (signal, code) in [("-INT", 130), ("-TERM", 143)].into_iter().chain(hung_up) {
        let child = start_training(&space);
        send(signal, &child);
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.contains("stopping: ") && err.contains("run the same command again to continue"), "{err}");
        assert!(output.stdout.is_empty(), "a stopped run prints no table");
        let status = space.run(&["status"]).ok();
        assert!(status.contains("interrupted"), "{status}");
        let plan = space.run(&[&["plan"], &LONG[1..6]].concat()).ok();
        assert!(plan.contains("continues from a checkpoint"), "{plan}");
    }
    // Killed without a word, too: nothing that was finished or checkpointed is lost.
    let mut child = start_training(&space);
    std::thread::sleep(Duration::from_millis(50));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(space.run(&["runs"]).ok().contains("died"));
    let status = space.run(&["status"]).ok();
    assert!(status.contains("cut short") && !status.contains("running"), "{status}");

    assert_eq!(space.run(&LONG).ok(), want);
    let log = space.run(&["logs", "run[seed=0]"]).ok();
    assert!(log.contains("continues after round"), "{log}");
    let objects = |cache: &str| {
        space.files(&format!("{cache}/cas")).into_iter().filter_map(|p| p.file_name().map(ToOwned::to_owned)).collect::<Vec<_>>()
    };
    let whole = objects("whole");
    let stopped = objects("cache");
    assert!(whole.iter().all(|object| stopped.contains(object)), "every object of the whole run is there");
}

#[test]
fn a_second_signal_ends_at_once() {
    let space = Space::new();
    let child = start_training(&space);
    send("-INT", &child);
    send("-INT", &child);
    let begun = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_table_tells_unfinished_from_missing() {
    let space = Space::new();
    let child = start_training(&space);
    send("-INT", &child);
    child.wait_with_output().expect("it ends");
    let text = space.run(&["table", "small.yaml", "--set", "rounds=400"]).ok();
    assert!(text.contains("unfinished") && text.contains("missing"), "ditto was begun, fedavg was not:\n{text}");
}

#[test]
fn a_file_beyond_the_limit_of_sizes_is_a_fault_like_a_full_disk() {
    let space = Space::new();
    let limited = format!("ulimit -f 16; exec '{}' run small.yaml", env!("CARGO_BIN_EXE_pflpipe"));
    let output = Command::new("sh").current_dir(space.path(".")).args(["-c", &limited]).output().expect("there is a shell");
    Done::from(output).fails(4, &["cannot write", "ulimit -f"]);
    assert!(space.run(&["run", "small.yaml"]).ok().contains("ditto"), "the same command goes on without the limit");
}
