//! A trace of PFLlib's constructors.

use crate::base::Outcome;
use crate::fl::{Algorithm, Arena, Trainer, Who};

/// Sends every client's first batch through its model in training mode, as PFLlib does to learn the width of the features: its
/// normalisation layers take note of that batch. Without such layers nothing happens.
pub(crate) fn probe<A: Algorithm>(arena: &mut Arena<'_, A>) -> Outcome<()> {
    if arena.world.layout().buffers.is_empty() {
        return Ok(());
    }
    let ids = arena.ids(Who::All);
    arena.each(&ids, |trainer, _, client| {
        client.model.training = true;
        trainer.first_batch(trainer.training(), |trainer: &mut Trainer<'_>, batch| trainer.forward(&mut client.model, batch).map(drop))
    })?;
    Ok(())
}
