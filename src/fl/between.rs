//! Lets interventions act between the arrival of uploads and the next round: gathers what is averaged, and puts it back.

use super::algorithm::{Aggregation, Algorithm};
use super::intervention::{Exchange, Memory, Place, Sent};
use super::parties::Uploaded;
use super::state::State;
use super::world::World;
use crate::base::{Fault, Outcome};
use crate::engine::{Model, Params};
use std::ops::Range;

/// The averaged layers of an algorithm, and where they stand in a vector of only these.
pub(super) struct Averaged {
    /// Whether these are all parameters.
    whole: bool,
    equal: bool,
    ranges: Vec<Range<usize>>,
    entries: Vec<(String, Range<usize>)>,
}

impl Averaged {
    pub(super) fn of<A: Algorithm>(algorithm: &A, world: &World) -> Self {
        let layout = world.layout();
        let (mut ranges, mut entries, mut at) = (Vec::new(), Vec::new(), 0);
        for entry in layout.entries.iter().filter(|entry| algorithm.averaged(entry)) {
            let end = at + entry.range.len();
            entries.push((entry.name.clone(), at..end));
            ranges.push(entry.range.clone());
            at = end;
        }
        Self { whole: at == layout.len, equal: algorithm.equal_weights(), ranges, entries }
    }
    fn gather(&self, model: &Model) -> Params<f32> {
        if self.whole {
            return model.params.clone();
        }
        self.ranges.iter().flat_map(|range| model.params[range.clone()].iter().copied()).collect::<Vec<_>>().into()
    }
    fn scatter(&self, params: Params<f32>, model: &mut Model) {
        if self.whole {
            model.params = params;
            return;
        }
        for (range, (_, place)) in self.ranges.iter().zip(&self.entries) {
            model.params[range.clone()].copy_from_slice(&params[place.clone()]);
        }
    }
    fn exchange<'a>(&'a self, round: &Aggregation<'_>, reference: &'a [f32]) -> Exchange<'a> {
        let Aggregation { round, rounds, clients, nominal, .. } = *round;
        Exchange { round, rounds, clients, nominal, equal: self.equal, reference, entries: &self.entries }
    }
}

/// Lets every intervention up to a place act on the uploads. Those that it refuses are gone; the weights of the others are made anew.
pub(super) fn sent<U: State>(
    averaged: &Averaged,
    world: &World,
    memories: &mut [Memory],
    round: &Aggregation<'_>,
    global: &Model,
    uploads: &mut Vec<Uploaded<U>>,
    until: Place,
) -> Outcome<()> {
    let reference = averaged.gather(global);
    let exchange = averaged.exchange(round, &reference);
    let mut sent: Vec<Sent> = uploads
        .iter()
        .map(|u| Sent { client: u.client, samples: u.samples, weight: u.weight, params: averaged.gather(&u.model) })
        .collect();
    for (intervention, memory) in world.interventions.iter().zip(memories).filter(|(i, _)| i.place() <= until) {
        if sent.is_empty() {
            break;
        }
        let before = sent.len();
        if let Some(aggregate) = intervention.sent(&exchange, &mut sent, memory)? {
            if aggregate.len() != reference.len() {
                return Err(Fault::internal(format!("`{}` made an aggregate of another size", intervention.name())));
            }
            // Whoever looks on sees what clients sent, not what the server made of it.
            if until > Place::Privacy {
                let aggregate = Params::from(aggregate);
                sent.iter_mut().for_each(|sent| sent.params = aggregate.clone());
            }
        }
        if sent.len() != before {
            let total: usize = sent.iter().map(|sent| sent.samples).sum();
            sent.iter_mut().for_each(|sent| sent.weight = sent.samples as f64 / total.max(1) as f64);
        }
    }
    let mut kept = sent.into_iter().peekable();
    uploads.retain_mut(|upload| {
        let Some(sent) = kept.next_if(|sent| sent.client == upload.client) else { return false };
        upload.weight = sent.weight;
        averaged.scatter(sent.params, &mut upload.model);
        true
    });
    Ok(())
}

/// Lets every intervention act on the aggregate; `before` is the server's model before it.
pub(super) fn aggregated(
    averaged: &Averaged,
    world: &World,
    memories: &mut [Memory],
    round: &Aggregation<'_>,
    before: &Model,
    global: &mut Model,
) -> Outcome<()> {
    let reference = averaged.gather(before);
    let exchange = averaged.exchange(round, &reference);
    let mut params = averaged.gather(global);
    for (intervention, memory) in world.interventions.iter().zip(memories) {
        intervention.aggregated(&exchange, &mut params, memory)?;
    }
    averaged.scatter(params, global);
    Ok(())
}
