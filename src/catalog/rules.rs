//! Which parameters of stages do not go together: found before anything runs, and without looking at data.
//!
//! What a rule is stands beside what it is about, in `threats`, `defences`, `privacy`, `secure`, `models`, `attacks` and `fl`, where a
//! running stage asks it again with what the data say. Here it is said which of them concern a stage.

use super::inputs::{self, keeps_statistics};
use super::known::Known;
use crate::algorithms::Algorithms;
use crate::attacks::{self, Trained};
use crate::base::Fault;
use crate::fl::intervention::refusal;
use crate::fl::settings::Optimizer;
use crate::fl::{Needs, Sends, newcomers};
use crate::spec::rules::{Breach, Setup};
use crate::{defences, models, privacy, secure, threats};
use serde_json::{Map, Value};

/// Every rule about a stage that does not hold.
pub(super) fn rules(stage: &Setup<'_>, algorithms: &Algorithms) -> Vec<Breach> {
    match stage.kind() {
        "dataset" => inputs::dataset(stage),
        "partition" => inputs::partition(stage),
        "model" => inputs::model(stage),
        "train" => train(stage, algorithms),
        "attack" => attack(stage, algorithms),
        _ => Vec::new(),
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
    let mut breaches = known.as_ref().map(Known::empty).unwrap_or_default();
    if stage.whole("new_clients").is_some_and(|n| n > 0)
        && let Some((name, built)) = named()
        && let Some(fault) = newcomers::refusal(name, built.welcomes())
    {
        breaches.push(Breach::new("new_clients", fault));
    }
    if let Some((_, params)) = threat {
        let batch = known.as_ref().filter(|_| stage.get("batch_size").is_some()).map(|known| known.settings.batch_size);
        let of = threats::Known { rounds, clients, batch, data: known.as_ref().and_then(|known| known.data) };
        breaches.extend(threats::rules(params, &of).into_iter().map(|breach| breach.under("threat")));
    }
    if let (Some((_, params)), Some(uploads)) = (defence, uploads)
        && let Err(fault) = defences::check(params, uploads)
    {
        breaches.push(Breach::new("defence", fault));
    }
    let least = known.as_ref().and_then(Known::least);
    if let (Some((_, params)), Some(least)) = (defence, least)
        && let Err(fault) = defences::check(params, least)
    {
        breaches.push(Breach::warning("defence", in_the_least(fault, least)));
    }
    if let (Some((_, built)), Some(rounds)) = (named(), rounds) {
        breaches.extend(built.rules(rounds).into_iter().map(|breach| breach.under("algorithm")));
    }
    if let Some((_, params)) = defence {
        breaches.extend(defences::rules(params).into_iter().map(|breach| breach.under("defence")));
    }
    if let (Some((_, params)), Some(uploads)) = (defence, uploads) {
        breaches.extend(defences::remark(params, uploads).map(|breach| breach.under("defence")));
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
    let statistics = privacy.or(secure).is_some() && keeps_statistics(stage);
    if let Some((_, params)) = privacy {
        let (cohort, samples) = known.as_ref().map(|known| (known.cohort(), known.samples)).unwrap_or_default();
        let of = privacy::Known { rounds: rounds.unwrap_or(1), clients, cohort, samples, statistics };
        let found = privacy::rules(params, built.as_ref(), &others, &of);
        breaches.extend(found.into_iter().map(|breach| breach.under("privacy")));
    }
    if let Some((_, params)) = secure {
        let of = |uploads| secure::rules(params, sends, uploads, defence.map(|(kind, _)| kind), statistics);
        let mut found = of(uploads);
        if let Some(least) = least {
            // What holds of any round is said already; the rest may come true in some.
            let more: Vec<Breach> =
                of(Some(least)).into_iter().filter(|new| found.iter().all(|old| old.fault.what != new.fault.what)).collect();
            found.extend(more.into_iter().map(|breach| Breach::warning(breach.path, in_the_least(breach.fault, least))));
        }
        breaches.extend(found.into_iter().map(|breach| breach.under("secure")));
    }
    breaches
}

/// A fault of rounds as small as `random_join_ratio` may draw them, which ends the run when one comes.
fn in_the_least(mut fault: Fault, uploads: usize) -> Fault {
    fault.what = format!("{} (in a round of {uploads} uploads, the fewest that `random_join_ratio` draws)", fault.what);
    fault
}

fn attack(stage: &Setup<'_>, algorithms: &Algorithms) -> Vec<Breach> {
    let Some(of) = stage.input("of") else { return Vec::new() };
    let Some(Ok(known)) = Known::of(&of) else { return Vec::new() };
    let sends = of.map("algorithm").and_then(|algorithm| Some(algorithms.build(algorithm).ok()?.sends()));
    let takes_texts = |model: Setup<'_>| Some(models::takes_texts(model.word("kind")?, &model.params().to_map()));
    attacks::rules(
        stage.params(),
        &Trained {
            rounds: known.settings.rounds,
            adam: matches!(known.settings.optimizer, Optimizer::Adam { .. }),
            texts: of.input("model").and_then(takes_texts).unwrap_or_default(),
            whole_batches: of.get("batch_size").and_then(Value::as_u64).filter(|_| known.settings.drop_last),
            averaged: matches!(sends, Some(Sends::Averaged | Sends::AveragedAnd(_))),
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
    fn what_only_some_rounds_break_is_warned_of() {
        let few = |more: Value| {
            let mut whole = json!({"join_ratio": 0.2, "random_join_ratio": true});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            of_training(whole)
        };
        assert!(few(json!({})).is_empty());
        let krum = few(json!({"defence": {"kind": "krum", "byzantine": 1, "variant": "paper"}}));
        assert!(krum.len() == 1 && krum[0].contains("in a round of 2 uploads, the fewest that `random_join_ratio` draws"), "{krum:?}");
        let secagg = json!({"kind": "secagg", "bits": 16, "prime": 2_147_483_647_u64, "dropouts": 0.0, "bandwidth": 1e6, "latency": 0.0});
        let mut alone = few(json!({"secure": secagg, "join_ratio": 0.1}));
        assert!(alone.len() == 1 && alone.remove(0).contains("in a round of 1 uploads"), "{alone:?}");
        let narrow = |prime: u64, bits: u32| {
            let mut secure = secagg.clone();
            (secure["prime"], secure["bits"]) = (json!(prime), json!(bits));
            of_training(json!({"secure": secure}))
        };
        says(&narrow(101, 16), "secure.prime: `prime` 101 and `bits` 16 hold sums of 10 clients only of parameters up to 0.00007");
        says(&narrow(2_147_483_647, 40), "secure.prime: `prime` 2147483647 and `bits` 40");
        assert!(narrow(2_147_483_647, 16).is_empty());
        says(&of_training(json!({"time_threshold": 0.5, "seconds_per_upload": 1.0})), "time_threshold: `time_threshold` 0.5 is below");
        assert!(of_training(json!({"time_threshold": 1.5, "seconds_per_upload": 1.0})).is_empty());
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
        says(
            &defence(json!({"kind": "trimmed-mean", "beta": 0.05, "variant": "paper"}), 1.0),
            "defence.beta: `beta` 0.05 of 10 uploads is none",
        );
        says(
            &defence(json!({"kind": "centered-clipping", "tau": 10.0, "iterations": 1, "bucket": 10, "seed": 0, "variant": "paper"}), 1.0),
            "defence.bucket: `bucket` is 10, and all 10 uploads",
        );
        let crfl = |stddev: f64, votes: u64| {
            defence(json!({"kind": "crfl", "threshold": 2.0, "growth": 0.1, "stddev": stddev, "seed": 0, "votes": votes}), 1.0)
        };
        assert!(crfl(0.0, 0).is_empty() && crfl(0.1, 9).is_empty());
        says(&crfl(0.0, 9), "defence.votes: `votes` is 9, but `stddev` is 0");
        says(&of_training(json!({"new_clients": 10})), "new_clients: ");
        says(&of_training(json!({"join_ratio": 0.05})), "join_ratio: ");
    }

    #[test]
    fn hyper_parameters_in_the_wrong_order_are_found() {
        let fedkd =
            |start: f64, end: f64| of_training(json!({"algorithm": {"name": "fedkd", "variant": "paper", "t_start": start, "t_end": end}}));
        assert!(fedkd(0.9, 0.9).is_empty());
        says(&fedkd(0.98, 0.95), "algorithm.t_start: `t_start` is 0.98, above `t_end`, which is 0.95");
        let fedcross = |first: u64| {
            of_training(
                json!({"algorithm": {"name": "fedcross", "variant": "paper", "alpha": 0.9, "first_stage": first, "partner": "in-order"}}),
            )
        };
        assert!(fedcross(4).is_empty());
        says(&fedcross(5), "algorithm.first_stage: `first_stage` is 5, but the training has 5 rounds");
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

    /// The breaches of all stages of a pipeline on this data set, as `kind path: what`; those that only warn begin with `(`.
    fn of_all(data: Value, more: Value) -> Vec<String> {
        let part = |name: &str, default: Value| {
            let mut whole = default;
            if let Some(own) = more.get(name).and_then(Value::as_object) {
                own.iter().for_each(|(name, value)| whole[name] = value.clone());
            }
            params(whole)
        };
        let data = params(data);
        let partition = part("partition", json!({"kind": "iid", "clients": 10, "train_ratio": 0.75}));
        let model = part("model", json!({"kind": "mlp"}));
        let train = part("train", json!({"algorithm": {"name": "fedavg"}, "rounds": 5, "batch_size": 10, "drop_last": true}));
        let attack = part("attack", json!({"kind": "membership"}));
        let mut setups = Setups::default();
        let data = setups.add("dataset", &data, Vec::new());
        let split = setups.add("partition", &partition, vec![("data", data)]);
        let net = setups.add("model", &model, vec![("data", data)]);
        let run = setups.add("train", &train, vec![("partition", split), ("model", net)]);
        setups.add("attack", &attack, vec![("of", run)]);
        let found = (0..5).filter_map(|id| setups.get(id)).flat_map(|setup| {
            let kind = setup.kind();
            rules(&setup, &crate::algorithms::all()).into_iter().map(move |breach| (kind, breach))
        });
        let written = |(kind, breach): (&str, Breach)| {
            let text = format!("{kind} {}: {}", breach.path, breach.fault);
            if breach.warns { format!("({text})") } else { text }
        };
        found.map(written).collect()
    }

    #[test]
    fn what_a_known_data_set_does_not_have_is_refused_before_it_is_read() {
        let digits = || json!({"name": "optdigits"});
        let threat = |data: Value, threat: Value| {
            let mut whole = json!({"attackers": 2.0, "first_round": 1, "seed": 0});
            threat.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            of_all(data, json!({"train": {"threat": whole}}))
        };
        let pixel = |more: Value| {
            let mut whole = json!({"kind": "pixel-backdoor", "target": 0, "size": 2, "fraction": 0.5});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            whole
        };
        assert!(threat(digits(), pixel(json!({"size": 8}))).is_empty());
        says(
            &threat(digits(), pixel(json!({"target": 10}))),
            "train threat.target: `target` is 10, but the data set has the labels 0 to 9",
        );
        says(&threat(digits(), pixel(json!({"size": 9}))), "train threat.size: a pattern of 9 x 9 pixels does not fit samples of 8 x 8");
        says(
            &threat(digits(), pixel(json!({"fraction": 0.09}))),
            "train threat.fraction: `fraction` 0.09 of a batch of 10 samples is none",
        );
        assert!(
            threat(digits(), pixel(json!({"fraction": 0.0}))).is_empty() && threat(digits(), pixel(json!({"fraction": 0.1}))).is_empty()
        );
        assert!(threat(digits(), pixel(json!({"fraction": 0.01, "attackers": 0.0}))).is_empty());
        let replacement = pixel(json!({"kind": "model-replacement", "target": 12}));
        says(&threat(digits(), replacement), "train threat.target: `target` is 12");
        let edge = |source: u64, target: u64| json!({"kind": "edge-case", "source": source, "target": target, "fraction": 0.5});
        says(&threat(digits(), edge(11, 1)), "train threat.source: `source` is 11, but the data set has the labels 0 to 9");
        says(&threat(digits(), edge(1, 11)), "train threat.target: `target` is 11");
        let flip = |from: Value, to: Value| json!({"kind": "label-flipping", "from": from, "to": to, "chained": false});
        says(&threat(digits(), flip(json!([3, 10]), json!([4, 5]))), "train threat.from: `label-flipping` changes label 10");
        says(&threat(digits(), flip(json!([3]), json!([17]))), "train threat.to: `label-flipping` changes label 17");
        // Of one's own files nothing is known, and texts have no pixels.
        assert!(threat(json!({"name": "csv", "file": "x.csv"}), pixel(json!({"target": 99, "size": 99}))).is_empty());
        let of_text = threat(json!({"name": "ag-news"}), pixel(json!({})));
        assert!(of_text.iter().any(|line| line.starts_with("train threat: a pattern of pixels does not apply to a text")), "{of_text:?}");
    }

    #[test]
    fn models_that_do_not_fit_a_known_data_set() {
        let found = |data: Value, model: Value| of_all(data, json!({"model": model}));
        says(&found(json!({"name": "optdigits"}), json!({"kind": "cnn"})), "model : model `cnn` for 1x8x8 inputs: ");
        assert!(found(json!({"name": "mnist"}), json!({"kind": "cnn"})).is_empty());
        says(
            &found(json!({"name": "mnist"}), json!({"kind": "fasttext"})),
            "model kind: model `fasttext` takes texts, but the samples are numbers",
        );
        says(
            &found(json!({"name": "ag-news"}), json!({"kind": "cnn"})),
            "model kind: model `cnn` takes numbers, but the samples are texts",
        );
        assert!(found(json!({"name": "ag-news"}), json!({"kind": "fasttext"})).is_empty());
    }

    #[test]
    fn batches_that_nobody_fills_and_rounds_without_uploads() {
        let found = |data: Value, train: Value| of_all(data, json!({"train": train}));
        let digits = |limit: u64| json!({"name": "optdigits", "limit": limit});
        assert!(found(digits(200), json!({})).is_empty());
        says(&found(digits(100), json!({})), "(train batch_size: `batch_size` is 10, but clients have 7.5 training samples on average");
        assert!(found(digits(100), json!({"drop_last": false})).is_empty());
        says(
            &found(digits(5000), json!({"few_shot": 1, "batch_size": 11})),
            "train batch_size: `batch_size` is 11, but `few_shot: 1` leaves",
        );
        assert!(found(digits(5000), json!({"few_shot": 1, "batch_size": 10})).is_empty());
        says(&found(digits(5000), json!({"drop_rate": 1.0})), "(train drop_rate: `drop_rate` 1 leaves no upload in a round");
        says(&found(digits(5000), json!({"drop_rate": 0.95})), "(train drop_rate: `drop_rate` 0.95 leaves no upload in a round");
        assert!(found(digits(5000), json!({"drop_rate": 1.0, "drop_count": "round"})).is_empty());
    }

    #[test]
    fn attacks_on_one_sample_need_updates_of_one() {
        let found = |attack: Value, train: Value| of_all(json!({"name": "optdigits"}), json!({"attack": attack, "train": train}));
        let idlg = || json!({"kind": "idlg"});
        says(&found(idlg(), json!({"batch_size": 4})), "attack : iDLG reads off the class of one sample, but the update is of 4");
        assert!(found(idlg(), json!({"batch_size": 1})).is_empty());
        // Without samples that are left out only the data say how many there are; and where nothing is sent, the attack says so itself.
        assert!(found(idlg(), json!({"batch_size": 4, "drop_last": false})).is_empty());
        assert!(found(idlg(), json!({"batch_size": 4, "algorithm": {"name": "local"}})).is_empty());
        let inverting = |labels: &str| json!({"kind": "inverting-gradients", "labels": labels, "most_samples": 16});
        says(&found(inverting("inferred"), json!({"batch_size": 2})), "attack : `labels: inferred` reads off the class of one sample");
        assert!(found(inverting("known"), json!({"batch_size": 16})).is_empty());
        says(&found(inverting("known"), json!({"batch_size": 17})), "attack most_samples: its update is of 17 samples, but at most 16");
    }

    #[test]
    fn privacy_that_cannot_be_or_says_nothing() {
        let found = |privacy: Value, more: Value| {
            let mut train = json!({"privacy": privacy});
            more.as_object().expect("a map").iter().for_each(|(name, value)| train[name] = value.clone());
            let model = train.as_object_mut().expect("a map").remove("model").unwrap_or_default();
            of_all(json!({"name": "optdigits"}), json!({"train": train, "model": model}))
        };
        let dp = |kind: &str, more: Value| {
            let mut whole = json!({"kind": kind, "clip": 1.0, "delta": 1e-5, "accounting": "poisson"});
            more.as_object().expect("a map").iter().for_each(|(name, value)| whole[name] = value.clone());
            whole
        };
        for kind in ["dp-fedavg", "dp-sgd"] {
            assert!(found(dp(kind, json!({"epsilon": 2.0})), json!({})).is_empty());
            says(&found(dp(kind, json!({"epsilon": 1e-9})), json!({})), "train privacy.epsilon: `epsilon` 0.000000001 is out of reach");
        }
        says(
            &found(dp("dp-fedavg", json!({"epsilon": 1e12})), json!({})),
            "train privacy.epsilon: `epsilon` 1000000000000 is out of reach",
        );
        let noise = |kind: &str, delta: f64| found(dp(kind, json!({"noise_multiplier": 1.0, "delta": delta})), json!({}));
        says(&noise("dp-fedavg", 0.5), "(train privacy.delta: `delta` is 0.5, not below one over the number of clients, 10");
        says(&noise("dp-fedavg", 0.1), "(train privacy.delta: `delta` is 0.1, not below one over the number of clients, 10");
        assert!(noise("dp-fedavg", 0.09).is_empty());
        says(&noise("dp-sgd", 0.01), "(train privacy.delta: `delta` is 0.01, not below one over the number of a client's training samples");
        assert!(noise("dp-sgd", 0.002).is_empty());
        // Without noise nothing is promised, so that no delta is useless.
        assert!(found(dp("dp-sgd", json!({"noise_multiplier": 0.0, "delta": 0.5})), json!({})).is_empty());
        let norm = || json!({"model": {"kind": "cnn", "norm": "batch", "kernel": 3, "padding": 1}});
        says(
            &found(dp("dp-sgd", json!({"noise_multiplier": 1.0})), norm()),
            "train privacy: `dp-sgd` does not apply: it does not protect the running",
        );
        let secure = json!({"secure": {"kind": "secagg", "bits": 16, "prime": 2_147_483_647u64, "dropouts": 0.05, "bandwidth": 1.0, "latency": 0.0}});
        says(
            &of_all(json!({"name": "csv"}), json!({"train": secure, "model": {"kind": "resnet"}}))[..1],
            "train secure: `secagg` does not apply: it does not sum the running",
        );
        says(&of_all(json!({"name": "csv"}), json!({"train": secure})), "train secure.dropouts: `dropouts` 0.05 of 10 clients is none");
    }
}
