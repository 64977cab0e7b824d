//! TextCNN: convolutions of several lengths over the words of a text, the greatest value of each channel, dropout, and the head.
//!
//! PFLlib's ends with a log-softmax; cross-entropy of logits is the same loss, so there is none here.

use super::{DROPOUT, Fields, SIZES, unless};
use crate::base::{Fault, Outcome};
use crate::engine::{Layer, Network, Shape};
use crate::spec::catalog::{Field, Type, Variant};
use crate::spec::rules::Breach;
use serde_json::json;

pub(super) fn variant() -> Variant {
    const SOURCE: &str = "PFLlib TextCNN";
    let mut fields = vec![
        Field::with("hidden", SIZES, 512, "Numbers of a word's vector.").from("feature_dim", "PFLlib"),
        Field::with("channels", SIZES, 100, "Channels of each convolution.").from("", SOURCE),
        Field::with("kernels", Type::List(Box::new(SIZES)), json!([3, 4, 5]), "Words that each convolution spans.").from("", SOURCE),
        Field::with("dropout", DROPOUT, 0.8, "Probability that a feature is set to 0 in training.").from("", SOURCE),
    ];
    fields.extend(super::of_words());
    Variant { name: "textcnn", doc: "Convolutions over the words of a text, their greatest values, then the head.", revision: 1, fields }
}

pub(super) fn rules(fields: &Fields<'_>) -> Vec<Breach> {
    unless(fields.sizes("kernels").is_ok_and(|kernels| !kernels.is_empty()), "kernels", || Fault::stage("`kernels` is empty"))
}

pub(super) fn build(fields: &Fields<'_>, shape: Shape, classes: usize) -> Outcome<Network> {
    let (out, kernels, length) = (fields.size("channels")?, fields.sizes("kernels")?, shape.numel());
    if kernels.iter().any(|kernel| *kernel > length || *kernel == 0) {
        return Err(Fault::stage(format!("the kernels span {kernels:?} words, but the texts have {length}"))
            .help("choose kernels from 1 to the length of the texts, or longer texts"));
    }
    let mut layers = vec![fields.embedding("embedding", fields.size("hidden")?, true)?, Layer::save("words")];
    let name = |index: usize| format!("conv{}", index + 1);
    for (index, &kernel) in kernels.iter().enumerate() {
        layers.extend([
            Layer::load("words"),
            Layer::Conv1d { name: format!("{}.0", name(index)), out, kernel, stride: 1, padding: 0, bias: true },
            Layer::Relu,
            Layer::MaxPool2d { kernel: (1, length - kernel + 1), stride: (1, 1), padding: (0, 0), ceil: false },
        ]);
        if index + 1 < kernels.len() {
            layers.push(Layer::save(&name(index)));
        }
    }
    if kernels.len() > 1 {
        layers.push(Layer::Concat { names: (0..kernels.len() - 1).map(name).collect() });
    }
    layers.extend([Layer::Flatten, Layer::Dropout { p: fields.float("dropout")?, channels: false }]);
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Network::build(shape, layers, head)
}
