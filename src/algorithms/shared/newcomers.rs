//! Algorithms that have nothing to offer to clients which join after the last round.

use crate::base::{Fault, Outcome};
use crate::fl::World;

/// Refuses new clients before the first round instead of after the last.
///
/// # Errors
/// A stage fault when the settings hold clients back.
pub(crate) fn refuse(world: &World, algorithm: &str) -> Outcome<()> {
    if world.newcomers.is_empty() {
        return Ok(());
    }
    Err(Fault::stage(format!("new clients are not defined for `{algorithm}`"))
        .help("its server keeps no model for one to start from, and neither its paper nor PFLlib defines one: leave `new_clients` at 0"))
}
