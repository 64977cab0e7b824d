//! FedAMP: the server sends each client a cloud model that leans on the clients with similar models.

use super::shared::flat::squared_distance;
use super::shared::pull;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::Params;
use crate::engine::update::{Correction, add_scaled};
use crate::fl::algorithm::Who;
use crate::fl::{
    Aggregation, Algorithm, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Huang et al., AAAI 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedAmp {
    variant: Variant,
    alpha: f64,
    sigma: f64,
    lambda: f32,
    penalty: Option<Penalty>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Penalty {
    None,
    Norm,
    Squared,
}

/// The models that arrived last, by client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages(BTreeMap<usize, Params<f32>>);

impl State for Messages {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("messages", visitor);
    }
}

/// The cloud model u_c.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cloud(Params<f32>);

impl State for Cloud {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.params("cloud", &mut self.0);
    }
}

impl FedAmp {
    fn penalty(&self) -> Penalty {
        self.variant.choose(self.penalty, Penalty::None, Penalty::Squared)
    }
    fn strength(&self) -> f32 {
        (f64::from(self.lambda) / self.alpha) as f32
    }
    /// u_c = sum over the others of coef_j w_j, the rest of the weight on the client's own model.
    fn cloud(&self, client: usize, own: &[f32], messages: &BTreeMap<usize, Params<f32>>) -> Params<f32> {
        let mut cloud = vec![0.0; own.len()];
        let mut rest = 1.0;
        for (_, other) in messages.iter().filter(|(id, _)| **id != client) {
            let coefficient = (self.alpha * (-squared_distance(own, other) / self.sigma).exp() / self.sigma) as f32;
            add_scaled(&mut cloud, coefficient, other);
            rest -= coefficient;
        }
        add_scaled(&mut cloud, rest, own);
        cloud.into()
    }
}

impl Algorithm for FedAmp {
    type Server = Messages;
    type Client = Cloud;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedamp",
            title: "FedAMP",
            family: "personalised aggregation",
            paper: "Huang et al., Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021",
            year: 2021,
            personal: "the whole model w_c, and a cloud model u_c",
            down: "w",
            up: "w",
            rule: "u_c = sum_j xi_cj w_j with xi_cj = (alpha_K/sigma) exp(-||w_c - w_j||^2/sigma) for j /= c and xi_cc = 1 - the others; \
                   client c then minimizes L(w) + lambda/(2 alpha_K) ||w - u_c||^2",
            differences: "PFLlib's distance to the cloud model is not squared and has no gradient, so that its FedAMP trains as Local \
                          (`variant: pfllib`, `penalty: none`); the default is therefore `paper`. `norm` is the derivative of what PFLlib \
                          writes down. Keep (m - 1) alpha_K/sigma at or below 1 for m clients in a round, or the cloud model leaves the \
                          convex hull. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Paper.field(),
                Field::with("alpha", Type::positive(), 1.0, "Step of the message passing; divides the penalty too.")
                    .from("alpha_K", "judged; PFLlib's default"),
                Field::with("sigma", Type::positive(), 25.0, "Width of the similarity, of the order of squared distances of models.")
                    .from("sigma", "easyFL, and a small trial; PFLlib's default is 1"),
                Field::with("lambda", Type::non_negative(), 1.0, "Weight of the penalty.").from("lambda", "PFLlib's example script"),
                Field::optional(
                    "penalty",
                    Type::Choice(&[
                        ("none", "reported, but without a gradient, as PFLlib"),
                        ("norm", "lambda/(2 alpha_K) ||w - u_c||"),
                        ("squared", "lambda/(2 alpha_K) ||w - u_c||^2, as the paper"),
                    ]),
                    "The distance that is penalized.",
                ),
            ],
            revision: 1,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Models("makes a mixture of models for each client and no single mean")
    }

    fn receives(&self) -> Who {
        Who::Cohort
    }

    fn setup(&self, world: &World, _: &mut Server<Messages>, clients: &mut [Client<Cloud>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.0 = world.initial.params.clone());
        Ok(())
    }

    fn welcomes(&self) -> bool {
        false
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<Messages>, client: &mut Client<Cloud>) -> Outcome<()> {
        if !server.state.0.is_empty() {
            client.state.0 = self.cloud(trainer.client(), &client.model.params, &server.state.0);
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<Messages>, client: &mut Client<Cloud>) -> Outcome<()> {
        let (model, cloud) = (&mut client.model, &client.state.0);
        match self.penalty() {
            Penalty::None => trainer.descend(model, &Objective::CrossEntropy, &[]),
            Penalty::Norm => pull::descend(trainer, model, 0.5 * self.strength(), cloud, &[]),
            Penalty::Squared => {
                let pull = Correction::Proximal { mu: self.strength(), reference: cloud };
                trainer.descend(model, &Objective::CrossEntropy, &[pull])
            }
        }
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Messages>, uploads: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        server.state.0 = uploads.iter().map(|upload| (upload.client, upload.model.params.clone())).collect();
        Ok(())
    }

    /// Cross-entropy plus the penalty; without a gradient, the norm that PFLlib reports.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Messages>,
        client: &Client<Cloud>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        let squared = squared_distance(&client.model.params, &client.state.0);
        let penalty = if self.penalty() == Penalty::Squared { squared } else { squared.sqrt() };
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y)) + 0.5 * f64::from(self.strength()) * penalty))
    }
}
