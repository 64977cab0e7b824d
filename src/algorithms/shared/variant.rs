//! The preset that chooses between the reference's behaviors and the paper's.

use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Whose behaviors hold where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    /// PFLlib's.
    Pfllib,
    /// The paper's.
    Paper,
}

impl Variant {
    /// The field `variant`.
    pub(crate) fn field(default: &'static str) -> Field {
        let choices = &[("pfllib", "as PFLlib computes it"), ("paper", "as the paper describes it")];
        Field::with("variant", Type::Choice(choices), default, "Preset of the optional behaviors; each can also be set alone.")
    }
    /// The behavior that was set alone, or else the preset's.
    pub(crate) fn pick<T>(self, own: Option<T>, pfllib: T, paper: T) -> T {
        own.unwrap_or(match self {
            Self::Pfllib => pfllib,
            Self::Paper => paper,
        })
    }
}
