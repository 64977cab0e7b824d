//! Threats that replace what malicious clients send.

use super::band::{Band, Schedule};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent, World};
use serde::Deserialize;

/// How the parameters of malicious clients are forged.
pub(super) trait Forgery: Send + Sync + 'static {
    /// The name in pipelines.
    const NAME: &'static str;
    /// Replaces the parameters of the uploads at the positions `attackers`, which are ascending and not empty.
    fn forge(&self, exchange: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], seed: u64, memory: &mut Memory);
}

/// A forgery with those who do it.
#[derive(Debug, Deserialize)]
pub(super) struct Forged<F> {
    #[serde(flatten)]
    schedule: Schedule,
    #[serde(flatten)]
    forgery: F,
    #[serde(skip)]
    band: Option<Band>,
}

impl<F: Forgery> Forged<F> {
    pub fn among(mut self, world: &World) -> Outcome<Box<dyn Intervention>> {
        self.band = Some(self.schedule.band(world.clients())?);
        Ok(Box::new(self))
    }
}

impl<F: Forgery> Intervention for Forged<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }
    fn place(&self) -> Place {
        Place::Threat
    }
    fn needs(&self) -> Needs {
        Needs::Parameters
    }
    fn attackers(&self) -> &[usize] {
        self.band.as_ref().map_or(&[], |band| &band.ids)
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        if let Some(band) = &self.band {
            let attackers = band.among(exchange, sent);
            if !attackers.is_empty() {
                self.forgery.forge(exchange, sent, &attackers, band.seed, memory);
            }
        }
        Ok(None)
    }
}

/// W <- g + factor (W - g).
pub(super) fn scale(params: &mut [f32], reference: &[f32], factor: f32) {
    for (v, g) in params.iter_mut().zip(reference) {
        *v = g + factor * (*v - g);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What `forgery` makes of the uploads of three clients in round `round`, of which those at `attackers` are malicious.
    pub fn forge(forgery: &impl Forgery, reference: &[f32], uploads: &[&[f32]], attackers: &[usize], round: u64) -> Vec<Vec<f32>> {
        let mut memory = Memory::default();
        forge_again(forgery, reference, uploads, attackers, round, &mut memory)
    }

    pub fn forge_again(
        forgery: &impl Forgery,
        reference: &[f32],
        uploads: &[&[f32]],
        attackers: &[usize],
        round: u64,
        memory: &mut Memory,
    ) -> Vec<Vec<f32>> {
        let exchange = Exchange { round, rounds: 9, clients: uploads.len(), nominal: uploads.len(), equal: false, reference, entries: &[] };
        let mut sent: Vec<Sent> = uploads
            .iter()
            .enumerate()
            .map(|(client, p)| Sent { client, samples: 1, weight: 1.0 / uploads.len() as f64, params: p.to_vec().into() })
            .collect();
        forgery.forge(&exchange, &mut sent, attackers, 1, memory);
        sent.into_iter().map(|sent| sent.params.to_vec()).collect()
    }
}
