//! The preset `variant: pfllib | paper` of the behaviours in which PFLlib's code differs from a paper.

use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Whose behaviour holds where none is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Variant {
    Pfllib,
    Paper,
}

impl Variant {
    /// The field `variant` with this default.
    pub(crate) fn field(self) -> Field {
        let default = if self == Self::Pfllib { "pfllib" } else { "paper" };
        Field::with(
            "variant",
            Type::Choice(&[("pfllib", "as PFLlib's code does it, to compare with its tables"), ("paper", "as the paper describes it")]),
            default,
            "Preset of the behaviours in which PFLlib's code differs from the paper; one that is set by itself wins.",
        )
        .from(
            "-",
            if self == Self::Pfllib { "PFLlib, to compare with it" } else { "the paper: an accident of PFLlib's code defeats the method" },
        )
    }
    /// A behaviour: its own setting, or the preset's.
    pub(crate) fn choose<T>(self, own: Option<T>, pfllib: T, paper: T) -> T {
        own.unwrap_or(match self {
            Self::Pfllib => pfllib,
            Self::Paper => paper,
        })
    }
}
