//! FedCAC: the parameters that matter most to a client are averaged only with those of clients to whom the same ones matter.

use super::shared::variant::Variant;
use crate::base::Outcome;
use crate::engine::update::add_scaled;
use crate::engine::{Layout, Model};
use crate::fl::algorithm::Who;
use crate::fl::{Algorithm, Arena, Client, Description, Item, Objective, Sends, Server, State, Trainer, Uploaded, Visitor, World};
use crate::spec::catalog::{Bound, Field, Type};
use serde::Deserialize;

/// Wu et al., ICCV 2023, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedCac {
    variant: Variant,
    tau: f64,
    beta: f32,
    first_round: Option<First>,
    partners: Option<Partners>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum First {
    Initial,
    Customized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Partners {
    Cohort,
    Uploaded,
}

/// The positions that are critical to a client, a bit each, the first one lowest.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mask(Vec<u64>);

impl Mask {
    /// In each tensor the share tau of the positions with the greatest |change * value|.
    fn of(layout: &Layout, before: &[f32], after: &[f32], tau: f64) -> Self {
        let mut mask = Self(vec![0; layout.len.div_ceil(64)]);
        let mut sorted = Vec::new();
        for entry in &layout.entries {
            let (before, after) = (&before[entry.range.clone()], &after[entry.range.clone()]);
            let sensitivity = || before.iter().zip(after).map(|(before, after)| ((after - before) * after).abs());
            let count = (tau * entry.range.len() as f64) as usize;
            let mut threshold = f32::INFINITY;
            if count > 0 {
                sorted.clear();
                sorted.extend(sensitivity());
                threshold = *sorted.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1;
            }
            if threshold <= 1e-10 {
                // Where too little has changed, all that has changed at all.
                threshold = sensitivity().filter(|s| *s > 1e-20).min_by(f32::total_cmp).unwrap_or(threshold);
            }
            for (place, _) in sensitivity().enumerate().filter(|(_, s)| *s >= threshold) {
                let place = entry.range.start + place;
                mask.0[place / 64] |= 1 << (place % 64);
            }
        }
        mask
    }
    /// 1 - |difference| / (2 |own|): 1 for equal masks. An empty mask overlaps with nothing.
    fn overlap(&self, other: &Self) -> f32 {
        let count = |words: &mut dyn Iterator<Item = u64>| words.map(u64::count_ones).sum::<u32>();
        let own = count(&mut self.0.iter().copied());
        if own == 0 {
            return 0.0;
        }
        1.0 - count(&mut self.0.iter().zip(&other.0).map(|(a, b)| a ^ b)) as f32 / (2 * own) as f32
    }
    /// The critical positions of `personal`, the others of `shared`.
    fn mix(&self, into: &mut [f32], personal: &[f32], shared: &[f32]) {
        for (i, ((into, personal), shared)) in into.iter_mut().zip(personal).zip(shared).enumerate() {
            *into = if self.0[i / 64] >> (i % 64) & 1 == 1 { *personal } else { *shared };
        }
    }
}

/// The customized model z_c, and the mask once the client has trained.
#[derive(Clone, Debug, Default)]
pub(crate) struct Custom {
    customized: Option<Model>,
    mask: Option<Mask>,
}

impl Item for Mask {
    // States hold floats, which are exact up to 16 bits and more.
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        let quarters = |word: u64| (0..4).map(move |i| (word >> (16 * i) & 0xffff) as f32);
        let mut floats: Vec<f32> = self.0.iter().copied().flat_map(quarters).collect();
        visitor.vector(name, &mut floats);
        self.0 = floats.chunks(4).map(|four| four.iter().rev().fold(0, |word, quarter| word << 16 | *quarter as u64)).collect();
    }
    fn blank(_: &dyn Visitor) -> Self {
        Self::default()
    }
}

impl State for Custom {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.customized.visit("customized", visitor);
        self.mask.visit("mask", visitor);
    }
}

/// The mean of some models: parameters, running statistics, and counters rounded down.
fn mean<'a>(first: &Model, others: impl ExactSizeIterator<Item = &'a Model>) -> Model {
    let mut mean = first.clone();
    let count = 1 + others.len();
    if count == 1 {
        return mean;
    }
    for other in others {
        add_scaled(&mut mean.params, 1.0, &other.params);
        add_scaled(&mut mean.buffers.values, 1.0, &other.buffers.values);
        mean.buffers.counters.iter_mut().zip(&other.buffers.counters).for_each(|(sum, n)| *sum += n);
    }
    for value in mean.params.iter_mut().chain(mean.buffers.values.iter_mut()) {
        *value /= count as f32;
    }
    mean.buffers.counters.iter_mut().for_each(|sum| *sum /= count as u64);
    mean
}

impl FedCac {
    /// With whom each of a group averages: those whose overlap reaches a threshold that rises from the mean to the greatest.
    fn groups(&self, masks: &[&Mask], round: u64) -> Vec<Vec<usize>> {
        let n = masks.len();
        let others = |i: usize| (0..n).filter(move |j| *j != i);
        let overlaps: Vec<Vec<(usize, f32)>> = (0..n).map(|i| others(i).map(|j| (j, masks[i].overlap(masks[j]))).collect()).collect();
        let all = || overlaps.iter().flatten().map(|(_, overlap)| *overlap);
        let (average, greatest) = (all().sum::<f32>() / (n * n.saturating_sub(1)).max(1) as f32, all().fold(f32::MIN, f32::max));
        let threshold = average + (round + 1) as f32 / self.beta * (greatest - average);
        overlaps.iter().map(|row| row.iter().filter(|(_, overlap)| *overlap >= threshold).map(|(j, _)| *j).collect()).collect()
    }
    /// New customized models for a group of clients.
    fn customize(&self, arena: &mut Arena<'_, Self>, ids: &[usize]) -> Outcome<()> {
        let members: Vec<(Model, Mask)> = ids
            .iter()
            .map(|id| &arena.clients[*id])
            .map(|client| (client.model.clone(), client.state.mask.clone().unwrap_or_default()))
            .collect();
        let groups = self.groups(&members.iter().map(|(_, mask)| mask).collect::<Vec<_>>(), arena.round);
        arena.each(ids, |_, _, client| {
            if let Ok(place) = ids.binary_search(&client.id) {
                client.state.customized = Some(mean(&members[place].0, groups[place].iter().map(|j| &members[*j].0)));
            }
            Ok(())
        })?;
        Ok(())
    }
}

impl Algorithm for FedCac {
    type Server = ();
    type Client = Custom;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedcac",
            title: "FedCAC",
            family: "model splitting",
            paper: "Wu et al., Bold but Cautious: Unlocking the Potential of Personalized Federated Learning through Cautiously Aggressive \
                    Collaboration, ICCV 2023",
            year: 2023,
            personal: "the critical parameters",
            down: "2 w",
            up: "w + w/32",
            rule: "M_i marks the share tau of the positions of each tensor with the greatest |change * value|; z_i is the mean of w_i and of \
                   those w_j whose M_j overlaps with M_i by at least avg + t/beta (max - avg); w_i <- M_i z_i + (1 - M_i) w, w as FedAvg",
            differences: "PFLlib's defaults fail (beta 0) or make everything personal (tau 1). In its first round z_i is still the initial model, \
                          so that critical positions start anew (`first_round: initial`). It groups all clients of the round, also those whose \
                          upload was lost (`partners: cohort`). A client alone in its round is its own z_i, where PFLlib divides by zero",
            fields: vec![
                Variant::Pfllib.field(),
                Field::with("tau", Type::fraction(), 0.5, "Share of critical positions in each tensor.")
                    .from("tau", "Fling's configurations"),
                Field::with(
                    "beta",
                    Type::Float { min: Bound::Incl(1.0), max: Bound::None },
                    100.0,
                    "Rounds until critical parameters are no longer averaged with anybody's.",
                )
                .from("beta", "Fling's configurations, with 300 rounds of 5 epochs"),
                Field::optional(
                    "first_round",
                    Type::Choice(&[("initial", "the initial model, as PFLlib"), ("customized", "averaged as later, as the paper")]),
                    "The customized models after the first round.",
                ),
                Field::optional(
                    "partners",
                    Type::Choice(&[("cohort", "the clients of the round, as PFLlib"), ("uploaded", "those whose upload arrived")]),
                    "Who is grouped.",
                ),
            ],
            revision: 1,
        }
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("masks and single models, which go to other clients")
    }

    fn receives(&self) -> Who {
        Who::None
    }
    fn down(&self, world: &World, _: &Server<()>, _: &Client<Custom>) -> u64 {
        2 * world.layout().len as u64
    }
    /// The model, and a bit of each of its numbers.
    fn up(&self, world: &World, (): &mut ()) -> u64 {
        let floats = world.layout().len as u64;
        floats + floats.div_ceil(32)
    }

    fn setup(&self, world: &World, _: &mut Server<()>, clients: &mut [Client<Custom>]) -> Outcome<()> {
        clients.iter_mut().for_each(|client| client.state.customized = Some(world.initial.clone()));
        Ok(())
    }

    fn local_update(&self, trainer: &mut Trainer<'_>, _: &Server<()>, client: &mut Client<Custom>) -> Outcome<()> {
        let before = client.model.params.clone();
        trainer.descend(&mut client.model, &Objective::CrossEntropy, &[])?;
        client.state.mask = Some(Mask::of(client.model.net.layout(), &before, &client.model.params, self.tau));
        Ok(())
    }

    fn distribute(&self, arena: &mut Arena<'_, Self>, uploads: &[Uploaded<()>]) -> Outcome<()> {
        let ids = match self.variant.choose(self.partners, Partners::Cohort, Partners::Uploaded) {
            Partners::Cohort => arena.ids(Who::Cohort),
            Partners::Uploaded => uploads.iter().map(|upload| upload.client).collect(),
        };
        if arena.round > 0 || self.variant.choose(self.first_round, First::Initial, First::Customized) == First::Customized {
            self.customize(arena, &ids)?;
        }
        let all = arena.ids(Who::All);
        arena.each(&all, |_, server, client| {
            match &client.state {
                Custom { customized: Some(personal), mask: Some(mask) } => {
                    mask.mix(&mut client.model.params, &personal.params, &server.global.params);
                }
                _ => client.model.params = server.global.params.clone(),
            }
            Ok(())
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Network, Shape};
    use crate::fl::state::{Load, Save};

    fn layout(len: usize) -> Layout {
        let layers = vec![Layer::Linear { name: "fc".to_owned(), out: len, bias: false }];
        Network::build(Shape::vector(1), layers, 0).expect("a valid network").layout().clone()
    }
    use crate::engine::Layer;

    #[test]
    fn the_greatest_changes_are_critical() {
        let before = [1.0, 1.0, 1.0, 1.0];
        // |change * value| = 2, 0, 0.75, 0.
        let mask = |after: &[f32; 4], tau| Mask::of(&layout(4), &before, after, tau).0[0];
        assert_eq!(mask(&[2.0, 1.0, 1.5, 1.0], 0.5), 0b101);
        assert_eq!(mask(&[2.0, 1.0, 1.5, 1.0], 0.25), 0b1);
        assert_eq!(mask(&[2.0, 1.0, 1.5, 1.0], 0.75), 0b101, "what did not change is not critical");
        assert_eq!(mask(&[2.0, 1.0, 1.5, 1.0], 0.0), 0);
        assert_eq!(mask(&before, 0.5), 0b1111, "if nothing changed the threshold is 0");
    }

    #[test]
    fn overlap_is_relative_to_the_own_mask() {
        let mask = |bits| Mask(vec![bits]);
        assert_eq!(mask(0b1111).overlap(&mask(0b0011)), 0.75);
        assert_eq!(mask(0b0011).overlap(&mask(0b1111)), 0.5);
        assert_eq!(mask(0b0011).overlap(&mask(0b0011)), 1.0);
        assert_eq!(mask(0).overlap(&mask(0b0011)), 0.0);
    }

    #[test]
    fn groups_shrink_from_the_mean_to_oneself() {
        let fedcac = FedCac { variant: Variant::Pfllib, tau: 0.5, beta: 8.0, first_round: None, partners: None };
        let (a, b, c) = (Mask(vec![0b0011]), Mask(vec![0b0111]), Mask(vec![0b1100]));
        let groups = |round| fedcac.groups(&[&a, &b, &c], round);
        assert_eq!(groups(0), [vec![1], vec![0, 2], vec![]]);
        assert_eq!(groups(9), [Vec::<usize>::new(), vec![], vec![]]);
        assert_eq!(fedcac.groups(&[&a], 1), [Vec::<usize>::new()]);
    }

    #[test]
    fn a_mask_survives_a_checkpoint() {
        let layers = vec![Layer::linear("fc", 2)];
        let net = std::sync::Arc::new(Network::build(Shape::vector(1), layers, 0).expect("a valid network"));
        let mut rng = crate::base::random::stream(0, crate::base::random::Purpose::Initialisation, 0, 0, 0);
        let template = Model::init(net, &mut rng);
        let mut custom = Custom { customized: None, mask: Some(Mask(vec![u64::MAX - 12345, 3])) };
        let mut save = Save::new(&template);
        custom.visit(&mut save);
        let (mut again, mut load) = (Custom::default(), Load::new(&template, &save.bytes));
        again.visit(&mut load);
        load.finish().expect("all was read");
        assert_eq!(again.mask, custom.mask);
    }
}
