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
