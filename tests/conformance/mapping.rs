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
    /// A list of the round's clients, in ascending order: `[j]` is a leaf of the j-th.
    Cohort(&'static str),
    /// A list of the models that a client last received: `[j]` is that of the j-th sender at the server, as the round began.
    Delivered(&'static str),
    /// A matrix with a column for each of the round's clients: a model of theirs, as the round began.
    Columns(&'static str),
    /// FedLC's calibration, tau n_k^(-1/4) in each row, from the server's counts of samples.
    Calibration(&'static str),
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
        "PerAvg" => json!({"name": "perfedavg", "variant": "pfllib"}),
        "FedGen" => json!({"name": "fedgen", "variant": "pfllib", "noise_dim": hyper("noise_dim"), "hidden_dim": hyper("hidden_dim"),
            "generator_learning_rate": hyper("generator_learning_rate"), "server_steps": hyper("server_epochs"), "local_base": hyper("localize_feature_extractor")}),
        "FedALA" => json!({"name": "fedala", "variant": "pfllib", "eta": hyper("eta"), "percent": hyper("rand_percent"),
            "tensors": hyper("layer_idx"), "threshold": 0.1, "max_start_epochs": 1000}),
        "FedPAC" => json!({"name": "fedpac", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FedKD" => json!({"name": "fedkd", "variant": "pfllib", "student_learning_rate": hyper("mentee_learning_rate"),
            "t_start": hyper("T_start"), "t_end": hyper("T_end")}),
        "FedDBE" => json!({"name": "feddbe", "momentum": hyper("momentum"), "kappa": hyper("kl_weight"), "offset": true}),
        "FedAS" => json!({"name": "fedas", "alignment_rate": 0.01, "alignment_batch": 16, "alignment_epochs": 1}),
        "FedCross" => json!({"name": "fedcross", "variant": "pfllib", "alpha": hyper("fedcross_alpha"),
            "first_stage": hyper("first_stage_bound"), "partner": partner(&hyper("collaberative_model_select_strategy"))}),
        "FedProto" => json!({"name": "fedproto", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FD" => json!({"name": "fd", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FedROD" => json!({"name": "fedrod", "variant": "pfllib", "report_generic": false}),
        "MOON" => json!({"name": "moon", "mu": hyper("mu"), "tau": hyper("tau")}),
        "FML" => json!({"name": "fml", "variant": "pfllib", "alpha": hyper("alpha"), "beta": hyper("beta"), "clip": 10.0}),
        "FedPCL" => json!({"name": "fedpcl", "variant": "pfllib", "tau": hyper("tau"), "clip": 10.0}),
        "FedCP" => json!({"name": "fedcp", "variant": "pfllib", "lambda": hyper("lamda"), "policy": "network"}),
        "GPFL" => json!({"name": "gpfl", "variant": "pfllib", "lambda": hyper("lamda"), "mu": hyper("mu"), "angle": 1.0, "valve": true}),
        "FedNTD" => json!({"name": "fedntd", "beta": hyper("beta"), "tau": hyper("tau"), "divisor": "static"}),
        "FedGH" => json!({"name": "fedgh", "server_learning_rate": hyper("server_learning_rate"), "header": "client0"}),
        "PFL-DA" => json!({"name": "pflda", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FedLC" => json!({"name": "fedlc", "variant": "pfllib", "tau": hyper("tau")}),
        "FedMTL" => json!({"name": "fedmtl", "variant": "pfllib"}),
        "pFedMe" => {
            json!({"name": "pfedme", "variant": "pfllib", "beta": hyper("beta"), "lambda": hyper("lamda"), "inner_steps": hyper("K"), "personal_learning_rate": hyper("p_learning_rate"), "weight_decay": 0.001})
        }
        "FedAMP" => {
            json!({"name": "fedamp", "variant": "pfllib", "alpha": hyper("alphaK"), "lambda": hyper("lamda"), "sigma": hyper("sigma")})
        }
        "APFL" => json!({"name": "apfl", "variant": "pfllib", "alpha": hyper("alpha"), "alpha_decay": 0.02}),
        "FedDyn" => json!({"name": "feddyn", "variant": "pfllib", "alpha": hyper("alpha")}),
        "FedBABU" => json!({"name": "fedbabu", "variant": "pfllib", "fine_tuning_epochs": hyper("fine_tuning_epochs")}),
        "FedFomo" => json!({"name": "fedfomo", "variant": "pfllib", "models": hyper("M"), "validation": 0.2}),
        "FedPHP" => json!({"name": "fedphp", "variant": "pfllib", "mu": hyper("mu"), "lambda": hyper("lamda")}),
        "APPLE" => {
            json!({"name": "apple", "variant": "pfllib", "relation_rate": hyper("dr_learning_rate"), "mu": hyper("mu"), "schedule": hyper("L")})
        }
        "FedGC" => json!({"name": "fedgc", "variant": "pfllib", "lambda": hyper("lamda")}),
        "FedCAC" => json!({"name": "fedcac", "variant": "pfllib", "tau": hyper("tau"), "beta": hyper("beta")}),
        "LG-FedAvg" => json!({"name": "lgfedavg"}),
        _ => return None,
    })
}

/// FedCross's choice of a partner.
fn partner(strategy: &Value) -> &'static str {
    match strategy.as_u64() {
        Some(0) => "in-order",
        Some(1) => "least-similar",
        _ => "most-similar",
    }
}

/// Where the attribute of the server or of a client is found.
pub fn source(algorithm: &str, server: bool, attribute: &str) -> Option<Source> {
    use Source::{Calibration, Cohort, Columns, Delivered, Ignored, Own, Participant, Received, Server};
    Some(match (algorithm, server, attribute) {
        ("SCAFFOLD", true, "global_c") | ("SCAFFOLD", false, "client_c") => Own("control"),
        ("SCAFFOLD", false, "global_c") => Received("control"),
        ("SCAFFOLD", false, "global_model") | ("FedProx", false, "global_params") => Received("global"),
        ("Ditto", false, "model_per") => Own("personal"),
        ("FedGen", true, "generative_model") => Own("generator"),
        ("FedGen", false, "generative_model") => Server("generator"),
        ("FedGen", false, "sample_per_class") => Own("counts"),
        ("FedPAC", true, "Hs") => Cohort("h"),
        ("FedPAC", false, "h") => Participant("h"),
        ("FedPAC", true, "global_protos") => Own("prototypes"),
        ("FedPAC", false, "global_protos") => Server("prototypes"),
        ("FedPAC", false, "protos") => Ignored("sent with the upload; the server's means of them are compared"),
        ("FedKD", true, "compressed_param") => Own("sent"),
        ("FedKD", false, "compressed_param") => Ignored("sent with the upload; the server's mean of them is compared"),
        ("FedKD", false, "global_model") => Own("student"),
        ("FedKD", false, "W_h") => Own("bridge"),
        ("FedDBE", false, "global_mean") => Server("mean"),
        ("FedDBE", false, "client_mean") => Own("offset"),
        ("FedDBE", false, "running_mean") => Own("running"),
        ("FedCross", true, "w_locals") => Own("middleware"),
        ("FedProto", true, "global_protos") | ("FedProto", false, "protos") => Own("protos"),
        ("FedProto", false, "global_protos") => Server("protos"),
        ("FD", true, "global_logits") | ("FD", false, "logits") => Own("outputs"),
        ("FD", false, "global_logits") => Server("outputs"),
        ("FD", true, "uploaded_logits") => Cohort("outputs"),
        ("FedROD", false, "head") => Own("head"),
        ("FedROD" | "FedLC", false, "sample_per_class") => Own("counts"),
        ("MOON" | "FedNTD", false, "global_model") => Received("global"),
        ("MOON", false, "old_model") => Own("previous"),
        ("FML", false, "model") => Own("personal"),
        ("FML", false, "global_model") => Own("model"),
        ("FedPCL", true, "client_protos_set") => Own("clients"),
        ("FedPCL", false, "client_protos_set") => Server("clients"),
        ("FedPCL", true, "global_protos") => Own("protos"),
        ("FedPCL", false, "global_protos") => Server("protos"),
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
        ("FedLC", false, "calibration") => Calibration("counts"),
        ("FedMTL", true, "W_glob") => Columns("model"),
        ("FedMTL", true, "omega") => Ignored("a constant of the cohort size, which has no part in the training"),
        ("pFedMe", true, "previous_global_model") => Received("global"),
        ("pFedMe", false, "local_params") => Participant("model"),
        ("pFedMe", false, "personalized_params") => Own("model"),
        ("FedAMP", false, "client_u") => Own("cloud"),
        ("FedFomo", true, "client_models") => Own("models"),
        ("FedFomo", true, "P") => Own("affinity"),
        ("FedFomo", false, "old_model") => Own("mixed"),
        ("FedFomo", false, "weight_vector") => Own("gains"),
        ("FedFomo", false, "received_models") => Delivered("models"),
        ("FedPHP", false, "model_p") => Own("inherited"),
        ("APPLE", true, "client_models") | ("APPLE", false, "model_cs") => Ignored("working copies that end with the round"),
        ("APPLE", false, "model_c") => Own("model"),
        ("FedGC", true, "client_heads") => Own("heads"),
        ("FedCAC", false, "customized_model") => Own("customized"),
        ("APFL", false, "model_per") => Own("personal"),
        ("FedDyn", true, "server_state") | ("FedDyn", false, "old_grad") => Own("drift"),
        ("FedDyn", false, "global_model_vector") => Received("global"),
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
        Some(("generator", name)) => format!("init.server.generative_model.{name}"),
        Some(("bridge", _)) => "init.client0.W_h.weight".to_owned(),
        Some(("policy", rest)) => format!("init.client0.model.gate.cs.{}", rest.replace("fc.", "fc.0.")),
        Some(("gamma", rest)) => format!("init.client0.CoV.Conditional_gamma.{}", rest.replace("fc.", "0.")),
        Some(("beta", rest)) => format!("init.client0.CoV.Conditional_beta.{}", rest.replace("fc.", "0.")),
        // The longest of the clients' heads, which start with the same rows.
        None if name == "heads" => "init.server.client_heads".to_owned(),
        None if name == "embeddings" => "init.client0.GCE.embedding.weight".to_owned(),
        None if name == "context" => "init.client0.context".to_owned(),
        _ => format!("init.{name}"),
    }
}

/// Whether the reference forgets its drop rate for this algorithm.
pub fn loses_nothing(algorithm: &str) -> bool {
    matches!(algorithm, "APPLE" | "FD" | "FedCP" | "FedGH" | "FedMTL" | "FedPCL" | "FedProto" | "GPFL" | "Local")
}

/// The last round after which the reference's state follows from more than its rounding.
pub fn comparable(fixture: &Fixture) -> u64 {
    match fixture.run.algorithm.as_str() {
        // The gradient of a bias before a normalisation is zero but for rounding, so its critical positions are noise; they decide in
        // the second round which two clients overlap most.
        "FedCAC" if fixture.run.model.ends_with("_bn") => 1,
        _ => u64::MAX >> 1,
    }
}

/// Whether a client has no whole batch, so that its training takes no step.
pub fn untrained(fixture: &Fixture, client: usize) -> bool {
    fixture.run.train_samples[client] < fixture.number("batch_size") as usize
}

/// Whether a tensor of the reference is not compared.
pub fn left_out(algorithm: &str, name: &str) -> bool {
    // The bias before the generator's normalisation has no gradient but rounding, which Adam amplifies; the running statistics are
    // never read, and ours are not kept.
    let noise = ["fc1.0.bias", "fc1.1.running_mean", "fc1.1.running_var"];
    match algorithm {
        "FedGen" => name.contains("generative_model") && noise.iter().any(|end| name.ends_with(end)),
        // They move in forward passes of the two frozen models and are never read.
        "MOON" => name.contains("running_") && [".old_model.", ".global_model."].iter().any(|model| name.contains(model)),
        "FedCP" => name.contains("running_") && name.contains(".model.base."),
        // They move whenever the training loss is measured, and are never read: the inherited model stays in training mode.
        "FedPHP" => name.contains("running_") && name.contains(".model_p."),
        // Models that are averaged or mixed by hand, and whose statistics nobody reads.
        "FedAMP" => name.contains("running_") && name.contains(".client_u."),
        "FedDyn" => name.contains("running_") && name.contains(".server_state."),
        "FedFomo" => name.contains("running_") && !name.contains(".model."),
        "Local" => name.contains("running_") && name.contains(".server."),
        _ => false,
    }
}

/// Whether tensors of an attribute may be stored as three factors, which are unique only up to signs.
pub fn factored(algorithm: &str, attribute: &str) -> bool {
    algorithm == "FedKD" && attribute == "compressed_param"
}

/// The positions of a tensor that are not compared.
pub fn noise(fixture: &Fixture, name: &str) -> Vec<usize> {
    if fixture.run.algorithm != "FedGen" || !name.ends_with("generative_model.fc1.0.weight") {
        return Vec::new();
    }
    // All labels that the fixture draws are of one class: its column is another bias before the normalisation.
    let counts = fixture.tensor("init.client0.sample_per_class").map_or(&[][..], |counts| &counts.values);
    let class = counts.iter().position(|count| *count > 0.0).unwrap_or(0);
    let (noise_dim, hidden) = (fixture.number("noise_dim") as usize, fixture.number("hidden_dim") as usize);
    (0..hidden).map(|row| row * (noise_dim + fixture.run.classes) + noise_dim + class).collect()
}

/// The name of the view behind a metric of this kind.
pub fn view(algorithm: &str, kind: Option<&str>) -> &'static str {
    match (algorithm, kind) {
        ("Ditto", None) => "global",
        ("Ditto", Some(_)) => "personal",
        _ => "model",
    }
}
