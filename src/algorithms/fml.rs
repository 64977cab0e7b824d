//! FML: each client trains a personal model and a shared one (the meme) that teach each other; only the meme travels.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::{Graph, Leaf, Loss, cross_entropy, kl_divergence};
use crate::engine::{Model, Parts};
use crate::fl::algorithm::weighted_mean;
use crate::fl::per_sample::OWN_LOSS;
use crate::fl::{
    Aggregation, Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use dfdx::prelude::{Axis, HasShape};
use serde::Deserialize;

/// Shen et al., 2020, Algorithm 1. A client's own model is its meme; the personal one is in its state.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fml {
    variant: Variant,
    alpha: f32,
    beta: f32,
    peer: Option<Peer>,
    divergence: Option<Divergence>,
    clip: f32,
}

/// What a model's teacher is to the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Peer {
    Learns,
    Fixed,
}

/// What the Kullback-Leibler divergence of a batch is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Divergence {
    Elements,
    Rows,
}

/// The personal model; `setup` fills it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Personal(Option<Model>);

impl State for Personal {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("personal", visitor);
    }
}

impl Fml {
    /// share * CE(own, y) + (1 - share) * KL(softmax(peer) || softmax(own)).
    fn half(&self, own: &Graph, peer: &Graph, share: f32, labels: &[u32]) -> Loss {
        let plain = cross_entropy(own.logits(), labels);
        if share == 1.0 {
            return plain;
        }
        let mut teacher = peer.logits().softmax::<Axis<1>>();
        let (rows, classes) = *teacher.shape();
        if self.variant.choose(self.peer, Peer::Learns, Peer::Fixed) == Peer::Fixed {
            teacher = Leaf::new(teacher.as_vec(), rows, classes).traced();
        }
        let count = match self.variant.choose(self.divergence, Divergence::Elements, Divergence::Rows) {
            Divergence::Elements => rows * classes,
            Divergence::Rows => rows,
        };
        let divergence = kl_divergence(own.logits().log_softmax::<Axis<1>>(), teacher);
        plain * share + divergence * ((1.0 - share) / count as f32)
    }
    /// The personal model's loss, and with `both` the sum of the two.
    fn objective(&self, both: bool) -> Objective<'_> {
        Objective::joint(move |graphs, labels| {
            let personal = self.half(&graphs[0], &graphs[1], self.alpha, labels);
            Ok(if both { personal + self.half(&graphs[1], &graphs[0], self.beta, labels) } else { personal })
        })
    }
}

impl Algorithm for Fml {
    type Server = ();
    type Client = Personal;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fml",
            title: "FML",
            family: "knowledge distillation",
            paper: "Shen et al., Federated Mutual Learning, arXiv 2006.16765, 2020",
            year: 2020,
            personal: "a second model",
            down: "w",
            up: "w",
            rule: "client: the personal model min alpha CE + (1 - alpha) KL(meme || personal), the meme min beta CE + (1 - beta) \
                   KL(personal || meme), gradients clipped to a norm of 10; server: the plain mean of the memes",
            differences: "PFLlib lets each divergence train its teacher too (`peer: learns`) and divides it by rows and classes \
                          (`divergence: elements`); its defaults alpha = 1 and beta = 0 take cross-entropy from the meme and \
                          distillation from the personal loss. New clients fine-tune the meme; PFLlib leaves it unused for them",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("alpha", Type::fraction(), 0.5, "Share of cross-entropy in the personal loss.")
                    .from("alpha", "HtFLlib's script"),
                Field::with("beta", Type::fraction(), 0.5, "Share of cross-entropy in the meme's loss.").from("beta", "HtFLlib's script"),
                Field::optional(
                    "peer",
                    Type::Choice(&[
                        ("learns", "the divergence has a gradient for both models, as PFLlib"),
                        ("fixed", "the teacher is fixed"),
                    ]),
                    "What a model's teacher is to the gradient.",
                ),
                Field::optional(
                    "divergence",
                    Type::Choice(&[("elements", "rows times classes, as PFLlib"), ("rows", "rows: the mean over samples")]),
                    "What the divergence of a batch is divided by.",
                ),
                Field::with("clip", Type::positive(), 10.0, "Greatest Euclidean norm of each model's gradient.").from("", "PFLlib"),
            ],
            revision: 2,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(OWN_LOSS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Personal>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.0 = Some(world.initial.clone()));
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Personal>) -> Outcome<()> {
        let Client { model: meme, state: Personal(Some(personal)), .. } = client else { return Ok(()) };
        (meme.training, personal.training) = (true, true);
        let objective = self.objective(true);
        let mut optimisers = [trainer.optimiser(), trainer.optimiser()];
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut *personal, &mut *meme], batch, &objective, Parts::All)?;
                trainer.apply(0, personal, Update::new(&mut optimisers[0]).clip(self.clip));
                trainer.apply(1, meme, Update::new(&mut optimisers[1]).clip(self.clip));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn equal_weights(&self) -> bool {
        true
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        weighted_mean(&mut server.global, uploads, |_| 1.0 / uploads.len() as f64, |_| true);
        Ok(())
    }

    fn evaluated<'a>(&self, _: usize, _: &'a Server<()>, client: &'a Client<Personal>) -> &'a Model {
        client.state.0.as_ref().unwrap_or(&client.model)
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        _: &Server<()>,
        client: &Client<Personal>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let resting = |model: &Model| Model { training: false, ..model.clone() };
        let (mut personal, mut meme) = (resting(client.state.0.as_ref().unwrap_or(&client.model)), resting(&client.model));
        Ok(Some(f64::from(trainer.loss(&mut [&mut personal, &mut meme], batch, &self.objective(false))?)))
    }

    fn evaluation_effect(&self, client: &mut Client<Personal>) {
        client.model.training = false;
        if let Some(personal) = &mut client.state.0 {
            personal.training = false;
        }
    }
}
