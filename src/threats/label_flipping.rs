//! Label flipping: malicious clients train on wrong labels.

use super::band::{self, Band, Schedule};
use crate::base::text::count;
use crate::base::{Fault, Outcome};
use crate::data::Facts;
use crate::fl::streams::Moment;
use crate::fl::{Batch, Intervention, Needs, Place, Trial, World};
use crate::spec::catalog::{Field, Type, Variant};
use crate::spec::rules::Breach;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The parameters.
#[derive(Debug, Deserialize)]
pub(super) struct Params {
    #[serde(flatten)]
    schedule: Schedule,
    from: Vec<u32>,
    to: Vec<u32>,
    chained: bool,
}

/// Labels become those of `map`.
#[derive(Debug)]
struct LabelFlipping {
    band: Band,
    map: Vec<u32>,
}

pub(super) const NAME: &str = "label-flipping";

pub(super) fn variant() -> Variant {
    let label = || Type::List(Box::new(Type::at_least(0)));
    let mut fields = vec![
        Field::with("from", label(), Vec::<u32>::new(), "The labels that are changed; all of them when empty: c becomes C - 1 - c."),
        Field::with("to", label(), Vec::<u32>::new(), "What each label of `from` becomes, in the same order."),
        Field::with(
            "chained",
            Type::Bool,
            false,
            "Whether pairs are applied one after the other, so that 1 -> 2 and 2 -> 3 make 1 -> 3, as FedML does.",
        ),
    ];
    fields.extend(band::fields());
    Variant {
        name: NAME,
        doc: "Malicious clients train on wrong labels. It succeeds where test samples of a changed label are taken for what it became.",
        revision: 1,
        fields,
    }
}

pub(super) fn build(params: Params, world: &World) -> Outcome<Box<dyn Intervention>> {
    let map = map(&params.from, &params.to, params.chained, world.data.classes())?;
    Ok(Box::new(LabelFlipping { band: params.schedule.band(world.clients())?, map }))
}

impl LabelFlipping {
    /// The attackers that have no sample whose label is changed.
    fn idle(&self, world: &World) -> usize {
        let flips = |sample: &u32| {
            let label = world.data.labels()[*sample as usize];
            self.map[label as usize] != label
        };
        self.band.ids.iter().filter(|id| !world.shard(**id).train.iter().any(flips)).count()
    }
}

/// What is wrong with the labels, and with those that the data set has where it is known.
pub(super) fn rules(params: &Map<String, Value>, data: Option<&Facts>) -> Vec<Breach> {
    let list = |name: &str| params.get(name).and_then(|list| Vec::<u32>::deserialize(list).ok());
    let (Some(from), Some(to)) = (list("from"), list("to")) else { return Vec::new() };
    let chained = params.get("chained").and_then(Value::as_bool).unwrap_or_default();
    let mut breaches: Vec<Breach> = pairs(&from, &to, chained).err().into_iter().collect();
    if let Some(data) = data.filter(|_| breaches.is_empty()) {
        breaches.extend(exist(&from, &to, data.classes).err());
    }
    breaches
}

/// Refuses labels that the data set does not have.
fn exist(from: &[u32], to: &[u32], classes: usize) -> Result<(), Breach> {
    let most = classes.saturating_sub(1);
    for (path, list) in [("from", from), ("to", to)] {
        if let Some(label) = list.iter().find(|label| **label as usize > most) {
            let fault = Fault::stage(format!("`{NAME}` changes label {label}, but the data set has the labels 0 to {most}"));
            return Err(Breach::new(path, fault.help(format!("give labels from 0 to {most}"))));
        }
    }
    Ok(())
}

/// Refuses labels that are not in pairs, stay what they are, or shall become two things at once.
fn pairs(from: &[u32], to: &[u32], chained: bool) -> Result<(), Breach> {
    let at = |path: &str, fault: Fault| Err(Breach::new(path, fault));
    if from.len() != to.len() {
        let fault = Fault::stage(format!("`from` of `{NAME}` has {} labels, but `to` has {}", from.len(), to.len()));
        return at("to", fault.help("each label needs the one that it becomes"));
    }
    if let Some((label, _)) = from.iter().zip(to).find(|(from, to)| from == to) {
        let fault = Fault::stage(format!("label {label} of `{NAME}` becomes {label}: nothing would be flipped"));
        return at("to", fault.help("give another label that it becomes"));
    }
    if let Some(label) = from.iter().enumerate().find(|(i, label)| !chained && from[..*i].contains(label)).map(|(_, label)| label) {
        return at(
            "from",
            Fault::stage(format!("label {label} stands twice in `from` of `{NAME}`")).help("a label can become one other label"),
        );
    }
    Ok(())
}

/// What each label becomes.
fn map(from: &[u32], to: &[u32], chained: bool, classes: usize) -> Outcome<Vec<u32>> {
    pairs(from, to, chained).and_then(|()| exist(from, to, classes)).map_err(|breach| breach.fault)?;
    let all = 0..classes as u32;
    Ok(match (from.is_empty(), chained) {
        (true, _) => all.rev().collect(),
        (false, false) => all.map(|label| from.iter().position(|f| *f == label).map_or(label, |i| to[i])).collect(),
        (false, true) => all.map(|label| from.iter().zip(to).fold(label, |label, (f, t)| if label == *f { *t } else { label })).collect(),
    })
}

impl Intervention for LabelFlipping {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Threat
    }
    fn needs(&self) -> Needs {
        Needs::Nothing
    }
    fn attackers(&self) -> &[usize] {
        &self.band.ids
    }
    fn remarks(&self, world: &World) -> Vec<String> {
        let (idle, all) = (self.idle(world), self.band.ids.len());
        let line = || format!("{idle} of {} flip nothing: they have no training sample with such a label", count(all, "attacker"));
        if idle > 0 { vec![line()] } else { Vec::new() }
    }
    fn poison(&self, at: Moment, batch: &mut Batch) {
        if self.band.acts(at.client, at.round) {
            batch.y.iter_mut().for_each(|y| *y = self.map[*y as usize]);
        }
    }
    fn trial(&self) -> Trial<'_> {
        Trial::TestSets
    }
    fn alter(&self, batch: &mut Batch) -> Vec<Option<u32>> {
        batch.y.iter().map(|y| Some(self.map[*y as usize]).filter(|flipped| flipped != y)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_what_was_asked_for() {
        assert_eq!(map(&[], &[], false, 4).expect("a map"), [3, 2, 1, 0]);
        assert_eq!(map(&[1, 2], &[2, 3], false, 4).expect("a map"), [0, 2, 3, 3]);
        assert_eq!(map(&[1, 2], &[2, 3], true, 4).expect("a map"), [0, 3, 3, 3]);
        assert!(map(&[1], &[], false, 4).is_err() && map(&[1], &[4], false, 4).is_err());
        assert!(map(&[1], &[1], false, 4).is_err() && map(&[1, 1], &[2, 3], false, 4).is_err());
    }
}
