//! FedProto: clients exchange class prototypes (mean features) instead of weights, and classify by the nearest one.

use super::shared::flat::squared_distance;
use super::shared::prototypes::{ClassMeans, Prototypes, alignment};
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::cross_entropy;
use crate::engine::{Entry, Model};
use crate::fl::{
    Aggregation, Algorithm, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, Who, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Tan et al., AAAI 2022, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedProto {
    variant: Variant,
    lambda: f32,
    weighted: Option<bool>,
    collect: Option<Collect>,
}

/// When a client takes its prototypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Collect {
    During,
    After,
}

/// The prototypes of everybody (server), or of the last participation (client and upload).
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Prototypes);

impl State for Known {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("protos", visitor);
    }
}

impl Algorithm for FedProto {
    type Server = Known;
    type Client = Known;
    type Upload = Known;

    fn describe() -> Description {
        Description {
            name: "fedproto",
            title: "FedProto",
            family: "knowledge distillation",
            paper: "Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI 2022",
            year: 2022,
            personal: "the whole model",
            down: "C f",
            up: "c f",
            rule: "client: min CE + lambda * mean (f(x) - g_y)^2 with the global prototype g_y of the label; its own prototypes are the \
                   class means of f(x); server: g_k <- mean of the prototypes of class k; prediction: the nearest prototype",
            differences: "PFLlib averages features while training and counts every client once (`collect: during`, `weighted: false`); \
                          the paper takes prototypes of the trained model and weights them by samples. lambda multiplies a mean over \
                          features, not a distance. Lost uploads are lost here, where PFLlib ignores its drop rate for this method. \
                          Nothing is predicted before the first prototypes arrive. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("lambda", Type::non_negative(), 10.0, "Weight of the alignment of features with prototypes.")
                    .from("lambda", "PFLlib's author (FedTGP issue 3, HtFLlib); 1 in FedProto's code"),
                Field::optional("weighted", Type::Bool, "Whether a client counts by its samples of the class instead of once."),
                Field::optional(
                    "collect",
                    Type::Choice(&[
                        ("during", "features met while training, as PFLlib"),
                        ("after", "features of the trained model, as the paper"),
                    ]),
                    "Which features a client's prototypes are the means of.",
                ),
            ],
            revision: 2,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends prototypes, not parameters")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }
    fn receives(&self) -> Who {
        Who::None
    }

    fn down(&self, _: &World, server: &Server<Known>, _: &Client<Known>) -> u64 {
        server.state.0.floats()
    }

    fn welcomes(&self) -> bool {
        false
    }

    fn objective<'a>(&'a self, server: &'a Server<Known>, _: &'a Known) -> Objective<'a> {
        let known = &server.state.0;
        if known.is_empty() {
            return Objective::CrossEntropy;
        }
        Objective::custom(|graph, labels| Ok(cross_entropy(graph.logits(), labels) + alignment(graph, labels, known, self.lambda)))
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Known>, client: &mut Client<Known>) -> Outcome<()> {
        let objective = self.objective(server, &server.state);
        let mut met = ClassMeans::default();
        let after = self.variant.choose(self.collect, Collect::During, Collect::After) == Collect::After;
        trainer.descend_watched(&mut client.model, &objective, |trainer, _, batch| {
            if !after {
                met.add(trainer.features(0), &batch.y);
            }
            Ok(())
        })?;
        client.state.0 = if after { Prototypes::collect(trainer, &client.model, |_| ())? } else { met.means() };
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Known>, client: &mut Client<Known>) -> Outcome<Known> {
        Ok(client.state.clone())
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Known>, uploads: &[Uploaded<Known>], _: &Aggregation<'_>) -> Outcome<()> {
        let weighted = self.variant.choose(self.weighted, false, true);
        server.state.0 = Prototypes::mean_of(uploads.iter().map(|upload| &upload.extra.0), weighted);
        Ok(())
    }

    /// Minus the mean squared distance to each class's prototype; minus infinity where there is none.
    fn scores(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Known>,
        client: &Client<Known>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let known = &server.state.0;
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let features = trainer.embed(&mut Model { training: false, ..client.model.clone() }, batch)?;
        let (classes, width) = (client.model.net.classes(), client.model.net.features());
        let mut scores = vec![f32::NEG_INFINITY; batch.rows() * classes];
        for (row, scores) in features.chunks_exact(width).zip(scores.chunks_exact_mut(classes)) {
            for own in known.iter() {
                scores[own.class] = -(squared_distance(row, &own.mean) / width as f64) as f32;
            }
        }
        Ok(scores)
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Known>,
        client: &Client<Known>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let mut model = Model { training: false, ..client.model.clone() };
        let loss = trainer.loss(&mut [&mut model], batch, &self.objective(server, &client.state))?;
        Ok(Some(f64::from(loss)))
    }
}
