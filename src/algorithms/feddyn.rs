//! FedDyn: each client's loss is bent so that its optimum agrees with the global one.

use super::shared::flat::dot;
use super::shared::pull;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::Params;
use crate::engine::update::Correction;
use crate::fl::{Aggregation, Algorithm, Batch, Client, Description, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Acar et al., ICLR 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedDyn {
    variant: Variant,
    alpha: f32,
    penalty: Option<Penalty>,
    divisor: Option<Divisor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Penalty {
    Norm,
    Squared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Divisor {
    Static,
    Uploaded,
}

/// A client's r_c or the server's h: zero at the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drift(Params<f32>);

impl State for Drift {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.params("drift", &mut self.0);
    }
}

impl Algorithm for FedDyn {
    type Server = Drift;
    type Client = Drift;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "feddyn",
            title: "FedDyn",
            family: "traditional",
            paper: "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021",
            year: 2021,
            personal: "a drift r_c, the client's share of the linear term",
            down: "w",
            up: "w",
            rule: "client: min L(v) + (alpha/2) ||v - w||^2 - <v, r_c>, then r_c <- r_c - alpha (v - w); server: \
                   h <- h - alpha/N sum (v_c - w), w <- mean of v_c - h/alpha",
            differences: "PFLlib does not square the norm, so that its pull has the constant length alpha/2 (`penalty: norm`), and divides \
                          the sum of the models by the nominal cohort size whatever arrived (`divisor: static`). The training loss is \
                          measured on the received model, where the penalty is zero. The default is PFLlib's form, as of all algorithms whose \
                          reference runs; the default alpha was published with the squared form",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("alpha", Type::positive(), 0.1, "Weight of the regularizer, at the clients and at the server.")
                    .from("alpha", "FedNTD's configuration; FL-bench"),
                Field::optional(
                    "penalty",
                    Type::Choice(&[("norm", "(alpha/2) ||v - w||, as PFLlib"), ("squared", "(alpha/2) ||v - w||^2, as the paper")]),
                    "The distance that is penalized.",
                ),
                Field::optional(
                    "divisor",
                    Type::Choice(&[
                        ("static", "the nominal cohort size, as PFLlib"),
                        ("uploaded", "the uploads that arrived, as the paper"),
                    ]),
                    "What the sum of the models is divided by; differs only when uploads are lost or the cohort size is drawn.",
                ),
            ],
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the drift that the server keeps")
    }

    fn setup(&self, world: &World, server: &mut Server<Drift>, clients: &mut [Client<Drift>]) -> Outcome<()> {
        let zero = Drift(Params::zeros(world.layout().len));
        server.state = zero.clone();
        clients.iter_mut().for_each(|client| client.state = zero.clone());
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Drift>, client: &mut Client<Drift>) -> Outcome<()> {
        let (model, drift, w) = (&mut client.model, &mut client.state.0, &server.global.params[..]);
        let linear = Correction::Subtract(drift);
        match self.variant.choose(self.penalty, Penalty::Norm, Penalty::Squared) {
            Penalty::Norm => pull::descend(trainer, model, self.alpha / 2.0, w, &[linear])?,
            Penalty::Squared => {
                trainer.descend(model, &Objective::CrossEntropy, &[Correction::Proximal { mu: self.alpha, reference: w }, linear])?;
            }
        }
        for ((r, v), w) in drift.iter_mut().zip(model.params.iter()).zip(w) {
            *r -= self.alpha * (v - w);
        }
        Ok(())
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Drift>, uploads: &[Uploaded<()>], round: &Aggregation<'_>) -> Outcome<()> {
        let divisor = match self.variant.choose(self.divisor, Divisor::Static, Divisor::Uploaded) {
            Divisor::Static => round.nominal,
            Divisor::Uploaded => uploads.len(),
        } as f32;
        let (all, old, inverse) = (round.clients as f32, server.global.clone(), (1.0 / f64::from(self.alpha)) as f32);
        server.global.buffers = uploads[0].model.buffers.clone();
        server.global.training = uploads[0].model.training;
        let (w, h) = (&mut server.global.params[..], &mut server.state.0[..]);
        w.fill(0.0);
        let mut change = vec![0.0; w.len()];
        for upload in uploads {
            for (((w, change), v), old) in w.iter_mut().zip(&mut change).zip(upload.model.params.iter()).zip(old.params.iter()) {
                *change += (v - old) / all;
                *w += v / divisor;
            }
        }
        for ((w, h), change) in w.iter_mut().zip(h).zip(change) {
            *h -= self.alpha * change;
            *w -= inverse * *h;
        }
        Ok(())
    }

    /// Cross-entropy minus <v, r_c>; the model is the received one.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Drift>,
        client: &Client<Drift>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y)) - dot(&client.model.params, &client.state.0)))
    }
}
