//! FoolsGold (Fung, Yoon, Beschastnikh, RAID 2020): clients whose steps resemble each other over time count less.

use super::common::Form;
use super::vectors::{feature, mean, params};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// Weighs uploads by how little their history resembles that of others.
#[derive(Debug, Deserialize)]
pub(super) struct FoolsGold {
    confidence: f64,
    variant: Form,
}

pub(super) const NAME: &str = "foolsgold";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Clients whose summed steps in the last layer resemble each other count less: with cosines cs_ij, pardoned by max_i/max_j \
              where max_i < max_j, alpha_i = 1 - max_j cs_ij, scaled to a greatest of 1, alpha_i <- confidence ln(alpha_i / (1 - \
              alpha_i)) + 0.5 within [0, 1], and g + sum_i alpha_i n_i/n (v_i - g) (Fung et al., RAID 2020). Made for several attackers \
              with one aim among clients with different data.",
        revision: 2,
        fields: vec![
            Field::with("confidence", Type::positive(), 1.0, "How sharply attackers and others are told apart.").from("kappa", "the paper"),
            Form::field(
                "FedML sums the parameters of the last layer instead of the steps, caps alpha at 0.999999 instead of 0.99, and makes a mean \
                 with the weights alpha_i n_i: whoever is trusted alone is the new model.",
            ),
        ],
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// The weight of each client, in [0, 1], by the histories of all.
fn weights(histories: &[&[f32]], confidence: f64, cap: f64) -> Vec<f64> {
    let n = histories.len();
    let mut cs = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..i {
            let c = cosine(histories[i], histories[j]);
            (cs[i][j], cs[j][i]) = (c, c);
        }
    }
    // Opposites are no less strangers than what is at right angles: without the bound at 0, pardoning would turn their sign.
    let greatest = |i: usize, row: &[f64]| row.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, c)| *c).fold(0.0, f64::max);
    let most: Vec<f64> = (0..n).map(|i| greatest(i, &cs[i])).collect();
    for i in 0..n {
        for j in 0..n {
            if i != j && most[i] < most[j] {
                cs[i][j] *= most[i] / most[j];
            }
        }
    }
    let mut alpha: Vec<f64> = (0..n).map(|i| (1.0 - greatest(i, &cs[i])).clamp(0.0, 1.0)).collect();
    let top = alpha.iter().copied().fold(0.0, f64::max);
    if top == 0.0 {
        return alpha;
    }
    for a in &mut alpha {
        *a = (*a / top).min(cap);
        *a = (confidence * (*a / (1.0 - *a)).ln() + 0.5).clamp(0.0, 1.0);
    }
    alpha
}

impl Intervention for FoolsGold {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let feature = feature(exchange);
        for sent in sent.iter() {
            let history = memory.vectors.entry(sent.client).or_insert_with(|| vec![0.0; feature.len()]);
            for ((sum, v), g) in history.iter_mut().zip(&sent.params[feature.clone()]).zip(&exchange.reference[feature.clone()]) {
                *sum += if self.variant == Form::Paper { v - g } else { *v };
            }
        }
        let histories: Vec<&[f32]> = sent.iter().map(|sent| &memory.vectors[&sent.client][..]).collect();
        let cap = if self.variant == Form::Paper { 0.99 } else { 0.999_999 };
        let alpha = weights(&histories, self.confidence, cap);
        let share = |sent: &Sent| if exchange.equal { 1.0 } else { sent.weight };
        let trusted: Vec<f64> = sent.iter().zip(&alpha).map(|(sent, alpha)| share(sent) * alpha).collect();
        let (all, sum) = (sent.iter().map(share).sum::<f64>(), trusted.iter().sum::<f64>());
        if sum <= 0.0 {
            return Ok(Some(exchange.reference.to_vec()));
        }
        let mut mean = mean(&params(sent), &trusted);
        if self.variant == Form::Paper && sum < all {
            // What nobody is trusted with is not handed to the others: few trusted clients make a short step.
            let length = sum / all;
            for (v, g) in mean.iter_mut().zip(exchange.reference) {
                *v = (f64::from(*g) + length * (f64::from(*v) - f64::from(*g))) as f32;
            }
        }
        Ok(Some(mean))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::{close, defend_in};
    use super::*;

    #[test]
    fn twins_lose_their_weight_and_strangers_keep_it() {
        let alpha = weights(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.0, 2.0], &[0.0, 0.0, 5.0]], 1.0, 0.99);
        assert_eq!(alpha, [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(weights(&[&[1.0], &[1.0]], 1.0, 0.99), [0.0, 0.0]);
        assert_eq!(weights(&[&[1.0]], 1.0, 0.99), [1.0]);
        // Who is the opposite of two twins is a stranger to both.
        assert_eq!(weights(&[&[-1.0, 0.0], &[1.0, 0.1], &[1.0, 0.1]], 1.0, 0.99), [1.0, 0.0, 0.0]);
    }

    #[test]
    fn pardoning_and_the_logit_follow_the_formula() {
        // Cosines: 0-1: 0.6, 0-2: 0, 1-2: 0.8; most: 0.6, 0.8, 0.8. Pardoned: 0-1 by 0.6/0.8 to 0.45 for 0, others as they are.
        // alpha: 0.55, 0.2, 0.2; scaled: 0.99, 0.3636, 0.3636; logit: 1, ln(0.3636/0.6364) + 0.5 = -0.0596 -> 0.
        let histories: [&[f32]; 3] = [&[1.0, 0.0], &[0.6, 0.8], &[0.0, 1.0]];
        assert_eq!(weights(&histories, 1.0, 0.99), [1.0, 0.0, 0.0]);
        // With less confidence: 0.5 (-0.5596) + 0.5 = 0.2202.
        let soft = weights(&histories, 0.5, 0.99);
        assert!((soft[1] - 0.2202).abs() < 1e-4, "{soft:?}");
    }

    #[test]
    fn histories_add_up_by_client() {
        let (gold, mut memory) = (FoolsGold { confidence: 1.0, variant: Form::Paper }, Memory::default());
        let uploads: [(&[f32], usize); 3] = [(&[1.0, 0.0, 0.0], 1), (&[0.0, 3.0, 0.0], 1), (&[0.0, 3.0, 0.0], 1)];
        let found = defend_in(&gold, &[0.0; 3], &uploads, 0, &mut memory).expect("defended").1.expect("an aggregate");
        // One of three is trusted, so that the step has a third of its length; FedML's mean has all of it.
        close(&found, &[1.0 / 3.0, 0.0, 0.0]);
        defend_in(&gold, &[0.0; 3], &uploads, 1, &mut memory).expect("defended");
        assert_eq!(memory.vectors[&1], [0.0, 6.0]);
        let fedml = FoolsGold { confidence: 1.0, variant: Form::Fedml };
        let found = defend_in(&fedml, &[0.0; 3], &uploads, 0, &mut Memory::default()).expect("defended").1.expect("an aggregate");
        close(&found, &[1.0, 0.0, 0.0]);
    }
}
