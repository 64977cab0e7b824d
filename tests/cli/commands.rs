//! The commands that look and tell.

use crate::space::{STAGES, Space};

#[test]
fn help_documents_the_exit_codes() {
    let space = Space::new();
    let help = space.run(&["--help"]).ok();
    for line in
        ["  0    done", "  3    the pipeline is invalid", "  130  interrupted", "PFLPIPE_DATA", "pflpipe run pipelines/quickstart.yaml"]
    {
        assert!(help.contains(line), "{help}");
    }
    assert!(!help.contains("worker "), "internal commands are not listed");
    assert_eq!(space.run(&["--version"]).ok(), format!("pflpipe {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(space.run(&[]).code, 2);
}

#[test]
fn why_shows_what_differs() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    let out = space.run(&["why", "small.yaml", "run[algorithm=ditto,seed=0]", "--set", "run.learning_rate=0.1"]).ok();
    assert!(out.starts_with("run[algorithm=ditto, seed=0] (train): run: learning_rate: 0.05 -> 0.1\nkey "), "{out}");
    let line = out.lines().find(|line| line.starts_with("* learning_rate")).expect("the changed part is marked");
    assert!(line.ends_with("was 0.05"), "{line}");
    let json = space.run(&["why", "small.yaml", "data", "--output", "json"]).json();
    assert_eq!(json[0]["state"], "cached");
}

#[test]
fn status_runs_and_logs_tell_of_the_last_run() {
    let space = Space::new();
    space.run(&["status"]).fails(4, &["there is no store"]);
    assert_eq!(space.run(&["runs"]).ok(), "no runs\n");
    let before = space.run(&["status", "small.yaml"]).ok();
    assert!(before.ends_with(&format!("0 of {STAGES} stages are there\n")), "{before}");
    space.run(&["run", "small.yaml"]).ok();
    let status = space.run(&["status"]).ok();
    assert!(status.contains("of small: done") && status.contains("9 done"), "{status}");
    assert!(space.run(&["status", "small.yaml"]).ok().ends_with("9 of 9 stages are there\n"));
    let id = space.run(&["runs", "--output", "quiet"]).ok().trim().to_owned();
    assert!(space.run(&["status", &id]).ok().starts_with(&format!("run {id}")));
    space.run(&["status", "2026"]).fails(2, &["`2026` is neither a file nor a run"]);
    let log = space.run(&["logs", "run[algorithm=fedavg, seed=1]"]).ok();
    assert!(log.contains("attempt 1 in run") && log.contains("done after"), "{log}");
    space.run(&["logs", "run"]).fails(2, &["`run` means 4 stages"]);
    space.run(&["logs", "rum"]).fails(2, &["no run in the store has a stage `rum`"]);
    space.run(&["logs", "data", "--attempt", "5"]).fails(2, &["had 1 attempt, not 5"]);
    // A run keeps its text and its changes.
    space.run(&["run", "small.yaml", "--sweep", "seed=1..2", "-q"]).ok();
    let newest = space.run(&["runs", "-n", "1", "--output", "quiet"]).ok().trim().to_owned();
    std::fs::remove_file(space.path("small.yaml")).expect("it is there");
    let table = space.run(&["table", &newest]).ok();
    assert!(table.contains("from 1 value of seed"), "{table}");
}

#[test]
fn tables_in_every_format() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    for (format, beginning) in [
        ("term", "Best test accuracy\n┌"),
        ("md", "**Best test accuracy** ("),
        ("latex", "% Needs \\usepackage{booktabs}"),
        ("csv", "table,value,row_axis,row,"),
        ("json", "[\n  {"),
    ] {
        let out = space.run(&["table", "small.yaml", "--format", format]).ok();
        assert!(out.starts_with(beginning), "{out}");
        space.run(&["table", "small.yaml", "--format", format, "-o", "out"]).ok();
        let file = std::fs::read_to_string(space.path("out")).expect("written");
        if format == "json" {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&file).ok(), serde_json::from_str(&out).ok());
        } else {
            assert_eq!(file, out);
        }
    }
    space.run(&["table", "small.yaml", "-o", "no/such/folder"]).fails(4, &["there is no folder `no/such`"]);
    let color = space.run(&["table", "small.yaml", "--color", "always"]).ok();
    assert!(color.contains("\u{1b}[1m"), "{color}");
}

#[test]
fn expand_graph_and_check_show_the_sweep() {
    let space = Space::new();
    assert_eq!(space.run(&["expand", "small.yaml", "--count"]).ok(), "4 cells, 9 stages\n");
    let cells = space.run(&["expand", "small.yaml"]).ok();
    assert!(cells.starts_with("algorithm  seed\nfedavg     0\n"), "{cells}");
    let json = space.run(&["expand", "small.yaml", "--output", "json"]).json();
    assert_eq!(json["cells"].as_array().map(Vec::len), Some(4));
    assert!(space.run(&["check", "small.yaml"]).ok().contains("small.yaml is valid: 9 stages in 4 cells, 1 table"));
    assert!(space.run(&["graph", "small.yaml"]).ok().starts_with("digraph \"small\" {"));
    assert!(space.run(&["graph", "small.yaml", "--format", "mermaid", "--full"]).ok().starts_with("flowchart LR"));
    assert_eq!(space.run(&["graph", "small.yaml", "--format", "json", "--full"]).json()["nodes"].as_array().map(Vec::len), Some(STAGES));
}

#[test]
fn new_pipelines_come_from_templates_and_are_not_overwritten() {
    let space = Space::new();
    let templates = space.run(&["new", "--list", "--output", "quiet"]).ok();
    assert!(templates.lines().count() >= 3, "{templates}");
    for name in templates.lines() {
        let file = format!("{name}.yaml");
        space.run(&["new", &file, "--template", name]).ok();
        space.run(&["new", &file, "--template", name]).fails(4, &["exists already", "--replace"]);
        space.run(&["new", &file, "--template", name, "--replace"]).ok();
    }
    space.run(&["new", "x.yaml", "--template", "dirichlet-sweep", "--set", "dataset=cifar10"]).ok();
    assert!(std::fs::read_to_string(space.path("x.yaml")).expect("written").contains("cifar10"));
    space.run(&["new", "y.yaml", "--template", "dirichlet-sweep", "--set", "datset=cifar10"]).fails(2, &["datset"]);
}

#[test]
fn every_kind_of_stages_is_described() {
    let space = Space::new();
    let listed = space.run(&["kinds", "--output", "quiet"]).ok();
    assert!(listed.lines().count() >= 4, "{listed}");
    for kind in listed.lines() {
        let text = space.run(&["kinds", kind]).ok();
        assert!(text.contains("default") && text.contains("source"), "{text}");
    }
    let text = space.run(&["kinds", "partition.dirichlet"]).ok();
    assert!(text.contains("alpha") && !text.contains("pathological:"), "{text}");
    let listed = space.run(&["new", "--list"]).ok();
    assert!(listed.contains("rounds=200") && listed.contains("algorithms='fedavg, ditto, gpfl'"), "{listed}");
}

#[test]
fn algorithms_schema_completions_and_doctor() {
    let space = Space::new();
    let names = space.run(&["algorithms", "--output", "quiet"]).ok();
    assert!(names.lines().any(|name| name == "fedavg") && names.lines().any(|name| name == "ditto"), "{names}");
    for name in names.lines() {
        let text = space.run(&["algorithms", name]).ok();
        assert!(text.contains("paper: "), "{text}");
    }
    let ditto = space.run(&["algorithms", "ditto", "--output", "json"]).json();
    assert_eq!((&ditto["fields"][0]["name"], &ditto["fields"][0]["symbol"]), (&"mu".into(), &"lambda".into()));
    let schema = space.run(&["schema"]).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let committed = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/pipeline.schema.json");
    let committed = std::fs::read_to_string(committed).expect("it is part of the project");
    let committed: serde_json::Value = serde_json::from_str(&committed).expect("it is JSON");
    assert!(committed == schema, "schemas/pipeline.schema.json is stale: write it anew with `just schema`");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(space.run(&["completions", shell]).ok().contains("pflpipe"));
    }
    let doctor = space.run(&["doctor"]).ok();
    assert!(doctor.contains("ready to run") && doctor.contains("5620 samples of 8 x 8 x 1"), "{doctor}");
    assert!(!space.path("cache").exists(), "looking makes no store");
    space.write("file", "");
    assert_eq!(space.run(&["doctor", "--no-data", "--cache", "file"]).code, 4);
    assert_eq!(space.run(&["doctor", "--no-data", "--data", "nowhere"]).code, 4);
}

#[test]
fn the_pipelines_of_the_readmes_are_valid() {
    let space = Space::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("it is there");
    let (_, rest) = readme.split_once("```yaml\n").expect("a pipeline");
    space.write("readme.yaml", rest.split("```").next().unwrap_or_default());
    assert!(space.run(&["check", "readme.yaml"]).ok().contains("in 15 cells"));
    // The blocks of the reference of the language are whole pipelines; one extends another.
    let reference = std::fs::read_to_string(root.join("pipelines/README.md")).expect("it is there");
    let blocks: Vec<&str> = reference.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 4);
    for (n, block) in blocks.iter().enumerate() {
        let name = block.lines().find_map(|line| line.strip_prefix("name: ")).map_or_else(|| format!("block{n}"), str::to_owned);
        space.write(&format!("{name}.yaml"), block);
        space.run(&["check", &format!("{name}.yaml")]).ok();
    }
    for command in
        ["run", "plan", "why", "table", "status", "check", "expand", "graph", "new", "schema", "algorithms", "kinds", "cache", "doctor"]
    {
        assert!(readme.contains(&format!("`{command}")), "the README does not name `{command}`");
    }
}

#[test]
fn every_pipeline_that_comes_with_the_program_is_valid_without_remarks() {
    let space = Space::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let folders = [root.clone(), root.join("models")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("a folder")).map(|entry| entry.expect("a file").path());
    let mut seen = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
        let found = space.run(&["check", file.to_str().expect("a name"), "--output", "json"]).json();
        assert!(found["valid"] == true && found["messages"].as_array().is_some_and(Vec::is_empty), "{}: {found}", file.display());
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

/// A misspelt scale must not be the full one, which takes days.
#[test]
fn the_papers_pipelines_know_their_scales() {
    let space = Space::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    for name in ["table2", "heterogeneity", "gpfl", "profed", "fedml-table5"] {
        let file = root.join(name).with_extension("yaml");
        let check = |scale: &str| space.run(&["check", file.to_str().expect("a name"), "--set", &format!("scale={scale}")]);
        check("small").ok();
        assert_eq!(check("smal").code, 3, "{name}");
    }
}
