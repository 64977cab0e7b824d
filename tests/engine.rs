//! The engine against central differences, against stock dfdx operations, and against a trajectory of the reference implementation.

use pflpipe::base::random::{Purpose, Stream, stream, unit};
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, Real, Shape, loss};
use std::sync::Arc;

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
    Layer::Conv2d { name: name.into(), out, kernel, stride, padding, bias: true }
}

fn pool(kernel: (usize, usize), stride: (usize, usize), padding: (usize, usize)) -> Layer {
    Layer::MaxPool2d { kernel, stride, padding }
}

/// Networks that together have every kind of layer, fused and alone, with odd sizes.
fn networks() -> Vec<(&'static str, Network)> {
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
            let x = noise::<f64>(&mut rng, rows * net.input().numel());
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
            let direction = noise::<f64>(&mut rng, x.len());
            let shifted = |sign: f64| value(&model, &x.iter().zip(&direction).map(|(x, d)| x + sign * step * d).collect::<Vec<_>>());
            let numeric = (shifted(1.0) - shifted(-1.0)) / (2.0 * step);
            let exact: f64 = d_input.iter().zip(&direction).map(|(a, b)| a * b).sum();
            assert!((numeric - exact).abs() < 1e-7 * (1.0 + exact.abs()), "{name} input {training}: {numeric} or {exact}");
        }
    }
}
