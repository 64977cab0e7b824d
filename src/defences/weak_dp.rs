//! Weak differential privacy (Sun, Kairouz, Suresh, McMahan, 2019): short steps and a little noise.

use super::common::Form;
use super::norm_clipping::{bound, clip};
use crate::base::Outcome;
use crate::base::random::{Purpose, stream};
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;

/// Clips steps and adds N(0, stddev^2) to the aggregate.
#[derive(Debug, Deserialize)]
pub(super) struct WeakDp {
    /// Not of FedML's form.
    #[serde(default)]
    bound: f64,
    stddev: f64,
    seed: u64,
    variant: Form,
}

pub(super) const NAME: &str = "weak-dp";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Shortens long steps to `bound` and adds normal noise to the aggregate (Sun et al., 2019). The noise is too small for a \
              guarantee of privacy.",
        revision: 1,
        fields: vec![
            bound().only("variant", &["paper"]),
            Field::with("stddev", Type::non_negative(), 0.025, "Standard deviation of the noise of a coordinate.")
                .from("sigma", "the paper"),
            Field::with("seed", Type::at_least(0), 0, "Seed of the noise."),
            Form::field(
                "FedML has noise on every upload and does not shorten steps. (Its dispatcher never calls this defence; here it acts.)",
            ),
        ],
    }
}

/// Adds normal noise; `client` is 0 for the server.
pub(super) fn add_noise(params: &mut [f32], stddev: f64, seed: u64, client: u64, round: u64) {
    if stddev == 0.0 {
        return;
    }
    let mut rng = stream(seed, Purpose::Defence, client, round, 0);
    for v in params {
        let drawn: f64 = StandardNormal.sample(&mut rng);
        *v += (stddev * drawn) as f32;
    }
}

impl Intervention for WeakDp {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        match self.variant {
            Form::Paper => clip(sent, exchange.reference, self.bound),
            Form::Fedml => {
                for sent in sent {
                    add_noise(&mut sent.params, self.stddev, self.seed, sent.client as u64 + 1, exchange.round);
                }
            }
        }
        Ok(None)
    }
    fn aggregated(&self, exchange: &Exchange<'_>, global: &mut [f32], _: &mut Memory) -> Outcome<()> {
        if self.variant == Form::Paper {
            add_noise(global, self.stddev, self.seed, 0, exchange.round);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend;
    use super::*;

    #[test]
    fn the_noise_has_the_deviation_that_was_asked_for_and_another_one_in_each_round() {
        let noise = |round| {
            let mut out = vec![1.0; 20_000];
            add_noise(&mut out, 0.5, 3, 0, round);
            out
        };
        let first = noise(0);
        let mean = first.iter().map(|v| f64::from(*v)).sum::<f64>() / 20_000.0;
        let variance = first.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 0.25).abs() < 0.01, "{mean} {variance}");
        assert_eq!(first, noise(0));
        assert_ne!(first, noise(1));
    }

    #[test]
    fn steps_are_clipped_or_noisy() {
        let uploads: [(&[f32], usize); 1] = [(&[3.0, 4.0], 1)];
        let defence = |variant| WeakDp { bound: 1.0, stddev: 0.1, seed: 0, variant };
        let (kept, _) = defend(&defence(Form::Paper), &[0.0, 0.0], &uploads).expect("defended");
        assert_eq!(kept, [(0, vec![0.6, 0.8])]);
        let (kept, _) = defend(&defence(Form::Fedml), &[0.0, 0.0], &uploads).expect("defended");
        assert!((kept[0].1[0] - 3.0).abs() < 0.6 && kept[0].1[0] != 3.0);
    }
}
