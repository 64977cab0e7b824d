//! MOON: features are drawn to the global model's and pushed from the client's previous model's.

use super::shared::flat::dot;
use super::shared::frozen::Frozen;
use crate::base::Outcome;
use crate::engine::Model;
use crate::engine::tape::{Loss, Traced, cross_entropy, known};
use crate::fl::per_sample::OUTPUTS;
use crate::fl::{Algorithm, Batch, Client, Description, Item, Objective, Server, State, Trainer, Update, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Li, He, Song, CVPR 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moon {
    mu: f32,
    tau: f32,
}

/// The client's model after its last local training; `setup` fills it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Previous(Option<Model>);

impl State for Previous {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("previous", visitor);
    }
}

/// The features that two frozen models have of one batch, row by row.
struct Views {
    global: Vec<f32>,
    previous: Vec<f32>,
}

/// The mean over rows of ln(1 + exp((cos(f, previous) - cos(f, global)) / tau)) and its gradient; norms below 1e-8 count as 1e-8.
fn contrast(features: Traced, width: usize, views: &Views, tau: f32) -> Loss {
    const LEAST: f32 = 1e-8;
    let own = features.as_vec();
    let rows = (own.len() / width.max(1)) as f32;
    let norm = |v: &[f32]| (dot(v, v) as f32).sqrt().max(LEAST);
    let (mut gradient, mut value) = (vec![0.0; own.len()], 0.0);
    for (i, d) in gradient.chunks_exact_mut(width).enumerate() {
        let range = i * width..(i + 1) * width;
        let (f, a, b) = (&own[range.clone()], &views.global[range.clone()], &views.previous[range]);
        let (norm_f, norm_a, norm_b) = (norm(f), norm(a), norm(b));
        let cosine = |other: &[f32], norm_other: f32| (dot(f, other) / (f64::from(norm_f) * f64::from(norm_other))) as f32;
        let (cos_a, cos_b) = (cosine(a, norm_a), cosine(b, norm_b));
        let margin = (cos_b - cos_a) / tau;
        value += margin.max(0.0) + (-margin.abs()).exp().ln_1p();
        let slope = 1.0 / (1.0 + (-margin).exp()) / (tau * rows);
        // The slope of a cosine is (other / |other| - cosine f / |f|) / |f|.
        let share = slope / norm_f;
        let (of_a, of_b, of_f) = (share / norm_a, share / norm_b, share * (cos_b - cos_a) / norm_f);
        for (((d, f), a), b) in d.iter_mut().zip(f).zip(a).zip(b) {
            *d = of_b * b - of_a * a - of_f * f;
        }
    }
    known(features, value / rows, gradient)
}

impl Moon {
    fn objective<'a>(&self, width: usize, views: &'a Views) -> Objective<'a> {
        let (mu, tau) = (self.mu, self.tau);
        Objective::custom(move |graph, labels| {
            Ok(cross_entropy(graph.logits(), labels) + contrast(graph.features(), width, views, tau) * mu)
        })
    }
    /// Both frozen models see the batch in training mode, as in the reference.
    fn models(server: &Server<()>, state: &Previous) -> [Model; 2] {
        let previous = state.0.as_ref().unwrap_or(&server.global);
        [&server.global, previous].map(|model| Model { training: true, ..model.clone() })
    }
    fn frozen(trainer: &mut Trainer<'_>, server: &Server<()>, state: &Previous) -> Outcome<[Frozen; 2]> {
        let [global, previous] = Self::models(server, state);
        Ok([Frozen::new(trainer, global)?, Frozen::new(trainer, previous)?])
    }
    fn views(trainer: &mut Trainer<'_>, [global, previous]: &mut [Frozen; 2], batch: &Batch) -> Outcome<Views> {
        Ok(Views { global: global.features(trainer, batch)?, previous: previous.features(trainer, batch)? })
    }
}

impl Algorithm for Moon {
    type Server = ();
    type Client = Previous;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "moon",
            title: "MOON",
            family: "traditional",
            paper: "Li, He, Song, Model-Contrastive Federated Learning, CVPR 2021",
            year: 2021,
            personal: "nothing; each client remembers its last local model",
            down: "w",
            up: "w",
            rule: "client: min CE - mu ln(e^(cos(z, z_glob)/tau) / (e^(cos(z, z_glob)/tau) + e^(cos(z, z_prev)/tau))) with the features z of \
                   the local, the received and the previous local model; the server averages as FedAvg",
            differences: "no projection head between features and contrast, as in PFLlib; the two frozen models normalise by the batch's \
                          statistics, as in PFLlib; PFLlib's default mu = 0 switches the method off",
            fields: vec![
                Field::with("mu", Type::non_negative(), 1.0, "Weight of the contrast.").from("mu", "MOON's main.py"),
                Field::with("tau", Type::positive(), 0.5, "Temperature of the contrast.").from("tau", "MOON's main.py and README"),
            ],
            revision: 2,
        }
    }
    fn beside_gradients(&self) -> Option<&'static str> {
        Some(OUTPUTS)
    }

    fn rests(&self) -> bool {
        true
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Previous>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.0 = Some(world.initial.clone()));
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, server: &Server<()>, client: &mut Client<Previous>) -> Outcome<()> {
        let model = &mut client.model;
        model.training = true;
        let mut frozen = if self.mu == 0.0 { None } else { Some(Self::frozen(trainer, server, &client.state)?) };
        let mut optimiser = trainer.optimiser();
        for _ in 0..trainer.epochs() {
            trainer.pass(trainer.training(), |trainer, batch| {
                let update = Update::new(&mut optimiser);
                let Some(frozen) = &mut frozen else {
                    return trainer.step(model, batch, &Objective::CrossEntropy, update).map(drop);
                };
                let views = Self::views(trainer, frozen, batch)?;
                trainer.step(model, batch, &self.objective(model.net.features(), &views), update).map(drop)
            })?;
        }
        client.state.0 = Some(model.clone());
        Ok(())
    }

    fn train_loss(
        &self,
        _: usize,
        trainer: &mut Trainer<'_>,
        server: &Server<()>,
        client: &Client<Previous>,
        batch: &mut Batch,
    ) -> Outcome<Option<f64>> {
        let [mut global, mut previous] = Self::models(server, &client.state);
        let views = Views { global: trainer.embed(&mut global, batch)?, previous: trainer.embed(&mut previous, batch)? };
        let mut model = Model { training: false, ..client.model.clone() };
        let objective = self.objective(model.net.features(), &views);
        Ok(Some(f64::from(trainer.loss(&mut [&mut model], batch, &objective)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tape::Leaf;
    use dfdx::prelude::Backward;

    #[test]
    fn equal_views_give_ln_2_and_no_gradient_and_others_follow_differences() {
        let features = vec![0.5, -1.0, 2.0, 1.0, 0.3, -0.2];
        let same = Views { global: vec![1.0; 6], previous: vec![1.0; 6] };
        let leaf = Leaf::new(features.clone(), 2, 3);
        let loss = contrast(leaf.traced(), 3, &same, 0.5);
        assert!((loss.as_vec()[0] - 2f32.ln()).abs() < 1e-6);
        loss.backward();
        assert!(leaf.gradient().iter().all(|d| d.abs() < 1e-6));

        let views = Views { global: vec![1.0, 0.0, 0.5, -1.0, 2.0, 0.1], previous: vec![0.2, 0.9, -1.0, 0.4, 0.1, 0.8] };
        let value = |features: Vec<f32>| contrast(Leaf::new(features, 2, 3).traced(), 3, &views, 0.5).as_vec()[0];
        let leaf = Leaf::new(features.clone(), 2, 3);
        contrast(leaf.traced(), 3, &views, 0.5).backward();
        for (i, own) in leaf.gradient().iter().enumerate() {
            let at = |step: f32| {
                let mut moved = features.clone();
                moved[i] += step;
                value(moved)
            };
            assert!((own - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 1e-3);
        }
    }
}
