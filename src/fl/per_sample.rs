//! Gradients of single samples, clipped one by one, and the rules under which their noise protects what a client sends.
//!
//! The samples go through the engine one at a time, in the scratch of the worker, so that a step allocates nothing.

use super::batch::{Batch, Order};
use super::objective::Objective;
use super::trainer::Trainer;
use super::world::Worker;
use crate::base::{Fault, Outcome};
use crate::engine::update::{add_scaled, norm};
use crate::engine::{Model, Parts, Support, loss};

/// The reasons of [`Algorithm::beside_gradients`](super::Algorithm::beside_gradients).
pub const OWN_LOSS: &str = "has a loss of its own or of several models, not the plain cross-entropy of one";
/// See [`OWN_LOSS`].
pub const SEVERAL: &str = "computes several gradients of the same batch";
/// See [`OWN_LOSS`].
pub const UNSHUFFLED: &str = "does not draw its batches from all samples of a client";
/// See [`OWN_LOSS`].
pub const OUTPUTS: &str = "uses outputs of a model on training samples beside their gradients";

impl Trainer<'_> {
    /// The norm to which the gradient of each sample is clipped, where an intervention asks for it and a client is training.
    pub(super) fn sample_clip(&self) -> Option<f32> {
        if self.trains { self.world.interventions.iter().find_map(|intervention| intervention.sample_clip()) } else { None }
    }

    /// The mean over the batch of the clipped gradients of its samples, and of their losses.
    pub(super) fn clipped_gradient(
        &mut self,
        models: &mut [&mut Model],
        batch: &Batch,
        objective: &Objective<'_>,
        parts: Parts,
        most: f32,
    ) -> Outcome<f32> {
        let ([model], Objective::CrossEntropy) = (models, objective) else {
            return Err(unclipped(OWN_LOSS));
        };
        if self.rewound || self.batch_gradients > 0 {
            return Err(unclipped(SEVERAL));
        }
        self.batch_gradients += 1;
        let rows = batch.rows();
        let width = batch.x.len() / rows.max(1);
        let Worker { engine, grads, supports, d_logits, sample, .. } = &mut *self.worker;
        grads.resize_with(grads.len().max(1), Vec::new);
        supports.resize_with(grads.len(), Support::default);
        supports[0].whole(model.params.len());
        let gradient = &mut grads[0];
        for vector in [&mut *gradient, &mut *sample] {
            vector.clear();
            vector.resize(model.params.len(), 0.0);
        }
        let (mut sum, share) = (0.0, 1.0 / rows as f32);
        for (i, label) in batch.y.iter().enumerate() {
            engine.forward(0, model, &batch.x[i * width..(i + 1) * width], 1)?;
            sum += loss::cross_entropy(engine.logits(0), std::slice::from_ref(label), model.net.classes(), d_logits);
            sample.fill(0.0);
            engine.backward(0, model, Some(d_logits), None, parts, sample)?;
            // The small addition is torch's; it also keeps what is clipped from being longer than the norm by a rounding.
            let factor = (most / (norm(&[&sample[..]]) + 1e-6)).min(1.0);
            add_scaled(gradient, share * factor, sample);
        }
        let loss = sum / rows as f32;
        self.intervene(1, rows);
        self.tally.loss += f64::from(loss) * rows as f64;
        self.tally.rows += rows as u64;
        self.tally.gradients += 1;
        self.count(model, rows, if parts.base() { rows } else { 0 });
        Ok(loss)
    }

    /// Refuses passes that do not draw batches from all samples of a client.
    pub(super) fn in_order(&self, order: Order) -> Outcome<()> {
        match self.sample_clip() {
            Some(_) if order != Order::Shuffled => Err(unclipped(UNSHUFFLED)),
            _ => Ok(()),
        }
    }

    /// Refuses outputs on training samples, which reach what is sent without noise.
    pub(super) fn gradients_only(&self) -> Outcome<()> {
        match self.sample_clip() {
            Some(_) => Err(unclipped(OUTPUTS)),
            None => Ok(()),
        }
    }
}

/// Why the gradients of single samples cannot be clipped in the training of an algorithm, which `reason` (a predicate) says.
#[must_use]
pub fn unclipped(reason: &str) -> Fault {
    Fault::stage(format!("clipping the gradient of each sample does not apply: the algorithm {reason}")).help(
        "the privacy of single samples is known for one plain gradient of each shuffled batch, as in `fedavg`, `fedprox`, `fedper`, \
         `fedrep`, `fedbabu` and `lgfedavg`; `dp-fedavg` protects clients under any algorithm whose server makes a mean of parameters",
    )
}
