//! An edge-case backdoor (Wang et al., Attack of the Tails, NeurIPS 2020): rare samples of one class get another label.
//!
//! The paper takes its rare samples from elsewhere (planes of one airline, digits of old manuscripts). Where these are not at hand,
//! rare samples are made of the data set itself by one of two recipes; half of them, every other one, are trained on, and the other
//! half shows whether the backdoor works.

use super::band::{self, Band, Schedule};
use super::forgery::scale;
use super::pixel_backdoor::{anyone_poisons, boost, fraction, idle, poisoned};
use super::trigger::label_exists;
use crate::base::random::{Purpose, below, shuffle, stream};
use crate::base::{Fault, Outcome};
use crate::data::{Dataset, Facts};
use crate::engine::Shape;
use crate::fl::streams::Moment;
use crate::fl::{Batch, Exchange, Intervention, Memory, Needs, Place, Sent, Trial, World};
use crate::spec::catalog::{Field, Type, Variant};
use crate::spec::rules::Breach;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The parameters.
#[derive(Debug, Deserialize)]
pub(super) struct Params {
    #[serde(flatten)]
    schedule: Schedule,
    source: u32,
    target: u32,
    recipe: Recipe,
    samples: usize,
    fraction: f64,
    #[serde(default)]
    boost: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Recipe {
    Turned,
    Tail,
}

/// Rare samples in a part of every batch.
#[derive(Debug)]
struct EdgeCase {
    band: Band,
    target: u32,
    /// What attackers train on, one after the other.
    poison: Vec<f32>,
    /// What shows whether it works.
    tried: Batch,
    fraction: f64,
    boost: Option<f64>,
}

pub(super) const NAME: &str = "edge-case";

pub(super) fn variant() -> Variant {
    let mut fields = vec![
        Field::with("source", Type::at_least(0), 7, "The class whose rare samples are used.").from("", "the paper, with EMNIST"),
        Field::with("target", Type::at_least(0), 1, "The label that they get.").from("", "the paper, with EMNIST"),
        Field::with(
            "recipe",
            Type::Choice(&[
                ("turned", "samples of the class drawn by seed, each turned upside down"),
                ("tail", "the samples of the class that are farthest from its mean"),
            ]),
            "turned",
            "How rare samples are made of those of the data set.",
        ),
        Field::with("samples", Type::at_least(2), 100, "How many of them; every other one is for training, the rest for trying.")
            .from("", "the paper, with CIFAR-10"),
        fraction(),
        boost(),
    ];
    fields.extend(band::fields());
    Variant {
        name: NAME,
        doc: "Malicious clients train on rare samples of one class with the label of another (Wang et al., NeurIPS 2020). It succeeds \
              where other rare samples get that label.",
        revision: 1,
        fields,
    }
}

/// What is wrong with the labels, and with the data set where it is known.
pub(super) fn rules(params: &Map<String, Value>, data: Option<&Facts>) -> Vec<Breach> {
    let label = |name: &str| params.get(name).and_then(Value::as_u64);
    let (Some(source), Some(target)) = (label("source"), label("target")) else { return Vec::new() };
    let mut checks = vec![("target", two_labels(source, target))];
    if let Some(data) = data {
        checks.extend([("source", source), ("target", target)].map(|(name, label)| (name, label_exists(name, label, data.classes))));
        checks.push(("", no_text(data.text)));
    }
    checks.into_iter().filter_map(|(path, check)| Some(Breach::new(path, check.err()?))).collect()
}

fn no_text(text: bool) -> Outcome<()> {
    if !text {
        return Ok(());
    }
    Err(Fault::stage(format!("`{NAME}` does not apply to a text")).help("use `label-flipping`, which applies to every data set"))
}

fn two_labels(source: u64, target: u64) -> Outcome<()> {
    if source != target {
        return Ok(());
    }
    Err(Fault::stage(format!("`source` and `target` of `{NAME}` are both {source}: samples would keep their label"))
        .help("give another `target`"))
}

pub(super) fn build(params: Params, world: &World) -> Outcome<Box<dyn Intervention>> {
    let data = &world.data;
    let band = params.schedule.band(world.clients())?;
    for (name, label) in [("source", params.source), ("target", params.target)] {
        label_exists(name, u64::from(label), data.classes())?;
    }
    two_labels(u64::from(params.source), u64::from(params.target))?;
    no_text(data.vocabulary().is_some())?;
    anyone_poisons(&band, params.fraction, world)?;
    let rare = rare(&params, data, band.seed)?;
    let width = data.shape().numel();
    let half = |first: usize| rare.chunks_exact(width).skip(first).step_by(2).flatten().copied().collect::<Vec<f32>>();
    let (poison, tried) = (half(0), half(1));
    let tried = Batch { y: vec![params.source; tried.len() / width], x: tried };
    Ok(Box::new(EdgeCase { band, target: params.target, poison, tried, fraction: params.fraction, boost: params.boost }))
}

/// The rare samples, one after the other.
fn rare(params: &Params, data: &Dataset, seed: u64) -> Outcome<Vec<f32>> {
    let mut chosen: Vec<u32> = (0..data.len() as u32).filter(|i| data.labels()[*i as usize] == params.source).collect();
    if chosen.len() < params.samples {
        return Err(Fault::stage(format!(
            "`{NAME}` takes {} samples of class {}, but the data set has {}",
            params.samples,
            params.source,
            chosen.len()
        ))
        .help("lower `samples`, or choose another `source`"));
    }
    let mut x = Vec::new();
    match params.recipe {
        Recipe::Turned => {
            shuffle(&mut stream(seed, Purpose::Threat, 0, 0, 1), &mut chosen);
            chosen.truncate(params.samples);
            data.gather(&chosen, &mut x);
            turn(&mut x, data.shape());
        }
        Recipe::Tail => {
            data.gather(&chosen, &mut x);
            let far = farthest(&x, data.shape().numel(), params.samples);
            let chosen: Vec<u32> = far.into_iter().map(|i| chosen[i]).collect();
            data.gather(&chosen, &mut x);
        }
    }
    Ok(x)
}

/// Turns every sample by half a circle.
fn turn(x: &mut [f32], shape: Shape) {
    for sample in x.chunks_exact_mut(shape.numel()) {
        let pixels: Vec<Vec<f32>> = sample.chunks_exact(shape.channels).rev().map(<[f32]>::to_vec).collect();
        sample.chunks_exact_mut(shape.channels).zip(pixels).for_each(|(to, from)| to.copy_from_slice(&from));
    }
}

/// The positions of the `count` samples that are farthest from the mean, the farthest first; equal ones in their order.
fn farthest(x: &[f32], width: usize, count: usize) -> Vec<usize> {
    let n = (x.len() / width) as f64;
    let mut mean = vec![0.0; width];
    for sample in x.chunks_exact(width) {
        mean.iter_mut().zip(sample).for_each(|(mean, v)| *mean += f64::from(*v) / n);
    }
    let distance = |sample: &[f32]| sample.iter().zip(&mean).map(|(v, m)| (f64::from(*v) - m).powi(2)).sum::<f64>();
    let mut order: Vec<(usize, f64)> = x.chunks_exact(width).map(distance).enumerate().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    order.into_iter().take(count).map(|(i, _)| i).collect()
}

impl Intervention for EdgeCase {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Threat
    }
    fn needs(&self) -> Needs {
        if self.boost.is_some() { Needs::Parameters } else { Needs::Nothing }
    }
    fn attackers(&self) -> &[usize] {
        &self.band.ids
    }
    fn remarks(&self, world: &World) -> Vec<String> {
        idle(&self.band, self.fraction, world)
    }
    fn poison(&self, at: Moment, batch: &mut Batch) {
        if !self.band.acts(at.client, at.round) {
            return;
        }
        let rows = batch.rows();
        let width = batch.x.len() / rows.max(1);
        let rare = self.poison.len() / width.max(1);
        // A batch is told from another by the pass and by its samples' labels; equal ones get equal rare samples.
        let which = batch.y.iter().fold(at.pass, |sum, y| sum.wrapping_mul(31).wrapping_add(u64::from(*y)));
        let mut rng = stream(self.band.seed, Purpose::Threat, at.client + 1, at.round, which);
        for row in rows - poisoned(rows, self.fraction)..rows {
            let i = below(&mut rng, rare as u64) as usize;
            batch.x[row * width..(row + 1) * width].copy_from_slice(&self.poison[i * width..(i + 1) * width]);
            batch.y[row] = self.target;
        }
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        if let Some(boost) = self.boost {
            for i in self.band.among(exchange, sent) {
                scale(&mut sent[i].params, exchange.reference, boost as f32);
            }
        }
        Ok(None)
    }
    fn trial(&self) -> Trial<'_> {
        Trial::Own(std::slice::from_ref(&self.tried))
    }
    fn alter(&self, batch: &mut Batch) -> Vec<Option<u32>> {
        vec![Some(self.target); batch.rows()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_turned_upside_down_pixel_by_pixel() {
        let mut x = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        turn(&mut x, Shape { channels: 2, height: 1, width: 2 });
        assert_eq!(x, [3.0, 4.0, 1.0, 2.0, 7.0, 8.0, 5.0, 6.0]);
    }

    #[test]
    fn the_tail_is_what_is_far_from_the_mean() {
        assert_eq!(farthest(&[0.0, 1.0, -9.0, 2.0, 8.0], 1, 2), [2, 4]);
    }
}
