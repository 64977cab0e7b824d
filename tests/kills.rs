//! `kill -9` at random moments of a run: the next run continues, and ends with the very objects of an undisturbed one.
//!
//! `PFLPIPE_KILLS` sets the number of kills (8 by default).

use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::store::Store;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PIPELINE: &str = r#"
name: kills
sweep:
  grid:
    algorithm: [fedavg, ditto, scaffold]
    seed: [0, 1]
stages:
  data: {dataset: {name: optdigits, limit: 1500}}
  split: {partition: {data: data, kind: dirichlet, alpha: 0.5, clients: 8, seed: "{{ seed }}"}}
  net: {model: {kind: cnn, data: data, widths: [4, 8], kernel: 3, padding: 1, hidden: 16, seed: "{{ seed }}"}}
  run: {train: {algorithm: "{{ algorithm }}", partition: split, model: net, rounds: 30, learning_rate: 0.05, join_ratio: 0.5, seed: "{{ seed }}"}}
tables:
  accuracy: {rows: algorithm, columns: seed, value: run.test_accuracy.best}
"#;

/// The command of a run; a checkpoint after every round, so that every kill has something to continue from.
fn command(folder: &Path, store: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pflpipe"));
    command.current_dir(folder).args(["--cache", store, "run", "kills.yaml", "--checkpoint", "0", "-j", "2"]);
    command.stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Every result: its label, and the digests of its outputs.
fn results(store: &Path) -> Vec<String> {
    let store = Store::open(store).expect("the store opens after any kill");
    let mut all: Vec<String> = store.ls().into_iter().map(|l| format!("{} {:?} {}", l.record.label, l.record.outputs, l.whole)).collect();
    all.sort();
    all
}

fn finish(folder: &Path, store: &str) -> (String, Duration) {
    let start = Instant::now();
    let output = command(folder, store).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), start.elapsed())
}

#[test]
fn a_killed_run_continues_to_the_same_objects() {
    let kills: u64 = std::env::var("PFLPIPE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("kills.yaml"), PIPELINE).expect("the folder can be written");
    let (table, whole_time) = finish(folder.path(), "undisturbed");
    let undisturbed = results(&folder.path().join("undisturbed"));
    assert_eq!(undisturbed.len(), 1 + 2 + 2 + 6);
    let mut interrupted = 0;
    for kill in 0..kills {
        let store = format!("killed-{kill}");
        let mut rng = stream(7, Purpose::Stragglers, kill, 0, 0);
        let mut child = command(folder.path(), &store).spawn().expect("the program starts");
        std::thread::sleep(whole_time.mul_f64(unit(&mut rng)));
        // SIGKILL: nothing in the program can react to it.
        child.kill().expect("the child is ours");
        interrupted += u64::from(!child.wait().expect("it ended").success());
        let (again, _) = finish(folder.path(), &store);
        assert_eq!(again, table, "kill {kill}");
        assert_eq!(results(&folder.path().join(&store)), undisturbed, "kill {kill}");
        std::fs::remove_dir_all(folder.path().join(&store)).expect("the store can be removed");
    }
    assert!(interrupted * 2 >= kills, "only {interrupted} of {kills} kills met a running program");
}
