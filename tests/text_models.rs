//! The models of texts against PyTorch: logits, loss, gradients and a step, from equal weights.
//!
//! `golden/text_models/make.py` made the numbers and says by which formula weights and texts are.

use pflpipe::base::random::{Purpose, stream};
use pflpipe::engine::{Engine, Layer, Model, Parts, Real, Shape, loss};
use pflpipe::models;
use serde_json::{Value, json};
use std::sync::Arc;

const V: usize = 13;
const L: usize = 7;
const R: usize = 4;
const C: usize = 3;

fn texts() -> (Vec<f64>, Vec<u32>) {
    let word = |r: usize, t: usize| if r % 2 == 1 && t + 2 >= L { 0 } else { (5 * r + 3 * t + r * t) % (V - 1) + 1 };
    let x = (0..R).flat_map(|r| (0..L).map(move |t| word(r, t) as f64)).collect();
    (x, (0..R).map(|r| (r % C) as u32).collect())
}

/// The model of a line with the formula's weights.
fn filled<F: Real>(line: &Value) -> Model<F> {
    let shape = Shape { channels: 1, height: 1, width: L };
    let kind = line["kind"].as_str().expect("a kind");
    let net = models::build(kind, line["params"].as_object().expect("a map"), shape, C).unwrap_or_else(|e| panic!("{kind}: {e}"));
    let padding = net.layers().iter().find_map(|layer| match layer {
        Layer::Embedding { name, width, padding: Some(padding), .. } => {
            Some((format!("{name}.weight"), padding * width..(padding + 1) * width))
        }
        _ => None,
    });
    let mut model = Model::<F>::init(Arc::new(net), &mut stream(0, Purpose::Initialisation, 0, 0, 0));
    let mut tensors = model.export_torch();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    for (p, (name, _, values)) in tensors.iter_mut().enumerate() {
        let more = if name.contains(".norm") && name.ends_with("weight") { 1.0 } else { 0.0 };
        let place = |k: usize| 0.4 * (0.7 * k as f64 + 1.3 * p as f64).sin() + more;
        values.iter_mut().enumerate().for_each(|(k, value)| *value = F::from_f64(place(k)));
        if let Some((_, row)) = padding.as_ref().filter(|(own, _)| own == name) {
            values[row.clone()].fill(F::ZERO);
        }
    }
    model.import_torch(&tensors).expect("its own tensors");
    model
}

fn near(found: f64, wanted: &Value, tolerance: f64, what: &str) {
    let wanted = wanted.as_f64().expect("a number");
    assert!((found - wanted).abs() <= tolerance * wanted.abs().max(1.0), "{what}: {found}, but torch has {wanted}");
}

fn compare<F: Real>(tolerance: f64) {
    let (x, labels) = texts();
    let x: Vec<F> = x.into_iter().map(F::from_f64).collect();
    for line in include_str!("golden/text_models/reference.jsonl").lines() {
        let line: Value = serde_json::from_str(line).expect("a line of json");
        let kind = line["kind"].as_str().expect("a kind");
        let mut model = filled::<F>(&line);
        let mut engine = Engine::<F>::new();
        let check = |engine: &Engine<F>, wanted: &Value, what: &str| {
            for (at, logit) in engine.logits(0).iter().enumerate() {
                near(logit.to_f64(), &wanted[at / C][at % C], tolerance, &format!("{kind}, {what} {at}"));
            }
        };
        engine.forward(0, &mut model, &x, R).expect("fits");
        check(&engine, &line["logits"], "logit");
        let mut d_logits = Vec::new();
        let found = loss::cross_entropy(engine.logits(0), &labels, C, &mut d_logits);
        near(found.to_f64(), &line["loss"], tolerance, &format!("{kind}, loss"));
        let layout = model.net.layout().clone();
        let mut gradient = vec![F::ZERO; layout.len];
        engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("the last pass");
        // The way back may be gone twice.
        let mut again = vec![F::ZERO; layout.len];
        engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut again).expect("the last pass");
        assert!(gradient == again, "{kind}: the second way back gives another gradient");
        let wanted = line["gradients"].as_object().expect("a map");
        assert_eq!(wanted.len(), layout.entries.len(), "{kind}");
        for entry in &layout.entries {
            let wanted = wanted.get(&entry.name).unwrap_or_else(|| panic!("{kind}: torch has no `{}`", entry.name));
            assert_eq!(json!(entry.shape), wanted["shape"], "{kind}, {}", entry.name);
            let values: Vec<f64> = layout.export(&gradient, entry).into_iter().map(Real::to_f64).collect();
            let name = format!("{kind}, gradient of {}", entry.name);
            near(values.iter().sum(), &wanted["sum"], 10.0 * tolerance, &format!("{name}, sum"));
            near(values.iter().map(|value| value * value).sum(), &wanted["squares"], tolerance, &format!("{name}, squares"));
            for (place, wanted) in wanted["some"].as_array().expect("a list").iter().enumerate() {
                let at = place * (values.len() / 7).max(1);
                near(values[at], wanted, tolerance, &format!("{name}, {at}"));
            }
        }
        let rate = F::from_f64(0.1);
        model.params.iter_mut().zip(&gradient).for_each(|(value, &slope)| *value -= rate * slope);
        engine.forward(0, &mut model, &x, R).expect("fits");
        check(&engine, &line["after"], "logit after a step");
    }
}

#[test]
fn numbers_are_pytorchs_in_double_precision() {
    compare::<f64>(1e-10);
}

#[test]
fn numbers_are_pytorchs_within_1e_5_in_single_precision() {
    compare::<f32>(1e-5);
}

#[test]
fn a_model_starts_as_torchs() {
    let build = |kind: &str, params: Value, length: usize, classes: usize| {
        let shape = Shape { channels: 1, height: 1, width: length };
        models::build(kind, params.as_object().expect("a map"), shape, classes).unwrap_or_else(|e| panic!("{kind}: {e}"))
    };
    // Sizes of PFLlib's models with 10 classes, all and in the head.
    for (kind, params, all, head) in
        [("lstm", json!({"words": 80, "padding": 0}), 4_248_586, 5_130), ("transformer", json!({"words": 32_000}), 22_693_898, 5_130)]
    {
        let net = build(kind, params, 200, 10);
        let layout = net.layout();
        assert_eq!((layout.len, layout.head().len()), (all, head), "{kind}");
    }
    let net = Arc::new(build("transformer", json!({"words": 9, "hidden": 8, "heads": 2, "feed": 6}), 5, 3));
    let model = Model::<f32>::init(net, &mut stream(1, Purpose::Initialisation, 0, 0, 0));
    let of = |name: &str| model.export_torch().into_iter().find(|tensor| tensor.0 == name).expect("there").2;
    assert_eq!(of("encoder.layers.0.linear1.weight"), of("encoder.layers.1.linear1.weight"));
    assert!(of("embedding.weight").iter().all(|value| value.abs() <= 0.1) && of("fc.bias").iter().all(|value| *value == 0.0));
    let net = Arc::new(build("lstm", json!({"words": 9, "padding": 2, "hidden": 8}), 5, 3));
    let model = Model::<f32>::init(net, &mut stream(1, Purpose::Initialisation, 0, 0, 0));
    let rows = model.export_torch().into_iter().find(|tensor| tensor.0 == "embedding.weight").expect("there").2;
    assert!(rows[16..24].iter().all(|value| *value == 0.0) && rows[24] != 0.0);
}

#[test]
fn dropout_is_drawn_in_training_only_and_passes_its_gradient() {
    let (x, labels) = texts();
    for (kind, params) in [
        ("lstm", json!({"hidden": 8, "words": V, "padding": 0, "dropout": 0.4})),
        ("transformer", json!({"hidden": 8, "heads": 2, "feed": 12, "words": V, "dropout": 0.4})),
    ] {
        let shape = Shape { channels: 1, height: 1, width: L };
        let net = Arc::new(models::build(kind, params.as_object().expect("a map"), shape, C).expect("fits"));
        let mut model = Model::<f64>::init(net.clone(), &mut stream(3, Purpose::Initialisation, 0, 0, 0));
        let mut engine = Engine::<f64>::new();
        let mut run = |model: &mut Model<f64>, seed: u64, gradient: Option<&mut Vec<f64>>| {
            engine.draw_from(stream(seed, Purpose::Dropout, 0, 0, 0));
            engine.forward(0, model, &x, R).expect("fits");
            let mut d_logits = Vec::new();
            let loss = loss::cross_entropy(engine.logits(0), &labels, C, &mut d_logits);
            if let Some(gradient) = gradient {
                engine.backward(0, model, Some(&d_logits), None, Parts::All, gradient).expect("the last pass");
            }
            loss
        };
        let mut gradient = vec![0.0; net.layout().len];
        let first = run(&mut model, 1, Some(&mut gradient));
        assert_eq!(first, run(&mut model, 1, None));
        assert_ne!(first, run(&mut model, 2, None));
        // Central differences with the same draws; the first 8 numbers are the row of padding, which gets no gradient.
        for at in (8..gradient.len()).step_by(17) {
            let before = model.params[at];
            let mut at_step = |step: f64| {
                model.params[at] = before + step;
                run(&mut model, 1, None)
            };
            let slope = (at_step(1e-5) - at_step(-1e-5)) / 2e-5;
            model.params[at] = before;
            assert!((slope - gradient[at]).abs() < 1e-6, "{kind}, {at}: {slope} but {}", gradient[at]);
        }
        model.training = false;
        assert_eq!(run(&mut model, 1, None), run(&mut model, 2, None));
    }
}

#[test]
fn an_own_list_is_the_model_that_it_describes() {
    let build = |kind: &str, params: &Value| {
        let shape = Shape { channels: 1, height: 1, width: 5 };
        models::build(kind, params.as_object().expect("a map"), shape, 3).unwrap_or_else(|e| panic!("{kind}: {e}"))
    };
    // A list is followed by `Flatten`, which changes nothing about a vector.
    let same = |kind: &str, params: &Value, list: Value| {
        let own = build("layers", &json!({"words": 9, "padding": 0, "layers": list}));
        let layers: Vec<&Layer> = own.layers().iter().filter(|layer| !matches!(layer, Layer::Flatten)).collect();
        let known = build(kind, params);
        assert_eq!(layers, known.layers().iter().collect::<Vec<_>>(), "{kind}");
        assert_eq!(own.layout().entries.len(), known.layout().entries.len(), "{kind}");
        assert_eq!(own.layout().head(), known.layout().head(), "{kind}");
    };
    let embedding = json!({"layer": "embedding", "out": 8, "name": "embedding"});
    let memory = json!({"layer": "lstm", "hidden": 8, "layers": 2, "dropout": 0.2, "name": "lstm"});
    let list = json!([embedding, memory, {"layer": "pick", "at": "last"}, "relu", {"layer": "dropout", "p": 0.2}]);
    same("lstm", &json!({"words": 9, "padding": 0, "hidden": 8}), list);
    let drop = json!({"layer": "dropout", "p": 0.1});
    let named = |layer: Value, name: &str| {
        let mut layer = layer;
        layer["name"] = json!(format!("encoder.layers.0.{name}"));
        layer
    };
    let list = json!([
        {"layer": "embedding", "out": 8, "name": "embedding"}, {"layer": "positions", "scale": 8.0_f64.sqrt()}, drop,
        {"layer": "save", "as": "in"}, named(json!({"layer": "attention", "heads": 2, "dropout": 0.1}), "self_attn"), drop,
        {"layer": "add", "as": "in"}, named(json!({"layer": "layer_norm"}), "norm1"),
        {"layer": "save", "as": "in"}, named(json!({"layer": "positionwise", "out": 6}), "linear1"), "relu", drop,
        named(json!({"layer": "positionwise", "out": 8}), "linear2"), drop,
        {"layer": "add", "as": "in"}, named(json!({"layer": "layer_norm"}), "norm2"), {"layer": "pick", "at": "first"}
    ]);
    let own = build("layers", &json!({"words": 9, "padding": 0, "layers": list}));
    let known = build("transformer", &json!({"words": 9, "hidden": 8, "heads": 2, "feed": 6, "layers": 1}));
    // PFLlib's embedding trains its padding too; a list's does not.
    let rest =
        |net: &pflpipe::engine::Network| net.layers().iter().skip(1).filter(|l| !matches!(l, Layer::Flatten)).cloned().collect::<Vec<_>>();
    assert_eq!(rest(&own), rest(&known));
    // Over pictures: patches, a token, attention.
    let shape = Shape { channels: 1, height: 8, width: 8 };
    let list = json!([{"layer": "conv", "out": 6, "kernel": [4], "stride": [4]}, "tokens", {"layer": "attention", "heads": 3}, {"layer": "pick", "at": "first"}]);
    let net = models::build("layers", json!({"layers": list}).as_object().expect("a map"), shape, 4).expect("it fits");
    assert_eq!(net.classes(), 4);
}

#[test]
fn what_does_not_fit_is_refused() {
    let fault = |kind: &str, params: Value, shape: (usize, usize, usize)| {
        let shape = Shape { channels: shape.0, height: shape.1, width: shape.2 };
        models::build(kind, params.as_object().expect("a map"), shape, 2).expect_err(kind).to_string()
    };
    assert!(fault("lstm", json!({}), (1, 1, 5)).contains("`words` of model `lstm` is"));
    assert!(fault("lstm", json!({"words": 5, "padding": 0}), (1, 28, 28)).contains("takes rows of words"));
    assert!(fault("transformer", json!({"words": 5, "hidden": 10}), (1, 1, 4)).contains("`hidden` 10 cannot be divided among 8 `heads`"));
    assert!(fault("fasttext", json!({"words": 5, "padding": 5}), (1, 1, 4)).contains("a word below 5"));
    assert!(fault("layers", json!({"layers": ["pick"]}), (1, 1, 4)).contains("`padding` of model `layers`"));
    assert!(
        fault(
            "layers",
            json!({"words": 5, "padding": 0, "layers": [{"layer": "embedding", "out": 6}, {"layer": "attention", "heads": 4}]}),
            (1, 1, 4)
        )
        .contains("6 channels cannot be divided")
    );
    assert!(fault("lstm", json!({"words": 5, "padding": 0, "layers": 0}), (1, 1, 4)).contains("`layers` is 0"));
}
