//! The sweep, the variables and the command line.

use super::{check, check_with, errors, fake::TABLE2, lines, overrides, table2};
use pflpipe::base::FaultKind;
use pflpipe::spec::{Overrides, Pipeline};
use serde_json::json;

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
            "2:21 axis: the range has 9000000000 values; at most 1000000 are possible [`{range: [0, 3]}` is 0, 1, 2; a third number is the step]",
        ),
        ("  zip: [{a: [1, 2], b: [1]}]", "2:9 zip: tied axes need equally many values: `a` has 2, `b` has 1"),
        (
            "  grid: {a: [1, 2]}\n  max: 1",
            "3:8 max: the sweep has 2 cells, more than `max: 1` [narrow the sweep, or raise it: `sweep: {max: ...}`]",
        ),
        ("  grid: {a: {range: [0, 4000]}, b: {range: [0, 4000]}}", "2:3 max: the sweep spans more than 1000000 cells [narrow the sweep]"),
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
