//! Bad input: each kind is refused with a message, its place, what to do, and the documented exit code.

use crate::space::Space;

#[test]
fn mistakes_in_a_pipeline_are_shown_where_they_are() {
    let space = Space::new();
    for (name, from, to, message, place) in [
        ("unknown key", "clients: 3", "cleints: 3", "unknown parameter `cleints`", "bad.yaml:9:64"),
        ("wrong type", "clients: 3", "clients: many", "must be an integer of at least 1, found text `many`", "bad.yaml:9:73"),
        ("missing stage", "partition: split", "partition: splitt", "needs `splitt`, which is not a stage", "bad.yaml:11:58"),
        ("self reference", "{data: data, kind: d", "{data: split, kind: d", "stage `split` needs itself", "bad.yaml:9:29"),
        ("wrong kind of stage", "{data: data, kind: d", "{data: run, kind: d", "but `run` is of kind `train`", "bad.yaml:9:29"),
        ("unused axis", "algorithm: \"{{ algorithm }}\"", "algorithm: fedavg", "no stage reads the axis `algorithm`", "bad.yaml:5:5"),
        ("unused variable", "{rounds: 2}", "{rounds: 2, n: 1}", "nothing reads the variable `n`", "bad.yaml:2:19"),
        ("unknown variable", "{{ rounds }}", "{{ round }}", "`round` is neither a variable nor an axis", "bad.yaml:11:85"),
        ("empty axis", "seed: {range: [0, 2]}", "seed: []", "axis `seed` has no values", "bad.yaml:6:11"),
        ("duplicate key", "sweep:", "vars: {rounds: 3}\nsweep:", "the key `vars` is there twice", "bad.yaml:3:1"),
        ("tab", "    algorithm: [", "\talgorithm: [", "a tab indents this line", "bad.yaml:5:1"),
        ("alpha 0", "alpha: 0.5", "alpha: 0", "must be a number above 0, found 0", "bad.yaml:9:59"),
        ("size", "hidden: [8]", "hidden: [65537]", "must be an integer from 1 to 65536", "bad.yaml:10:49"),
        ("unknown algorithm", "fedavg, ditto", "fedavg, dito", "no `algorithm` of the name `dito`", "bad.yaml:5:25"),
        ("axis left out", ", over: seed", "", "does not say what becomes of the axis `seed`", "bad.yaml:13:3"),
        ("table of nothing", "rows: algorithm", "rows: algoritm", "names `algoritm`, which is not an axis", "bad.yaml:13:47"),
    ] {
        space.changed("bad.yaml", from, to);
        let done = space.run(&["run", "bad.yaml"]);
        assert_eq!(done.code, 3, "{name}: {done:?}");
        for text in ["error: ", message, place] {
            assert!(done.err.contains(text), "{name}: `{text}` is not in\n{}", done.err);
        }
        assert_eq!(done.out, "", "{name}");
    }
    assert!(!space.path("cache").exists(), "nothing was run, so nothing was made");
}

#[test]
fn what_a_table_asks_for_in_vain_is_shown_where_it_stands() {
    let space = Space::new();
    let published = "Fashion-MNIST, 4-layer CNN, dirichlet beta=0.1, N=20";
    space.write("bare.csv", "source,table\n");
    space.write(
        "odd.csv",
        "source,table,dataset,model,scenario,algorithm,metric,mean,std\nme,1,optdigits,,\"dirichlet alpha=0.5\",FedAvg,test_acuracy,0.5,\n",
    );
    space.write(
        "percent.csv",
        "source,table,dataset,model,scenario,algorithm,metric,mean,std\nme,1,optdigits,,\"dirichlet alpha=0.5\",FedAvg,test_accuracy,85,\n",
    );
    let over = "value: run.test_accuracy.best, over: seed";
    for (to, message, help) in [
        ("value: run.validation_accuracy.best, over: seed".to_owned(), "`run`: it puts no samples aside", "`validation_ratio`"),
        ("value: run.test_accuracy.at_best(validation_accuracy), over: seed".to_owned(), "puts no samples aside", "`validation_ratio`"),
        ("value: run.new_clients:test_accuracy.last, over: seed".to_owned(), "no client joins", "`new_clients`"),
        ("value: run.epsilon.last, over: seed".to_owned(), "it has no `privacy`", "kinds train"),
        ("value: run.test_accuracy.at_round(3), over: seed".to_owned(), "there is no round 3 of 2", "`at_round(2)` is after the last one"),
        ("value: run.test_accuracy.at_best(seconds), over: seed".to_owned(), "`seconds` is of a whole training", "at_best("),
        (format!("{over}, statistics: {{against: fedavgg}}"), "`fedavgg`, which is not one of its rows", "did you mean `fedavg`?"),
        (format!("{over}, statistics: {{against: nobody}}"), "`nobody`, which is not one", "its rows are `fedavg`, `ditto`"),
        (format!("{over}, compare: pfllib-table3"), "no published table", "did you mean `pfllib-table2`?"),
        (format!("{over}, compare: mine.csv"), "cannot read `mine.csv`", "relative to the file"),
        (format!("{over}, compare: bare.csv"), "the column `dataset` is missing in line 1", "its first line must be"),
        (format!("{over}, compare: odd.csv"), "`test_acuracy` is not a metric in line 2", "did you mean `test_accuracy`?"),
        (format!("{over}, compare: percent.csv"), "`test_accuracy` is 85 in line 2", "called `test_accuracy_pct`"),
        (
            format!("{over}, compare: {{table: pfllib-table2, settings: {{ditto: \"{}\"}}}}", published.replace("0.1", "0.3")),
            "beta=0.3, N=20` is not a setting of `pfllib-table2`",
            "did you mean `Fashion-MNIST",
        ),
    ] {
        space.changed("bad.yaml", over, &to);
        for command in ["check", "run"] {
            let done = space.run(&[command, "bad.yaml"]);
            done.fails(3, &["error: ", message, help, "bad.yaml:13:"]);
        }
    }
    for (from, to, message, place) in [
        ("seed: \"{{ seed }}\"}}\ntables", "new_clients: 1, seed: 1}}\ntables", "", ""),
        ("fedavg, ditto", "fedproto, fd", "new clients are not defined for `fedproto`", "bad.yaml:11:"),
    ] {
        let text = std::fs::read_to_string(space.path("small.yaml")).expect("there");
        assert!(text.contains(from), "{from}");
        space.write("small.yaml", &text.replace(from, to));
        if !message.is_empty() {
            std::fs::copy(space.path("small.yaml"), space.path("bad.yaml")).expect("writable");
            space.run(&["check", "bad.yaml"]).fails(3, &[message, "leave `new_clients` at 0", place]);
        }
    }
    assert!(!space.path("cache").exists(), "nothing was run");

    // A label that is not there is no error: the command line may leave it out, and a variable may have chosen others.
    let space = Space::new();
    space.changed("odd.yaml", over, &format!("{over}, compare: {{table: pfllib-table2, settings: {{dito: \"{published}\"}}}}"));
    let done = space.run(&["check", "odd.yaml"]);
    assert!(
        done.code == 0 && done.err.contains("`dito` is not a label of table") && done.err.contains("did you mean `ditto`?"),
        "{done:?}"
    );
    space.changed("narrow.yaml", over, &format!("{over}, statistics: {{against: ditto}}"));
    space.run(&["check", "narrow.yaml", "--where", "algorithm == 'fedavg'"]).ok();
}

#[test]
fn a_stage_that_needs_itself_is_refused() {
    let space = Space::new();
    space.write(
        "bad.yaml",
        "stages:\n  a: {partition: {data: b, kind: iid, clients: 2}}\n  b: {dataset: {name: optdigits}}\n  \
         run: {train: {algorithm: fedavg, partition: run, model: run, rounds: 1}}\n",
    );
    space.run(&["check", "bad.yaml"]).fails(3, &["error: ", "stage `run` needs itself", "bad.yaml:4:"]);
}

#[test]
fn all_mistakes_are_reported_at_once_and_as_json() {
    let space = Space::new();
    space.write("bad.yaml", &crate::space::SMALL.replace("clients: 3", "cleints: 3").replace("rows: algorithm", "rows: algoritm"));
    let people = space.run(&["check", "bad.yaml"]);
    people.fails(3, &["`cleints`", "`algoritm`", "did you mean `clients`?", "did you mean `algorithm`?"]);
    let done = space.run(&["check", "bad.yaml", "--output", "json"]);
    assert_eq!(done.code, 3);
    let json = done.json();
    assert_eq!(json["valid"], false);
    let messages = json["messages"].as_array().expect("a list");
    assert_eq!((&messages[0]["line"], &messages[0]["column"], &messages[0]["code"]), (&9.into(), &64.into(), &"unknown-key".into()));
}

#[test]
fn an_unquoted_expression_is_understood() {
    let space = Space::new();
    space.changed("bare.yaml", "\"{{ rounds }}\"", "{{ rounds }}");
    space.run(&["check", "bare.yaml"]).ok();
}

#[test]
fn the_command_line_is_checked_too() {
    let space = Space::new();
    for (arguments, texts) in [
        (&["run"][..], &["error: "][..]),
        (&["rum", "small.yaml"], &["unrecognized subcommand", "run"]),
        (&["run", "small.yaml", "--set", "ronds=3"], &["`ronds` is not a variable", "did you mean `rounds`?"]),
        (
            &["run", "small.yaml", "--set", "tables.extra.rows=seed"],
            &["there is no `extra` in `tables`", "makes no new table: write it into the file, whose tables are `accuracy`"],
        ),
        (&["run", "small.yaml", "--set", "tables.acuracy.rows=seed"], &["did you mean `accuracy`?"]),
        (&["templates", "latx"], &["there is no template `latx`", "did you mean `latex`?"]),
        (&["run", "small.yaml", "--set", "rounds"], &["lacks a `=`"]),
        (&["run", "small.yaml", "--set", "=3"], &["has no name before the `=`"]),
        (&["run", "small.yaml", "--set", "run.rounds="], &["`--set run.rounds=` has no value after the `=`"]),
        (&["run", "small.yaml", "--set", "batch_size=5"], &["`batch_size` is not a variable", "write `--set run.batch_size=...`"]),
        (&["run", "small.yaml", "--where", "seed"], &["the condition gives 0, which is neither true nor false", "help: compare it"]),
        (&["run", "small.yaml", "--timeout", "0"], &["it must be above 0"]),
        (&["run", "small.yaml", "-f", "run["], &["`run[` does not name a stage", "STAGE[AXIS=VALUE, ...]"]),
        (&["run", "small.yaml", "-f", "run[0]"], &["`run[0]` does not name a stage"]),
        (&["new", "y.yaml", "--set", "rounds="], &["has no value after the `=`"]),
        (&["run", "small.yaml", "--sweep", "seed=0..3", "--set", "seed=1"], &["`seed` is an axis"]),
        (&["run", "small.yaml", "--where", "algorithm == 'x'"], &["no cell fits `--where`"]),
        (&["run", "small.yaml", "--sweep", "seed=0...3"], &["`0...3` is not a range", "`0..3` (half-open)"]),
        (&["run", "small.yaml", "--sweep", "seed=0.1..0.5"], &["`0.1..0.5` is not a range"]),
        (&["kinds", "partitoin"], &["`partitoin` is not a kind of stages", "did you mean `partition`?"]),
        (&["run", "small.yaml", "-j", "0"], &["error: invalid value '0'"]),
        (&["run", "small.yaml", "--device", "gpu"], &["write `cpu` or `cuda:N`"]),
        (&["run", "small.yaml", "--timeout", "soon"], &["write seconds as a number"]),
        (&["run", "small.yaml", "-f", "rum"], &["`rum` is not a stage of the pipeline", "did you mean `run`?"]),
        (&["run", "small.yaml", "-f", "run[seed=7]"], &["no stage is called `run[seed=7]`", "`seed` is one of `0`, `1`"]),
        (&["why", "small.yaml", "run[alpha=1]"], &["`run` does not read `alpha`; its axes are `algorithm`, `seed`"]),
        (&["why", "small.yaml", "run", "--sweep", "seed=0..3"], &["`run` means 6 stages"]),
        (&["table", "small.yaml", "--format", "latx"], &["`latx` is not a format of tables", "did you mean `latex`?"]),
        (&["table", "small.yaml", "--name", "acuracy"], &["did you mean `accuracy`?"]),
        (&["algorithms", "ditttto"], &["there is no algorithm `ditttto`"]),
        (&["new", "x.yaml", "--template", "single"], &["`single`"]),
        (&["-C", "nowhere", "runs"], &["cannot work in `nowhere`"]),
    ] {
        let done = space.run(arguments);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{arguments:?}: {done:?}");
        for text in texts {
            assert!(done.err.contains(text), "{arguments:?}: `{text}` is not in\n{}", done.err);
        }
    }
}

#[test]
fn a_program_finds_the_fault_where_it_finds_results() {
    let space = Space::new();
    let done = space.run(&["run", "nothere.yaml", "--output", "json"]);
    assert_eq!((done.code, &done.json()["fault"]["kind"]), (4, &"storage".into()));
    space.changed("bad.yaml", "clients: 3", "cleints: 3");
    let done = space.run(&["run", "bad.yaml", "--output", "json"]);
    assert_eq!((done.code, &done.json()["messages"][0]["code"]), (3, &"unknown-key".into()));
    // A failure of a stage is part of the run's result.
    space.changed("bad.yaml", MET, NOT_MET);
    let json = space.run(&["run", "bad.yaml", "-k", "--output", "json"]).json();
    assert_eq!(json["counts"], serde_json::json!({"blocked": 4, "done": 3, "failed": 2}));
    assert_eq!(json["fault"]["kind"], "stage");
}

#[test]
fn a_new_pipeline_that_would_be_invalid_is_not_written() {
    let space = Space::new();
    space.run(&["new", "x.yaml", "--set", "dataset=optdigit"]).fails(3, &["`name` cannot be `optdigit`", "did you mean `optdigits`?"]);
    assert!(!space.path("x.yaml").exists());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let space = Space::new();
    space.run(&["run", "nothere.yaml"]).fails(4, &["there is no file `nothere.yaml`", "help: "]);
    std::fs::create_dir(space.path("folder")).expect("writable");
    space.run(&["check", "folder"]).fails(4, &["`folder` is a folder"]);
    std::fs::write(space.path("latin1.yaml"), b"name: caf\xe9\n").expect("writable");
    space.run(&["check", "latin1.yaml"]).fails(4, &["is not UTF-8 text"]);
}

#[test]
fn what_the_command_line_replaces_need_not_be_read() {
    let space = Space::new();
    space.run(&["run", "small.yaml", "--set", "run.rounds=1"]).ok();
    let done = space.run(&["check", "small.yaml", "--set", "run.algorithm=fedavg"]);
    done.fails(3, &["no stage reads the axis `algorithm`", "choose a value of the axis with `--sweep algorithm=...`"]);
}

#[test]
fn a_model_that_fits_no_machine_is_refused() {
    let space = Space::new();
    space.changed("bad.yaml", "hidden: [8]", &format!("hidden: [{}]", ["32768"; 400].join(", ")));
    space.run(&["run", "bad.yaml"]).fails(1, &["the model needs at least ", " of memory, and this machine has ", "choose a smaller model"]);
}

#[test]
fn a_sweep_that_is_far_too_large_is_refused_at_once() {
    let space = Space::new();
    space.run(&["check", "small.yaml", "--sweep", "seed=0..600000"]).fails(3, &["the sweep spans more than 1000000 cells"]);
    space.run(&["check", "small.yaml", "--sweep", "seed=0..20000"]).fails(3, &["more than `max: 10000`", "`sweep: {max: ...}`"]);
}

#[test]
fn a_device_that_is_not_there_is_refused_before_anything_runs() {
    let space = Space::new();
    let done = space.run(&["run", "small.yaml", "--device", "cuda:7"]);
    done.fails(5, &["error: ", "`cuda:7`", "help: "]);
    assert_eq!(space.files("cache/rec").len(), 0);
    let plan = space.run(&["plan", "small.yaml", "--device", "cuda:7"]);
    assert!(plan.err.contains("warning: the device `cuda:7` is not here"), "{}", plan.err);
    plan.ok();
}

/// A partition that can be made of 600 samples, and one of which only the draw shows that it cannot.
const MET: &str = "kind: dirichlet, alpha: 0.5, clients: 3, least_samples: 10";
const NOT_MET: &str = "kind: iid, clients: 600";

#[test]
fn more_clients_than_samples_are_found_before_anything_runs() {
    let space = Space::new();
    space.changed("bad.yaml", "clients: 3", "clients: 601");
    let done = space.run(&["run", "bad.yaml", "-k"]);
    done.fails(3, &["`clients` is 601, but the data set has 600 samples", "bad.yaml:", "in 2 cells", "help: "]);
    assert_eq!(space.files("cache/rec").len(), 0);
}

#[test]
fn a_partition_that_cannot_be_made_fails_the_stage() {
    let space = Space::new();
    space.changed("bad.yaml", MET, NOT_MET);
    let done = space.run(&["run", "bad.yaml", "-k"]);
    done.fails(1, &["error: client 0 has 0 samples", "--> split[seed=0] and 1 other stage"]);
    assert!(done.err.contains("2 failed, 4 blocked"), "{}", done.err);
    assert!(done.out.contains("4 of 4 samples failed"), "{}", done.out);
    assert_eq!(done.err.matches("failed split[seed=0]: ").count(), 1, "a stage is named once: {}", done.err);
    assert!(!done.err.contains("split[seed=0]: split[seed=0]"), "{}", done.err);
    let table = space.run(&["table", "bad.yaml"]).ok();
    assert!(table.contains("4 of 4 samples failed"), "the failure is remembered: {table}");
}

#[test]
fn data_files_that_are_missing_say_where_they_belong() {
    let space = Space::new();
    space.changed("bad.yaml", "{name: optdigits, limit: 600}", "{name: mnist}");
    let done = space.run(&["run", "bad.yaml", "--data", "."]);
    done.fails(4, &["`mnist`", "train-images-idx3-ubyte.gz", "--data DIR"]);
    std::fs::create_dir(space.path("MNIST")).expect("writable");
    for name in ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        space.write(&format!("MNIST/{name}"), "not pictures");
    }
    space.run(&["run", "bad.yaml", "--data", "."]).fails(4, &["train-images-idx3-ubyte"]);
}
