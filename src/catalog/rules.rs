//! Which parameters of stages do not go together: found before anything runs, and without looking at data.
//!
//! What a rule is stands beside what it is about, in `threats`, `defences`, `privacy`, `secure`, `models`, `attacks` and `fl`, where a
//! running stage asks it again with what the data say. Here it is said which of them concern a stage.

use crate::algorithms::Algorithms;
use crate::attacks::{self, Trained};
use crate::base::Fault;
use crate::fl::intervention::refusal;
use crate::fl::settings::Optimizer;
use crate::fl::{Needs, Settings, newcomers};
use crate::spec::rules::{Breach, Setup};
use crate::{defences, models, privacy, secure, threats};
use serde_json::{Map, Value};

/// Every rule about a stage that does not hold.
pub(super) fn rules(stage: &Setup<'_>, algorithms: &Algorithms) -> Vec<Breach> {
    match stage.kind() {
        "model" => model(stage),
        "train" => train(stage, algorithms),
        "attack" => attack(stage),
        _ => Vec::new(),
    }
}

fn model(stage: &Setup<'_>) -> Vec<Breach> {
    let Some(kind) = stage.word("kind") else { return Vec::new() };
    let mut params = stage.params().to_map();
    params.retain(|name, value| !["kind", "seed"].contains(&name.as_str()) && !value.is_null());
    models::rules(kind, &params)
}

/// What is known of a training without its data.
struct Known {
    settings: Settings,
    /// The clients that train; of some partitions only the data say how many there are.
    clients: Option<usize>,
}

impl Known {
    fn of(train: &Setup<'_>) -> Option<Result<Self, Breach>> {
        let names = ["rounds", "optimizer", "join_ratio", "random_join_ratio", "drop_rate", "drop_count", "new_clients"];
        let params = names.iter().filter_map(|name| Some(((*name).to_owned(), train.get(name)?.clone())));
        let settings: Settings = serde_json::from_value(Value::Object(params.collect())).ok()?;
        let there = train.input("partition").and_then(|partition| partition.whole("clients")).and_then(|n| usize::try_from(n).ok());
        let clients = match there.map(|there| settings.training(there)).transpose() {
            Ok(clients) => clients,
            Err(fault) => {
                let path = if there.is_some_and(|there| settings.new_clients >= there) { "new_clients" } else { "join_ratio" };
                return Some(Err(Breach::new(path, fault)));
            }
        };
        Some(Ok(Self { settings, clients }))
    }
    /// The clients of a round, where each round has as many.
    fn cohort(&self) -> Option<usize> {
        self.clients.filter(|_| !self.settings.random_join_ratio).map(|clients| self.settings.nominal_cohort(clients))
    }
    /// The uploads of a round, where each round has as many.
    fn uploads(&self) -> Option<usize> {
        self.cohort().map(|cohort| self.settings.arriving(cohort))
    }
}

/// The parameters of a choice, unless it is `none`.
fn chosen<'a>(stage: &Setup<'a>, name: &str) -> Option<(&'a str, &'a Map<String, Value>)> {
    let map = stage.map(name)?;
    let kind = map.get("kind").and_then(Value::as_str)?;
    (kind != "none").then_some((kind, map))
}

fn train(stage: &Setup<'_>, algorithms: &Algorithms) -> Vec<Breach> {
    let known = match Known::of(stage) {
        Some(Ok(known)) => Some(known),
        Some(Err(breach)) => return vec![breach],
        None => None,
    };
    let (rounds, clients) = (known.as_ref().map(|known| known.settings.rounds), known.as_ref().and_then(|known| known.clients));
    let uploads = known.as_ref().and_then(Known::uploads);
    let named = || {
        let algorithm = stage.map("algorithm")?;
        Some((algorithm.get("name").and_then(Value::as_str)?, algorithms.build(algorithm).ok()?))
    };
    let (threat, defence) = (chosen(stage, "threat"), chosen(stage, "defence"));
    let (privacy, secure) = (chosen(stage, "privacy"), chosen(stage, "secure"));
    let mut breaches = Vec::new();
    if stage.whole("new_clients").is_some_and(|n| n > 0)
        && let Some((name, built)) = named()
        && let Some(fault) = newcomers::refusal(name, built.welcomes())
    {
        breaches.push(Breach::new("new_clients", fault));
    }
    if let Some((_, params)) = threat {
        breaches.extend(threats::rules(params, rounds, clients).into_iter().map(|breach| breach.under("threat")));
    }
    if let (Some((_, params)), Some(uploads)) = (defence, uploads)
        && let Err(fault) = defences::check(params, uploads)
    {
        breaches.push(Breach::new("defence", fault));
    }
    if threat.or(defence).or(privacy).or(secure).is_none() {
        return breaches;
    }
    let Some((name, built)) = named() else { return breaches };
    let sends = built.sends();
    let acting = [("threat", threat, threats::needs as fn(&Map<String, Value>) -> Needs), ("defence", defence, defences::needs)];
    for (path, chosen, needs) in acting {
        if let Some((kind, params)) = chosen
            && let Some((what, help)) = refusal(kind, needs(params), name, sends)
        {
            breaches.push(Breach::new(path, Fault::stage(what).help(help)));
        }
    }
    let others: Vec<&str> = [defence, secure].into_iter().flatten().map(|(kind, _)| kind).collect();
    if let Some((_, params)) = privacy {
        let found = privacy::rules(params, built.as_ref(), &others);
        breaches.extend(found.into_iter().map(|breach| breach.under("privacy")));
    }
    if let Some((_, params)) = secure {
        let found = secure::rules(params, sends, uploads, defence.map(|(kind, _)| kind));
        breaches.extend(found.into_iter().map(|breach| breach.under("secure")));
    }
    breaches
}

fn attack(stage: &Setup<'_>) -> Vec<Breach> {
    let Some(of) = stage.input("of") else { return Vec::new() };
    let Some(Ok(known)) = Known::of(&of) else { return Vec::new() };
    let takes_texts = |model: Setup<'_>| Some(models::takes_texts(model.word("kind")?, &model.params().to_map()));
    attacks::rules(
        stage.params(),
        &Trained {
            rounds: known.settings.rounds,
            adam: matches!(known.settings.optimizer, Optimizer::Adam { .. }),
            texts: of.input("model").and_then(takes_texts).unwrap_or_default(),
            clients: known.clients,
            cohort: known.cohort(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Params;
    use crate::spec::rules::Setups;
    use serde_json::json;

    fn params(value: Value) -> Params {
        Params::from(value.as_object().expect("a map").clone())
    }

    /// The breaches of a training with these parameters among ten clients, as `path: what`.
    fn of_training(value: Value) -> Vec<String> {
        let partition = params(json!({"kind": "iid", "clients": 10}));
        let mut whole = json!({"algorithm": {"name": "fedavg"}, "rounds": 5});
        value.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
        let train = params(whole);
        let mut setups = Setups::default();
        let split = setups.add("partition", &partition, Vec::new());
        let id = setups.add("train", &train, vec![("partition", split)]);
        let found = rules(&setups.get(id).expect("there"), &crate::algorithms::all());
        found.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect()
    }

    #[track_caller]
    fn says(found: &[String], start: &str) {
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    }

    #[test]
    fn threats_that_cannot_be() {
        let threat = |more: Value| {
            let mut whole = json!({"kind": "sign-flip", "attackers": 2.0, "first_round": 1, "seed": 0});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            of_training(json!({"threat": whole}))
        };
        assert!(threat(json!({})).is_empty());
        says(&threat(json!({"attackers": 1.5})), "threat.attackers: `attackers` is 1.5, which is neither a whole number nor below 1");
        says(&threat(json!({"attackers": 11.0})), "threat.attackers: `attackers` is 11, but only 10 clients train");
        says(&threat(json!({"first_round": 3, "last_round": 2})), "threat.last_round: `last_round` is 2, before `first_round`");
        says(&threat(json!({"first_round": 6})), "threat.first_round: `first_round` is 6, but the training has 5 rounds");
        let flip = |from: Value, to: Value| threat(json!({"kind": "label-flipping", "from": from, "to": to, "chained": false}));
        says(&flip(json!([1, 2]), json!([3, 2])), "threat.to: label 2 of `label-flipping` becomes 2");
        says(&flip(json!([1, 1]), json!([3, 2])), "threat.from: label 1 stands twice");
        says(&flip(json!([1]), json!([3, 2])), "threat.to: `from` of `label-flipping` has 1 labels");
        says(&threat(json!({"kind": "edge-case", "source": 4, "target": 4})), "threat.target: `source` and `target` of `edge-case`");
        says(
            &of_training(
                json!({"algorithm": {"name": "local"}, "threat": {"kind": "zero", "attackers": 0.2, "first_round": 1, "seed": 0}}),
            ),
            "threat: `zero` does not apply: `local` sends nothing",
        );
    }

    #[test]
    fn defences_need_their_uploads() {
        let defence = |value: Value, join: f64| of_training(json!({"defence": value, "join_ratio": join}));
        assert!(defence(json!({"kind": "krum", "byzantine": 3}), 1.0).is_empty());
        says(&defence(json!({"kind": "krum", "byzantine": 4}), 1.0), "defence: `krum` needs n >= 2f + 3, here at least 11 uploads");
        says(&defence(json!({"kind": "bulyan", "byzantine": 1, "variant": "paper"}), 0.5), "defence: `bulyan` needs n >= 4f + 3");
        says(&defence(json!({"kind": "krum", "byzantine": i64::MAX}), 1.0), "defence: `krum` needs n >= 2f + 3");
        says(&defence(json!({"kind": "multi-krum", "byzantine": 1, "select": 11}), 1.0), "defence: `multi-krum` needs at least as many");
        says(&of_training(json!({"new_clients": 10})), "new_clients: ");
        says(&of_training(json!({"join_ratio": 0.05})), "join_ratio: ");
    }

    #[test]
    fn new_clients_need_a_model_to_start_from() {
        let of = |name: &str, n: u64| of_training(json!({"algorithm": {"name": name}, "new_clients": n}));
        says(&of("local", 11), "new_clients: ");
        assert!(of("fedavg", 2).is_empty());
        let all = crate::algorithms::all();
        let refusing: Vec<&str> = all
            .iter()
            .filter(|entry| {
                let given = |field: &crate::spec::catalog::Field| match &field.default {
                    crate::spec::catalog::Default::Is(value) => Some((field.name.to_owned(), value.clone())),
                    _ => None,
                };
                let mut params: Map<String, Value> = entry.description.fields.iter().filter_map(given).collect();
                params.insert("name".to_owned(), entry.description.name.into());
                all.build(&params).is_ok_and(|built| !built.welcomes())
            })
            .map(|entry| entry.description.name)
            .collect();
        assert_eq!(refusing, ["fedmtl", "fedfomo", "fedamp", "fedproto", "fd", "fedpcl"]);
    }

    #[test]
    fn noise_and_protocols_that_do_not_fit() {
        let protected = |name: &str, privacy: Value, secure: Value, defence: Value| {
            let mut whole = json!({"algorithm": {"name": name}});
            for (slot, value) in [("privacy", privacy), ("secure", secure), ("defence", defence)] {
                whole[slot] = if value.is_null() { json!({"kind": "none"}) } else { value };
            }
            if name == "fedproto" {
                whole["algorithm"] = json!({"name": "fedproto", "variant": "pfllib", "lambda": 1.0});
            }
            if name == "ditto" {
                whole["algorithm"] = json!({"name": "ditto", "mu": 0.1, "personal_epochs": 1});
            }
            of_training(whole)
        };
        let noise = |kind: &str| json!({"kind": kind, "clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-5});
        let median = || json!({"kind": "median", "variant": "paper"});
        let secagg = |more: Value| {
            let mut whole =
                json!({"kind": "secagg", "bits": 16, "prime": 2_147_483_647u64, "dropouts": 0.0, "bandwidth": 1.0, "latency": 0.0});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            whole
        };
        let none = || Value::Null;
        assert!(protected("fedavg", noise("dp-sgd"), secagg(json!({})), none()).is_empty());
        says(&protected("fedavg", noise("dp-fedavg"), none(), median()), "privacy: `dp-fedavg` cannot go with `median`");
        says(&protected("fedavg", none(), secagg(json!({})), median()), "secure: `secagg` cannot go with `median`");
        says(&protected("fedproto", noise("dp-sgd"), none(), none()), "privacy: `dp-sgd` does not apply: the algorithm sends prototypes");
        says(&protected("ditto", noise("dp-sgd"), none(), none()), "privacy: clipping the gradient of each sample does not apply");
        says(&protected("fedavg", json!({"kind": "dp-sgd", "clip": 1.0, "delta": 1e-5}), none(), none()), "privacy: `privacy` has neither");
        says(
            &protected("fedavg", json!({"kind": "dp-sgd", "clip": 1.0, "noise_multiplier": 1.0}), none(), none()),
            "privacy: `privacy` has noise but no `delta`",
        );
        assert!(protected("fedavg", json!({"kind": "dp-sgd", "clip": 1.0, "noise_multiplier": 0.0}), none(), none()).is_empty());
        let classic = json!({"kind": "local-gaussian", "epsilon": 2.0, "calibration": "classic"});
        says(&protected("fedavg", classic, none(), none()), "privacy.epsilon: the classic Gaussian mechanism");
        says(
            &protected("fedavg", none(), secagg(json!({"prime": 65535})), none()),
            "secure.prime: `prime` of `secure` is 65535, which is not a prime",
        );
        says(&protected("fedavg", none(), secagg(json!({"threshold": 11})), none()), "secure: `threshold` of `secure` is 11, but only 10");
        says(
            &protected("fedavg", none(), secagg(json!({"dropouts": 0.5})), none()),
            "secure.dropouts: with `dropouts` 0.5 only 5 of 10 clients",
        );
    }

    #[test]
    fn attacks_that_cannot_be() {
        let found = |attack: Value, train: Value, model: Value| {
            let (partition, model) = (params(json!({"kind": "iid", "clients": 10})), params(model));
            let mut whole = json!({"algorithm": {"name": "fedavg"}, "rounds": 5, "join_ratio": 0.5});
            train.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            let (train, attack) = (params(whole), params(attack));
            let mut setups = Setups::default();
            let split = setups.add("partition", &partition, Vec::new());
            let net = setups.add("model", &model, Vec::new());
            let run = setups.add("train", &train, vec![("partition", split), ("model", net)]);
            let id = setups.add("attack", &attack, vec![("of", run)]);
            let found = rules(&setups.get(id).expect("there"), &crate::algorithms::all());
            found.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect::<Vec<_>>()
        };
        let (none, mlp) = (|| json!({}), || json!({"kind": "mlp"}));
        let dlg = |more: Value| {
            let mut whole = json!({"kind": "dlg", "variant": "paper"});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            whole
        };
        assert!(found(dlg(json!({"round": 5, "clients": 5})), none(), mlp()).is_empty());
        says(&found(dlg(json!({"round": 6})), none(), mlp()), "round: `round` is 6, but the training has 5 rounds");
        says(&found(dlg(json!({"clients": 6})), none(), mlp()), "clients: `clients` is 6, but only 5 clients take part in a round");
        says(&found(json!({"kind": "membership", "clients": 11}), none(), mlp()), "clients: `clients` is 11, but only 10 clients");
        says(&found(dlg(none()), none(), json!({"kind": "fasttext"})), "of: the model takes texts, but gradient attacks rebuild numbers");
        let adam = || json!({"optimizer": {"name": "adam", "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.0}});
        says(&found(dlg(none()), adam(), mlp()), "of: the clients train with `adam`, whose updates are no gradients");
        assert!(found(dlg(json!({"variant": "pfllib"})), adam(), mlp()).is_empty());
    }

    #[test]
    fn models_that_cannot_be() {
        let found = |model: Value| {
            let model = params(model);
            let mut setups = Setups::default();
            let id = setups.add("model", &model, Vec::new());
            let found = rules(&setups.get(id).expect("there"), &crate::algorithms::all());
            found.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect::<Vec<_>>()
        };
        says(&found(json!({"kind": "resnet", "depth": 20})), "depth: `depth` of model `resnet` is 20, but must be 10, 18, 34 or 56");
        says(&found(json!({"kind": "resnet", "norm": "group", "width": 16})), "group_channels: 16 channels cannot be divided");
        says(&found(json!({"kind": "vit", "width": 65})), "heads: `width` 65 cannot be divided among 4 `heads`");
        says(&found(json!({"kind": "transformer", "hidden": 12})), "heads: `hidden` 12 cannot be divided among 8 `heads`");
        says(&found(json!({"kind": "cnn", "widths": []})), "widths: `widths` is empty");
        says(&found(json!({"kind": "lenet", "widths": [4]})), "widths: `widths` has 1 numbers, but must have 2");
        let layers = |list: Value| found(json!({"kind": "layers", "layers": list}));
        says(&layers(json!(["relu", {"layer": "conv", "out": 4, "kernel": [3, 3, 3]}])), "layers.1.kernel: `kernel` of `conv` is [3,3,3]");
        says(&layers(json!([{"layer": "load", "as": "x"}])), "layers.0.as: there is no saved value `x`; nothing is saved before it");
        let save = || json!({"layer": "save", "as": "x"});
        says(&layers(json!([save(), "relu", save()])), "layers.2.as: `x` is saved twice");
        says(&layers(json!([save(), {"layer": "concat", "all": []}])), "layers.1.all: `concat` without names");
        says(&layers(json!([save(), {"layer": "concat", "all": ["x", "y"]}])), "layers.1.all: there is no saved value `y`; saved are `x`");
        let named = || json!({"layer": "linear", "out": 3, "name": "a"});
        says(&layers(json!([named(), named()])), "layers.1.name: two layers are called `a`");
        assert!(layers(json!([save(), "relu", {"layer": "add", "as": "x"}, {"layer": "embedding", "out": 3}])).is_empty());
    }
}
