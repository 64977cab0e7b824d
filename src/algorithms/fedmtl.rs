//! FedMTL: local models that a penalty over all of the round's models ties together.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::update::{Correction, add_scaled};
use crate::engine::{Entry, Model, Params};
use crate::fl::algorithm::Who;
use crate::fl::{
    Aggregation, Algorithm, Arena, Client, Description, Exposed, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Smith et al., NeurIPS 2017, with the mean-regularized relation and gradient steps instead of the dual method.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedMtl {
    variant: Variant,
    penalty: Option<Penalty>,
    lambda: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Penalty {
    None,
    Sum,
    Mean,
}

/// The sum of the round's models as they began the round, and their number; nothing that survives the round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    sum: Params<f32>,
    count: usize,
}

impl State for Tasks {
    fn visit(&mut self, _: &mut dyn Visitor) {}
}

impl FedMtl {
    fn penalty(&self) -> Penalty {
        self.variant.choose(self.penalty, Penalty::None, Penalty::Mean)
    }
    /// The gradient of the penalty by w_k as factors of w_k and of the sum of the other models; `floats` are those of a whole model.
    fn factors(&self, tasks: usize, floats: usize) -> Option<(f32, f32)> {
        let count = tasks as f64;
        let (own, others) = match self.penalty() {
            Penalty::None => return None,
            // PFLlib: ||W||^2 + omega^2 sum over rows of (sum over columns)^2, scaled by the number of digits of the model's size.
            Penalty::Sum => {
                let scale = self.lambda.unwrap_or_else(|| 10f64.powi(-(((floats as f64).log10() + 1.0) as i32 + 1)));
                let omega = 1.0 - 1.0 / count;
                (scale * (2.0 + 2.0 * omega * omega), scale * 2.0 * omega * omega)
            }
            // lambda tr(W Omega W') with Omega = I - 11'/m: lambda sum_j ||w_j - mean||^2.
            Penalty::Mean => {
                let lambda = self.lambda.unwrap_or(0.1);
                (2.0 * lambda * (1.0 - 1.0 / count), -2.0 * lambda / count)
            }
        };
        Some((own as f32, others as f32))
    }
}

impl Algorithm for FedMtl {
    type Server = Tasks;
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedmtl",
            title: "FedMTL",
            family: "regularisation",
            paper: "Smith et al., Federated Multi-Task Learning, NeurIPS 2017",
            year: 2017,
            personal: "the whole model w_k",
            down: "w",
            up: "w",
            rule: "each step at client k: w_k <- w_k - lr (grad + d/dw_k lambda tr(W Omega W')), W the models of the round as they began it, \
                   with w_k kept up to date; Omega = I - 11'/m draws the models to their mean",
            differences: "the paper learns Omega and solves the dual problem (MOCHA); PFLlib fixes Omega, with ones everywhere where an \
                          identity was meant, and its penalty has no gradient, so that it trains as Local (`variant: pfllib`, \
                          `penalty: none`). The default is therefore `paper`, with its mean-regularized Omega. PFLlib's unused `itk` is left \
                          out. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Paper.field(),
                Field::optional(
                    "penalty",
                    Type::Choice(&[
                        ("none", "no gradient, as PFLlib"),
                        ("sum", "the derivative of what PFLlib writes down"),
                        ("mean", "the distance to the mean of the round's models"),
                    ]),
                    "The relation between the tasks.",
                ),
                Field::optional(
                    "lambda",
                    Type::non_negative(),
                    "Weight of the penalty; if absent 0.1 for `mean`, and for `sum` PFLlib's 10 to the power of minus the number of digits of \
                     the model's size, minus 1.",
                )
                .from("lambda_1", "judged"),
            ],
            revision: 1,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Other("couples all models through their correlations and makes no mean of them")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }
    fn receives(&self) -> Who {
        Who::None
    }
    /// The sum of the models; nothing where nothing is used.
    fn down(&self, world: &World, _: &Server<Tasks>, _: &Client<()>) -> u64 {
        if self.penalty() == Penalty::None { 0 } else { world.layout().len as u64 }
    }
    /// The model, where it is used.
    fn up(&self, world: &World, (): &mut ()) -> u64 {
        if self.penalty() == Penalty::None { 0 } else { world.layout().len as u64 }
    }

    /// The whole model, where the server makes use of it.
    fn exposes(&self, server: &Server<Tasks>, started: &Model, upload: &Uploaded<()>) -> Exposed {
        let sends = self.penalty() != Penalty::None;
        Exposed::of(server.global.net.layout(), |_| sends, &started.params, &upload.model.params)
    }

    fn welcomes(&self) -> bool {
        false
    }

    fn train_phase(&self, arena: &mut Arena<'_, Self>) -> Outcome<Vec<Uploaded<()>>> {
        if self.penalty() != Penalty::None {
            let mut sum = Params::zeros(arena.world.layout().len);
            for id in arena.ids(Who::Cohort) {
                add_scaled(&mut sum, 1.0, &arena.clients[id].model.params);
            }
            arena.server.state = Tasks { sum, count: arena.cohort.len() };
        }
        arena.train(self)
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Tasks>, client: &mut Client<()>) -> Outcome<()> {
        let layout = trainer.world.layout();
        let floats = layout.len + layout.buffers_len + layout.counters.len();
        let Some((own, others)) = self.factors(server.state.count, floats) else {
            return trainer.descend(&mut client.model, &Objective::CrossEntropy, &[]);
        };
        let others: Vec<f32> = server.state.sum.iter().zip(client.model.params.iter()).map(|(sum, w)| others * (sum - w)).collect();
        trainer.descend(&mut client.model, &Objective::CrossEntropy, &[Correction::Decay(own), Correction::Add(&others)])
    }

    /// There is no server model.
    fn aggregate(&self, _: &mut Trainer<'_>, _: &mut Server<Tasks>, _: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(penalty: Penalty, lambda: Option<f64>) -> FedMtl {
        FedMtl { variant: Variant::Paper, penalty: Some(penalty), lambda }
    }

    /// The derivative by w_0 of a penalty of three one-parameter models, by central differences.
    fn derivative(penalty: impl Fn(&[f64; 3]) -> f64) -> f64 {
        (penalty(&[0.5 + 1e-4, -1.0, 2.0]) - penalty(&[0.5 - 1e-4, -1.0, 2.0])) / 2e-4
    }

    #[test]
    fn the_factors_are_the_derivatives_of_the_penalties() {
        let (own, others) = of(Penalty::Mean, Some(0.3)).factors(3, 1).expect("a penalty");
        let numeric = derivative(|w| {
            let mean = w.iter().sum::<f64>() / 3.0;
            0.3 * w.iter().map(|w| (w - mean).powi(2)).sum::<f64>()
        });
        assert!((f64::from(own * 0.5 + others * (2.0 - 1.0)) - numeric).abs() < 1e-6);
        let (own, others) = of(Penalty::Sum, Some(0.3)).factors(3, 1).expect("a penalty");
        let numeric = derivative(|w| 0.3 * (w.iter().map(|w| w * w).sum::<f64>() + (2.0 / 3.0 * w.iter().sum::<f64>()).powi(2)));
        assert!((f64::from(own * 0.5 + others * (2.0 - 1.0)) - numeric).abs() < 1e-6);
    }

    #[test]
    fn the_reference_scales_by_the_digits_of_the_size() {
        let (own, _) = of(Penalty::Sum, None).factors(1, 582_026).expect("a penalty");
        assert!((own - 2e-7).abs() < 1e-12, "one task has no relation, and 582026 has six digits: {own}");
        assert!(of(Penalty::None, None).factors(3, 10).is_none());
    }
}
