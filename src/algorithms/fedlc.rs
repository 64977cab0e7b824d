//! FedLC: FedAvg whose clients train on logits that label counts calibrate.

use super::shared::calibration::shifted_cross_entropy;
use super::shared::classes::counts;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::fl::per_sample::OWN_LOSS;
use crate::fl::{Algorithm, Client, Description, Item, Objective, Sends, Server, State, Trainer, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Zhang et al., ICML 2022.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedLc {
    variant: Variant,
    tau: f32,
    counts: Option<Counts>,
}

/// Whose samples are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Counts {
    Global,
    Own,
}

/// Samples of each class: the client's, or all clients' at the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f32>);

impl State for Samples {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("counts", visitor);
    }
}

impl FedLc {
    fn counts(&self) -> Counts {
        self.variant.choose(self.counts, Counts::Global, Counts::Own)
    }
    /// What is added to the logits: -tau n_k^(-1/4), minus infinity for a class without samples.
    fn shift(&self, samples: &[f32]) -> Vec<f32> {
        samples.iter().map(|n| -self.tau * n.powf(-0.25)).collect()
    }
}

impl Algorithm for FedLc {
    type Server = Samples;
    type Client = Samples;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedlc",
            title: "FedLC",
            family: "traditional",
            paper: "Zhang et al., Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022",
            year: 2022,
            personal: "nothing",
            down: "w",
            up: "w",
            rule: "client: min CE of the logits z_k - tau n_k^(-1/4), where n_k is its number of samples of class k; the server averages as \
                   FedAvg; predictions are not calibrated",
            differences: "PFLlib counts the samples of all clients together (`counts: global`): where the classes are balanced over all \
                          clients the shift is the same for each class and has no effect, so the default is the paper's `own`. The paper's \
                          formula leaves the label out of the softmax's sum, which makes its loss unbounded below; here it is in, as in \
                          PFLlib and in other implementations",
            fields: vec![
                Variant::Paper.field(),
                Field::with("tau", Type::non_negative(), 1.0, "Strength of the calibration.").from("tau", "FL-bench"),
                Field::optional(
                    "counts",
                    Type::Choice(&[
                        ("global", "of all clients, without those of a dropped last batch, as PFLlib"),
                        ("own", "of the client, as the paper"),
                    ]),
                    "Whose samples are counted.",
                ),
            ],
            revision: 1,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        (self.tau != 0.0).then_some(OWN_LOSS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        // The counts of all clients together are known to each of them.
        if self.counts() == Counts::Global { Sends::AveragedAnd("the number of samples of each class") } else { Sends::Averaged }
    }

    fn setup(&self, world: &World, server: &mut Server<Samples>, clients: &mut [Client<Samples>]) -> Outcome<()> {
        server.state.0 = vec![0.0; world.data.classes()];
        for client in clients {
            client.state.0 = counts(world, client.id, self.counts() == Counts::Global);
            server.state.0.iter_mut().zip(&client.state.0).for_each(|(sum, count)| *sum += count);
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Samples>, client: &mut Client<Samples>) -> Outcome<()> {
        if self.tau == 0.0 {
            return trainer.descend(&mut client.model, &Objective::CrossEntropy, &[]);
        }
        let shift = self.shift(if self.counts() == Counts::Global { &server.state.0 } else { &client.state.0 });
        let objective = Objective::custom(move |graph, labels| Ok(shifted_cross_entropy(graph.logits(), &shift, labels)));
        trainer.descend(&mut client.model, &objective, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_classes_are_shifted_down_and_missing_ones_taken_out() {
        let shift = FedLc { variant: Variant::Paper, tau: 2.0, counts: None }.shift(&[16.0, 1.0, 0.0]);
        assert_eq!(shift, [-1.0, -2.0, f32::NEG_INFINITY]);
    }
}
