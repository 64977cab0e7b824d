//! GPFL: a conditional valve lets each client draw global and personal information from the same features.

use super::shared::classes::counts;
use super::shared::flat::dot;
use super::shared::normed::{Norm, Normed, twice};
use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::tape::{Graph, Leaf, Loss, Traced, constant, cross_entropy, known, operation};
use crate::engine::update::Correction;
use crate::engine::{Dense, Entry, Model, Part, Parts};
use crate::fl::algorithm::{copy_layers, weighted_mean};
use crate::fl::streams::Law;
use crate::fl::{
    Aggregation, Algorithm, Arena, Batch, Client, Description, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    Who, World,
};
use crate::spec::catalog::{Field, Type};
use dfdx::prelude::*;
use serde::Deserialize;

/// Zhang et al., ICCV 2023, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gpfl {
    variant: Variant,
    lambda: f32,
    mu: f32,
    angle: f32,
    valve: bool,
    magnitude: Option<Magnitude>,
    modules: Option<Rate>,
}

/// What the decay of the learning rate does to embeddings and valve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rate {
    Constant,
    Decayed,
}

/// The form of the magnitude-level guidance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Magnitude {
    Norm,
    Squared,
}

/// The conditional valve: its two networks map a condition to the gain and the offset of the features.
#[derive(Clone, Debug)]
pub(crate) struct Valve {
    gamma: Normed,
    beta: Normed,
}

/// Class embeddings (row by row) and valve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modules {
    embeddings: Vec<f32>,
    valve: Option<Valve>,
    /// The embeddings before the last aggregation.
    before: Vec<f32>,
}

impl Modules {
    /// How many numbers are sent.
    fn floats(&self) -> usize {
        self.embeddings.len() + self.valve.as_ref().map_or(0, |valve| valve.gamma.len() + valve.beta.len())
    }
}

impl State for Modules {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.embeddings.visit("embeddings", visitor);
        if let Some(valve) = &mut self.valve {
            valve.gamma.visit("gamma", visitor);
            valve.beta.visit("beta", visitor);
        }
        self.before.visit("before", visitor);
    }
}

/// The conditions of the two routes, the share of each class, and the embeddings as trained since they were last received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    generic: Vec<f32>,
    personal: Vec<f32>,
    shares: Vec<f32>,
    trained: Vec<f32>,
    /// The trained valve on its way to the upload: it does not outlast the training phase, so it is no part of what is visited.
    valve: Option<Valve>,
}

impl State for Own {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.generic.visit("generic", visitor);
        self.personal.visit("personal", visitor);
        self.shares.visit("shares", visitor);
        self.trained.visit("trained", visitor);
    }
}

/// What takes part in the loss of one batch beside the models.
struct Step<'a> {
    embeddings: Leaf,
    gamma: (Dense, Norm),
    beta: (Dense, Norm),
    received: &'a [f32],
    own: &'a Own,
}

/// What the valve makes of features f under the condition of this row: relu(f (gain + 1) + offset), with gradients to all three.
fn through(features: Traced, gain: Traced, offset: Traced, row: usize) -> Traced {
    let (rows, width) = *features.shape();
    let at = row * width..(row + 1) * width;
    let (f, gains, offsets) = (features.as_vec(), gain.as_vec(), offset.as_vec());
    let mut out = f.clone();
    for line in out.chunks_exact_mut(width) {
        line.iter_mut().zip(&gains[at.clone()]).zip(&offsets[at.clone()]).for_each(|((v, gain), offset)| {
            *v = *v * (gain + 1.0) + offset;
            *v = if *v <= 0.0 { 0.0 } else { *v };
        });
    }
    let result = constant(out.clone(), rows, width);
    operation([features, gain, offset], result, move |d_out| {
        let (mut d_f, mut d_gain, mut d_offset) = (d_out.to_vec(), vec![0.0; gains.len()], vec![0.0; offsets.len()]);
        let lines = d_f.chunks_exact_mut(width).zip(f.chunks_exact(width)).zip(out.chunks_exact(width));
        for ((d_line, f), out) in lines {
            let sums = d_gain[at.clone()].iter_mut().zip(&mut d_offset[at.clone()]).zip(&gains[at.clone()]);
            for (((d, f), out), ((d_gain, d_offset), gain)) in d_line.iter_mut().zip(f).zip(out).zip(sums) {
                *d = if *out <= 0.0 { 0.0 } else { *d };
                *d_gain += *d * f;
                *d_offset += *d;
                *d *= gain + 1.0;
            }
        }
        [d_f, d_gain, d_offset]
    })
}

/// The first weight times the cross-entropy of the cosines between features and embeddings, plus the second times the distance of the
/// features from the received embeddings of their labels (Frobenius norm, or its square); gradients to features and embeddings.
fn guidance(
    features: Traced,
    embeddings: &Leaf,
    received: &[f32],
    labels: &[u32],
    (angle_weight, lambda): (f32, f32),
    magnitude: Magnitude,
) -> Loss {
    let (rows, width) = *features.shape();
    let unit = |values: &mut [f32]| {
        let norm = |row: &mut [f32]| {
            let norm = (dot(row, row) as f32).sqrt().max(1e-12);
            row.iter_mut().for_each(|v| *v /= norm);
            norm
        };
        values.chunks_exact_mut(width).map(norm).collect::<Vec<f32>>()
    };
    let own = features.as_vec();
    let (mut z, mut e) = (own.clone(), embeddings.constant().as_vec());
    let (z_norms, e_norms) = (unit(&mut z), unit(&mut e));
    let classes = e_norms.len();
    let inner = |a: &[f32], b: &[f32]| dot(a, b) as f32;
    let cosines: Vec<f32> = z.chunks_exact(width).flat_map(|z| e.chunks_exact(width).map(move |e| inner(z, e))).collect();
    let mut d_cosines = Vec::new();
    let angle = angle_weight * crate::engine::loss::cross_entropy(&cosines, labels, classes, &mut d_cosines);
    d_cosines.iter_mut().for_each(|slope| *slope *= angle_weight);
    let (mut d_z, mut d_e) = (vec![0.0; z.len()], vec![0.0; e.len()]);
    for (i, d_row) in d_z.chunks_exact_mut(width).enumerate() {
        for (k, d_class) in d_e.chunks_exact_mut(width).enumerate() {
            let (slope, cosine) = (d_cosines[i * classes + k], cosines[i * classes + k]);
            let (z, e) = (&z[i * width..(i + 1) * width], &e[k * width..(k + 1) * width]);
            let (of_row, of_class) = (slope / z_norms[i], slope / e_norms[k]);
            for (((d_row, d_class), z), e) in d_row.iter_mut().zip(d_class).zip(z).zip(e) {
                *d_row += of_row * (e - cosine * z);
                *d_class += of_class * (z - cosine * e);
            }
        }
    }
    let targets = labels.iter().flat_map(|label| &received[*label as usize * width..(*label as usize + 1) * width]);
    let difference: Vec<f32> = own.iter().zip(targets).map(|(f, e)| f - e).collect();
    let square: f32 = difference.iter().map(|d| d * d).sum();
    let (length, factor) = match magnitude {
        Magnitude::Norm if square > 0.0 => (square.sqrt(), 1.0 / square.sqrt()),
        Magnitude::Norm => (0.0, 0.0),
        Magnitude::Squared => (square / rows as f32, 2.0 / rows as f32),
    };
    d_z.iter_mut().zip(difference).for_each(|(d, apart)| *d += lambda * factor * apart);
    known(features, angle + lambda * length, d_z) + known(embeddings.traced(), 0.0, d_e)
}

impl Gpfl {
    /// The whole loss: the personal route through the head, the generic one by its guidance.
    fn loss(&self, graph: &Graph, labels: &[u32], step: &Step<'_>) -> Outcome<Loss> {
        let magnitude = self.variant.choose(self.magnitude, Magnitude::Norm, Magnitude::Squared);
        let guide = |features| guidance(features, &step.embeddings, step.received, labels, (self.angle, self.lambda), magnitude);
        if !self.valve {
            return Ok(cross_entropy(graph.logits(), labels) + guide(graph.features()));
        }
        let width = step.own.personal.len();
        let conditions = || {
            let both = [&step.own.personal[..], &step.own.generic].concat();
            constant(both, 2, width)
        };
        let respond = |(dense, norm): &(Dense, Norm)| twice(norm.apply(dense.apply_constant(conditions()).relu()));
        let ((gain, gain2), (offset, offset2)) = (respond(&step.gamma), respond(&step.beta));
        let personal = cross_entropy(graph.head(through(graph.features(), gain, offset, 0)), labels);
        Ok(personal + guide(through(graph.features(), gain2, offset2, 1)))
    }

    fn step<'a>(embeddings: &[f32], valve: &Valve, received: &'a [f32], own: &'a Own) -> Outcome<Step<'a>> {
        let width = own.personal.len();
        let embeddings = Leaf::new(embeddings.to_vec(), embeddings.len() / width.max(1), width);
        Ok(Step { embeddings, gamma: valve.gamma.graph()?, beta: valve.beta.graph()?, received, own })
    }

    /// What one of the valve's networks makes of a condition.
    fn respond(trainer: &mut Trainer<'_>, network: &Normed, condition: &[f32]) -> Vec<f32> {
        let mut values = trainer.head(&network.linear, condition, 1);
        values.iter_mut().for_each(|v| *v = v.max(0.0));
        network.normalise(&mut values);
        values
    }
}

/// The sum over classes of their embeddings times these factors.
fn condition(embeddings: &[f32], factors: impl Iterator<Item = f32>, width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for (embedding, factor) in embeddings.chunks_exact(width.max(1)).zip(factors) {
        sum.iter_mut().zip(embedding).for_each(|(sum, e)| *sum += e * factor);
    }
    sum
}

impl Algorithm for Gpfl {
    type Server = Modules;
    type Client = Own;
    type Upload = Modules;

    fn describe() -> Description {
        Description {
            name: "gpfl",
            title: "GPFL",
            family: "model splitting",
            paper: "Zhang et al., GPFL: Simultaneously Learning Global and Personalized Feature Information for Personalized Federated \
                    Learning, ICCV 2023",
            year: 2023,
            personal: "the head",
            down: "b + C f + 2 f f + 6 f",
            up: "b + C f + 2 f f + 6 f",
            rule: "client: min CE(h(V(f, u_p)), y) + CE(cosines of V(f, u_g) and the class embeddings, y) + lambda ||V(f, u_g) - E_y||, where \
                   V(f, u) = relu(f (gamma(u) + 1) + beta(u)), E are the received embeddings, u_g their mean and u_p their mean weighted by \
                   the client's class shares; base, embeddings and valve are averaged as FedAvg",
            differences: "the norm is over the whole batch and not squared, as in PFLlib (`magnitude: norm`); the paper squares it. The \
                          conditions come from the embeddings that a client trained itself, for others from the previous ones, as in \
                          PFLlib. PFLlib's defaults make the guidance 100 times too strong and switch the weight decay off; its decay of the \
                          learning rate leaves embeddings and valve out (`modules: constant`). A new client takes the base and leaves out the valve; \
                          PFLlib has none",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with(
                    "lambda",
                    Type::non_negative(),
                    0.01,
                    "Weight of the magnitude-level guidance. The authors use 0.0001 for ResNet-18 and fastText.",
                )
                .from("lambda", "the authors' script for CNN and MLP"),
                Field::with(
                    "mu",
                    Type::non_negative(),
                    0.1,
                    "Weight decay of embeddings and valve. The authors use 0 for ResNet-18 and fastText, 1 for HAR-CNN.",
                )
                .from("mu", "the authors' script for CNN and MLP"),
                Field::with("angle", Type::non_negative(), 1.0, "Weight of the angle-level guidance, which has none in the paper.")
                    .from("-", "the paper"),
                Field::with(
                    "valve",
                    Type::Bool,
                    true,
                    "Whether the conditional valve acts; without it, both routes see the features as they are.",
                )
                .from("CoV", "the paper"),
                Field::optional(
                    "magnitude",
                    Type::Choice(&[
                        ("norm", "the Frobenius norm over the batch, as PFLlib"),
                        ("squared", "the mean over samples of the squared norm, as the paper"),
                    ]),
                    "The form of the magnitude-level guidance.",
                ),
                Field::optional(
                    "modules",
                    Type::Choice(&[
                        ("constant", "they keep the learning rate of the start, as PFLlib"),
                        ("decayed", "the decay of the learning rate acts on them as on the model"),
                    ]),
                    "The learning rate of embeddings and valve.",
                ),
            ],
            revision: 4,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the embeddings of classes and the valve")
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
    /// The server sends at the end of a round.
    fn receives(&self) -> Who {
        Who::None
    }

    fn down(&self, world: &World, server: &Server<Modules>, _: &Client<Own>) -> u64 {
        (world.layout().base().len() + server.state.floats()) as u64
    }
    fn up(&self, world: &World, upload: &mut Modules) -> u64 {
        (world.layout().base().len() + upload.floats()) as u64
    }

    fn setup(&self, world: &World, server: &mut Server<Modules>, clients: &mut [Client<Own>]) -> Outcome<()> {
        let (width, classes) = (world.network().features(), world.network().classes());
        let network = |name| Normed::start(world, name, width, width);
        let mut embeddings = vec![0.0; classes * width];
        world.streams.initial("embeddings", Law::Normal(1.0), &mut embeddings);
        let valve = Some(Valve { gamma: network("gamma")?, beta: network("beta")? });
        server.state = Modules { before: embeddings.clone(), embeddings, valve };
        for client in clients {
            let mut shares = counts(world, client.id, true);
            if shares.iter().all(|n| *n == 0.0) {
                shares = counts(world, client.id, false);
            }
            let total = shares.iter().sum::<f32>().max(1.0);
            shares.iter_mut().for_each(|n| *n /= total);
            let zero = vec![0.0; width];
            client.state = Own { generic: zero.clone(), personal: zero, shares, ..Own::default() };
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Modules>, client: &mut Client<Own>) -> Outcome<()> {
        let Modules { embeddings, valve: Some(valve), .. } = &server.state else { return Ok(()) };
        let (mut trained, mut valve) = (embeddings.clone(), valve.clone());
        let model = &mut client.model;
        model.training = true;
        let decay = [Correction::Decay(self.mu)];
        let three = |trainer: &Trainer<'_>| [trainer.optimiser(), trainer.optimiser(), trainer.optimiser()];
        let rate = match self.variant.choose(self.modules, Rate::Constant, Rate::Decayed) {
            Rate::Constant => trainer.world.settings.learning_rate as f32,
            Rate::Decayed => trainer.rate(),
        };
        let [mut own, mut other, _] = three(trainer);
        let (mut gammas, mut betas) = (three(trainer), three(trainer));
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let step = Self::step(&trained, &valve, embeddings, &client.state)?;
                let objective = Objective::custom(|graph, labels| self.loss(graph, labels, &step));
                trainer.gradients(&mut [&mut *model], batch, &objective, Parts::All)?;
                drop(objective);
                trainer.apply(0, model, Update::new(&mut own));
                let all = 0..trained.len();
                other.step(&mut trained, &step.embeddings.gradient(), rate, all, &decay);
                valve.gamma.step(trainer, step.gamma, &mut gammas, rate, &decay);
                valve.beta.step(trainer, step.beta, &mut betas, rate, &decay);
                Ok(())
            })?;
        }
        (client.state.trained, client.state.valve) = (trained, Some(valve));
        Ok(())
    }

    fn upload(&self, _: &mut Trainer<'_>, _: &Server<Modules>, client: &mut Client<Own>) -> Outcome<Modules> {
        Ok(Modules { embeddings: client.state.trained.clone(), valve: client.state.valve.take(), before: Vec::new() })
    }

    fn aggregate(
        &self,
        _: &mut Trainer<'_>,
        server: &mut Server<Modules>,
        uploads: &[Uploaded<Modules>],
        _: &Aggregation<'_>,
    ) -> Outcome<()> {
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |layer| self.shared(layer));
        let Modules { embeddings, valve, before } = &mut server.state;
        before.copy_from_slice(embeddings);
        embeddings.fill(0.0);
        for upload in uploads {
            let share = upload.weight as f32;
            embeddings.iter_mut().zip(&upload.extra.embeddings).for_each(|(sum, e)| *sum += e * share);
        }
        if let Some(valve) = valve {
            let sent = uploads.iter().filter_map(|upload| Some((upload.extra.valve.as_ref()?, upload.weight)));
            valve.gamma.become_mean(sent.clone().map(|(sent, weight)| (&sent.gamma, weight)));
            valve.beta.become_mean(sent.map(|(sent, weight)| (&sent.beta, weight)));
        }
        Ok(())
    }

    /// Base, embeddings and valve reach everybody; a client first takes its conditions from the embeddings that it has.
    fn distribute(&self, arena: &mut Arena<'_, Self>, _: &[Uploaded<Modules>]) -> Outcome<()> {
        let ids = arena.ids(Who::All);
        arena.each(&ids, |_, server, client| {
            copy_layers(&mut client.model, &server.global, |layer| self.shared(layer));
            let own = &mut client.state;
            let embeddings = if own.trained.is_empty() { &server.state.before } else { &own.trained };
            let (classes, width) = (own.shares.len(), own.generic.len());
            own.generic = condition(embeddings, std::iter::repeat_n(1.0 / classes as f32, classes), width);
            own.personal = condition(embeddings, own.shares.iter().copied(), width);
            own.trained = Vec::new();
            Ok(())
        })?;
        Ok(())
    }

    /// The head on the personal route.
    fn scores(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Modules>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let mut features = trainer.embed(&mut Model { training: false, ..client.model.clone() }, batch)?;
        if let (Some(valve), true) = (&server.state.valve, self.valve) {
            let gain = Self::respond(trainer, &valve.gamma, &client.state.personal);
            let offset = Self::respond(trainer, &valve.beta, &client.state.personal);
            for row in features.chunks_exact_mut(gain.len()) {
                row.iter_mut().zip(&gain).zip(&offset).for_each(|((f, gain), offset)| *f = (*f * (gain + 1.0) + offset).max(0.0));
            }
        }
        Ok(trainer.head(&client.model, &features, batch.rows()))
    }

    fn softmax_auc(&self, _: usize) -> bool {
        true
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<Modules>,
        client: &Client<Own>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let Modules { embeddings, valve: Some(valve), .. } = &server.state else { return Ok(None) };
        let step = Self::step(embeddings, valve, embeddings, &client.state)?;
        let objective = Objective::custom(|graph, labels| self.loss(graph, labels, &step));
        let mut model = Model { training: false, ..client.model.clone() };
        Ok(Some(f64::from(trainer.loss(&mut [&mut model], batch, &objective)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guidance_has_the_gradients_of_its_value() {
        let (features, embeddings) = (vec![1.0, -0.5, 0.3, 0.0, 2.0, 1.0], vec![0.4, 1.0, -1.0, 0.7, 0.2, 0.9]);
        let received = vec![1.0, 0.0, 1.0, 0.5, 0.5, -0.5];
        for magnitude in [Magnitude::Norm, Magnitude::Squared] {
            let value = |features: &[f32], embeddings: &[f32]| {
                let (f, e) = (Leaf::new(features.to_vec(), 2, 3), Leaf::new(embeddings.to_vec(), 2, 3));
                let loss = guidance(f.traced(), &e, &received, &[1, 0], (0.7, 0.3), magnitude);
                let value = loss.as_vec()[0];
                loss.backward();
                (value, f.gradient(), e.gradient())
            };
            let (_, d_features, d_embeddings) = value(&features, &embeddings);
            let moved = |values: &[f32], i: usize, step: f32| {
                let mut values = values.to_vec();
                values[i] += step;
                values
            };
            for i in 0..6 {
                let at = |step| value(&moved(&features, i, step), &embeddings).0;
                assert!((d_features[i] - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 2e-3);
                let at = |step| value(&features, &moved(&embeddings, i, step)).0;
                assert!((d_embeddings[i] - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 2e-3);
            }
        }
    }

    #[test]
    fn the_valve_has_the_gradients_of_its_value() {
        let (features, gain, offset) = (vec![1.0, -0.5, 0.3, 0.7], vec![9.0, 9.0, 0.5, -0.4], vec![9.0, 9.0, 0.1, -0.1]);
        let value = |of: [&[f32]; 3]| {
            let leaves = of.map(|values| Leaf::new(values.to_vec(), 2, 2));
            let [f, g, o] = &leaves;
            let weights = constant(vec![1.0, -2.0, 0.5, 3.0], 2, 2);
            let loss = (through(f.traced(), g.traced(), o.traced(), 1) * weights).sum();
            let value = loss.as_vec()[0];
            loss.backward();
            (value, leaves.map(|leaf| leaf.gradient()))
        };
        let own = [&features[..], &gain, &offset];
        let (at, slopes) = value(own);
        // relu(1.5 + 0.1) - 2 relu(-0.3 - 0.1) + 0.5 relu(0.45 + 0.1) + 3 relu(0.42 - 0.1)
        assert!((at - (1.6 + 0.275 + 0.96)).abs() < 1e-6);
        for which in 0..3 {
            for i in 0..4 {
                let moved = |step: f32| {
                    let mut moved = own[which].to_vec();
                    moved[i] += step;
                    let mut of = own;
                    of[which] = &moved;
                    value(of).0
                };
                assert!((slopes[which][i] - (moved(1e-2) - moved(-1e-2)) / 2e-2).abs() < 1e-3, "{which} {i}");
            }
        }
    }

    #[test]
    fn conditions_are_means_of_embeddings() {
        assert_eq!(condition(&[1.0, 2.0, 3.0, 6.0], [0.5, 0.5].into_iter(), 2), [2.0, 4.0]);
    }
}
