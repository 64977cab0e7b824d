//! A backdoor: samples with a pattern of pixels get a label of the attacker's choice (Gu, Dolan-Gavitt, Garg, BadNets, 2017).

use super::band::{self, Band, Schedule};
use super::forgery::scale;
use super::trigger::{self, Pattern, Trigger};
use crate::base::Outcome;
use crate::fl::streams::Moment;
use crate::fl::{Batch, Exchange, Intervention, Memory, Needs, Place, Sent, Trial, World};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

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
    Ok(Box::new(PixelBackdoor {
        band: params.schedule.band(world.clients())?,
        trigger: params.pattern.trigger(&world.data)?,
        fraction: params.fraction,
        boost: params.boost,
    }))
}

/// How many samples of a batch are poisoned.
pub(super) fn poisoned(rows: usize, fraction: f64) -> usize {
    (rows as f64 * fraction) as usize
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
