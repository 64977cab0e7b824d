//! What a hook may do with a client's samples and a model: passes, steps, gradients, predictions.

use super::batch::{Batch, Order, Pass};
use super::objective::Objective;
use super::streams::{Moment, NoiseKind};
use super::world::{Worker, World};
use crate::base::Outcome;
use crate::engine::loss;
use crate::engine::tape::Branch;
use crate::engine::update::{Correction, Descent, Optimiser, Rule, clip, sgd};
use crate::engine::{Dense, Model, Parts, Support};
use smallvec::SmallVec;
use std::ops::Range;

/// One client (or the server) at work in one phase of a round, on one thread.
pub struct Trainer<'a> {
    /// What everybody shares.
    pub world: &'a World,
    pub(super) worker: &'a mut Worker,
    pub(super) at: Moment,
    pub(super) first_pass: u64,
    /// Gradients that interventions have seen.
    pub(super) steps: u64,
    /// Whether what it computes is a client's training.
    pub(super) trains: bool,
    /// Whether batches of which there were gradients come again.
    pub(super) rewound: bool,
    /// Gradients of the present batch so far.
    pub(super) batch_gradients: u64,
    pub(super) epochs: u64,
    pub(super) rate: f64,
    pub(super) position: Option<usize>,
    pub(super) tally: Tally,
}

/// What a phase has cost and lost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Sum over batches of the batch-mean loss times the rows.
    pub loss: f64,
    /// Rows behind that sum.
    pub rows: u64,
    /// Gradients of one batch that were computed.
    pub gradients: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.loss += other.loss;
        self.rows += other.rows;
        self.gradients += other.gradients;
    }
}

/// How a gradient changes a model.
pub struct Update<'a> {
    optimiser: &'a mut Optimiser<f32>,
    corrections: &'a [Correction<'a, f32>],
    parts: Parts,
    clip: Option<f32>,
    rate: Option<f32>,
    decays: bool,
}

impl<'a> Update<'a> {
    /// A step of the optimiser on all parameters at the client's learning rate.
    pub fn new(optimiser: &'a mut Optimiser<f32>) -> Self {
        Self { optimiser, corrections: &[], parts: Parts::All, clip: None, rate: None, decays: true }
    }
    /// Adds terms to the gradient, in this order.
    #[must_use]
    pub fn with(mut self, corrections: &'a [Correction<'a, f32>]) -> Self {
        self.corrections = corrections;
        self
    }
    /// Changes only the base or only the head.
    #[must_use]
    pub fn only(mut self, parts: Parts) -> Self {
        self.parts = parts;
        self
    }
    /// Clips the gradient to this Euclidean norm first (`torch.nn.utils.clip_grad_norm_`).
    #[must_use]
    pub fn clip(mut self, norm: f32) -> Self {
        self.clip = Some(norm);
        self
    }
    /// Uses this learning rate.
    #[must_use]
    pub fn rate(mut self, rate: f32) -> Self {
        self.rate = Some(rate);
        self
    }
    /// Leaves out the weight decay of the settings, which belongs to the clients' own optimiser.
    #[must_use]
    pub fn undecayed(mut self) -> Self {
        self.decays = false;
        self
    }
}

impl<'a> Trainer<'a> {
    /// The client's id.
    #[must_use]
    pub fn client(&self) -> usize {
        self.at.client as usize
    }
    /// The round, from 0.
    #[must_use]
    pub fn round(&self) -> u64 {
        self.at.round
    }
    /// The client's place in the round's cohort in the order drawn; absent when it was not selected.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.position
    }
    /// Local epochs of this client in this round: fewer for a slow one.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs
    }
    /// The client's current learning rate, after decay.
    #[must_use]
    pub fn rate(&self) -> f32 {
        self.rate as f32
    }
    /// Another learning rate with the client's decay.
    #[must_use]
    pub fn decayed(&self, rate: f64) -> f32 {
        (rate * (self.rate / self.world.settings.learning_rate)) as f32
    }
    /// The client's number of training samples, n_c.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.world.shard(self.client()).train.len()
    }
    /// The optimiser that the settings ask for, without state.
    #[must_use]
    pub fn optimiser(&self) -> Optimiser<f32> {
        self.world.settings.optimizer.start()
    }
    /// The usual training pass: shuffled, batch size B.
    #[must_use]
    pub fn training(&self) -> Pass {
        Pass { size: self.world.settings.batch_size, drop_last: self.world.settings.drop_last, order: Order::Shuffled }
    }
    /// The pass that measures the training loss.
    #[must_use]
    pub fn measuring(&self) -> Pass {
        Pass { order: Order::Measuring, ..self.training() }
    }
    /// A pass over the test set; the batch size has no influence on the result.
    #[must_use]
    pub fn testing(&self) -> Pass {
        Pass { size: 128, drop_last: false, order: Order::Test }
    }
    /// A pass over the validation samples, of which there may be none.
    #[must_use]
    pub fn validating(&self) -> Pass {
        Pass { order: Order::Validation, ..self.testing() }
    }
    /// Takes the next moment of this client in this phase; every question of a stream uses up one.
    pub fn moment(&mut self) -> Moment {
        let now = self.at;
        self.at.pass += 1;
        now
    }
    /// Starts the phase's random questions again, so that a second model of the client meets the same batches as the first: then
    /// the global track of Ditto is FedAvg, and its personal one without its pull is local training, bit for bit.
    pub fn rewind(&mut self) {
        self.at.pass = self.first_pass;
        self.rewound |= self.steps > 0;
    }
    /// The samples of the batch that was visited last, as the data set numbers them, a row each.
    #[must_use]
    pub fn chosen(&self) -> &[u32] {
        &self.worker.chosen
    }
    /// Whether this model's outputs on a training sample are the same in every batch and pass: neither the model nor an intervention
    /// makes them depend on either.
    #[must_use]
    pub fn foreseeable(&self, model: &Model) -> bool {
        self.world.interventions.is_empty() && (!model.training || model.net.same_in_training())
    }
    /// Noise for an algorithm.
    pub fn noise(&mut self, kind: NoiseKind, out: &mut [f32]) {
        let at = self.moment();
        self.world.streams.noise(at, kind, out);
    }
    /// Uniform integers below `bound` for an algorithm.
    pub fn integers(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let at = self.moment();
        self.world.streams.integers(at, count, bound)
    }

    /// Visits the client's samples batch by batch.
    ///
    /// # Errors
    /// The first fault of `visit`.
    pub fn pass(&mut self, pass: Pass, mut visit: impl FnMut(&mut Trainer<'a>, &mut Batch) -> Outcome<()>) -> Outcome<()> {
        self.batches(pass, usize::MAX, &mut visit)
    }

    /// Visits the first batch of a pass alone; there may be none.
    ///
    /// # Errors
    /// The fault of `visit`.
    pub fn first_batch(&mut self, pass: Pass, mut visit: impl FnMut(&mut Trainer<'a>, &mut Batch) -> Outcome<()>) -> Outcome<()> {
        self.batches(pass, 1, &mut visit)
    }

    fn batches(&mut self, pass: Pass, most: usize, visit: &mut dyn FnMut(&mut Trainer<'a>, &mut Batch) -> Outcome<()>) -> Outcome<()> {
        let world = self.world;
        self.in_order(pass.order)?;
        let shard = world.shard(self.client());
        let mut samples = match pass.order {
            Order::Test => &shard.test[..],
            Order::Validation => world.validation(self.client()),
            _ => &shard.train[..],
        };
        if let Order::Window { start, len } | Order::ShuffledWindow { start, len } = pass.order {
            samples = &samples[start.min(samples.len())..(start + len).min(samples.len())];
        }
        let order = match pass.order {
            Order::Shuffled | Order::ShuffledWindow { .. } => Some(world.streams.order(self.moment(), samples.len())),
            Order::Measuring => Some(world.streams.measuring_order(self.moment(), samples.len())),
            Order::Window { .. } | Order::Stored | Order::Test | Order::Validation => None,
        };
        let mut batch = std::mem::take(&mut self.worker.batch);
        let mut result = Ok(());
        for cut in pass.cuts(samples.len()).take(most) {
            let chosen = &mut self.worker.chosen;
            chosen.clear();
            match &order {
                Some(order) => chosen.extend(order[cut].iter().map(|i| samples[*i as usize])),
                None => chosen.extend_from_slice(&samples[cut]),
            }
            world.data.gather(chosen, &mut batch.x);
            world.data.gather_labels(chosen, &mut batch.y);
            if !matches!(pass.order, Order::Test | Order::Validation) {
                world.interventions.iter().for_each(|intervention| intervention.poison(self.at, &mut batch));
            }
            self.batch_gradients = 0;
            result = visit(self, &mut batch);
            if result.is_err() {
                break;
            }
        }
        self.worker.batch = batch;
        result
    }

    /// One step of one model: loss, gradient, update. Returns the batch's mean loss before the step. Of the gradient nothing can be read
    /// afterwards.
    ///
    /// # Errors
    /// A stage fault from a custom objective.
    pub fn step(&mut self, model: &mut Model, batch: &Batch, objective: &Objective<'_>, update: Update<'_>) -> Outcome<f32> {
        let watched = self.trains && !self.world.interventions.is_empty();
        let loss = if update.optimiser.rule() == Rule::Sgd && update.clip.is_none() && !watched {
            let corrections = self.corrections(&update);
            let descent = Descent { rate: self.rate_of(&update), corrections: &corrections };
            self.differentiate(&mut [&mut *model], batch, objective, update.parts, Some(descent))?
        } else {
            self.gradients(&mut [&mut *model], batch, objective, update.parts)?
        };
        self.apply(0, model, update);
        Ok(loss)
    }

    /// The usual local training: E epochs of steps in training mode with a fresh optimiser.
    ///
    /// # Errors
    /// A stage fault from a custom objective.
    pub fn descend(&mut self, model: &mut Model, objective: &Objective<'_>, corrections: &[Correction<'_, f32>]) -> Outcome<()> {
        model.training = true;
        let mut optimiser = self.optimiser();
        for _ in 0..self.epochs {
            self.pass(self.training(), |trainer, batch| {
                trainer.step(model, batch, objective, Update::new(&mut optimiser).with(corrections)).map(drop)
            })?;
        }
        Ok(())
    }

    /// [`Trainer::descend`] that shows each batch between its gradient and its step: [`Trainer::features`] are then those that the
    /// gradient was taken of.
    ///
    /// # Errors
    /// A stage fault from a custom objective or from `watch`.
    pub fn descend_watched(
        &mut self,
        model: &mut Model,
        objective: &Objective<'_>,
        mut watch: impl FnMut(&mut Trainer<'a>, &Model, &Batch) -> Outcome<()>,
    ) -> Outcome<()> {
        model.training = true;
        let mut optimiser = self.optimiser();
        for _ in 0..self.epochs {
            self.pass(self.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut *model], batch, objective, Parts::All)?;
                watch(trainer, model, batch)?;
                trainer.apply(0, model, Update::new(&mut optimiser));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The value of an objective without a step, each model in its own mode. It does not count as training.
    ///
    /// # Errors
    /// A stage fault from a custom objective.
    pub fn loss(&mut self, models: &mut [&mut Model], batch: &Batch, objective: &Objective<'_>) -> Outcome<f32> {
        self.gradients_only()?;
        let tally = self.tally;
        let loss = self.gradients(models, batch, objective, Parts::Nothing);
        self.tally = tally;
        loss
    }

    /// The gradients of one or several models, each for itself by cross-entropy or in a joint graph, and the (summed) loss; read them
    /// with [`Trainer::gradient`] or use [`Trainer::apply`].
    ///
    /// A model whose input is not a sample, but whose base is empty (a module), gets what the objective gives to its head.
    ///
    /// # Errors
    /// A stage fault from a custom objective.
    pub fn gradients(&mut self, models: &mut [&mut Model], batch: &Batch, objective: &Objective<'_>, parts: Parts) -> Outcome<f32> {
        if let Some(norm) = self.sample_clip() {
            return self.clipped_gradient(models, batch, objective, parts, norm);
        }
        self.differentiate(models, batch, objective, parts, None)
    }

    /// Gradients for which nobody waits between the way back and the step may take their step on the way, where they can.
    fn differentiate(
        &mut self,
        models: &mut [&mut Model],
        batch: &Batch,
        objective: &Objective<'_>,
        parts: Parts,
        descent: Option<Descent<'_, f32>>,
    ) -> Outcome<f32> {
        let Worker { engine, grads, supports, d_logits, zeros, .. } = &mut *self.worker;
        grads.resize_with(grads.len().max(models.len()), Vec::new);
        supports.resize_with(grads.len(), Support::default);
        for ((grad, support), model) in grads.iter_mut().zip(&mut *supports).zip(models.iter()) {
            support.clear(grad, model.params.len());
            match parts {
                Parts::Nothing => {}
                Parts::Head => support.only(model.net.layout().head()),
                _ if model.net.input().numel() * batch.rows() == batch.x.len() => support.batch(&model.net, &batch.x),
                _ => support.whole(model.params.len()),
            }
        }
        let mut losses = 1;
        let loss = match objective {
            Objective::CrossEntropy => {
                losses = models.len();
                let mut sum = 0.0;
                for (slot, (model, (grad, support))) in models.iter_mut().zip(grads.iter_mut().zip(supports)).enumerate() {
                    engine.forward(slot, model, &batch.x, batch.rows())?;
                    sum += loss::cross_entropy(engine.logits(slot), &batch.y, model.net.classes(), d_logits);
                    if let Some(descent) = descent {
                        engine.descend(slot, model, d_logits, parts, grad, descent)?;
                        support.step(engine.steppers(&model.net, parts, batch.rows()));
                    } else {
                        engine.backward(slot, model, Some(d_logits), None, parts, grad)?;
                    }
                }
                sum
            }
            Objective::Custom(loss) => {
                let count = models.len();
                let rows = batch.rows();
                let widest = models.iter().map(|model| rows * model.net.input().numel()).max().unwrap_or(0);
                zeros.resize(zeros.len().max(widest), 0.0);
                let mut branches: Vec<Branch<'_>> = models
                    .iter_mut()
                    .enumerate()
                    .map(|(slot, model)| {
                        let len = rows * model.net.input().numel();
                        let x = if len == batch.x.len() { &batch.x[..] } else { &zeros[..len] };
                        Branch { slot, model, x, rows, parts }
                    })
                    .collect();
                engine.differentiate(&mut branches, &mut grads[..count], |graphs| loss(graphs, &batch.y))?
            }
        };
        self.intervene(models.len(), batch.rows());
        self.tally.loss += f64::from(loss) * batch.rows() as f64;
        self.tally.rows += (batch.rows() * losses) as u64;
        self.tally.gradients += models.len() as u64;
        for model in models.iter() {
            self.count(model, batch.rows(), if parts.base() { batch.rows() } else { 0 });
        }
        Ok(loss)
    }

    /// Lets interventions change the gradients of a step.
    pub(super) fn intervene(&mut self, models: usize, rows: usize) {
        if !self.trains || self.world.interventions.is_empty() {
            return;
        }
        let at = Moment { pass: self.first_pass + self.steps, ..self.at };
        self.steps += 1;
        let Worker { grads, supports, .. } = &mut *self.worker;
        for (index, (gradient, support)) in grads.iter_mut().zip(supports).take(models).enumerate() {
            support.whole(gradient.len());
            self.world.interventions.iter().for_each(|intervention| intervention.gradient(at, index, rows, gradient));
        }
    }

    pub(super) fn count(&self, model: &Model, forward: usize, backward: usize) {
        if model.net.input() == self.world.network().input() {
            self.world.meter.count(forward, backward);
        }
    }

    /// The gradient of the `index`-th model of the last [`Trainer::gradients`]; what its parts left out holds nothing of use.
    #[must_use]
    pub fn gradient(&self, index: usize) -> &[f32] {
        &self.worker.grads[index]
    }

    /// The features (rows x width) of the `index`-th model in the last [`Trainer::gradients`].
    #[must_use]
    pub fn features(&self, index: usize) -> &[f32] {
        self.worker.engine.features(index)
    }

    fn rate_of(&self, update: &Update<'_>) -> f32 {
        update.rate.unwrap_or(self.rate as f32)
    }

    /// What is added to the gradient before the step. Torch adds the decay before anything else.
    fn corrections<'u>(&self, update: &Update<'u>) -> SmallVec<[Correction<'u, f32>; 4]> {
        let decay = self.world.settings.optimizer.decay().filter(|_| update.decays);
        decay.into_iter().chain(update.corrections.iter().copied()).collect()
    }

    /// Applies the gradient of the `index`-th model of the last [`Trainer::gradients`].
    pub fn apply(&mut self, index: usize, model: &mut Model, update: Update<'_>) {
        let (rate, corrections) = (self.rate_of(&update), self.corrections(&update));
        let Worker { grads, supports, .. } = &mut *self.worker;
        let (grad, support) = (&mut grads[index], &supports[index]);
        let layout = model.net.layout();
        let range = match update.parts {
            Parts::All => 0..layout.len,
            Parts::Base => layout.base(),
            Parts::Head => layout.head(),
            Parts::Nothing => 0..0,
        };
        if let Some(norm) = update.clip {
            clip(&mut [&mut grad[range.clone()]], norm);
        }
        if update.optimiser.rule() != Rule::Sgd {
            return update.optimiser.step(&mut model.params, grad, rate, range, &corrections);
        }
        let step = |range: Range<usize>| sgd(&mut model.params, grad, rate, range, &corrections);
        if corrections.is_empty() {
            // Nothing moves where the gradient is 0.
            let within = |reached: &Range<usize>| reached.start.max(range.start)..reached.end.min(range.end);
            support.ranges().iter().map(within).filter(|reached| !reached.is_empty()).for_each(step);
        } else {
            support.left(range).for_each(step);
        }
    }

    /// One step of a small model that took part in the loss of the last [`Trainer::gradients`] as a dense layer; its corrections may
    /// only be as long as its parameters.
    pub fn apply_dense(&mut self, layer: Dense, model: &mut Model, update: Update<'_>) {
        self.world.meter.count_module(layer.products());
        if let Some(norm) = update.clip {
            layer.clip(norm);
        }
        let (rate, corrections) = (self.rate_of(&update), self.corrections(&update));
        layer.step(model, update.optimiser, rate, &corrections);
    }

    /// Features (rows x width) and logits (rows x classes) of a batch in the model's own mode.
    ///
    /// # Errors
    /// A stage fault when the batch does not fit the model.
    pub fn forward(&mut self, model: &mut Model, batch: &Batch) -> Outcome<(Vec<f32>, Vec<f32>)> {
        self.gradients_only()?;
        let engine = &mut self.worker.engine;
        engine.forward(0, model, &batch.x, batch.rows())?;
        let outputs = (engine.features(0).to_vec(), engine.logits(0).to_vec());
        self.count(model, batch.rows(), 0);
        Ok(outputs)
    }

    /// The features (rows x width) of a batch in the model's own mode; the head is left out.
    ///
    /// # Errors
    /// A stage fault when the batch does not fit the model.
    pub fn embed(&mut self, model: &mut Model, batch: &Batch) -> Outcome<Vec<f32>> {
        self.gradients_only()?;
        let engine = &mut self.worker.engine;
        engine.forward_base(0, model, &batch.x, batch.rows())?;
        let features = engine.features(0).to_vec();
        self.count(model, batch.rows(), 0);
        Ok(features)
    }

    /// The gradient of the model of the last [`Trainer::forward`] from those of its logits and features (row by row); read it with
    /// [`Trainer::gradient`] or use [`Trainer::apply`], as the first model's.
    ///
    /// # Errors
    /// An internal fault when the last pass was of another network or a length does not fit.
    pub fn backward(&mut self, model: &Model, d_logits: Option<&[f32]>, d_features: Option<&[f32]>, parts: Parts) -> Outcome<()> {
        let Worker { engine, grads, supports, .. } = &mut *self.worker;
        grads.resize_with(grads.len().max(1), Vec::new);
        supports.resize_with(grads.len(), Support::default);
        supports[0].clear(&mut grads[0], model.params.len());
        supports[0].whole(model.params.len());
        engine.backward(0, model, d_logits, d_features, parts, &mut grads[0])?;
        self.tally.gradients += 1;
        let width = model.net.features().max(1);
        let rows = d_features.map_or_else(|| d_logits.map_or(0, |d| d.len() / model.net.classes()), |d| d.len() / width);
        self.intervene(1, rows);
        self.count(model, 0, if parts.base() { rows } else { 0 });
        Ok(())
    }

    /// The logits (rows x classes) of a model's head on features from elsewhere.
    pub fn head(&mut self, model: &Model, features: &[f32], rows: usize) -> Vec<f32> {
        let mut logits = Vec::new();
        self.worker.engine.head_forward(model, features, rows, &mut logits);
        logits
    }

    /// The gradient of the features of [`Trainer::head`] from that of its logits; the head's own is added to `gradient`, flat as the
    /// parameters.
    pub fn head_backward(&mut self, model: &Model, features: &[f32], d_logits: &[f32], gradient: Option<&mut [f32]>) -> Vec<f32> {
        let mut d_features = Vec::new();
        self.worker.engine.head_backward(model, features, d_logits, gradient, Some(&mut d_features));
        d_features
    }

    /// Work whose losses are no training losses: they do not enter the running one.
    pub fn aside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let Tally { loss, rows, .. } = self.tally;
        let result = work(self);
        (self.tally.loss, self.tally.rows) = (loss, rows);
        result
    }

    /// The logits of a batch in evaluation mode, whatever the model's mode.
    ///
    /// # Errors
    /// A stage fault when the batch does not fit the model.
    pub fn predict(&mut self, model: &Model, batch: &Batch) -> Outcome<Vec<f32>> {
        let mut model = Model { training: false, ..model.clone() };
        Ok(self.forward(&mut model, batch)?.1)
    }

    /// The mean cross-entropy of scores (rows x classes).
    #[must_use]
    pub fn cross_entropy(&self, scores: &[f32], labels: &[u32]) -> f32 {
        let classes = scores.len() / labels.len().max(1);
        (loss::cross_entropy_sum(scores, labels, classes) / labels.len() as f64) as f32
    }
}
