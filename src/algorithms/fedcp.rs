//! FedCP: a small policy network splits each feature vector into a personal part, which the personal head scores, and a global part,
//! which a frozen global head scores.

use super::shared::frozen::Frozen;
use super::shared::heads;
use super::shared::mmd::mmd;
use super::shared::normed::{Norm, Normed, twice};
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::{Graph, Head, Loss, Traced, constant, cross_entropy, known, operation};
use crate::engine::{Dense, Entry, Model, Part, Parts};
use crate::fl::algorithm::{copy_layers, weighted_mean};
use crate::fl::streams::{Law, NoiseKind};
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Exposed, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded,
    Visitor, Who, World,
};
use crate::spec::catalog::{Field, Type};
use dfdx::prelude::*;
use serde::Deserialize;
use std::rc::Rc;

/// Zhang et al., KDD 2023, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedCp {
    variant: Variant,
    lambda: f32,
    policy: Choice,
}

/// Who splits the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    Network,
    Personal,
}

/// The mean policy network.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy(Option<Normed>);

impl Policy {
    fn floats(&self) -> usize {
        self.0.as_ref().map_or(0, Normed::len)
    }
}

impl State for Policy {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        if let Some(policy) = &mut self.0 {
            policy.visit("policy", visitor);
        }
    }
}

/// A client's policy network, its frozen global head and the context, a summary of its personal head; `setup` fills them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    policy: Option<Normed>,
    global_head: Option<Model>,
    context: Vec<f32>,
}

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        if let (Some(policy), Some(head)) = (&mut self.policy, &mut self.global_head) {
            policy.visit("policy", visitor);
            head.visit("global_head", visitor);
        }
        self.context.visit("context", visitor);
    }
}

/// The head and the policy network that a client sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    head: Vec<f32>,
    policy: Option<Normed>,
}

impl State for Sent {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.head.visit("head", visitor);
        if let Some(policy) = &mut self.policy {
            policy.visit("policy", visitor);
        }
    }
}

/// The context divided by its norm.
fn direction(context: &[f32]) -> Vec<f32> {
    let norm = context.iter().map(|v| v * v).sum::<f32>().sqrt().max(1e-12);
    context.iter().map(|v| v / norm).collect()
}

/// The sum over classes of the head's weights: for several dense layers, of their product.
fn summary(model: &Model) -> Vec<f32> {
    let layout = model.net.layout();
    let mut sum = vec![1.0; model.net.classes()];
    // A dense layer's weight is ordered (in, out) here.
    for weight in layout.entries.iter().rev().filter(|entry| entry.part == Part::Head && entry.shape.len() == 2) {
        let rows = model.params[weight.range.clone()].chunks_exact(sum.len());
        sum = rows.map(|row| row.iter().zip(&sum).map(|(w, s)| w * s).sum()).collect();
    }
    sum
}

/// What takes part in the loss of one batch beside the models.
struct Step {
    policy: (Dense, Norm),
    /// The context's direction.
    direction: Vec<f32>,
    /// Noise of the personal minus noise of the global choice, row by row.
    noise: Vec<f32>,
    /// Features under the frozen global base.
    frozen: Vec<f32>,
}

/// Each row times these factors, number by number.
fn times(x: Traced, factors: Vec<f32>) -> Traced {
    let (rows, width) = *x.shape();
    let scale = move |values: &mut Vec<f32>| {
        values.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(&factors).for_each(|(v, factor)| *v *= factor));
    };
    let mut scaled = x.as_vec();
    scale(&mut scaled);
    operation([x], constant(scaled, rows, width), move |d| {
        let mut d_x = d.to_vec();
        scale(&mut d_x);
        [d_x]
    })
}

/// The share of each feature that is personal: the softmax over both choices, which are the two halves of a row and count from 0, and
/// the noise between them.
fn shares(choice: &[f32], noise: &[f32], width: usize) -> Vec<f32> {
    let row = |(choice, noise): (&[f32], &[f32])| {
        let (own, other) = choice.split_at(width);
        let share = |((own, other), noise): ((&f32, &f32), &f32)| 1.0 / (1.0 + (other.max(0.0) - own.max(0.0) - noise).exp());
        own.iter().zip(other).zip(noise).map(share).collect::<Vec<f32>>()
    };
    choice.chunks_exact(2 * width).zip(noise.chunks_exact(width)).flat_map(row).collect()
}

/// The personal part of features, or what is left of them, with gradients to the features and the choices.
fn part(features: Traced, choice: Traced, shares: Rc<Vec<f32>>, personal: bool) -> Traced {
    let (rows, width) = *features.shape();
    let (values, choices) = (features.as_vec(), choice.as_vec());
    let factor = move |share: f32| if personal { share } else { 1.0 - share };
    let kept = values.iter().zip(&*shares).map(|(v, share)| v * factor(*share)).collect();
    operation([features, choice], constant(kept, rows, width), move |d| {
        let d_features = d.iter().zip(&*shares).map(|(d, share)| d * factor(*share)).collect();
        let mut d_choice = vec![0.0; choices.len()];
        let sign = if personal { 1.0 } else { -1.0 };
        for (row, (d_row, choices)) in d_choice.chunks_exact_mut(2 * width).zip(choices.chunks_exact(2 * width)).enumerate() {
            let (d_own, d_other) = d_row.split_at_mut(width);
            let (own, other) = choices.split_at(width);
            for i in 0..width {
                let (at, share) = (row * width + i, shares[row * width + i]);
                let slope = sign * d[at] * values[at] * share * (1.0 - share);
                // A choice below 0 counts as 0.
                d_own[i] = if own[i] > 0.0 { slope } else { 0.0 };
                d_other[i] = if other[i] > 0.0 { -slope } else { 0.0 };
            }
        }
        [d_features, d_choice]
    })
}

impl FedCp {
    fn loss(&self, graph: &Graph, labels: &[u32], step: &Step, global_head: &Head) -> Loss {
        let width = step.frozen.len() / labels.len().max(1);
        let features = graph.features();
        let (apart, mut gradient) = mmd(&features.as_vec(), &step.frozen, width);
        gradient.iter_mut().for_each(|d| *d *= self.lambda);
        let apart = known(features, self.lambda * apart, gradient);
        if self.policy == Choice::Personal {
            return cross_entropy(graph.logits(), labels) + apart;
        }
        let (dense, norm) = &step.policy;
        let choice = norm.apply(dense.apply(times(graph.features(), step.direction.clone())));
        let shares = Rc::new(shares(&choice.as_vec(), &step.noise, width));
        let (own, other) = twice(choice);
        let logits =
            graph.head(part(graph.features(), own, shares.clone(), true)) + global_head.apply(part(graph.features(), other, shares, false));
        cross_entropy(logits, labels) + apart
    }

    /// For each choice the difference of two Gumbel variables, which is logistic.
    fn noise(trainer: &mut Trainer<'_>, rows: usize, width: usize) -> Vec<f32> {
        let mut noise = vec![0.0; rows * width];
        trainer.noise(NoiseKind::Logistic, &mut noise);
        noise
    }
}

impl Algorithm for FedCp {
    type Server = Policy;
    type Client = Own;
    type Upload = Sent;

    fn describe() -> Description {
        Description {
            name: "fedcp",
            title: "FedCP",
            family: "model splitting",
            paper: "Zhang et al., FedCP: Separating Feature Information for Personalized Federated Learning via Conditional Policy, KDD 2023",
            year: 2023,
            personal: "base and head between broadcasts, the context",
            down: "w + 2 f f + 6 f",
            up: "w + 2 f f + 6 f",
            rule: "client: min CE(h(r p) + h_g(r (1 - p)), y) + lambda MMD(r, r_g), where r are the features, r_g those of the frozen global \
                   base, h_g the frozen global head, and p = softmax over two choices of the policy network on r * v/||v|| plus Gumbel \
                   noise; then h_g <- (h + h_g)/2; base, h_g and policy are averaged as FedAvg; v is the sum over classes of h's weights",
            differences: "the Gumbel noise acts in evaluation too, as in PFLlib. PFLlib forgets the decay of the learning rate here \
                          (`variant: pfllib`), which can be no intention, so that `paper` is the default. It forgets its drop rate too, which always acts here. A new client takes global base and head without the policy; PFLlib \
                          has none",
            fields: vec![
                Field {
                    doc: "With `pfllib` the learning rate never decays, whatever the settings say, as PFLlib's code does it.",
                    source: "PFLlib's is an oversight",
                    ..Variant::Paper.field()
                },
                Field::with("lambda", Type::non_negative(), 5.0, "Weight of the discrepancy between local and global features.")
                    .from("lambda", "the authors' run script"),
                Field::with(
                    "policy",
                    Type::Choice(&[
                        ("network", "the conditional policy network splits the features"),
                        ("personal", "all of them are personal, without policy network and global head: an ablation"),
                    ]),
                    "network",
                    "Who decides which features are personal.",
                )
                .from("p", "the paper"),
            ],
            revision: 4,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the head and the policy network")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
    /// The server sends at the end of a round.
    fn receives(&self) -> Who {
        Who::None
    }

    fn down(&self, world: &World, server: &Server<Policy>, _: &Client<Own>) -> u64 {
        (world.layout().len + server.state.floats()) as u64
    }
    fn up(&self, world: &World, upload: &mut Sent) -> u64 {
        (world.layout().len + upload.policy.as_ref().map_or(0, Normed::len)) as u64
    }

    /// The base, and the mean of own and global head.
    fn exposes(&self, server: &Server<Policy>, started: &Model, upload: &Uploaded<Sent>) -> Exposed {
        let layout = server.global.net.layout();
        let (mut before, mut after) = (started.params.clone(), upload.model.params.clone());
        before[layout.head()].copy_from_slice(&server.global.params[layout.head()]);
        if upload.extra.head.len() == layout.head().len() {
            after[layout.head()].copy_from_slice(&upload.extra.head);
        }
        Exposed::of(layout, |_| true, &before, &after)
    }

    fn setup(&self, world: &World, server: &mut Server<Policy>, clients: &mut [Client<Own>]) -> Outcome<()> {
        let width = world.network().features();
        let policy = Some(Normed::start(world, "policy", width, 2 * width)?);
        let global_head = Some(heads::alone(&world.initial)?);
        // Uniform in [0, 1).
        let mut context = vec![0.0; width];
        world.streams.initial("context", Law::Uniform(1.0), &mut context);
        context.iter_mut().for_each(|v| *v = v.abs());
        for client in clients {
            client.state = Own { policy: policy.clone(), global_head: global_head.clone(), context: context.clone() };
        }
        server.state.0 = policy;
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Policy>, client: &mut Client<Own>) -> Outcome<()> {
        let Client { model, state: Own { policy: Some(policy), global_head: Some(global_head), context }, .. } = client else {
            return Ok(());
        };
        model.training = true;
        let mut global = Frozen::new(trainer, Model { training: true, ..server.global.clone() })?;
        let (width, direction, frozen) = (model.net.features(), direction(context), Head::frozen(global_head));
        let rate = self.variant.choose(None, trainer.world.settings.learning_rate as f32, trainer.rate());
        let mut optimiser = trainer.optimiser();
        let mut others = [trainer.optimiser(), trainer.optimiser(), trainer.optimiser()];
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let rows = batch.rows();
                let noise = if self.policy == Choice::Network { Self::noise(trainer, rows, width) } else { Vec::new() };
                let step = Step { policy: policy.graph()?, direction: direction.clone(), noise, frozen: global.features(trainer, batch)? };
                let objective = Objective::custom(|graph, labels| Ok(self.loss(graph, labels, &step, &frozen)));
                trainer.gradients(&mut [&mut *model], batch, &objective, Parts::All)?;
                drop(objective);
                trainer.apply(0, model, Update::new(&mut optimiser).rate(rate));
                if self.policy == Choice::Network {
                    policy.step(trainer, step.policy, &mut others, rate, &[]);
                }
                Ok(())
            })?;
        }
        drop(frozen);
        let own = &model.params[model.net.layout().head()];
        global_head.params.iter_mut().zip(own).for_each(|(global, own)| *global = 0.5 * own + 0.5 * *global);
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Policy>, client: &mut Client<Own>) -> Outcome<Sent> {
        let head = client.state.global_head.as_ref().map_or_else(Vec::new, |head| head.params.to_vec());
        Ok(Sent { head, policy: client.state.policy.clone().filter(|_| self.policy == Choice::Network) })
    }

    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Policy>, uploads: &[Uploaded<Sent>], _: &Aggregation<'_>) -> Outcome<()> {
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |layer| self.shared(layer));
        let range = server.global.net.layout().head();
        let head = &mut server.global.params[range];
        head.fill(0.0);
        for upload in uploads {
            let share = upload.weight as f32;
            head.iter_mut().zip(&upload.extra.head).for_each(|(sum, v)| *sum += v * share);
        }
        if let (Some(policy), Choice::Network) = (&mut server.state.0, self.policy) {
            policy.become_mean(uploads.iter().filter_map(|upload| Some((upload.extra.policy.as_ref()?, upload.weight))));
        }
        Ok(())
    }

    /// The base reaches everybody; global head, policy and a new context only those who took part.
    fn distribute(&self, arena: &mut Arena<'_, Self>, _: &[Uploaded<Sent>]) -> Outcome<()> {
        let ids = arena.ids(Who::All);
        let mut head = heads::alone(&arena.server.global)?;
        head.training = false;
        arena.each(&ids, |trainer, server, client| {
            copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
            if trainer.position().is_some() {
                client.state.context = summary(&client.model);
                client.state.global_head = Some(head.clone());
                client.state.policy = server.state.0.clone();
            }
            Ok(())
        })?;
        Ok(())
    }

    /// The sum of the two heads' logits.
    fn scores(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        _: &Server<Policy>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let features = trainer.embed(&mut Model { training: false, ..client.model.clone() }, batch)?;
        let rows = batch.rows();
        let known = (&client.state.policy, &client.state.global_head, self.policy);
        let (Some(policy), Some(global_head), Choice::Network) = known else {
            return Ok(trainer.head(&client.model, &features, rows));
        };
        let width = features.len() / rows;
        let direction = direction(&client.state.context);
        let scaled: Vec<f32> = features.chunks_exact(width).flat_map(|row| row.iter().zip(&direction).map(|(r, v)| r * v)).collect();
        let mut choice = trainer.head(&policy.linear, &scaled, rows);
        policy.normalise(&mut choice);
        let noise = Self::noise(trainer, rows, width);
        let personal: Vec<f32> = features.iter().zip(shares(&choice, &noise, width)).map(|(r, share)| r * share).collect();
        let global: Vec<f32> = features.iter().zip(&personal).map(|(r, personal)| r - personal).collect();
        let mut logits = trainer.head(&client.model, &personal, rows);
        let global = trainer.head(global_head, &global, rows);
        logits.iter_mut().zip(global).for_each(|(z, g)| *z += g);
        Ok(logits)
    }

    fn softmax_auc(&self, _: usize) -> bool {
        true
    }

    /// Global base and head are a whole model, which is fine-tuned like any other.
    fn adopt(&self, _: &mut Trainer<'_>, server: &Server<Policy>, client: &mut Client<Own>) -> Outcome<()> {
        copy_layers(&mut client.model, &server.global, |_| true);
        Ok(())
    }

    /// The reference measures no training loss.
    fn train_loss(&self, _: usize, _: &mut Trainer<'_>, _: &Server<Policy>, _: &Client<Own>, _: &mut Batch) -> Outcome<Option<f64>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tape::Leaf;
    use crate::engine::{Layer, Network, Shape};
    use std::sync::Arc;

    #[test]
    fn the_parts_have_the_gradients_of_their_values() {
        let (features, choice, noise) =
            (vec![1.0, -0.5, 0.3, 0.7], vec![0.5, -0.2, 0.9, 0.1, 1.5, 0.4, -0.3, 0.8], vec![0.1, 0.0, -0.4, 0.2]);
        for personal in [true, false] {
            let value = |features: &[f32], choice: &[f32]| {
                let (f, c) = (Leaf::new(features.to_vec(), 2, 2), Leaf::new(choice.to_vec(), 2, 4));
                let shares = Rc::new(shares(choice, &noise, 2));
                let loss = (part(f.traced(), c.traced(), shares, personal) * constant(vec![1.0, -2.0, 0.5, 3.0], 2, 2)).sum();
                let value = loss.as_vec()[0];
                loss.backward();
                (value, f.gradient(), c.gradient())
            };
            let (_, d_features, d_choice) = value(&features, &choice);
            let moved = |values: &[f32], i: usize, step: f32| {
                let mut values = values.to_vec();
                values[i] += step;
                values
            };
            for i in 0..8 {
                let slope = (value(&features, &moved(&choice, i, 1e-2)).0 - value(&features, &moved(&choice, i, -1e-2)).0) / 2e-2;
                assert!((d_choice[i] - slope).abs() < 1e-3, "{personal} {i}");
                if i < 4 {
                    let slope = (value(&moved(&features, i, 1e-2), &choice).0 - value(&moved(&features, i, -1e-2), &choice).0) / 2e-2;
                    assert!((d_features[i] - slope).abs() < 1e-3, "{personal} {i}");
                }
            }
        }
        assert!((shares(&[2.0, 0.0], &[0.0], 1)[0] - 1.0 / (1.0 + (-2f32).exp())).abs() < 1e-6);
    }

    #[test]
    fn the_context_is_the_product_of_the_heads_weights_summed_over_classes() {
        let layers = vec![Layer::linear("fc.0", 2), Layer::linear("fc.2", 3)];
        let net = Arc::new(Network::build(Shape::vector(2), layers, 0).expect("a valid network"));
        let mut model = Model { params: vec![0.0; net.layout().len].into(), net, buffers: Default::default(), training: true };
        let layout = model.net.clone();
        let layout = layout.layout();
        // Torch's order (out, in): W1 = [[1, 2], [3, 4]], W2 has rows that sum to (6, 9) over the classes.
        layout.import(&mut model.params, &layout.entries[0], &[1.0, 2.0, 3.0, 4.0]).expect("it fits");
        layout.import(&mut model.params, &layout.entries[2], &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0]).expect("it fits");
        assert_eq!(summary(&model), [6.0 * 1.0 + 9.0 * 3.0, 6.0 * 2.0 + 9.0 * 4.0]);
    }
}
