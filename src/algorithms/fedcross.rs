//! FedCross: several middleware models visit the clients, and the server mixes each with a partner instead of averaging all.

use super::shared::variant::Variant;
use crate::base::{Fault, Outcome};
use crate::engine::{Entry, Layout, Model, StateItem};
use crate::fl::algorithm::weighted_mean;
use crate::fl::{Aggregation, Algorithm, Client, Description, Item, Sends, Server, State, Trainer, Uploaded, Visitor, When, Who, World};
use crate::spec::catalog::{Bound, Field, Type};
use crate::spec::rules::Breach;
use serde::Deserialize;

/// Hu et al., ICDE 2024, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedCross {
    variant: Variant,
    alpha: f64,
    first_stage: u64,
    partner: Partner,
    clock: Option<Clock>,
    similarity: Option<Similarity>,
    evaluates: Option<Evaluates>,
}

/// With whom a model is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Partner {
    InOrder,
    LeastSimilar,
    MostSimilar,
}

/// What counts as the round's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Clock {
    Cohort,
    Round,
}

/// How the similarity of two models is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Similarity {
    Pairs,
    Whole,
}

/// Which model a client is tested with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Evaluates {
    Local,
    Global,
}

/// The middleware models, one for each place in a cohort. Their running statistics never move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Middleware(Vec<Model>);

impl State for Middleware {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("middleware", visitor);
    }
}

fn cosine(a: &[&[f32]], b: &[&[f32]]) -> f64 {
    let (mut product, mut left, mut right) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        for (a, b) in a.iter().zip(*b).map(|(a, b)| (f64::from(*a), f64::from(*b))) {
            product += a * b;
            left += a * a;
            right += b * b;
        }
    }
    product / (left.sqrt() * right.sqrt()).max(1e-8)
}

impl FedCross {
    /// PFLlib walks through parameters, running statistics and counters in pairs of neighbors and adds up the cosines; the last pair
    /// counts twice.
    fn similarity(&self, layout: &Layout, a: &Model, b: &Model) -> f64 {
        if self.variant.choose(self.similarity, Similarity::Pairs, Similarity::Whole) == Similarity::Whole {
            return cosine(&[&a.params[..]], &[&b.params[..]]);
        }
        let counters = |model: &Model| model.buffers.counters.iter().map(|count| *count as f32).collect::<Vec<_>>();
        let (counters_a, counters_b) = (counters(a), counters(b));
        let items = layout.state_order();
        let mut total = 0.0;
        for (i, group) in items.chunks(2).enumerate() {
            let slices = |model, counters| group.iter().map(|item| slice(layout, model, counters, *item)).collect::<Vec<_>>();
            let cosine = cosine(&slices(a, &counters_a), &slices(b, &counters_b));
            let last_pair = (i + 1) * 2 == items.len();
            total += if last_pair { 2.0 * cosine } else { cosine };
        }
        total
    }

    /// The partner of each model.
    fn partners(&self, layout: &Layout, models: &[Model], round: u64) -> Vec<usize> {
        let count = models.len();
        if self.partner == Partner::InOrder {
            let offset = match self.variant.choose(self.clock, Clock::Cohort, Clock::Round) {
                Clock::Cohort => 1,
                Clock::Round => round as usize % (count - 1) + 1,
            };
            return (0..count).map(|j| (j + offset) % count).collect();
        }
        let mut table = vec![0.0; count * count];
        for j in 0..count {
            for k in 0..j {
                table[j * count + k] = self.similarity(layout, &models[j], &models[k]);
                table[k * count + j] = table[j * count + k];
            }
        }
        // Ties go to the next model for the least similar one, to the first for the most similar one.
        let choose = |j: usize| {
            let others = (0..count).filter(|k| *k != j);
            let similarity = |k: usize| table[j * count + k];
            if self.partner == Partner::LeastSimilar {
                let start = (j + 1) % count;
                others.fold(start, |best, k| if similarity(k) < similarity(best) { k } else { best })
            } else {
                others.reduce(|best, k| if similarity(k) > similarity(best) { k } else { best }).unwrap_or(j)
            }
        };
        (0..count).map(choose).collect()
    }

    /// `alpha` of each model and the rest of its partner, summed in the order of places.
    fn mixed(&self, models: &[Model], partners: &[usize]) -> Vec<Model> {
        let total = self.alpha + (1.0 - self.alpha);
        let mix = |(j, partner): (usize, &usize)| {
            let (own, other) = (self.alpha as f32, (1.0 - self.alpha) as f32);
            let (first, second) = if j < *partner { ((j, own), (*partner, other)) } else { ((*partner, other), (j, own)) };
            let mut mixed = models[j].clone();
            let sources = models[first.0].params.iter().zip(models[second.0].params.iter());
            for (mixed, (a, b)) in mixed.params.iter_mut().zip(sources) {
                *mixed = (a * first.1 + b * second.1) / total as f32;
            }
            mixed
        };
        partners.iter().enumerate().map(mix).collect()
    }
}

/// One item of a state dict, flat.
fn slice<'a>(layout: &Layout, model: &'a Model, counters: &'a [f32], item: StateItem) -> &'a [f32] {
    match item {
        StateItem::Parameter(i) => &model.params[layout.entries[i].range.clone()],
        StateItem::Buffer(i) => &model.buffers.values[layout.buffers[i].range.clone()],
        StateItem::Counter(i) => &counters[i..=i],
    }
}

impl Algorithm for FedCross {
    type Server = Middleware;
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedcross",
            title: "FedCross",
            family: "heuristic search",
            paper: "Hu et al., FedCross: Towards Accurate Federated Learning via Multi-Model Cross-Aggregation, ICDE 2024",
            year: 2024,
            personal: "nothing; PFLlib tests a client with the model that it trained last",
            down: "w",
            up: "w",
            rule: "the k-th selected client trains w_k; then w_k <- alpha w_k + (1 - alpha) w_partner for all k, or, in a first stage, all \
                   w_k become their mean",
            differences: "PFLlib tests clients with their own last model instead of the mean of the middleware (`evaluates: local`); its \
                          loop variable hides the round, so that the first stage and the order of partners depend on the cohort's size \
                          (`clock: cohort`); it measures similarity by pairs of tensors, running statistics included (`similarity: \
                          pairs`). A lost upload leaves its model as it was, where PFLlib takes the trained one all the same; with more clients than models the surplus trains copies \
                          that enter the mean only; a slow client trains fewer epochs",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with(
                    "alpha",
                    Type::Float { min: Bound::Incl(0.0), max: Bound::Incl(1.0) },
                    0.99,
                    "Share of a model's own parameters in the mix; use 0.9 for fewer than 100 rounds.",
                )
                .from("alpha", "the paper"),
                Field::with("first_stage", Type::at_least(0), 0, "Rounds of plain averaging before models are mixed.").from("", "PFLlib"),
                Field::with(
                    "partner",
                    Type::Choice(&[
                        ("least-similar", "the model that points another way most"),
                        ("most-similar", "the model that points the same way most"),
                        ("in-order", "each model in turn"),
                    ]),
                    "least-similar",
                    "With whom a model is mixed.",
                )
                .from("CoModelSel", "the paper"),
                Field::optional(
                    "clock",
                    Type::Choice(&[("cohort", "the cohort's size less 1, as PFLlib"), ("round", "the round, as the paper")]),
                    "What first stage and order of partners count.",
                ),
                Field::optional(
                    "similarity",
                    Type::Choice(&[
                        ("pairs", "the sum of the cosines of neighboring tensors, as PFLlib"),
                        ("whole", "the cosine of all parameters, as the paper"),
                    ]),
                    "How the similarity of two models is measured.",
                ),
                Field::optional(
                    "evaluates",
                    Type::Choice(&[("local", "a client's own last model, as PFLlib"), ("global", "the mean model, as the paper")]),
                    "Which model a client is tested with.",
                ),
            ],
            revision: 1,
        }
    }

    fn rules(&self, rounds: u64) -> Vec<Breach> {
        let first = self.first_stage;
        let breach = || {
            let what = format!("`first_stage` is {first}, but the training has {rounds} rounds: models are never mixed, as in FedAvg");
            Breach::warning("first_stage", Fault::stage(what).help(format!("give a `first_stage` below {rounds}")))
        };
        (first >= rounds).then(breach).into_iter().collect()
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("single models, which go to other clients")
    }

    /// Every client trains some middleware model, whatever its own.
    fn kept(&self, _: &Entry) -> bool {
        true
    }

    fn receives(&self) -> Who {
        Who::Cohort
    }

    fn evaluates(&self) -> When {
        When::BeforeReceive
    }

    fn setup(&self, world: &World, server: &mut Server<Middleware>, _: &mut [Client<()>]) -> Outcome<()> {
        server.state.0 = vec![world.initial.clone(); world.settings.nominal_cohort(world.clients())];
        Ok(())
    }

    fn receive(&self, trainer: &mut Trainer<'_>, server: &Server<Middleware>, client: &mut Client<()>) -> Outcome<()> {
        if let Some(position) = trainer.position() {
            client.model.params = server.state.0[position % server.state.0.len()].params.clone();
        }
        Ok(())
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Middleware>,
        uploads: &[Uploaded<()>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        let models = &mut server.state.0;
        for (k, id) in round.cohort.iter().enumerate().take(models.len()) {
            if let Some(upload) = uploads.iter().find(|upload| upload.client == *id) {
                models[k].params = upload.model.params.clone();
            }
        }
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |_| true);
        let clock = match self.variant.choose(self.clock, Clock::Cohort, Clock::Round) {
            Clock::Cohort => round.cohort.len() as u64 - 1,
            Clock::Round => round.round,
        };
        if clock < self.first_stage {
            models.iter_mut().for_each(|model| model.params = server.global.params.clone());
        } else if models.len() > 1 {
            let partners = self.partners(trainer.world.layout(), models, round.round);
            *models = self.mixed(models, &partners);
        }
        Ok(())
    }

    fn evaluated<'a>(&self, _: usize, server: &'a Server<Middleware>, client: &'a Client<()>) -> &'a Model {
        match self.variant.choose(self.evaluates, Evaluates::Local, Evaluates::Global) {
            Evaluates::Local => &client.model,
            Evaluates::Global => &server.global,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};
    use crate::engine::{Layer, Network, Shape};
    use std::sync::Arc;

    fn cross(partner: Partner) -> FedCross {
        FedCross { variant: Variant::Paper, alpha: 0.75, first_stage: 0, partner, clock: None, similarity: None, evaluates: None }
    }

    /// Models of two weights without a bias.
    fn models(weights: &[[f32; 2]]) -> Vec<Model> {
        let layer = Layer::Linear { name: "fc".to_owned(), out: 1, bias: false };
        let net = Arc::new(Network::build(Shape::vector(2), vec![layer], 0).expect("a valid network"));
        let blank = Model::init(net, &mut stream(0, Purpose::Initialisation, 0, 0, 0));
        weights.iter().map(|w| Model { params: w.to_vec().into(), ..blank.clone() }).collect()
    }

    #[test]
    fn partners_are_the_least_or_most_similar_or_the_next_in_turn() {
        let models = models(&[[1.0, 0.0], [1.0, 0.1], [-1.0, 0.2]]);
        let partners = |partner, round| cross(partner).partners(models[0].net.layout(), &models, round);
        assert_eq!(partners(Partner::LeastSimilar, 0), [2, 2, 0]);
        assert_eq!(partners(Partner::MostSimilar, 0), [1, 0, 1]);
        assert_eq!([partners(Partner::InOrder, 0), partners(Partner::InOrder, 1)], [[1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn a_model_is_mixed_with_the_old_partner() {
        let models = models(&[[4.0, 0.0], [0.0, 8.0]]);
        let mixed = cross(Partner::InOrder).mixed(&models, &[1, 0]);
        assert_eq!((&mixed[0].params[..], &mixed[1].params[..]), (&[3.0, 2.0][..], &[1.0, 6.0][..]));
    }

    #[test]
    fn pfllib_counts_the_last_pair_of_tensors_twice() {
        let one = models(&[[1.0, 0.0], [0.0, 1.0]]);
        let pairs = FedCross { variant: Variant::Pfllib, ..cross(Partner::LeastSimilar) };
        // A single tensor is no pair.
        assert!((pairs.similarity(one[0].net.layout(), &one[0], &one[0]) - 1.0).abs() < 1e-12);
        assert!(pairs.similarity(one[0].net.layout(), &one[0], &one[1]).abs() < 1e-12);
    }
}
