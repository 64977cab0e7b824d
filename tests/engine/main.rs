//! The engine against central differences, against stock dfdx operations, and against a trajectory of the reference implementation.

use pflpipe::base::random::{Purpose, Stream, stream, unit};
use pflpipe::engine::{Compute, Engine, Layer, Model, Network, Parts, Real, Shape, loss};
use std::sync::Arc;

mod cases;
mod precision;

fn rng(seed: u64) -> Stream {
    stream(seed, Purpose::Noise, 0, 0, 0)
}

fn noise<F: Real>(rng: &mut Stream, len: usize) -> Vec<F> {
    (0..len).map(|_| F::from_f64(unit(rng) * 2.0 - 1.0)).collect()
}

fn image(channels: usize, height: usize, width: usize) -> Shape {
    Shape { channels, height, width }
}

fn conv(name: &str, out: usize, kernel: (usize, usize), stride: (usize, usize), padding: (usize, usize)) -> Layer {
    Layer::Conv2d { name: name.into(), out, kernel, stride, padding, dilation: (1, 1), groups: 1, bias: true }
}

fn pool(kernel: (usize, usize), stride: (usize, usize), padding: (usize, usize)) -> Layer {
    Layer::MaxPool2d { kernel, stride, padding, ceil: false }
}

/// All networks of these tests.
fn networks() -> Vec<(&'static str, Network)> {
    chains().into_iter().chain(cases::networks()).collect()
}

/// Networks that together have every kind of fused step, with odd sizes.
fn chains() -> Vec<(&'static str, Network)> {
    let head = |mut layers: Vec<Layer>, head: Vec<Layer>| {
        let from = layers.len();
        layers.extend(head);
        (layers, from)
    };
    let fc = || vec![Layer::linear("fc", 3)];
    let deep = || vec![Layer::linear("fc.0", 7), Layer::Relu, Layer::linear("fc.2", 5), Layer::Relu, Layer::linear("fc.4", 3)];
    let cases = [
        (
            "cnn",
            image(2, 13, 11),
            head(
                vec![
                    Layer::conv("c1", 5, 3, 0),
                    Layer::Relu,
                    Layer::pool(2),
                    Layer::conv("c2", 17, 2, 0),
                    Layer::Relu,
                    Layer::pool(2),
                    Layer::Flatten,
                    Layer::linear("fc1", 9),
                    Layer::Relu,
                ],
                fc(),
            ),
        ),
        (
            "rectangles",
            image(3, 9, 12),
            head(
                vec![
                    conv("c1", 6, (2, 5), (2, 1), (1, 2)),
                    Layer::Relu,
                    pool((3, 2), (2, 1), (1, 1)),
                    conv("c2", 4, (3, 1), (1, 2), (0, 0)),
                    Layer::Flatten,
                ],
                fc(),
            ),
        ),
        (
            "norms",
            image(1, 8, 8),
            head(
                vec![
                    Layer::conv("c1.0", 4, 3, 1),
                    Layer::norm2d("c1.1"),
                    Layer::Relu,
                    Layer::pool(2),
                    Layer::conv("c2.0", 6, 3, 0),
                    Layer::norm2d("c2.1"),
                    Layer::Relu,
                    Layer::Flatten,
                    Layer::norm1d("n"),
                    Layer::linear("fc1", 8),
                    Layer::norm1d("fc1n"),
                    Layer::Relu,
                ],
                deep(),
            ),
        ),
        (
            "pools",
            image(3, 10, 7),
            head(
                vec![
                    Layer::Relu,
                    pool((2, 2), (1, 1), (0, 0)),
                    Layer::conv("c1", 33, 2, 0),
                    Layer::pool(2),
                    pool((2, 1), (1, 1), (0, 0)),
                    Layer::Relu,
                    Layer::Flatten,
                    Layer::linear("fc1", 16),
                ],
                fc(),
            ),
        ),
        (
            "har",
            image(9, 1, 30),
            head(vec![conv("c1", 8, (1, 9), (1, 1), (0, 0)), Layer::Relu, pool((1, 2), (2, 2), (0, 0)), Layer::Flatten], deep()),
        ),
        ("wide", image(16, 6, 6), head(vec![Layer::conv("c1", 20, 5, 2), Layer::conv("c2", 3, 5, 0), Layer::Relu, Layer::Flatten], fc())),
        ("mlp", Shape::vector(21), head(vec![Layer::linear("fc1", 30), Layer::Relu, Layer::linear("fc2", 8), Layer::Relu], deep())),
        ("logistic", image(2, 3, 4), head(vec![Layer::Flatten], fc())),
    ];
    cases
        .into_iter()
        .map(|(name, input, (layers, from))| (name, Network::build(input, layers, from).unwrap_or_else(|e| panic!("{name}: {e}"))))
        .collect()
}

/// A loss of logits and features together, and its gradients.
fn objective(engine: &Engine<f64>, labels: &[u32], classes: usize) -> (f64, Vec<f64>, Vec<f64>) {
    let mut d_logits = Vec::new();
    let entropy = loss::cross_entropy(engine.logits(0), labels, classes, &mut d_logits);
    let features = engine.features(0);
    let pull: f64 = features.iter().enumerate().map(|(i, f)| 0.1 * f * (i as f64).sin()).sum();
    (entropy + pull, d_logits, features.iter().enumerate().map(|(i, _)| 0.1 * (i as f64).sin()).collect())
}

#[test]
fn gradients_agree_with_central_differences() {
    for (name, net) in networks() {
        for (training, rows) in [(true, 5), (false, 11), (true, 2)] {
            let net = Arc::new(net.clone());
            let mut rng = rng(rows as u64);
            let mut model = Model::<f64>::init(net.clone(), &mut rng);
            model.training = training;
            // Statistics that are not the identity, so that the fixed mode is seen too.
            for value in model.buffers.values.iter_mut() {
                *value = 0.5 + unit(&mut rng);
            }
            for value in model.params.iter_mut() {
                *value += 0.05 * (unit(&mut rng) - 0.5);
            }
            let mut x = noise::<f64>(&mut rng, rows * net.input().numel());
            if name == "words" {
                x.iter_mut().for_each(|x| *x = (x.abs() * 5.0).floor());
            }
            let labels: Vec<u32> = (0..rows as u32).map(|i| i % 3).collect();
            let mut engine = Engine::new();
            engine.forward(0, &mut model.clone(), &x, rows).expect("shapes fit");
            let (_, d_logits, d_features) = objective(&engine, &labels, net.classes());
            let mut gradient = vec![0.0; net.layout().len];
            engine.backward(0, &model, Some(&d_logits), Some(&d_features), Parts::All, &mut gradient).expect("after forward");
            let mut d_input = Vec::new();
            engine.backward_input(0, &model, Some(&d_logits), Some(&d_features), &mut d_input).expect("after forward");
            let value = |model: &Model<f64>, x: &[f64]| {
                let mut engine = Engine::new();
                engine.forward(0, &mut model.clone(), x, rows).expect("shapes fit");
                objective(&engine, &labels, net.classes()).0
            };
            // Directional derivatives along random vectors, small steps so that few kinks are crossed.
            let step = 1e-6;
            for entry in &net.layout().entries {
                let direction = noise::<f64>(&mut rng, entry.range.len());
                let shifted = |sign: f64| {
                    let mut model = model.clone();
                    for (p, d) in model.params[entry.range.clone()].iter_mut().zip(&direction) {
                        *p += sign * step * d;
                    }
                    value(&model, &x)
                };
                let numeric = (shifted(1.0) - shifted(-1.0)) / (2.0 * step);
                let exact: f64 = gradient[entry.range.clone()].iter().zip(&direction).map(|(a, b)| a * b).sum();
                assert!((numeric - exact).abs() < 1e-7 * (1.0 + exact.abs()), "{name} {} {training}: {numeric} or {exact}", entry.name);
            }
            let mut direction = noise::<f64>(&mut rng, x.len());
            if name == "words" {
                direction.fill(0.0);
            }
            let shifted = |sign: f64| value(&model, &x.iter().zip(&direction).map(|(x, d)| x + sign * step * d).collect::<Vec<_>>());
            let numeric = (shifted(1.0) - shifted(-1.0)) / (2.0 * step);
            let exact: f64 = d_input.iter().zip(&direction).map(|(a, b)| a * b).sum();
            assert!((numeric - exact).abs() < 1e-7 * (1.0 + exact.abs()), "{name} input {training}: {numeric} or {exact}");
        }
    }
}

#[test]
fn a_sample_does_not_depend_on_the_samples_beside_it() {
    for (name, net) in networks() {
        let net = Arc::new(net);
        let mut model = Model::<f32>::init(net.clone(), &mut rng(6));
        model.training = false;
        let len = net.input().numel();
        let x = noise::<f32>(&mut rng(7), 23 * len);
        let (mut all, mut one) = (Engine::<f32>::new(), Engine::<f32>::new());
        all.forward(0, &mut model, &x, 23).expect("fits");
        for row in 0..23 {
            one.forward(0, &mut model, &x[row * len..(row + 1) * len], 1).expect("fits");
            assert_eq!(one.logits(0), &all.logits(0)[row * net.classes()..(row + 1) * net.classes()], "{name} {row}");
        }
    }
}

#[test]
fn what_was_run_before_leaves_no_trace() {
    let nets: Vec<_> = networks().into_iter().map(|(_, net)| Arc::new(net)).collect();
    let step = |engine: &mut Engine<f32>, net: &Arc<Network>, rows: usize| {
        let mut model = Model::<f32>::init(net.clone(), &mut rng(8));
        let x = noise::<f32>(&mut rng(9), rows * net.input().numel());
        engine.forward(0, &mut model, &x, rows).expect("fits");
        let (d_logits, mut gradient) = (noise(&mut rng(10), rows * net.classes()), vec![0.0; model.params.len()]);
        engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("after forward");
        gradient
    };
    let mut used = Engine::new();
    for rows in [7, 3, 12] {
        for net in &nets {
            assert_eq!(step(&mut used, net, rows), step(&mut Engine::new(), net, rows));
        }
    }
}

#[test]
fn what_does_not_fit_is_a_fault() {
    let (_, net) = networks().remove(0);
    let mut model = Model::<f32>::init(Arc::new(net), &mut rng(1));
    let mut engine = Engine::<f32>::new();
    assert!(engine.forward(0, &mut model, &[0.0; 5], 1).is_err());
    assert!(engine.forward(0, &mut model, &[], 0).is_err());
    let mut gradient = vec![0.0; model.params.len()];
    assert!(engine.backward(3, &model, None, None, Parts::All, &mut gradient).is_err());
    let mut tensors = model.export_torch();
    tensors[1].0 = "conv9.bias".into();
    assert!(model.import_torch(&tensors).expect_err("no such tensor").to_string().contains("conv9.bias"));
    tensors.remove(1);
    assert!(model.import_torch(&tensors).expect_err("one is missing").to_string().contains("`c1.bias` is missing"));
    let wrong = Network::build(image(1, 4, 4), vec![Layer::linear("fc", 2)], 0);
    assert!(wrong.expect_err("an image").to_string().contains("the input is an image"));
}

#[test]
fn torchs_order_goes_out_as_it_came_in() {
    for (_, net) in networks() {
        let net = Arc::new(net);
        let mut model = Model::<f32>::init(net, &mut rng(1));
        let mut tensors = model.export_torch();
        for (_, _, values) in &mut tensors {
            values.iter_mut().enumerate().for_each(|(i, value)| *value = i as f32);
        }
        model.import_torch(&tensors).expect("own names");
        assert_eq!(model.export_torch(), tensors);
    }
}

#[test]
fn dropout_follows_its_stream_and_rests_in_evaluation() {
    let layers = |p, channels| vec![Layer::conv("c", 4, 1, 0), Layer::Dropout { p, channels }, Layer::Flatten, Layer::linear("fc", 3)];
    for (p, channels) in [(0.25, false), (0.75, true)] {
        let net = Arc::new(Network::build(image(2, 8, 9), layers(p, channels), 3).expect("fits"));
        let mut model = Model::<f64>::init(net.clone(), &mut rng(4));
        let x = noise::<f64>(&mut rng(5), 50 * 144);
        let mut engine = Engine::new();
        let mut features = |engine: &mut Engine<f64>, training: bool, seed: u64| {
            model.training = training;
            engine.draw_from(rng(seed));
            engine.forward(0, &mut model, &x, 50).expect("fits");
            engine.features(0).to_vec()
        };
        let whole = features(&mut engine, false, 1);
        let dropped = features(&mut engine, true, 1);
        assert_eq!(dropped, features(&mut engine, true, 1), "the same stream");
        assert_ne!(dropped, features(&mut engine, true, 2), "another stream");
        let share = dropped.iter().filter(|value| **value == 0.0).count() as f64 / dropped.len() as f64;
        assert!((share - p).abs() < if channels { 0.1 } else { 0.01 }, "{share} dropped instead of {p}");
        for (at, (found, own)) in dropped.iter().zip(&whole).enumerate() {
            let factor = if *found == 0.0 { 0.0 } else { 1.0 / (1.0 - p) };
            assert!((found - own * factor).abs() < 1e-12);
            // A channel is dropped in all pixels of a sample or in none.
            assert!(!channels || (*found == 0.0) == (dropped[at / 288 * 288 + at % 4] == 0.0));
        }
        let mut d_input = Vec::new();
        model.training = true;
        engine.draw_from(rng(1));
        engine.forward(0, &mut model, &x, 50).expect("fits");
        let d_features = vec![1.0; dropped.len()];
        let mut gradient = vec![0.0; model.params.len()];
        engine.backward(0, &model, None, Some(&d_features), Parts::Base, &mut gradient).expect("after forward");
        engine.backward_input(0, &model, None, Some(&d_features), &mut d_input).expect("after forward");
        let kept = dropped.iter().skip(2).step_by(4).filter(|value| **value != 0.0).count() as f64;
        let bias = net.layout().entry("c.bias").expect("it has one").range.clone();
        assert!((gradient[bias][2] - kept / (1.0 - p)).abs() < 1e-9);
    }
    assert!(Network::build(image(2, 8, 9), layers(1.0, false), 3).expect_err("all dropped").to_string().contains("probability of dropout"));
}

mod on_the_tape {
    use super::*;
    use dfdx::prelude::*;
    use pflpipe::engine::tape::{self, Branch, Head, Leaf, Traced};

    fn two_models() -> (Model<f32>, Model<f32>, Vec<f32>, Vec<u32>) {
        let (_, net) = networks().into_iter().find(|(name, _)| *name == "norms").expect("in the list");
        let net = Arc::new(net);
        let mut rng = rng(3);
        let (a, b) = (Model::init(net.clone(), &mut rng), Model::init(net.clone(), &mut rng));
        let x = noise(&mut rng, 6 * net.input().numel());
        (a, b, x, vec![0, 1, 2, 2, 1, 0])
    }

    fn close(a: &[f32], b: &[f32], tolerance: f32) {
        assert_eq!(a.len(), b.len());
        let scale = b.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            assert!((a - b).abs() <= tolerance * scale, "{i}: {a} or {b}");
        }
    }

    #[test]
    fn cross_entropy_on_the_tape_is_the_native_step() {
        let (model, _, x, labels) = two_models();
        let mut engine = Engine::<f32>::new();
        let mut native = vec![0.0; model.params.len()];
        let mut copy = model.clone();
        engine.forward(0, &mut copy, &x, 6).expect("fits");
        let mut d_logits = Vec::new();
        let loss = loss::cross_entropy(engine.logits(0), &labels, 3, &mut d_logits);
        engine.backward(0, &copy, Some(&d_logits), None, Parts::All, &mut native).expect("after forward");
        for parts in [Parts::All, Parts::Base, Parts::Head, Parts::Nothing] {
            let mut other = model.clone();
            let mut gradients = vec![Vec::new()];
            let branch = Branch { slot: 1, model: &mut other, x: &x, rows: 6, parts };
            let value =
                engine.differentiate(&mut [branch], &mut gradients, |g| Ok(tape::cross_entropy(g[0].logits(), &labels))).expect("fits");
            assert_eq!(value, loss);
            let (base, head) = (model.net.layout().base(), model.net.layout().head());
            close(&gradients[0][base.clone()], &if parts.base() { native[base].to_vec() } else { vec![0.0; base.len()] }, 1e-6);
            close(&gradients[0][head.clone()], &if parts.head() { native[head].to_vec() } else { vec![0.0; head.len()] }, 1e-6);
            assert_eq!(other.buffers, copy.buffers);
            assert!(other.params.ptr_eq(&model.params));
        }
        drop(copy);
        assert!(model.params.is_unique(), "the tape lets go of the parameters");
    }

    #[test]
    fn stock_operations_agree_with_the_fused_steps() {
        for (name, net) in networks() {
            let net = Arc::new(net);
            for training in [true, false] {
                let mut rng = rng(5);
                let mut model = Model::<f32>::init(net.clone(), &mut rng);
                model.training = training;
                for value in model.buffers.values.iter_mut() {
                    *value = 0.5 + super::unit(&mut rng) as f32;
                }
                // The same image twice and an even background: equal maxima must be told apart in the same way.
                let mut x = noise::<f32>(&mut rng, 4 * net.input().numel());
                x[..net.input().numel()].fill(0.25);
                let (d_logits, d_features) = (noise(&mut rng, 4 * net.classes()), noise(&mut rng, 4 * net.features()));
                let (mut fused, mut other) = (model.clone(), model.clone());
                let mut engine = Engine::<f32>::new();
                engine.forward(0, &mut fused, &x, 4).expect("fits");
                let mut gradient = vec![0.0; model.params.len()];
                engine.backward(0, &fused, Some(&d_logits), Some(&d_features), Parts::All, &mut gradient).expect("after forward");
                let mut stock = Engine::on(Compute::Stock);
                stock.forward(0, &mut other, &x, 4).expect("fits");
                close(stock.logits(0), engine.logits(0), 1e-5);
                close(stock.features(0), engine.features(0), 1e-5);
                let mut again = vec![0.0; model.params.len()];
                stock.backward(0, &other, Some(&d_logits), Some(&d_features), Parts::All, &mut again).expect("after forward");
                let (mut input, mut same) = (Vec::new(), Vec::new());
                engine.backward_input(0, &fused, Some(&d_logits), Some(&d_features), &mut input).expect("after forward");
                stock.backward_input(0, &other, Some(&d_logits), Some(&d_features), &mut same).expect("after forward");
                println!("{name} input");
                close(&same, &input, 1e-5);
                // A bias before a normalisation has the gradient 0 up to rounding; dfdx sums in single precision.
                for entry in &net.layout().entries {
                    println!("{name} {training} {}", entry.name);
                    for (a, b) in again[entry.range.clone()].iter().zip(&gradient[entry.range.clone()]) {
                        assert!((a - b).abs() <= 3e-5 * b.abs().max(1.0), "{a} or {b}");
                    }
                }
                close(&other.buffers.values, &fused.buffers.values, 1e-5);
                assert_eq!(other.buffers.counters, fused.buffers.counters);
            }
        }
    }

    /// Two models, a leaf and a frozen head in one loss, against central differences of the same loss.
    #[test]
    fn a_joint_loss_has_the_gradients_of_central_differences() {
        // Without kinks, so that steps may be large enough for single precision.
        let layers = vec![Layer::conv("c1", 4, 3, 0), Layer::Flatten, Layer::linear("fc1", 8), Layer::linear("fc", 3)];
        let net = Arc::new(Network::build(image(1, 6, 6), layers, 3).expect("fits"));
        let mut rng = rng(4);
        let (a, b) = (Model::<f32>::init(net.clone(), &mut rng), Model::<f32>::init(net, &mut rng));
        let (x, labels) = (noise::<f32>(&mut rng, 6 * 36), [0, 1, 2, 2, 1, 0]);
        let frozen = b.clone();
        let (weight, bias) = (noise::<f32>(&mut rng, 64), noise::<f32>(&mut rng, 8));
        let joint = |a: &Model<f32>, b: &Model<f32>, weight: &[f32]| {
            let mut engine = Engine::<f32>::new();
            let (mut a, mut b) = (a.clone(), b.clone());
            let (w, c) = (Leaf::new(weight.to_vec(), 8, 8), Leaf::new(bias.clone(), 1, 8));
            let mut gradients = vec![vec![0.0; a.params.len()], vec![]];
            let head = Head::frozen(&frozen);
            let value = engine
                .differentiate(
                    &mut [
                        Branch { slot: 0, model: &mut a, x: &x, rows: 6, parts: Parts::All },
                        Branch { slot: 1, model: &mut b, x: &x, rows: 6, parts: Parts::All },
                    ],
                    &mut gradients,
                    |g| {
                        let log_q = g[0].logits().log_softmax::<Axis<1>>();
                        let p = g[1].logits().softmax::<Axis<1>>();
                        let mapped: Traced = tape::linear(g[0].features(), w.traced(), Some(c.traced())).tanh();
                        let distance = (mapped - g[1].features()).square().mean();
                        Ok(tape::cross_entropy(g[0].logits(), &labels)
                            + tape::kl_divergence(log_q, p) * (1.0 / 6.0)
                            + distance
                            + tape::cross_entropy(head.apply(g[0].features()), &labels) * 0.5
                            + tape::mse(g[1].features().permute::<_, Axes2<1, 0>>(), &(0..48).map(|i| i as f32 * 0.01).collect::<Vec<_>>()))
                    },
                )
                .expect("fits");
            (value, gradients, w.gradient())
        };
        let (_, gradients, d_weight) = joint(&a, &b, &weight);
        let step = 1e-2f32;
        let numeric = |f: &dyn Fn(f32) -> f32| (f(step) - f(-step)) / (2.0 * step);
        let along = |values: &[f32], direction: &[f32], s: f32| values.iter().zip(direction).map(|(v, d)| v + s * d).collect::<Vec<f32>>();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let unit = |mut v: Vec<f32>| {
            let norm = dot(&v, &v).sqrt();
            v.iter_mut().for_each(|v| *v /= norm);
            v
        };
        for round in 0..4 {
            let d = unit(noise(&mut rng, a.params.len()));
            let at = |s: f32| joint(&Model { params: along(&a.params, &d, s).into(), ..a.clone() }, &b, &weight).0;
            let (found, exact) = (numeric(&at), dot(&gradients[0], &d));
            assert!((found - exact).abs() < 2e-3, "first, {round}: {found} or {exact}");
            let at = |s: f32| joint(&a, &Model { params: along(&b.params, &d, s).into(), ..b.clone() }, &weight).0;
            let (found, exact) = (numeric(&at), dot(&gradients[1], &d));
            assert!((found - exact).abs() < 2e-3, "second, {round}: {found} or {exact}");
            let d = unit(noise(&mut rng, 64));
            let at = |s: f32| joint(&a, &b, &along(&weight, &d, s)).0;
            let (found, exact) = (numeric(&at), dot(&d_weight, &d));
            assert!((found - exact).abs() < 1e-3, "leaf, {round}: {found} or {exact}");
        }
    }
}

/// The reference's recorded local training: the same start and batches must end in the same weights.
mod recorded {
    use super::*;
    use pflpipe::engine::update;
    use pflpipe::models;
    use safetensors::SafeTensors;
    use serde_json::{Value, json};
    use std::path::PathBuf;

    fn folder() -> PathBuf {
        let data = std::env::var_os("PFLPIPE_DATA").map(PathBuf::from);
        let data = data.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"));
        data.join("../conformance")
    }

    fn floats(file: &SafeTensors<'_>, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let view = file.tensor(name).ok()?;
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Some((view.shape().to_vec(), values))
    }

    fn first_round(set: &str, norm: &str) {
        let path = folder().join(set).join("FedAvg.safetensors");
        let Ok(bytes) = std::fs::read(&path) else {
            println!("skipped: `{}` is not there", path.display());
            return;
        };
        let file = SafeTensors::deserialize(&bytes).expect("a fixture");
        let (_, meta) = SafeTensors::read_metadata(&bytes).expect("a fixture");
        let meta: Value = serde_json::from_str(&meta.metadata().as_ref().expect("metadata")["pfl"]).expect("JSON");
        let data_bytes = std::fs::read(path.with_file_name(meta["data"].as_str().expect("a name"))).expect("the samples");
        let data = SafeTensors::deserialize(&data_bytes).expect("samples");
        let tensor = |name: &str| floats(&file, meta["alias"].get(name).and_then(Value::as_str).unwrap_or(name));

        let params = json!({"widths": [4, 8], "kernel": 3, "hidden": 16, "norm": norm});
        let net = models::build("cnn", params.as_object().expect("a map"), image(1, 12, 12), 5).expect("fits");
        let net = Arc::new(net);
        let mut start = Model::<f32>::init(net.clone(), &mut rng(0));
        let named: Vec<_> = start
            .export_torch()
            .into_iter()
            .filter_map(|(name, _, _)| tensor(&format!("init.model.{name}")).map(|(shape, values)| (name, shape, values)))
            .collect();
        start.import_torch(&named).expect("the same network");

        for client in meta["selection"][0].as_array().expect("a round").iter().map(|id| id.as_u64().expect("an id")) {
            let x = data.tensor(&format!("client{client}.train.x")).expect("samples");
            let y = data.tensor(&format!("client{client}.train.y")).expect("labels");
            let x: Vec<f32> = x.data().iter().map(|&v| f32::from(v) / 255.0).collect();
            let y: Vec<u32> = y.data().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            let (mut model, mut engine, mut d_logits) = (start.clone(), Engine::<f32>::new(), Vec::new());
            for _ in 0..2 {
                for (x, y) in x.chunks_exact(10 * 144).zip(y.chunks_exact(10)) {
                    engine.forward(0, &mut model, x, 10).expect("fits");
                    loss::cross_entropy(engine.logits(0), y, 5, &mut d_logits);
                    let mut gradient = vec![0.0; model.params.len()];
                    engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("after forward");
                    update::sgd(&mut model.params, &gradient, 0.1, 0..gradient.len(), &[]);
                }
            }
            for (name, _, found) in model.export_torch() {
                let part = if name.starts_with("fc.") { name.replace("fc.", "head.") } else { format!("base.{name}") };
                let Some((_, wanted)) = tensor(&format!("after1.client{client}.model.{part}")) else {
                    assert!(name.ends_with("num_batches_tracked"), "{part} is not in the fixture");
                    continue;
                };
                let norm = wanted.iter().map(|w| w * w).sum::<f32>().sqrt();
                let error = found.iter().zip(&wanted).map(|(f, w)| (f - w) * (f - w)).sum::<f32>().sqrt();
                assert!(error <= 2e-6 * norm.max(1e-3), "{set}, client {client}, {name}: relative error {}", error / norm);
            }
        }
    }

    #[test]
    fn a_local_training_ends_where_the_reference_ends() {
        first_round("full", "none");
    }

    #[test]
    fn a_local_training_with_batch_norm_ends_where_the_reference_ends() {
        first_round("bn", "batch");
    }
}
