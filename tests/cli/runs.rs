//! Running: what is executed and what is not, what is printed, and that it does not depend on how.

use crate::space::{SMALL, STAGES, Space};

#[test]
fn the_second_run_executes_nothing_and_prints_the_same_bytes() {
    let space = Space::new();
    let first = space.run(&["run", "small.yaml"]);
    assert!(first.err.contains(&format!("{STAGES} executed, 0 cached")), "{}", first.err);
    let first = first.ok();
    assert!(first.starts_with("Best test accuracy\n") && first.contains("│ fedavg"), "{first}");
    assert!(!first.contains('\u{1b}'), "no color where there is no terminal");
    let second = space.run(&["run", "small.yaml"]);
    assert!(second.err.contains(&format!("0 executed, {STAGES} cached")), "{}", second.err);
    assert_eq!(second.ok(), first);
    assert_eq!(space.run(&["table", "small.yaml"]).ok(), first);
    assert_eq!(space.run(&["run", "small.yaml", "-q"]).err, "");
}

#[test]
fn neither_threads_nor_processes_nor_order_change_a_result() {
    let space = Space::new();
    let want = space.run(&["run", "small.yaml", "-j", "1", "--cache", "one"]).ok();
    assert_eq!(space.run(&["run", "small.yaml", "-j", "3", "--cache", "three"]).ok(), want);
    assert_eq!(space.run(&["run", "small.yaml", "--executor", "child", "--cache", "child"]).ok(), want);
    assert_eq!(space.run(&["run", "small.yaml", "--checkpoint", "0", "--cache", "often"]).ok(), want);
    let objects = |cache: &str| -> Vec<String> {
        let files = space.files(&format!("{cache}/cas"));
        files.iter().map(|file| file.strip_prefix(space.path(cache)).expect("below").display().to_string()).collect()
    };
    assert_eq!(objects("three"), objects("one"));
    assert_eq!(objects("child"), objects("one"));
}

#[test]
fn an_edit_runs_only_what_it_changes() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    let plan = |arguments: &[&str]| space.run(&[&["plan", "small.yaml", "--exit-code"], arguments].concat());
    assert_eq!(plan(&[]).code, 0);
    let more = plan(&["--set", "rounds=3"]);
    assert_eq!(more.code, 10);
    assert!(more.out.contains("rounds: 2 -> 3") && more.out.contains("4 to run, 5 cached"), "{}", more.out);
    let seeds = plan(&["--sweep", "seed=0..3"]);
    assert!(seeds.out.contains("2 to run, 2 maybe, 9 cached"), "{}", seeds.out);
    // Comments, order and spelling are no edit.
    let same = SMALL.replace("vars: {rounds: 2}", "# a remark\nvars:\n  rounds: 2").replace("alpha: 0.5", "alpha: 5e-1");
    space.write("same.yaml", &same);
    assert_eq!(space.run(&["plan", "same.yaml", "--exit-code"]).code, 0);
    // A stage that gives the same again stops the wave: the split does not depend on the label of its seed.
    let done = space.run(&["run", "small.yaml", "-f", "data"]);
    assert!(done.err.contains("1 executed, 8 cached"), "{}", done.err);
}

#[test]
fn a_dry_run_changes_nothing() {
    let space = Space::new();
    let out = space.run(&["run", "small.yaml", "-n"]).ok();
    assert!(out.contains("never run") && out.contains("1 to run, 8 maybe, 0 cached"), "{out}");
    assert!(!space.path("cache").exists());
}

#[test]
fn more_rounds_continue_and_come_to_the_same() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    let continued = space.run(&["run", "small.yaml", "--set", "rounds=5"]).ok();
    let log = space.run(&["logs", "run[algorithm=ditto, seed=1]"]).ok();
    assert!(log.contains("continues after round 2"), "{log}");
    assert_eq!(space.run(&["run", "small.yaml", "--set", "rounds=5", "--cache", "fresh"]).ok(), continued);
}

#[test]
fn every_output_form_and_the_trace() {
    let space = Space::new();
    let json = space.run(&["run", "small.yaml", "--output", "json", "--trace", "trace.json"]).json();
    assert_eq!((&json["counts"]["done"], &json["fault"]), (&STAGES.into(), &serde_json::Value::Null));
    assert_eq!(json["tables"][0]["cells"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["stages"].as_array().map(Vec::len), Some(STAGES));
    let trace: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(space.path("trace.json")).expect("written")).expect("JSON");
    let bars = trace["traceEvents"].as_array().expect("a list").iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(bars, STAGES);
    assert_eq!(space.run(&["run", "small.yaml", "--output", "quiet"]).ok(), "");
    space.run(&["run", "small.yaml", "--trace", "no/such/folder.json"]).fails(4, &["cannot create `no/such/folder.json`"]);
}

#[test]
fn strict_finds_no_difference_when_a_stage_runs_again() {
    let space = Space::new();
    let first = space.run(&["run", "small.yaml"]).ok();
    let again = space.run(&["run", "small.yaml", "-f", "run", "-f", "split", "--strict"]);
    assert!(again.err.contains("6 executed, 3 cached"), "{}", again.err);
    assert_eq!(again.ok(), first);
}

#[test]
fn a_closed_pipe_is_success() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    let mut command = space.program(&["table", "small.yaml"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
