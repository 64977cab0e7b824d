//! FedPAC: features are aligned by common prototypes, and each client's head becomes the best combination of all heads.

use super::shared::flat::dot;
use super::shared::frozen::embed_pass;
use super::shared::prototypes::{ClassMeans, Prototype, Prototypes, alignment};
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::base::numerics::simplex;
use crate::engine::tape::cross_entropy;
use crate::engine::{Entry, Part, Parts};
use crate::fl::algorithm::{copy_layers, weighted_mean};
use crate::fl::state::Floats;
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Xu, Tong, Huang, ICLR 2023, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedPac {
    variant: Variant,
    lambda: f32,
    alignment: Option<Alignment>,
    heads: Option<Heads>,
    prototypes: Option<Weights>,
}

/// To whom the rows of the quadratic program belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Alignment {
    Drawn,
    Client,
}

/// Which heads are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Heads {
    InPlace,
    Snapshot,
}

/// What a client's prototype counts in the common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Weights {
    Uniform,
    Samples,
}

/// The common prototypes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common(Prototypes);

impl State for Common {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("prototypes", visitor);
    }
}

/// What the received base makes of a client's data: the class means weighted by the classes' shares (classes x features), and the
/// variance of the features by n_c.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    h: Vec<f32>,
    v: f64,
}

impl State for Statistics {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.vector("h", &mut self.h);
        visitor.number("v", &mut self.v);
    }
}

/// A client's prototypes with the samples behind them, and its statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upload {
    prototypes: Prototypes,
    statistics: Statistics,
}

impl State for Upload {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.prototypes.visit("prototypes", visitor);
        self.statistics.visit(visitor);
    }
}

/// Weights below this are cut.
const CUT: f64 = 1e-3;

impl Statistics {
    /// One pass over the training set in the model's own mode.
    fn of(trainer: &mut Trainer<'_>, client: &mut Client<Self>) -> Outcome<Self> {
        let (classes, width) = (trainer.world.network().classes(), trainer.world.network().features());
        let (mut means, mut squares) = (ClassMeans::default(), vec![0.0f64; classes]);
        // PFLlib looks at a first batch for the width of its features: normalisation layers take note of it.
        if client.model.training && !client.model.buffers.counters.is_empty() {
            trainer.first_batch(trainer.training(), |trainer, batch| trainer.embed(&mut client.model, batch).map(drop))?;
        }
        embed_pass(trainer, &mut client.model, trainer.training(), |features, labels| {
            for (row, label) in features.chunks_exact(width).zip(labels) {
                squares[*label as usize] += dot(row, row);
            }
            means.add(features, labels);
        })?;
        let means = means.means();
        let total: u64 = means.iter().map(|own| own.count).sum();
        let (mut h, mut v) = (vec![0.0; classes * width], 0.0);
        for Prototype { class, count, mean } in means.ascending() {
            let share = *count as f32 / total as f32;
            let row = &mut h[class * width..][..width];
            row.iter_mut().zip(mean).for_each(|(h, m)| *h = share * m);
            v += f64::from(share) * squares[*class] / *count as f64;
            v -= row.iter().map(|h| f64::from(*h).powi(2)).sum::<f64>();
        }
        Ok(Self { h, v: v / trainer.samples().max(1) as f64 })
    }
}

/// For each client the weights of all heads that minimise the bound of its test loss; absent where the program has no solution.
fn combinations(statistics: &[&Statistics]) -> Vec<Option<Vec<f64>>> {
    let n = statistics.len();
    let product = |a: &Statistics, b: &Statistics| a.h.iter().zip(&b.h).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let mut gram = vec![0.0; n * n];
    for j in 0..n {
        for k in 0..=j {
            gram[j * n + k] = product(statistics[j], statistics[k]);
            gram[k * n + j] = gram[j * n + k];
        }
    }
    let program = |i: usize| {
        // <H_i - H_j, H_i - H_k>, and v_j on the diagonal.
        let entry = |jk: usize| {
            let (j, k) = (jk / n, jk % n);
            let variance = if j == k { statistics[j].v } else { 0.0 };
            gram[i * n + i] - gram[i * n + j] - gram[i * n + k] + gram[jk] + variance
        };
        let weights = simplex::minimise(&(0..n * n).map(entry).collect::<Vec<_>>(), n)?;
        Some(weights.into_iter().map(|a| if a > CUT { a } else { 0.0 }).collect())
    };
    (0..n).map(program).collect()
}

impl Algorithm for FedPac {
    type Server = Common;
    type Client = Statistics;
    type Upload = Upload;

    fn describe() -> Description {
        Description {
            name: "fedpac",
            title: "FedPAC",
            family: "knowledge distillation",
            paper: "Xu, Tong, Huang, Personalized Federated Learning with Feature Alignment and Classifier Collaboration, ICLR 2023",
            year: 2023,
            personal: "the head, a combination of all heads",
            down: "w + C f",
            up: "w + c f + C f + 1",
            rule: "one epoch on the head, then E epochs on the base with CE + lambda mean((f - prototype)^2); bases are averaged as FedAvg; \
                   head_i <- sum_j a_ij head_j, where a_i minimises sum_jk a_j a_k <H_i - H_j, H_i - H_k> + sum_j a_j^2 v_j on the simplex",
            differences: "PFLlib gives a client the combination that was found for another one and combines heads that it has already \
                          replaced, which defeats the collaboration: so `paper` is the default here, and `pfllib` reproduces it \
                          (`alignment: drawn`, `heads: in-place`). PFLlib averages prototypes uniformly, the paper by samples \
                          (`prototypes`). Weights below 0.001 are cut without renormalising, as in the authors' code. With a lost upload \
                          PFLlib crashes; here those that arrived are combined. Without a solution a client keeps its head. PFLlib \
                          measures no training loss",
            fields: vec![
                Variant::Paper.field(),
                Field::with("lambda", Type::non_negative(), 1.0, "Weight of the alignment with the common prototypes.")
                    .from("lambda", "the authors' options"),
                Field::optional(
                    "alignment",
                    Type::Choice(&[
                        ("client", "a client gets the combination that was found for it"),
                        ("drawn", "rows go by the order in which clients were drawn, receivers by id, as PFLlib mixes them up"),
                    ]),
                    "To whom the combinations go.",
                ),
                Field::optional(
                    "heads",
                    Type::Choice(&[
                        ("snapshot", "the heads as they were sent"),
                        ("in-place", "heads that were replaced already count as replaced, as PFLlib"),
                    ]),
                    "Which heads are combined.",
                ),
                Field::optional(
                    "prototypes",
                    Type::Choice(&[("uniform", "every client that has the class, as PFLlib"), ("samples", "by samples, as the paper")]),
                    "What a client's prototype counts in the common one.",
                ),
            ],
            revision: 4,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("heads, prototypes and statistics of features")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
    /// The base, the combined head and the common prototypes.
    fn down(&self, world: &World, server: &Server<Common>, _: &Client<Statistics>) -> u64 {
        world.layout().len as u64 + server.state.0.floats()
    }
    /// The base, the head, prototypes and statistics.
    fn up(&self, world: &World, upload: &mut Upload) -> u64 {
        world.layout().len as u64 + Floats::of(&world.initial, upload)
    }

    /// The statistics of the received base. PFLlib has all clients compute them: only the first time, in training mode, does that
    /// leave a trace with those that do not train.
    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<Common>, client: &mut Client<Statistics>) -> Outcome<()> {
        copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
        let leaves_a_trace = client.model.training && !client.model.buffers.counters.is_empty();
        if trainer.position().is_some() || leaves_a_trace {
            client.state = Statistics::of(trainer, client)?;
        }
        Ok(())
    }

    fn objective<'a>(&'a self, server: &'a Server<Common>, _: &'a Statistics) -> Objective<'a> {
        let prototypes = &server.state.0;
        if prototypes.is_empty() {
            return Objective::CrossEntropy;
        }
        Objective::custom(|graph, labels| Ok(cross_entropy(graph.logits(), labels) + alignment(graph, labels, prototypes, self.lambda)))
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Common>, client: &mut Client<Statistics>) -> Outcome<()> {
        let Client { model, state, .. } = client;
        model.training = true;
        let aligned = self.objective(server, state);
        for (epochs, part, objective) in [(1, Parts::Head, &Objective::CrossEntropy), (trainer.epochs(), Parts::Base, &aligned)] {
            let mut optimiser = trainer.optimiser();
            for _ in 0..epochs {
                trainer.pass(trainer.training(), |trainer, batch| {
                    trainer.step(model, batch, objective, Update::new(&mut optimiser).only(part)).map(drop)
                })?;
            }
        }
        Ok(())
    }

    fn upload(&self, trainer: &mut Trainer<'_>, _: &Server<Common>, client: &mut Client<Statistics>) -> Outcome<Upload> {
        client.model.training = false;
        let mut means = ClassMeans::default();
        embed_pass(trainer, &mut client.model, trainer.training(), |features, labels| means.add(features, labels))?;
        Ok(Upload { prototypes: means.means(), statistics: client.state.clone() })
    }

    fn aggregate(
        &self,
        _: &mut Trainer<'_>,
        server: &mut Server<Common>,
        uploads: &[Uploaded<Upload>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        let by_samples = self.variant.choose(self.prototypes, Weights::Uniform, Weights::Samples) == Weights::Samples;
        server.state.0 = Prototypes::mean_of(uploads.iter().map(|upload| &upload.extra.prototypes), by_samples);
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |layer| self.averaged(layer));
        Ok(())
    }

    fn distribute(&self, arena: &mut Arena<'_, Self>, uploads: &[Uploaded<Upload>]) -> Outcome<()> {
        let drawn = self.variant.choose(self.alignment, Alignment::Drawn, Alignment::Client) == Alignment::Drawn;
        let in_place = self.variant.choose(self.heads, Heads::InPlace, Heads::Snapshot) == Heads::InPlace;
        let mut order: Vec<&Uploaded<Upload>> = uploads.iter().collect();
        if drawn {
            order.sort_by_key(|upload| arena.cohort.iter().position(|id| *id == upload.client));
        }
        let statistics: Vec<&Statistics> = order.iter().map(|upload| &upload.extra.statistics).collect();
        let range = arena.world.layout().head();
        let mut heads: Vec<Vec<f32>> = uploads.iter().map(|upload| upload.model.params[range.clone()].to_vec()).collect();
        for (i, weights) in combinations(&statistics).into_iter().enumerate() {
            let Some(weights) = weights else { continue };
            let mut combined = vec![0.0; range.len()];
            for (weight, head) in weights.iter().zip(&heads).filter(|(weight, _)| **weight > 0.0) {
                combined.iter_mut().zip(head).for_each(|(sum, p)| *sum += *weight as f32 * p);
            }
            arena.clients[uploads[i].client].model.params[range.clone()].copy_from_slice(&combined);
            if in_place {
                heads[i] = combined;
            }
        }
        Ok(())
    }

    /// The reference measures none.
    fn train_loss(&self, _: usize, _: &mut Trainer<'_>, _: &Server<Common>, _: &Client<Statistics>, _: &mut Batch) -> Outcome<Option<f64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(h: &[f32], v: f64) -> Statistics {
        Statistics { h: h.to_vec(), v }
    }

    #[test]
    fn combinations_have_their_closed_forms() {
        let (a, b) = (statistics(&[1.0, 0.0], 0.5), statistics(&[0.0, 1.0], 0.25));
        let close = |found: &Option<Vec<f64>>, wanted: [f64; 2]| {
            let found = found.as_ref().expect("a solution");
            assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        // Equal means and variances: each head counts half.
        let equal = combinations(&[&a, &a]);
        close(&equal[0], [0.5, 0.5]);
        // a_2 = v_1 / (v_1 + v_2 + ||H_1 - H_2||^2) for the first client.
        let found = combinations(&[&a, &b]);
        let share = 0.5 / (0.5 + 0.25 + 2.0);
        close(&found[0], [1.0 - share, share]);
        assert_eq!(combinations(&[&a])[0], Some(vec![1.0]));
        assert_eq!(combinations(&[&statistics(&[0.0, 0.0], 0.0)])[0], None);
    }
}
