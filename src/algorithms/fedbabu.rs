//! FedBABU: the base is trained against a head that nobody changes; at the end everybody fine-tunes.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::{Entry, Params, Part, Parts};
use crate::fl::algorithm::{Who, copy_layers};
use crate::fl::{Algorithm, Arena, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Oh, Kim, Yun, ICLR 2022, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedBabu {
    variant: Variant,
    fine_tuning_epochs: u64,
    fine_tuning_from: Option<Start>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    Local,
    Global,
}

/// The parameters before the evaluation that follows the last round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Option<Params<f32>>);

impl State for Kept {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("kept", visitor);
    }
}

impl FedBabu {
    fn start(&self) -> Start {
        self.variant.choose(self.fine_tuning_from, Start::Local, Start::Global)
    }
}

impl Algorithm for FedBabu {
    type Server = ();
    type Client = Kept;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedbabu",
            title: "FedBABU",
            family: "model splitting",
            paper: "Oh, Kim, Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022",
            year: 2022,
            personal: "the whole model, after fine-tuning",
            down: "b",
            up: "b",
            rule: "each step at client c changes the base only, against the initial head; the bases are averaged as FedAvg; after the last \
                   round base and head are fine-tuned at every client",
            differences: "PFLlib fine-tunes what the client holds: its own base if it took part in the last round (`fine_tuning_from: local`); \
                          the paper the last average (`global`). PFLlib leaves the head of new clients frozen; here all is fine-tuned",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("fine_tuning_epochs", Type::at_least(0), 10, "Epochs of fine-tuning after the last round.")
                    .from("tau_f", "PFLlib; the authors' code has 5"),
                Field::optional(
                    "fine_tuning_from",
                    Type::Choice(&[
                        ("local", "what the client holds at the end of the last round, as PFLlib"),
                        ("global", "the base averaged in the last round, as the paper"),
                    ]),
                    "Where fine-tuning starts.",
                ),
            ],
            revision: 1,
        }
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
    fn kept(&self, layer: &Entry) -> bool {
        layer.part == Part::Head || self.start() == Start::Local
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Kept>) -> Outcome<()> {
        if trainer.round() == trainer.world.settings.rounds && self.start() == Start::Local {
            client.state.0 = Some(client.model.params.clone());
        }
        copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Kept>) -> Outcome<()> {
        client.model.training = true;
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let update = Update::new(&mut optimiser).only(Parts::Base);
                trainer.step(&mut client.model, batch, &Objective::CrossEntropy, update).map(drop)
            })?;
        }
        Ok(())
    }

    fn finish(&self, arena: &mut Arena<'_, Self>) -> Outcome<bool> {
        let ids = arena.ids(Who::All);
        arena.each(&ids, |trainer, _, client| {
            if let Some(kept) = client.state.0.take() {
                client.model.params = kept;
            }
            client.model.training = true;
            let mut optimiser = trainer.optimiser();
            for _ in 0..self.fine_tuning_epochs {
                trainer.pass(trainer.training(), |trainer, batch| {
                    trainer.step(&mut client.model, batch, &Objective::CrossEntropy, Update::new(&mut optimiser)).map(drop)
                })?;
            }
            Ok(())
        })?;
        Ok(true)
    }
}
