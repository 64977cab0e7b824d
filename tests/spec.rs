//! Pipelines from text: what is accepted, what is refused and how the messages read.

mod fake;

use fake::{Fake, TABLE2};
use pflpipe::base::FaultKind;
use pflpipe::spec::{Diagnostics, Overrides, Pipeline, load};
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

fn check_with(text: &str, overrides: &Overrides) -> Result<Pipeline, Diagnostics> {
    load(Path::new("p.yaml"), text, overrides, &Fake::new())
}

fn check(text: &str) -> Result<Pipeline, Diagnostics> {
    check_with(text, &Overrides::default())
}

/// `line:column code: message [help]` of each message.
fn lines(diagnostics: &Diagnostics) -> Vec<String> {
    let items = diagnostics.to_json();
    items
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| {
            let help = item["help"].as_str().map_or(String::new(), |help| format!(" [{help}]"));
            format!("{}:{} {}: {}{help}", item["line"], item["column"], item["code"].as_str().unwrap(), item["message"].as_str().unwrap())
        })
        .collect()
}

fn errors(text: &str) -> Vec<String> {
    match check(text) {
        Ok(pipeline) => panic!("accepted, with {:?}", lines(&pipeline.warnings)),
        Err(diagnostics) => {
            assert_eq!(diagnostics.kind().exit_code(), 3);
            lines(&diagnostics)
        }
    }
}

#[test]
fn the_documented_pipeline_is_accepted() {
    let pipeline = check(TABLE2).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(pipeline.cells.len(), 18);
    assert_eq!(pipeline.stages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["data", "split", "net", "run", "leak"]);
    let counts: Vec<usize> = pipeline.stages.iter().map(|s| s.instances.len()).collect();
    assert_eq!(counts, [1, 6, 3, 9, 1]);
    let split = pipeline.stages[1].instances[0].params.to_map();
    assert_eq!(json!(split), json!({"kind": "dirichlet", "alpha": 0.1, "clients": 20, "seed": 0}));
}

/// The documented pipeline with some parts replaced.
fn table2(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(TABLE2.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "`{from}` is not in the pipeline");
        text.replacen(from, to, 1)
    })
}

fn overrides(set: &[&str], sweep: &[&str], filter: &[&str]) -> Overrides {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Overrides::parse(&own(set), &own(sweep), &own(filter)).expect("well formed")
}

fn labels(pipeline: &Pipeline) -> Vec<String> {
    (0..pipeline.cells.len())
        .map(|cell| {
            let coords = pipeline.coords(cell, 0..pipeline.axes.len());
            coords.iter().map(|(axis, value)| format!("{axis}={}", pflpipe::spec::node::short(value))).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// A sweep over the parameters of a synthetic data set, which is enough to see its cells.
fn cells(sweep: &str) -> Result<Vec<String>, Vec<String>> {
    let axes = ["a", "b", "c"].iter().filter(|axis| sweep.contains(&format!("{axis}:"))).copied();
    let sum: Vec<String> = axes.map(|axis| format!("(1 if {axis} is defined else 0)")).collect();
    let text = format!("sweep:\n{sweep}\nstages:\n  d: {{dataset: {{name: synthetic, samples: \"{{{{ 1 + {} }}}}\"}}}}\n", sum.join(" + "));
    let pipeline = check(&text).map_err(|e| lines(&e))?;
    Ok(labels(&pipeline).into_iter().chain(lines(&pipeline.warnings)).collect())
}

#[test]
fn a_misspelt_key_is_one_error_with_the_nearest_name() {
    assert_eq!(
        errors(&table2(&[("alpha: \"{{", "alhpa: \"{{")])),
        ["7:52 unknown-key: unknown parameter `alhpa` of `dirichlet` [did you mean `alpha`?]"]
    );
    assert_eq!(errors(&table2(&[("name: table2", "nmae: table2")])), ["1:1 unknown-key: unknown key `nmae` [did you mean `name`?]"]);
    assert_eq!(
        errors(&table2(&[("{kind: dlg, of: run}}", "{kind: dlg, of: run}, timout: 3}")])),
        ["10:44 unknown-key: unknown key `timout` in stage `leak` [did you mean `timeout`?]"]
    );
}

#[test]
fn all_errors_come_at_once_in_file_order_with_lines_and_carets() {
    let text = table2(&[("[0.1, 0.5]", "[0.1, -1]"), ("data: data, kind: dirichlet", "data: dta, kind: dirchlet"), ("of: run", "of: net")]);
    insta_like(
        &check(&text).expect_err("wrong").render(false),
        r#"
error: stage `split` needs `dta`, which is not a stage
 --> p.yaml:7:29
  |
7 |   split: {partition: {data: dta, kind: dirchlet, alpha: "{{ alpha }}", clients: "{{ clients }}", seed: "{{ seed }}"}}
  |                             ^^^
  |
  = help: did you mean `data`?

error: there is no `kind` of the name `dirchlet`
 --> p.yaml:7:40
  |
7 |   split: {partition: {data: dta, kind: dirchlet, alpha: "{{ alpha }}", clients: "{{ clients }}", seed: "{{ seed }}"}}
  |                                        ^^^^^^^^
  |
  = help: did you mean `dirichlet`?

error: `of` of stage `leak` needs a stage of kind `train`, but `net` is of kind `model`
  --> p.yaml:10:38
   |
10 |   leak:  {attack:    {kind: dlg, of: net}}
   |                                      ^^^
   |
   = help: choose from `run`
"#,
    );
    let fault: pflpipe::base::Fault = check(&text).expect_err("wrong").into();
    assert_eq!(fault.kind, FaultKind::Pipeline);
    assert_eq!(fault.to_string(), "p.yaml:7:29: stage `split` needs `dta`, which is not a stage (and 2 more errors)");
}

fn insta_like(found: &str, expected: &str) {
    assert_eq!(found.trim(), expected.trim(), "\n{found}");
}

#[test]
fn values_are_checked_where_they_are_written() {
    assert_eq!(
        errors(&table2(&[("[0.1, 0.5]", "[0.1, -1, x]"), ("clients: 20", "clients: 0")])),
        [
            "2:31 range: `clients` of stage `split` must be an integer from 1 to 100000, found 0",
            "4:57 range: `alpha` of stage `split` must be a number above 0, found -1",
            "4:61 type: `alpha` of stage `split` must be a number above 0, found text `x`",
        ]
    );
    let params = r#"rounds: "10", lr: [1], drop_last: yes, evaluate: ful, note: 5, join_ratio: 1.5, batch_size: 010"#;
    let found = errors(&table2(&[("vars: {rounds: 2000, ", "vars: {"), ("rounds: \"{{ rounds }}\"", params)]));
    assert_eq!(
        found.iter().map(|line| line.split_once(' ').expect("position").1).collect::<Vec<_>>(),
        [
            "type: `rounds` of stage `run` must be an integer of at least 1, found text `10` [remove the quotes]",
            "type: `lr` of stage `run` must be a number above 0, found a list",
            "type: `drop_last` of stage `run` must be `true` or `false`, found text `yes` [write `true`]",
            "choice: `evaluate` of stage `run` must be one of `running`, `full`, found text `ful` [did you mean `full`?]",
            "type: `note` of stage `run` must be text, found the number 5 [quote it: \"5\"]",
            "range: `join_ratio` of stage `run` must be a number from 0 to 1, found 1.5",
            "type: `batch_size` of stage `run` must be an integer of at least 1, found text `010` [remove the leading zeros]",
        ]
    );
    // Of a value that an expression works out, the cell is told.
    let text = check(&table2(&[("\"{{ alpha }}\"", "\"{{ alpha - 0.2 }}\"")])).expect_err("wrong").render(false);
    assert!(text.contains("found -0.1") && text.contains("^ in the cell alpha=0.1, seed=0"), "{text}");
}

#[test]
fn variants_know_their_own_parameters() {
    assert_eq!(
        errors(&table2(&[("[fedavg, ditto, gpfl]", "[{name: ditto, mu: -1}, {name: gpfl, mu: 2}, gpfll, {mu: 1}, 3]")])),
        [
            "4:40 range: `algorithm.mu` of stage `run` must be a number of at least 0, found -1",
            "4:58 other-variant: `algorithm.mu` is not a parameter of `gpfl` [`ditto` has it]",
            "4:66 unknown-variant: there is no `algorithm` of the name `gpfll` [did you mean `gpfl`?]",
            "4:73 missing: `algorithm.name` of stage `run` is missing [choose from `fedavg`, `ditto`, `gpfl`]",
            "4:82 type: `algorithm` of stage `run` must be a word or a map with `name`, found the number 3",
        ]
    );
}

#[test]
fn what_is_missing_is_named_with_its_meaning() {
    assert_eq!(
        errors("stages:\n  d: {dataset: {name: synthetic}}\n  e: {dataset: {}}\n  f: {dataset: {name: synthetic, samples: }}\n"),
        [
            "2:16 missing: `samples` of stage `d` is missing [it must be an integer of at least 1: Samples.]",
            "3:16 missing: `name` of stage `e` is missing [choose from `fashion-mnist`, `cifar10`, `synthetic`]",
            "4:34 no-value: `samples` of stage `f` has no value [remove the line if the default is meant]",
        ]
    );
}

#[test]
fn stages_must_have_one_kind_and_sound_options() {
    let text = "stages:\n  a: {dataset: {name: cifar10}, model: {}}\n  b: {timeout: 3}\n  c: 3\n  d: {trian: {}}\n  e: {dataset: cifar10, timeout: soon, retries: -1, device: gpu}\n  f.g: {dataset: cifar10, seed: 3}\n";
    assert_eq!(
        errors(text),
        [
            "2:33 two-kinds: stage `a` has two kinds, `dataset` and `model` [make two stages of it]",
            "3:3 unknown-kind: stage `b` does not say its kind [choose from `dataset`, `partition`, `model`, `train`, `attack`, `compare`]",
            "4:6 type: stage `c` must be a map with its kind, found the number 3 [write `c: {KIND: {...}}` with one of `dataset`, `partition`, `model`, `train`, `attack`, `compare`]",
            "5:7 unknown-kind: `trian` of stage `d` is not a kind of stage [did you mean `train`?]",
            "6:34 type: `timeout` of stage `e` must be a duration, found text `soon` [write seconds as a number, or `90s`, `30min`, `2h`, `1h30min`, `1d`]",
            "6:49 type: `retries` of stage `e` must be an integer from 0 to 100, found the number -1 [0 means that a failure is final]",
            "6:61 type: `device` of stage `e` must be a device, found text `gpu` [write `cpu`, or `cuda:0` for the first GPU]",
            "7:3 name: `f.g` cannot be the name of a stage [names consist of letters, digits, `_` and `-`]",
            "7:27 unknown-key: unknown key `seed` in stage `f.g` [choose from `timeout`, `retries`, `device`]",
        ]
    );
    let pipeline = check("stages: {a: {dataset: cifar10, timeout: 1h30m, retries: 2, device: \"cuda:1\"}}").expect("sound");
    let options = &pipeline.stages[0].instances[0].options;
    assert_eq!((options.timeout.map(|t| t.as_secs()), options.retries, options.device.as_deref()), (Some(5400), 2, Some("cuda:1")));
}

#[test]
fn references_and_circles() {
    assert_eq!(
        errors(&table2(&[("partition: split", "partition: run"), ("model: net", "model: split")])),
        [
            "9:64 self-reference: stage `run` needs itself [choose from `split`]",
            "9:76 wrong-kind: `model` of stage `run` needs a stage of kind `model`, but `split` is of kind `partition` [choose from `net`]",
        ]
    );
    assert_eq!(
        errors("stages:\n  a: {compare: {runs: [c]}}\n  b: {compare: {runs: [a]}}\n  c: {compare: {runs: [b]}}\n"),
        ["3:24 cycle: stages need each other: a -> c -> b -> a [one of them must do without the other]"]
    );
    assert_eq!(
        errors(&table2(&[("clients: 20}", "clients: 20, x: \"{{ y }}\", y: \"{{ x + z }}\", z: 1}")])),
        ["2:35 cycle: variables refer to each other: x -> y -> x [give one of them a value of its own]"]
    );
}

#[test]
fn unused_axes_and_variables_are_errors() {
    assert_eq!(
        errors(&table2(&[("clients: 20}", "clients: 20, beta: 3}"), ("seed: [0, 1, 2]", "seed: [0, 1, 2], rate: [1, 2], lr: [0.1]")])),
        [
            "2:35 unused-variable: nothing reads the variable `beta` [use it by `\"{{ beta }}\"`, or remove it]",
            "4:80 unused-axis: no stage reads the axis `rate` [use it in a stage by `\"{{ rate }}\"`, or remove it]",
            "4:94 unused-axis: no stage reads the axis `lr` [write `lr: \"{{ lr }}\"` in the stage that it is for]",
        ]
    );
    assert_eq!(
        errors(&table2(&[("{{ rounds }}", "{{ ruonds }}")])),
        ["9:91 unknown-name: `ruonds` is neither a variable nor an axis [did you mean `rounds`? text needs quotes inside an expression]"]
    );
}

#[test]
fn names_that_expressions_cannot_use_are_refused() {
    assert_eq!(
        errors(
            "vars: {a-b: 1, not: 2, seed: 3}\nsweep: {grid: {seed: [1]}}\nstages: {a: {model: {kind: cnn, data: d, seed: \"{{ seed }}\"}}, d: {dataset: cifar10}}\n"
        ),
        [
            "1:8 name: `a-b` cannot be the name of a variable [names consist of letters, digits and `_`, and begin with a letter]",
            "1:16 name: `not` has a meaning in expressions and cannot name a variable",
            "2:16 name: `seed` is both a variable and an axis [rename or remove one of the two]",
        ]
    );
}

#[test]
fn yaml_itself_is_explained() {
    for (text, expected) in [
        ("", "1:1 top-level: the pipeline is empty [begin with `name:` and `stages:`, or let `pflpipe new` write a skeleton]"),
        (
            "- a",
            "1:1 top-level: a pipeline is a map, found a list [begin with `name:` and `stages:`, or let `pflpipe new` write a skeleton]",
        ),
        ("name: a\nstages:\n\ta: 1", "3:1 yaml-tab: a tab indents this line [YAML allows only spaces for indentation]"),
        (
            "a: &a {x: *a}",
            "1:4 yaml-depth: the maps and lists are nested too deeply [a pipeline needs fewer than ten levels, and no anchor may contain itself]",
        ),
        ("a: {{ x }}y\nb: 1", "1:11 unquoted-expression: an expression in braces is not quoted [quote the whole value: \"{{ ... }}\"]"),
        (
            "a: *b",
            "1:4 yaml-anchor: this refers to an anchor that is not defined above [define it with `&name`; if the text begins with `*`, quote it]",
        ),
        ("a: b: c", "1:5 yaml-syntax: `:` is not allowed here [check the indentation, or quote a text that contains `: `]"),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
    let duplicate = errors("name: a\nname: b\nstages: {a: {dataset: cifar10}}");
    assert_eq!(duplicate, ["2:1 duplicate-key: the key `name` is there twice [remove one of the two]"]);
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for i in 1..9 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(","));
    }
    assert!(errors(&bomb)[0].contains("yaml-aliases: the anchors repeat too much text"));
}

#[test]
fn unquoted_expressions_are_understood_where_they_are_unambiguous() {
    let quoted = check(TABLE2).expect("sound");
    let bare = check(&table2(&[("\"{{ alpha }}\"", "{{ alpha }}"), ("\"{{ rounds }}\"", "{{ rounds }}")])).expect("sound");
    for (a, b) in quoted.stages.iter().zip(&bare.stages) {
        assert_eq!(a.instances, b.instances);
    }
    let ambiguous = errors(&table2(&[("\"{{ alpha }}\"", "{{ alpha, 1 }}")]));
    assert!(ambiguous[0].contains("unquoted-expression") && ambiguous[0].contains("quote it"), "{ambiguous:?}");
}

#[test]
fn effective_parameters_have_the_types_of_the_schema() {
    let text = "stages:\n  d: {dataset: cifar10}\n  m: {model: {kind: mlp, data: d}}\n  p: {partition: {kind: dirichlet, data: d, alpha: 1}}\n  r: {train: {algorithm: ditto, partition: p, model: m, rounds: 1e3, lr: 1e-3}}\n";
    let pipeline = check(text).unwrap_or_else(|e| panic!("{e}"));
    let params = |name: &str| json!(pipeline.stages.iter().find(|s| s.name == name).expect("there").instances[0].params.to_map());
    assert_eq!(params("d"), json!({"name": "cifar10", "flip": false}));
    assert_eq!(params("m"), json!({"kind": "mlp", "hidden": [200, 100], "seed": 0}));
    assert_eq!(params("p"), json!({"kind": "dirichlet", "alpha": 1.0, "clients": 20, "seed": 0}));
    assert_eq!(
        params("r"),
        json!({"algorithm": {"name": "ditto", "mu": 0.1, "steps": 1}, "rounds": 1000, "batch_size": 10, "lr": 0.001,
               "evaluate": "running", "drop_last": true, "join_ratio": 1.0, "seed": 0})
    );
}

#[test]
fn defaults_by_kind_apply_where_they_fit() {
    let with = |defaults: &str| table2(&[("stages:", &format!("defaults: {defaults}\nstages:"))]);
    let pipeline = check(&with("{train: {batch_size: 32, rounds: 1}, partition: {classes_per_client: 3, clients: 7}}")).expect("sound");
    let run = pipeline.stages[3].instances[0].params.to_map();
    assert_eq!((&run["batch_size"], &run["rounds"]), (&json!(32), &json!(2000)));
    assert_eq!(pipeline.stages[1].instances[0].params.get("clients"), Some(&json!(20)));
    assert_eq!(
        errors(&with("{train: {batchsize: 3}, trian: {}, model: 3}")),
        [
            "5:20 unknown-key: unknown parameter `batchsize` of kind `train` [did you mean `batch_size`?]",
            "5:35 unknown-kind: `trian` is not a kind of stage [did you mean `train`?]",
            "5:53 type: the defaults of `model` must be a map, found the number 3",
        ]
    );
}

#[test]
fn variables_may_follow_from_others_and_from_axes() {
    let text = table2(&[("rounds: 2000", "base: 1000, rounds: \"{{ base * (2 if alpha > 0.3 else 1) }}\"")]);
    let pipeline = check(&text).unwrap_or_else(|e| panic!("{e}"));
    let run = pipeline.stages.iter().find(|s| s.name == "run").expect("there");
    assert_eq!(run.instances.len(), 18);
    assert_eq!(pipeline.coords(0, run.axes.iter().copied()).len(), 3);
    let rounds: std::collections::BTreeSet<_> = run.instances.iter().map(|i| i.params.get("rounds").expect("there").as_i64()).collect();
    assert_eq!(rounds, [Some(1000), Some(2000)].into());
}

#[test]
fn the_sweep_expands_in_its_documented_order() {
    assert_eq!(cells("  grid: {a: [1, 2], b: [x, y]}").expect("sound"), ["a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"]);
    assert_eq!(cells("  grid: {a: {range: [0, 3]}}").expect("sound"), ["a=0", "a=1", "a=2"]);
    assert_eq!(cells("  grid: {a: {range: [5, 0, -2]}}").expect("sound"), ["a=5", "a=3", "a=1"]);
    assert_eq!(
        cells("  grid: {c: [0, 1]}\n  zip: [{a: [1, 2], b: [x, y]}]").expect("sound"),
        ["a=1 b=x c=0", "a=2 b=y c=0", "a=1 b=x c=1", "a=2 b=y c=1"]
    );
    assert_eq!(
        cells("  grid: {a: [1, 2, 3]}\n  when: [{if: a == 2, grid: {b: [x, y]}}, {if: a == 3, grid: {b: [z]}}]").expect("sound"),
        ["a=1", "a=2 b=x", "a=2 b=y", "a=3 b=z"]
    );
    assert_eq!(
        cells("  grid: {a: [1, 2], b: [x, y]}\n  exclude: [{a: 1, b: y}, {if: \"a == 2 and b == 'x'\"}]").expect("sound"),
        ["a=1 b=x", "a=2 b=y"]
    );
    assert_eq!(cells("  grid: {a: [1, 2, 3]}\n  exclude: [{a: [1, 3]}]").expect("sound"), ["a=2"]);
    assert_eq!(cells("  grid: {a: [1]}\n  exclude: [{a: 1}]\n  include: [{a: 7}, {b: 3}]").expect("sound"), ["a=7", "b=3"]);
    assert_eq!(cells("  include: [{a: 1, b: 2}, {a: 3, b: 4}]").expect("sound"), ["a=1 b=2", "a=3 b=4"]);
}

#[test]
fn duplicates_and_idle_exclusions_are_warnings() {
    assert_eq!(
        cells("  grid: {a: [1, 2, 1.0]}\n  include: [{a: 2}]\n  exclude: [{a: 9}]").expect("sound"),
        [
            "a=1",
            "a=2",
            "2:20 duplicate-value: axis `a` has the value `1` twice",
            "3:13 include: this cell is there already",
            "4:13 exclude: this excludes no cell",
        ]
    );
}

#[test]
fn wrong_sweeps_are_refused() {
    for (sweep, expected) in [
        ("  grid: {a: []}", "2:13 axis: axis `a` has no values [give it a value, or remove it]"),
        ("  grid: {a: 0..3}", "2:13 axis: axis `a` needs a list of values, found text `0..3` [write `{range: [0, 3]}` for 0, 1, 2]"),
        (
            "  grid: {a: {range: [3, 3]}}",
            "2:21 axis: the range from 3 to 3 is empty; its end is left out [`{range: [0, 3]}` is 0, 1, 2; a third number is the step]",
        ),
        (
            "  grid: {a: {range: [1.5, 3]}}",
            "2:21 axis: a range consists of two or three integers [`{range: [0, 3]}` is 0, 1, 2; a third number is the step]",
        ),
        (
            "  grid: {a: {range: [0, 9000000000]}}",
            "2:21 axis: the range has 9000000000 values; at most 5000000 are possible [`{range: [0, 3]}` is 0, 1, 2; a third number is the step]",
        ),
        ("  zip: [{a: [1, 2], b: [1]}]", "2:9 zip: tied axes need equally many values: `a` has 2, `b` has 1"),
        ("  grid: {a: [1, 2]}\n  max: 1", "3:8 max: the sweep has 2 cells, more than `max: 1` [raise `max`, or narrow the sweep]"),
        ("  grid: {a: {range: [0, 4000]}, b: {range: [0, 4000]}}", "2:3 max: the sweep spans more than 5000000 cells [narrow the sweep]"),
        (
            "  grid: {a: [1]}\n  exclude: [{a: 1}]",
            "2:3 empty-sweep: the sweep has no cells [give every axis a value, and look at `exclude`]",
        ),
        ("  grid: {a: [1]}\n  exclude: [{aa: 1}]", "3:14 unknown-axis: `aa` is not an axis [did you mean `a`?]"),
        ("  grid: {a: [1]}\n  exlude: [{a: 1}]", "3:3 unknown-key: unknown key `exlude` in `sweep` [did you mean `exclude`?]"),
        ("  a: [1]\n  grid: {b: [1]}", "2:3 unknown-key: unknown key `a` in `sweep` [axes belong under `grid`: `grid: {a: [...]}`]"),
        (
            "  grid: {a: [1], b: [\"{{ a }}\"]}",
            "2:21 sweep: the values of `b` depend on the axis `a` [axes for only some cells belong under `when`; a value that follows from an axis belongs under `vars`]",
        ),
        (
            "  grid: {a: [1]}\n  when: [{grid: {b: [1]}}]",
            "3:10 sweep: this item has no `if:` [write `{if: \"algorithm == 'ditto'\", grid: {...}}`]",
        ),
        (
            "  grid: {a: [1]}\n  when: [{if: a == 1, grid: {a: [2]}}]",
            "2:10 when: `when` gives axis `a` to cells that have it already [make the conditions exclude each other, or take the axis out of `grid`]",
        ),
        ("  grid: {a: [1, ]}\n  max: many", "3:8 type: `max` must be an integer of at least 1, found text `many`"),
    ] {
        // An axis outside of the grid is not an axis, so the stage of the harness knows it not.
        let found = cells(sweep).expect_err(sweep);
        assert!(found.contains(&expected.to_owned()), "{sweep}\n{found:#?}");
    }
}

#[test]
fn an_axis_of_some_cells_must_be_read_with_care() {
    let when = ("stages:", "  when: [{if: \"algorithm == 'ditto'\", grid: {mu: [0.1, 1]}}]\nstages:");
    assert_eq!(
        errors(&table2(&[when, ("seed: \"{{ seed }}\"}}\n  leak", "seed: \"{{ seed }}\", lr: \"{{ mu }}\"}}\n  leak")])),
        ["10:131 undefined: `mu` has no value here [only cells with `algorithm == 'ditto'` have the axis `mu`; write `mu | default(...)`]"]
    );
    let text = table2(&[
        when,
        ("seed: \"{{ seed }}\"}}\n  leak", "seed: \"{{ seed }}\", lr: \"{{ mu | default(none) }}\"}}\n  leak"),
        ("rows: algorithm", "rows: [algorithm, mu]"),
    ]);
    let pipeline = check(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(pipeline.cells.len(), 24);
    let run = pipeline.stages.iter().find(|s| s.name == "run").expect("there");
    let rates: std::collections::BTreeSet<_> = run.instances.iter().map(|i| i.params.get("lr").expect("there").to_string()).collect();
    assert_eq!(rates, ["0.005", "0.1", "1.0"].map(str::to_owned).into());
}

#[test]
fn tables_are_checked() {
    let change =
        |to: &str| table2(&[("{rows: algorithm, columns: alpha, value: run.test_accuracy.best, over: seed, compare: pfllib-table2}", to)]);
    for (table, expected) in [
        (
            "{rows: algoritm, columns: alpha, over: [seed, algorithm], value: run.test_accuracy.best}",
            "12:16 unknown-axis: `rows` of table `main` names `algoritm`, which is not an axis [did you mean `algorithm`?]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: rn.test_accuracy.best}",
            "12:62 unknown-stage: `rn.test_accuracy.best` names `rn`, which is not a stage [did you mean `run`?]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: split.x.best}",
            "12:62 no-metrics: `split.x.best` names `split`, but stages of kind `partition` measure nothing [choose from `run`, `leak`]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.test_acuracy.best}",
            "12:62 unknown-metric: `test_acuracy` is not measured by stages of kind `train` [did you mean `test_accuracy`?]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.auc.bst}",
            "12:62 unknown-selector: `bst` does not select a measurement [did you mean `best`?]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run}",
            "12:62 value: `run` is not of the form `stage.metric.selector` [metrics: `test_accuracy`, `train_loss`, `auc`; selectors: `best`, `last`]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed}",
            "12:3 missing: `value` of table `main` is missing [write `value: leak.METRIC.SELECTOR`]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.auc.best, compare: pfllib-table3}",
            "12:85 unknown-table: there is no published table `pfllib-table3` [did you mean `pfllib-table2`?]",
        ),
        (
            "{rows: algorithm, columns: algorithm, over: [seed, alpha], value: run.auc.best}",
            "12:36 table: table `main` uses axis `algorithm` twice",
        ),
        (
            "{rows: algorithm, columns: alpha, value: run.auc.best}",
            "12:3 mixed-axis: table `main` does not say what becomes of the axis `seed` [add it to `rows` or `columns`, take the mean by `over: [seed]`, or choose by `where`]",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.auc.best, best: most, digits: 11, percent: 1, formats: [pdf]}",
            "12:82 choice: `best` must be `max` or `min`, found `most`",
        ),
        (
            "{row: algorithm, columns: alpha, over: [seed, algorithm], value: run.auc.best}",
            "12:10 unknown-key: unknown key `row` in table `main` [did you mean `rows`?]",
        ),
    ] {
        let found = errors(&change(table));
        assert_eq!(found[0], expected, "{table}\n{found:#?}");
    }
    let pipeline = check(&change("{rows: algorithm, columns: alpha, value: [run.auc.best, run.auc.last], where: \"seed == 0 and algorithm != 'gpfl'\", title: T, best: min, digits: 3}")).unwrap_or_else(|e| panic!("{e}"));
    let table = &pipeline.tables[0];
    assert_eq!(table.cells, [0, 3, 6, 9]);
    assert_eq!((table.values.len(), table.digits, table.title.as_deref()), (2, Some(3), Some("T")));
}

#[test]
fn the_command_line_changes_variables_and_axes() {
    let with = |set: &[&str], sweep: &[&str], filter: &[&str]| {
        check_with(TABLE2, &overrides(set, sweep, filter)).map_err(|e| (e.kind(), lines(&e)))
    };
    let rounds = |pipeline: &Pipeline| pipeline.stages[3].instances[0].params.get("rounds").cloned();
    assert_eq!(rounds(&with(&["rounds=5"], &[], &[]).expect("sound")), Some(json!(5)));
    assert_eq!(rounds(&with(&["vars.rounds=6"], &[], &[]).expect("sound")), Some(json!(6)));
    let pipeline =
        with(&["run.batch_size=7", "stages.run.train.lr=0.5", "stages.run.timeout=1h", "sweep.max=18"], &[], &[]).expect("sound");
    let run = &pipeline.stages[3].instances[0];
    assert_eq!((run.params.get("batch_size"), run.params.get("lr")), (Some(&json!(7)), Some(&json!(0.5))));
    assert_eq!(run.options.timeout.map(|t| t.as_secs()), Some(3600));

    assert_eq!(with(&[], &["seed=0..5"], &[]).expect("sound").cells.len(), 30);
    assert_eq!(with(&[], &["seed=0..10..5", "alpha=0.1,0.2,0.3"], &[]).expect("sound").cells.len(), 18);
    assert_eq!(with(&[], &["algorithm={name: ditto, mu: 3},fedavg", "rounds=1,2"], &[]).expect("sound").cells.len(), 24);
    assert_eq!(with(&[], &[], &["algorithm != 'gpfl'", "seed < 1"]).expect("sound").cells.len(), 4);

    for (set, sweep, filter, expected) in [
        ("ruonds=5", "", "", "1:7 set: `ruonds` is not a variable [did you mean `rounds`?]"),
        ("seed=5", "", "", "1:7 set: `seed` is an axis of the sweep [write `--sweep seed=...`]"),
        ("stages.rn.train.rounds=5", "", "", "1:7 set: there is no `rn` in `stages` [did you mean `run`?]"),
        ("stags.run=5", "", "", "1:7 set: there is no `stags` in the pipeline [did you mean `stages`?]"),
        (
            "run.algorithm.mu=5",
            "",
            "",
            "1:7 set: `stages.run.train.algorithm` is text `{{ algorithm }}`, not a map [set it as a whole: `--set 'stages.run.train.algorithm={...}'`]",
        ),
        ("run.ruonds=5", "", "", "1:18 unknown-key: unknown parameter `ruonds` of stage `run` [did you mean `rounds`?]"),
        ("rounds=ten", "", "", "1:14 type: `rounds` of stage `run` must be an integer of at least 1, found text `ten`"),
        ("rounds={", "", "", "1:15 yaml-syntax: "),
        (
            "",
            "sed=1,2",
            "",
            "1:13 unused-axis: no stage reads the axis `sed` [did you mean `seed`? an axis enters a stage by `\"{{ sed }}\"`]",
        ),
        ("", "alpha=-1", "", "1:15 range: `alpha` of stage `split` must be a number above 0, found -1"),
        (
            "",
            "",
            "algoritm == 'x'",
            "1:9 unknown-name: `algoritm` is neither a variable nor an axis [did you mean `algorithm`? text needs quotes inside an expression]",
        ),
        ("", "", "algorithm == 'x'", "1:9 where: no cell fits `--where`; without it there would be 18 cells"),
        ("", "", "algorithm ==", "1:9 expression: `algorithm ==` is not an expression: unexpected end of input, expected expression"),
    ] {
        let list = |text: &'static str| if text.is_empty() { vec![] } else { vec![text] };
        let (kind, found) = with(&list(set), &list(sweep), &list(filter)).expect_err(expected);
        assert_eq!(kind, FaultKind::Usage, "{found:#?}");
        assert!(found[0].starts_with(expected), "expected {expected}\n{found:#?}");
    }
    assert_eq!(Overrides::parse(&["rounds".to_owned()], &[], &[]).expect_err("no value").kind, FaultKind::Usage);
}

#[test]
fn conditions_compare_algorithms_by_name_in_either_form() {
    let text = table2(&[("[fedavg, ditto, gpfl]", "[fedavg, {name: ditto, mu: 1}, {name: ditto, mu: 2}]")]);
    let count = |filter: &str| check_with(&text, &overrides(&[], &[], &[filter])).map_or(0, |pipeline| pipeline.cells.len());
    assert_eq!(count("algorithm == 'ditto'"), 12);
    assert_eq!(count("algorithm.name == 'ditto'"), 12);
    assert_eq!(count("algorithm.name == 'fedavg'"), 6);
    assert_eq!(count("algorithm.mu == 1"), 6);
    assert_eq!(count("algorithm in ['ditto']"), 12);
    assert_eq!(count("algorithm != 'ditto' or algorithm.mu > 1"), 12);
    let excluded = text.replace("stages:", "  exclude: [{algorithm: ditto}]\nstages:");
    assert_eq!(check(&excluded).expect("sound").cells.len(), 6);
}

#[test]
fn files_extend_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write("base.yaml", TABLE2);
    write(
        "child.yaml",
        "extends: base.yaml\nname: child\nvars: {rounds: 7}\nsweep: {grid: {seed: [9]}}\nstages:\n  run: {train: {batch_size: 3}}\n  leak: null\ntables: {main: {compare: null}}\n",
    );
    let read = |name: &str| {
        let path = dir.path().join(name);
        let text = std::fs::read_to_string(&path).expect("there");
        load(&path, &text, &Overrides::default(), &Fake::new())
    };
    let pipeline = read("child.yaml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((pipeline.name.as_str(), pipeline.cells.len(), pipeline.stages.len()), ("child", 6, 4));
    let run = pipeline.stages[3].instances[0].params.to_map();
    assert_eq!((&run["rounds"], &run["batch_size"], &run["seed"]), (&json!(7), &json!(3), &json!(9)));
    assert_eq!(pipeline.tables[0].compare, None);

    write("kind.yaml", "extends: base.yaml\nstages: {leak: {dataset: cifar10}}\n");
    assert_eq!(
        read("kind.yaml").unwrap_or_else(|e| panic!("{e}")).stages.iter().find(|s| s.name == "leak").map(|s| s.kind),
        Some("dataset")
    );
    write("wrong.yaml", "extends: base.yaml\nvars: {rounds: x}\n");
    let text = read("wrong.yaml").expect_err("wrong").to_string();
    assert!(text.contains("wrong.yaml:2:16"), "{text}");
    write("a.yaml", "extends: b.yaml\n");
    write("b.yaml", "extends: a.yaml\nstages: {a: {dataset: cifar10}}\n");
    let text = read("a.yaml").expect_err("circle").to_string();
    assert!(text.contains("`extends` goes in a circle: a.yaml -> b.yaml -> a.yaml") && text.contains("b.yaml:1:10"), "{text}");
    write("gone.yaml", "extends: nowhere.yaml\nstages: {a: {dataset: cifar10}}\n");
    let text = read("gone.yaml").expect_err("gone").to_string();
    assert!(text.contains("nowhere.yaml`: No such file") && text.contains("gone.yaml:1:10"), "{text}");
    // Errors in the extended file are shown there.
    write("base2.yaml", &TABLE2.replace("of: run", "of: rn"));
    write("child2.yaml", "extends: base2.yaml\n");
    let text = read("child2.yaml").expect_err("wrong").to_string();
    assert!(text.contains("base2.yaml:10:38") && text.contains("did you mean `run`?"), "{text}");
    let missing = pflpipe::spec::load_file(&dir.path().join("none.yaml"), &Overrides::default(), &Fake::new()).expect_err("none");
    assert_eq!(missing.kind.exit_code(), 4);
}

#[test]
fn anchors_and_merge_keys_work() {
    let text = "stages:\n  d: {dataset: cifar10}\n  p: {partition: &p {kind: dirichlet, data: d, alpha: 1, clients: 5}}\n  q: {partition: {<<: *p, alpha: 2}}\n  e: {partition: {<<: *p, alhpa: 2}}\n";
    assert_eq!(errors(text), ["5:27 unknown-key: unknown parameter `alhpa` of `dirichlet` [did you mean `alpha`?]"]);
    let pipeline = check(&text.replace("alhpa", "alpha")).expect("sound");
    assert_eq!(pipeline.stages[2].instances[0].params.given()["alpha"], json!(2.0));
}

#[test]
fn templates_give_pipelines_that_pass() {
    for template in pflpipe::spec::templates() {
        let text = pflpipe::spec::new_from_template(template.name, &[]).expect("renders");
        let pipeline = check(&text).unwrap_or_else(|e| panic!("{}: {e}", template.name));
        assert!(pipeline.warnings.is_empty(), "{}: {}", template.name, pipeline.warnings);
    }
}

#[test]
fn the_schema_covers_every_kind_and_parameter() {
    use pflpipe::spec::Catalog;
    let fake = Fake::new();
    let schema = pflpipe::spec::schema(&fake);
    for kind in fake.kinds() {
        let text = schema["$defs"][format!("kind-{}", kind.name)].to_string();
        for field in &kind.shape.fields {
            assert!(text.contains(&format!("\"{}\"", field.name)), "{} {}", kind.name, field.name);
        }
        assert!(schema["$defs"]["stage"]["properties"][kind.name].is_object());
    }
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn a_thousand_mistakes_are_cut_short() {
    let mut text = String::from("stages:\n");
    for i in 0..1000 {
        text += &format!("  s{i}: {{dataset: {{name: nope{i}}}}}\n");
    }
    let found = check(&text).expect_err("wrong");
    assert_eq!(found.errors(), 1000);
    assert_eq!(found.items().len(), 100);
    assert!(found.render(true).contains("and 900 more"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = check(&text).map_err(|e| e.render(true));
    }

    #[test]
    fn arbitrary_yaml_like_text_never_panics(parts in proptest::collection::vec("(stages|sweep|grid|vars|a|b|: |\\{|\\}|\\[|\\]|, |\n|\n  |\\{\\{|\\}\\}|&x |\\*x|<<|'|\"|1e999|null|train|dataset|name|!t |é|0\\.\\.3|\t|\\||#|-- |---\n)", 0..40)) {
        let _ = check(&parts.concat()).map_err(|e| e.render(true));
    }

    #[test]
    fn a_broken_pipeline_never_panics(at in 0usize..900, what in "(\\{|\\}|\"|:|\n|\t| |x|\\{\\{|\\*|&|é)", cut in 0usize..6) {
        let mut text = TABLE2.to_owned();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &what);
        let _ = check(&text).map_err(|e| e.render(true));
        let _ = check_with(TABLE2, &overrides(&[&format!("rounds={what}")], &[&format!("seed={what}")], &[&what])).map_err(|e| e.render(true));
    }
}
