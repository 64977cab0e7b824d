//! Norm-difference clipping (Sun, Kairouz, Suresh, McMahan, 2019).

use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// v_i <- g + (v_i - g) / max(1, ||v_i - g|| / bound).
#[derive(Debug, Deserialize)]
pub(super) struct NormClipping {
    bound: f64,
}

pub(super) const NAME: &str = "norm-clipping";

/// The greatest length of a step.
pub(super) fn bound() -> Field {
    Field::with("bound", Type::positive(), 1.0, "The greatest Euclidean length of a client's step; longer ones are shortened to it.")
        .from("b", "no published value; 0.1 to 0.33 are used where steps are small")
}

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Shortens long steps: v_i <- g + (v_i - g) / max(1, ||v_i - g|| / bound), where g is the server's model (Sun et al., 2019).",
        revision: 1,
        fields: vec![bound()],
    }
}

/// Shortens the step of every upload to `bound`.
pub(super) fn clip(sent: &mut [Sent], reference: &[f32], bound: f64) {
    for sent in sent {
        let length = super::vectors::squared_distance(&sent.params, reference).sqrt();
        if length > bound {
            let factor = (bound / length) as f32;
            sent.params.iter_mut().zip(reference).for_each(|(v, g)| *v = g + factor * (*v - g));
        }
    }
}

impl Intervention for NormClipping {
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
        clip(sent, exchange.reference, self.bound);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::defend;
    use super::*;

    #[test]
    fn long_steps_are_shortened_and_short_ones_left_alone() {
        let uploads: [(&[f32], usize); 2] = [(&[4.0, 5.0], 1), (&[1.0, 1.5], 1)];
        let (kept, aggregate) = defend(&NormClipping { bound: 2.5 }, &[1.0, 1.0], &uploads).expect("defended");
        assert_eq!((kept, aggregate), (vec![(0, vec![2.5, 3.0]), (1, vec![1.0, 1.5])], None));
    }
}
