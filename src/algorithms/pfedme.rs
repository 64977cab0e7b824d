//! pFedMe: personal models in a Moreau envelope around a local copy of the global model.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::update::Correction;
use crate::fl::algorithm::weighted_mean;
use crate::fl::per_sample::SEVERAL;
use crate::fl::{Aggregation, Algorithm, Client, Description, Item, Objective, Server, State, Trainer, Update, Uploaded, Visitor};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// T. Dinh, Tran, Nguyen, NeurIPS 2020, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PFedMe {
    variant: Variant,
    beta: f64,
    lambda: f64,
    inner_steps: u64,
    personal_learning_rate: f64,
    weight_decay: f32,
    evaluate: Option<Evaluate>,
    weights: Option<Weights>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Evaluate {
    Alias,
    Theta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    Samples,
    Uniform,
}

/// Whether the client has trained, and its personal model theta where that is evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Personal {
    trained: bool,
    theta: Option<Model>,
}

impl State for Personal {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.trained.visit("trained", visitor);
        self.theta.visit("theta", visitor);
    }
}

impl PFedMe {
    fn evaluate(&self) -> Evaluate {
        self.variant.choose(self.evaluate, Evaluate::Alias, Evaluate::Theta)
    }
}

impl Algorithm for PFedMe {
    type Server = ();
    type Client = Personal;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "pfedme",
            title: "pFedMe",
            family: "regularisation",
            paper: "T. Dinh, Tran, Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020",
            year: 2020,
            personal: "a model theta_c near the global one",
            down: "w",
            up: "w",
            rule: "on each batch K times theta <- theta - lr_p (grad + lambda (theta - l) + decay theta), then l <- l - lr lambda (l - theta); \
                   w <- (1 - beta) w + beta mean(l_c)",
            differences: "in PFLlib the list of personal parameters becomes an alias of the working model, so that it evaluates the broadcast \
                          model, and at a client that never trained puts the initial weights in its place, from which training then starts \
                          (`evaluate: alias`); it weights by samples, the paper uniformly (`weights`). PFLlib's default beta 0 freezes the \
                          global model. So PFLlib's numbers are those of the global model, which need not beat FedAvg; the personal models do \
                          (`evaluate: theta`). Keep lr lambda below 2. The training loss is plain cross-entropy",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("beta", Type::non_negative(), 3.0, "Share of the new mean in the global model; above 1 extrapolates.")
                    .from("beta", "PFLlib's author (issue 102); 1 is plain averaging"),
                Field::with("lambda", Type::non_negative(), 15.0, "Pull of theta to l; scales the outer step too.")
                    .from("lambda", "PFLlib's author (issues 12 and 102); the authors' README"),
                Field::with("inner_steps", Type::at_least(0), 5, "Steps on theta in each batch.").from("K", "the authors' main.py"),
                Field::with("personal_learning_rate", Type::positive(), 0.01, "Learning rate of theta; decays with the local one.")
                    .from("lr_p", "PFLlib's author (issues 12 and 102); the authors' README"),
                Field::with("weight_decay", Type::non_negative(), 0.001, "Decay in the steps on theta.")
                    .from("", "a constant in the authors' and PFLlib's code"),
                Field::optional(
                    "evaluate",
                    Type::Choice(&[
                        ("alias", "the broadcast model, as PFLlib"),
                        ("theta", "the broadcast model, and the personal model as the headline"),
                    ]),
                    "What is evaluated.",
                ),
                Field::optional(
                    "weights",
                    Type::Choice(&[("samples", "by samples, as PFLlib"), ("uniform", "all alike, as the paper")]),
                    "How the uploads are averaged.",
                ),
            ],
            revision: 2,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(SEVERAL)
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Personal>) -> Outcome<()> {
        let alias = self.evaluate() == Evaluate::Alias;
        let source = if alias && !client.state.trained { &trainer.world.initial } else { &server.global };
        client.model.params = source.params.clone();
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Personal>) -> Outcome<()> {
        let mut local = server.global.params.clone();
        let model = &mut client.model;
        model.training = true;
        let rate = trainer.decayed(self.personal_learning_rate);
        let outer = (self.lambda * trainer.world.settings.learning_rate) as f32;
        let mut optimiser = trainer.optimiser();
        let trained = &mut client.state.trained;
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                // A first step makes the alias; a client without a batch has none.
                *trained |= self.inner_steps > 0;
                let corrections =
                    [Correction::Proximal { mu: self.lambda as f32, reference: &local }, Correction::Decay(self.weight_decay)];
                for _ in 0..self.inner_steps {
                    let update = Update::new(&mut optimiser).with(&corrections).rate(rate);
                    trainer.step(model, batch, &Objective::CrossEntropy, update)?;
                }
                for (l, theta) in local.iter_mut().zip(model.params.iter()) {
                    *l -= outer * (*l - theta);
                }
                Ok(())
            })?;
        }
        client.state.theta = (self.evaluate() == Evaluate::Theta).then(|| client.model.clone());
        client.model.params = local;
        Ok(())
    }

    fn equal_weights(&self) -> bool {
        self.variant.choose(self.weights, Weights::Samples, Weights::Uniform) == Weights::Uniform
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        let old = server.global.params.clone();
        let uniform = 1.0 / uploads.len() as f64;
        let by_samples = self.variant.choose(self.weights, Weights::Samples, Weights::Uniform) == Weights::Samples;
        weighted_mean(&mut server.global, uploads, |upload| if by_samples { upload.weight } else { uniform }, |_| true);
        let (keep, take) = ((1.0 - self.beta) as f32, self.beta as f32);
        for (w, old) in server.global.params.iter_mut().zip(old.iter()) {
            *w = keep * old + take * *w;
        }
        Ok(())
    }

    fn views(&self) -> &'static [&'static str] {
        match self.evaluate() {
            Evaluate::Alias => &["model"],
            Evaluate::Theta => &["global", "personal"],
        }
    }

    fn evaluated<'a>(&self, view: usize, _: &'a Server<()>, client: &'a Client<Personal>) -> &'a Model {
        client.state.theta.as_ref().filter(|_| view > 0).unwrap_or(&client.model)
    }
}
