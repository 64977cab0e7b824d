//! The multi-layer perceptron: dense layers with activations, then the head.
//!
//! PFLlib's DNN ends with a log-softmax; cross-entropy of logits is the same loss, so there is none here.

use super::{Fields, SIZES};
use crate::base::Outcome;
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant, When};
use serde_json::json;

pub(super) fn variant() -> Variant {
    Variant {
        name: "mlp",
        doc: "Dense layers, each with an activation, on the flattened input, then the head.",
        revision: 1,
        fields: vec![
            Field::with(
                "hidden",
                Type::List(Box::new(SIZES)),
                json!([100]),
                "Units of each hidden layer; the last is the number of features.",
            )
            .from("", "PFLlib DNN"),
            Field {
                introduced: Some(json!("relu")),
                ..Field::with("activation", super::ACTIVATIONS, "relu", "What follows each hidden layer.")
                    .read_with("hidden", When::IsNot(&["[]"]))
            },
        ],
    }
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let activation = fields.activation("activation")?;
    let mut layers = vec![Layer::Flatten];
    for (index, &units) in fields.sizes("hidden")?.iter().enumerate() {
        layers.extend([Layer::linear(&format!("fc{}", index + 1), units), activation.clone()]);
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
