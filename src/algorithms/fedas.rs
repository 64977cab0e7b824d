//! FedAS: a client aligns the received base with its own prototypes; the server weighs the models by their Fisher information.

use super::shared::flat::dot;
use super::shared::frozen::embed_pass;
use super::shared::prototypes::{ClassMeans, Prototypes};
use crate::base::Outcome;
use crate::engine::tape::{Graph, Loss, known};
use crate::engine::update::{Optimiser, Rule};
use crate::engine::{Entry, Part, Parts};
use crate::fl::algorithm::weighted_mean;
use crate::fl::{
    Aggregation, Algorithm, Client, Description, Objective, Pass, Sends, Server, State, Trainer, Update, Uploaded, Visitor, When, Who,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Yang, Huang, Ye, CVPR 2024.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedAs {
    alignment_rate: f32,
    alignment_batch: usize,
    alignment_epochs: u64,
}

/// The trace of the Fisher information of a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(f64);

impl State for Trace {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.number("trace", &mut self.0);
    }
}

/// The sum over the classes of the batch of the mean over that class's rows and all features of `(f - prototype)^2`.
fn distance(graph: &Graph, labels: &[u32], prototypes: &Prototypes) -> Loss {
    let (value, gradient) = distances(&graph.detached_features().as_vec(), labels, prototypes);
    known(graph.features(), value, gradient)
}

fn distances(features: &[f32], labels: &[u32], prototypes: &Prototypes) -> (f32, Vec<f32>) {
    let width = (features.len() / labels.len().max(1)).max(1);
    let mut gradient = vec![0.0; features.len()];
    let mut value = 0.0;
    for ((row, gradient), label) in features.chunks_exact(width).zip(gradient.chunks_exact_mut(width)).zip(labels) {
        let Some(prototype) = prototypes.get(*label as usize) else { continue };
        let same = labels.iter().filter(|other| *other == label).count();
        let scale = 1.0 / (same * width) as f32;
        for ((f, p), gradient) in row.iter().zip(prototype).zip(gradient) {
            value += scale * (f - p) * (f - p);
            *gradient = 2.0 * scale * (f - p);
        }
    }
    (value, gradient)
}

impl Algorithm for FedAs {
    type Server = ();
    type Client = ();
    type Upload = Trace;

    fn describe() -> Description {
        Description {
            name: "fedas",
            title: "FedAS",
            family: "model splitting",
            paper: "Yang, Huang, Ye, FedAS: Bridging Inconsistency in Personalized Federated Learning, CVPR 2024",
            year: 2024,
            personal: "the head",
            down: "b",
            up: "w + 1",
            rule: "a selected client draws the features of the received base toward the prototypes of its old base and keeps its head; then E \
                   epochs of SGD; w <- sum_c F_c w_c / sum_c F_c with F_c the sum over batches of the squared norm of the gradient",
            differences: "PFLlib and the authors' code take gradients of batch means and do not divide by the number of batches, so that F_c \
                          grows with a client's data. PFLlib also computes F_c where nobody reads it, and crashes after the last round. \
                          Where all F_c are 0, samples weigh",
            fields: vec![
                Field::with("alignment_rate", Type::positive(), 0.01, "Learning rate of the alignment.").from("", "the authors' code"),
                Field::with("alignment_batch", Type::at_least(1), 16, "Batch size of the alignment.").from("", "the authors' code"),
                Field::with("alignment_epochs", Type::at_least(0), 1, "Passes of the alignment.").from("", "the authors' code"),
            ],
            revision: 2,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the trace of the Fisher information")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }

    /// The reference averages the heads too, though nobody reads the result.
    fn averaged(&self, _: &Entry) -> bool {
        true
    }

    fn receives(&self) -> Who {
        Who::Cohort
    }

    fn evaluates(&self) -> When {
        When::BeforeReceive
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<()>) -> Outcome<()> {
        let pass = Pass { size: self.alignment_batch, ..trainer.training() };
        let mut means = ClassMeans::default();
        embed_pass(trainer, &mut client.model, pass, |features, labels| means.add(features, labels))?;
        let prototypes = means.means();
        // In the mode of the server's model, which is that of the first model it averaged.
        let mut aligned = server.global.clone();
        let mut optimiser = Optimiser::new(Rule::Sgd);
        let objective = Objective::custom(|graph, labels| Ok(distance(graph, labels, &prototypes)));
        for _ in 0..self.alignment_epochs {
            trainer.pass(pass, |trainer, batch| {
                let update = Update::new(&mut optimiser).only(Parts::Base).rate(self.alignment_rate).undecayed();
                trainer.step(&mut aligned, batch, &objective, update).map(drop)
            })?;
        }
        let base = trainer.world.layout().base();
        client.model.params[base.clone()].copy_from_slice(&aligned.params[base]);
        Ok(())
    }

    fn upload(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<()>) -> Outcome<Trace> {
        client.model.training = false;
        let mut trace = 0.0;
        trainer.aside(|trainer| {
            trainer.pass(trainer.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut client.model], batch, &Objective::CrossEntropy, Parts::All)?;
                trace += dot(trainer.gradient(0), trainer.gradient(0));
                Ok(())
            })
        })?;
        Ok(Trace(trace))
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<Trace>], _: &Aggregation<'_>) -> Outcome<()> {
        let total: f64 = uploads.iter().map(|upload| upload.extra.0).sum();
        let weight = |upload: &Uploaded<Trace>| if total > 0.0 { upload.extra.0 / total } else { upload.weight };
        weighted_mean(&mut server.global, uploads, weight, |_| true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_a_batch_counts_alike() {
        let mut means = ClassMeans::default();
        means.add(&[0.0, 1.0], &[0, 1]);
        let prototypes = means.means();
        // Class 0: mean of 1 and 9; class 1: 4; class 2 has no prototype.
        let (value, gradient) = distances(&[1.0, 3.0, 3.0, 8.0], &[0, 0, 1, 2], &prototypes);
        assert_eq!((value, gradient), (9.0, vec![1.0, 3.0, 4.0, 0.0]));
    }
}
