//! RFA: the geometric median by the smoothed Weiszfeld algorithm (Pillutla, Kakade, Harchaoui, IEEE TSP 2022).

use super::common::Form;
use super::vectors::{mean, params, squared_distance, weights};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// argmin_z sum_i alpha_i ||z - v_i||.
#[derive(Debug, Deserialize)]
pub(super) struct Rfa {
    smoothing: f64,
    tolerance: f64,
    iterations: usize,
    variant: Form,
}

pub(super) const NAME: &str = "rfa";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "The geometric median of the uploads, weighed by samples, by the smoothed Weiszfeld algorithm: z <- sum_i w_i v_i / sum_i \
              w_i with w_i = alpha_i / max(smoothing, ||z - v_i||) (Pillutla et al., IEEE TSP 2022).",
        revision: 1,
        fields: vec![
            Field::with("smoothing", Type::positive(), 1e-5, "The least distance that is divided by.")
                .from("nu", "FedML; 1e-6 in the paper"),
            Field::with("tolerance", Type::non_negative(), 1e-10, "It ends when the objective changes by less than this fraction.")
                .from("", "FedML"),
            Field::with("iterations", Type::at_least(1), 100, "The most iterations.").from("R", "FedML; 3 in the paper"),
            Form::field(
                "FedML finds a median for each tensor of its own, and divides the weights of the iteration before instead of alpha_i. (It \
                 also loses equal weights, since it keeps them in a set; that is not repeated here.)",
            ),
        ],
    }
}

impl Rfa {
    /// The geometric median of `points` with the weights `alpha`, which sum to 1.
    fn median(&self, points: &[&[f32]], alpha: &[f64]) -> Vec<f32> {
        let objective = |distances: &[f64]| distances.iter().zip(alpha).map(|(d, a)| d * a).sum::<f64>();
        let apart = |z: &[f32]| points.iter().map(|p| squared_distance(z, p).sqrt()).collect::<Vec<f64>>();
        let mut weights = alpha.to_vec();
        let mut z = mean(points, alpha);
        let mut distances = apart(&z);
        let mut last = objective(&distances);
        for _ in 0..self.iterations {
            let total: f64 = {
                let base = if self.variant == Form::Paper { alpha } else { &weights[..] };
                weights = base.iter().zip(&distances).map(|(a, d)| a / d.max(self.smoothing)).collect();
                if self.variant == Form::Fedml {
                    weights.iter_mut().for_each(|w| *w = w.max(self.smoothing));
                }
                weights.iter().sum()
            };
            weights.iter_mut().for_each(|w| *w /= total);
            z = mean(points, &weights);
            distances = apart(&z);
            let now = objective(&distances);
            if (last - now).abs() < self.tolerance * now {
                break;
            }
            last = now;
        }
        z
    }
}

impl Intervention for Rfa {
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
        let (points, alpha) = (params(sent), weights(sent));
        if self.variant == Form::Paper {
            return Ok(Some(self.median(&points, &alpha)));
        }
        let tensor = |(_, range): &(String, std::ops::Range<usize>)| {
            let part: Vec<&[f32]> = points.iter().map(|p| &p[range.clone()]).collect();
            self.median(&part, &alpha)
        };
        Ok(Some(exchange.entries.iter().flat_map(tensor).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::{close, defend};
    use super::*;

    fn rfa(variant: Form) -> Rfa {
        Rfa { smoothing: 1e-6, tolerance: 1e-12, iterations: 1000, variant }
    }

    #[test]
    fn the_median_of_a_symmetric_cross_is_its_center_and_a_heavy_point_wins() {
        let cross: [(&[f32], usize); 4] = [(&[3.0, 2.0], 1), (&[1.0, 2.0], 1), (&[2.0, 12.0], 1), (&[2.0, -8.0], 1)];
        close(&defend(&rfa(Form::Paper), &[0.0, 0.0], &cross).expect("defended").1.expect("an aggregate"), &[2.0, 2.0]);
        // With more than half of all weight in one point, that is the median.
        let heavy: [(&[f32], usize); 3] = [(&[1.0, 1.0], 3), (&[100.0, 0.0], 1), (&[0.0, 100.0], 1)];
        let found = defend(&rfa(Form::Paper), &[0.0, 0.0], &heavy).expect("defended").1.expect("an aggregate");
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn the_fermat_point_of_a_triangle() {
        // Of the right triangle with legs 1 the Fermat point is (1 - 1/sqrt 3)/2 in both coordinates.
        let triangle: [(&[f32], usize); 3] = [(&[0.0, 0.0], 1), (&[1.0, 0.0], 1), (&[0.0, 1.0], 1)];
        let wanted = ((1.0 - 1.0 / 3.0f64.sqrt()) / 2.0) as f32;
        close(&defend(&rfa(Form::Paper), &[0.0, 0.0], &triangle).expect("defended").1.expect("an aggregate"), &[wanted, wanted]);
    }

    #[test]
    fn fedml_takes_each_tensor_for_itself() {
        // The two tensors of the test have one value each: medians of single numbers.
        let uploads: [(&[f32], usize); 3] = [(&[0.0, 7.0], 1), (&[1.0, 5.0], 1), (&[50.0, 6.0], 1)];
        let found = defend(&rfa(Form::Fedml), &[0.0, 0.0], &uploads).expect("defended").1.expect("an aggregate");
        assert!((found[0] - 1.0).abs() < 0.05 && (found[1] - 6.0).abs() < 0.05, "{found:?}");
    }
}
