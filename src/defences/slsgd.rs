//! SLSGD (Xie, Koyejo, Gupta, ECML-PKDD 2019): a trimmed mean, of which the server takes only a part.

use super::common::{Form, enough};
use super::trimmed_mean::{trim, trim_by_samples};
use super::vectors::{mean, params, weights};
use crate::base::Outcome;
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use serde::Deserialize;

/// g <- (1 - alpha) g + alpha trimmed mean.
#[derive(Debug, Deserialize)]
pub(super) struct Slsgd {
    alpha: f64,
    trim: usize,
    variant: Form,
}

pub(super) const NAME: &str = "slsgd";
const RULE: &str = "m > 2b";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "g <- (1 - alpha) g + alpha T, where T is the mean of each coordinate without its b greatest and b smallest values (Xie et \
              al., ECML-PKDD 2019). With b = 0 uploads are averaged by samples. Needs m > 2b uploads.",
        revision: 1,
        fields: vec![
            Field::with("alpha", Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1.0) }, 0.8, "The part that is taken of the mean.")
                .from("alpha", "no published default"),
            Field::with("trim", Type::at_least(0), 1, "Values left out at each end of a coordinate.").from("b", "no published default"),
            Form::field("FedML leaves out whole uploads with the fewest and the most samples, and weighs the others by samples."),
        ],
    }
}

impl Intervention for Slsgd {
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
        enough(NAME, uploads, self.trim.saturating_mul(2).saturating_add(1), RULE)
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, _: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        enough(NAME, sent.len(), self.trim.saturating_mul(2).saturating_add(1), RULE)?;
        let mean = if self.variant == Form::Fedml || self.trim == 0 {
            trim_by_samples(sent, self.trim);
            mean(&params(sent), &weights(sent))
        } else {
            trim(&params(sent), self.trim)
        };
        let alpha = self.alpha as f32;
        Ok(Some(exchange.reference.iter().zip(mean).map(|(g, t)| g + alpha * (t - g)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::{close, defend};
    use super::*;

    #[test]
    fn the_server_moves_a_part_of_the_way_to_the_trimmed_mean() {
        let uploads: [(&[f32], usize); 4] = [(&[1.0, 0.0], 1), (&[90.0, 2.0], 2), (&[3.0, 4.0], 3), (&[5.0, -70.0], 4)];
        let slsgd = |trim, variant| Slsgd { alpha: 0.5, trim, variant };
        let aggregate = |defence: &Slsgd| defend(defence, &[2.0, 3.0], &uploads).expect("defended").1.expect("an aggregate");
        close(&aggregate(&slsgd(1, Form::Paper)), &[3.0, 2.0]);
        close(&aggregate(&slsgd(1, Form::Fedml)), &[0.5 * 2.0 + 0.5 * (90.0 * 0.4 + 3.0 * 0.6), 0.5 * 3.0 + 0.5 * (2.0 * 0.4 + 4.0 * 0.6)]);
        assert!(defend(&slsgd(2, Form::Paper), &[2.0, 3.0], &uploads).expect_err("4 < 5").what.contains("m > 2b"));
    }
}
