//! A model's head as a small model of its own, whose samples are feature vectors.

use crate::base::{Fault, Outcome};
use crate::engine::{Layer, Model, Network, Params, Part, Shape};
use std::sync::Arc;

/// A copy of the head alone; its base is empty.
///
/// # Errors
/// A stage fault when the network has no head of dense layers.
pub(crate) fn alone(model: &Model) -> Outcome<Model> {
    let net = &model.net;
    let first = net.layout().entries.iter().find(|entry| entry.part == Part::Head).map(|entry| entry.name.as_str());
    let begins = |layer: &Layer| match layer {
        Layer::Linear { name, .. } => first.and_then(|first| first.strip_prefix(name.as_str())).is_some_and(|rest| rest.starts_with('.')),
        _ => false,
    };
    let from = net.layers().iter().position(begins).ok_or_else(|| Fault::stage("the network has no head of dense layers"))?;
    let head = Network::build(Shape::vector(net.features()), net.layers()[from..].to_vec(), 0)?;
    let params = Params::from(model.params[net.layout().head()].to_vec());
    Ok(Model { net: Arc::new(head), params, buffers: Default::default(), training: true })
}

/// Overwrites the head of `model` by the parameters of one that stands alone.
pub(crate) fn put(model: &mut Model, head: &[f32]) {
    let range = model.net.layout().head();
    model.params[range].copy_from_slice(head);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};
    use crate::engine::Engine;

    #[test]
    fn a_head_alone_gives_the_logits_of_the_whole_model() {
        let layers = vec![
            Layer::conv("conv", 3, 3, 0),
            Layer::Relu,
            Layer::Flatten,
            Layer::linear("fc.0", 5),
            Layer::Relu,
            Layer::linear("fc.2", 4),
        ];
        let net = Network::build(Shape { channels: 1, height: 4, width: 4 }, layers, 3).expect("a valid network");
        let mut model = Model::init(Arc::new(net), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
        let mut head = alone(&model).expect("it has a head");
        let x: Vec<f32> = (0..32).map(|i| i as f32 / 7.0).collect();
        let (mut whole, mut part) = (Engine::new(), Engine::new());
        whole.forward(0, &mut model, &x, 2).expect("it fits");
        part.forward(0, &mut head, whole.features(0), 2).expect("it fits");
        assert_eq!(whole.logits(0), part.logits(0));
        head.params.fill(0.0);
        put(&mut model, &head.params);
        assert!(model.params[model.net.layout().head()].iter().all(|v| *v == 0.0));
        assert!(model.params[model.net.layout().base()].iter().any(|v| *v != 0.0));
    }
}
