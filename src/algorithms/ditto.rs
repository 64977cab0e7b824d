//! Ditto: FedAvg, and beside it a personal model that a proximal term pulls toward the global one.

use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::update::{Correction, distance};
use crate::fl::per_sample::SEVERAL;
use crate::fl::{Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Li, Hu, Beirami, Smith, ICML 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ditto {
    mu: f32,
    personal_epochs: u64,
}

/// The personal model v_c; `setup` fills it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Personal(Option<Model>);

impl State for Personal {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("personal", visitor);
    }
}

impl Ditto {
    const PERSONAL: usize = 1;
}

impl Algorithm for Ditto {
    type Server = ();
    type Client = Personal;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "ditto",
            title: "Ditto",
            family: "regularisation",
            paper: "Li, Hu, Beirami, Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021",
            year: 2021,
            personal: "a second model v_c",
            down: "w",
            up: "w",
            rule: "each step at client c: v_c <- v_c - lr (grad(v_c) + mu (v_c - w)); then FedAvg on w",
            differences: "mu is the paper's lambda. PFLlib's default 0 makes v_c plain local training. A slow client shortens the global \
                          training only, where PFLlib shortens both",
            fields: vec![
                Field::with("mu", Type::non_negative(), 1.0, "Pull of the personal to the global model.")
                    .from("lambda", "the authors' run scripts (Fashion-MNIST, Vehicle)"),
                Field::with("personal_epochs", Type::at_least(0), 1, "Epochs on the personal model in each round.").from("s", "PFLlib"),
            ],
            revision: 2,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(SEVERAL)
    }

    fn rests(&self) -> bool {
        true
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Personal>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.0 = Some(world.initial.clone()));
        Ok(())
    }

    /// The personal model first, against the weights just received; then FedAvg's training.
    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Personal>) -> Outcome<()> {
        if let Some(personal) = &mut client.state.0 {
            personal.training = true;
            let pull = [Correction::Proximal { mu: self.mu, reference: &client.model.params }];
            let mut optimiser = trainer.optimiser();
            for _ in 0..self.personal_epochs {
                trainer.pass(trainer.training(), |trainer, batch| {
                    trainer.step(personal, batch, &Objective::CrossEntropy, Update::new(&mut optimiser).with(&pull)).map(drop)
                })?;
            }
        }
        trainer.rewind();
        trainer.descend(&mut client.model, &Objective::CrossEntropy, &[])
    }

    fn views(&self) -> &'static [&'static str] {
        &["global", "personal"]
    }

    fn evaluated<'a>(&self, view: usize, _: &'a Server<()>, client: &'a Client<Personal>) -> &'a Model {
        match &client.state.0 {
            Some(personal) if view == Self::PERSONAL => personal,
            _ => &client.model,
        }
    }

    fn softmax_auc(&self, view: usize) -> bool {
        view == Self::PERSONAL
    }

    /// Cross-entropy; for the personal model plus (mu/2)||w - v_c||, not squared, as PFLlib reports it.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<()>,
        client: &Client<Personal>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        let mut loss = trainer.cross_entropy(&scores, &batch.y);
        if view == Self::PERSONAL {
            loss += 0.5 * self.mu * distance(&client.model.params, &self.evaluated(view, server, client).params);
        }
        Ok(Some(f64::from(loss)))
    }

    fn evaluation_effect(&self, client: &mut Client<Personal>) {
        client.model.training = false;
        if let Some(personal) = &mut client.state.0 {
            personal.training = false;
        }
    }
}
