//! FedNTD: FedAvg whose clients also keep what the global model knows about the classes that a sample is not of.

use super::shared::distillation::not_true_divergence;
use super::shared::frozen::Frozen;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::tape::cross_entropy;
use crate::fl::algorithm::weighted_mean;
use crate::fl::per_sample::OUTPUTS;
use crate::fl::{Aggregation, Algorithm, Client, Description, Objective, Server, Trainer, Update, Uploaded};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Lee et al., NeurIPS 2022, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedNtd {
    beta: f32,
    tau: f32,
    divisor: Divisor,
}

/// By what the sum of the models is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Divisor {
    Static,
    Uploaded,
}

impl Algorithm for FedNtd {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedntd",
            title: "FedNTD",
            family: "traditional",
            paper: "Lee et al., Preservation of the Global Knowledge by Not-True Distillation in Federated Learning, NeurIPS 2022",
            year: 2022,
            personal: "nothing",
            down: "w",
            up: "w",
            rule: "client: min CE + beta tau^2 KL(softmax(z_g/tau) || softmax(z/tau)), both over the classes that are not the label, with the \
                   logits z_g of the received model; server: w <- the plain mean of the models",
            differences: "PFLlib divides the sum of the models by the nominal cohort size whatever arrived, so that lost uploads shrink the \
                          model (`divisor: static`, the default); the paper divides by the clients that took part (`uploaded`). PFLlib's \
                          default beta = 0 switches the method off",
            fields: vec![
                Field::with("beta", Type::non_negative(), 1.0, "Weight of the distillation.")
                    .from("beta", "the authors' config/fedntd.json"),
                Field::with("tau", Type::positive(), 1.0, "Temperature of the distillation.")
                    .from("tau", "the authors' config/fedntd.json"),
                Field::with(
                    "divisor",
                    Type::Choice(&[
                        ("static", "the nominal cohort size, as PFLlib"),
                        ("uploaded", "the uploads that arrived, as the paper"),
                    ]),
                    "static",
                    "What the sum of the models is divided by; differs only when uploads are lost or the cohort size is drawn.",
                )
                .from("|S|", "PFLlib"),
            ],
            revision: 1,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        (self.beta != 0.0).then_some(OUTPUTS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<()>) -> Outcome<()> {
        if self.beta == 0.0 {
            return trainer.descend(&mut client.model, &Objective::CrossEntropy, &[]);
        }
        client.model.training = true;
        let mut teacher = Frozen::new(trainer, Model { training: false, ..server.global.clone() })?;
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let teacher = teacher.logits(trainer, batch)?;
                let objective = Objective::custom(|graph, labels| {
                    let kept = not_true_divergence(graph.logits(), &teacher, labels, self.tau);
                    Ok(cross_entropy(graph.logits(), labels) + kept * self.beta)
                });
                trainer.step(&mut client.model, batch, &objective, Update::new(&mut optimiser)).map(drop)
            })?;
        }
        Ok(())
    }

    fn equal_weights(&self) -> bool {
        true
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<()>], round: &Aggregation<'_>) -> Outcome<()> {
        let count = match self.divisor {
            Divisor::Static => round.nominal,
            Divisor::Uploaded => uploads.len(),
        };
        weighted_mean(&mut server.global, uploads, |_| 1.0 / count as f64, |_| true);
        Ok(())
    }
}
