//! Scaled updates: a step that is too long.

use super::band;
use super::forgery::{Forgery, scale};
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// W <- g + factor (W - g).
#[derive(Debug, Deserialize)]
pub(super) struct Scaled {
    factor: f64,
}

pub(super) fn variant() -> Variant {
    let factor = Field::with("factor", Type::positive(), 10.0, "Length of the step that is sent over that of the trained one.");
    let mut fields = vec![factor.from("", "no published value"), band::redraw()];
    fields.extend(band::fields());
    Variant {
        name: Scaled::NAME,
        doc: "Malicious clients send a longer step: W <- g + factor (W - g), where g is the server's model.",
        revision: 1,
        fields,
    }
}

impl Forgery for Scaled {
    const NAME: &'static str = "scaled";
    fn forge(&self, exchange: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], _: u64, _: &mut Memory) {
        attackers.iter().for_each(|i| scale(&mut sent[*i].params, exchange.reference, self.factor as f32));
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::forge;
    use super::*;

    #[test]
    fn the_step_is_longer() {
        assert_eq!(forge(&Scaled { factor: 10.0 }, &[1.0], &[&[2.0], &[2.0]], &[1], 0), [[2.0], [11.0]]);
    }
}
