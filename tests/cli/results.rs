//! Results: files that tables ask for, statistics, published numbers, exports, reports and plots.

use crate::space::{SMALL, Space};
use serde_json::{Value, json};
use std::fs;

const TABLE: &str = "{title: Best test accuracy, rows: algorithm, value: run.test_accuracy.best, over: seed}";

/// The small pipeline with another table, run once.
fn ran(table: &str) -> Space {
    let space = Space::new();
    space.changed("p.yaml", TABLE, table);
    space.run(&["run", "p.yaml", "-q"]).ok();
    space
}

#[test]
fn formats_of_a_table_are_written_beside_the_pipeline() {
    let space = Space::new();
    space.changed(
        "p.yaml",
        TABLE,
        "{rows: algorithm, value: run.test_accuracy.best, over: seed, formats: [latex, csv, json, html, md, term, long, series]}",
    );
    let done = space.run(&["run", "p.yaml"]);
    assert!(done.err.contains("wrote results/small/accuracy.csv and 7 more"), "{}", done.err);
    let names: Vec<String> =
        space.files("results").iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    let want = ["csv", "html", "json", "long.csv", "md", "series.csv", "tex", "txt"].map(|end| format!("accuracy.{end}"));
    assert_eq!(names, want, "nothing else, no temporary file either");
    let read = |name: &str| fs::read_to_string(space.path(&format!("results/small/{name}"))).expect("a file");
    assert_eq!(read("accuracy.txt"), done.ok(), "what is written is what is printed");
    assert!(read("accuracy.tex").contains("\\bottomrule"));
    let long = read("accuracy.long.csv");
    assert_eq!(long.lines().count(), 1 + 4);
    assert_eq!(read("accuracy.series.csv").lines().count(), 1 + 4 * 3, "rounds 0, 1 and 2");

    // `table` writes them again, unless it is asked for one format.
    fs::remove_dir_all(space.path("results")).expect("writable");
    space.run(&["table", "p.yaml", "--format", "md"]).ok();
    assert!(!space.path("results").exists());
    space.run(&["table", "p.yaml", "--results", "elsewhere"]).ok();
    assert_eq!(space.files("elsewhere").len(), 8);
}

#[test]
fn a_folder_that_cannot_be_written_is_known_before_anything_runs() {
    let space = Space::new();
    space.changed("p.yaml", TABLE, "{rows: algorithm, value: run.test_accuracy.best, over: seed, formats: latex}");
    space.write("results", "a file where the folder should be");
    space.run(&["run", "p.yaml"]).fails(4, &["cannot create", "results"]);
    assert!(space.files("cache/rec").is_empty(), "nothing ran");
}

#[test]
fn statistics_say_what_two_seeds_cannot_show() {
    let space = ran(
        "{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: {test: wilcoxon, against: fedavg}, ranks: true, headings: family}",
    );
    let text = space.run(&["table", "p.yaml"]).ok();
    for part in
        ["wilcoxon test, paired by seed", "2 pairs cannot show a difference", "mean rank", "traditional", "at least 6 pairs are needed"]
    {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let comparison = &json[0]["statistics"]["values"][0]["comparisons"][0];
    assert_eq!((&comparison["row"], &comparison["against"], &comparison["pairs"]), (&json!("ditto"), &json!("fedavg"), &json!(2)));
    assert_eq!(json[0]["groups"].as_array().map(Vec::len), Some(2));
    // The command line asks for the same and more.
    let shown = space.run(&["table", "small.yaml", "--test", "paired-t", "--against", "best", "--show", "median-range"]).ok();
    assert!(shown.contains("median [smallest, largest] over 2 values of seed") && shown.contains("chosen by the same numbers"), "{shown}");
}

#[test]
fn one_row_has_no_statistics_and_no_heading_of_them() {
    let space = Space::new();
    space.changed("p.yaml", TABLE, "{value: run.test_accuracy.best, over: [algorithm, seed], statistics: wilcoxon}");
    space.run(&["run", "p.yaml", "-q"]).ok();
    let text = space.run(&["table", "p.yaml"]).ok();
    assert!(!text.lines().any(|line| line.trim() == "Statistics") || text.contains("Statistics\n  - "), "{text}");
}

#[test]
fn wrong_statistics_are_refused_before_anything_runs() {
    let space = Space::new();
    for (table, words) in [
        ("{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: {against: fedavgg}}", "did you mean `fedavg`?"),
        ("{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: wilcoxn}", "did you mean `wilcoxon`?"),
        (
            "{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: {level: 2}}",
            "`level` must be a number above 0 and below 1",
        ),
        ("{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: {tests: sign}}", "did you mean `test`?"),
        ("{rows: algorithm, value: run.test_accuracy.best, over: seed, show: mean-std}", "did you mean `mean-sd`?"),
        ("{rows: algorithm, value: run.test_accuracy.mean_last(0), over: seed}", "`mean_last(0)` does not select a measurement"),
        ("{rows: algorithm, value: run.test_accuracy.at_best(nothing), over: seed}", "does not select a measurement"),
        ("{rows: algorithm, value: run.test_accuracy.best, over: seed, compare: pfllib-table3}", "did you mean `pfllib-table2`?"),
    ] {
        space.changed("p.yaml", TABLE, table);
        space.run(&["run", "p.yaml"]).fails(3, &[words]);
    }
    space.changed("p.yaml", TABLE, "{rows: algorithm, value: run.test_accuracy.best, over: seed, compare: mine.csv}");
    space.run(&["run", "p.yaml"]).fails(3, &["mine.csv"]);
    assert!(!space.path("cache/rec").exists(), "nothing ran");
    space.run(&["table", "small.yaml", "--compare", "pfllib-tabl2"]).fails(2, &["did you mean `pfllib-table2`?"]);
    space.run(&["table", "small.yaml", "--test", "wilcoxn"]).fails(2, &["wilcoxon"]);
    space.run(&["table", "small.yaml", "--against", "dito"]).fails(2, &["`dito` of `--against`", "did you mean `ditto`?"]);
}

#[test]
fn selectors_take_the_last_ones_or_the_best_of_another_metric() {
    let space = ran(
        "{rows: algorithm, values: [run.test_accuracy.mean_last(2), run.test_accuracy.at_round(1), run.test_accuracy.at_best(train_loss)], over: seed}",
    );
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let series = space.run(&["table", "p.yaml", "--format", "series"]).ok();
    let measured: Vec<f64> = series
        .lines()
        .filter(|line| line.contains("at_round(1)") && line.contains(",ditto,"))
        .take(3)
        .filter_map(|line| line.rsplit(',').next()?.parse().ok())
        .collect();
    let cell = |row: &str, value: &str| {
        let cells = json[0]["cells"].as_array().expect("cells");
        cells.iter().find(|c| c["row"] == row && c["value"].as_str().is_some_and(|v| v.ends_with(value))).expect("the cell").clone()
    };
    assert_eq!(cell("ditto", "at_round(1)")["samples"][0]["value"], json!(measured[1]));
    let mean = cell("ditto", "mean_last(2)")["samples"][0]["value"].as_f64().expect("a number");
    assert!((mean - (measured[1] + measured[2]) / 2.0).abs() < 1e-12);
}

#[test]
fn published_numbers_stand_beside_with_what_differs() {
    let space = Space::new();
    let columns = "source,table,dataset,model,scenario,algorithm,metric,mean,std";
    space.write(
        "mine.csv",
        &format!("{columns}\nme,1,optdigits (first 600),MLP 8 hidden,\"dirichlet alpha=0.5, N=20, rounds=100\",FedAvg,test_acc_pct,50,1\n"),
    );
    space.changed(
        "p.yaml",
        TABLE,
        "{rows: algorithm, value: run.test_accuracy.best, over: seed, compare: {tables: [mine.csv], margin: 0.5}}",
    );
    space.run(&["run", "p.yaml", "-q"]).ok();
    let text = space.run(&["table", "p.yaml"]).ok();
    for part in
        ["published", "50.00 ± 1.00", "clients 3 instead of 20", "rounds 2 instead of 100", "published: mine.csv with our difference"]
    {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let cells = json[0]["cells"].as_array().expect("cells");
    let published: Vec<bool> = cells.iter().map(|cell| cell.get("published").is_some()).collect();
    assert_eq!(published, [true, false], "only FedAvg is in the file");
    // What belongs to no cell is said, with the reason.
    let line = |rest: &str| format!("me,1,{rest},50,1\n");
    let mine = [
        line("optdigits,MLP 8 hidden,dirichlet alpha=0.5,FedAvg,test_acc_pct"),
        line("optdigits,,dirichlet alpha=0.5,Dito,test_acc_pct"),
        line("mnist,cnn,iid,ditto,test_accuracy_best_pct"),
        line("optdigits,,dirichlet alpha=0.5,ditto,test_auc_pct"),
        line("optdigits,,natural,ditto,test_acc_pct"),
    ];
    fs::create_dir(space.path("sub")).expect("writable");
    space.write("sub/more.csv", &format!("{columns}\n{}", mine.concat()));
    let text = space.run(&["table", "p.yaml", "--compare", "sub/more.csv", "--format", "md"]).ok();
    for part in [
        "line 3 (Dito) stands beside no cell: no row is of its algorithm; did you mean \\`ditto\\`?",
        "line 4 (ditto) stands beside no cell: data optdigits (first 600) instead of mnist, model MLP 8 hidden instead of cnn, \
         partition dirichlet 0.5 instead of iid",
        "line 5 (ditto) stands beside no cell: its \\`test\\_auc\\` is not shown, but \\`test\\_accuracy\\`",
        "line 6 (ditto) stands beside no cell: partition dirichlet 0.5, while its scenario names none of iid, dirichlet, pathological",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    // A path in a pipeline is one from its folder, also where the pipeline is elsewhere; on the command line it is one from here.
    let inner = fs::read_to_string(space.path("p.yaml")).expect("there").replace("mine.csv", "more.csv");
    space.write("sub/p.yaml", &inner);
    assert!(space.run(&["table", "sub/p.yaml"]).ok().contains("published: more.csv"));
    space.run(&["table", "sub/p.yaml", "--compare", "more.csv"]).fails(4, &["more.csv"]);
    let other = space.run(&["table", "p.yaml", "--compare", "gpfl-table1"]).ok();
    assert!(other.contains("belongs to a cell") && other.contains("name the published setting"), "{other}");
    // A published setting may be named where ours is a stand-in for it.
    space.changed(
        "q.yaml",
        TABLE,
        "{rows: algorithm, value: run.test_accuracy.best, over: seed, compare: {table: pfllib-table2, settings: {ditto: \"Fashion-MNIST, 4-layer CNN, dirichlet beta=0.1, N=20\"}}}",
    );
    let text = space.run(&["table", "q.yaml"]).ok();
    assert!(text.contains("97.47 ± 0.04") && text.contains("instead of Fashion-MNIST") && text.contains("2023"), "{text}");
    space.write("mine.csv", "source,table\n");
    space.run(&["table", "p.yaml"]).fails(3, &["the column `dataset` is missing in line 1 of `mine.csv`"]);
}

#[test]
fn a_template_of_ones_own() {
    let space = ran(TABLE);
    space.write("mine.j2", "{% for row in tables[0].rows %}{{ row.label }};{% endfor %}");
    assert_eq!(space.run(&["table", "p.yaml", "--template", "mine.j2"]).ok(), "fedavg;ditto;\n");
    space.write("bad.j2", "\n{{ tabls }}");
    space.run(&["table", "p.yaml", "--template", "bad.j2"]).fails(2, &["the template cannot be used", "bad.j2:2"]);
    space.run(&["table", "p.yaml", "--template", "none.j2"]).fails(4, &["there is no file `none.j2`", "give the path of a template"]);
}

#[test]
fn a_copy_of_a_built_in_template_gives_the_same() {
    let space = Space::new();
    let wide = "wide: {rows: algorithm, columns: seed, value: [run.test_accuracy.best, run.train_loss.last], headings: family, \
                ranks: true, statistics: {test: sign, against: fedavg}, compare: pfllib-table2}";
    space.changed("p.yaml", TABLE, &format!("{TABLE}\n  {wide}"));
    space.run(&["run", "p.yaml", "-q"]).ok();
    let builtin = |path: &str| format!("{}/templates/{path}", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["tables", "report", "pipelines"] {
        for file in fs::read_dir(builtin(folder)).expect("a folder") {
            let file = file.expect("readable").file_name().to_string_lossy().into_owned();
            let Some(name) = file.strip_suffix(".j2") else { continue };
            // Who has only the program prints it.
            let printed = space.run(&["templates", name.split('.').next().expect("a name")]).ok();
            assert_eq!(printed, fs::read_to_string(builtin(&format!("{folder}/{file}"))).expect("readable"), "{file}");
            space.write("copy.j2", &printed);
            let (own, copy) = match folder {
                "tables" => {
                    let format = name.split('.').next().expect("a name");
                    let table = |option: &str, value: &str| space.run(&["table", "p.yaml", option, value]).ok();
                    (table("--format", format), table("--template", "copy.j2"))
                }
                "report" => {
                    space.run(&["report", "p.yaml", "-o", "own.html"]).ok();
                    space.run(&["report", "p.yaml", "-o", "copy.html", "--template", "copy.j2"]).ok();
                    let read = |name: &str| fs::read_to_string(space.path(name)).expect("a file");
                    (read("own.html"), read("copy.html"))
                }
                _ => {
                    let name = name.strip_suffix(".yaml").expect("a pipeline");
                    space.run(&["new", "own.yaml", "--replace", "--template", name]).ok();
                    space.run(&["new", "copy.yaml", "--replace", "--template", "copy.j2"]).ok();
                    let read = |name: &str| fs::read_to_string(space.path(name)).expect("a file");
                    (read("own.yaml"), read("copy.yaml"))
                }
            };
            assert!(own.len() > 500, "{own}");
            assert_eq!(own, copy, "{file}");
            seen += 1;
        }
    }
    assert_eq!(seen, 5, "every template");
    let listed = space.run(&["templates", "--output", "json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(5), "{listed}");
}

#[test]
fn variance_is_split_by_seeds_that_are_swept_apart() {
    let space = Space::new();
    let text = SMALL
        .replace("seed: {range: [0, 2]}", "part: [1, 2]\n    init: [0, 1]\n    batch: [0, 1]")
        .replace("seed: \"{{ seed + 1 }}\"", "seed: \"{{ part }}\"")
        .replace("hidden: [8], seed: \"{{ seed }}\"", "hidden: [8], seed: \"{{ init }}\"")
        .replace("seed: \"{{ seed }}\"}}", "seed: \"{{ batch }}\"}}")
        .replace(TABLE, "{rows: algorithm, value: run.test_accuracy.last, over: [part, init, batch], statistics: sign}");
    space.write("p.yaml", &text);
    let text = space.run(&["run", "p.yaml", "-q"]).ok();
    assert!(text.contains("Variance by its sources") && text.contains("8 values of part, init, batch"), "{text}");
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let sources = &json[0]["statistics"]["values"][0]["sources"];
    let factors: Vec<&Value> = sources[0]["components"].as_array().expect("components").iter().map(|c| &c["factor"]).collect();
    assert_eq!(factors, [&json!("part"), &json!("init"), &json!("batch"), &json!("rest")]);
}

/// Four algorithms over two degrees of skew, so that there is something of every kind to draw.
fn swept() -> Space {
    let space = Space::new();
    let text = SMALL
        .replace("algorithm: [fedavg, ditto]", "algorithm: [fedavg, ditto, fedprox, local]\n    alpha: [0.1, 1.0]")
        .replace("alpha: 0.5,", "alpha: \"{{ alpha }}\",")
        .replace(
            TABLE,
            "{title: Best test accuracy, rows: algorithm, columns: alpha, value: run.test_accuracy.best, over: seed, statistics: sign}",
        );
    space.write("p.yaml", &text);
    space.run(&["run", "p.yaml", "-q"]).ok();
    space
}

#[test]
fn every_kind_of_plot_is_drawn() {
    let space = swept();
    let listed = space.run(&["plot", "p.yaml", "-o", "plots"]).ok();
    for name in [
        "curves-accuracy-0.1",
        "curves-accuracy-1.0",
        "clients-accuracy-0.1",
        "cost-floats-accuracy-0.1",
        "cost-gradients-accuracy-1.0",
        "sweep-accuracy",
        "critical-accuracy",
    ] {
        assert!(listed.contains(&format!("plots/{name}.svg")), "`{name}` is not in\n{listed}");
        let text = fs::read_to_string(space.path(&format!("plots/{name}.svg"))).expect("a file");
        assert!(text.starts_with("<?xml") && text.trim_end().ends_with("</svg>") && !text.contains("NaN"), "{name}");
    }
    assert_eq!(listed.matches("plots/partition-split-alpha-").count(), 2, "one for each alpha, of the first seed: {listed}");
    for kind in ["features", "tsne"] {
        // No more than six, each training once whatever its seed.
        assert_eq!(listed.matches(&format!("plots/{kind}-run-")).count(), 6, "{listed}");
    }
    // One drawing goes to standard output or into a file.
    let svg = space.run(&["plot", "p.yaml", "--kind", "curves", "--column", "0.1"]).ok();
    assert!(svg.contains("class=\"curve s3\"") && svg.contains("class=\"band s0\""), "four named curves with bands");
    space.run(&["plot", "p.yaml", "--kind", "sweep", "-o", "one.svg"]).ok();
    assert!(space.path("one.svg").is_file());
    space.run(&["plot", "p.yaml", "--kind", "curves", "-o", "one.svg"]).fails(2, &["2 drawings do not fit into one file"]);
    space.run(&["plot", "p.yaml", "--kind", "curve"]).fails(2, &["curves"]);
    space.run(&["plot", "p.yaml", "--name", "nothing"]).fails(2, &["its tables are `accuracy`"]);
    space.run(&["plot", "small.yaml", "--kind", "critical", "--set", "rounds=1"]).fails(2, &["there is nothing to draw"]);
}

#[test]
fn a_report_is_one_page_with_everything_in_it() {
    let space = swept();
    let said = space.run(&["report", "p.yaml", "-o", "report.html", "--set", "rounds=2"]).ok();
    assert!(said.starts_with("wrote report.html: 1 table, "), "{said}");
    let page = fs::read_to_string(space.path("report.html")).expect("a file");
    for part in [
        "<title>small</title>",
        "pflpipe run p.yaml --set rounds=2",
        "id=\"table-accuracy\"",
        "data-family=\"traditional\"",
        "class=\"filter\"",
        "id=\"figure-critical-accuracy\"",
        "id=\"figure-partition-split-alpha-0.1--seed-0\"",
        "sign test, paired by seed",
        "2 values of seed cannot show a difference at 0.05",
        "dataset: {name: optdigits, limit: 600}",
        "run[algorithm=ditto, alpha=0.1, seed=0]",
    ] {
        assert!(page.contains(part), "`{part}` is not in the page");
    }
    for external in ["http://", "https://", " src=", "@import", "url("] {
        assert!(!page.contains(external), "`{external}` would load something");
    }
    // Equal results give equal pages; a run gives its own.
    space.run(&["report", "p.yaml", "-o", "again.html", "--set", "rounds=2", "-q"]).ok();
    assert_eq!(fs::read_to_string(space.path("again.html")).expect("a file"), page);
    let run = space.run(&["runs", "--output", "quiet"]).ok();
    space.run(&["report", run.trim(), "-o", "run.html"]).ok();
    space.write("mine.j2", "{{ title }}: {{ sections | length }}");
    space.run(&["report", "p.yaml", "-o", "mine.txt", "--template", "mine.j2"]).ok();
    assert_eq!(fs::read_to_string(space.path("mine.txt")).expect("a file"), "small: 1\n");
    space.run(&["report", "p.yaml", "-o", "no/such/folder.html"]).fails(4, &["there is no folder `no/such`"]);
}

#[test]
fn a_stage_that_timed_out_has_failed_wherever_it_is_shown() {
    let space = Space::new();
    space.changed("p.yaml", "rounds: 2", "rounds: 1000000");
    let text = fs::read_to_string(space.path("p.yaml")).expect("there");
    space.write("p.yaml", &text.replace("seed: \"{{ seed }}\"}}\ntables", "seed: \"{{ seed }}\"}, timeout: 1}\ntables"));
    let done = space.run(&["run", "p.yaml", "-k", "--where", "seed == 0"]);
    assert_eq!(done.code, 1, "{done:?}");
    let table = space.run(&["table", "p.yaml", "--where", "seed == 0"]).ok();
    assert_eq!(done.out, table);
    assert!(table.matches("failed").count() >= 2 && !table.contains("missing"), "{table}");
}

#[test]
fn a_training_without_a_step_says_so() {
    let space = Space::new();
    space.changed("p.yaml", "learning_rate: 0.05", "learning_rate: 0.05, batch_size: 100000");
    let done = space.run(&["run", "p.yaml"]);
    assert!(done.out.contains("no client ever took a training step"), "{done:?}");
    // What stages warn of is told once for all of them, also when they are cached, and counted.
    let told = "8 warnings of stage `run` in 4 of its instances:\n  run[algorithm=";
    let again = space.run(&["run", "p.yaml"]);
    for text in [&done.err, &again.err, &space.run(&["status"]).ok(), &space.run(&["status", "p.yaml"]).ok()] {
        assert!(text.contains(told) && text.matches("no client ever took").count() == 1, "{text}");
    }
    assert!(again.err.contains("0 executed") && !space.run(&["run", "p.yaml", "-q"]).err.contains("warning"));
    assert_eq!(space.run(&["status", "--output", "json"]).json()["warnings"]["run"]["warnings"], 8);
    space.run(&["report", "p.yaml", "-o", "r.html"]).ok();
    let page = fs::read_to_string(space.path("r.html")).expect("a file");
    assert!(page.contains("<li>run.test_accuracy.best: no client ever took") && page.contains(" and 3 more: no client ever took"));
    let log = space.run(&["logs", "p.yaml", "run[algorithm=ditto, seed=0]"]);
    let log = if log.code == 0 { log } else { space.run(&["logs", "run[algorithm=ditto, seed=0]"]) };
    assert!(log.ok().contains("no client ever took a training step"));
    space.changed("q.yaml", "fedavg, ditto", "fedproto");
    let text =
        fs::read_to_string(space.path("q.yaml")).expect("a file").replace("learning_rate: 0.05", "learning_rate: 0.05, batch_size: 100000");
    space.write("q.yaml", &text);
    let text = space.run(&["run", "q.yaml"]).ok();
    assert!(text.contains("so that the method has no answer to be tested") && !text.contains("has a test sample"), "{text}");
}

#[test]
fn a_report_of_unfinished_results_says_so() {
    let space = Space::new();
    space.run(&["run", "small.yaml", "--where", "algorithm == \"fedavg\"", "-q"]).ok();
    space.run(&["report", "small.yaml", "-o", "r.html"]).ok();
    let page = fs::read_to_string(space.path("r.html")).expect("a file");
    assert!(page.contains("2 of 4 samples missing") && page.contains("no result"), "partial tables are whole pages");
}

#[test]
fn two_runs_are_compared_by_inputs_and_results() {
    let space = Space::new();
    let newest = || space.run(&["runs", "--output", "quiet", "-n", "1"]).ok().trim().to_owned();
    space.run(&["run", "small.yaml", "-q"]).ok();
    let first = newest();
    space.changed("small.yaml", "hidden: [8]", "hidden: [9]");
    space.run(&["run", "small.yaml", "-q", "--where", "algorithm == \"ditto\""]).ok();
    let second = newest();
    assert_ne!(first, second);
    let text = space.run(&["runs", "diff", &first, &second]).ok();
    for part in [
        "- ",
        "hidden: [8]",
        "+ ",
        "--where",
        "Stages: 3 with equal keys, 4 with others, 2 only in A, 0 only in B",
        "net[seed=0] and 1 other stage: hidden: [8] -> [9]",
        "Results: 0 cells the same, 2 not",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let json = space.run(&["runs", "diff", &first, &second, "--output", "json"]).json();
    let changed = json["results"]["changed"].as_array().expect("cells");
    assert_eq!(changed.len(), 2);
    assert!(changed[1]["after"].is_null() || changed[0]["after"].is_null(), "fedavg is only in the first");
    assert!(space.run(&["runs", "diff", &first, &first]).ok().contains("Results: all 2 cells are the same"));
    space.run(&["runs", "diff", &first, "nothing"]).fails(2, &["is neither a file nor a run"]);
}

#[test]
fn a_run_is_watched_until_it_ends() {
    let space = Space::new();
    let mut child =
        space.program(&["run", "small.yaml", "-q", "--set", "rounds=60"]).stdout(std::process::Stdio::null()).spawn().expect("it starts");
    let begun = std::time::Instant::now();
    while space.run(&["runs", "--output", "quiet"]).out.trim().is_empty() {
        assert!(begun.elapsed().as_secs() < 60, "the run does not begin");
    }
    let text = space.run(&["watch", "--interval", "0.05", "--tables"]).ok();
    assert!(child.wait().expect("it ends").success());
    let last = text.rsplit("\nrun ").next().unwrap_or_default();
    assert!(last.contains("of small: done after") && last.contains("9 of 9 stages: 9 done"), "{text}");
    assert!(last.contains("Best test accuracy"), "{text}");
    let json = space.run(&["watch", "--once", "--output", "json"]).json();
    assert_eq!(json["counts"]["done"], 9);
    assert_eq!(json["stages"].as_array().map(Vec::len), Some(9));
    assert_eq!(space.run(&["watch", "small.yaml"]).ok().lines().next(), last.lines().next().map(|line| format!("run {line}")).as_deref());
    space.write("other.yaml", SMALL);
    space.run(&["watch", "other.yaml"]).fails(4, &["`other.yaml` was never run"]);
}

#[test]
fn a_log_is_followed_to_its_end() {
    let space = Space::new();
    space.run(&["run", "small.yaml", "-q"]).ok();
    let stage = "run[algorithm=ditto, seed=0]";
    let whole = space.run(&["logs", stage]).ok();
    assert!(!whole.is_empty());
    assert_eq!(space.run(&["logs", "-f", stage]).ok(), whole, "a stage that has ended is not waited for");
    // A run of another process: what it writes comes as it is written.
    let mut child =
        space.program(&["run", "small.yaml", "-q", "--set", "rounds=80"]).stdout(std::process::Stdio::null()).spawn().expect("it starts");
    let begun = std::time::Instant::now();
    while space.run(&["runs", "--output", "quiet"]).out.lines().count() < 2 {
        assert!(begun.elapsed().as_secs() < 60, "the run does not begin");
    }
    let followed = space.run(&["logs", "-f", stage]);
    assert!(child.wait().expect("it ends").success());
    assert!(!followed.ok().is_empty());
}

#[test]
fn pfllibs_result_files_are_read_back_by_h5py() {
    let space = Space::new();
    space.run(&["run", "small.yaml", "-q"]).ok();
    let listed = space.run(&["table", "small.yaml", "--pfllib", "h5"]).ok();
    let names: Vec<String> =
        space.files("h5").iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned()).collect();
    let want = ["Ditto_test_0", "Ditto_test_1", "FedAvg_test_0", "FedAvg_test_1"].map(|end| format!("optdigits--first-600_{end}.h5"));
    assert_eq!(names, want, "{listed}");
    let read = "import h5py, sys\nf = h5py.File(sys.argv[1], 'r')\nprint(sorted(f), f['rs_test_acc'].shape, repr(float(max(f['rs_test_acc'][()]))))";
    let output = std::process::Command::new("python3")
        .args(["-c", read, "h5/optdigits--first-600_Ditto_test_0.h5"])
        .current_dir(space.path("."))
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: there is no Python with h5py");
        return;
    };
    let json = space.run(&["table", "small.yaml", "--output", "json"]).json();
    let best =
        json[0]["cells"].as_array().expect("cells").iter().find(|c| c["row"] == "ditto").expect("ditto")["samples"][0]["value"].to_string();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.trim(), format!("['rs_test_acc', 'rs_test_auc', 'rs_train_loss'] (3,) {best}"));
}

#[test]
fn pandas_reads_the_exports_in_one_line() {
    let space = ran(TABLE);
    space.write("long.csv", &space.run(&["table", "p.yaml", "--format", "long"]).ok());
    space.write("series.csv", &space.run(&["table", "p.yaml", "--format", "series"]).ok());
    let read = "import pandas\nlong = pandas.read_csv('long.csv')\nseries = pandas.read_csv('series.csv')\n\
                print(len(long), len(series), repr(float(long[long.row == 'ditto'].measured.mean())))";
    let output = std::process::Command::new("python3").args(["-c", read]).current_dir(space.path(".")).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: there is no Python with pandas");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let ditto = json[0]["cells"].as_array().expect("cells").iter().find(|c| c["row"] == "ditto").expect("ditto")["mean"].as_f64();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words[..2], ["4", "12"]);
    assert!((words[2].parse::<f64>().expect("a number") - ditto.expect("a mean")).abs() < 1e-12, "{said}");
}

#[test]
fn latex_compiles_as_it_is() {
    let space = swept();
    let table = space.run(&["table", "p.yaml", "--format", "latex", "--ranks", "--families", "--compare", "pfllib-table2"]).ok();
    let text = format!("\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{table}\\end{{document}}\n");
    space.write("t.tex", &text);
    let mut latex = std::process::Command::new("pdflatex");
    let Ok(output) = latex.args(["-interaction=nonstopmode", "-halt-on-error", "t.tex"]).current_dir(space.path(".")).output() else {
        eprintln!("skipped: there is no pdflatex");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn validation_chooses_the_evaluation_and_needs_samples() {
    let space = Space::new();
    let table = "{rows: algorithm, values: [run.test_accuracy.at_best(validation_accuracy), run.validation_accuracy.best, run.test_accuracy.best], over: seed}";
    let text = SMALL.replace(TABLE, table);
    space.write("p.yaml", &text);
    space.run(&["run", "p.yaml"]).fails(3, &["by stage `run`: it puts no samples aside", "`validation_ratio`"]);
    assert!(!space.path("cache/rec").exists(), "nothing ran");
    space.run(&["run", "p.yaml", "-q", "--set", "run.validation_ratio=0.2"]).ok();
    let json = space.run(&["table", "p.yaml", "--set", "run.validation_ratio=0.2", "--output", "json"]).json();
    let values: Vec<Vec<f64>> = json[0]["cells"]
        .as_array()
        .expect("cells")
        .chunks(3)
        .map(|row| row.iter().map(|cell| cell["samples"][0]["value"].as_f64().expect("a number")).collect())
        .collect();
    assert_eq!(values.len(), 2);
    assert!(values.iter().all(|row| row[0] <= row[2] && row[1] > 0.0), "{values:?}");
    // A ratio of 0 is how it was before there was one.
    space.run(&["run", "small.yaml", "-q"]).ok();
    assert_eq!(space.run(&["plan", "small.yaml", "--exit-code", "--set", "run.validation_ratio=0"]).code, 0);
    assert_eq!(space.run(&["plan", "small.yaml", "--exit-code", "--set", "run.validation_ratio=0.1"]).code, 10);
}

#[test]
fn times_are_those_of_the_records_and_stand_beside_the_published_ones() {
    let space = Space::new();
    let settings = "settings: {fedavg: \"Tiny-ImageNet, ResNet-18, dirichlet beta=0.1, N=20\"}";
    let table = format!(
        "{{rows: algorithm, values: [run.seconds_per_round.last, run.seconds.last, run.rounds.last], over: seed, compare: {{table: pfllib-time-cost, {settings}}}}}"
    );
    space.changed("p.yaml", TABLE, &table);
    space.run(&["run", "p.yaml", "-q"]).ok();
    let json = space.run(&["table", "p.yaml", "--output", "json"]).json();
    let cells = json[0]["cells"].as_array().expect("cells");
    let value = |at: usize| cells[at]["samples"][0]["value"].as_f64().expect("a number");
    let (pace, all, rounds) = (value(0), value(1), value(2));
    assert!(pace > 0.0 && (all - 2.0 * pace).abs() < 1e-12 && rounds == 2.0, "{pace} {all} {rounds}");
    let text = space.run(&["table", "p.yaml"]).ok();
    // 1.59 minutes and 365 minutes in seconds, 230 rounds.
    assert!(text.contains("95.4") && text.contains("21900") && text.contains("230") && text.contains("authors' GPU"), "{text}");
    // Of a continued training only the new rounds are counted.
    space.run(&["run", "p.yaml", "-q", "--set", "rounds=4"]).ok();
    let longer = space.run(&["table", "p.yaml", "--set", "rounds=4", "--output", "json"]).json();
    assert_eq!(longer[0]["cells"][2]["samples"][0]["value"], json!(4.0));
    let record = space
        .files("cache/rec")
        .into_iter()
        .map(|path| fs::read_to_string(path).expect("a record"))
        .find(|text| text.contains("\"extent\":4"));
    assert!(record.expect("the longer one").contains("\"begun_at\":2"));
}

#[test]
fn a_row_that_is_not_there_is_no_mistake_of_who_narrows_the_sweep() {
    let space = ran("{rows: algorithm, value: run.test_accuracy.best, over: seed, statistics: {against: fedavg}}");
    let text = space.run(&["table", "p.yaml", "--where", "algorithm == \"ditto\""]).ok();
    assert!(text.contains("there is no row `fedavg` to compare with"), "{text}");
}
