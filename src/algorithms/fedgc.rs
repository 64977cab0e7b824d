//! FedGC: clients own different classes and private class embeddings, which the server pushes apart.

use super::shared::flat::dot;
use super::shared::probe::probe;
use super::shared::variant::Variant;
use crate::base::{Fault, Outcome};
use crate::engine::update::add_scaled;
use crate::engine::{Entry, Layer, Layout, Model, Network, Part};
use crate::fl::algorithm::{copy_layers, weighted_mean};
use crate::fl::streams::{Law, Moment};
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    World,
};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Niu, Deng, AAAI 2022, with PFLlib's extension to classes that several clients own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedGc {
    variant: Variant,
    lambda: f64,
    classes: Option<Classes>,
    absent: Option<Absent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Classes {
    DropLast,
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Absent {
    First,
    Wrong,
}

/// Each client's head V_c, an embedding a row, and the classes of the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    heads: Vec<Vec<f32>>,
    classes: Vec<Vec<u32>>,
}

impl State for Heads {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.heads.visit("heads", visitor);
    }
}

/// The client's classes, ascending; `setup` finds them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owned(Vec<u32>);

impl State for Owned {
    fn visit(&mut self, _: &mut dyn Visitor) {}
}

/// A client's head on its way to the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(Vec<f32>);

impl State for Sent {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.vector("head", &mut self.0);
    }
}

impl Owned {
    /// Labels become positions in the client's classes, those of other classes `absent`.
    fn relabel(&self, labels: &mut [u32], absent: u32) {
        for label in labels {
            *label = self.0.binary_search(label).map_or(absent, |place| place as u32);
        }
    }
}

/// The parameter that holds a client's embeddings.
fn head(layout: &Layout) -> Option<&Entry> {
    layout.entries.iter().find(|entry| entry.part == Part::Head)
}

/// The network with another head: one embedding a class, without a bias.
fn with_classes(net: &Network, classes: usize) -> Outcome<Network> {
    let name = head(net.layout()).and_then(|entry| entry.name.strip_suffix(".weight")).unwrap_or_default().to_owned();
    let is_head = |layer: &Layer| matches!(layer, Layer::Linear { name: own, .. } if *own == name);
    let place = net.layers().iter().position(is_head).ok_or_else(|| Fault::internal("a network without a head"))?;
    let mut layers = net.layers()[..place].to_vec();
    layers.push(Layer::Linear { name, out: classes, bias: false });
    Network::build(net.input(), layers, place)
}

/// One step down the gradient of sum_k m_k ln(1 + sum over rows V of clients without class k of exp(V e_k - e_k e_k)), where e_k is
/// the mean embedding of the m_k owners of k, taken as constant.
fn push_apart(heads: &mut [Vec<f32>], classes: &[Vec<u32>], width: usize, rate: f64) {
    let mut embeddings: BTreeMap<u32, (Vec<f32>, usize)> = BTreeMap::new();
    for (head, own) in heads.iter().zip(classes) {
        for (row, class) in head.chunks_exact(width).zip(own) {
            let (sum, owners) = embeddings.entry(*class).or_insert_with(|| (vec![0.0; width], 0));
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            *owners += 1;
        }
    }
    let before: Vec<Vec<f32>> = heads.to_vec();
    for (class, (mut embedding, owners)) in embeddings {
        embedding.iter_mut().for_each(|value| *value /= owners as f32);
        let others: Vec<usize> = (0..heads.len()).filter(|i| classes[*i].binary_search(&class).is_err()).collect();
        let own = dot(&embedding, &embedding);
        let exponents: Vec<Vec<f64>> =
            others.iter().map(|i| before[*i].chunks_exact(width).map(|row| dot(row, &embedding)).collect()).collect();
        let greatest = exponents.iter().flatten().copied().fold(own, f64::max);
        let total = (own - greatest).exp() + exponents.iter().flatten().map(|e| (e - greatest).exp()).sum::<f64>();
        for (i, exponents) in others.iter().zip(&exponents) {
            for (row, exponent) in heads[*i].chunks_exact_mut(width).zip(exponents) {
                let share = owners as f64 * (exponent - greatest).exp() / total;
                add_scaled(row, (-rate * share) as f32, &embedding);
            }
        }
    }
}

impl FedGc {
    /// The classes that a client owns: those it met in one pass over its batches.
    fn owned(&self, world: &World, client: usize) -> Vec<u32> {
        let (samples, size) = (&world.shards[client].train, world.settings.batch_size);
        let labels = |places: &mut dyn Iterator<Item = usize>| {
            places.map(|place| world.data.labels()[samples[place] as usize]).collect::<BTreeSet<u32>>().into_iter().collect()
        };
        let whole = samples.len() - samples.len() % size;
        let drops = self.variant.choose(self.classes, Classes::DropLast, Classes::Exact) == Classes::DropLast && world.settings.drop_last;
        if !drops || whole == 0 {
            return labels(&mut (0..samples.len()));
        }
        // No phase of a round reaches this pass.
        let order = world.streams.order(Moment { client: client as u64, round: 0, pass: u64::MAX }, samples.len());
        labels(&mut order[..whole].iter().map(|place| *place as usize))
    }
}

impl Algorithm for FedGc {
    type Server = Heads;
    type Client = Owned;
    type Upload = Sent;

    fn describe() -> Description {
        Description {
            name: "fedgc",
            title: "FedGC",
            family: "model splitting",
            paper: "Niu, Deng, Federated Learning for Face Recognition with Gradient Correction, AAAI 2022",
            year: 2022,
            personal: "the head: an embedding for each class that the client owns",
            down: "b + c f",
            up: "b + c f",
            rule: "base and head V_c are trained together on the client's classes, the bases averaged as FedAvg; then the server takes one step \
                   of rate lambda lr down the gradient of sum_k m_k ln(1 + sum exp(V e_k - e_k e_k)) over the embeddings V of clients without \
                   class k",
            differences: "the owner means e_k and counts m_k are PFLlib's; in the paper classes are disjoint. PFLlib finds the classes in one \
                          pass that drops the last batch, so that a rare one may be missed and is then trained as the first \
                          (`classes: drop-last`), and counts a test sample of an absent class as the first one (`absent: first`). It \
                          fails when everybody owns every class (here nothing is pushed) and on overflow (here the exponents are shifted), \
                          leaves test batches of one sample out of its AUC, and moves running statistics once before the first round. A new \
                          client takes the base and starts a head for all classes; PFLlib crashes",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("lambda", Type::non_negative(), 1.0, "Rate of the server's step, as a multiple of the learning rate.")
                    .from("lambda", "PFLlib"),
                Field::optional(
                    "classes",
                    Type::Choice(&[
                        ("drop-last", "those met in one pass over the batches, as PFLlib"),
                        ("exact", "those of all training samples"),
                    ]),
                    "Which classes a client owns.",
                ),
                Field::optional(
                    "absent",
                    Type::Choice(&[("first", "as the client's first class, as PFLlib"), ("wrong", "always wrong")]),
                    "How a test sample of a class counts that the client does not own.",
                ),
            ],
            revision: 3,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the head of each client")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
    /// The base and the client's own head.
    fn down(&self, world: &World, server: &Server<Heads>, client: &Client<Owned>) -> u64 {
        (world.layout().base().len() + server.state.heads[client.id].len()) as u64
    }
    fn up(&self, world: &World, Sent(head): &mut Sent) -> u64 {
        (world.layout().base().len() + head.len()) as u64
    }

    fn prepare(&self, arena: &mut Arena<'_, Self>) -> Outcome<()> {
        probe(arena)
    }

    fn setup(&self, world: &World, server: &mut Server<Heads>, clients: &mut [Client<Owned>]) -> Outcome<()> {
        let (width, base) = (world.network().features(), world.layout().base());
        let mut nets: BTreeMap<usize, Arc<Network>> = BTreeMap::new();
        for client in clients {
            let classes = self.owned(world, client.id);
            let net = match nets.get(&classes.len()) {
                Some(net) => net.clone(),
                None => nets.entry(classes.len()).or_insert(Arc::new(with_classes(world.network(), classes.len())?)).clone(),
            };
            // The heads of all clients start with the same rows.
            let mut values = vec![0.0; classes.len() * width];
            world.streams.initial("heads", Law::Uniform(1.0 / (width as f32).sqrt()), &mut values);
            let mut params = vec![0.0; net.layout().len];
            params[base.clone()].copy_from_slice(&world.initial.params[base.clone()]);
            if let Some(entry) = head(net.layout()) {
                net.layout().import(&mut params, entry, &values)?;
            }
            client.model = Model { params: params.into(), net, ..world.initial.clone() };
            client.state = Owned(classes.clone());
            server.state.heads.push(values);
            server.state.classes.push(classes);
        }
        Ok(())
    }

    fn receive(&self, _: &mut Trainer<'_>, server: &Server<Heads>, client: &mut Client<Owned>) -> Outcome<()> {
        copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
        let net = client.model.net.clone();
        head(net.layout()).map_or(Ok(()), |e| net.layout().import(&mut client.model.params, e, &server.state.heads[client.id]))
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<Heads>, client: &mut Client<Owned>) -> Outcome<()> {
        let Client { model, state, .. } = client;
        model.training = true;
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                state.relabel(&mut batch.y, 0);
                trainer.step(model, batch, &Objective::CrossEntropy, Update::new(&mut optimiser)).map(drop)
            })?;
        }
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Heads>, client: &mut Client<Owned>) -> Outcome<Sent> {
        Ok(Sent(head(client.model.net.layout()).map_or_else(Vec::new, |entry| client.model.export(entry))))
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Heads>,
        uploads: &[Uploaded<Sent>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |layer| self.averaged(layer));
        let Heads { heads, classes } = &mut server.state;
        for upload in uploads {
            heads[upload.client].clone_from(&upload.extra.0);
        }
        let rate = trainer.world.settings.learning_rate * self.lambda;
        push_apart(heads, classes, trainer.world.network().features(), rate);
        Ok(())
    }

    /// Over the client's classes; where absent ones are wrong, one more class that always loses stands for them.
    fn scores(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Heads>,
        client: &Client<Owned>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let scores = trainer.predict(self.evaluated(view, server, client), batch)?;
        if self.variant.choose(self.absent, Absent::First, Absent::Wrong) == Absent::First {
            client.state.relabel(&mut batch.y, 0);
            return Ok(scores);
        }
        let classes = client.state.0.len();
        client.state.relabel(&mut batch.y, classes as u32);
        let below = |row: &[f32]| row.iter().copied().fold(f32::INFINITY, f32::min) - 1.0;
        Ok(scores.chunks_exact(classes).flat_map(|row| row.iter().copied().chain([below(row)])).collect())
    }

    fn train_loss(
        &self,
        view: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Heads>,
        client: &Client<Owned>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let scores = trainer.predict(self.evaluated(view, server, client), batch)?;
        client.state.relabel(&mut batch.y, 0);
        Ok(Some(f64::from(trainer.cross_entropy(&scores, &batch.y))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The literal sum over the rows, with the means as constants.
    fn penalty(heads: &[Vec<f32>], means: &[Vec<f32>; 3], classes: &[Vec<u32>]) -> f64 {
        let mut sum = 0.0;
        for own in classes {
            for class in own {
                let mean = &means[*class as usize];
                let far: f64 = (0..heads.len())
                    .filter(|i| !classes[*i].contains(class))
                    .flat_map(|i| heads[i].chunks(2).map(|row| dot(row, mean).exp()))
                    .sum();
                sum += (1.0 + far / dot(mean, mean).exp()).ln();
            }
        }
        sum
    }

    #[test]
    fn the_step_goes_down_the_slope_of_the_literal_sum() {
        let classes = [vec![0, 1], vec![1], vec![0, 1, 2]];
        let heads = [vec![0.5, -1.0, 0.25, 1.0], vec![1.0, 0.5], vec![-0.5, 0.5, 0.0, 1.0, 2.0, -1.0]];
        let means = [vec![0.0, -0.25], vec![1.25 / 3.0, 2.5 / 3.0], vec![2.0, -1.0]];
        let mut moved = heads.to_vec();
        push_apart(&mut moved, &classes, 2, 1.0);
        assert_eq!(moved[2], heads[2], "who owns every class is not pushed");
        for client in 0..2 {
            for i in 0..heads[client].len() {
                let at = |step: f32| {
                    let mut heads = heads.to_vec();
                    heads[client][i] += step;
                    penalty(&heads, &means, &classes)
                };
                let slope = (at(0.01) - at(-0.01)) / 0.02;
                let step = f64::from(heads[client][i] - moved[client][i]);
                assert!((slope - step).abs() < 1e-3, "{slope} and {step}");
            }
        }
    }

    #[test]
    fn large_embeddings_do_not_overflow() {
        let mut heads = [vec![20.0, 0.0], vec![20.0, 1.0]];
        push_apart(&mut heads, &[vec![0], vec![1]], 2, 0.1);
        assert!(heads.iter().flatten().all(|v| v.is_finite()));
    }

    #[test]
    fn labels_become_positions() {
        let mut labels = [7, 3, 5];
        Owned(vec![3, 7]).relabel(&mut labels, 0);
        assert_eq!(labels, [1, 0, 0]);
    }
}
