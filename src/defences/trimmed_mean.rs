//! Trimmed mean (Yin, Chen, Ramchandran, Bartlett, ICML 2018).

use super::common::{Form, enough};
use super::vectors::{by_coordinate, params};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use serde::Deserialize;

/// The mean of each coordinate without its k greatest and k smallest values, k = floor(beta m).
#[derive(Debug, Deserialize)]
pub(super) struct TrimmedMean {
    beta: f64,
    variant: Form,
}

pub(super) const NAME: &str = "trimmed-mean";
const RULE: &str = "m > 2 floor(beta m)";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "The mean of each coordinate without its floor(beta m) greatest and smallest of m values (Yin et al., ICML 2018). Uploads \
              count equally.",
        revision: 1,
        fields: vec![
            Field::with(
                "beta",
                Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(0.5) },
                0.2,
                "The fraction that is left out at each end: at least that of the attackers.",
            )
            .from("beta", "no published value"),
            Form::field(
                "FedML sorts whole uploads by their number of samples, leaves out floor(beta m) at each end, and weighs the others by \
                 samples.",
            ),
        ],
    }
}

/// The number of values that are left out at each end of m.
pub(super) fn trimmed(m: usize, beta: f64) -> usize {
    // A product such as 0.2 * 15 lies a little below the whole number that is meant.
    (m as f64 * beta + 1e-9) as usize
}

/// The mean of each coordinate without its `k` greatest and smallest values.
pub(super) fn trim(vectors: &[&[f32]], k: usize) -> Vec<f32> {
    by_coordinate(vectors, |values| {
        let kept = &values[k..values.len() - k];
        (kept.iter().map(|v| f64::from(*v)).sum::<f64>() / kept.len() as f64) as f32
    })
}

/// Leaves out the `k` uploads with the fewest and the `k` with the most samples; equal numbers in the order of clients.
pub(super) fn trim_by_samples(sent: &mut Vec<Sent>, k: usize) {
    let mut order: Vec<(usize, usize)> = sent.iter().map(|sent| (sent.samples, sent.client)).collect();
    order.sort_unstable();
    let kept: Vec<usize> = order[k..order.len() - k].iter().map(|(_, client)| *client).collect();
    sent.retain(|sent| kept.contains(&sent.client));
}

impl Intervention for TrimmedMean {
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
        enough(NAME, uploads, 2 * trimmed(uploads, self.beta) + 1, RULE)
    }
    fn sent(&self, _: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let k = trimmed(sent.len(), self.beta);
        enough(NAME, sent.len(), 2 * k + 1, RULE)?;
        if self.variant == Form::Fedml {
            trim_by_samples(sent, k);
            return Ok(None);
        }
        Ok(Some(trim(&params(sent), k)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend;
    use super::*;

    #[test]
    fn the_extremes_of_each_coordinate_or_of_the_sample_counts_are_left_out() {
        let uploads: [(&[f32], usize); 5] =
            [(&[1.0, 50.0], 10), (&[2.0, 1.0], 20), (&[3.0, 2.0], 30), (&[4.0, 3.0], 40), (&[-90.0, 4.0], 50)];
        let paper = TrimmedMean { beta: 0.2, variant: Form::Paper };
        assert_eq!(defend(&paper, &[0.0, 0.0], &uploads).expect("defended").1, Some(vec![2.0, 3.0]));
        let fedml = TrimmedMean { beta: 0.2, variant: Form::Fedml };
        let (kept, aggregate) = defend(&fedml, &[0.0, 0.0], &uploads).expect("defended");
        assert_eq!((kept.iter().map(|(id, _)| *id).collect::<Vec<_>>(), aggregate), (vec![1, 2, 3], None));
    }

    #[test]
    fn fractions_are_rounded_down_but_not_by_accident() {
        assert_eq!(trimmed(15, 0.2), 3);
        assert_eq!(trimmed(10, 0.3), 3);
        assert_eq!(trimmed(9, 0.1), 0);
    }
}
