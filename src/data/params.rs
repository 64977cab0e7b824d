//! Reads typed parameters out of a map.
//!
//! The checks of the pipeline have already refused most mistakes; this is the second line for programs that use the library. It
//! does not know which parameters exist.

use crate::base::{Fault, Outcome};
use serde_json::{Map, Value};

/// A map of parameters and what they belong to, for messages.
#[derive(Clone, Copy)]
pub(super) struct Params<'a> {
    map: &'a Map<String, Value>,
    owner: &'a str,
}

impl<'a> Params<'a> {
    pub fn new(map: &'a Map<String, Value>, owner: &'a str) -> Self {
        Self { map, owner }
    }
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }
    fn wrong(&self, name: &str, value: &Value, wanted: &str) -> Fault {
        Fault::stage(format!("`{name}` of `{}` is {value}, but must be {wanted}", self.owner))
    }
    /// An integer in `min..=max`.
    pub fn integer(&self, name: &str, min: u64, max: u64) -> Outcome<Option<u64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = value.as_u64().filter(|n| (min..=max).contains(n));
        let range =
            if max >= i64::MAX as u64 { format!("an integer of at least {min}") } else { format!("an integer from {min} to {max}") };
        found.map(Some).ok_or_else(|| self.wrong(name, value, &range))
    }
    /// A count of at least `min`.
    pub fn count(&self, name: &str, min: u64) -> Outcome<Option<usize>> {
        Ok(self.integer(name, min, u64::MAX)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
    }
    /// A finite number above `above` and, where given, below `below`.
    pub fn number(&self, name: &str, above: f64, below: Option<f64>) -> Outcome<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = value.as_f64().filter(|x| x.is_finite() && *x > above && below.is_none_or(|b| *x < b));
        let range = below.map_or(format!("a number above {above}"), |b| format!("a number above {above} and below {b}"));
        found.map(Some).ok_or_else(|| self.wrong(name, value, &range))
    }
    /// Rows of numbers of at least 0, all of them `width` long.
    pub fn matrix(&self, name: &str, height: usize, width: usize) -> Outcome<Option<Vec<Vec<f64>>>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = |value: &Value| value.as_f64().filter(|x| x.is_finite() && *x >= 0.0);
        let row = |value: &Value| value.as_array()?.iter().map(number).collect::<Option<Vec<f64>>>().filter(|row| row.len() == width);
        let rows = value.as_array().and_then(|rows| rows.iter().map(row).collect::<Option<Vec<_>>>()).filter(|rows| rows.len() == height);
        rows.map(Some).ok_or_else(|| self.wrong(name, value, &format!("{height} lists of {width} numbers of at least 0")))
    }
    /// `true` or `false`.
    pub fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        let Some(value) = self.get(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(name, value, "`true` or `false`"))
    }
    /// Any text.
    pub fn text(&self, name: &str) -> Outcome<Option<&'a str>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(name, value, "a text"))
    }
    /// One of the words: its position among them.
    pub fn choice(&self, name: &str, words: &[(&'static str, &'static str)]) -> Outcome<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let found = value.as_str().and_then(|text| words.iter().position(|(word, _)| *word == text));
        let names = crate::base::text::quoted(words.iter().map(|(word, _)| *word));
        found.map(Some).ok_or_else(|| self.wrong(name, value, &format!("one of {names}")))
    }
    /// All of them.
    pub fn map(&self) -> &'a Map<String, Value> {
        self.map
    }
    /// The value of a required parameter.
    pub fn required<T>(&self, name: &str, value: Option<T>) -> Outcome<T> {
        value.ok_or_else(|| Fault::stage(format!("`{}` needs `{name}`", self.owner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_value_is_shown_with_what_is_allowed() {
        let map = json!({"alpha": 0, "clients": 2.5, "seed": null, "balance": "yes", "variant": "pfl"});
        let params = Params::new(map.as_object().expect("a map"), "dirichlet");
        let text = |fault: Fault| fault.to_string();
        let found = params.number("alpha", 0.0, None).map_err(text);
        assert_eq!(found, Err("`alpha` of `dirichlet` is 0, but must be a number above 0".into()));
        let found = params.count("clients", 1).map_err(text);
        assert_eq!(found, Err("`clients` of `dirichlet` is 2.5, but must be an integer of at least 1".into()));
        assert_eq!(params.integer("seed", 0, 9).map_err(text), Ok(None));
        assert!(params.flag("balance", true).is_err());
        let found = params.choice("variant", &[("pfllib", ""), ("clean", "")]).map_err(text);
        assert_eq!(found, Err("`variant` of `dirichlet` is \"pfl\", but must be one of `pfllib`, `clean`".into()));
    }
}
