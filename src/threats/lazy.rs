//! Lazy clients: they send again what they have, with or without a mask that hides it.

use super::band;
use super::forgery::Forgery;
use crate::base::random::{Purpose, stream, unit};
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use rand_distr::{Distribution, StandardNormal};
use serde::Deserialize;

/// W <- previous model + mask.
#[derive(Debug, Deserialize)]
pub(super) struct Lazy {
    sends: Again,
    mask: Mask,
    scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Again {
    Global,
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mask {
    None,
    Uniform,
    Random,
    Gaussian,
}

pub(super) fn variant() -> Variant {
    let mut fields = vec![
        Field::with(
            "sends",
            Type::Choice(&[
                ("global", "the model that the server sent"),
                ("own", "what the client trained when it last took part; the server's model the first time"),
            ]),
            "global",
            "Which model is sent again.",
        ),
        Field::with(
            "mask",
            Type::Choice(&[
                ("none", "nothing is added"),
                ("uniform", "one number between -scale and scale is added to all parameters"),
                ("random", "a number between -scale and scale is added to each parameter"),
                ("gaussian", "a normal number with standard deviation `scale` is added to each parameter"),
            ]),
            "none",
            "What is added, so that nobody notices.",
        ),
        Field::with("scale", Type::positive(), 1.0, "The size of the mask.").from("", "FedML"),
        band::redraw(),
    ];
    fields.extend(band::fields());
    Variant {
        name: Lazy::NAME,
        doc: "Malicious clients send the previous model again, with a mask. FedML's class of this name never acts, since its round \
              counter stands still.",
        revision: 1,
        fields,
    }
}

impl Forgery for Lazy {
    const NAME: &'static str = "lazy";
    fn forge(&self, exchange: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], seed: u64, memory: &mut Memory) {
        for i in attackers {
            let Sent { client, params, .. } = &mut sent[*i];
            let trained = (self.sends == Again::Own).then(|| params.to_vec());
            let previous = trained.and_then(|trained| memory.vectors.insert(*client, trained));
            params.copy_from_slice(previous.as_deref().unwrap_or(exchange.reference));
            let mut rng = stream(seed, Purpose::Threat, *client as u64 + 1, exchange.round, 0);
            let scale = self.scale;
            let mut uniform = || (scale * (2.0 * unit(&mut rng) - 1.0)) as f32;
            match self.mask {
                Mask::None => {}
                Mask::Uniform => {
                    let shift = uniform();
                    params.iter_mut().for_each(|v| *v += shift);
                }
                Mask::Random => params.iter_mut().for_each(|v| *v += uniform()),
                Mask::Gaussian => params.iter_mut().for_each(|v| {
                    let drawn: f64 = StandardNormal.sample(&mut rng);
                    *v += (scale * drawn) as f32;
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::{forge, forge_again};
    use super::*;

    #[test]
    fn the_global_model_or_the_own_previous_one_is_sent_again() {
        let lazy = |sends, mask| Lazy { sends, mask, scale: 0.1 };
        assert_eq!(forge(&lazy(Again::Global, Mask::None), &[7.0], &[&[1.0], &[2.0]], &[0], 0), [[7.0], [2.0]]);
        let (own, mut memory) = (lazy(Again::Own, Mask::None), Memory::default());
        assert_eq!(forge_again(&own, &[7.0], &[&[1.0]], &[0], 0, &mut memory), [[7.0]]);
        assert_eq!(forge_again(&own, &[8.0], &[&[2.0]], &[0], 1, &mut memory), [[1.0]]);
    }

    #[test]
    fn a_uniform_mask_is_one_number_and_a_random_one_is_many() {
        let sent = |mask| forge(&Lazy { sends: Again::Global, mask, scale: 0.1 }, &[0.0; 3], &[&[1.0; 3]], &[0], 0).remove(0);
        let uniform = sent(Mask::Uniform);
        assert!(uniform[0] != 0.0 && uniform.iter().all(|v| *v == uniform[0] && v.abs() <= 0.1));
        let random = sent(Mask::Random);
        assert!(random[0] != random[1] && random.iter().all(|v| v.abs() <= 0.1));
        assert_ne!(random, sent(Mask::Gaussian));
    }
}
