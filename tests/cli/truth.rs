//! What is said of numbers holds for each of them, and what is written replaces nothing that is read.

use crate::space::Space;
use std::fs;

const TABLE: &str = "{title: Best test accuracy, rows: algorithm, value: run.test_accuracy.best, over: seed}";

#[test]
fn what_is_read_is_never_written_over() {
    let space = Space::new();
    space.changed("base.yaml", "name: small", "name: base");
    space.write("p.yaml", "extends: base.yaml\nname: p\n");
    space.run(&["run", "p.yaml", "-q"]).ok();
    let kept = || ["p.yaml", "base.yaml"].map(|name| fs::read_to_string(space.path(name)).expect("a file"));
    let before = kept();
    fs::copy(space.path("p.yaml"), space.path("p.svg")).expect("writable");
    fs::copy(space.path("p.yaml"), space.path("p.html")).expect("writable");
    for args in [
        &["table", "p.yaml", "-o", "p.yaml"][..],
        &["table", "p.yaml", "-o", "base.yaml"],
        &["table", "p.yaml", "-o", "./results/../p.yaml"],
        &["report", "p.html", "-o", "p.html"],
        &["plot", "p.svg", "-o", "p.svg", "--kind", "curves"],
        &["partition", "show", "p.yaml", "split[seed=0]", "--svg", "p.yaml"],
        &["partition", "export", "p.yaml", "split[seed=0]", "-o", "base.yaml"],
        &["run", "p.yaml", "--trace", "p.yaml"],
        &["table", "p.yaml", "--template", "p.html", "-o", "p.html"],
    ] {
        fs::create_dir_all(space.path("results")).expect("writable");
        space.run(args).fails(2, &["would be written over", "give another file to write"]);
    }
    assert_eq!(kept(), before);
    assert_eq!(fs::read_to_string(space.path("p.svg")).expect("a file"), before[0]);
    // What an earlier command wrote may be written again.
    for _ in 0..2 {
        space.run(&["table", "p.yaml", "-o", "t.txt"]).ok();
    }
}

#[test]
fn what_is_under_privacy_and_what_is_not_is_said_of_each_number() {
    let space = Space::new();
    space.write(
        "p.yaml",
        r#"name: p
sweep: {grid: {how: [none, dp]}}
vars: {privacy: {none: none, dp: {kind: dp-sgd, clip: 1, noise_multiplier: 1, delta: 1e-3}}}
stages:
  data: {dataset: {name: optdigits, limit: 600}}
  split: {partition: {data: data, kind: iid, clients: 5}}
  net: {model: {kind: mlp, data: data, hidden: [8]}}
  run: {train: {algorithm: fedavg, partition: split, model: net, rounds: 2, new_clients: 1, fine_tuning_epochs: 1, privacy: "{{ privacy[how] }}"}}
  babu: {train: {algorithm: fedbabu, partition: split, model: net, rounds: 2, privacy: "{{ privacy[how] }}"}}
  mia: {attack: {kind: membership, of: run}}
tables:
  mixed: {value: run.test_accuracy.last, over: how}
  each: {rows: how, value: [run.test_accuracy.last, run.new_clients:test_accuracy.last]}
  attack: {rows: how, value: mia.auc}
  tuned: {rows: how, value: [babu.test_accuracy.last, babu.test_accuracy.at_round(1), babu.gradient_evaluations.last]}
"#,
    );
    space.run(&["run", "p.yaml", "-q"]).ok();
    // The lines of a table's sheet: row, column, and whether an epsilon stands there.
    let lines = |name: &str| -> Vec<String> {
        let text = space.run(&["table", "p.yaml", "--name", name]).ok();
        assert!(!text.contains("every number is under"), "{text}");
        let sheet = text.split("Differential privacy").nth(1).unwrap_or_else(|| panic!("no sheet in\n{text}"));
        sheet.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let has = |lines: &[String], start: &str, end: &str| {
        assert!(lines.iter().any(|line| line.starts_with(start) && line.ends_with(end)), "{start} ... {end} in {lines:#?}");
    };
    has(&lines("mixed"), "all ", "for 1 of 2 values) 1e-3");
    let each = lines("each");
    has(&each, "dp test_accuracy.last ", " 1e-3");
    has(&each, "dp new_clients:test_accuracy.last none", "none");
    let attack = lines("attack");
    has(&attack, "none auc.mean none", "none");
    has(&attack, "dp auc.mean ", " 1e-3");
    has(&attack, "- for an attack", "is attacked");
    let tuned = lines("tuned");
    has(&tuned, "dp test_accuracy.last none", "none");
    has(&tuned, "dp test_accuracy.at_round(1) ", " 1e-3");
    has(&tuned, "dp gradient_evaluations.last ", " 1e-3");
}

#[test]
fn outputs_that_cannot_be_are_refused_plainly() {
    let space = Space::new();
    space.changed("p.yaml", "name: small", "name: small");
    space.run(&["run", "p.yaml", "-q"]).ok();
    space.run(&["report", "p.yaml", "-o", "r.pdf"]).fails(2, &["a report is HTML, and `r.pdf` ends in `.pdf`", "`r.html`"]);
    assert!(!space.path("r.pdf").exists());
    for args in [
        &["report", "p.yaml", "-o", "none/r.html"][..],
        &["table", "p.yaml", "-o", "none/t.txt"],
        &["plot", "p.yaml", "--kind", "curves", "--column", "test_accuracy.best", "-o", "none/p.svg"],
    ] {
        let done = space.run(args);
        done.fails(4, &["there is no folder `none`", "make it first"]);
        assert!(!done.err.contains("tmp") && !done.err.contains(".pflpipe-"), "{}", done.err);
    }
}

#[test]
fn margins_and_selectors_are_not_what_they_seem() {
    let space = Space::new();
    space.changed(
        "p.yaml",
        TABLE,
        "{rows: algorithm, value: run.test_accuracy.best, over: seed, compare: {table: pfllib-table2, margin: 2}}",
    );
    let done = space.run(&["check", "p.yaml"]);
    assert!(done.code == 0 && done.err.contains("200 points of accuracy") && done.err.contains("0.02 for 2 points"), "{}", done.err);
    for (selector, said) in
        [("mean_last(0)", "a whole number of at least 1, found `0`"), ("at_best(test_acc)", "takes a metric, and `test_acc` is none")]
    {
        space.changed("p.yaml", TABLE, &format!("{{rows: algorithm, value: run.test_accuracy.{selector}, over: seed}}"));
        space.run(&["check", "p.yaml"]).fails(3, &[said]);
    }
    space.changed("p.yaml", TABLE, "{rows: [algorithm, seed], value: run.test_accuracy.last, statistics: wilcoxon}");
    space.run(&["run", "p.yaml", "-q"]).ok();
    let text = space.run(&["table", "p.yaml"]).ok();
    assert!(!text.contains("paired by ,") && text.contains("has no `over` to repeat by"), "{text}");
}

#[test]
fn attacks_run_on_the_cpu_whatever_their_stage_says() {
    let space = Space::new();
    space.changed("p.yaml", "tables:", "  mia: {attack: {kind: membership, of: run}, device: \"cuda:0\"}\ntables:");
    let done = space.run(&["check", "p.yaml"]);
    assert!(done.code == 0 && done.err.contains("`device` of stage `mia` has no effect"), "{done:?}");
    space.run(&["run", "p.yaml", "-q"]).ok();
}

#[test]
fn marks_are_explained_where_there_are_some() {
    let space = Space::new();
    space.changed("p.yaml", TABLE, "{value: run.test_accuracy.best, over: [algorithm, seed]}");
    space.run(&["run", "p.yaml", "-q"]).ok();
    assert!(!space.run(&["table", "p.yaml", "--format", "html"]).ok().contains("<b>best</b>"));
    assert!(space.run(&["table", "small.yaml", "--format", "html"]).ok().contains("<b>best</b>, <u>second</u> of a column"));
}
