//! What can be known to be wrong with the parameters of a data set before any file is looked for.

use super::registry::inside;
use super::{facts, synthetic, tables, text};
use crate::base::Fault;
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

/// Paths that lead out of the data folders, columns of csv that cannot be, a limit above what there is, and more than fits the memory
/// of this machine.
#[must_use]
pub fn rules(name: &str, params: &Map<String, Value>) -> Vec<Breach> {
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let mut breaches = Vec::new();
    for what in ["file", "folder"] {
        breaches.extend(word(what).and_then(|path| inside(what, path).err()).map(|fault| Breach::new(what, fault)));
    }
    if name == "csv" {
        breaches.extend(tables::delimiter(word("delimiter")).err().map(|fault| Breach::new("delimiter", fault)));
        breaches.extend(tables::columns(word("label"), word("group")).err().map(|fault| Breach::new("group", fault)));
    }
    let mut all = params.clone();
    let limit = all.remove("limit").and_then(|limit| limit.as_u64());
    let Some(known) = facts(name, &all) else { return breaches };
    if let (Some(limit), Some(there)) = (limit, known.samples)
        && limit > there as u64
    {
        let fault = Fault::stage(format!("`limit` is {limit}, but data set `{name}` has {there} samples"));
        breaches.push(Breach::new("limit", fault.help(format!("choose at most {there}, or leave `limit` out"))));
    }
    if known.text
        && let (Some(samples), Some(shape)) = (known.samples, known.shape)
    {
        breaches.extend(text::rules(name, samples, shape.width));
    }
    breaches.extend(synthetic::rules(name, params));
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_stay_inside_and_columns_are_two() {
        let found = |name: &str, params: Value| {
            let said = rules(name, params.as_object().expect("a map"));
            said.into_iter().map(|breach| format!("{}: {}", breach.path, breach.fault)).collect::<Vec<_>>().join("; ")
        };
        for path in ["/data/x", "../x", "a/../../x", ""] {
            assert!(
                found("npz", json!({"file": path})).starts_with(&format!("file: `file` is `{path}`, but must be a path inside")),
                "{path}"
            );
            assert!(found("images", json!({"folder": path})).starts_with("folder: `folder` is"), "{path}");
        }
        assert_eq!(found("csv", json!({"file": "a/b.csv", "delimiter": ";", "label": "y", "group": "who"})), "");
        assert_eq!(found("csv", json!({"delimiter": ""})), "delimiter: `delimiter` is ``, but must be one character of ASCII");
        assert!(found("csv", json!({"delimiter": "ä"})).starts_with("delimiter: "));
        assert_eq!(found("csv", json!({"label": "y", "group": "y"})), "group: `group` and `label` are both `y`");
    }
}
