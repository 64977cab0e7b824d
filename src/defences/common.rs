//! What defences have in common: whose form they take, and how many attackers they reckon with.

use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Whose form a defence takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Form {
    /// As published.
    #[default]
    Paper,
    /// As FedML runs it.
    Fedml,
}

impl Form {
    /// Its description.
    pub fn field(doc: &'static str) -> Field {
        Field::with("variant", Type::Choice(&[("paper", "as published"), ("fedml", "as FedML runs it")]), "paper", doc)
    }
}

/// How many malicious uploads a rule reckons with.
pub(super) fn byzantine() -> Field {
    Field::with("byzantine", Type::at_least(0), 1, "How many malicious uploads of a round it has to withstand.").from("f", "")
}

/// Refuses a rule that needs more uploads than a round has. `rule` says how many it needs.
pub(super) fn enough(name: &str, uploads: usize, needed: usize, rule: &str) -> Outcome<()> {
    if uploads >= needed {
        return Ok(());
    }
    Err(Fault::stage(format!("`{name}` needs {rule}, here at least {needed} uploads in a round, but there are {uploads}"))
        .help("raise the number of clients in a round, or lower what the defence has to withstand"))
}
