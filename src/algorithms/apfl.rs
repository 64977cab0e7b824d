//! APFL: beside the global model a personal one, mixed with it in a proportion that each client learns.

use super::shared::flat::dot;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::{Model, Parts};
use crate::fl::per_sample::OWN_LOSS;
use crate::fl::{Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Deng, Kamani, Mahdavi, 2020, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Apfl {
    variant: Variant,
    alpha: f32,
    alpha_decay: f32,
    personal: Option<Personal>,
    adapt: Option<Adapt>,
    train_statistics: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Personal {
    Merged,
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Adapt {
    Batch,
    Round,
    Never,
}

/// The personal model v_c, its share alpha_c, and where v_c is kept apart the mixture that is evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    personal: Option<Model>,
    share: f64,
    mixed: Option<Model>,
    /// During an evaluation that moves statistics: the model as it was.
    shown: Option<Model>,
}

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.personal.visit("personal", visitor);
        self.share.visit("share", visitor);
        self.mixed.visit("mixed", visitor);
    }
}

/// alpha v + (1 - alpha) w, over `into`.
fn mix(into: &mut [f32], alpha: f32, v: &[f32], w: &[f32]) {
    for ((mixed, v), w) in into.iter_mut().zip(v).zip(w) {
        *mixed = (1.0 - alpha) * w + alpha * v;
    }
}

impl Apfl {
    fn apart(&self) -> bool {
        self.variant.choose(self.personal, Personal::Merged, Personal::Apart) == Personal::Apart
    }
    fn adapt(&self) -> Adapt {
        self.variant.choose(self.adapt, Adapt::Batch, Adapt::Round)
    }
    fn train_statistics(&self) -> bool {
        self.variant.choose(self.train_statistics, true, false)
    }
    fn adapted(&self, alpha: f32, gradient: f64, rate: f64) -> f32 {
        ((f64::from(alpha) - rate * (gradient + f64::from(self.alpha_decay * alpha))) as f32).clamp(0.0, 1.0)
    }

    /// As PFLlib: both models are trained for themselves; afterwards v_c becomes the mixture.
    fn merged(&self, trainer: &mut Trainer<'_>, w: &mut Model, own: &mut Own) -> Outcome<()> {
        let Own { personal: Some(v), share, .. } = own else { return Ok(()) };
        let mut alpha = *share as f32;
        let mut adapting = self.adapt() != Adapt::Never;
        let (mut first, mut second) = (trainer.optimiser(), trainer.optimiser());
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut *w, &mut *v], batch, &Objective::CrossEntropy, Parts::All)?;
                trainer.apply(0, w, Update::new(&mut first));
                trainer.apply(1, v, Update::new(&mut second));
                if adapting {
                    let of = |gradient: &[f32]| dot(&v.params, gradient) - dot(&w.params, gradient);
                    let (g_w, g_v) = (of(trainer.gradient(0)), of(trainer.gradient(1)));
                    let gradient = f64::from(alpha) * g_v + f64::from(1.0 - alpha) * g_w;
                    alpha = self.adapted(alpha, gradient, trainer.world.settings.learning_rate);
                    adapting = self.adapt() == Adapt::Batch;
                }
                Ok(())
            })?;
        }
        let trained = v.params.clone();
        mix(&mut v.params, alpha, &trained, &w.params);
        *share = f64::from(alpha);
        Ok(())
    }

    /// As the paper: v_c goes down the gradient at the mixture, and is kept apart.
    fn kept_apart(&self, trainer: &mut Trainer<'_>, w: &mut Model, own: &mut Own) -> Outcome<()> {
        let Own { personal: Some(v), share, mixed: Some(mixed), .. } = own else { return Ok(()) };
        let mut alpha = *share as f32;
        let mut adapting = self.adapt() != Adapt::Never;
        let (mut first, mut second) = (trainer.optimiser(), trainer.optimiser());
        mixed.training = true;
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                mix(&mut mixed.params, alpha, &v.params, &w.params);
                trainer.gradients(&mut [&mut *w, &mut *mixed], batch, &Objective::CrossEntropy, Parts::All)?;
                let used = alpha;
                if adapting {
                    let gradient = dot(&v.params, trainer.gradient(1)) - dot(&w.params, trainer.gradient(1));
                    alpha = self.adapted(alpha, gradient, f64::from(trainer.rate()));
                    adapting = self.adapt() == Adapt::Batch;
                }
                trainer.apply(0, w, Update::new(&mut first));
                // The mixture holds alpha v, so the gradient by v is alpha times the one there.
                let rate = used * trainer.rate();
                trainer.apply(1, v, Update::new(&mut second).rate(rate));
                Ok(())
            })?;
        }
        mix(&mut mixed.params, alpha, &v.params, &w.params);
        *share = f64::from(alpha);
        Ok(())
    }
}

impl Algorithm for Apfl {
    type Server = ();
    type Client = Own;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "apfl",
            title: "APFL",
            family: "personalised aggregation",
            paper: "Deng, Kamani, Mahdavi, Adaptive Personalized Federated Learning, arXiv 2003.13461, 2020",
            year: 2020,
            personal: "a second model v_c and its share alpha_c",
            down: "w",
            up: "w",
            rule: "w as FedAvg; v_c <- v_c - lr grad at alpha_c v_c + (1 - alpha_c) w_c; alpha_c <- alpha_c - lr <v_c - w_c, that gradient>; \
                   the mixture is the client's model",
            differences: "PFLlib trains v_c for itself and then overwrites it with the mixture (`personal: merged`), adapts alpha in every \
                          batch (`adapt: batch`, the paper once a round), and measures the training loss in training mode, which moves the \
                          statistics of normalisation layers (`train_statistics`). PFLlib's default alpha 1 hardly mixes. PFLlib tests the \
                          initial model at new clients; here they fine-tune the global one",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("alpha", Type::fraction(), 0.5, "Share of the personal model at the start.")
                    .from("alpha", "the authors' README"),
                Field::with("alpha_decay", Type::non_negative(), 0.02, "Pull of the share to 0.").from("", "a constant in PFLlib's code"),
                Field::optional(
                    "personal",
                    Type::Choice(&[
                        ("merged", "trained for itself, then replaced by the mixture, as PFLlib"),
                        ("apart", "the gradient at the mixture, kept apart, as the paper"),
                    ]),
                    "How the personal model is trained.",
                ),
                Field::optional(
                    "adapt",
                    Type::Choice(&[
                        ("batch", "in every batch, as PFLlib"),
                        ("round", "in the first batch of a round, as the paper"),
                        ("never", "the share stays as it is"),
                    ]),
                    "When the share is adapted.",
                ),
                Field::optional("train_statistics", Type::Bool, "Whether measuring the training loss moves running statistics."),
            ],
            revision: 1,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(OWN_LOSS)
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Own>]) -> Outcome<()> {
        let (personal, share) = (Some(world.initial.clone()), f64::from(self.alpha));
        let own = Own { mixed: self.apart().then(|| world.initial.clone()), personal, share, shown: None };
        clients.iter_mut().for_each(|client| client.state = own.clone());
        Ok(())
    }

    fn receive(&self, _: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Own>) -> Outcome<()> {
        client.model.params = server.global.params.clone();
        if let Own { personal: Some(v), share, mixed: Some(mixed), .. } = &mut client.state {
            mix(&mut mixed.params, *share as f32, &v.params, &client.model.params);
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Own>) -> Outcome<()> {
        client.model.training = true;
        if let Some(v) = &mut client.state.personal {
            v.training = true;
        }
        if self.apart() {
            self.kept_apart(trainer, &mut client.model, &mut client.state)
        } else {
            self.merged(trainer, &mut client.model, &mut client.state)
        }
    }

    fn evaluated<'a>(&self, _: usize, _: &'a Server<()>, client: &'a Client<Own>) -> &'a Model {
        let own = &client.state;
        own.shown.as_ref().or(own.mixed.as_ref()).or(own.personal.as_ref()).unwrap_or(&client.model)
    }

    /// In training mode where the reference measures so; the statistics are moved by `before_evaluation`.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<()>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let mut model = Model { training: self.train_statistics(), ..self.evaluated(view, server, client).clone() };
        let (_, scores) = trainer.forward(&mut model, batch)?;
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y))))
    }

    /// Measures with the statistics from before, as the reference, whose test comes first.
    fn before_evaluation(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Own>, measured: bool) -> Outcome<()> {
        let own = &mut client.state;
        let Some(model) = own.mixed.as_mut().or(own.personal.as_mut()) else { return Ok(()) };
        if model.buffers.values.is_empty() || !self.train_statistics() {
            return Ok(());
        }
        own.shown = measured.then(|| model.clone());
        model.training = true;
        trainer.pass(trainer.measuring(), |trainer, batch| trainer.forward(model, batch).map(drop))
    }

    fn evaluation_effect(&self, client: &mut Client<Own>) {
        client.model.training = false;
        client.state.shown = None;
    }
}
