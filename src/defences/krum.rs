//! Krum and Multi-Krum (Blanchard, El Mhamdi, Guerraoui, Stainer, NeurIPS 2017).

use super::common::{byzantine, enough};
use super::vectors::{distances, params};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// Keeps the uploads that have the nearest neighbours.
#[derive(Debug, Deserialize)]
pub(super) struct Krum {
    byzantine: usize,
    /// Uploads that are kept: one by Krum, m - f by Multi-Krum.
    #[serde(skip)]
    many: bool,
    #[serde(default)]
    select: Option<usize>,
}

pub(super) const NAME: &str = "krum";
pub(super) const MANY: &str = "multi-krum";
const RULE: &str = "n >= 2f + 3";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Keeps one upload, that with the smallest sum of its m - f - 2 smallest squared distances to others of m uploads (Blanchard \
              et al., NeurIPS 2017). Needs n >= 2f + 3.",
        revision: 1,
        fields: vec![byzantine()],
    }
}

pub(super) fn multi() -> Variant {
    Variant {
        name: MANY,
        doc: "Keeps the uploads with the smallest scores of Krum, which are then averaged by samples (Blanchard et al., NeurIPS 2017). \
              Needs n >= 2f + 3.",
        revision: 1,
        fields: vec![
            byzantine(),
            Field::optional("select", Type::at_least(1), "How many uploads are kept; m - f of m when absent.").from("m", "the paper"),
        ],
    }
}

impl Krum {
    /// With the name of Multi-Krum.
    pub fn many(self) -> Self {
        Self { many: true, ..self }
    }
}

/// The score of each upload: the sum of the `neighbours` smallest of its distances to others.
pub(super) fn scores(distances: &[Vec<f64>], neighbours: usize) -> Vec<f64> {
    let score = |(i, row): (usize, &Vec<f64>)| {
        let mut others: Vec<f64> = row.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| *d).collect();
        others.sort_unstable_by(f64::total_cmp);
        others.iter().take(neighbours).sum()
    };
    distances.iter().enumerate().map(score).collect()
}

/// The positions of the `count` smallest scores, ascending; equal scores in their order.
pub(super) fn smallest(scores: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    order.truncate(count);
    order.sort_unstable();
    order
}

impl Intervention for Krum {
    fn name(&self) -> &'static str {
        if self.many { MANY } else { NAME }
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn uploads(&self, uploads: usize) -> Outcome<()> {
        enough(self.name(), uploads, self.byzantine.saturating_mul(2).saturating_add(3), RULE)?;
        enough(self.name(), uploads, self.select.unwrap_or(1), "at least as many uploads as it selects")
    }
    fn sent(&self, _: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let (m, f) = (sent.len(), self.byzantine);
        enough(self.name(), m, f.saturating_mul(2).saturating_add(3), RULE)?;
        let keep = if self.many { self.select.unwrap_or(m - f) } else { 1 };
        let kept = smallest(&scores(&distances(&params(sent)), m - f - 2), keep);
        let clients: Vec<usize> = kept.iter().map(|i| sent[*i].client).collect();
        sent.retain(|sent| clients.contains(&sent.client));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend;
    use super::*;

    const UPLOADS: [(&[f32], usize); 5] = [(&[0.0, 0.0], 1), (&[1.0, 0.0], 1), (&[0.0, 2.0], 1), (&[9.0, 9.0], 1), (&[1.0, 1.0], 1)];

    fn ids(defence: &Krum) -> Vec<usize> {
        let (kept, aggregate) = defend(defence, &[0.0, 0.0], &UPLOADS).expect("defended");
        assert_eq!(aggregate, None);
        kept.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_upload_with_the_nearest_neighbours_is_kept() {
        // With f = 1 the two nearest count. Squared distances: 0-1: 1, 0-2: 4, 0-4: 2, 1-2: 5, 1-4: 1, 2-4: 2, 3 is far.
        // Scores: 1 + 2, 1 + 1, 2 + 4, far, 1 + 2.
        let all = distances(&UPLOADS.map(|(v, _)| v));
        assert_eq!(scores(&all, 2), [3.0, 2.0, 6.0, 128.0 + 130.0, 3.0]);
        assert_eq!(ids(&Krum { byzantine: 1, many: false, select: None }), [1]);
        assert_eq!(ids(&Krum { byzantine: 1, many: true, select: None }), [0, 1, 2, 4]);
        assert_eq!(ids(&Krum { byzantine: 1, many: true, select: Some(2) }), [0, 1]);
    }

    #[test]
    fn the_rule_is_named_where_it_does_not_hold() {
        let fault = defend(&Krum { byzantine: 2, many: false, select: None }, &[0.0, 0.0], &UPLOADS).expect_err("5 < 7");
        assert!(fault.what.contains("n >= 2f + 3") && fault.what.contains("at least 7"), "{fault}");
    }
}
