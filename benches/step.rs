//! Milliseconds of one SGD step (forward, cross-entropy, backward, update) on one thread: `cargo bench --bench step`.
//!
//! The networks are those of PFLlib on 1x28x28 images with 10 classes, on 3x32x32 images with 100 classes, and its MLP; batch 10.
//! PyTorch 2.7.1 on one thread of a 2-core Zen 4 takes 6.9, 10.5 and 0.34 ms.

use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::engine::tape::{self, Branch, Graph};
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, Shape, loss, simd, update};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    println!("cpu class {}", simd::cpu_class());
    for (name, input, classes, layers) in [
        ("cnn28", Shape { channels: 1, height: 28, width: 28 }, 10, cnn()),
        ("cnn32", Shape { channels: 3, height: 32, width: 32 }, 100, cnn()),
        ("mlp", Shape { channels: 1, height: 28, width: 28 }, 10, vec![Layer::Flatten, Layer::linear("fc1", 100), Layer::Relu]),
    ] {
        let mut layers = layers;
        let head = layers.len();
        layers.push(Layer::linear("fc", classes));
        let net = Arc::new(Network::build(input, layers, head).expect("a network that fits"));
        measure(name, &net);
    }
}

fn cnn() -> Vec<Layer> {
    vec![
        Layer::conv("conv1.0", 32, 5, 0),
        Layer::Relu,
        Layer::pool(2),
        Layer::conv("conv2.0", 64, 5, 0),
        Layer::Relu,
        Layer::pool(2),
        Layer::Flatten,
        Layer::linear("fc1.0", 512),
        Layer::Relu,
    ]
}

/// Prints the fastest of nine runs, the one least disturbed by others: the whole step, its parts, and the step through the tape.
fn measure(name: &str, net: &Arc<Network>) {
    let rows = 10;
    let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
    let mut model = Model::<f32>::init(net.clone(), &mut rng);
    let x: Vec<f32> = (0..rows * net.input().numel()).map(|_| unit(&mut rng) as f32).collect();
    let labels: Vec<u32> = (0..rows as u32).collect();
    let mut engine = Engine::<f32>::new();
    let mut gradient = vec![0.0; net.layout().len];
    let mut d_logits = Vec::new();
    let mut runs = Vec::new();
    let steps = if name == "mlp" { 2000 } else { 60 };
    for run in 0..10 {
        let mut parts = [0.0; 4];
        for _ in 0..steps {
            let mut clock = Instant::now();
            let mut lap = |part: usize| {
                parts[part] += clock.elapsed().as_secs_f64() * 1e3 / f64::from(steps);
                clock = Instant::now();
            };
            engine.forward(0, &mut model, &x, rows).expect("shapes fit");
            loss::cross_entropy(engine.logits(0), &labels, net.classes(), &mut d_logits);
            lap(0);
            gradient.fill(0.0);
            lap(1);
            engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("after forward");
            lap(2);
            update::sgd(&mut model.params, &gradient, 0.005, 0..gradient.len(), &[]);
            lap(3);
        }
        if run > 0 {
            runs.push(parts);
        }
    }
    runs.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
    let [forward, clear, backward, step] = runs[0];
    println!(
        "{name}: {:.3} ms a step (forward {forward:.3}, clear {clear:.3}, backward {backward:.3}, update {step:.3})",
        forward + clear + backward + step
    );
    let mut gradients = vec![gradient];
    let mut fastest = f64::INFINITY;
    for _ in 0..10 {
        let clock = Instant::now();
        for _ in 0..steps {
            gradients[0].fill(0.0);
            let branch = Branch { slot: 0, model: &mut model, x: &x, rows, parts: Parts::All };
            let loss = |graphs: &[Graph]| Ok(tape::cross_entropy(graphs[0].logits(), &labels));
            engine.differentiate(&mut [branch], &mut gradients, loss).expect("shapes fit");
            update::sgd(&mut model.params, &gradients[0], 0.005, 0..gradients[0].len(), &[]);
        }
        fastest = fastest.min(clock.elapsed().as_secs_f64() * 1e3 / f64::from(steps));
    }
    println!("{name}: {fastest:.3} ms a step through the tape");
}
