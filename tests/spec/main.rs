//! Pipelines from text: what is accepted, what is refused and how the messages read.

#[path = "../fake/mod.rs"]
mod fake;
mod messages;
mod sweep;

use fake::{Fake, TABLE2};
use pflpipe::base::Outcome;
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

/// The documented pipeline with some parts replaced.
fn table2(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(TABLE2.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "`{from}` is not in the pipeline");
        text.replacen(from, to, 1)
    })
}

fn overrides(set: &[&str], sweep: &[&str], filter: &[&str]) -> Overrides {
    parsed(set, sweep, filter).expect("well formed")
}

fn parsed(set: &[&str], sweep: &[&str], filter: &[&str]) -> Outcome<Overrides> {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Overrides::parse(&own(set), &own(sweep), &own(filter))
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
fn parameters_may_be_one_expression() {
    let text = "vars: {data: {name: synthetic, samples: 5}}\nsweep: {grid: {other: [cifar10, {name: synthetic, samples: 7}]}}\ndefaults: {dataset: {flip: true}}\nstages: {a: {dataset: \"{{ data }}\"}, b: {dataset: \"{{ other }}\"}}\n";
    let pipeline = check(text).unwrap_or_else(|e| panic!("{e}"));
    let params: Vec<_> = pipeline.stages.iter().flat_map(|stage| &stage.instances).map(|i| json!(i.params.to_map())).collect();
    assert_eq!(
        params,
        [
            json!({"name": "synthetic", "samples": 5, "flip": true}),
            json!({"name": "cifar10", "flip": true}),
            json!({"name": "synthetic", "samples": 7, "flip": true}),
        ]
    );
    let expanded = pipeline.to_value();
    assert_eq!(expanded["cells"][1]["other"]["samples"], 7);
    assert_eq!(
        expanded["stages"][1]["instances"][0],
        json!({"coords": {"other": "cifar10"}, "params": {"name": "cifar10", "flip": true}, "inputs": {}})
    );
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

    // Maps within a table are merged as those of a stage are.
    write("mine.csv", "");
    let wide = TABLE2.replace("compare: pfllib-table2", "compare: {table: pfllib-table2, margin: 0.01, settings: {a: x, b: y}}");
    write("wide.yaml", &wide);
    write("narrow.yaml", "extends: wide.yaml\ntables: {main: {compare: {table: mine.csv, settings: {b: null, c: z}}}}\n");
    let compare = read("narrow.yaml").unwrap_or_else(|e| panic!("{e}")).tables[0].compare.clone().expect("it compares");
    let settings: Vec<(&str, &str)> = compare.settings.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!((compare.tables, compare.margin, settings), (vec!["mine.csv".to_owned()], 0.01, vec![("a", "x"), ("c", "z")]));
    write("word.yaml", "extends: wide.yaml\ntables: {main: {compare: mine.csv}}\n");
    let compare = read("word.yaml").unwrap_or_else(|e| panic!("{e}")).tables[0].compare.clone().expect("it compares");
    assert_eq!((compare.margin, compare.settings.len()), (0.02, 0));

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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

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
        if let Ok(overrides) = parsed(&[&format!("rounds={what}")], &[&format!("seed={what}")], &[&what]) {
            let _ = check_with(TABLE2, &overrides).map_err(|e| e.render(true));
        }
    }
}
