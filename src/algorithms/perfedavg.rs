//! Per-FedAvg (first order): an initial model that is good after one step of adaptation.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::update::{Optimiser, Rule};
use crate::fl::algorithm::weighted_mean;
use crate::fl::per_sample::SEVERAL;
use crate::fl::{Aggregation, Algorithm, Batch, Client, Description, Objective, Pass, Server, State, Trainer, Update, Uploaded, Visitor};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Fallah, Mokhtari, Ozdaglar, NeurIPS 2020, Algorithm 1 with the first-order approximation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PerFedAvg {
    variant: Variant,
    beta: Option<f64>,
    repeats: Option<u64>,
    weights: Option<Weights>,
    loss_steps: Option<LossSteps>,
}

/// What a client's model counts in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    Samples,
    Uniform,
}

/// Whether the steps before the measured losses add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LossSteps {
    Drift,
    Restart,
}

/// The model after one step, only while an evaluation lasts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapted(Option<Model>);

impl State for Adapted {
    fn visit(&mut self, _: &mut dyn Visitor) {}
}

/// The halves of a double batch; an incomplete one is cut in the middle. Absent where the second half would be empty.
fn halves(batch: &Batch, size: usize) -> Option<(Batch, Batch)> {
    let rows = batch.rows();
    let cut = size.min(rows.div_ceil(2));
    (cut < rows).then(|| (batch.part(0..cut), batch.part(cut..rows)))
}

/// One plain step of adaptation.
fn adapt(trainer: &mut Trainer<'_>, model: &mut Model, batch: &Batch, rate: f32) -> Outcome<()> {
    trainer.step(model, batch, &Objective::CrossEntropy, Update::new(&mut Optimiser::new(Rule::Sgd)).rate(rate)).map(drop)
}

impl PerFedAvg {
    /// Local trainings in a row in each round.
    fn repeats(&self) -> u64 {
        self.variant.choose(self.repeats, 2, 1)
    }
    /// The learning rate after so many participations, and trainings of this round.
    fn rate(&self, trainer: &Trainer<'_>, participations: u64, training: u64) -> f32 {
        let settings = &trainer.world.settings;
        let decay = settings.learning_rate_decay.unwrap_or(1.0);
        (0..participations * self.repeats() + training).fold(settings.learning_rate, |rate, _| rate * decay) as f32
    }
}

impl Algorithm for PerFedAvg {
    type Server = ();
    type Client = Adapted;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "perfedavg",
            title: "Per-FedAvg",
            family: "meta-learning",
            paper: "Fallah, Mokhtari, Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic \
                    Meta-Learning Approach, NeurIPS 2020",
            year: 2020,
            personal: "one step from the global model",
            down: "w",
            up: "w",
            rule: "for each pair of batches D, D': v <- w_c - alpha grad(w_c; D), w_c <- w_c - beta grad(v; D'); the server averages; a client \
                   is tested after one step from w",
            differences: "first order, as in PFLlib: the Hessian is left out. PFLlib sets beta to the learning rate whatever is asked for, \
                          trains twice in a row in each round (`repeats: 2`), weighs by samples where the paper averages uniformly \
                          (`weights`), and lets the steps before the measured training losses add up (`loss_steps: drift`). The learning \
                          rate falls with each of these trainings, beta does not. A client with fewer samples than two batches does not train. \
                          One step at the learning rate is all that is personal: where that is small, so is the gain on FedAvg",
            fields: vec![
                Variant::Pfllib.field(),
                Field::optional("beta", Type::positive(), "Outer step; absent: the undecayed learning rate.")
                    .from("beta", "PFLlib's author: it fits most settings"),
                Field::optional("repeats", Type::at_least(1), "Local trainings in a row in each round: PFLlib 2, paper 1."),
                Field::optional(
                    "weights",
                    Type::Choice(&[("samples", "by samples, as PFLlib"), ("uniform", "all alike, as the paper")]),
                    "What a client's model counts in the mean.",
                ),
                Field::optional(
                    "loss_steps",
                    Type::Choice(&[
                        ("drift", "the steps of a pass add up, as PFLlib"),
                        ("restart", "each batch pair starts from the client's model"),
                    ]),
                    "How the model moves while the full training loss is measured.",
                ),
            ],
            revision: 2,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(SEVERAL)
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Adapted>) -> Outcome<()> {
        let settings = &trainer.world.settings;
        let (size, beta) = (settings.batch_size, self.beta.unwrap_or(settings.learning_rate) as f32);
        let pass = Pass { size: 2 * size, ..trainer.training() };
        let model = &mut client.model;
        model.training = true;
        let mut outer = trainer.optimiser();
        for training in 0..self.repeats() {
            let rate = self.rate(trainer, client.participations, training);
            for _ in 0..trainer.epochs() {
                trainer.pass(pass, |trainer, batch| {
                    let Some((first, second)) = halves(batch, size) else { return Ok(()) };
                    let start = model.params.clone();
                    adapt(trainer, model, &first, rate)?;
                    trainer.gradients(&mut [model], &second, &Objective::CrossEntropy, crate::engine::Parts::All)?;
                    model.params = start;
                    trainer.apply(0, model, Update::new(&mut outer).rate(beta));
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn equal_weights(&self) -> bool {
        self.variant.choose(self.weights, Weights::Samples, Weights::Uniform) == Weights::Uniform
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        let uniform = 1.0 / uploads.len() as f64;
        let weight = |upload: &Uploaded<()>| match self.variant.choose(self.weights, Weights::Samples, Weights::Uniform) {
            Weights::Samples => upload.weight,
            Weights::Uniform => uniform,
        };
        weighted_mean(&mut server.global, uploads, weight, |_| true);
        Ok(())
    }

    /// The step on one batch; running statistics of normalisation layers keep what they saw of it.
    fn before_evaluation(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Adapted>, measured: bool) -> Outcome<()> {
        if !measured && client.model.buffers.counters.is_empty() {
            return Ok(());
        }
        let mut adapted = Model { training: true, ..client.model.clone() };
        let rate = self.rate(trainer, client.participations, 0);
        trainer.first_batch(trainer.training(), |trainer, batch| adapt(trainer, &mut adapted, batch, rate))?;
        client.model.buffers = adapted.buffers.clone();
        client.state.0 = Some(adapted);
        Ok(())
    }

    fn evaluated<'a>(&self, _: usize, _: &'a Server<()>, client: &'a Client<Adapted>) -> &'a Model {
        client.state.0.as_ref().unwrap_or(&client.model)
    }

    fn evaluation_effect(&self, client: &mut Client<Adapted>) {
        client.state.0 = None;
        client.model.training = false;
    }

    /// The loss of the second half of each double batch after a step on the first, in evaluation mode.
    fn training_loss(&self, _: usize, trainer: &mut Trainer<'_>, _: &Server<()>, client: &Client<Adapted>) -> Outcome<Option<(f64, u64)>> {
        let size = trainer.world.settings.batch_size;
        let pass = Pass { size: 2 * size, ..trainer.measuring() };
        let restart = self.variant.choose(self.loss_steps, LossSteps::Drift, LossSteps::Restart) == LossSteps::Restart;
        let mut model = Model { training: false, ..client.model.clone() };
        let (mut sum, mut rows, rate) = (0.0, 0, self.rate(trainer, client.participations, 0));
        trainer.pass(pass, |trainer, batch| {
            let Some((first, second)) = halves(batch, size) else { return Ok(()) };
            if restart {
                model.params = client.model.params.clone();
            }
            adapt(trainer, &mut model, &first, rate)?;
            let scores = trainer.predict(&model, &second)?;
            sum += f64::from(trainer.cross_entropy(&scores, &second.y)) * second.rows() as f64;
            rows += second.rows() as u64;
            Ok(())
        })?;
        Ok(Some((sum, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_batch_is_cut_after_one_batch_and_a_short_one_in_the_middle() {
        let batch = |rows: u32| Batch { x: vec![0.0; rows as usize], y: (0..rows).collect() };
        let sizes = |rows| halves(&batch(rows), 4).map(|(a, b)| (a.rows(), b.rows()));
        assert_eq!([sizes(8), sizes(7), sizes(3), sizes(1), sizes(0)], [Some((4, 4)), Some((4, 3)), Some((2, 1)), None, None]);
    }
}
