//! A little is enough (Baruch, Baruch, Goldberg, NeurIPS 2019): a shift that hides within the spread of honest clients.

use super::band;
use super::forgery::Forgery;
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// Every attacker sends mu - z sigma, coordinate by coordinate.
#[derive(Debug, Deserialize)]
pub(super) struct ALittle {
    #[serde(default)]
    z: Option<f64>,
    knows: Knows,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Knows {
    Attackers,
    All,
}

pub(super) fn variant() -> Variant {
    let mut fields = vec![
        Field::optional(
            "z",
            Type::positive(),
            "How many standard deviations. When absent, the most with which a majority still stands with the attackers: the normal \
             quantile of (n - m - s) / (n - m) for m of n uploads and s = floor(n/2 + 1) - m, at least 0.",
        )
        .from("z_max", "the paper"),
        Field::with(
            "knows",
            Type::Choice(&[
                ("attackers", "what the attackers themselves would have sent, as in the paper; one alone knows no spread"),
                ("all", "every upload of the round"),
            ]),
            "attackers",
            "From whose uploads the mean and the (population) standard deviation are estimated.",
        ),
        band::redraw(),
    ];
    fields.extend(band::fields());
    Variant {
        name: ALittle::NAME,
        doc: "Malicious clients all send mu - z sigma of a coordinate, a shift that hides within the spread (Baruch et al., NeurIPS 2019).",
        revision: 1,
        fields,
    }
}

/// The greatest shift, in standard deviations, that n uploads with m attackers hide.
fn hidden(n: usize, m: usize) -> f64 {
    let supporters = (n / 2 + 1).saturating_sub(m);
    let honest = n.saturating_sub(m);
    let share = honest.saturating_sub(supporters) as f64 / honest.max(1) as f64;
    let quantile = Normal::standard().inverse_cdf(share.clamp(0.0, 1.0));
    // Without honest clients, or when they all have to be won, the formula has no finite value.
    if quantile.is_finite() { quantile.max(0.0) } else { 0.0 }
}

impl Forgery for ALittle {
    const NAME: &'static str = "a-little-is-enough";
    fn forge(&self, _: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], _: u64, _: &mut Memory) {
        let z = self.z.unwrap_or_else(|| hidden(sent.len(), attackers.len()));
        let known: Vec<usize> = if self.knows == Knows::All { (0..sent.len()).collect() } else { attackers.to_vec() };
        let n = known.len() as f64;
        let forged: Vec<f32> = (0..sent[0].params.len())
            .map(|k| {
                let values = || known.iter().map(|i| f64::from(sent[*i].params[k]));
                let mean = values().sum::<f64>() / n;
                let deviation = (values().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
                (mean - z * deviation) as f32
            })
            .collect();
        let forged = crate::engine::Params::from(forged);
        attackers.iter().for_each(|i| sent[*i].params = forged.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::forge;
    use super::*;

    #[test]
    fn the_shift_is_z_standard_deviations_below_the_mean() {
        let attack = ALittle { z: Some(1.5), knows: Knows::All };
        // Mean 3 and standard deviation 2 of 1, 1, 5, 5.
        let sent = forge(&attack, &[0.0], &[&[1.0], &[1.0], &[5.0], &[5.0]], &[1, 2], 0);
        assert_eq!(sent, [[1.0], [0.0], [0.0], [5.0]]);
        let attack = ALittle { z: Some(1.0), knows: Knows::Attackers };
        assert_eq!(forge(&attack, &[0.0], &[&[9.0], &[2.0], &[4.0]], &[1, 2], 0), [[9.0], [2.0], [2.0]]);
    }

    #[test]
    fn the_default_shift_is_the_papers() {
        // 50 workers, 24 of them corrupted: s = 2, 24/26 of the honest ones may stay behind.
        assert!((hidden(50, 24) - 1.426).abs() < 1e-3, "{}", hidden(50, 24));
        assert_eq!(hidden(10, 0), 0.0);
        assert_eq!(hidden(3, 3), 0.0);
    }
}
