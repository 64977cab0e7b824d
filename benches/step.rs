//! Milliseconds of one SGD step (forward, cross-entropy, backward, update), and of an evaluation: `cargo bench --bench step`.
//!
//! The networks are those of PFLlib on 1x28x28 images with 10 classes, on 3x32x32 images with 100 classes, the first of them with
//! batch normalisation, and its MLP; `-bf16` behind a name rounds the factors of products. With `-- --serve` the program measures what it is asked for line by line, so that
//! `against_pytorch.py` can let the two take turns on a machine whose speed changes; there a network may also be a model family with its
//! parameters, as `models_against_pytorch.py` asks for.

use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::engine::tape::{self, Branch, Graph};
use pflpipe::engine::update::{self, Descent};
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, Precision, Shape, Support, loss, simd};
use pflpipe::models;
use serde_json::Value;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: pflpipe::engine::simd::Aligned = pflpipe::engine::simd::Aligned;

const NAMES: [&str; 4] = ["cnn28", "cnn32", "cnn28-bn", "mlp"];

fn main() {
    println!("cpu class {}", simd::cpu_class());
    if std::env::args().any(|argument| argument == "--serve") {
        serve();
        return;
    }
    for name in NAMES {
        parts(name, 10);
        for batch in [1, 10, 32, 64, 256] {
            let one = median(|| step(name, batch, 1, Duration::from_millis(200)));
            let two = median(|| step(name, batch, 2, Duration::from_millis(200)));
            let forward = median(|| evaluate(name, batch, 1, Duration::from_millis(200)));
            println!("{name}, batch {batch}: {one:.3} ms a step, {two:.3} with two clients on two threads, {forward:.3} ms forward only");
        }
        let low = median(|| step(&format!("{name}-bf16"), 10, 1, Duration::from_millis(200)));
        println!("{name}, batch 10 with products in bf16: {low:.3} ms a step");
    }
}

/// Answers lines `step|forward|tape NAME BATCH THREADS SECONDS` with milliseconds for one batch.
fn serve() {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, name, batch, threads, seconds] = words[..] else { return };
        let batch = batch.parse().expect("a batch size");
        let threads = threads.parse().expect("a number of threads");
        let time = Duration::from_secs_f64(seconds.parse().expect("seconds"));
        let ms = match what {
            "step" => step(name, batch, threads, time),
            "tape" => through_the_tape(name, batch, time),
            _ => evaluate(name, batch, threads, time),
        };
        println!("{ms}");
    }
}

/// One of the networks above, or `{"kind": ..., "params": {...}, "shape": [channels, height, width], "classes": ..., "words": ..., "precision": "bf16"}`, without the last where it is single.
fn network(name: &str) -> Arc<Network> {
    if name.starts_with('{') {
        return family(&serde_json::from_str(name).expect("a model as JSON"));
    }
    if let Some(name) = name.strip_suffix("-bf16") {
        return Arc::new(Network::clone(&network(name)).with_precision(Precision::Bf16));
    }
    let (input, classes) = match name {
        "cnn32" => (Shape { channels: 3, height: 32, width: 32 }, 100),
        _ => (Shape { channels: 1, height: 28, width: 28 }, 10),
    };
    let norm = |at: &str| (name == "cnn28-bn").then(|| Layer::BatchNorm2d { name: at.to_owned(), eps: 1e-5 });
    let mut layers = Vec::new();
    if name == "mlp" {
        layers.extend([Layer::Flatten, Layer::linear("fc1", 100), Layer::Relu]);
    } else {
        layers.push(Layer::conv("conv1.0", 32, 5, 0));
        layers.extend(norm("conv1.1"));
        layers.extend([Layer::Relu, Layer::pool(2), Layer::conv("conv2.0", 64, 5, 0)]);
        layers.extend(norm("conv2.1"));
        layers.extend([Layer::Relu, Layer::pool(2), Layer::Flatten, Layer::linear("fc1.0", 512), Layer::Relu]);
    }
    let head = layers.len();
    layers.push(Layer::linear("fc", classes));
    Arc::new(Network::build(input, layers, head).expect("a network that fits"))
}

fn family(line: &Value) -> Arc<Network> {
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let [channels, height, width] = [0, 1, 2].map(|at| number(&line["shape"][at]));
    let kind = line["kind"].as_str().expect("a family");
    let params = line["params"].as_object().expect("a map");
    let network = models::build(kind, params, Shape { channels, height, width }, number(&line["classes"])).expect("a network that fits");
    Arc::new(if line["precision"] == "bf16" { network.with_precision(Precision::Bf16) } else { network })
}

/// A client in the middle of its epoch.
struct Client {
    engine: Engine<f32>,
    model: Model<f32>,
    x: Vec<f32>,
    labels: Vec<u32>,
    gradient: Vec<f32>,
    support: Support,
    d_logits: Vec<f32>,
}

impl Client {
    fn new(name: &str, batch: usize) -> Self {
        let net = network(name);
        let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
        let model = Model::<f32>::init(net.clone(), &mut rng);
        let words = net.layers().iter().find_map(|layer| if let Layer::Embedding { words, .. } = layer { Some(*words) } else { None });
        let value = |draw: f64| words.map_or(draw, |words| (draw * (words - 1) as f64).floor() + 1.0);
        let x: Vec<f32> = (0..batch * net.input().numel()).map(|_| value(unit(&mut rng)) as f32).collect();
        let labels = (0..batch as u32).map(|i| i % net.classes() as u32).collect();
        Self { engine: Engine::new(), model, x, labels, gradient: Vec::new(), support: Support::default(), d_logits: Vec::new() }
    }
    fn forward(&mut self) {
        self.engine.forward(0, &mut self.model, &self.x, self.labels.len()).expect("shapes fit");
    }
    fn loss(&mut self) {
        loss::cross_entropy(self.engine.logits(0), &self.labels, self.model.net.classes(), &mut self.d_logits);
    }
    fn backward(&mut self) {
        let (rows, descent) = (self.labels.len(), Descent { rate: 0.005, corrections: &[] });
        self.engine.descend(0, &mut self.model, &self.d_logits, Parts::All, &mut self.gradient, descent).expect("after forward");
        self.support.step(self.engine.steppers(&self.model.net, Parts::All, rows));
    }
    fn clear(&mut self) {
        self.support.clear(&mut self.gradient, self.model.net.layout().len);
        self.support.batch(&self.model.net, &self.x);
    }
    fn update(&mut self) {
        for range in self.support.ranges() {
            update::sgd(&mut self.model.params, &self.gradient, 0.005, range.clone(), &[]);
        }
    }
}

/// Milliseconds of a step; with several threads each has a client of its own, and the time is shared among them.
fn step(name: &str, batch: usize, threads: usize, time: Duration) -> f64 {
    repeat(name, batch, threads, time, |client| {
        client.forward();
        client.loss();
        client.clear();
        client.backward();
        client.update();
    })
}

/// Milliseconds of a forward pass as an evaluation does it.
fn evaluate(name: &str, batch: usize, threads: usize, time: Duration) -> f64 {
    repeat(name, batch, threads, time, |client| {
        client.model.training = false;
        client.forward();
    })
}

fn repeat(name: &str, batch: usize, threads: usize, time: Duration, work: impl Fn(&mut Client) + Sync) -> f64 {
    let mut clients: Vec<Client> = (0..threads).map(|_| Client::new(name, batch)).collect();
    // The first steps fill buffers and caches.
    clients.iter_mut().for_each(|client| (0..3).for_each(|_| work(client)));
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                while begun.elapsed() < time {
                    work(client);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    begun.elapsed().as_secs_f64() * 1e3 / done.into_inner() as f64
}

/// Milliseconds of a step whose loss is on dfdx's tape.
fn through_the_tape(name: &str, batch: usize, time: Duration) -> f64 {
    let mut client = Client::new(name, batch);
    let mut gradients = vec![std::mem::take(&mut client.gradient)];
    let (begun, mut steps) = (Instant::now(), 0);
    while begun.elapsed() < time {
        gradients[0].clear();
        gradients[0].resize(client.model.net.layout().len, 0.0);
        let branch = Branch { slot: 0, model: &mut client.model, x: &client.x, rows: batch, parts: Parts::All };
        let labels = &client.labels;
        let loss = |graphs: &[Graph]| Ok(tape::cross_entropy(graphs[0].logits(), labels));
        client.engine.differentiate(&mut [branch], &mut gradients, loss).expect("shapes fit");
        update::sgd(&mut client.model.params, &gradients[0], 0.005, 0..gradients[0].len(), &[]);
        steps += 1;
    }
    begun.elapsed().as_secs_f64() * 1e3 / f64::from(steps)
}

fn median(measure: impl Fn() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..5).map(|_| measure()).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

/// Prints what the parts of a step take: the fastest of nine runs, the one least disturbed by others.
fn parts(name: &str, batch: usize) {
    let mut client = Client::new(name, batch);
    let steps = if name == "mlp" { 2000 } else { 60 };
    let mut runs = Vec::new();
    for run in 0..10 {
        let mut parts = [0.0; 4];
        for _ in 0..steps {
            let mut clock = Instant::now();
            let mut lap = |part: usize| {
                parts[part] += clock.elapsed().as_secs_f64() * 1e3 / f64::from(steps);
                clock = Instant::now();
            };
            client.forward();
            client.loss();
            lap(0);
            client.clear();
            lap(1);
            client.backward();
            lap(2);
            client.update();
            lap(3);
        }
        if run > 0 {
            runs.push(parts);
        }
    }
    runs.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
    let [forward, clear, backward, update] = runs[0];
    let tape = median(|| through_the_tape(name, batch, Duration::from_millis(200)));
    println!(
        "{name}: {:.3} ms a step (forward {forward:.3}, clear {clear:.3}, backward {backward:.3}, update {update:.3}); {tape:.3} through the tape",
        forward + clear + backward + update
    );
}
