//! The commands `data` and `partition` as a user meets them.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;

struct Done {
    code: i32,
    out: String,
    err: String,
}

fn run(dir: &Path, args: &[&str]) -> Done {
    let mut command = Command::cargo_bin("pflpipe").expect("built");
    command.current_dir(dir).args(args).env_remove("PFLPIPE_DATA").env_remove("PFLPIPE_CACHE").env("NO_COLOR", "1");
    let output = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Done { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn ok(dir: &Path, args: &[&str]) -> String {
    let done = run(dir, args);
    assert_eq!(done.code, 0, "{args:?}: {}{}", done.out, done.err);
    done.out
}

/// The configuration of a folder of PFLlib.
fn config(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("config.json")).expect("written")).expect("json")
}

const PIPELINE: &str = r#"
name: cli
sweep: {grid: {alpha: [0.1, 10.0]}}
stages:
  data:  {dataset: {name: optdigits}}
  split: {partition: {data: data, kind: dirichlet, alpha: "{{ alpha }}", clients: 10, least_samples: 20, variant: clean}}
  other: {partition: {data: data, kind: regions, clients: 9}}
"#;

fn space() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("p.yaml"), PIPELINE).expect("a temporary file");
    dir
}

#[test]
fn partitions_are_shown_and_exported_and_imported_again() {
    let space = space();
    let dir = space.path();
    let all = ok(dir, &["partition", "show", "p.yaml"]);
    assert!(all.contains("split[alpha=0.1]") && all.contains("split[alpha=10") && all.contains("other"), "{all}");
    let one = ok(dir, &["partition", "show", "p.yaml", "split[alpha=0.1]", "--svg", "split.svg"]);
    for part in ["disjoint; complete", "dirichlet, clean", "●", "class  clients 0 to 9", "Jensen-Shannon"] {
        assert!(one.contains(part), "`{part}` in {one}");
    }
    assert!(std::fs::read_to_string(dir.join("split.svg")).expect("written").starts_with("<svg"));
    let json: Value = serde_json::from_str(&ok(dir, &["partition", "show", "p.yaml", "other", "--output", "json"])).expect("json");
    assert_eq!(
        (&json[0]["manifest"]["disjoint"], json[0]["manifest"]["clients"].as_array().expect("clients").len()),
        (&Value::Bool(true), 9)
    );
    let many = run(dir, &["partition", "show", "p.yaml", "--svg", "x.svg"]);
    assert!(many.code == 2 && many.err.contains("draws one partition"), "{}", many.err);
    assert!(run(dir, &["partition", "show", "p.yaml", "data"]).err.contains("is no partition, but a `dataset`"));
    assert_eq!(run(dir, &["partition", "show", "p.yaml", "nothing"]).code, 2);

    ok(dir, &["partition", "export", "p.yaml", "split[alpha=0.1]", "-o", "split.json"]);
    ok(dir, &["partition", "export", "p.yaml", "split[alpha=0.1]", "--format", "npz", "-o", "split.npz"]);
    let shown = ok(dir, &["partition", "show", "split.json"]);
    assert!(shown.contains("split.json") && shown.contains("dirichlet, clean"));
    let original: Value = serde_json::from_slice(&std::fs::read(dir.join("split.json")).expect("written")).expect("json");
    for file in ["split.json", "split.npz"] {
        let imported = format!(
            "name: back\nstages:\n  data: {{dataset: {{name: optdigits}}}}\n  split: {{partition: {{data: data, kind: imported, file: {file}}}}}\n"
        );
        std::fs::write(dir.join("back.yaml"), imported).expect("a temporary file");
        ok(dir, &["--data", ".", "partition", "export", "back.yaml", "-o", "again.json"]);
        let again: Value = serde_json::from_slice(&std::fs::read(dir.join("again.json")).expect("written")).expect("json");
        assert_eq!(again["clients"], original["clients"], "{file}");
        // How it was made is not forgotten on the way.
        ok(dir, &["--data", ".", "partition", "export", "back.yaml", "--format", "pfllib", "-o", "back"]);
        let made = config(&dir.join("back"));
        assert_eq!(made["alpha"], 0.1, "{file}");
        assert!(file != "split.json" || (made["partition"] == "dir" && again["alpha"] == 0.1), "{made}");
        // The content of the file is in the key.
        let plan = |dir: &Path| ok(dir, &["--data", ".", "why", "back.yaml", "split", "--output", "json"]);
        ok(dir, &["--data", ".", "run", "back.yaml", "-q"]);
        assert_eq!(run(dir, &["--data", ".", "plan", "back.yaml", "--exit-code"]).code, 0, "{}", plan(dir));
        std::fs::write(dir.join(file), r#"[[0, 1, 2, 3], [4, 5, 6, 7]]"#).expect("a temporary file");
        assert_eq!(run(dir, &["--data", ".", "plan", "back.yaml", "--exit-code"]).code, 10, "{}", plan(dir));
    }

    ok(dir, &["partition", "export", "p.yaml", "split[alpha=0.1]", "--format", "pfllib", "-o", "pfl"]);
    std::fs::create_dir(dir.join("d")).expect("a temporary folder");
    let added = ok(dir, &["--data", "d", "data", "add", "pfllib", "pfl", "--name", "mine"]);
    assert!(added.contains("5620 samples") && added.contains("10 clients"), "{added}");
    let pipeline = "name: added\nstages:\n  data: {dataset: {name: mine}}\n  split: {partition: {data: data, kind: imported}}\n  \
                    net: {model: {kind: logistic, data: data}}\n  run: {train: {algorithm: fedavg, partition: split, model: net, rounds: 1}}\n";
    std::fs::write(dir.join("added.yaml"), pipeline).expect("a temporary file");
    ok(dir, &["--data", "d", "run", "added.yaml", "-q"]);
    let shown = ok(dir, &["--data", "d", "partition", "show", "added.yaml", "--output", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("json");
    for (a, b) in shown[0]["manifest"]["clients"]
        .as_array()
        .expect("clients")
        .iter()
        .zip(original["manifest"]["clients"].as_array().expect("clients"))
    {
        assert_eq!((&a["counts"], &a["train"]), (&b["counts"], &b["train"]));
    }
    ok(dir, &["--data", "d", "partition", "export", "added.yaml", "--format", "pfllib", "-o", "pfl-again"]);
    let (first, again) = (config(&dir.join("pfl")), config(&dir.join("pfl-again")));
    assert_eq!((&again, &again["alpha"], &again["partition"]), (&first, &Value::from(0.1), &Value::from("dir")));
    // Without the data folder nobody knows the name.
    let unknown = run(dir, &["check", "added.yaml"]);
    assert!(unknown.code == 3 && unknown.err.contains("mine"), "{}", unknown.err);
    assert!(ok(dir, &["--data", "d", "data", "list"]).contains("added, pfllib"));
    let taken = run(dir, &["--data", "d", "data", "add", "pfllib", "pfl", "--name", "mnist"]);
    assert!(taken.code == 2 && taken.err.contains("is a data set that the program knows"));
    let nowhere = run(dir, &["data", "add", "pfllib", "pfl", "--name", "x"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("no data folder is set"), "{}", nowhere.err);
}

#[test]
fn what_is_fetched_says_what_it_is() {
    let space = space();
    let dir = space.path();
    let own = ok(dir, &["data", "fetch", "csv", "images", "--data", "d"]);
    assert!(!own.contains("needs no files") && own.contains("files of your own: put them into d"), "{own}");
    let drawn = ok(dir, &["data", "fetch", "synthetic", "--data", "d"]);
    assert!(drawn.contains("needs no files: drawn by the program"), "{drawn}");
    let small = ok(dir, &["data", "info", "omniglot"]);
    for name in ["small1.zip", "small2.zip", "subset: small1"] {
        assert!(small.contains(name), "`{name}` in {small}");
    }
    let missing = run(dir, &["data", "verify", "omniglot", "--set", "subset=small2", "--data", "."]);
    assert!(missing.out.contains("put `images_background_small2.zip` into DIR/Omniglot"), "{}", missing.out);
}

#[test]
fn data_sets_are_listed_described_and_verified() {
    let space = space();
    let dir = space.path();
    let list = ok(dir, &["data", "list"]);
    for name in ["mnist", "camelyon17", "synthetic", "CC BY 4.0", "no data folder is set"] {
        assert!(list.contains(name), "`{name}` in {list}");
    }
    let names = ok(dir, &["data", "list", "--output", "quiet"]);
    assert!(names.lines().count() > 30 && names.lines().all(|name| !name.contains(' ')));
    for name in names.lines() {
        let info = ok(dir, &["data", "info", name]);
        assert!(info.starts_with(name), "{info}");
    }
    let info = ok(dir, &["data", "info", "cifar100"]);
    assert!(info.contains("sha256 58a81ae1") && info.contains("https://www.cs.toronto.edu/") && info.contains("DIR/CIFAR100"), "{info}");
    let unknown = run(dir, &["data", "info", "cifra100"]);
    assert!(unknown.code == 2 && unknown.err.contains("did you mean `cifar100`?"));
    let verified = ok(dir, &["data", "verify"]);
    assert!(verified.contains("optdigits") && verified.contains("5620 samples (3823 for training) of 8 x 8 x 1, 10 classes"), "{verified}");
    assert!(ok(dir, &["data", "verify", "synthetic", "--set", "users=3"]).contains("3 users"));
    let missing = run(dir, &["data", "verify", "mnist"]);
    assert!(
        missing.code == 4 && missing.out.contains("NOT SOUND") && missing.out.contains("train-images-idx3-ubyte.gz"),
        "{}",
        missing.out
    );
    let fetched = run(dir, &["--data", ".", "data", "fetch", "femnist", "optdigits", "sogou-news"]);
    assert_eq!(fetched.code, 4);
    for part in ["LEAF's `preprocess.sh", "needs no files", "cannot be fetched by a program", "drive.google.com", "SogouNews"] {
        assert!(fetched.out.contains(part), "`{part}` in {}", fetched.out);
    }
    let nowhere = run(dir, &["data", "fetch", "mnist"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("into which to fetch"));
}

#[test]
fn new_partitions_and_data_sets_train_and_texts_are_refused_by_models_of_numbers() {
    let space = space();
    let dir = space.path();
    let pipeline = r#"
name: train
sweep: {grid: {kind: [shared, noisy, natural, regions, mixture]}}
stages:
  data:  {dataset: {name: "{{ 'synthetic' if kind == 'natural' else 'optdigits' }}"}}
  shared: {partition: {data: data, kind: iid, variant: fedml, clients: 5, pool: train, test: hold-out}}
  noisy: {partition: {data: data, kind: feature-noise, clients: 5}}
  natural: {partition: {data: data, kind: natural, clients: 5}}
  regions: {partition: {data: data, kind: regions, clients: 6, skew: dirichlet}}
  mixture: {partition: {data: data, kind: mixture, clients: 5, alpha: 1.0}}
  net:   {model: {kind: logistic, data: data}}
  run:   {train: {algorithm: fedavg, partition: "{{ kind }}", model: net, rounds: 2, learning_rate: 0.05}}
tables: {main: {rows: kind, value: run.test_accuracy.last}}
"#;
    // A stage for each kind, so that each cell has only the one that it trains on.
    for kind in ["shared", "noisy", "natural", "regions", "mixture"] {
        let text: String = pipeline
            .lines()
            .filter(|line| !line.contains("{partition:") || line.trim_start().starts_with(kind))
            .map(|line| line.replace("[shared, noisy, natural, regions, mixture]", &format!("[{kind}]")) + "\n")
            .collect();
        std::fs::write(dir.join("train.yaml"), text).expect("a temporary file");
        let table = ok(dir, &["run", "train.yaml", "--output", "json", "-q"]);
        assert!(table.contains("mean") || table.contains("cells"), "{kind}: {table}");
    }
    std::fs::create_dir_all(dir.join("d/AGNews")).expect("a temporary folder");
    std::fs::write(dir.join("d/AGNews/test.csv"), "\"1\",\"a b\",\"c\"\n\"2\",\"b\",\"c\"\n").expect("a temporary file");
    let text = "name: text\nstages:\n  data: {dataset: {name: ag-news, subset: test, verify: false}}\n  \
                net: {model: {kind: logistic, data: data}}\n";
    std::fs::write(dir.join("text.yaml"), text).expect("a temporary file");
    let refused = run(dir, &["--data", "d", "run", "text.yaml"]);
    assert!(refused.code == 1 && refused.err.contains("takes numbers, but the samples are texts"), "{}", refused.err);
}

#[test]
fn noise_is_exported_and_unknown_settings_and_added_sets_are_told() {
    let space = space();
    let dir = space.path();
    let text = "name: n\nstages:\n  data: {dataset: {name: optdigits, limit: 60}}\n  \
                split: {partition: {data: data, kind: feature-noise, noise: 0.5, clients: 2}}\n  \
                plain: {partition: {data: data, kind: iid, clients: 2, variant: clean}}\n";
    std::fs::write(dir.join("n.yaml"), text).expect("a temporary file");
    for stage in ["split", "plain"] {
        ok(dir, &["partition", "export", "n.yaml", stage, "--format", "pfllib", "-o", stage]);
    }
    let read = |stage: &str, id: u32| std::fs::read(dir.join(format!("{stage}/train/{id}.npz"))).expect("written");
    assert_ne!(read("split", 1).len(), read("plain", 1).len(), "the second client's samples are noisy");
    ok(dir, &["data", "add", "pfllib", "plain", "--name", "mine", "--data", "."]);
    assert!(ok(dir, &["data", "info", "mine", "--data", "."]).contains("kind: imported"));
    assert!(ok(dir, &["data", "fetch", "mine", "--data", "."]).contains("added; its files lie in"));
    let wrong = run(dir, &["data", "verify", "optdigits", "--set", "nonsense=1"]);
    assert!(wrong.code == 2 && wrong.err.contains("has no parameter `nonsense`"), "{}", wrong.err);
    // A data set that is not there has no parameters to speak of.
    let unknown = run(dir, &["data", "verify", "optdigit", "--set", "x=1"]);
    assert!(unknown.err.contains("`optdigit`") && unknown.err.contains("did you mean `optdigits`?"), "{}", unknown.err);
    assert!(!unknown.err.contains("parameter"), "{}", unknown.err);
}

#[test]
fn index_lists_are_shown_and_exported_as_they_are() {
    let space = space();
    let dir = space.path();
    ok(dir, &["partition", "export", "p.yaml", "split[alpha=0.1]", "-o", "split.json"]);
    ok(dir, &["partition", "export", "p.yaml", "split[alpha=0.1]", "--format", "npz", "-o", "split.npz"]);
    ok(dir, &["partition", "export", "split.json", "--format", "npz", "-o", "again.npz"]);
    assert_eq!(std::fs::read(dir.join("again.npz")).expect("written"), std::fs::read(dir.join("split.npz")).expect("written"));
    ok(dir, &["partition", "export", "split.json", "-o", "again.json"]);
    assert_eq!(std::fs::read(dir.join("again.json")).expect("written"), std::fs::read(dir.join("split.json")).expect("written"));
    let refused = |args: &[&str], code: i32, said: &str| {
        let done = run(dir, args);
        assert!(done.code == code && done.err.contains(said), "{args:?}: {} {}", done.code, done.err);
    };
    refused(&["partition", "export", "split.json", "--format", "pfllib", "-o", "pfl"], 2, "has no samples, which `--format pfllib` writes");
    refused(&["partition", "show", "split.npz"], 2, "do not say what the classes of the samples are");
    refused(&["partition", "show", "split.json", "split"], 2, "is one partition and has no stage `split`");
    for plain in [r#"[[0, 1], [2, 3]]"#, r#"{"0": [0], "1": [1]}"#, r#"{"clients": [{"train": [0, 1]}]}"#] {
        std::fs::write(dir.join("x_list.json"), plain).expect("a temporary file");
        refused(&["partition", "show", "x_list.json"], 4, "has no manifest of a partition");
        refused(&["partition", "export", "x_list.json", "-o", "y.json"], 4, "`kind: imported` and `file`");
    }
    for plain in ["7", "null", "\"a\"", ""] {
        std::fs::write(dir.join("x_list.json"), plain).expect("a temporary file");
        refused(&["partition", "show", "x_list.json"], 4, "is neither npz nor json of index lists");
    }
    refused(&["partition", "show", "gone.json"], 4, "there is no file `gone.json`");
    let mut twice: Value = serde_json::from_slice(&std::fs::read(dir.join("split.json")).expect("written")).expect("json");
    twice["clients"][0]["train"][0] = twice["clients"][1]["train"][0].clone();
    std::fs::write(dir.join("twice.json"), twice.to_string()).expect("a temporary file");
    refused(&["partition", "show", "twice.json"], 4, "to client 0 and to client 1");
    let other =
        "stages:\n  data: {dataset: {name: optdigits, limit: 5000}}\n  split: {partition: {data: data, kind: imported, file: FILE}}\n";
    for file in ["split.json", "split.npz"] {
        std::fs::write(dir.join("other.yaml"), other.replace("FILE", file)).expect("a temporary file");
        refused(&["--data", ".", "partition", "show", "other.yaml"], 4, "is a partition of 5620 samples, but the data set has 5000");
    }
}

#[test]
fn data_that_do_not_fit_the_memory_are_refused_and_long_ones_stop() {
    let space = space();
    let dir = space.path();
    let text = |data: &str| format!("stages:\n  data: {{dataset: {{name: synthetic, {data}}}}}\n");
    std::fs::write(dir.join("large.yaml"), text("users: 100000")).expect("a temporary file");
    let run_limited = || {
        let mut command = std::process::Command::new("sh");
        command.current_dir(dir).env_remove("PFLPIPE_CACHE").env("NO_COLOR", "1").arg("-c");
        command.arg(format!("ulimit -v 8000000; exec '{}' check large.yaml", env!("CARGO_BIN_EXE_pflpipe")));
        command.output().expect("a shell")
    };
    let done = run_limited();
    let err = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(3), "{err}");
    assert!(err.contains("data set `synthetic` of ") && err.contains("needs at least ") && err.contains("fewer `users`"), "{err}");
    std::fs::write(dir.join("long.yaml"), text("users: 9000").replace("}}\n", "}, timeout: 0.2s}\n")).expect("a temporary file");
    let done = run(dir, &["run", "long.yaml", "-q"]);
    assert!(done.code == 1 && done.err.contains("timed out after 200 ms"), "{} {}", done.code, done.err);
}
