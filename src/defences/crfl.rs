//! CRFL (Xie, Chen, Chen, Li, ICML 2021): the global model is kept small and noisy, which bounds what a backdoor can do.

use super::vectors::squared_distance;
use super::weak_dp::add_noise;
use crate::base::Fault;
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Smoothing};
use crate::spec::catalog::{Field, Type, Variant};
use crate::spec::rules::Breach;
use serde::Deserialize;
use serde_json::{Map, Value};

/// After each aggregation g <- g / max(1, ||g|| / rho_t), then N(0, stddev^2) is added, in the last round not. Where there are `votes`,
/// as many noisy copies of a model answer, and the class that most of them choose is the prediction.
#[derive(Debug, Deserialize)]
pub(super) struct Crfl {
    threshold: f64,
    growth: f64,
    stddev: f64,
    seed: u64,
    votes: u64,
}

pub(super) const NAME: &str = "crfl";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "After each aggregation the model is shortened to rho_t = threshold + growth t in round t and gets normal noise, in the last \
              round none (Xie et al., ICML 2021). With `votes`, predictions are smoothed; the paper's certificate is not computed.",
        revision: 1,
        fields: vec![
            Field::with("threshold", Type::positive(), 2.0, "The greatest Euclidean length of the averaged parameters, in round 0.")
                .from("", "the paper, with MNIST; 4 with EMNIST"),
            Field::with("growth", Type::non_negative(), 0.1, "What the length may grow by in each round.")
                .from("", "the paper, with MNIST; 0.25 with EMNIST, 0.025 with LOAN"),
            Field::with("stddev", Type::non_negative(), 0.01, "Standard deviation of the noise of a parameter.").from("sigma", "the paper"),
            Field::with("seed", Type::at_least(0), 0, "Seed of the noise."),
            Field::with(
                "votes",
                Type::at_least(0),
                0,
                "How many copies of a model, each with noise of `stddev` on the averaged parameters, vote for the class of a sample at every \
                 evaluation; with 0 the model itself answers. The paper has 1000; each costs one evaluation.",
            )
            .from("M", "")
            .introduced(0),
        ],
    }
}

/// What is wrong with its parameters together.
pub(super) fn rules(params: &Map<String, Value>) -> Option<Breach> {
    let votes = params.get("votes").and_then(Value::as_u64).filter(|votes| *votes > 0)?;
    (params.get("stddev").and_then(Value::as_f64) == Some(0.0)).then(|| {
        let fault = Fault::stage(format!("`votes` is {votes}, but `stddev` is 0: all copies of the model would answer alike"));
        Breach::new("votes", fault.help("give a `stddev` above 0, or leave `votes` out"))
    })
}

impl Intervention for Crfl {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    /// The last round has no noise.
    fn horizon(&self) -> bool {
        true
    }
    fn aggregated(&self, exchange: &Exchange<'_>, global: &mut [f32], _: &mut Memory) -> Outcome<()> {
        let round = exchange.round + 1;
        let greatest = self.threshold + self.growth * round as f64;
        let length = squared_distance(global, &vec![0.0; global.len()]).sqrt();
        if length > greatest {
            let factor = (greatest / length) as f32;
            global.iter_mut().for_each(|v| *v *= factor);
        }
        if round < exchange.rounds {
            add_noise(global, self.stddev, self.seed, 0, exchange.round);
        }
        Ok(())
    }
    fn smoothing(&self) -> Option<Smoothing> {
        (self.votes > 0).then_some(Smoothing { votes: self.votes, stddev: self.stddev, seed: self.seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_shortened_and_noisy_until_the_last_round() {
        let crfl = Crfl { threshold: 2.0, growth: 0.5, stddev: 0.1, seed: 0, votes: 0 };
        let after = |round| {
            let exchange = Exchange { round, rounds: 3, clients: 1, nominal: 1, equal: false, reference: &[0.0, 0.0], entries: &[] };
            let mut global = vec![30.0, 40.0];
            crfl.aggregated(&exchange, &mut global, &mut Memory::default()).expect("shortened");
            global
        };
        assert_eq!(after(2), [2.1, 2.8]);
        let noisy = after(0);
        assert!((noisy[0] - 1.5).abs() < 0.5 && (noisy[1] - 2.0).abs() < 0.5 && noisy != [1.5, 2.0], "{noisy:?}");
        assert!(crfl.horizon());
    }
}
