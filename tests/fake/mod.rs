//! A small catalog for tests: six kinds that cover every type, tag and range.

#![allow(dead_code, reason = "each test file uses a part of it")]

use pflpipe::spec::catalog::{Catalog, Field, Shape, StageKind, Type, Variant};
use serde_json::json;

pub struct Fake(Vec<StageKind>);

impl Fake {
    pub fn new() -> Self {
        Self(kinds())
    }
    pub fn kinds_mut(&mut self) -> &mut Vec<StageKind> {
        &mut self.0
    }
}

impl Catalog for Fake {
    fn kinds(&self) -> &[StageKind] {
        &self.0
    }
    fn published(&self) -> &[&'static str] {
        &["pfllib-table2", "gpfl-table1"]
    }
    fn metrics(&self, kind: &str) -> (&[&'static str], &[&'static str]) {
        match kind {
            "train" => (&["test_accuracy", "train_loss", "auc"], &["best", "last"]),
            "attack" => (&["psnr"], &["mean"]),
            _ => (&[], &[]),
        }
    }
}

fn variant(name: &'static str, fields: Vec<Field>) -> Variant {
    Variant { name, doc: "A choice.", revision: 1, fields }
}

fn stage(name: &'static str, kinds: &'static [&'static str], outputs: &'static [&'static str]) -> Field {
    Field::required(name, Type::Stage { kinds, outputs }, "An input.")
}

fn kind(name: &'static str, shape: Shape, outputs: &'static [&'static str]) -> StageKind {
    StageKind { name, doc: "A kind.", revision: 1, shape, outputs, extends: None, device_sensitive: false }
}

fn kinds() -> Vec<StageKind> {
    let seed = || Field::with("seed", Type::at_least(0), 0, "Seed.");
    let dataset = Shape::of(vec![Field::with("flip", Type::Bool, false, "Mirror images.")]).tagged(
        "name",
        "Which one.",
        vec![
            variant("fashion-mnist", vec![]),
            variant("cifar10", vec![]),
            variant("synthetic", vec![Field::required("samples", Type::at_least(1), "Samples.")]),
        ],
    );
    let partition = Shape::of(vec![
        stage("data", &["dataset"], &["samples"]),
        Field::with("clients", Type::Int { min: 1, max: 100_000 }, 20, "Clients."),
        seed(),
    ])
    .tagged(
        "kind",
        "The rule.",
        vec![
            variant("dirichlet", vec![Field::required("alpha", Type::positive(), "Concentration.")]),
            variant("pathological", vec![Field::with("classes_per_client", Type::at_least(1), 2, "Classes.")]),
        ],
    );
    let model = Shape::of(vec![stage("data", &["dataset"], &["shape"]), seed()]).tagged(
        "kind",
        "The family.",
        vec![
            variant("cnn", vec![]),
            variant("mlp", vec![Field::with("hidden", Type::List(Box::new(Type::at_least(1))), json!([200, 100]), "Widths.")]),
        ],
    );
    let algorithm = Shape::default().tagged(
        "name",
        "The algorithm.",
        vec![
            variant("fedavg", vec![]),
            variant(
                "ditto",
                vec![
                    Field::with("mu", Type::non_negative(), 0.1, "Proximal weight.").from("lambda", "paper"),
                    Field::with("steps", Type::at_least(1), 1, "Steps."),
                ],
            ),
            variant("gpfl", vec![Field::with("lambda", Type::fraction(), 0.01, "Weight.")]),
        ],
    );
    let train = Shape::of(vec![
        Field::required("algorithm", Type::Map(algorithm), "The algorithm."),
        stage("partition", &["partition"], &["assignment"]),
        stage("model", &["model"], &["weights"]),
        Field::with("rounds", Type::at_least(1), 2000, "Rounds."),
        Field::with("batch_size", Type::at_least(1), 10, "Batch."),
        Field::with("lr", Type::positive(), 0.005, "Step size."),
        Field::with("evaluate", Type::Choice(&[("running", "as it goes"), ("full", "one more pass")]), "running", "Train loss."),
        Field::with("drop_last", Type::Bool, true, "Leave out the last batch."),
        Field::optional("note", Type::Text, "Free text."),
        Field { introduced: Some(json!(1.0)), ..Field::with("join_ratio", Type::fraction(), 1.0, "Share of clients in a round.") },
        seed(),
    ]);
    let attack = Shape::of(vec![stage("of", &["train"], &["model"]), seed()]).tagged("kind", "The attack.", vec![variant("dlg", vec![])]);
    let compare = Shape::of(vec![Field::required(
        "runs",
        Type::List(Box::new(Type::Stage { kinds: &["train", "compare"], outputs: &["metrics"] })),
        "What is compared.",
    )]);
    vec![
        kind("dataset", dataset, &["samples", "shape"]),
        kind("partition", partition, &["assignment"]),
        kind("model", model, &["weights"]),
        StageKind { extends: Some("rounds"), device_sensitive: true, ..kind("train", train, &["metrics", "model", "checkpoint"]) },
        kind("attack", attack, &["metrics"]),
        kind("compare", compare, &["metrics"]),
    ]
}

/// The pipeline of the documentation, shortened.
pub const TABLE2: &str = r#"name: table2
vars: {rounds: 2000, clients: 20}
sweep:
  grid: {algorithm: [fedavg, ditto, gpfl], alpha: [0.1, 0.5], seed: [0, 1, 2]}
stages:
  data:  {dataset:   {name: fashion-mnist}}
  split: {partition: {data: data, kind: dirichlet, alpha: "{{ alpha }}", clients: "{{ clients }}", seed: "{{ seed }}"}}
  net:   {model:     {kind: cnn, data: data, seed: "{{ seed }}"}}
  run:   {train:     {algorithm: "{{ algorithm }}", partition: split, model: net, rounds: "{{ rounds }}", seed: "{{ seed }}"}}
  leak:  {attack:    {kind: dlg, of: run}}
tables:
  main: {rows: algorithm, columns: alpha, value: run.test_accuracy.best, over: seed, compare: pfllib-table2}
"#;
