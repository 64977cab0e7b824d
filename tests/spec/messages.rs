//! The messages: what they say, where they point, and what they advise.

use super::{check, errors, table2};
use pflpipe::base::FaultKind;

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

error: `kind` cannot be `dirchlet`
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
        ("{rows: algorithm, columns: alpha, over: seed, value: []}", "12:62 missing: `value` of table `main` is empty"),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.auc.best, values: run.auc.last}",
            "12:84 table: `value` and `values` of table `main` are one thing: give one",
        ),
        (
            "{rows: algorithm, columns: alpha, over: seed, value: run.auc.best, compare: [pfllib-table2, pfllib-table2]}",
            "12:101 unknown-table: `pfllib-table2` is there twice",
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
