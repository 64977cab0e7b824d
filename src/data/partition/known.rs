//! What can be known to be wrong with a partition before its data set is read; a running stage finds the same, and more.

use super::super::facts::Facts;
use crate::base::{Fault, text};
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

/// More clients, samples or classes than such a data set has.
#[must_use]
pub fn rules(params: &Map<String, Value>, data: &Facts) -> Vec<Breach> {
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    let mut breaches = Vec::new();
    if let Some(found) = whole("classes_per_client").filter(|found| *found > data.classes as u64) {
        let what = format!("`classes_per_client` is {found}, but the data set has {} classes", data.classes);
        breaches.push(Breach::new("classes_per_client", Fault::stage(what).help(format!("choose 1 to {}", data.classes))));
    }
    let (Some(clients), Some(samples)) = (whole("clients"), data.samples) else { return breaches };
    let least = whole("least_samples").unwrap_or_default();
    if clients > samples as u64 {
        let what = format!("`clients` is {clients}, but the data set has {}", text::count(samples, "sample"));
        breaches.push(Breach::new("clients", Fault::stage(what).help("choose at most as many clients as there are samples")));
    } else if least.saturating_mul(clients) > samples as u64 {
        let what = format!(
            "infeasible: {clients} clients with at least {least} samples each need {} samples, but the data set has {samples}",
            least.saturating_mul(clients)
        );
        let help = format!("choose fewer clients, or `least_samples` of at most {}", samples as u64 / clients.max(1));
        breaches.push(Breach::new("least_samples", Fault::stage(what).help(help)));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_there_is_not_enough_of() {
        let data = Facts { classes: 10, shape: None, samples: Some(100), text: false };
        let found = |params: Value| {
            let said = rules(params.as_object().expect("a map"), &data);
            said.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(found(json!({"clients": 100, "least_samples": 1, "classes_per_client": 10})), "");
        assert_eq!(found(json!({"clients": 101})), "clients: `clients` is 101, but the data set has 100 samples");
        assert_eq!(
            found(json!({"classes_per_client": 11})),
            "classes_per_client: `classes_per_client` is 11, but the data set has 10 classes"
        );
        assert!(found(json!({"clients": 10, "least_samples": 11})).starts_with("least_samples: infeasible: 10 clients with at least 11"));
        assert!(found(json!({"clients": 10, "least_samples": u64::MAX})).starts_with("least_samples: infeasible"));
    }
}
