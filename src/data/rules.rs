//! What can be known to be wrong with the parameters of a data set before any file is looked for.

use super::registry::inside;
use super::tables;
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

/// Paths that lead out of the data folders, and columns of csv that cannot be.
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
