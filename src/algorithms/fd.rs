//! FD (federated distillation): clients exchange nothing but their mean outputs for each class.

use super::shared::distillation::soft_cross_entropy;
use super::shared::prototypes::{ClassMeans, Prototypes};
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::loss::softmax;
use crate::engine::tape::cross_entropy;
use crate::engine::{Entry, Model};
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, Who,
    World,
};
use crate::spec::catalog::{Field, Type};
use dfdx::prelude::HasShape;
use serde::Deserialize;

/// Jeong et al., 2018, Algorithm 1, without the augmentation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fd {
    variant: Variant,
    lambda: f32,
    target: Option<Target>,
    leave_one_out: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Target {
    Raw,
    Softmax,
}

/// Mean outputs by class, over the clients of the last round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs(Prototypes);

impl State for Outputs {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("outputs", visitor);
    }
}

/// A client's own mean outputs, and the others' where its own are left out of the mean.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    outputs: Prototypes,
    others: Option<Prototypes>,
}

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.outputs.visit("outputs", visitor);
        self.others.visit("others", visitor);
    }
}

impl Fd {
    fn target(&self) -> Target {
        self.variant.choose(self.target, Target::Raw, Target::Softmax)
    }
}

impl Algorithm for Fd {
    type Server = Outputs;
    type Client = Own;
    type Upload = Outputs;

    fn describe() -> Description {
        Description {
            name: "fd",
            title: "FD",
            family: "knowledge distillation",
            paper: "Jeong et al., Communication-Efficient On-Device Machine Learning: Federated Distillation and Augmentation under \
                    Non-IID Private Data, arXiv 1811.11479, 2018",
            year: 2018,
            personal: "the whole model",
            down: "C C",
            up: "c C",
            rule: "client: min CE(o, y) + lambda * CE(o, g_y) with the others' mean output g_y for the label; its own mean outputs by class \
                   are uploaded; server: g_k <- their mean for class k",
            differences: "PFLlib takes raw outputs as if they were probabilities, so that the loss has no lower bound and runs diverge, \
                          and leaves a client's own outputs in the mean (`variant: pfllib`). The default is the paper's: outputs after \
                          softmax, without the client's own. The augmentation (FAug) is not implemented, as in PFLlib. Lost uploads are \
                          lost here, where PFLlib ignores its drop rate for this method. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Paper.field(),
                Field::with("lambda", Type::non_negative(), 1.0, "Weight of the distillation.").from("gamma", "HtFLlib's script"),
                Field::optional(
                    "target",
                    Type::Choice(&[("raw", "outputs as they are, as PFLlib"), ("softmax", "probabilities, as the paper")]),
                    "What is averaged and distilled.",
                ),
                Field::optional("leave_one_out", Type::Bool, "Whether a client's target leaves its own contribution out."),
            ],
            revision: 2,
        }
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends mean outputs of classes, not parameters")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }
    fn receives(&self) -> Who {
        Who::None
    }

    fn down(&self, _: &World, server: &Server<Outputs>, _: &Client<Own>) -> u64 {
        server.state.0.floats()
    }

    fn welcomes(&self) -> bool {
        false
    }

    /// A class without a target has the row's own output as its target: only its gradient in raw outputs is not 0.
    fn objective<'a>(&'a self, server: &'a Server<Outputs>, own: &'a Own) -> Objective<'a> {
        let known = own.others.as_ref().unwrap_or(&server.state.0);
        if server.state.0.is_empty() {
            return Objective::CrossEntropy;
        }
        Objective::custom(move |graph, labels| {
            let logits = graph.logits();
            let mut outputs = logits.as_vec();
            if self.target() == Target::Softmax {
                softmax(&mut outputs, logits.shape().1);
            }
            let targets = known.targets(labels, &outputs);
            Ok(cross_entropy(logits, labels) + soft_cross_entropy(graph.logits(), &targets) * self.lambda)
        })
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Outputs>, client: &mut Client<Own>) -> Outcome<()> {
        let mut met = ClassMeans::default();
        let objective = self.objective(server, &client.state);
        trainer.descend_watched(&mut client.model, &objective, |trainer, model, batch| {
            let features = trainer.features(0).to_vec();
            let mut outputs = trainer.head(model, &features, batch.rows());
            if self.target() == Target::Softmax {
                softmax(&mut outputs, model.net.classes());
            }
            met.add(&outputs, &batch.y);
            Ok(())
        })?;
        drop(objective);
        client.state.outputs = met.means();
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Outputs>, client: &mut Client<Own>) -> Outcome<Outputs> {
        Ok(Outputs(client.state.outputs.clone()))
    }

    fn aggregate(
        &self,
        _: &mut Trainer<'_>,
        server: &mut Server<Outputs>,
        uploads: &[Uploaded<Outputs>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        server.state.0 = Prototypes::mean_of(uploads.iter().map(|upload| &upload.extra.0), false);
        Ok(())
    }

    fn distribute(&self, arena: &mut Arena<'_, Self>, uploads: &[Uploaded<Outputs>]) -> Outcome<()> {
        if self.variant.choose(self.leave_one_out, false, true) {
            arena.clients.iter_mut().for_each(|client| client.state.others = None);
            for upload in uploads {
                arena.clients[upload.client].state.others = Some(arena.server.state.0.without(&upload.extra.0));
            }
        }
        Ok(())
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Outputs>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let mut model = Model { training: false, ..client.model.clone() };
        let loss = trainer.loss(&mut [&mut model], batch, &self.objective(server, &client.state))?;
        Ok(Some(f64::from(loss)))
    }
}
