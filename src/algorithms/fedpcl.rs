//! FedPCL: clients exchange class prototypes, and train their base by contrast with the prototypes of everybody.

use super::shared::flat::{add_scaled, dot};
use super::shared::prototypes::Prototypes;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::loss::cross_entropy;
use crate::engine::tape::{Loss, Traced, known};
use crate::engine::{Entry, Model, Parts};
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    Who, World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Tan et al., NeurIPS 2022, Algorithm 1, with a base that is trained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedPcl {
    variant: Variant,
    tau: f32,
    columns: Option<Columns>,
    clip: f32,
}

/// Which prototype a label stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Columns {
    Insertion,
    Class,
}

/// Global prototypes, and those of each client; a client that never took part is stood for by the global ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Everybody {
    global: Prototypes,
    clients: Vec<Prototypes>,
}

impl State for Everybody {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.global.visit("protos", visitor);
        self.clients.visit("clients", visitor);
    }
}

/// A client's own prototypes, by which it classifies and which it sends; none before its first participation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own(Prototypes);

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("protos", visitor);
    }
}

/// Divides a feature vector by its Euclidean norm, or by 1e-12 where that is smaller. Returns the divisor.
fn normalise(row: &mut [f32]) -> f32 {
    let norm = row.iter().map(|v| v * v).sum::<f32>().sqrt().max(1e-12);
    row.iter_mut().for_each(|v| *v /= norm);
    norm
}

impl FedPcl {
    /// The prototypes that stand for the labels 0, 1, 2 ...; a label without one does not take part.
    fn columns<'a>(&self, set: &'a Prototypes, classes: usize) -> Vec<Option<&'a [f32]>> {
        match self.variant.choose(self.columns, Columns::Insertion, Columns::Class) {
            Columns::Insertion => set.iter().map(|own| Some(&own.mean[..])).collect(),
            Columns::Class => (0..classes).map(|class| set.get(class)).collect(),
        }
    }

    /// Adds `share` times the contrast of normalised features (row by row) with one set to their gradient, and returns its value.
    ///
    /// Rows whose label has no column do not take part.
    fn contrast(&self, z: &[f32], labels: &[u32], set: &[Option<&[f32]>], share: f32, gradient: &mut [f32]) -> f32 {
        let width = z.len() / labels.len().max(1);
        let present: Vec<&[f32]> = set.iter().filter_map(|column| *column).collect();
        let place = |label: u32| set.get(label as usize).copied().flatten().map(|_| set[..label as usize].iter().flatten().count());
        let (mut d_logits, mut value) = (Vec::new(), 0.0);
        for ((row, label), d_row) in z.chunks_exact(width.max(1)).zip(labels).zip(gradient.chunks_exact_mut(width.max(1))) {
            let Some(place) = place(*label) else { continue };
            let logits: Vec<f32> = present.iter().map(|column| dot(row, column) as f32 / self.tau).collect();
            value += cross_entropy(&logits, &[place as u32], present.len(), &mut d_logits);
            for (d_logit, column) in d_logits.iter().zip(&present) {
                let factor = d_logit * share / (self.tau * labels.len() as f32);
                add_scaled(d_row, factor, column);
            }
        }
        value * share / labels.len() as f32
    }

    /// The contrast with the global prototypes plus the mean contrast with those of each client.
    fn loss(&self, features: Traced, labels: &[u32], everybody: &Everybody, classes: usize) -> Loss {
        let mut z = features.as_vec();
        let width = z.len() / labels.len().max(1);
        let norms: Vec<f32> = z.chunks_exact_mut(width.max(1)).map(normalise).collect();
        let mut gradient = vec![0.0; z.len()];
        let mut value = self.contrast(&z, labels, &self.columns(&everybody.global, classes), 1.0, &mut gradient);
        let share = 1.0 / everybody.clients.len() as f32;
        for set in &everybody.clients {
            value += self.contrast(&z, labels, &self.columns(set, classes), share, &mut gradient);
        }
        for ((d, z), norm) in gradient.chunks_exact_mut(width.max(1)).zip(z.chunks_exact(width.max(1))).zip(norms) {
            let along = if norm > 1e-12 { dot(d, z) as f32 } else { 0.0 };
            d.iter_mut().zip(z).for_each(|(d, z)| *d = (*d - along * z) / norm);
        }
        known(features, value, gradient)
    }

    fn objective<'a>(&'a self, everybody: &'a Everybody, classes: usize) -> Objective<'a> {
        Objective::custom(move |graph, labels| Ok(self.loss(graph.features(), labels, everybody, classes)))
    }
}

impl Algorithm for FedPcl {
    type Server = Everybody;
    type Client = Own;
    type Upload = Own;

    fn describe() -> Description {
        Description {
            name: "fedpcl",
            title: "FedPCL",
            family: "knowledge distillation",
            paper: "Tan et al., Federated Learning from Pre-Trained Models: A Contrastive Learning Approach, NeurIPS 2022",
            year: 2022,
            personal: "the base; the head is not used",
            down: "N C f + C f",
            up: "c f",
            rule: "client, from its second participation: min CE(z G / tau, y) + (1/N) sum_j CE(z Q_j / tau, y), where z is the normalised \
                   feature and the columns of G and Q_j are the global prototypes and those of client j; its own are the class means of z; \
                   server: the plain mean for each class; prediction: the own prototype with the greatest inner product",
            differences: "the base is trained from the start instead of taken from pre-trained models, as in PFLlib. PFLlib orders the columns \
                          as each client met the classes, but takes the label as the column's number (`columns: insertion`), so that labels \
                          are exchanged, and stops when a class is missing in a round: the default is `class`, and a sample whose class has \
                          no prototype is left out. The drop rate acts here, where PFLlib ignores it for this method. New clients are refused: \
                          neither the paper nor PFLlib says how one would start",
            fields: vec![
                Variant::Paper.field(),
                Field::with("tau", Type::positive(), 0.07, "Temperature of the contrast.").from("tau", "the authors' losses.py"),
                Field::optional(
                    "columns",
                    Type::Choice(&[
                        ("insertion", "the label-th prototype in the order of first appearance, as PFLlib"),
                        ("class", "the prototype of the label's class, as the paper"),
                    ]),
                    "Which prototype a label stands for.",
                ),
                Field::with("clip", Type::positive(), 10.0, "Greatest Euclidean norm of the gradient.").from("", "PFLlib"),
            ],
            revision: 5,
        }
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

    /// Everybody receives everybody's prototypes and the global ones.
    fn down(&self, _: &World, server: &Server<Everybody>, _: &Client<Own>) -> u64 {
        server.state.global.floats() + server.state.clients.iter().map(Prototypes::floats).sum::<u64>()
    }

    fn welcomes(&self) -> bool {
        false
    }

    fn setup(&self, world: &World, server: &mut Server<Everybody>, _: &mut [Client<Own>]) -> Outcome<()> {
        server.state.clients = vec![Prototypes::default(); world.clients()];
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Everybody>, client: &mut Client<Own>) -> Outcome<()> {
        let settings = &trainer.world.settings;
        // The first participation only collects and is no training, so that the learning rate has fallen once less often.
        let decay = settings.learning_rate_decay.unwrap_or(1.0);
        let rate = (1..client.participations).fold(settings.learning_rate, |rate, _| rate * decay) as f32;
        let model = &mut client.model;
        if !client.state.0.is_empty() {
            model.training = true;
            let objective = self.objective(&server.state, model.net.classes());
            let mut optimiser = trainer.optimiser();
            for _ in 0..trainer.epochs() {
                trainer.pass(trainer.training(), |trainer, batch| {
                    let update = Update::new(&mut optimiser).only(Parts::Base).clip(self.clip).rate(rate);
                    trainer.step(model, batch, &objective, update).map(drop)
                })?;
            }
        }
        client.state.0 = Prototypes::collect(trainer, model, |row| {
            normalise(row);
        })?;
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Everybody>, client: &mut Client<Own>) -> Outcome<Own> {
        Ok(client.state.clone())
    }

    fn aggregate(
        &self,
        _: &mut Trainer<'_>,
        server: &mut Server<Everybody>,
        uploads: &[Uploaded<Own>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        let Everybody { global, clients } = &mut server.state;
        *global = Prototypes::mean_of(uploads.iter().map(|upload| &upload.extra.0), false);
        for upload in uploads {
            clients[upload.client] = upload.extra.0.clone();
            // Also where a client had no whole batch: then all are in the order of the classes, not in that of the global ones.
            clients[upload.client].pad(global);
        }
        for own in clients {
            if own.is_empty() { *own = global.clone() } else { own.pad(global) }
        }
        Ok(())
    }

    /// A client that took part, even one without a whole batch, classifies with its own prototypes, and the global ones where it has
    /// none of a class.
    fn distribute(&self, arena: &mut Arena<'_, Self>, _: &[Uploaded<Own>]) -> Outcome<()> {
        let global = &arena.server.state.global;
        arena.clients.iter_mut().filter(|client| client.participations > 0).for_each(|client| client.state.0.pad(global));
        Ok(())
    }

    /// The inner product with each class's prototype, 0 where there is none.
    fn scores(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        _: &Server<Everybody>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let own = &client.state.0;
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let mut z = trainer.embed(&mut Model { training: false, ..client.model.clone() }, batch)?;
        let (classes, width) = (client.model.net.classes(), client.model.net.features());
        let mut scores = vec![0.0; batch.rows() * classes];
        for (row, scores) in z.chunks_exact_mut(width).zip(scores.chunks_exact_mut(classes)) {
            normalise(row);
            own.iter().for_each(|own| scores[own.class] = dot(row, &own.mean) as f32);
        }
        Ok(scores)
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Everybody>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        if client.state.0.is_empty() {
            return Ok(None);
        }
        let mut model = Model { training: false, ..client.model.clone() };
        let objective = self.objective(&server.state, model.net.classes());
        Ok(Some(f64::from(trainer.loss(&mut [&mut model], batch, &objective)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::shared::prototypes::ClassMeans;
    use crate::engine::tape::Leaf;
    use dfdx::prelude::{AsArray, Backward};

    #[test]
    fn one_row_by_hand() {
        // The feature (2, 0) has z = (1, 0); prototypes (1, 0) and (0, 1) and 1/tau = ln 3 give logits ln 3 and 0, so p = (3/4, 1/4).
        // Each set adds -ln 3/4, and to the gradient of z ln 3 (-1/4, 1/4), of which (0, ln 3 / 4) / 2 reaches the feature.
        let mut means = ClassMeans::default();
        means.add(&[1.0, 0.0, 0.0, 1.0], &[0, 1]);
        let set = means.means();
        let everybody = Everybody { global: set.clone(), clients: vec![set.clone(), set] };
        let pcl = FedPcl { variant: Variant::Paper, tau: 1.0 / 3f32.ln(), columns: None, clip: 10.0 };
        let leaf = Leaf::new(vec![2.0, 0.0], 1, 2);
        let loss = pcl.loss(leaf.traced(), &[0], &everybody, 2);
        assert!((loss.array() - 2.0 * (4f32 / 3.0).ln()).abs() < 1e-6);
        loss.backward();
        let gradient = leaf.gradient();
        assert!(gradient[0].abs() < 1e-6 && (gradient[1] - 2.0 * 3f32.ln() / 8.0).abs() < 1e-6, "{gradient:?}");
    }
}
