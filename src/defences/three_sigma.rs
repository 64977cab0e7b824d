//! Three sigma: uploads that are too far from a carried-over centre are refused. FedML's own defence, though its bound is half a sigma.

use super::common::enough;
use super::krum::{scores, smallest};
use super::vectors::{distances, feature, mean, squared_distance};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// Refuses uploads whose distance to the centre is above mu + sigmas sigma.
#[derive(Debug, Deserialize)]
pub(super) struct ThreeSigma {
    sigmas: f64,
    feature: Feature,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Feature {
    LastLayer,
    All,
}

pub(super) const NAME: &str = "three-sigma";
const RULE: &str = "a Krum centre in its first round";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Refuses uploads whose distance to a centre is above mu + sigmas sigma of all distances of the round. The centre is that of \
              Krum's choice (with the most attackers it allows) in the first round, later the mean of what was accepted in the round \
              before. FedML's defence; its bound is half a sigma, in spite of its name.",
        revision: 1,
        fields: vec![
            Field::with("sigmas", Type::non_negative(), 0.5, "How many (population) standard deviations above the mean are accepted.")
                .from("lambda", "FedML"),
            Field::with(
                "feature",
                Type::Choice(&[
                    ("last-layer", "the last tensor but one of the averaged ones: the weight of the last layer, as FedML"),
                    ("all", "all averaged parameters"),
                ]),
                "last-layer",
                "Of what distances are taken.",
            ),
        ],
    }
}

impl Intervention for ThreeSigma {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn uploads(&self, uploads: usize) -> Outcome<()> {
        enough(NAME, uploads, 3, RULE)
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let range = if self.feature == Feature::All { 0..exchange.reference.len() } else { feature(exchange) };
        let features: Vec<&[f32]> = sent.iter().map(|sent| &sent.params[range.clone()]).collect();
        let m = features.len();
        let centre = match memory.vectors.get(&0) {
            Some(centre) => centre.clone(),
            None => {
                enough(NAME, m, 3, RULE)?;
                let most = (m - 3) / 2;
                features[smallest(&scores(&distances(&features), m - most - 2), 1)[0]].to_vec()
            }
        };
        let far: Vec<f64> = features.iter().map(|feature| squared_distance(feature, &centre).sqrt()).collect();
        let mean_distance = far.iter().sum::<f64>() / m as f64;
        let deviation = (far.iter().map(|d| (d - mean_distance).powi(2)).sum::<f64>() / m as f64).sqrt();
        let bound = mean_distance + self.sigmas * deviation;
        // What is not a number is refused too. Where all are equally far, rounding must not refuse anybody.
        let accepted: Vec<bool> = far.iter().map(|d| *d <= bound * (1.0 + 1e-12)).collect();
        let kept: Vec<&[f32]> = features.iter().zip(&accepted).filter(|(_, kept)| **kept).map(|(feature, _)| *feature).collect();
        if !kept.is_empty() {
            let carried = mean(&kept, &vec![1.0; kept.len()]);
            memory.vectors.insert(0, carried);
        }
        let mut accepted = accepted.into_iter();
        sent.retain(|_| accepted.next().unwrap_or(false));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend_in;
    use super::*;

    #[test]
    fn the_far_upload_is_refused_and_the_centre_is_the_mean_of_the_others() {
        let uploads: [(&[f32], usize); 4] = [(&[1.0, 0.0], 1), (&[2.0, 0.0], 1), (&[3.0, 0.0], 1), (&[50.0, 0.0], 1)];
        let (sigma, mut memory) = (ThreeSigma { sigmas: 0.5, feature: Feature::LastLayer }, Memory::default());
        // Krum's centre with f = 0 counts two neighbours: scores 1 + 4, 1 + 1, 1 + 4, far: the second.
        let (kept, _) = defend_in(&sigma, &[0.0, 0.0], &uploads, 0, &mut memory).expect("defended");
        assert_eq!(kept.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(memory.vectors[&0], [2.0]);
        // From then on the carried-over centre decides: around 2 nobody of three equal distances is refused.
        let equal: [(&[f32], usize); 2] = [(&[1.0, 0.0], 1), (&[3.0, 0.0], 1)];
        let (kept, _) = defend_in(&sigma, &[0.0, 0.0], &equal, 1, &mut memory).expect("defended");
        assert_eq!(kept.len(), 2);
    }
}
