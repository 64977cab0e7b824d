//! FedKD: a personal teacher and a shared student teach each other; the student travels as a product of thin matrices.

use super::shared::distillation::{divergence, divergence_of};
use super::shared::low_rank::Spectrum;
use super::shared::variant::Variant;
use crate::base::{Fault, Outcome};
use crate::engine::loss::cross_entropy;
use crate::engine::tape::{Graph, Loss, known_of};
use crate::engine::{Dense, Entry, Layer, Layout, Model, Network, Params, Parts, Shape};
use crate::fl::{
    Aggregation, Algorithm, Batch, Client, Description, Exposed, Item, Objective, Sends, Server, State, Trainer, Update, Uploaded, Visitor,
    World,
};
use crate::spec::catalog::{Field, Type};
use crate::spec::rules::Breach;
use dfdx::prelude::*;
use serde::Deserialize;
use std::sync::Arc;

/// Wu et al., Nature Communications 2022.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedKd {
    variant: Variant,
    student_learning_rate: Option<f64>,
    t_start: f64,
    t_end: f64,
    rank: Option<Rank>,
    compresses: Option<Compresses>,
}

/// How many singular values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rank {
    Full,
    Pfllib,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Compresses {
    Weights,
    Updates,
}

/// The student that the server sends, absent before the first round, and the floats that it takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    student: Option<Params<f32>>,
    floats: u64,
}

impl State for Sent {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.student.visit("sent", visitor);
        visitor.count("floats", &mut self.floats);
    }
}

/// The student, and the map from its features to the teacher's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Apprentice {
    student: Option<Model>,
    bridge: Option<Model>,
}

impl State for Apprentice {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        for (name, model) in [("student", &mut self.student), ("bridge", &mut self.bridge)] {
            if let Some(model) = model {
                visitor.model(name, model);
            }
        }
    }
}

/// A compressed student, multiplied out, and the floats that it takes.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    student: Params<f32>,
    floats: u64,
}

impl Default for Compressed {
    fn default() -> Self {
        Self { student: Params::from(Vec::new()), floats: 0 }
    }
}

impl State for Compressed {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.params("student", &mut self.student);
        visitor.count("floats", &mut self.floats);
    }
}

/// The gradients of teacher, student and map are clipped to this norm, each by itself.
const CLIP: f32 = 10.0;

impl FedKd {
    /// The share of the squared singular values to keep: grows linearly over the rounds.
    fn energy(&self, round: u64, rounds: u64) -> f64 {
        self.t_start + round as f64 / rounds.saturating_sub(1).max(1) as f64 * (self.t_end - self.t_start)
    }

    /// How many of `all` singular values hold `energy` of the `total`; `squares` holds the sums of squares of the greatest.
    fn kept(&self, squares: &[f64], total: f64, all: usize, energy: f64) -> usize {
        let mut sum = 0.0;
        let sums = squares.iter().map(|square| {
            sum += square;
            sum
        });
        match self.variant.choose(self.rank, Rank::Pfllib, Rank::Full) {
            Rank::Full => sums.take_while(|sum| *sum < energy * total).count().saturating_add(1).min(all),
            // All of them are never allowed; where that would be needed, nothing is sent.
            Rank::Pfllib => {
                let short = sums.take_while(|sum| *sum <= energy * total).count() + 1;
                if short < all { short } else { 0 }
            }
        }
    }

    /// Replaces each matrix by one of lower rank. A convolution's kernels keep equally many singular values each.
    fn compress(&self, layout: &Layout, params: &mut Params<f32>, energy: f64) -> Outcome<u64> {
        let mut floats = 0;
        for entry in &layout.entries {
            let (rows, columns) = match entry.shape[..] {
                [rows, columns] if rows > 1 => (rows, columns),
                [outputs, _, rows, columns] if outputs > 1 => (rows, columns),
                _ => {
                    floats += entry.range.len() as u64;
                    continue;
                }
            };
            // Turned, or with its rows in another order, a matrix has the same singular values, and the same nearest ones of a rank.
            let lies = layout.matrix(entry);
            let (rows, columns) = lies.unwrap_or((rows, columns));
            let mut exported = if lies.is_some() { Vec::new() } else { layout.export(params, entry) };
            let values = if lies.is_some() { &mut params[entry.range.clone()] } else { &mut exported[..] };
            let matrices = values.chunks_exact(rows * columns);
            // The kernels of a convolution count together, so that all their singular values matter.
            let single = matrices.len() == 1;
            let spectrum = |m: &[f32]| if single { Spectrum::holding(m, rows, columns, energy) } else { Spectrum::of(m, rows, columns) };
            let spectra = matrices.map(spectrum).collect::<Option<Vec<Spectrum>>>().unwrap_or_default();
            let mut squares = vec![0.0; spectra.first().map_or(0, |spectrum| spectrum.squares.len())];
            for spectrum in &spectra {
                squares.iter_mut().zip(&spectrum.squares).for_each(|(sum, square)| *sum += square);
            }
            let total = spectra.iter().map(|spectrum| spectrum.total).sum();
            // Nothing to cut in zeros; a diverged tensor has no singular values.
            if total == 0.0 {
                floats += entry.range.len() as u64;
                continue;
            }
            let rank = self.kept(&squares, total, rows.min(columns), energy);
            for (matrix, spectrum) in values.chunks_exact_mut(rows * columns).zip(&spectra) {
                spectrum.truncate(matrix, rank);
            }
            floats += (spectra.len() * rank * (rows + columns + 1)) as u64;
            if lies.is_none() {
                layout.import(params, entry, &exported)?;
            }
        }
        Ok(floats)
    }

    /// The compressed `student`, or the sum of `before` and the compressed change since.
    fn packed(&self, layout: &Layout, student: &Params<f32>, before: &Params<f32>, energy: f64) -> Outcome<Compressed> {
        let mut student = student.clone();
        let updates = self.variant.choose(self.compresses, Compresses::Weights, Compresses::Updates) == Compresses::Updates;
        if updates {
            student.iter_mut().zip(before.iter()).for_each(|(p, before)| *p -= before);
        }
        let floats = self.compress(layout, &mut student, energy)?;
        if updates {
            student.iter_mut().zip(before.iter()).for_each(|(p, before)| *p += before);
        }
        Ok(Compressed { student, floats })
    }

    /// The rate of the student and its decay.
    fn student_rate(&self, trainer: &Trainer<'_>) -> f32 {
        trainer.decayed(self.student_learning_rate.unwrap_or(trainer.world.settings.learning_rate))
    }
}

/// The sum of both losses: s + (KL to the student + KL to the teacher + twice the distance of the features) / s, where s is the sum
/// of both cross-entropies.
fn mutual(teacher: &Graph, student: &Graph, bridge: &Dense, labels: &[u32]) -> Loss {
    let outputs = [teacher.logits(), student.logits(), teacher.features(), bridge.apply(student.features())];
    let [own, taught, features, mapped] = [0, 1, 2, 3].map(|i| outputs[i].as_vec());
    let classes = outputs[0].shape().1;
    let (mut d_own, mut d_taught) = (Vec::new(), Vec::new());
    let right = cross_entropy(&own, labels, classes, &mut d_own) + cross_entropy(&taught, labels, classes, &mut d_taught);
    let (to_student, [mut by_own, mut by_taught]) = divergence(&own, &taught, classes);
    let (to_teacher, [more_taught, more_own]) = divergence(&taught, &own, classes);
    by_own.iter_mut().zip(more_own).for_each(|(sum, d)| *sum += d);
    by_taught.iter_mut().zip(more_taught).for_each(|(sum, d)| *sum += d);
    let share = 2.0 / features.len() as f32;
    let apart: Vec<f32> = features.iter().zip(&mapped).map(|(f, m)| f - m).collect();
    let close = to_student + to_teacher + share * apart.iter().map(|d| d * d).sum::<f32>();
    // The slope of close / right + right by its parts.
    let (by_close, by_right) = (1.0 / right, 1.0 - close / (right * right));
    let mix = |right: &[f32], close: &[f32]| right.iter().zip(close).map(|(r, c)| by_right * r + by_close * c).collect();
    let along = |sign: f32| apart.iter().map(|d| sign * 2.0 * share * by_close * d).collect();
    known_of(outputs, close / right + right, [mix(&d_own, &by_own), mix(&d_taught, &by_taught), along(1.0), along(-1.0)])
}

impl Algorithm for FedKd {
    type Server = Sent;
    type Client = Apprentice;
    type Upload = Compressed;

    fn describe() -> Description {
        Description {
            name: "fedkd",
            title: "FedKD",
            family: "knowledge distillation",
            paper: "Wu et al., Communication-efficient federated learning via knowledge distillation, Nature Communications 13, 2022",
            year: 2022,
            personal: "the teacher, and the map W_h from the student's features to its own",
            down: "sum of r (m + n + 1) + v",
            up: "sum of r (m + n + 1) + v",
            rule: "each step minimises, for teacher and student together, CE + CE + (KL + KL + 2 mean((f - W_h f')^2)) / (CE + CE); the \
                   student is sent by the singular values that hold a share of energy that grows from t_start to t_end over the rounds, \
                   and averaged uniformly",
            differences: "PFLlib never keeps all singular values: where the share would need the last one it sends zeros, which wipes out \
                          small heads and 3x3 kernels (`rank: pfllib`); so `paper` is the default here. The paper compresses the change \
                          of a round (`compresses: updates`), PFLlib the weights. PFLlib misreads layers with three outputs; here they \
                          are ordinary. A new client takes the student",
            fields: vec![
                Variant::Paper.field(),
                Field::optional("student_learning_rate", Type::positive(), "Learning rate of the student; absent: the clients' own.")
                    .from("", "PFLlib's author (HtFLlib): equal"),
                Field::with("t_start", Type::fraction(), 0.95, "Share of the squared singular values kept in the first round.")
                    .from("T_start", "the authors' code"),
                Field::with("t_end", Type::fraction(), 0.98, "The same in the last round.").from("T_end", "the authors' code"),
                Field::optional(
                    "rank",
                    Type::Choice(&[
                        ("full", "the fewest singular values that hold the share, at most all"),
                        ("pfllib", "the same, but none instead of all, as PFLlib"),
                    ]),
                    "How many singular values are kept.",
                ),
                Field::optional(
                    "compresses",
                    Type::Choice(&[("updates", "the change since the broadcast, as the paper"), ("weights", "the weights, as PFLlib")]),
                    "What is compressed.",
                ),
            ],
            revision: 5,
        }
    }

    fn rules(&self, _: u64) -> Vec<Breach> {
        let (start, end) = (self.t_start, self.t_end);
        let breach = || {
            let what = format!("`t_start` is {start}, above `t_end`, which is {end}: the share that is kept grows over the rounds");
            Breach::new("t_start", Fault::stage(what).help(format!("give a `t_start` of at most {end}, or a larger `t_end`")))
        };
        (start > end).then(breach).into_iter().collect()
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends the compressed change of a student, not its parameters")
    }

    /// The teacher stays; the student travels by itself.
    fn shared(&self, _: &Entry) -> bool {
        false
    }

    fn horizon(&self) -> bool {
        true
    }

    /// The compressed student; before the first one, the student as it starts.
    fn down(&self, world: &World, server: &Server<Sent>, _: &Client<Apprentice>) -> u64 {
        server.state.student.as_ref().map_or(world.layout().len as u64, |_| server.state.floats)
    }
    fn up(&self, _: &World, upload: &mut Compressed) -> u64 {
        upload.floats
    }

    /// The student, out of its factors.
    fn exposes(&self, server: &Server<Sent>, started: &Model, upload: &Uploaded<Compressed>) -> Exposed {
        let before = server.state.student.as_ref().unwrap_or(&server.global.params);
        Exposed::of(started.net.layout(), |_| true, before, &upload.extra.student)
    }

    fn setup(&self, world: &World, _: &mut Server<Sent>, clients: &mut [Client<Apprentice>]) -> Outcome<()> {
        let width = world.network().features();
        let map = Layer::Linear { name: "fc".to_owned(), out: width, bias: false };
        let bridge = world.module("bridge", Arc::new(Network::build(Shape::vector(width), vec![map], 0)?));
        for client in clients {
            client.state = Apprentice { student: Some(world.initial.clone()), bridge: Some(bridge.clone()) };
        }
        Ok(())
    }

    fn receive(&self, _: &mut Trainer<'_>, server: &Server<Sent>, client: &mut Client<Apprentice>) -> Outcome<()> {
        if let (Some(sent), Some(student)) = (&server.state.student, &mut client.state.student) {
            student.params = sent.clone();
        }
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<Sent>, client: &mut Client<Apprentice>) -> Outcome<()> {
        let Apprentice { student: Some(student), bridge: Some(bridge) } = &mut client.state else { return Ok(()) };
        let teacher = &mut client.model;
        (teacher.training, student.training) = (true, true);
        let mut optimisers = [trainer.optimiser(), trainer.optimiser(), trainer.optimiser()];
        let student_rate = self.student_rate(trainer);
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let map = Dense::new(bridge)?;
                let objective = Objective::joint(|graphs, labels| Ok(mutual(&graphs[0], &graphs[1], &map, labels)));
                trainer.gradients(&mut [&mut *teacher, &mut *student], batch, &objective, Parts::All)?;
                drop(objective);
                let [for_teacher, for_student, for_map] = &mut optimisers;
                trainer.apply(0, teacher, Update::new(for_teacher).clip(CLIP));
                trainer.apply(1, student, Update::new(for_student).clip(CLIP).rate(student_rate));
                trainer.apply_dense(map, bridge, Update::new(for_map).clip(CLIP).undecayed());
                Ok(())
            })?;
        }
        Ok(())
    }

    fn upload(&self, trainer: &mut Trainer<'_>, server: &Server<Sent>, client: &mut Client<Apprentice>) -> Outcome<Compressed> {
        let world = trainer.world;
        let Some(student) = &client.state.student else { return Ok(Compressed::default()) };
        let before = server.state.student.as_ref().unwrap_or(&world.initial.params);
        self.packed(world.layout(), &student.params, before, self.energy(trainer.round(), world.settings.rounds))
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Sent>,
        uploads: &[Uploaded<Compressed>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        let world = trainer.world;
        let share = 1.0 / uploads.len() as f32;
        let mean = &mut server.global.params;
        mean.fill(0.0);
        for upload in uploads {
            mean.iter_mut().zip(upload.extra.student.iter()).for_each(|(mean, p)| *mean += share * p);
        }
        let before = server.state.student.as_ref().unwrap_or(&world.initial.params);
        let sent = self.packed(world.layout(), mean, before, self.energy(round.round, round.rounds))?;
        server.state = Sent { student: Some(sent.student), floats: sent.floats };
        Ok(())
    }

    /// The teacher's loss.
    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        _: &Server<Sent>,
        client: &Client<Apprentice>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let Apprentice { student: Some(student), bridge: Some(bridge) } = &client.state else { return Ok(None) };
        let (features, own) = trainer.forward(&mut Model { training: false, ..client.model.clone() }, batch)?;
        let (of_student, taught) = trainer.forward(&mut Model { training: false, ..student.clone() }, batch)?;
        let right = trainer.cross_entropy(&own, &batch.y);
        let both = right + trainer.cross_entropy(&taught, &batch.y);
        let mapped = trainer.head(bridge, &of_student, batch.rows());
        let squares: f64 = features.iter().zip(&mapped).map(|(f, m)| f64::from(f - m).powi(2)).sum();
        let distance = (squares / features.len() as f64) as f32;
        let classes = client.model.net.classes();
        Ok(Some(f64::from(right + (divergence_of(&own, &taught, classes) + distance) / both)))
    }

    fn evaluation_effect(&self, client: &mut Client<Apprentice>) {
        client.model.training = false;
    }

    /// The student is of the teacher's kind.
    fn adopt(&self, _: &mut Trainer<'_>, server: &Server<Sent>, client: &mut Client<Apprentice>) -> Outcome<()> {
        if let Some(student) = &server.state.student {
            client.model.params = student.clone();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kd(variant: Variant) -> FedKd {
        FedKd { variant, student_learning_rate: None, t_start: 0.9, t_end: 1.0, rank: None, compresses: None }
    }

    #[test]
    fn pfllib_sends_nothing_where_the_last_singular_value_is_needed() {
        let squares = [8.0, 1.0, 1.0];
        let kept = |variant, energy| kd(variant).kept(&squares, 10.0, 3, energy);
        assert_eq!([0.5, 0.85, 0.95, 1.0].map(|energy| kept(Variant::Paper, energy)), [1, 2, 3, 3]);
        assert_eq!([0.5, 0.85, 0.95, 1.0].map(|energy| kept(Variant::Pfllib, energy)), [1, 2, 0, 0]);
        // A single singular value is never sent.
        assert_eq!(kd(Variant::Pfllib).kept(&[1.0], 1.0, 1, 0.1), 0);
    }

    #[test]
    fn the_energy_grows_from_the_first_round_to_the_last() {
        let energies: Vec<f64> = (0..3).map(|round| kd(Variant::Paper).energy(round, 3)).collect();
        assert!(energies.iter().zip([0.9, 0.95, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{energies:?}");
        assert!((kd(Variant::Paper).energy(0, 1) - 0.9).abs() < 1e-12);
    }
}
