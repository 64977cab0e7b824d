//! A folder for one test, and the program run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A pipeline that takes less than a second: two algorithms, two seeds, nine stages.
pub const SMALL: &str = r#"name: small
vars: {rounds: 2}
sweep:
  grid:
    algorithm: [fedavg, ditto]
    seed: {range: [0, 2]}
stages:
  data: {dataset: {name: optdigits, limit: 600}}
  split: {partition: {data: data, kind: dirichlet, alpha: 0.5, clients: 3, least_samples: 10, seed: "{{ seed + 1 }}"}}
  net: {model: {kind: mlp, data: data, hidden: [8], seed: "{{ seed }}"}}
  run: {train: {algorithm: "{{ algorithm }}", partition: split, model: net, rounds: "{{ rounds }}", learning_rate: 0.05, seed: "{{ seed }}"}}
tables:
  accuracy: {title: Best test accuracy, rows: algorithm, value: run.test_accuracy.best, over: seed}
"#;

/// The stages of [`SMALL`].
pub const STAGES: usize = 9;

/// A temporary folder.
pub struct Space(tempfile::TempDir);

/// What a run of the program came to.
#[derive(Debug)]
pub struct Done {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Done {
    /// The result of a command that must succeed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }
    /// Checks the exit code and that standard error says each of the texts.
    #[track_caller]
    pub fn fails(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is not in\n{}", self.err);
        }
    }
    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Space {
    /// A folder with `small.yaml` in it.
    pub fn new() -> Self {
        let space = Self(tempfile::tempdir().expect("a temporary folder"));
        space.write("small.yaml", SMALL);
        space
    }
    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a writable folder");
    }
    /// [`SMALL`] with a part replaced, as `NAME`.
    #[track_caller]
    pub fn changed(&self, name: &str, from: &str, to: &str) {
        assert!(SMALL.contains(from), "`{from}` is not in the pipeline");
        self.write(name, &SMALL.replace(from, to));
    }
    /// The program, ready to run in the folder without anything of the caller's surroundings.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pflpipe"));
        command.args(arguments).current_dir(self.0.path());
        for name in ["PFLPIPE_CACHE", "PFLPIPE_DATA", "PFLPIPE_LOG", "NO_COLOR", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command
    }
    /// Runs the program.
    pub fn run(&self, arguments: &[&str]) -> Done {
        self.program(arguments).output().expect("the program starts").into()
    }
    /// Every file below a folder of this one, sorted.
    pub fn files(&self, folder: &str) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    found.push(entry.path());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(folder), &mut found);
        found.sort();
        found
    }
}
