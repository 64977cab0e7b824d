//! L-BFGS and second derivatives against values made by PyTorch (`make_reference.py` beside this file).

use pflpipe::attacks::{Distance, Replay, Seen, Target};
use pflpipe::base::numerics::lbfgs::{Lbfgs, Options};
use pflpipe::engine::{Activation, Layer, Model, Network, Shape};
use serde_json::Value;
use std::sync::Arc;

fn reference() -> Value {
    serde_json::from_str(include_str!("reference.json")).expect("the reference is JSON")
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

/// Numbers that the program beside this file makes, too.
fn numbers(count: usize, seed: f64, scale: f64) -> Vec<f64> {
    (0..count).map(|i| i as f64).map(|i| scale * (1.7 * i + 0.31 * i * i + seed).sin()).collect()
}

fn close(found: &[f64], wanted: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let size = wanted.iter().fold(1e-3, |most: f64, v| most.max(v.abs()));
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((found - wanted).abs() <= tolerance * size, "{what}, number {i}: {found} instead of {wanted} of {size}");
    }
}

fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
    gradient.fill(0.0);
    let mut sum = 0.0;
    for i in 0..x.len() - 1 {
        let (bend, rest) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
        sum += 100.0 * bend * bend + rest * rest;
        gradient[i] += -400.0 * x[i] * bend - 2.0 * rest;
        gradient[i + 1] += 200.0 * bend;
    }
    sum
}

fn valley(x: &[f64], gradient: &mut [f64]) -> f64 {
    let total: f64 = x.iter().sum();
    let mut sum = 0.05 * total * total;
    for (i, (x, g)) in x.iter().zip(gradient).enumerate() {
        let weight = i as f64 + 1.0;
        sum += weight * (x - 0.3 * weight).cosh().ln();
        *g = weight * (x - 0.3 * weight).tanh() + 0.1 * total;
    }
    sum
}

#[test]
fn lbfgs_goes_where_torchs_goes() {
    for case in reference()["lbfgs"].as_array().expect("trajectories") {
        let given = &case["options"];
        let iterations = given["max_iter"].as_u64().unwrap_or(20) as usize;
        let options = Options {
            rate: given["lr"].as_f64().unwrap_or(1.0),
            iterations,
            evaluations: iterations * 5 / 4,
            history: given["history_size"].as_u64().unwrap_or(100) as usize,
            strong_wolfe: given["line_search_fn"].is_string(),
            ..Options::default()
        };
        let function = if case["function"] == "rosenbrock" { rosenbrock } else { valley };
        let mut optimizer = Lbfgs::new(options);
        let mut x = floats(&case["start"]);
        for (step, wanted) in case["points"].as_array().expect("points").iter().enumerate() {
            optimizer.step(&mut x, &mut |x, g| Ok(function(x, g))).expect("the function has no faults");
            close(&x, &floats(wanted), 1e-6, &format!("{} {given} step {step}", case["function"]));
        }
    }
}

fn network(name: &str) -> Network {
    let (shape, layers, head) = match name {
        "cnn" => (
            Shape { channels: 2, height: 8, width: 8 },
            vec![
                Layer::conv("conv1", 3, 3, 1),
                Layer::Relu,
                Layer::pool(2),
                Layer::conv("conv2", 4, 3, 0),
                Layer::Relu,
                Layer::Flatten,
                Layer::linear("fc1", 5),
                Layer::Relu,
                Layer::linear("fc", 4),
            ],
            8,
        ),
        _ => (
            Shape { channels: 1, height: 3, width: 4 },
            vec![
                Layer::Flatten,
                Layer::linear("fc1", 7),
                Layer::Activation(Activation::Sigmoid),
                Layer::linear("fc2", 6),
                Layer::Activation(Activation::Sigmoid),
                Layer::linear("fc", 4),
            ],
            5,
        ),
    };
    Network::build(shape, layers, head).expect("a network")
}

/// Channels-last from channels-first, sample by sample.
fn channels_last(values: &[f64], shape: Shape) -> Vec<f64> {
    let plane = shape.height * shape.width;
    let sample = |values: &[f64]| -> Vec<f64> {
        (0..plane).flat_map(|pixel| (0..shape.channels).map(move |channel| channel * plane + pixel)).map(|i| values[i]).collect()
    };
    values.chunks_exact(shape.numel()).flat_map(sample).collect()
}

#[test]
fn second_derivatives_are_those_of_a_double_backward() {
    for case in reference()["second"].as_array().expect("networks") {
        let name = case["network"].as_str().expect("a name");
        let net = Arc::new(network(name));
        let shape = net.input();
        let mut model: Model<f64> =
            Model::init(net.clone(), &mut pflpipe::base::random::stream(0, pflpipe::base::random::Purpose::Initialisation, 0, 0, 0));
        let tensors: Vec<_> = case["parameters"]
            .as_object()
            .expect("parameters")
            .iter()
            .map(|(name, tensor)| (name.clone(), floats(&tensor["shape"]).iter().map(|v| *v as usize).collect(), floats(&tensor["values"])))
            .collect();
        model.import_torch(&tensors).expect("they fit");
        let layout = net.layout();
        // All but the last layer is sent.
        let entries = &layout.entries[..layout.entries.len() - 2];
        let mut seen = Seen { update: vec![0.0; layout.len], sent: entries.iter().map(|e| e.range.clone()).collect() };
        for (i, entry) in entries.iter().enumerate() {
            layout.import(&mut seen.update, entry, &numbers(entry.range.len(), 20.0 + i as f64, 0.2)).expect("it fits");
        }
        let x = channels_last(&numbers(3 * shape.numel(), 5.0, 1.0), shape);
        let soft = numbers(12, 9.0, 1.0);
        for case in case["cases"].as_array().expect("cases") {
            let steps = case["steps"].as_array().expect("steps").iter();
            let steps = steps.map(|s| s[0].as_u64().expect("a start") as usize..s[1].as_u64().expect("an end") as usize).collect();
            let mut replay = Replay::new(model.clone(), steps, case["rate"].as_f64().expect("a rate"));
            let target = match case["loss"].as_str() {
                Some("classes") => Target::Classes(&[2, 0, 3]),
                Some("soft") => Target::Soft(&soft),
                _ => Target::Outputs(&soft),
            };
            let distance = if case["distance"] == "squares" { Distance::Squares } else { Distance::Cosine };
            let (mut d_x, mut d_soft) = (vec![0.0; x.len()], vec![0.0; 12]);
            let value = seen.compare(&mut replay, distance, &x, &target, &mut d_x, Some(&mut d_soft)).expect("it fits");
            let what = format!("{name} {} {} {}", case["loss"], case["distance"], case["steps"]);
            close(&[value], &[case["value"].as_f64().expect("a value")], 1e-9, &what);
            close(&d_x, &channels_last(&floats(&case["d_x"]), shape), 1e-6, &what);
            let wanted = floats(&case["d_target"]);
            if !wanted.is_empty() {
                close(&d_soft, &wanted, 1e-6, &what);
            }
        }
    }
}
