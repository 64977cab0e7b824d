//! From the reference's names to ours: algorithms, hyper-parameters, attributes.

use crate::fixture::Fixture;
use serde_json::{Value, json};

/// Where the value of a reference's attribute is found in our state.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A leaf of the owner itself.
    Own(&'static str),
    /// A leaf of the server as it was when the round began.
    Received(&'static str),
    /// Not compared, for the reason given.
    Ignored(&'static str),
}

/// Our name and hyper-parameters; absent for an algorithm that the mapping does not know.
pub fn algorithm(fixture: &Fixture) -> Option<Value> {
    let hyper = |name: &str| fixture.hyper(name);
    Some(match fixture.run.algorithm.as_str() {
        "FedAvg" => json!({"name": "fedavg"}),
        "Local" => json!({"name": "local"}),
        "FedProx" => json!({"name": "fedprox", "mu": hyper("mu")}),
        "SCAFFOLD" => json!({"name": "scaffold", "server_learning_rate": hyper("server_learning_rate"), "divisor": "static"}),
        "Ditto" => json!({"name": "ditto", "mu": hyper("mu"), "personal_epochs": hyper("plocal_epochs")}),
        "FedPer" => json!({"name": "fedper"}),
        "FedRep" => json!({"name": "fedrep", "head_epochs": hyper("plocal_epochs")}),
        "FedBN" => json!({"name": "fedbn", "match": "name"}),
        _ => return None,
    })
}

/// Where the attribute of the server or of a client is found.
pub fn source(algorithm: &str, server: bool, attribute: &str) -> Option<Source> {
    use Source::{Own, Received};
    Some(match (algorithm, server, attribute) {
        ("SCAFFOLD", true, "global_c") | ("SCAFFOLD", false, "client_c") => Own("control"),
        ("SCAFFOLD", false, "global_c") => Received("control"),
        ("SCAFFOLD", false, "global_model") | ("FedProx", false, "global_params") => Received("global"),
        ("Ditto", false, "model_per") => Own("personal"),
        (_, true, "global_model") => Own("global"),
        (_, false, "model") => Own("model"),
        _ => return None,
    })
}

/// The name of the view behind a metric of this kind.
pub fn view(algorithm: &str, kind: Option<&str>) -> &'static str {
    match (algorithm, kind) {
        ("Ditto", None) => "global",
        ("Ditto", Some(_)) => "personal",
        _ => "model",
    }
}
