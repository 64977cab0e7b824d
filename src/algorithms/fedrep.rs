//! FedRep: the head is trained against the received base, then the base against the head; only bases are shared.

use crate::base::Outcome;
use crate::engine::{Entry, Part, Parts};
use crate::fl::{Algorithm, Client, Description, Objective, Server, Trainer, Update};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Collins et al., ICML 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedRep {
    head_epochs: u64,
}

impl Algorithm for FedRep {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedrep",
            title: "FedRep",
            family: "model splitting",
            paper: "Collins et al., Exploiting Shared Representations for Personalized Federated Learning, ICML 2021",
            year: 2021,
            personal: "the head",
            down: "b",
            up: "b",
            rule: "head_epochs epochs of SGD on the head with the base fixed, then E epochs on the base with the head fixed; the bases are \
                   averaged as FedAvg",
            differences: "none; the authors' scripts use 10 head epochs, PFLlib 1",
            fields: vec![
                Field::with("head_epochs", Type::at_least(0), 1, "Epochs on the head before those on the base.").from("tau_h", "PFLlib"),
            ],
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }

    fn usual_passes(&self) -> bool {
        self.head_epochs == 0
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<()>) -> Outcome<()> {
        client.model.training = true;
        for (epochs, part) in [(self.head_epochs, Parts::Head), (trainer.epochs(), Parts::Base)] {
            let mut optimiser = trainer.optimiser();
            for _ in 0..epochs {
                trainer.pass(trainer.training(), |trainer, batch| {
                    let update = Update::new(&mut optimiser).only(part);
                    trainer.step(&mut client.model, batch, &Objective::CrossEntropy, update).map(drop)
                })?;
            }
        }
        Ok(())
    }
}
