//! Random parameters: W is noise, whatever was trained.

use super::band;
use super::forgery::Forgery;
use crate::base::random::{Purpose, stream, unit};
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;

/// W ~ scale U(-1, 1), or scale N(0, 1), each coordinate for itself.
#[derive(Debug, Deserialize)]
pub(super) struct Random {
    law: Law,
    scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Law {
    Uniform,
    Normal,
}

pub(super) fn variant() -> Variant {
    let mut fields = vec![
        Field::with(
            "law",
            Type::Choice(&[("uniform", "between -1 and 1"), ("normal", "standard normal")]),
            "uniform",
            "The distribution of a coordinate.",
        )
        .from("", "FedML"),
        Field::with("scale", Type::positive(), 1.0, "Factor on every coordinate.").from("", "FedML"),
        band::redraw(),
    ];
    fields.extend(band::fields());
    Variant { name: Random::NAME, doc: "Malicious clients send noise.", revision: 1, fields }
}

impl Forgery for Random {
    const NAME: &'static str = "random";
    fn forge(&self, exchange: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], seed: u64, _: &mut Memory) {
        for i in attackers {
            let mut rng = stream(seed, Purpose::Threat, sent[*i].client as u64 + 1, exchange.round, 0);
            for v in sent[*i].params.iter_mut() {
                let drawn = match self.law {
                    Law::Uniform => 2.0 * unit(&mut rng) - 1.0,
                    Law::Normal => StandardNormal.sample(&mut rng),
                };
                *v = (self.scale * drawn) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::forge;
    use super::*;

    #[test]
    fn only_attackers_send_noise_and_each_its_own() {
        let random = Random { law: Law::Uniform, scale: 0.5 };
        let zeros = [0.0; 50];
        let sent = forge(&random, &zeros, &[&zeros, &zeros, &zeros], &[0, 2], 3);
        assert_eq!(sent[1], zeros);
        assert!(sent[0].iter().all(|v| v.abs() <= 0.5) && sent[0].iter().any(|v| v.abs() > 0.3));
        assert_ne!(sent[0], sent[2]);
        assert_ne!(sent[0], forge(&random, &zeros, &[&zeros], &[0], 4)[0]);
    }
}
