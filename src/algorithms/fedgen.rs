//! FedGen: the server trains a generator of features that tells each client what the others know of a class.

use super::shared::classes::counts;
use super::shared::probe::probe;
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::{Leaf, cross_entropy};
use crate::engine::update::{Optimiser, Rule};
use crate::engine::{Entry, Layer, Model, Network, Part, Parts, Shape, loss};
use crate::fl::algorithm::weighted_mean;
use crate::fl::streams::NoiseKind;
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::sync::Arc;

/// Zhu, Hong, Zhou, ICML 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedGen {
    variant: Variant,
    noise_dim: usize,
    hidden_dim: usize,
    generator_learning_rate: f64,
    server_steps: u64,
    local_base: bool,
    noise: Option<Noise>,
    pool: Option<Pool>,
}

/// Widths of the generator: a greater one would be no small module beside the network, but most of the memory.
const WIDTH: Type = Type::Int { min: 1, max: 16_384 };

/// The noise that enters the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Noise {
    Uniform,
    Normal,
}

/// Which samples the drawn labels stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pool {
    Batches,
    All,
}

/// The generator with its optimiser, and the labels of all clients' samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    generator: Option<Model>,
    steps: u64,
    moments: Vec<f32>,
    /// Follows from the clients' counts.
    pool: Vec<u32>,
}

impl State for Knowledge {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        if let Some(generator) = &mut self.generator {
            visitor.model("generator", generator);
        }
        visitor.count("steps", &mut self.steps);
        visitor.vector("moments", &mut self.moments);
    }
}

/// How many samples of each class a client has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(Vec<f32>);

impl State for Counts {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("counts", visitor);
    }
}

impl FedGen {
    /// Noise and a class in, features out.
    fn network(&self, classes: usize, features: usize) -> Outcome<Network> {
        let hidden = [Layer::linear("fc1.0", self.hidden_dim), Layer::norm1d("fc1.1"), Layer::Relu];
        Network::build(Shape::vector(self.noise_dim + classes), [&hidden[..], &[Layer::linear("fc", features)]].concat(), hidden.len())
    }

    /// Features of a batch of drawn labels, by a generator in training mode.
    fn generate(&self, trainer: &mut Trainer<'_>, generator: &mut Model, pool: &[u32]) -> Outcome<(Vec<f32>, Vec<u32>)> {
        let rows = trainer.world.settings.batch_size;
        let labels: Vec<u32> = trainer.integers(rows, pool.len()).into_iter().map(|i| pool[i]).collect();
        let mut noise = vec![0.0; rows * self.noise_dim];
        let kind = match self.variant.choose(self.noise, Noise::Uniform, Noise::Normal) {
            Noise::Uniform => NoiseKind::Uniform,
            Noise::Normal => NoiseKind::Normal,
        };
        trainer.noise(kind, &mut noise);
        let width = generator.net.input().numel();
        let mut x = vec![0.0; rows * width];
        for ((row, noise), label) in x.chunks_exact_mut(width).zip(noise.chunks_exact(self.noise_dim)).zip(&labels) {
            row[..self.noise_dim].copy_from_slice(noise);
            row[self.noise_dim + *label as usize] = 1.0;
        }
        let batch = Batch { x, y: labels };
        let (_, features) = trainer.forward(generator, &batch)?;
        Ok((features, batch.y))
    }

    /// The generator for a client's own use; absent where there is nothing to draw labels from.
    fn lent(server: &Server<Knowledge>) -> Option<Model> {
        server.state.generator.clone().filter(|_| !server.state.pool.is_empty())
    }
}

impl Algorithm for FedGen {
    type Server = Knowledge;
    type Client = Counts;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedgen",
            title: "FedGen",
            family: "knowledge distillation",
            paper: "Zhu, Hong, Zhou, Data-Free Knowledge Distillation for Heterogeneous Federated Learning, ICML 2021",
            year: 2021,
            personal: "nothing; with `local_base` the base",
            down: "w + 512 C + 513 f + 17920",
            up: "w",
            rule: "each step at client c minimises CE(w_c(x), y) + CE(head_c(G(z, y')), y') with drawn labels y' and noise z; the server \
                   trains G on CE(sum_c (n_c/n) head_c(G(z, y')), y') with Adam, then averages as FedAvg",
            differences: "PFLlib draws uniform noise where the paper draws normal one (`noise`), and draws labels from what is left when a \
                          random incomplete batch is dropped at each client (`pool: batches`). The authors' code adds a diversity loss, a \
                          distillation term and decaying weights; neither the paper's objective nor PFLlib has them. PFLlib's new \
                          clients crash; here they adopt the model. PFLlib's default of 1000 server steps dominates the run time",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("noise_dim", WIDTH, 32, "Width of the generator's noise.").from("d_z", "PFLlib's author (HtFLlib)"),
                Field::with("hidden_dim", WIDTH, 512, "Width of the generator's hidden layer.").from("", "the authors' code for CIFAR"),
                Field::with("generator_learning_rate", Type::positive(), 0.005, "Adam's rate for the generator.").from("", "PFLlib"),
                Field::with("server_steps", Type::at_least(0), 100, "Steps of the generator in each round.")
                    .from("", "PFLlib's author (HtFLlib)"),
                Field::with("local_base", Type::Bool, false, "Share only the head.").from("", "PFLlib"),
                Field::optional(
                    "noise",
                    Type::Choice(&[("uniform", "in [0, 1), as PFLlib"), ("normal", "standard normal, as the paper")]),
                    "The noise that enters the generator.",
                ),
                Field::optional(
                    "pool",
                    Type::Choice(&[
                        ("batches", "the samples of one shuffled pass in whole batches, as PFLlib"),
                        ("all", "all samples, as the paper"),
                    ]),
                    "Which samples of the clients the drawn labels stand for.",
                ),
            ],
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("heads, on which the server trains its generator")
    }

    fn shared(&self, layer: &Entry) -> bool {
        !self.local_base || layer.part == Part::Head
    }

    /// What is shared, and the generator.
    fn down(&self, world: &World, server: &Server<Knowledge>, _: &Client<Counts>) -> u64 {
        let shared = world.layout().entries.iter().filter(|entry| self.shared(entry)).map(|entry| entry.range.len()).sum::<usize>();
        (shared + server.state.generator.as_ref().map_or(0, |generator| generator.params.len())) as u64
    }

    fn setup(&self, world: &World, server: &mut Server<Knowledge>, clients: &mut [Client<Counts>]) -> Outcome<()> {
        let net = self.network(world.network().classes(), world.network().features())?;
        server.state.generator = Some(world.module("generator", Arc::new(net)));
        let batches = self.variant.choose(self.pool, Pool::Batches, Pool::All) == Pool::Batches;
        for client in clients {
            client.state.0 = counts(world, client.id, batches);
            for (class, count) in client.state.0.iter().enumerate() {
                server.state.pool.extend(std::iter::repeat_n(class as u32, *count as usize));
            }
        }
        Ok(())
    }

    fn prepare(&self, arena: &mut Arena<'_, Self>) -> Outcome<()> {
        probe(arena)
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Knowledge>, client: &mut Client<Counts>) -> Outcome<()> {
        let Some(mut generator) = Self::lent(server) else {
            return trainer.descend(&mut client.model, &Objective::CrossEntropy, &[]);
        };
        client.model.training = true;
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let (features, drawn) = self.generate(trainer, &mut generator, &server.state.pool)?;
                let objective = Objective::custom(|graph, labels| {
                    let generated = Leaf::new(features.clone(), drawn.len(), generator.net.classes());
                    Ok(cross_entropy(graph.logits(), labels) + cross_entropy(graph.head(generated.traced()), &drawn))
                });
                trainer.step(&mut client.model, batch, &objective, Update::new(&mut optimiser)).map(drop)
            })?;
        }
        Ok(())
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Knowledge>,
        uploads: &[Uploaded<()>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        if let Some(mut generator) = Self::lent(server) {
            let state = &mut server.state;
            let mut adam = Optimiser::new(Rule::ADAM);
            adam.load(state.steps, &state.moments, generator.params.len())?;
            let decay = trainer.world.settings.learning_rate_decay.unwrap_or(1.0);
            let rate = (0..round.round).fold(self.generator_learning_rate, |rate, _| rate * decay) as f32;
            let classes = trainer.world.network().classes();
            let mut d_logits = Vec::new();
            for _ in 0..self.server_steps {
                let (features, drawn) = self.generate(trainer, &mut generator, &state.pool)?;
                let mut logits = vec![0.0; drawn.len() * classes];
                for upload in uploads {
                    let weight = upload.weight as f32;
                    let own = trainer.head(&upload.model, &features, drawn.len());
                    logits.iter_mut().zip(own).for_each(|(sum, z)| *sum += weight * z);
                }
                loss::cross_entropy(&logits, &drawn, classes, &mut d_logits);
                let mut d_features = vec![0.0; features.len()];
                for upload in uploads {
                    let own: Vec<f32> = d_logits.iter().map(|d| upload.weight as f32 * d).collect();
                    let own = trainer.head_backward(&upload.model, &features, &own, None);
                    d_features.iter_mut().zip(own).for_each(|(sum, d)| *sum += d);
                }
                trainer.backward(&generator, Some(&d_features), None, Parts::All)?;
                trainer.apply(0, &mut generator, Update::new(&mut adam).rate(rate).undecayed());
            }
            (state.steps, state.moments) = adam.state();
            state.generator = Some(generator);
        }
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |layer| self.averaged(layer));
        Ok(())
    }

    /// Both terms of the local objective.
    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Knowledge>,
        client: &Client<Counts>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = self.scores(view, trainer, server, client, batch)?;
        let mut loss = trainer.cross_entropy(&scores, &batch.y);
        if let Some(mut generator) = Self::lent(server) {
            let (features, drawn) = self.generate(trainer, &mut generator, &server.state.pool)?;
            let scores = trainer.head(&client.model, &features, drawn.len());
            loss += trainer.cross_entropy(&scores, &drawn);
        }
        Ok(Some(f64::from(loss)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_the_size_of_its_formula() {
        let (noise_dim, hidden_dim) = (512, 512);
        let gen_ = FedGen {
            variant: Variant::Pfllib,
            noise_dim,
            hidden_dim,
            generator_learning_rate: 0.005,
            server_steps: 1,
            local_base: false,
            noise: None,
            pool: None,
        };
        // (z + C) H + H + 2 H + H D + D.
        assert_eq!(gen_.network(10, 512).expect("a valid network").layout().len, 531_456);
    }
}
