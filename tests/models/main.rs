//! The models against PyTorch: names and shapes of their state, logits, gradients, and a step of SGD from weights by a formula.
//!
//! `make.py` made `reference.json`; run it again after a change of either.

use pflpipe::engine::{Engine, Model, Network, Parts, Real, Shape, loss, update};
use pflpipe::models;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Reference {
    rows: usize,
    rate: f64,
    cases: Vec<Case>,
}

/// One network with what PyTorch computed.
#[derive(Deserialize)]
struct Case {
    name: String,
    params: Map<String, Value>,
    /// Channels, height, width.
    shape: [usize; 3],
    classes: usize,
    words: Option<usize>,
    state: Vec<(String, Vec<usize>)>,
    evaluated: Vec<f64>,
    features: (usize, f64),
    logits: Vec<f64>,
    loss: f64,
    /// Name, shape, norm, two products with the formula.
    gradients: Vec<(String, Vec<usize>, f64, f64, f64)>,
    buffers: Vec<(String, f64)>,
    stepped: Vec<f64>,
    /// How far PyTorch's single precision is from its double one: forward, gradients, after the step.
    single: [f64; 3],
}

fn reference() -> Reference {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/reference.json");
    serde_json::from_slice(&std::fs::read(path).expect("beside this file")).expect("as `make.py` writes it")
}

/// The formula of `make.py`.
fn formula(stream: u64, count: usize) -> impl Iterator<Item = f64> {
    let at = move |at: u64| {
        let mixed = (at * 2_654_435_761 + (stream + 1) * 97_003 * 65_537) % (1 << 32);
        let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519) % (1 << 32);
        (mixed ^ (mixed >> 13)) as f64 / 2_147_483_648.0 - 1.0
    };
    (0..count as u64).map(at)
}

fn values(stream: u64, name: &str, shape: &[usize]) -> Vec<f64> {
    let fan: usize = shape.iter().skip(1).product();
    let map = |raw: f64| match shape.len() {
        _ if name.ends_with("running_var") => 1.0 + 0.5 * raw,
        _ if name.ends_with("running_mean") => 0.2 * raw,
        1 if name.ends_with(".weight") => 1.0 + 0.25 * raw,
        1 => 0.1 * raw,
        _ => raw * (3.0 / fan as f64).sqrt(),
    };
    formula(stream, shape.iter().product()).map(|raw| f64::from(map(raw) as f32)).collect()
}

impl Case {
    fn network(&self) -> Arc<Network> {
        let mut params = self.params.clone();
        let kind = params.remove("kind").expect("every case has one");
        if let Some(words) = self.words {
            params.insert("words".into(), json!(words));
            params.insert("padding".into(), json!(0));
        }
        let [channels, height, width] = self.shape;
        let net = models::build(kind.as_str().expect("a word"), &params, Shape { channels, height, width }, self.classes);
        Arc::new(net.unwrap_or_else(|fault| panic!("{}: {fault}", self.name)))
    }
    fn model<F: Real>(&self) -> Model<F> {
        let net = self.network();
        let mut model = Model::<F>::init(net, &mut pflpipe::base::random::stream(1, pflpipe::base::random::Purpose::Noise, 0, 0, 0));
        let found: Vec<_> = model.export_torch().into_iter().map(|(name, shape, _)| (name, shape)).collect();
        assert_eq!(found, self.state, "{}: names and shapes", self.name);
        let numbered = self.state.iter().filter(|(name, _)| !name.ends_with("num_batches_tracked"));
        let tensors: Vec<_> = numbered
            .enumerate()
            .map(|(stream, (name, shape))| {
                let mut values = values(stream as u64, name, shape);
                if self.words.is_some() && name.ends_with("embedding.weight") {
                    values[..shape[1]].fill(0.0);
                }
                (name.clone(), shape.clone(), values.into_iter().map(F::from_f64).collect())
            })
            .collect();
        model.import_torch(&tensors).expect("the names were compared");
        model
    }
    /// (rows, height, width, channels).
    fn input<F: Real>(&self, rows: usize) -> Vec<F> {
        let [channels, height, width] = self.shape;
        let pixels = height * width;
        let raw: Vec<f64> = formula(1000, rows * channels * pixels).map(|raw| f64::from(raw as f32)).collect();
        if let Some(words) = self.words {
            let word =
                |(i, raw): (usize, &f64)| if i % width + i / width >= width { 0.0 } else { ((raw + 1.0) / 2.0 * words as f64).floor() };
            return raw.iter().enumerate().map(word).map(F::from_f64).collect();
        }
        let place = |i: usize| {
            let (row, rest) = (i / (channels * pixels), i % (channels * pixels));
            F::from_f64(raw[(row * channels + rest % channels) * pixels + rest / channels])
        };
        (0..raw.len()).map(place).collect()
    }
    /// Compares everything; differences are relative to the greatest value of their kind. Single precision may be as far away as a
    /// few times PyTorch's own: normalisations of few values spread rounding.
    fn check<F: Real>(&self, rows: usize, rate: f64, [forward, back, after]: [f64; 3]) {
        let mut model = self.model::<F>();
        let x = self.input::<F>(rows);
        let labels: Vec<u32> = (0..rows).map(|row| (row * 7 % self.classes) as u32).collect();
        let within = |tolerance: f64, what: &str, found: &[f64], wanted: &[f64]| {
            let scale = wanted.iter().fold(1.0f64, |most, value| most.max(value.abs()));
            assert_eq!(found.len(), wanted.len(), "{} {what}", self.name);
            for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
                assert!((a - b).abs() <= tolerance * scale, "{} {what} {i}: {a} or {b}", self.name);
            }
        };
        let near = |what: &str, found: &[f64], wanted: &[f64]| within(forward, what, found, wanted);
        let floats = |values: &[F]| values.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
        let norm = |values: &[F]| values.iter().map(|v| v.to_f64() * v.to_f64()).sum::<f64>().sqrt();
        let mut engine = Engine::<F>::new();
        model.training = false;
        engine.forward(0, &mut model, &x, rows).expect("it fits");
        near("logits in evaluation", &floats(engine.logits(0)), &self.evaluated);
        model.training = true;
        engine.forward(0, &mut model, &x, rows).expect("it fits");
        assert_eq!(model.net.features(), self.features.0);
        near("norm of the features", &[norm(engine.features(0))], &[self.features.1]);
        near("logits", &floats(engine.logits(0)), &self.logits);
        for (name, wanted) in &self.buffers {
            let (_, _, found) = model.export_torch().into_iter().find(|(own, ..)| own == name).expect("the names were compared");
            near(name, &[norm(&found)], &[*wanted]);
        }
        let mut d_logits = Vec::new();
        let value = loss::cross_entropy(engine.logits(0), &labels, self.classes, &mut d_logits);
        near("loss", &[value.to_f64()], &[self.loss]);
        let mut gradient = vec![F::ZERO; model.params.len()];
        engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("after forward");
        let net = model.net.clone();
        for (stream, ((name, shape, wanted, first, second), entry)) in self.gradients.iter().zip(&net.layout().entries).enumerate() {
            assert_eq!((name, shape), (&entry.name, &entry.shape), "{}", self.name);
            let own = net.layout().export(&gradient, entry);
            let product = |i: u64| -> f64 {
                own.iter().zip(formula(2000 + stream as u64 + 500 * i, own.len())).map(|(value, factor)| value.to_f64() * factor).sum()
            };
            within(back, &format!("gradient of {name}"), &[norm(&own), product(0), product(1)], &[*wanted, *first, *second]);
        }
        update::sgd(&mut model.params, &gradient, F::from_f64(rate), 0..gradient.len(), &[]);
        engine.forward(0, &mut model, &x, rows).expect("it fits");
        within(after, "logits after a step", &floats(engine.logits(0)), &self.stepped);
    }
}

#[test]
fn in_double_precision_they_are_pytorchs() {
    let Reference { rows, rate, cases } = reference();
    cases.iter().for_each(|case| case.check::<f64>(rows, rate, [1e-9; 3]));
}

#[test]
fn in_single_precision_they_are_pytorchs_up_to_rounding() {
    let Reference { rows, rate, cases } = reference();
    cases.iter().for_each(|case| case.check::<f32>(rows, rate, case.single.map(|own| (4.0 * own).max(1e-5))));
}
