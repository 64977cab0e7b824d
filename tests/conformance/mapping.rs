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
        "FedROD" => json!({"name": "fedrod", "variant": "pfllib", "report_generic": false}),
        "MOON" => json!({"name": "moon", "mu": hyper("mu"), "tau": hyper("tau")}),
        "FML" => json!({"name": "fml", "variant": "pfllib", "alpha": hyper("alpha"), "beta": hyper("beta"), "clip": 10.0}),
        "FedPCL" => json!({"name": "fedpcl", "variant": "pfllib", "tau": hyper("tau"), "clip": 10.0}),
        "FedCP" => json!({"name": "fedcp", "lambda": hyper("lamda")}),
        "GPFL" => json!({"name": "gpfl", "variant": "pfllib", "lambda": hyper("lamda"), "mu": hyper("mu")}),
        "FedNTD" => json!({"name": "fedntd", "beta": hyper("beta"), "tau": hyper("tau"), "divisor": "static"}),
        "FedGH" => json!({"name": "fedgh", "server_learning_rate": hyper("server_learning_rate"), "header": "client0"}),
        "PFL-DA" => json!({"name": "pflda", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FedLC" => json!({"name": "fedlc", "variant": "pfllib", "tau": hyper("tau")}),
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
        ("FedROD", false, "head") => Own("head"),
        ("FedROD" | "FedLC", false, "sample_per_class") => Own("counts"),
        ("MOON" | "FedNTD", false, "global_model") => Received("global"),
        ("MOON", false, "old_model") => Own("previous"),
        ("FML", false, "model") => Own("personal"),
        ("FML", false, "global_model") => Own("model"),
        ("FedPCL", true, "client_protos_set") => Own("clients"),
        ("FedPCL", false, "client_protos_set") => Server("clients"),
        ("FedPCL", true, "global_protos") => Own("global"),
        ("FedPCL", false, "global_protos") => Server("global"),
        ("FedPCL", false, "protos") => Own("protos"),
        ("FedPCL" | "FedCP", true, "global_model") => Ignored("the reference never changes it"),
        ("FedCP", true, "global_modules" | "head") => Own("global"),
        ("FedCP", true, "cs.fc.0") | ("FedCP", false, "model.gate.cs.fc.0") => Own("policy"),
        ("FedCP", true, "cs.fc.1") | ("FedCP", false, "model.gate.cs.fc.1") => Own("policy.norm"),
        ("FedCP", false, "model.model") => Own("model"),
        ("FedCP", false, "model.base") => Server("global"),
        ("FedCP", false, "model.head_g") => Own("global_head"),
        ("FedCP", false, "context") => Own("context"),
        ("FedCP", false, "pm_train" | "pm_test") => Ignored("masks of single samples, which are not kept"),
        ("GPFL", _, "GCE" | "GCE_frozen") => Server("embeddings"),
        ("GPFL", _, "CoV.Conditional_gamma.0") => Server("gamma"),
        ("GPFL", _, "CoV.Conditional_gamma.2") => Server("gamma.norm"),
        ("GPFL", _, "CoV.Conditional_beta.0") => Server("beta"),
        ("GPFL", _, "CoV.Conditional_beta.2") => Server("beta.norm"),
        ("GPFL", false, "global_base") => Server("global"),
        ("GPFL", false, "generic_conditional_input") => Own("generic"),
        ("GPFL", false, "personalized_conditional_input") => Own("personal"),
        ("GPFL", false, "sample_per_class") => Own("shares"),
        ("FedGH", true, "head") => Own("global"),
        ("FedGH", false, "protos") => Own("protos"),
        ("PFL-DA", false, "global_head") => Own("global_head"),
        ("FedLC", false, "calibration") => Ignored("a function of `sample_per_class`"),
        (_, true, "global_model") => Own("global"),
        (_, false, "model") => Own("model"),
        _ => return None,
    })
}

/// The attribute of a reference's tensor, and the rest of its name. Some attributes hold several modules, which count as one each.
pub fn attribute<'a>(algorithm: &str, name: &'a str) -> (&'a str, &'a str) {
    let modules: &[&str] = match algorithm {
        "FedCP" => &["cs.fc.0", "cs.fc.1", "model.gate.cs.fc.0", "model.gate.cs.fc.1", "model.model", "model.base", "model.head_g"],
        "GPFL" => &["CoV.Conditional_gamma.0", "CoV.Conditional_gamma.2", "CoV.Conditional_beta.0", "CoV.Conditional_beta.2"],
        _ => &[],
    };
    let module = modules.iter().find(|module| name.strip_prefix(**module).is_some_and(|rest| rest.starts_with('.')));
    name.split_at(module.map_or_else(|| name.find(['.', '[']).unwrap_or(name.len()), |module| module.len()))
}

/// The reference's name of the start of a parameter that we call `name`.
pub fn start(name: &str) -> String {
    match name.split_once('.') {
        Some(("policy", rest)) => format!("init.client0.model.gate.cs.{}", rest.replace("fc.", "fc.0.")),
        Some(("gamma", rest)) => format!("init.client0.CoV.Conditional_gamma.{}", rest.replace("fc.", "0.")),
        Some(("beta", rest)) => format!("init.client0.CoV.Conditional_beta.{}", rest.replace("fc.", "0.")),
        None if name == "embeddings" => "init.client0.GCE.embedding.weight".to_owned(),
        None if name == "context" => "init.client0.context".to_owned(),
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
