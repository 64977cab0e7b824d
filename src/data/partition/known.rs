//! What can be known to be wrong with a partition before its data set is read; a running stage finds the same, and more.

use super::super::facts::Facts;
use super::super::registry::inside;
use super::rules::{Has, Rule, named};
use super::{Procedure, regions};
use crate::base::{Fault, Outcome, text};
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

/// Parameters that cannot be met together, and more clients, samples or classes than such a data set has, where that is known.
#[must_use]
pub fn rules(params: &Map<String, Value>, data: Option<&Facts>) -> Vec<Breach> {
    let Some(rule) = params.get("kind").and_then(Value::as_str).and_then(named) else { return Vec::new() };
    let mut breaches = seed(rule, params).err().map(|fault| Breach::new("seed", fault)).into_iter().collect::<Vec<_>>();
    breaches.extend(balance(rule, params).err().map(|fault| Breach::new("balance", fault)));
    breaches.extend(limits(params).err().map(|fault| Breach::new("most_samples", fault)));
    breaches.extend(test(params).err().map(|fault| Breach::new("test", fault)));
    breaches.extend(too_large(params));
    breaches.extend(split(rule, params).err().map(|fault| Breach::new("most_samples", fault)));
    if rule.has == Has::Split {
        breaches.extend(regions::rules(params, data.map(|data| data.classes)));
    }
    if let Some(fault) = params.get("file").and_then(Value::as_str).and_then(|file| inside("file", file).err()) {
        breaches.push(Breach::new("file", fault));
    }
    breaches.extend(data.map(|data| of_data(rule, params, data)).unwrap_or_default());
    breaches
}

/// The greatest values with which draws and their sums are finite.
const GREATEST: [(&str, f64); 6] =
    [("alpha", 1e100), ("beta", 1e100), ("size_alpha", 1e100), ("size_sigma", 100.0), ("sigma", 100.0), ("noise", 1e6)];

/// Numbers with which a draw would be none.
pub(super) fn too_large(params: &Map<String, Value>) -> Vec<Breach> {
    let breach = |&(name, most): &(&str, f64)| {
        let found = params.get(name).and_then(Value::as_f64).filter(|found| *found > most)?;
        let fault = Fault::stage(format!("`{name}` is {found:e}, with which numbers are drawn that are not finite"));
        Some(Breach::new(name, fault.help(format!("choose at most {most:e}"))))
    };
    GREATEST.iter().filter_map(breach).collect()
}

/// Refuses a seed that numpy's generator does not take.
pub(super) fn seed(rule: &Rule, params: &Map<String, Value>) -> Outcome<()> {
    let procedure = rule.procedure(params.get("variant").and_then(Value::as_str));
    let seed = params.get("seed").and_then(Value::as_u64).unwrap_or_default();
    if procedure == Procedure::Clean || u32::try_from(seed).is_ok() {
        return Ok(());
    }
    Err(Fault::stage(format!("`seed` is {seed}, but `variant: {}` takes 0 to {}", procedure.describe().0, u32::MAX))
        .help("numpy's generator takes no greater seed; choose another, or `variant: clean`"))
}

/// Refuses proportions without balance in PFLlib's procedure, which has none.
pub(super) fn balance(rule: &Rule, params: &Map<String, Value>) -> Outcome<()> {
    let pfllib = rule.procedure(params.get("variant").and_then(Value::as_str)) == Procedure::Pfllib;
    if rule.name != "dirichlet" || !pfllib || params.get("balance").and_then(Value::as_bool) != Some(false) {
        return Ok(());
    }
    Err(Fault::stage("`balance: false` of `dirichlet` is not possible with `variant: pfllib`, which always balances")
        .help("say `variant: clean` or `variant: fedml`, or leave `balance` out"))
}

/// Refuses a most that is below the least.
pub(super) fn limits(params: &Map<String, Value>) -> Outcome<()> {
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    match (whole("least_samples"), whole("most_samples")) {
        (Some(least), Some(most)) if least > most => {
            Err(Fault::stage(format!("`most_samples` is {most}, which is less than `least_samples`, {least}"))
                .help("raise `most_samples`, or lower `least_samples`"))
        }
        _ => Ok(()),
    }
}

/// Refuses test sets of samples that nobody has.
pub(super) fn test(params: &Map<String, Value>) -> Outcome<()> {
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let nothing = params.get("hold_out").and_then(Value::as_f64).unwrap_or_default() <= 0.0;
    match (word("test"), word("pool") == Some("train")) {
        (Some("hold-out"), false) if nothing => {
            Err(Fault::stage("`test: hold-out` needs samples that are held out").help("say `pool: train`, or `hold_out: 0.1`"))
        }
        (Some("original"), true) => Err(Fault::stage("`pool: train` gives no client a sample of the original test set")
            .help("leave `pool` out, or say `test: hold-out`")),
        _ => Ok(()),
    }
}

/// Refuses what only an original test set could give, of a data set without one.
pub(super) fn no_test_set(params: &Map<String, Value>) -> Outcome<()> {
    let is = |name: &str, word: &str| params.get(name).and_then(Value::as_str) == Some(word);
    let (found, help) = match (is("pool", "train"), is("test", "original")) {
        (true, _) => ("`pool: train`", "use `hold_out` for a part of the samples"),
        (_, true) => ("`test: original`", "use `test: split`, or `test: hold-out` with a `hold_out`"),
        _ => return Ok(()),
    };
    Err(Fault::stage(format!("{found} needs an original test set, but the data set has none")).help(help))
}

/// The fault of a fraction that is too small to hold out a sample.
pub(super) fn nothing_held_out(fraction: f64) -> Fault {
    let what = format!("`hold_out: {fraction}` is less than half a sample of each class, so that no test set is held out");
    Fault::stage(what).help("choose a greater `hold_out`")
}

/// Refuses clients that have room for fewer classes than there are.
pub(super) fn covered(clients: usize, per_client: usize, classes: usize) -> Outcome<()> {
    if clients.saturating_mul(per_client) >= classes {
        return Ok(());
    }
    let (of, each, all) = (text::count(clients, "client"), text::count(per_client, "class"), text::count(classes, "class"));
    Err(Fault::stage(format!("infeasible: {of} of {each} each cannot hold all {all}"))
        .help("choose more clients or a greater `classes_per_client`"))
}

/// Refuses groups of more classes than there are.
pub(super) fn so_many_classes(least: usize, classes: usize) -> Outcome<()> {
    if least <= classes {
        return Ok(());
    }
    Err(Fault::stage(format!("`least_classes` is {least}, but the data set has {}", text::count(classes, "class")))
        .help(format!("choose 1 to {classes}")))
}

/// Refuses so few samples a client that PFLlib's split leaves none for training.
fn split(rule: &Rule, params: &Map<String, Value>) -> Outcome<()> {
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let ratio = params.get("train_ratio").and_then(Value::as_f64).unwrap_or(0.75);
    let most = params.get("most_samples").and_then(Value::as_u64);
    let splits = rule.procedure(word("variant")) == Procedure::Pfllib && word("test").is_none_or(|test| test == "split");
    match most.filter(|most| splits && (ratio * *most as f64).floor() < 1.0) {
        None => Ok(()),
        Some(most) => {
            let what = format!("`most_samples` is {most}, of which `train_ratio` {ratio} leaves a client none for training");
            Err(Fault::stage(what).help("choose a greater `most_samples`, or `variant: clean`"))
        }
    }
}

/// What a data set of which this is known does not have, or not enough of.
fn of_data(rule: &Rule, params: &Map<String, Value>, data: &Facts) -> Vec<Breach> {
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    let count = |name: &str| whole(name).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let mut breaches = of_sides(rule, params, data);
    let mut breach = |path: &str, what: String, help: &str| breaches.push(Breach::new(path, Fault::stage(what).help(help)));
    let classes = data.classes as u64;
    if let Some(found) = whole("classes_per_client").filter(|found| *found > classes) {
        let what = format!("`classes_per_client` is {found}, but the data set has {classes} classes");
        breach("classes_per_client", what, &format!("choose 1 to {classes}"));
    }
    if rule.name == "natural" && !data.groups {
        breach(
            "kind",
            "the data set does not say who its samples come from, so it has no natural clients".to_owned(),
            "choose another `kind`; `pflpipe data info NAME` says what a data set has",
        );
    }
    if rule.name == "pachinko" && !data.superclasses {
        breach(
            "kind",
            "the classes of the data set have none above them, which `pachinko` needs".to_owned(),
            "use `cifar100`, or another kind of partition",
        );
    }
    if rule.name == "feature-noise" && data.text {
        breach(
            "kind",
            "noise can be added to numbers only, but the samples are texts".to_owned(),
            "choose another `kind`, or a data set of numbers",
        );
    }
    if rule.name == "imported" && !data.groups && params.get("file").is_none_or(Value::is_null) {
        breach("file", "the data set came without clients".to_owned(), "say which `file` holds the index lists");
    }
    if let Some(fault) = count("least_classes").and_then(|least| so_many_classes(least, data.classes).err()) {
        breaches.push(Breach::new("least_classes", fault));
    }
    let Some(clients) = whole("clients") else { return breaches };
    if rule.name == "natural"
        && let Some(there) = data.count.filter(|there| clients > *there as u64)
    {
        let what = format!("infeasible: {clients} clients need as many groups, but the data set has {there}");
        breaches.push(Breach::new("clients", Fault::stage(what).help(format!("choose at most {there}, or another `kind`"))));
    }
    let procedure = rule.procedure(params.get("variant").and_then(Value::as_str));
    let covers = match rule.name {
        // PFLlib's leaves classes out.
        "pathological" | "label-count" => procedure == Procedure::Clean,
        name => name == "extended-dirichlet",
    };
    // With a part of the samples held out a class may have none left.
    if covers && data.full && params.get("hold_out").and_then(Value::as_f64).unwrap_or_default() <= 0.0 {
        let (clients, each) = (usize::try_from(clients).unwrap_or(usize::MAX), count("classes_per_client").unwrap_or(2));
        breaches.extend(covered(clients, each, data.classes).err().map(|fault| Breach::new("clients", fault)));
    }
    let mut breach = |path: &str, what: String, help: &str| breaches.push(Breach::new(path, Fault::stage(what).help(help)));
    let held_out = params.get("hold_out").and_then(Value::as_f64).unwrap_or_default() > 0.0;
    if rule.name == "power-law" && procedure == Procedure::Clean && data.full && !held_out && clients + 1 < classes {
        let what = format!("infeasible: {clients} clients of two neighboring classes each cannot hold all {classes} classes");
        breach("clients", what, "choose more clients");
    }
    if rule.name == "power-law" && procedure == Procedure::Fedml && !clients.is_multiple_of(classes.max(1)) {
        let what = format!("infeasible: {clients} clients are no multiple of the {classes} classes");
        breach("clients", what, "choose a multiple, or `variant: clean`");
    }
    let Some(all) = data.samples.map(|samples| samples as u64) else { return breaches };
    // At most so many: of each class as many are held out as its fraction, rounded.
    let held = params.get("hold_out").and_then(Value::as_f64).unwrap_or_default();
    let most = if held > 0.0 { ((all as f64 * (1.0 - held)).ceil() as u64).saturating_add(classes).min(all) } else { all };
    let least = whole("least_samples").unwrap_or_default();
    let there = if held > 0.0 {
        format!("`hold_out: {held}` leaves {most} of {all} samples at most")
    } else {
        format!("the data set has {}", text::count(all as usize, "sample"))
    };
    let lower = if held >= 0.5 { "a lower `hold_out`, " } else { "" };
    if clients > most {
        breach(
            "clients",
            format!("`clients` is {clients}, but {there}"),
            &format!("choose {lower}{}at most as many clients as there are samples", if held >= 0.5 { "or " } else { "" }),
        );
    } else if least.saturating_mul(clients) > most {
        let needed = least.saturating_mul(clients);
        let what = format!("infeasible: {clients} clients with at least {least} samples each need {needed} samples, but {there}");
        let bound = most / clients.max(1);
        breach("least_samples", what, &format!("choose {lower}fewer clients, or `least_samples` of at most {bound}"));
    }
    breaches
}

/// What the data set's original split, or its classes, cannot give.
fn of_sides(rule: &Rule, params: &Map<String, Value>, data: &Facts) -> Vec<Breach> {
    if !matches!(rule.has, Has::All | Has::Groups) {
        return Vec::new();
    }
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let mut breaches = Vec::new();
    if data.tests == Some(false)
        && let Err(fault) = no_test_set(params)
    {
        breaches.push(Breach::new(if word("pool") == Some("train") { "pool" } else { "test" }, fault));
    }
    let fraction = params.get("hold_out").and_then(Value::as_f64).unwrap_or_default();
    if fraction > 0.0
        && word("test") == Some("hold-out")
        && word("pool") != Some("train")
        && data.largest.is_some_and(|largest| fraction * (largest as f64) < 0.5)
    {
        breaches.push(Breach::new("hold_out", nothing_held_out(fraction)));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(kind: &str, mut params: Value, data: Option<&Facts>) -> String {
        params["kind"] = kind.into();
        let said = rules(params.as_object().expect("a map"), data);
        said.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn what_there_is_not_enough_of() {
        let data = Facts { samples: Some(100), ..Facts::of(10) };
        let of = |kind: &str, params: Value| found(kind, params, Some(&data));
        assert_eq!(of("dirichlet", json!({"clients": 100, "least_samples": 1})), "");
        assert_eq!(of("pathological", json!({"clients": 100, "classes_per_client": 10})), "");
        assert_eq!(of("iid", json!({"clients": 101})), "clients: `clients` is 101, but the data set has 100 samples");
        assert_eq!(
            of("label-count", json!({"classes_per_client": 11})),
            "classes_per_client: `classes_per_client` is 11, but the data set has 10 classes"
        );
        assert!(
            of("iid", json!({"clients": 10, "least_samples": 11})).starts_with("least_samples: infeasible: 10 clients with at least 11")
        );
        assert!(of("iid", json!({"clients": 10, "least_samples": u64::MAX})).starts_with("least_samples: infeasible"));
        assert_eq!(
            of("iid", json!({"clients": 50, "hold_out": 0.99})),
            "clients: `clients` is 50, but `hold_out: 0.99` leaves 12 of 100 samples at most"
        );
        assert_eq!(of("iid", json!({"clients": 12, "hold_out": 0.99})), "", "rounding may leave as many");
        assert!(of("natural", json!({})).starts_with("kind: the data set does not say who"));
        assert!(of("pachinko", json!({"clients": 3})).starts_with("kind: the classes of the data set have none above"));
        assert!(of("power-law", json!({"clients": 15})).starts_with("clients: infeasible: 15 clients are no multiple of the 10"));
        assert_eq!(of("power-law", json!({"clients": 15, "variant": "clean"})), "");
        let texts = Facts { text: true, groups: true, ..Facts::of(4) };
        assert!(found("feature-noise", json!({"clients": 3}), Some(&texts)).starts_with("kind: noise can be added to numbers only"));
        assert_eq!(found("natural", json!({}), Some(&texts)), "");
    }

    #[test]
    fn what_cannot_be_met_whatever_the_data_are() {
        let of = |kind: &str, params: Value| found(kind, params, None);
        let limits = json!({"clients": 3, "least_samples": 20, "most_samples": 10});
        assert_eq!(of("iid", limits), "most_samples: `most_samples` is 10, which is less than `least_samples`, 20");
        assert_eq!(of("iid", json!({"clients": 3, "least_samples": 10, "most_samples": 10})), "");
        assert_eq!(of("iid", json!({"test": "hold-out"})), "test: `test: hold-out` needs samples that are held out");
        assert_eq!(of("iid", json!({"test": "hold-out", "hold_out": 0.1})), "");
        assert_eq!(of("iid", json!({"test": "hold-out", "pool": "train"})), "");
        assert!(of("iid", json!({"test": "original", "pool": "train"})).starts_with("test: `pool: train` gives no client"));
        let seed = |kind: &str, variant: &str, seed: u64| of(kind, json!({"variant": variant, "seed": seed, "clients": 3}));
        assert_eq!(seed("iid", "pfllib", u32::MAX.into()), "");
        assert!(seed("iid", "pfllib", 1 << 32).starts_with("seed: `seed` is 4294967296, but `variant: pfllib` takes 0 to"));
        assert!(seed("mixture", "fedlab", 1 << 32).starts_with("seed: "));
        assert_eq!(seed("iid", "clean", 1 << 32), "");
        assert!(of("quantity", json!({"seed": 1_u64 << 32})).contains("`variant: niid-bench`"), "the default has a generator of its own");
        assert_eq!(of("pachinko", json!({"seed": 1_u64 << 32})), "");
        for file in ["/lists.json", "../lists.json", ""] {
            assert!(of("imported", json!({"file": file})).starts_with(&format!("file: `file` is `{file}`, but must be a path inside")));
        }
        assert_eq!(of("imported", json!({"file": "a/lists.json"})), "");
    }

    #[test]
    fn regions_that_cannot_be() {
        let of = |more: Value, classes: Option<usize>| {
            let mut params = json!({"clients": 4, "regions": 2, "variant": "clean"});
            more.as_object().expect("a map").iter().for_each(|(name, value)| params[name] = value.clone());
            found("regions", params, classes.map(Facts::of).as_ref())
        };
        assert_eq!(of(json!({"skew": "hard"}), Some(2)), "");
        assert!(of(json!({"skew": "hard", "regions": 3}), Some(2)).starts_with("regions: `regions` is 3, but there are only 2 classes"));
        assert_eq!(of(json!({"regions": 5}), None), "regions: 4 clients cannot be in 5 regions");
        let matrix = |more: Value, classes: Option<usize>| {
            let mut params = json!({"skew": "matrix"});
            more.as_object().expect("a map").iter().for_each(|(name, value)| params[name] = value.clone());
            of(params, classes)
        };
        assert!(matrix(json!({}), None).starts_with("skew: `skew: matrix` needs either `shares` or `label_shares`"));
        let (shares, labels) = (json!([[1, 0, 1], [0, 1, 0]]), json!([[0.5, 0.5], [1, 0], [0, 0.2]]));
        assert!(matrix(json!({"shares": shares, "label_shares": labels}), None).starts_with("label_shares: `skew: matrix` needs either"));
        for classes in [None, Some(3)] {
            assert_eq!(matrix(json!({"shares": shares}), classes), "");
            assert_eq!(matrix(json!({"label_shares": labels}), classes), "");
        }
        assert_eq!(matrix(json!({"shares": [[1, 0, 1]]}), None), "shares: `shares` has 1 list, but must have 2, one for each region");
        assert_eq!(
            matrix(json!({"shares": [[1, 0, 1], [0, 1]]}), None),
            "shares.1: `shares` of region 1 has 2 numbers, but must have 3, one for each class"
        );
        assert!(matrix(json!({"shares": shares}), Some(4)).starts_with("shares.0: `shares` of region 0 has 3 numbers, but must have 4"));
        assert!(matrix(json!({"label_shares": labels}), Some(4)).starts_with("label_shares: `label_shares` has 3 lists, but must have 4"));
        assert!(matrix(json!({"label_shares": [[0.5, 0.5], [1]]}), None).starts_with("label_shares.1: `label_shares` of class 1 has 1"));
        assert!(matrix(json!({"label_shares": [[0.5, 0.7]]}), None).starts_with("label_shares.0: `label_shares` of class 0 sum to 1.2"));
        assert!(matrix(json!({"shares": [[1, 0], [0, 0]]}), None).starts_with("shares.1: region 1 gets no sample"));
        let profed = |shares: Value| matrix(json!({"shares": shares, "variant": "profed"}), None);
        assert!(profed(json!([[0.5, 0.6], [0, 1]])).starts_with("shares.0: `shares` of region 0 sum to 1.1"));
        assert_eq!(profed(json!([[0.5, 0.5], [0, 1]])), "");
        assert_eq!(
            matrix(json!({"shares": [[], []]}), None),
            "shares.0: `shares` of region 0 has 0 numbers, but must have 1, one for each class"
        );
    }
}
