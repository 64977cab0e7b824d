//! The effective parameters of a stage: what the pipeline gives, over the defaults that all stages of the same variants share.

use serde_json::{Map, Value};
use std::sync::Arc;

/// Parameters by name. A sweep of a hundred thousand stages keeps one copy of the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    shared: Arc<Map<String, Value>>,
    own: Map<String, Value>,
}

impl Params {
    /// `own` over `shared`.
    #[must_use]
    pub fn new(shared: Arc<Map<String, Value>>, own: Map<String, Value>) -> Self {
        Self { shared, own }
    }
    /// The value of a parameter; `None` for an optional one that is absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.own.get(name).or_else(|| self.shared.get(name))
    }
    /// All parameters, those that the pipeline gives first, then the defaults; each name once.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.own.iter().chain(self.shared.iter().filter(|(name, _)| !self.own.contains_key(*name)))
    }
    /// The parameters that the pipeline gives itself.
    #[must_use]
    pub fn given(&self) -> &Map<String, Value> {
        &self.own
    }
    /// All parameters as one map.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        self.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

impl From<Map<String, Value>> for Params {
    fn from(own: Map<String, Value>) -> Self {
        Self { shared: Arc::default(), own }
    }
}
