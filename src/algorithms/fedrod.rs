//! FedRoD: one base, a generic head that learns from a balanced loss, and a personal head that learns what is left.

use super::shared::calibration::shifted_cross_entropy;
use super::shared::classes::counts;
use super::shared::heads;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::{StepTape, constant, cross_entropy};
use crate::engine::{Model, Parts};
use crate::fl::per_sample::OWN_LOSS;
use crate::fl::{Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor, World};
use crate::spec::catalog::{Field, Type};
use dfdx::prelude::{HasShape, PutTape};
use serde::Deserialize;

/// Chen, Chao, ICLR 2022, with a linear personal head.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedRod {
    variant: Variant,
    counts: Option<Counts>,
    report_generic: bool,
}

/// Which samples balance the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Counts {
    DropLast,
    Full,
}

/// The personal head q_c, and the client's samples of each class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    head: Option<Model>,
    counts: Vec<f32>,
}

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.head.visit("head", visitor);
        self.counts.visit("counts", visitor);
    }
}

impl Algorithm for FedRod {
    type Server = ();
    type Client = Own;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedrod",
            title: "FedRoD",
            family: "model splitting",
            paper: "Chen, Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022",
            year: 2022,
            personal: "a second head q_c",
            down: "w",
            up: "w",
            rule: "client: base and generic head min CE of z_k + ln n_k (balanced softmax), where n_k is its number of samples of class k; \
                   then q_c min CE of z + q_c(f) with z and the features f fixed; base and generic head are averaged as FedAvg; prediction: \
                   z + q_c(f)",
            differences: "PFLlib counts the samples that one pass meets, without those of the dropped last batch (`counts: drop-last`). The \
                          paper's hyper-network for the personal head is not in PFLlib and not here. New clients are tested with the \
                          generic head; PFLlib adds a personal head that was never trained",
            fields: vec![
                Variant::Pfllib.field(),
                Field::optional(
                    "counts",
                    Type::Choice(&[
                        ("drop-last", "those of one training pass, as PFLlib"),
                        ("full", "the whole training set, as the paper"),
                    ]),
                    "Which samples balance the loss.",
                ),
                Field::with("report_generic", Type::Bool, false, "Whether the generic predictor is evaluated too, as the view `generic`.")
                    .from("-", "PFLlib; the paper reports both"),
            ],
            revision: 1,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(OWN_LOSS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Own>]) -> Outcome<()> {
        let head = heads::alone(&world.initial)?;
        let batches = self.variant.choose(self.counts, Counts::DropLast, Counts::Full) == Counts::DropLast;
        for client in clients {
            client.state = Own { head: Some(head.clone()), counts: counts(world, client.id, batches) };
        }
        Ok(())
    }

    /// Both steps of a batch in one graph: no gradient passes between the two losses, and both are taken before either step.
    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Own>) -> Outcome<()> {
        let Client { model, state: Own { head: Some(head), counts }, .. } = client else { return Ok(()) };
        model.training = true;
        let balance: Vec<f32> = counts.iter().map(|n| n.ln()).collect();
        let objective = Objective::joint(|graphs, labels| {
            let (generic, personal) = (&graphs[0], &graphs[1]);
            let balanced = shifted_cross_entropy(generic.logits(), &balance, labels);
            let logits = generic.logits();
            let (rows, classes) = *logits.shape();
            let logits = constant(logits.as_vec(), rows, classes);
            let residual = personal.head(generic.detached_features().put_tape(StepTape::default()));
            Ok(balanced + cross_entropy(residual + logits, labels))
        });
        let mut optimisers = [trainer.optimiser(), trainer.optimiser()];
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut *model, &mut *head], batch, &objective, Parts::All)?;
                trainer.apply(0, model, Update::new(&mut optimisers[0]));
                trainer.apply(1, head, Update::new(&mut optimisers[1]));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn views(&self) -> &'static [&'static str] {
        if self.report_generic { &["generic", "model"] } else { &["model"] }
    }

    /// z + q_c(f); the generic predictor is z alone.
    fn scores(&self, view: usize, trainer: &mut Trainer<'_>, _: &Server<()>, client: &Client<Own>, batch: &mut Batch) -> Outcome<Vec<f32>> {
        let (features, mut logits) = trainer.forward(&mut Model { training: false, ..client.model.clone() }, batch)?;
        let personal = client.state.head.as_ref().filter(|_| view + 1 == self.views().len());
        if let Some(head) = personal {
            let residual = trainer.head(head, &features, batch.rows());
            logits.iter_mut().zip(residual).for_each(|(z, r)| *z += r);
        }
        Ok(logits)
    }

    fn softmax_auc(&self, _: usize) -> bool {
        true
    }
}
