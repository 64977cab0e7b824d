//! FedPHP: a personal model inherits the local ones as a moving average and hands its features down to the next.

use super::shared::frozen::Frozen;
use super::shared::mmd::mmd;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::tape::{cross_entropy, known};
use crate::fl::algorithm::When;
use crate::fl::per_sample::OUTPUTS;
use crate::fl::{Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Li et al., ECML PKDD 2021, with the MMD as transfer loss.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedPhp {
    variant: Variant,
    mu: f64,
    lambda: f32,
    evaluate: Option<Evaluate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Evaluate {
    Local,
    Inherited,
}

/// The inherited model h_c, for ever in training mode; `setup` fills it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited(Option<Model>);

impl State for Inherited {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("inherited", visitor);
    }
}

impl Algorithm for FedPhp {
    type Server = ();
    type Client = Inherited;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedphp",
            title: "FedPHP",
            family: "personalised aggregation",
            paper: "Li et al., FedPHP: Federated Personalization with Inherited Private Models, ECML PKDD 2021",
            year: 2021,
            personal: "an inherited model h_c",
            down: "w",
            up: "w",
            rule: "client c minimizes (1 - lambda) L(w) + lambda MMD(features of w, features of h_c); then h_c <- mu_t h_c + (1 - mu_t) w \
                   with mu_t = mu t/T; the server averages w as FedAvg",
            differences: "PFLlib's defaults (lambda 1, mu 0) learn nothing. PFLlib evaluates the local model after training (`evaluate: local`), \
                          the paper the inherited one (`inherited`). PFLlib runs the base twice a batch, which moves the \
                          running statistics of normalisation layers twice; `paper` moves them once",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("mu", Type::fraction(), 0.9, "Momentum of the inherited model in the last round; grows linearly from 0.")
                    .from("mu", "PFLlib's author (issue 102); the authors' scripts"),
                Field::with("lambda", Type::fraction(), 0.01, "Weight of the MMD; cross-entropy has the rest.")
                    .from("lambda", "PFLlib's author (issue 102); the authors' scripts have 0.05 and 0.1"),
                Field::optional(
                    "evaluate",
                    Type::Choice(&[
                        ("local", "the model after local training, as PFLlib"),
                        ("inherited", "both, with the inherited model as the headline, as the paper"),
                    ]),
                    "What is evaluated.",
                ),
            ],
            revision: 4,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(OUTPUTS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn evaluates(&self) -> When {
        When::AfterTraining
    }
    fn horizon(&self) -> bool {
        true
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Inherited>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.0 = Some(world.initial.clone()));
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Inherited>) -> Outcome<()> {
        let (model, Some(inherited)) = (&mut client.model, &mut client.state.0) else { return Ok(()) };
        (model.training, inherited.training) = (true, true);
        let columns = model.net.features();
        let mut frozen = Frozen::new(trainer, inherited.clone())?;
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let target = frozen.features(trainer, batch)?;
                // PFLlib computes the features a second time: normalisation layers take note of each batch twice.
                if self.variant == Variant::Pfllib && !model.buffers.counters.is_empty() {
                    trainer.embed(model, batch)?;
                }
                let objective = Objective::custom(|graph, labels| {
                    let (value, mut gradient) = mmd(&graph.detached_features().as_vec(), &target, columns);
                    gradient.iter_mut().for_each(|g| *g *= self.lambda);
                    let discrepancy = known(graph.features(), self.lambda * value, gradient);
                    Ok(cross_entropy(graph.logits(), labels) * (1.0 - self.lambda) + discrepancy)
                });
                trainer.step(model, batch, &objective, Update::new(&mut optimiser)).map(drop)
            })?;
        }
        *inherited = frozen.into_model();
        let last = trainer.world.settings.rounds.saturating_sub(1).max(1);
        let momentum = self.mu / last as f64 * trainer.round() as f64;
        let (keep, take) = (momentum as f32, (1.0 - momentum) as f32);
        for (h, w) in inherited.params.iter_mut().zip(model.params.iter()) {
            *h = take * w + keep * *h;
        }
        Ok(())
    }

    fn views(&self) -> &'static [&'static str] {
        match self.variant.choose(self.evaluate, Evaluate::Local, Evaluate::Inherited) {
            Evaluate::Local => &["model"],
            Evaluate::Inherited => &["model", "inherited"],
        }
    }

    fn evaluated<'a>(&self, view: usize, _: &'a Server<()>, client: &'a Client<Inherited>) -> &'a Model {
        client.state.0.as_ref().filter(|_| view > 0).unwrap_or(&client.model)
    }

    /// The weighted sum that is minimized; of the inherited model its cross-entropy.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<()>,
        client: &Client<Inherited>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let mut model = Model { training: false, ..self.evaluated(view, server, client).clone() };
        let (features, scores) = trainer.forward(&mut model, batch)?;
        let mut loss = trainer.cross_entropy(&scores, &batch.y);
        if let (Some(inherited), 0) = (&client.state.0, view) {
            let target = trainer.embed(&mut inherited.clone(), batch)?;
            loss = (1.0 - self.lambda) * loss + self.lambda * mmd(&features, &target, model.net.features()).0;
        }
        Ok(Some(f64::from(loss)))
    }
}
