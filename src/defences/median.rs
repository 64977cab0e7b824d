//! Coordinate-wise median (Yin, Chen, Ramchandran, Bartlett, ICML 2018).

use super::common::Form;
use super::vectors::{by_coordinate, params};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::Variant;
use serde::Deserialize;

/// The median of each coordinate over the uploads, whatever their weights.
#[derive(Debug, Deserialize)]
pub(super) struct Median {
    variant: Form,
}

pub(super) const NAME: &str = "median";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "The median of each coordinate (Yin et al., ICML 2018). Uploads count equally.",
        revision: 1,
        fields: vec![Form::field("Of an even number of values FedML takes the lower of the two in the middle, instead of their mean.")],
    }
}

impl Intervention for Median {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn sent(&self, _: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        Ok(Some(by_coordinate(&params(sent), |values| match (values.len(), self.variant) {
            (n, Form::Paper) if n % 2 == 0 => f32::midpoint(values[n / 2 - 1], values[n / 2]),
            (n, _) => values[(n - 1) / 2],
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend;
    use super::*;

    #[test]
    fn the_middle_of_each_coordinate() {
        let median = |variant, uploads: &[(&[f32], usize)]| defend(&Median { variant }, &[0.0, 0.0], uploads).expect("defended").1;
        let odd: [(&[f32], usize); 3] = [(&[1.0, 9.0], 1), (&[100.0, -5.0], 7), (&[2.0, 0.0], 1)];
        assert_eq!(median(Form::Paper, &odd), Some(vec![2.0, 0.0]));
        let even: [(&[f32], usize); 4] = [(&[1.0, 0.0], 1), (&[9.0, 0.0], 1), (&[2.0, 0.0], 1), (&[4.0, 0.0], 1)];
        assert_eq!(median(Form::Paper, &even), Some(vec![3.0, 0.0]));
        assert_eq!(median(Form::Fedml, &even), Some(vec![2.0, 0.0]));
    }
}
