//! Flipped updates: the step against the one that was trained.

use super::band;
use super::forgery::{Forgery, scale};
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// W <- g - strength (W - g); with strength 1 that is 2g - W.
#[derive(Debug, Deserialize)]
pub(super) struct SignFlip {
    strength: f64,
}

pub(super) fn variant() -> Variant {
    let strength = Field::with("strength", Type::positive(), 1.0, "Length of the flipped step over that of the trained one.");
    let mut fields = vec![strength.from("", "FedML"), band::redraw()];
    fields.extend(band::fields());
    Variant {
        name: SignFlip::NAME,
        doc: "Malicious clients send the step against theirs: W <- g - strength (W - g), where g is the server's model.",
        revision: 1,
        fields,
    }
}

impl Forgery for SignFlip {
    const NAME: &'static str = "sign-flip";
    fn forge(&self, exchange: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], _: u64, _: &mut Memory) {
        attackers.iter().for_each(|i| scale(&mut sent[*i].params, exchange.reference, -self.strength as f32));
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::forge;
    use super::*;

    #[test]
    fn the_step_is_turned_around() {
        let sent = forge(&SignFlip { strength: 1.0 }, &[1.0, 1.0], &[&[3.0, 0.0], &[3.0, 0.0]], &[0], 0);
        assert_eq!(sent, [[-1.0, 2.0], [3.0, 0.0]]);
        assert_eq!(forge(&SignFlip { strength: 3.0 }, &[1.0], &[&[2.0]], &[0], 0), [[-2.0]]);
    }
}
