//! Arithmetic on what clients sent, in f64 where sums are long.

use crate::fl::{Exchange, Sent};
use std::ops::Range;

/// The squared Euclidean distance.
pub(super) fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    // Eight sums at once, which do not wait for each other; the order is always the same.
    let mut sums = [0.0f64; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    for (a, b) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += f64::from(a[i] - b[i]).powi(2);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The squared distances of all pairs; what is not a number is infinitely far.
pub(super) fn distances(vectors: &[&[f32]]) -> Vec<Vec<f64>> {
    let n = vectors.len();
    let mut all = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..i {
            let d = squared_distance(vectors[i], vectors[j]);
            let d = if d.is_nan() { f64::INFINITY } else { d };
            (all[i][j], all[j][i]) = (d, d);
        }
    }
    all
}

/// The mean with these weights, which need not sum to 1; all zeros when their sum is 0.
pub(super) fn mean(vectors: &[&[f32]], weights: &[f64]) -> Vec<f32> {
    let total: f64 = weights.iter().sum();
    let mut sum = vec![0.0f64; vectors.first().map_or(0, |v| v.len())];
    if total > 0.0 {
        for (vector, weight) in vectors.iter().zip(weights) {
            let share = weight / total;
            // What has no weight must not spoil the mean, whatever it is.
            if share == 0.0 {
                continue;
            }
            sum.iter_mut().zip(vector.iter()).for_each(|(sum, v)| *sum += share * f64::from(*v));
        }
    }
    sum.into_iter().map(|v| v as f32).collect()
}

/// The parameters of all uploads.
pub(super) fn params(sent: &[Sent]) -> Vec<&[f32]> {
    sent.iter().map(|sent| &sent.params[..]).collect()
}

/// The weights of all uploads.
pub(super) fn weights(sent: &[Sent]) -> Vec<f64> {
    sent.iter().map(|sent| sent.weight).collect()
}

/// Where the layer stands that tells clients apart: the last but one of the averaged tensors, which is the weight of the last layer
/// where that has a bias; all parameters when there are fewer than two tensors.
pub(super) fn feature(exchange: &Exchange<'_>) -> Range<usize> {
    match exchange.entries {
        [.., (_, feature), _] => feature.clone(),
        _ => 0..exchange.reference.len(),
    }
}

/// The aggregate of every coordinate for itself: `pick` is handed the sorted values of all uploads.
pub(super) fn by_coordinate(vectors: &[&[f32]], pick: impl Fn(&mut [f32]) -> f32) -> Vec<f32> {
    let mut values = vec![0.0; vectors.len()];
    (0..vectors.first().map_or(0, |v| v.len()))
        .map(|k| {
            values.iter_mut().zip(vectors).for_each(|(value, vector)| *value = vector[k]);
            values.sort_unstable_by(f32::total_cmp);
            pick(&mut values)
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::base::Outcome;
    use crate::fl::{Intervention, Memory};

    /// What a defence makes of uploads with these numbers of samples: the vectors that are left by client, or the aggregate.
    pub fn defend(defence: &dyn Intervention, reference: &[f32], uploads: &[(&[f32], usize)]) -> Outcome<Defended> {
        defend_in(defence, reference, uploads, 0, &mut Memory::default())
    }

    /// Vectors that are left with their clients, and the aggregate where there is one.
    pub type Defended = (Vec<(usize, Vec<f32>)>, Option<Vec<f32>>);

    pub fn defend_in(
        defence: &dyn Intervention,
        reference: &[f32],
        uploads: &[(&[f32], usize)],
        round: u64,
        memory: &mut Memory,
    ) -> Outcome<Defended> {
        let total: usize = uploads.iter().map(|(_, samples)| samples).sum();
        let entries = [("fc.weight".to_owned(), 0..reference.len() - 1), ("fc.bias".to_owned(), reference.len() - 1..reference.len())];
        let exchange =
            Exchange { round, rounds: 9, clients: uploads.len(), nominal: uploads.len(), equal: false, reference, entries: &entries };
        let mut sent: Vec<Sent> = uploads
            .iter()
            .enumerate()
            .map(|(client, (p, samples))| Sent {
                client,
                samples: *samples,
                weight: *samples as f64 / total as f64,
                params: p.to_vec().into(),
            })
            .collect();
        let aggregate = defence.sent(&exchange, &mut sent, memory)?;
        Ok((sent.into_iter().map(|sent| (sent.client, sent.params.to_vec())).collect(), aggregate))
    }

    pub fn close(found: &[f32], wanted: &[f32]) {
        assert_eq!(found.len(), wanted.len());
        for (a, b) in found.iter().zip(wanted) {
            assert!((a - b).abs() < 1e-5, "{found:?} instead of {wanted:?}");
        }
    }

    #[test]
    fn distances_means_and_coordinates() {
        let long: Vec<f32> = (0..20).map(|i| i as f32).collect();
        assert_eq!(squared_distance(&long, &[0.0; 20]), 2470.0);
        assert_eq!(distances(&[&[0.0, 0.0], &[3.0, 4.0]]), [[0.0, 25.0], [25.0, 0.0]]);
        assert_eq!(mean(&[&[1.0], &[4.0]], &[2.0, 1.0]), [2.0]);
        assert_eq!(mean(&[&[1.0], &[4.0]], &[0.0, 0.0]), [0.0]);
        assert_eq!(distances(&[&[f32::NAN], &[0.0]])[0][1], f64::INFINITY);
        assert_eq!(mean(&[&[1.0], &[f32::NAN]], &[2.0, 0.0]), [1.0]);
        assert_eq!(by_coordinate(&[&[3.0, 1.0], &[1.0, 5.0], &[2.0, 0.0]], |v| v[1]), [2.0, 1.0]);
    }
}
