//! FedDBE: a personal offset of the features takes up the domain's bias; a regulariser ties the features' mean to a common one.

use super::shared::probe::probe;
use crate::base::Outcome;
use crate::engine::tape::{Leaf, cross_entropy, known};
use crate::engine::{Model, Parts};
use crate::fl::{Algorithm, Arena, Batch, Client, Description, Objective, Sends, Server, State, Trainer, Update, Visitor, Who, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use std::cell::RefCell;

/// Zhang et al., NeurIPS 2023.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedDbe {
    momentum: f32,
    kappa: f32,
    offset: bool,
}

/// The common mean of the features, fixed before the first round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common(Vec<f32>);

impl State for Common {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.vector("mean", &mut self.0);
    }
}

/// A client's offset, and the running mean of its features in its last training.
#[derive(Clone, Debug, Default)]
pub(crate) struct Personal {
    offset: Vec<f32>,
    running: Vec<f32>,
}

impl State for Personal {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.vector("offset", &mut self.offset);
        visitor.vector("running", &mut self.running);
    }
}

impl FedDbe {
    /// Moves the running mean toward that of a batch.
    fn follow(&self, running: &mut [f32], features: &[f32]) {
        let rows = (features.len() / running.len().max(1)) as f32;
        let mut mean = vec![0.0; running.len()];
        for row in features.chunks_exact(running.len().max(1)) {
            mean.iter_mut().zip(row).for_each(|(mean, f)| *mean += f);
        }
        for (running, mean) in running.iter_mut().zip(mean) {
            *running = (1.0 - self.momentum) * *running + self.momentum * (mean / rows);
        }
    }

    /// `kappa` times the mean over features of half the squared distance of the running mean from the common one, and the
    /// gradient by each of `rows` rows of features.
    fn tie(&self, running: &[f32], common: &[f32], rows: usize) -> (f32, Vec<f32>) {
        let scale = self.kappa / running.len() as f32;
        let value = running.iter().zip(common).map(|(m, c)| 0.5 * scale * (m - c) * (m - c)).sum();
        let row: Vec<f32> = running.iter().zip(common).map(|(m, c)| scale * (m - c) * self.momentum / rows as f32).collect();
        (value, row.repeat(rows))
    }

    /// One local training. Without a common mean there is neither offset nor regulariser. Returns whether there was a batch.
    fn train(&self, trainer: &mut Trainer<'_>, model: &mut Model, own: &mut Personal, common: Option<&[f32]>) -> Outcome<bool> {
        model.training = true;
        own.running.fill(0.0);
        let (mut optimiser, mut offset_optimiser) = (trainer.optimiser(), trainer.optimiser());
        let (width, mut any) = (own.offset.len(), false);
        if common.is_some() && !self.offset && self.kappa == 0.0 {
            return trainer.descend(model, &Objective::CrossEntropy, &[]).map(|()| true);
        }
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                any = true;
                let offset = Leaf::new(own.offset.repeat(batch.rows()), batch.rows(), width);
                let running = RefCell::new(&mut own.running);
                let objective = Objective::custom(|graph, labels| {
                    let mut running = running.borrow_mut();
                    self.follow(&mut running, &graph.detached_features().as_vec());
                    let Some(common) = common else { return Ok(cross_entropy(graph.logits(), labels)) };
                    let (value, gradient) = self.tie(&running, common, graph.rows());
                    let moved = if self.offset { graph.features() + offset.traced() } else { graph.features() };
                    let scores = graph.head(moved);
                    Ok(cross_entropy(scores, labels) + known(graph.features(), value, gradient))
                });
                trainer.gradients(&mut [&mut *model], batch, &objective, Parts::All)?;
                trainer.apply(0, model, Update::new(&mut optimiser));
                if common.is_some() && self.offset {
                    let mut gradient = vec![0.0; width];
                    for row in offset.gradient().chunks_exact(width.max(1)) {
                        gradient.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
                    }
                    let rate = trainer.world.settings.learning_rate as f32;
                    offset_optimiser.step(&mut own.offset, &gradient, rate, 0..width, &[]);
                }
                Ok(())
            })?;
        }
        Ok(any)
    }
}

impl Algorithm for FedDbe {
    type Server = Common;
    type Client = Personal;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "feddbe",
            title: "FedDBE",
            family: "model splitting",
            paper: "Zhang et al., Eliminating Domain Bias for Federated Learning in Representation Space, NeurIPS 2023",
            year: 2023,
            personal: "an offset z_c of the features",
            down: "w",
            up: "w",
            rule: "each step at client c minimises CE(head(base(x) + z_c)) + kappa mean((m_c - m)^2)/2, where m_c is a running mean of the \
                   features and m its mean over all clients after one training before the first round; then FedAvg",
            differences: "PFLlib's default kappa = 0 switches the regulariser off. A client without a whole batch, where PFLlib crashes, has no part in m. The default kappa suits PFLlib's CNN at its low learning rate; at higher rates or on fewer \
                          features it ties the clients together and leaves little to gain on FedAvg: try 1. The feature mean that each client sends before round 0, and the one that it gets back, are not among the floats",
            fields: vec![
                Field::with("momentum", Type::fraction(), 1.0, "Share of the newest batch in the running mean; 1: that batch alone.")
                    .from("mu", "the authors' script for Fashion-MNIST and the CNN; try 0.1 for other models"),
                Field::with("kappa", Type::non_negative(), 50.0, "Weight of the regulariser; 0 switches it off.")
                    .from("kappa", "the authors' script for Fashion-MNIST and the CNN; try 1, 10 and 50 for other models"),
                Field::with("offset", Type::Bool, true, "Whether features have a personal offset; without it, the paper's ablation.")
                    .from("PRBM", "the paper"),
            ],
            revision: 2,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the mean features of each client, taken before the first round")
    }

    fn setup(&self, world: &World, _: &mut Server<Common>, clients: &mut [Client<Personal>]) -> Outcome<()> {
        let zero = vec![0.0; world.network().features()];
        clients.iter_mut().for_each(|client| client.state = Personal { offset: zero.clone(), running: zero.clone() });
        Ok(())
    }

    /// Every client trains once; only the means of the features are used.
    fn prepare(&self, arena: &mut Arena<'_, Self>) -> Outcome<()> {
        probe(arena)?;
        let ids = arena.ids(Who::All);
        let trained = arena.each(&ids, |trainer, _, client| self.train(trainer, &mut client.model, &mut client.state, None))?;
        // It counts for the decay of the learning rate, as in PFLlib.
        if arena.world.settings.learning_rate_decay.is_some() {
            arena.clients.iter_mut().for_each(|client| client.participations += 1);
        }
        let world = arena.world;
        let known = || arena.clients.iter().zip(&trained).filter(|(_, trained)| **trained).map(|(client, _)| client);
        let total: usize = known().map(|client| world.shard(client.id).train.len()).sum();
        let mut mean = vec![0.0; world.network().features()];
        for client in known() {
            let share = (world.shard(client.id).train.len() as f64 / total as f64) as f32;
            mean.iter_mut().zip(&client.state.running).for_each(|(mean, m)| *mean += share * m);
        }
        arena.server.state.0 = mean;
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<Common>, client: &mut Client<Personal>) -> Outcome<()> {
        self.train(trainer, &mut client.model, &mut client.state, Some(&server.state.0)).map(drop)
    }

    fn scores(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        _: &Server<Common>,
        client: &Client<Personal>,
        batch: &mut Batch,
    ) -> Outcome<Vec<f32>> {
        let mut model = Model { training: false, ..client.model.clone() };
        let (mut features, _) = trainer.forward(&mut model, batch)?;
        for row in features.chunks_exact_mut(client.state.offset.len().max(1)) {
            row.iter_mut().zip(&client.state.offset).for_each(|(f, offset)| *f += offset);
        }
        Ok(trainer.head(&model, &features, batch.rows()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_mean_and_its_tie_follow_the_formulas() {
        let dbe = FedDbe { momentum: 0.5, kappa: 4.0, offset: true };
        let mut running = [2.0, 0.0];
        dbe.follow(&mut running, &[1.0, 2.0, 3.0, 6.0]);
        assert_eq!(running, [2.0, 2.0]);
        // 4 * mean of (1/2) 1^2 and (1/2) 2^2; the gradient of feature d is 4/2 * difference * momentum / rows.
        assert_eq!(dbe.tie(&running, &[1.0, 0.0], 2), (5.0, vec![0.5, 1.0, 0.5, 1.0]));
    }
}
