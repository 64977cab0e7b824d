//! A backdoor: samples with a pattern of pixels get a label of the attacker's choice (Gu, Dolan-Gavitt, Garg, BadNets, 2017).

use super::band::{self, Band, Schedule};
use super::forgery::scale;
use super::trigger::{self, Pattern, Trigger};
use crate::base::text::count;
use crate::base::{Fault, Outcome};
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
    #[serde(flatten)]
    pattern: Pattern,
    fraction: f64,
    #[serde(default)]
    boost: Option<f64>,
}

/// A pattern on a part of every batch; optionally the trained step is sent longer.
#[derive(Debug)]
struct PixelBackdoor {
    band: Band,
    trigger: Trigger,
    fraction: f64,
    boost: Option<f64>,
}

pub(super) const NAME: &str = "pixel-backdoor";

/// How much of a batch is poisoned.
pub(super) fn fraction() -> Field {
    Field::with("fraction", Type::fraction(), 0.5, "Fraction of each batch that is poisoned, rounded down: its last samples.")
        .from("", "no published value")
}

/// How much longer the poisoned step is sent.
pub(super) fn boost() -> Field {
    Field::optional("boost", Type::positive(), "Malicious clients send g + boost (W - g); what they trained when absent.")
}

pub(super) fn variant() -> Variant {
    let mut fields = trigger::fields();
    fields.extend([fraction(), boost()]);
    fields.extend(band::fields());
    Variant {
        name: NAME,
        doc: "Malicious clients train on samples with a pattern of pixels and the label `target`. It succeeds where a test sample of \
              another label gets that label with the pattern on it.",
        revision: 1,
        fields,
    }
}

pub(super) fn build(params: Params, world: &World) -> Outcome<Box<dyn Intervention>> {
    let band = params.schedule.band(world.clients())?;
    anyone_poisons(&band, params.fraction, world)?;
    Ok(Box::new(PixelBackdoor { band, trigger: params.pattern.trigger(&world.data)?, fraction: params.fraction, boost: params.boost }))
}

/// How many samples of a batch are poisoned.
pub(super) fn poisoned(rows: usize, fraction: f64) -> usize {
    (rows as f64 * fraction) as usize
}

/// Refuses a fraction that is above 0, but of a batch of `rows` samples no sample.
pub(super) fn some_poisoned(rows: usize, fraction: f64) -> Outcome<()> {
    if fraction <= 0.0 || poisoned(rows, fraction) > 0 {
        return Ok(());
    }
    let least = 1.0 / rows.max(1) as f64;
    Err(Fault::stage(format!(
        "`fraction` {fraction} of a batch of {} is none, rounded down: nothing would be poisoned",
        count(rows, "sample")
    ))
    .help(format!("raise `fraction` to {least:.3} or more, or `batch_size`")))
}

/// What is wrong with the parameter `fraction` in batches of so many samples.
pub(super) fn fraction_rules(params: &Map<String, Value>, rows: Option<usize>) -> Vec<Breach> {
    let (Some(fraction), Some(rows)) = (params.get("fraction").and_then(Value::as_f64), rows) else { return Vec::new() };
    some_poisoned(rows, fraction).err().map(|fault| Breach::new("fraction", fault)).into_iter().collect()
}

/// Refuses a fraction of which no attacker has a sample in any batch.
pub(super) fn anyone_poisons(band: &Band, fraction: f64, world: &World) -> Outcome<()> {
    let greatest = band.ids.iter().filter_map(|id| greatest_batch(world, *id)).max();
    greatest.map_or(Ok(()), |rows| some_poisoned(rows, fraction))
}

/// Says which attackers poison nothing, as their batches are too small for the fraction.
pub(super) fn idle(band: &Band, fraction: f64, world: &World) -> Vec<String> {
    let idle = band.ids.iter().filter(|id| greatest_batch(world, **id).is_none_or(|rows| poisoned(rows, fraction) == 0)).count();
    if fraction <= 0.0 || idle == 0 {
        return Vec::new();
    }
    vec![format!("{idle} of {} poison nothing: `fraction` {fraction} of their batches is no sample", count(band.ids.len(), "attacker"))]
}

/// The rows of the greatest batch of a client; none where it makes no batch.
fn greatest_batch(world: &World, client: usize) -> Option<usize> {
    let (held, size) = (world.shard(client).train.len(), world.settings.batch_size);
    (held > 0 && (held >= size || !world.settings.drop_last)).then(|| held.min(size))
}

impl Intervention for PixelBackdoor {
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
        if self.band.acts(at.client, at.round) {
            self.trigger.poison(batch, poisoned(batch.rows(), self.fraction));
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
        Trial::TestSets
    }
    fn alter(&self, batch: &mut Batch) -> Vec<Option<u32>> {
        self.trigger.tries(batch)
    }
}
