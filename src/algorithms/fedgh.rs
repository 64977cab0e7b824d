//! FedGH: personal bases and one head, which the server trains on the clients' class prototypes.

use super::shared::heads;
use super::shared::prototypes::Prototypes;
use crate::base::Outcome;
use crate::engine::update::sgd;
use crate::engine::{Entry, Part, Parts};
use crate::fl::state::Floats;
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Yi et al., ACM MM 2023, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedGh {
    server_learning_rate: f32,
    header: Header,
}

/// From where the server's head starts each training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Header {
    Client0,
    Server,
}

/// A client's class means of its last participation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Prototypes);

impl State for Known {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("protos", visitor);
    }
}

impl Algorithm for FedGh {
    type Server = ();
    type Client = Known;
    type Upload = Known;

    fn describe() -> Description {
        Description {
            name: "fedgh",
            title: "FedGH",
            family: "model splitting",
            paper: "Yi et al., FedGH: Heterogeneous Federated Learning with Generalized Global Header, ACM MM 2023",
            year: 2023,
            personal: "the base",
            down: "h",
            up: "c f + c",
            rule: "client: FedAvg's training of base and received head, then the class means of f(x) are uploaded; server: one pass of SGD on \
                   the head over all (class mean, class) pairs",
            differences: "in PFLlib the server's head is the very object that client 0 trains, so that in its rounds the server goes on from \
                          client 0's head (`header: client0`, the default); in the paper it goes on from its own (`server`). PFLlib's \
                          default server rate 1 tends to diverge. Lost uploads are lost here, where PFLlib ignores its drop rate for this \
                          method. A new client takes the head, as with LG-FedAvg; PFLlib has none",
            fields: vec![
                Field::with("server_learning_rate", Type::positive(), 0.01, "Step of the server's training.").from("eta_omega", "HtFLlib"),
                Field::with(
                    "header",
                    Type::Choice(&[
                        ("client0", "client 0's trained head when its upload arrived, as PFLlib"),
                        ("server", "always its own, as the paper"),
                    ]),
                    "client0",
                    "From which head the server's training starts.",
                )
                .from("-", "PFLlib"),
            ],
            revision: 1,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends prototypes, not parameters")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Head
    }
    fn averaged(&self, _: &Entry) -> bool {
        false
    }

    fn down(&self, world: &World, _: &Server<()>, _: &Client<Known>) -> u64 {
        world.layout().head().len() as u64
    }
    /// Each class mean travels with its class.
    fn up(&self, world: &World, upload: &mut Known) -> u64 {
        Floats::of(&world.initial, upload) + upload.0.iter().count() as u64
    }

    fn upload(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Known>) -> Outcome<Known> {
        client.state.0 = Prototypes::collect(trainer, &client.model, |_| ())?;
        Ok(client.state.clone())
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<()>,
        uploads: &[Uploaded<Known>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        let world = trainer.world;
        let first = uploads.first().filter(|upload| self.header == Header::Client0 && upload.client == 0);
        let mut head = heads::alone(first.map_or(&server.global, |upload| &upload.model))?;
        let pairs: Vec<_> = uploads.iter().flat_map(|upload| upload.extra.0.iter()).collect();
        let at = trainer.moment();
        let order = world.streams.order(at, pairs.len());
        let mut batch = Batch::default();
        for chosen in order.chunks(world.settings.batch_size.max(1)) {
            let chosen = chosen.iter().map(|i| pairs[*i as usize]);
            batch.x = chosen.clone().flat_map(|pair| pair.mean.iter().copied()).collect();
            batch.y = chosen.map(|pair| pair.class as u32).collect();
            trainer.gradients(&mut [&mut head], &batch, &Objective::CrossEntropy, Parts::All)?;
            let range = 0..head.params.len();
            sgd(&mut head.params, trainer.gradient(0), self.server_learning_rate, range, &[]);
        }
        heads::put(&mut server.global, &head.params);
        Ok(())
    }

    /// Client 0 holds the server's head.
    fn distribute(&self, arena: &mut Arena<'_, Self>, _: &[Uploaded<Known>]) -> Outcome<()> {
        if let (Header::Client0, Some(client)) = (self.header, arena.clients.first_mut()) {
            heads::put(&mut client.model, &arena.server.global.params[arena.server.global.net.layout().head()]);
        }
        Ok(())
    }
}
