//! PFL-DA: personal bases and heads; a global head is the source domain to which personal heads stay close.

use super::shared::heads;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::cross_entropy;
use crate::engine::update::{Correction, distance};
use crate::engine::{Entry, Model, Part, Parts};
use crate::fl::{
    Aggregation, Algorithm, Client, Description, Exposed, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Shi, Kontar, Technometrics 2023.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PflDa {
    variant: Variant,
    lambda: f32,
    pull: Option<bool>,
}

/// The client's copy of the global head, which it trains in the second phase; `setup` fills it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copied(Option<Model>);

impl State for Copied {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("global_head", visitor);
    }
}

/// The trained global head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head(Vec<f32>);

impl State for Head {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("head", visitor);
    }
}

impl Algorithm for PflDa {
    type Server = ();
    type Client = Copied;
    type Upload = Head;

    fn describe() -> Description {
        Description {
            name: "pflda",
            title: "PFL-DA",
            family: "model splitting",
            paper: "Shi, Kontar, Personalized Federated Learning via Domain Adaptation with an Application to Distributed 3D Printing, \
                    Technometrics 2023",
            year: 2023,
            personal: "base and head",
            down: "h",
            up: "h",
            rule: "client: E epochs on its head h with min CE(h(f(x))) + lambda ||h - g||, its base fixed; then E epochs on its base f and on \
                   its copy of the global head g with min CE(g(f(x))); the heads g are averaged as FedAvg",
            differences: "in PFLlib the norm carries no gradient, so that lambda has no effect (`variant: pfllib`); by default it does. New \
                          clients start from the initial base and the global head; PFLlib leaves the global head unused for them",
            fields: vec![
                Variant::Paper.field(),
                Field::with(
                    "lambda",
                    Type::non_negative(),
                    0.1,
                    "Weight of ||h - g||, whose gradient has this length everywhere: keep it small against that of cross-entropy.",
                )
                .from("lambda", "no published value"),
                Field::optional("pull", Type::Bool, "Whether the distance between the heads has a gradient."),
            ],
            revision: 2,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends a second head beside its model")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }

    fn down(&self, world: &World, _: &Server<()>, _: &Client<Copied>) -> u64 {
        world.layout().head().len() as u64
    }
    fn up(&self, world: &World, _: &mut Head) -> u64 {
        world.layout().head().len() as u64
    }

    /// The head alone, which travels by itself.
    fn exposes(&self, server: &Server<()>, _: &Model, upload: &Uploaded<Head>) -> Exposed {
        let layout = server.global.net.layout();
        let mut after = server.global.params.clone();
        if upload.extra.0.len() == layout.head().len() {
            after[layout.head()].copy_from_slice(&upload.extra.0);
        }
        Exposed::of(layout, |layer| layer.part == Part::Head, &server.global.params, &after)
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Copied>]) -> Outcome<()> {
        let head = heads::alone(&world.initial)?;
        clients.iter_mut().for_each(|client| client.state.0 = Some(head.clone()));
        Ok(())
    }

    fn receive(&self, _: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Copied>) -> Outcome<()> {
        if let Some(head) = &mut client.state.0 {
            head.params.copy_from_slice(&server.global.params[server.global.net.layout().head()]);
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Copied>) -> Outcome<()> {
        let Client { model, state: Copied(Some(head)), .. } = client else { return Ok(()) };
        model.training = true;
        let range = model.net.layout().head();
        let pulls = self.variant.choose(self.pull, false, true);
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let reference = &server.global.params;
                let apart = if pulls { distance(&model.params[range.clone()], &reference[range.clone()]) } else { 0.0 };
                let mu = if apart > 0.0 { self.lambda / apart } else { 0.0 };
                let pull = [Correction::Proximal { mu, reference }];
                let pull = if mu > 0.0 { &pull[..] } else { &[] };
                let update = Update::new(&mut optimiser).with(pull).only(Parts::Head);
                trainer.step(model, batch, &Objective::CrossEntropy, update).map(drop)
            })?;
        }
        let objective = Objective::joint(|graphs, labels| Ok(cross_entropy(graphs[1].head(graphs[0].features()), labels)));
        let mut optimisers = [trainer.optimiser(), trainer.optimiser()];
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                trainer.gradients(&mut [&mut *model, &mut *head], batch, &objective, Parts::All)?;
                trainer.apply(0, model, Update::new(&mut optimisers[0]).only(Parts::Base));
                trainer.apply(1, head, Update::new(&mut optimisers[1]));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Copied>) -> Outcome<Head> {
        Ok(Head(client.state.0.as_ref().map_or_else(Vec::new, |head| head.params.to_vec())))
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<()>, uploads: &[Uploaded<Head>], _: &Aggregation<'_>) -> Outcome<()> {
        let range = server.global.net.layout().head();
        let global = &mut server.global.params[range];
        global.fill(0.0);
        for upload in uploads {
            let share = upload.weight as f32;
            global.iter_mut().zip(&upload.extra.0).for_each(|(sum, v)| *sum += v * share);
        }
        Ok(())
    }

    fn adopt(&self, _: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Copied>) -> Outcome<()> {
        heads::put(&mut client.model, &server.global.params[server.global.net.layout().head()]);
        Ok(())
    }
}
