//! Zero parameters: W = 0.

use super::band;
use super::forgery::Forgery;
use crate::fl::{Exchange, Memory, Sent};
use crate::spec::catalog::Variant;
use serde::Deserialize;

/// W = 0.
#[derive(Debug, Deserialize)]
pub(super) struct Zero {}

pub(super) fn variant() -> Variant {
    let mut fields = vec![band::redraw()];
    fields.extend(band::fields());
    Variant { name: Zero::NAME, doc: "Malicious clients send zeros.", revision: 1, fields }
}

impl Forgery for Zero {
    const NAME: &'static str = "zero";
    fn forge(&self, _: &Exchange<'_>, sent: &mut [Sent], attackers: &[usize], _: u64, _: &mut Memory) {
        attackers.iter().for_each(|i| sent[*i].params.fill(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::forgery::tests::forge;
    use super::*;

    #[test]
    fn attackers_send_zeros() {
        assert_eq!(forge(&Zero {}, &[9.0], &[&[1.0], &[2.0]], &[1], 0), [[1.0], [0.0]]);
    }
}
