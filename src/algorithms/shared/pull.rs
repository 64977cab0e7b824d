//! Local training under a pull of constant length: the gradient of a distance that is not squared.

use super::flat::squared_distance;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::update::Correction;
use crate::fl::{Objective, Trainer, Update};

/// E epochs of cross-entropy plus `strength * |p - reference|`, whose gradient is 0 where the distance is, and `more` corrections.
///
/// # Errors
/// A stage fault when a batch does not fit the model.
pub(crate) fn descend(
    trainer: &mut Trainer<'_>,
    model: &mut Model,
    strength: f32,
    reference: &[f32],
    more: &[Correction<'_, f32>],
) -> Outcome<()> {
    model.training = true;
    let mut optimiser = trainer.optimiser();
    let mut corrections = vec![Correction::Proximal { mu: 0.0, reference }];
    corrections.extend_from_slice(more);
    for _ in 0..trainer.epochs() {
        trainer.pass(trainer.training(), |trainer, batch| {
            let distance = squared_distance(&model.params, reference).sqrt() as f32;
            let mu = if distance > 0.0 { strength / distance } else { 0.0 };
            corrections[0] = Correction::Proximal { mu, reference };
            trainer.step(model, batch, &Objective::CrossEntropy, Update::new(&mut optimiser).with(&corrections)).map(drop)
        })?;
    }
    Ok(())
}
