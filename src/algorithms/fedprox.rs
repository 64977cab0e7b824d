//! FedProx: a proximal term holds the local models near the global one.

use crate::base::Outcome;
use crate::engine::update::{Correction, distance};
use crate::fl::{Algorithm, Batch, Client, Description, Server, Trainer};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Li et al., MLSys 2020, Algorithm 2.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedProx {
    mu: f32,
}

impl Algorithm for FedProx {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedprox",
            title: "FedProx",
            family: "traditional",
            paper: "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
            year: 2020,
            personal: "nothing",
            down: "w",
            up: "w",
            rule: "each step at client c: w_c <- w_c - lr (grad + mu (w_c - w)); the server averages as FedAvg",
            differences: "the paper's inexactness gamma is not modelled, as in PFLlib; PFLlib's default mu = 0 switches the method off",
            fields: vec![
                Field::with("mu", Type::non_negative(), 0.001, "Weight of the proximal term (mu/2)||w_c - w||^2.")
                    .from("mu", "PFLlib's example script; the authors tune it in {0.001, 0.01, 0.1, 0.5, 1}"),
            ],
            revision: 2,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn corrections<'a>(&'a self, server: &'a Server<()>, _: &'a ()) -> Vec<Correction<'a, f32>> {
        vec![Correction::Proximal { mu: self.mu, reference: &server.global.params }]
    }

    /// Cross-entropy plus (mu/2)||w - w_c||, not squared: what PFLlib reports.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<()>,
        client: &Client<()>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        let distance = distance(&server.global.params, &client.model.params);
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y) + 0.5 * self.mu * distance)))
    }
}
