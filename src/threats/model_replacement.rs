//! Model replacement (Bagdasaryan et al., AISTATS 2020): a backdoored model is sent so large that the mean becomes it.

use super::band::{self, Band, Schedule};
use super::forgery::scale;
use super::pixel_backdoor::{anyone_poisons, fraction, idle, poisoned};
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
    norm: Option<f64>,
}

/// W <- g + gamma (W - g), after training on a pattern.
#[derive(Debug)]
struct ModelReplacement {
    band: Band,
    trigger: Trigger,
    fraction: f64,
    norm: Option<f64>,
}

pub(super) const NAME: &str = "model-replacement";

pub(super) fn variant() -> Variant {
    let mut fields = trigger::fields();
    fields.extend([
        fraction(),
        Field::optional(
            "norm",
            Type::positive(),
            "The length that the step which is sent gets: gamma = norm/||W - g||. When absent, gamma is the number of uploads over that \
             of the attackers among them, so that the mean becomes the attackers' model.",
        )
        .from("S", "FedML"),
    ]);
    fields.extend(band::fields());
    Variant {
        name: NAME,
        doc: "Malicious clients train on samples with a pattern of pixels and send g + gamma (W - g), which replaces the mean \
              (Bagdasaryan et al., AISTATS 2020). With `fraction: 0` they only amplify their own model, as FedML does.",
        revision: 1,
        fields,
    }
}

pub(super) fn build(params: Params, world: &World) -> Outcome<Box<dyn Intervention>> {
    let band = params.schedule.band(world.clients())?;
    anyone_poisons(&band, params.fraction, world)?;
    Ok(Box::new(ModelReplacement { band, trigger: params.pattern.trigger(&world.data)?, fraction: params.fraction, norm: params.norm }))
}

/// The factor on a step of `uploads` uploads, of which `attackers` are malicious.
fn gamma(norm: Option<f64>, params: &[f32], reference: &[f32], uploads: usize, attackers: usize) -> f64 {
    match norm {
        None => uploads as f64 / attackers.max(1) as f64,
        Some(norm) => {
            let length = params.iter().zip(reference).map(|(v, g)| (f64::from(*v) - f64::from(*g)).powi(2)).sum::<f64>().sqrt();
            if length > 0.0 { norm / length } else { 1.0 }
        }
    }
}

impl Intervention for ModelReplacement {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Threat
    }
    fn needs(&self) -> Needs {
        Needs::Parameters
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
        let attackers = self.band.among(exchange, sent);
        let uploads = sent.len();
        for i in &attackers {
            let factor = gamma(self.norm, &sent[*i].params, exchange.reference, uploads, attackers.len());
            scale(&mut sent[*i].params, exchange.reference, factor as f32);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_as_long_as_it_takes() {
        assert_eq!(gamma(None, &[1.0], &[0.0], 10, 2), 5.0);
        assert_eq!(gamma(Some(20.0), &[4.0, 3.0], &[1.0, -1.0], 10, 2), 4.0);
        assert_eq!(gamma(Some(20.0), &[1.0], &[1.0], 10, 2), 1.0);
    }
}
