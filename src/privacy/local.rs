//! Local differential privacy: every client clips its update and adds noise before it sends.
//!
//! What it protects: everything about a client's samples, against the server too. Any update may take the place of any other, so
//! that the sensitivity is twice the clip. `epsilon` is that of one upload; the figure is that of all uploads of the client which
//! sent most.

use super::accountant::Accountant;
use super::mechanism::{add_gaussian, add_laplace, analytic, classic, clip_l1, clip_l2, noise};
use super::rdp::{gaussian, laplace};
use crate::base::{Fault, Outcome};
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sends, Sent, World};
use serde::Deserialize;

/// The parameters of `local-gaussian`; [`super::variants`] documents them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GaussianParams {
    clip: f64,
    epsilon: f64,
    delta: f64,
    calibration: Calibration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Calibration {
    Classic,
    Analytic,
}

/// The parameters of `local-laplace`; [`super::variants`] documents them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaplaceParams {
    clip: f64,
    epsilon: f64,
    delta: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Gaussian,
    Laplace,
}

pub(super) struct Local {
    law: Law,
    clip: f64,
    /// Scale of the noise over the sensitivity.
    noise: f64,
    /// The epsilon of one upload.
    each: f64,
    delta: f64,
    curve: Vec<f64>,
    seed: u64,
}

/// Refuses an epsilon for which the classic formula is not proven.
pub(super) fn classic_holds(epsilon: f64) -> Outcome<()> {
    if epsilon <= 1.0 {
        return Ok(());
    }
    Err(Fault::stage(format!("the classic Gaussian mechanism is proven for an epsilon of at most 1, found {epsilon}"))
        .help("use `calibration: analytic`, which holds for every epsilon"))
}

impl Local {
    pub(super) fn gaussian(params: &GaussianParams, seed: u64) -> Outcome<Self> {
        let GaussianParams { clip, epsilon, delta, calibration } = *params;
        let noise = match calibration {
            Calibration::Classic => {
                classic_holds(epsilon)?;
                classic(epsilon, delta)
            }
            Calibration::Analytic => analytic(epsilon, delta),
        };
        Ok(Self { law: Law::Gaussian, clip, noise, each: epsilon, delta, curve: gaussian(1.0, noise), seed })
    }
    pub(super) fn laplace(params: &LaplaceParams, seed: u64) -> Self {
        let LaplaceParams { clip, epsilon, delta } = *params;
        // With a delta, a probability of exactly that is given to failing, and the rest has a larger epsilon.
        let each = epsilon - (-delta).ln_1p();
        Self { law: Law::Laplace, clip, noise: 1.0 / each, each, delta, curve: laplace(1.0 / each), seed }
    }
    /// The epsilon of this many uploads of one client.
    fn spent(&self, uploads: u64) -> f64 {
        let mut accountant = Accountant::default();
        accountant.add(&self.curve, uploads);
        let composed = if self.delta > 0.0 { accountant.epsilon(self.delta) } else { f64::INFINITY };
        match (self.law, uploads) {
            (_, 0) => 0.0,
            (Law::Gaussian, 1) => composed.min(self.each),
            (Law::Gaussian, _) => composed,
            // Pure epsilons simply add up.
            (Law::Laplace, _) => composed.min(self.each * uploads as f64),
        }
    }
}

impl Intervention for Local {
    fn name(&self) -> &'static str {
        match self.law {
            Law::Gaussian => "local-gaussian",
            Law::Laplace => "local-laplace",
        }
    }
    fn place(&self) -> Place {
        Place::Privacy
    }
    fn needs(&self) -> Needs {
        Needs::Parameters
    }
    fn fits(&self, world: &World, sends: Sends) -> Outcome<()> {
        super::nothing_else(self.name(), world, sends)
    }
    fn trained(&self, _: &World, _: u64, cohort: &[usize], memory: &mut Memory) -> Outcome<()> {
        for client in cohort {
            memory.vectors.entry(*client).or_insert_with(|| vec![0.0])[0] += 1.0;
        }
        Ok(())
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let scale = self.noise * 2.0 * self.clip;
        for sent in sent {
            let rng = &mut noise(self.seed, sent.client as u64, exchange.round, 0);
            match self.law {
                Law::Gaussian => {
                    clip_l2(&mut sent.params, exchange.reference, self.clip);
                    add_gaussian(rng, scale, &mut sent.params);
                }
                Law::Laplace => {
                    clip_l1(&mut sent.params, exchange.reference, self.clip);
                    add_laplace(rng, scale, &mut sent.params);
                }
            }
        }
        Ok(None)
    }
    fn figures(&self, _: &World, _: u64, memory: &Memory) -> Vec<(&'static str, f64)> {
        let most = memory.vectors.values().filter_map(|counts| counts.first()).fold(0.0, |most: f32, count| most.max(*count));
        super::figures(self.spent(most as u64), self.delta, self.noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_epsilons_add_up_and_gaussian_ones_grow_like_a_root() {
        let laplace = Local::laplace(&LaplaceParams { clip: 1.0, epsilon: 0.1, delta: 0.0 }, 0);
        assert!((laplace.spent(7) - 0.7).abs() < 1e-12 && laplace.spent(0) == 0.0);
        let params = GaussianParams { clip: 1.0, epsilon: 0.5, delta: 1e-5, calibration: Calibration::Classic };
        let gaussian = Local::gaussian(&params, 0).expect("at most 1");
        assert!(gaussian.spent(1) <= 0.5 && gaussian.spent(100) < 100.0 * 0.5 && gaussian.spent(100) > 3.0);
        assert!((gaussian.noise - 9.689_6).abs() < 1e-4);
    }

    #[test]
    fn a_delta_makes_the_laplace_noise_smaller() {
        let local = Local::laplace(&LaplaceParams { clip: 1.0, epsilon: 1.0, delta: 0.1 }, 0);
        assert!((local.noise - 1.0 / (1.0 - 0.9f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn the_classic_formula_ends_at_one() {
        let params = |epsilon, calibration| GaussianParams { clip: 1.0, epsilon, delta: 1e-5, calibration };
        let fault = Local::gaussian(&params(1.5, Calibration::Classic), 0).err().expect("too large");
        assert!(fault.what.contains("at most 1, found 1.5"), "{fault}");
        assert!(Local::gaussian(&params(1.5, Calibration::Analytic), 0).is_ok());
    }
}
