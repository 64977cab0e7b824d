//! A lower precision of products against its definition.

use super::{noise, rng};
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, Precision, Shape};
use std::sync::Arc;

/// With bf16, a pass is that of a single-precision network whose factors are rounded before every product.
#[test]
fn a_lower_precision_rounds_the_factors_and_nothing_else() {
    let bf16 = |values: &mut [f32]| {
        // The definition: the nearest multiple of 2^(exponent - 7), of two the even one.
        for value in values {
            let last = 2f64.powi(f64::from(value.abs().max(f32::MIN_POSITIVE)).log2().floor() as i32 - 7);
            *value = ((f64::from(*value) / last).round_ties_even() * last) as f32;
        }
    };
    let layers = || vec![Layer::linear("a", 9), Layer::Activation(pflpipe::engine::Activation::Tanh), Layer::linear("fc", 4)];
    let net = |precision| Arc::new(Network::build(Shape::vector(23), layers(), 2).expect("fits").with_precision(precision));
    let mut rng = rng(8);
    let mut low = Model::<f32>::init(net(Precision::Bf16), &mut rng);
    let mut model = Model { net: net(Precision::F32), ..low.clone() };
    let (x, d_logits) = (noise::<f32>(&mut rng, 5 * 23), noise::<f32>(&mut rng, 5 * 4));
    let mut engine = Engine::<f32>::new();
    engine.forward(0, &mut low, &x, 5).expect("fits");
    let mut gradient = vec![0.0; low.params.len()];
    engine.backward(0, &low, Some(&d_logits), None, Parts::All, &mut gradient).expect("after forward");

    let parameters = model.net.layout().entries.clone();
    for entry in parameters.iter().filter(|entry| entry.name.ends_with("weight")) {
        bf16(&mut model.params[entry.range.clone()]);
    }
    let rounded = |values: &[f32]| {
        let mut values = values.to_vec();
        bf16(&mut values);
        values
    };
    // Layer by layer, with what goes in between rounded by hand.
    let dense = |x: &[f32], inputs: usize, outputs: usize, at: usize| -> Vec<f32> {
        let (w, b) = (&model.params[parameters[at].range.clone()], &model.params[parameters[at + 1].range.clone()]);
        let sum = |row: &[f32], o: usize| {
            f64::from(b[o]) + row.iter().enumerate().map(|(i, x)| f64::from(*x) * f64::from(w[i * outputs + o])).sum::<f64>()
        };
        x.chunks_exact(inputs).flat_map(|row| (0..outputs).map(move |o| sum(row, o) as f32).collect::<Vec<_>>()).collect()
    };
    let hidden: Vec<f32> = dense(&rounded(&x), 23, 9, 0).iter().map(|v| v.tanh()).collect();
    let logits = dense(&rounded(&hidden), 9, 4, 2);
    let near = |a: &[f32], b: &[f32]| {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 2e-6 * b.abs().max(1.0), "{a} or {b}"));
    };
    near(engine.logits(0), &logits);
    assert!(engine.features(0).iter().zip(&hidden).all(|(a, b)| (a - b).abs() < 1e-6), "features are not rounded");
    let d = rounded(&d_logits);
    let mut d_weight = vec![0.0f32; 36];
    for (row, d) in rounded(&hidden).chunks_exact(9).zip(d.chunks_exact(4)) {
        (0..36).for_each(|i| d_weight[i] += row[i / 4] * d[i % 4]);
    }
    near(&gradient[parameters[2].range.clone()], &d_weight);
    // The parameters themselves stay as they were.
    assert!(low.params.iter().any(|&p| rounded(&[p])[0] != p));
}
