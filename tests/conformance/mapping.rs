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
    /// A leaf of the server as it is.
    Server(&'static str),
    /// A leaf of the client itself, compared only where the client took part in the round.
    Participant(&'static str),
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
        "FedProto" => json!({"name": "fedproto", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FD" => json!({"name": "fd", "variant": "pfllib", "lambda": hyper("lamda")}),
        _ => return None,
    })
}

/// Where the attribute of the server or of a client is found.
pub fn source(algorithm: &str, server: bool, attribute: &str) -> Option<Source> {
    use Source::{Ignored, Own, Received, Server};
    Some(match (algorithm, server, attribute) {
        ("SCAFFOLD", true, "global_c") | ("SCAFFOLD", false, "client_c") => Own("control"),
        ("SCAFFOLD", false, "global_c") => Received("control"),
        ("SCAFFOLD", false, "global_model") | ("FedProx", false, "global_params") => Received("global"),
        ("Ditto", false, "model_per") => Own("personal"),
        ("FedProto", true, "global_protos") | ("FedProto", false, "protos") => Own("protos"),
        ("FedProto", false, "global_protos") => Server("protos"),
        ("FD", true, "global_logits") | ("FD", false, "logits") => Own("outputs"),
        ("FD", false, "global_logits") => Server("outputs"),
        ("FD", true, "uploaded_logits") => Ignored("the clients' `logits`, which are compared"),
        (_, true, "global_model") => Own("global"),
        (_, false, "model") => Own("model"),
        _ => return None,
    })
}

/// The reference's name of the start of a parameter that we call `name`.
pub fn start(name: &str) -> String {
    match name.split_once('.') {
        _ => format!("init.{name}"),
    }
}

/// Whether a tensor of the reference is not compared.
pub fn left_out(algorithm: &str, name: &str) -> bool {
    match algorithm {
        // They move in forward passes of the two frozen models and are never read.
        "MOON" => name.contains("running_") && (name.contains(".old_model.") || name.contains("client") && name.contains(".global_model.")),
        _ => false,
    }
}

/// The positions of a tensor that are not compared.
pub fn noise(_: &Fixture, _: &str) -> Vec<usize> {
    Vec::new()
}

/// The name of the view behind a metric of this kind.
pub fn view(algorithm: &str, kind: Option<&str>) -> &'static str {
    match (algorithm, kind) {
        ("Ditto", None) => "global",
        ("Ditto", Some(_)) => "personal",
        _ => "model",
    }
}
