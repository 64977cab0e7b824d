//! Bulyan (El Mhamdi, Guerraoui, Rouault, ICML 2018).

use super::common::{Form, byzantine, enough};
use super::krum::{scores, smallest};
use super::vectors::{distances, params};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::Variant;
use serde::Deserialize;

/// Selects theta = m - 2f uploads by Krum, one by one; then the mean of the theta - 2f values closest to the median, per coordinate.
#[derive(Debug, Deserialize)]
pub(super) struct Bulyan {
    byzantine: usize,
    variant: Form,
}

pub(super) const NAME: &str = "bulyan";
const RULE: &str = "n >= 4f + 3";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Selects theta = m - 2f of m uploads by Krum, one after the other, and takes of each coordinate the mean of the theta - 2f \
              values closest to their median (El Mhamdi et al., ICML 2018). Needs n >= 4f + 3. Uploads count equally.",
        revision: 1,
        fields: vec![
            byzantine(),
            Form::field(
                "FedML does not square distances, sums those to m' - f neighbours of the m' uploads that are left instead of m' - f - 2, \
                 and averages one value fewer.",
            ),
        ],
    }
}

impl Bulyan {
    /// The positions that Krum selects one after the other.
    fn select(&self, distances: &[Vec<f64>], theta: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..distances.len()).collect();
        let mut selected = Vec::with_capacity(theta);
        while selected.len() < theta {
            let part: Vec<Vec<f64>> = left.iter().map(|i| left.iter().map(|j| distances[*i][*j]).collect()).collect();
            let spared = self.byzantine + if self.variant == Form::Paper { 2 } else { 0 };
            // Toward the end fewer are left than the formula leaves out; the nearest one decides then.
            let neighbours = left.len().saturating_sub(spared).max(1);
            let best = smallest(&scores(&part, neighbours), 1)[0];
            selected.push(left.remove(best));
        }
        selected.sort_unstable();
        selected
    }
}

/// The mean of the `count` of the sorted values that are closest to their median; of two equally close ones the smaller.
fn around_the_median(sorted: &[f32], count: usize) -> f32 {
    let n = sorted.len();
    let median = if n.is_multiple_of(2) { f32::midpoint(sorted[n / 2 - 1], sorted[n / 2]) } else { sorted[n / 2] };
    let mut order: Vec<f32> = sorted.to_vec();
    order.sort_by(|a, b| (a - median).abs().total_cmp(&(b - median).abs()));
    (order[..count].iter().map(|v| f64::from(*v)).sum::<f64>() / count as f64) as f32
}

impl Intervention for Bulyan {
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
        enough(NAME, uploads, self.byzantine.saturating_mul(4).saturating_add(3), RULE)
    }
    fn sent(&self, _: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let (m, f) = (sent.len(), self.byzantine);
        enough(NAME, m, f.saturating_mul(4).saturating_add(3), RULE)?;
        let vectors = params(sent);
        let mut distances = distances(&vectors);
        if self.variant == Form::Fedml {
            distances.iter_mut().flatten().for_each(|d| *d = d.sqrt());
        }
        let theta = m - 2 * f;
        let selected: Vec<&[f32]> = self.select(&distances, theta).into_iter().map(|i| vectors[i]).collect();
        let count = theta - 2 * f - usize::from(self.variant == Form::Fedml);
        Ok(Some(super::vectors::by_coordinate(&selected, |sorted| around_the_median(sorted, count))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::{close, defend};
    use super::*;

    #[test]
    fn values_around_the_median_of_the_selected_uploads_are_averaged() {
        assert_eq!(around_the_median(&[1.0, 2.0, 3.0, 10.0, 20.0], 3), 2.0);
        assert_eq!(around_the_median(&[1.0, 2.0, 4.0, 9.0], 2), 3.0);
        // m = 7, f = 1: theta = 5, of which 3 values are averaged. The far upload is never selected, and of the others, which stand at
        // distance 1 in a row, the last at the end is left: the first of two equally good ones goes first.
        let values = [0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0];
        let vectors: Vec<[f32; 2]> = values.iter().map(|v| [*v, 0.0]).collect();
        let uploads: Vec<(&[f32], usize)> = vectors.iter().map(|v| (&v[..], 1)).collect();
        let bulyan = Bulyan { byzantine: 1, variant: Form::Paper };
        let selected = bulyan.select(&distances(&uploads.iter().map(|(v, _)| *v).collect::<Vec<_>>()), 5);
        assert!(!selected.contains(&6), "{selected:?}");
        let (_, aggregate) = defend(&bulyan, &[0.0, 0.0], &uploads).expect("defended");
        let mut chosen: Vec<f32> = selected.iter().map(|i| values[*i]).collect();
        chosen.sort_unstable_by(f32::total_cmp);
        close(&aggregate.expect("an aggregate"), &[around_the_median(&chosen, 3), 0.0]);
        assert!(defend(&bulyan, &[0.0, 0.0], &uploads[..6]).expect_err("6 < 7").what.contains("n >= 4f + 3"));
    }

    #[test]
    fn both_forms_are_those_computed_by_hand() {
        // Seven values in a row, f = 1, theta = 5. The paper adds up squares of m' - 3 neighbours: 2 goes first, then 3, 1, 4 and, since
        // 0 and 5 are equally good in the end, 0; of 0 to 4 the three values around 2 make 2. FedML adds up distances to m' - 1
        // neighbours: 3, 2, 4, 1, 5; of 1 to 5 the two values nearest to 3, of two equally near ones the smaller, make 2.5.
        let values = [0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0];
        let vectors: Vec<[f32; 2]> = values.iter().map(|v| [*v, 0.0]).collect();
        let uploads: Vec<(&[f32], usize)> = vectors.iter().map(|v| (&v[..], 1)).collect();
        for (variant, wanted) in [(Form::Paper, 2.0), (Form::Fedml, 2.5)] {
            let (_, aggregate) = defend(&Bulyan { byzantine: 1, variant }, &[0.0, 0.0], &uploads).expect("defended");
            close(&aggregate.expect("an aggregate"), &[wanted, 0.0]);
        }
    }

    #[test]
    fn without_attackers_to_withstand_it_is_the_plain_mean() {
        let uploads: [(&[f32], usize); 4] = [(&[1.0, 0.0], 1), (&[2.0, 0.0], 9), (&[3.0, 0.0], 1), (&[6.0, 4.0], 1)];
        let (_, aggregate) = defend(&Bulyan { byzantine: 0, variant: Form::Paper }, &[0.0, 0.0], &uploads).expect("defended");
        close(&aggregate.expect("an aggregate"), &[3.0, 1.0]);
    }
}
