//! What a model that stands still makes of a client's samples.

use crate::base::Outcome;
use crate::engine::Model;
use crate::fl::{Batch, Order, Pass, Trainer};

/// Samples that go through a model at once: enough to read its weights seldom, few enough to stay in the cache.
const AT_ONCE: usize = 40;

/// A model that does not change during a local training. Where its features of a sample are the same in every batch, those of all the
/// client's samples are computed once, many at a time.
pub(crate) struct Frozen {
    model: Model,
    known: Option<Known>,
}

/// The features of samples, row by row, and the rows in the order of the samples' numbers.
struct Known {
    rows: Vec<(u32, usize)>,
    features: Vec<f32>,
}

impl Frozen {
    /// The model in its own mode.
    pub(crate) fn new(trainer: &mut Trainer<'_>, mut model: Model) -> Outcome<Self> {
        if !trainer.foreseeable(&model) {
            return Ok(Self { model, known: None });
        }
        let mut known = Known { rows: Vec::new(), features: Vec::new() };
        let all = Pass { size: AT_ONCE, drop_last: false, order: Order::Stored };
        trainer.pass(all, |trainer, batch| {
            let from = known.rows.len();
            known.features.extend(trainer.embed(&mut model, batch)?);
            known.rows.extend(trainer.chosen().iter().enumerate().map(|(i, sample)| (*sample, from + i)));
            Ok(())
        })?;
        known.rows.sort_unstable();
        Ok(Self { model, known: Some(known) })
    }
    /// The model, whose running statistics may have moved.
    pub(crate) fn into_model(self) -> Model {
        self.model
    }
    /// The features of the batch that is being visited, row by row.
    pub(crate) fn features(&mut self, trainer: &mut Trainer<'_>, batch: &Batch) -> Outcome<Vec<f32>> {
        let Some(known) = &self.known else { return trainer.embed(&mut self.model, batch) };
        let width = self.model.net.features();
        let mut features = Vec::with_capacity(batch.rows() * width);
        for sample in trainer.chosen() {
            let place = known.rows.partition_point(|(number, _)| number < sample);
            let row = known.rows[place].1;
            features.extend_from_slice(&known.features[row * width..][..width]);
        }
        Ok(features)
    }
    /// The logits of the batch that is being visited, row by row.
    pub(crate) fn logits(&mut self, trainer: &mut Trainer<'_>, batch: &Batch) -> Outcome<Vec<f32>> {
        let features = self.features(trainer, batch)?;
        Ok(trainer.head(&self.model, &features, batch.rows()))
    }
}

/// Visits the features (row by row) and labels of a pass in its order, some whole batches at a time where that makes no difference.
pub(crate) fn embed_pass(trainer: &mut Trainer<'_>, model: &mut Model, pass: Pass, mut visit: impl FnMut(&[f32], &[u32])) -> Outcome<()> {
    let width = model.net.features();
    let batches = if trainer.foreseeable(model) { (AT_ONCE / pass.size.max(1)).max(1) } else { 1 };
    let larger = Pass { size: batches * pass.size, drop_last: pass.drop_last && batches == 1, ..pass };
    trainer.pass(larger, |trainer, batch| {
        let left_out = if pass.drop_last { batch.rows() % pass.size } else { 0 };
        let rows = batch.rows() - left_out;
        if rows > 0 {
            let features = trainer.embed(model, batch)?;
            visit(&features[..rows * width], &batch.y[..rows]);
        }
        Ok(())
    })
}
