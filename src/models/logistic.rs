//! Multinomial logistic regression: one dense layer on the flattened input. All of it is head; the base has no parameters.

use super::Fields;
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::Variant;

pub(super) fn variant() -> Variant {
    Variant {
        name: "logistic",
        doc: "One dense layer on the flattened input; methods that share only the base share nothing.",
        revision: 1,
        fields: Vec::new(),
    }
}

pub(super) fn build(_: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    Network::build(shape, vec![Layer::Flatten, Layer::linear("fc", classes)], 1)
}
