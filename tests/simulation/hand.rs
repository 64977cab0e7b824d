//! A world small enough to compute by hand: x -> f = u x + a -> logits (v0 f + b0, v1 f + b1), one sample x = 1 a client.
//!
//! It starts at u = ln 3 / 2, a = 0, v = (1, -1), b = 0. So f = ln 3 / 2, the logits differ by ln 3, the softmax is (3/4, 1/4), and
//! with d = softmax - label the gradient is (d.v, d.v, d f, d): for label 0 it is [`G`], for label 1 it is -3 [`G`]. The learning
//! rate is [`RATE`]. No random question has an answer other than 0 or "as it stands".

use crate::small::Case;
use pflpipe::base::random::{Purpose, stream};
use pflpipe::base::threads::Budget;
use pflpipe::data::partition::Client;
use pflpipe::data::{Bytes, Dataset, Origin, Samples};
use pflpipe::engine::{Layer, Model, Network, Shape};
use pflpipe::fl::round::{Monitor, Parties};
use pflpipe::fl::state::Leaf;
use pflpipe::fl::streams::{Law, Moment, NoiseKind};
use pflpipe::fl::{History, Settings, Streams, World};
use serde_json::{Value, json};
use std::sync::Arc;

/// u, a, v0, v1, b0, b1.
pub type Six = [f64; 6];

/// ln 3 / 2, the feature at the start.
pub const H: f64 = 0.549_306_144_334_054_8;
/// The parameters at the start.
pub const W: Six = [H, 0.0, 1.0, -1.0, 0.0, 0.0];
/// The gradient at the start for label 0: d = (-1/4, 1/4), d.v = -1/2. For label 1: d = (3/4, -3/4), d.v = 3/2.
pub const G: Six = [-0.5, -0.5, -0.25 * H, 0.25 * H, -0.25, 0.25];
/// The learning rate.
pub const RATE: f64 = 0.4;

/// `w + factor * g`.
pub fn plus(w: &Six, factor: f64, g: &Six) -> Six {
    std::array::from_fn(|i| w[i] + factor * g[i])
}

/// The feature of x = 1.
pub fn feature(w: &Six) -> f64 {
    w[0] + w[1]
}

/// The softmax at x = 1.
pub fn softmax(w: &Six) -> [f64; 2] {
    let f = feature(w);
    let p = 1.0 / (1.0 + ((w[3] - w[2]) * f + w[5] - w[4]).exp());
    [p, 1.0 - p]
}

/// The gradient at x = 1 from that of the logits and another one of the feature.
pub fn chain(w: &Six, d: [f64; 2], more: f64) -> Six {
    let f = feature(w);
    let d_f = d[0] * w[2] + d[1] * w[3] + more;
    [d_f, d_f, d[0] * f, d[1] * f, d[0], d[1]]
}

/// The gradient of the cross-entropy of x = 1.
pub fn gradient(w: &Six, label: usize) -> Six {
    let mut d = softmax(w);
    d[label] -= 1.0;
    chain(w, d, 0.0)
}

/// One step of gradient descent on x = 1.
pub fn step(w: &Six, label: usize) -> Six {
    plus(w, -RATE, &gradient(w, label))
}

/// The squared length.
pub fn square(g: &Six) -> f64 {
    g.iter().map(|v| v * v).sum()
}

/// Answers nothing but zeros.
struct Zeros;

impl Streams for Zeros {
    fn cohort(&self, _: u64, clients: usize, _: usize, _: usize) -> Vec<usize> {
        (0..clients).collect()
    }
    fn accepted(&self, _: u64, count: usize, _: usize) -> Vec<usize> {
        (0..count).collect()
    }
    fn order(&self, _: Moment, n: usize) -> Vec<u32> {
        (0..n as u32).collect()
    }
    fn integers(&self, _: Moment, count: usize, _: usize) -> Vec<usize> {
        vec![0; count]
    }
    fn noise(&self, _: Moment, _: NoiseKind, out: &mut [f32]) {
        out.fill(0.0);
    }
    /// Zeros, but for GPFL's class embeddings, which are 1 and -1.
    fn initial(&self, name: &str, _: Law, out: &mut [f32]) {
        out.fill(0.0);
        if name == "embeddings" {
            out.copy_from_slice(&[1.0, -1.0]);
        }
    }
    fn slow(&self, _: bool, _: usize, _: usize, _: bool) -> Vec<usize> {
        Vec::new()
    }
    fn delay(&self, _: Moment) -> f64 {
        0.0
    }
}

#[derive(Default)]
struct Keep(Vec<Parties>);

impl Monitor for Keep {
    fn inspects(&self) -> bool {
        true
    }
    fn inspect(&mut self, _: u64, parties: &Parties) {
        self.0.push(parties.clone());
    }
}

/// What a run leaves: the states after its last round, and the measurements.
pub struct Outcome {
    last: Parties,
    pub history: History,
}

/// Runs the algorithm on clients with these labels, one sample x = 1 for each label.
pub fn run(case: &Case, labels: &[&[u32]], settings: Value) -> Outcome {
    let mut all = json!({"rounds": 1, "batch_size": 1, "learning_rate": RATE, "train_loss": "full"});
    all.as_object_mut().expect("a map").extend(settings.as_object().expect("a map").clone());
    let settings: Settings = serde_json::from_value(all).expect("the settings fit");
    let flat: Vec<u32> = labels.concat();
    let shape = Shape { channels: 1, height: 1, width: 1 };
    let ones = Samples::F32(Bytes::new(Arc::new(1f32.to_le_bytes().repeat(flat.len())), 0));
    let mut next = 0..;
    let clients = labels.iter().map(|own| {
        let train: Vec<u32> = next.by_ref().take(own.len()).collect();
        Client { test: train.clone(), train }
    });
    let clients = clients.collect();
    let data = Dataset::new("hand", shape, 2, ones, flat.clone(), flat.len(), Origin::default()).expect("valid data");
    let layers = vec![Layer::Flatten, Layer::linear("fc1", 1), Layer::linear("fc", 2)];
    let net = Arc::new(Network::build(shape, layers, 2).expect("a valid network"));
    let mut initial = Model::init(net.clone(), &mut stream(0, Purpose::Initialisation, 0, 0, 0));
    for (name, values) in [("fc1.weight", &W[0..1]), ("fc1.bias", &W[1..2]), ("fc.weight", &W[2..4]), ("fc.bias", &W[4..6])] {
        let entry = net.layout().entry(name).expect("a layer of the network");
        let values: Vec<f32> = values.iter().map(|v| *v as f32).collect();
        net.layout().import(&mut initial.params, entry, &values).expect("it fits");
    }
    let world = World::new(initial, Arc::new(data), clients, settings, Box::new(Zeros), Budget::new(1)).expect("a valid world");
    let _permit = world.budget.acquire();
    let mut keep = Keep::default();
    let simulated = case.build().simulate(&world, &mut keep).unwrap_or_else(|fault| panic!("{}: {fault}", case.name()));
    Outcome { last: keep.0.pop().expect("a state"), history: simulated.history }
}

fn numbers(leaves: &[(String, Leaf)], name: &str) -> Vec<f32> {
    match leaves.iter().find(|(n, _)| n == name).map(|(_, leaf)| leaf) {
        Some(Leaf::Params(params)) => params.to_vec(),
        Some(Leaf::Vector(vector)) => vector.clone(),
        Some(Leaf::Model(model)) => model.net.layout().entries.iter().flat_map(|entry| model.export(entry)).collect(),
        Some(Leaf::Number(number)) => vec![*number as f32],
        other => panic!("`{name}` is {other:?} among {:?}", leaves.iter().map(|(name, _)| name).collect::<Vec<_>>()),
    }
}

impl Outcome {
    /// A leaf of the server is as computed.
    pub fn server(&self, name: &str, expected: &[f64]) {
        equal(&format!("server {name}"), &numbers(&self.last.server, name), expected);
    }
    /// A leaf of a client is as computed.
    pub fn client(&self, client: usize, name: &str, expected: &[f64]) {
        equal(&format!("client {client} {name}"), &numbers(&self.last.clients[client], name), expected);
    }
    /// The training loss of the initial models is as computed.
    pub fn first_loss(&self, expected: f64) {
        let loss = self.history.evaluations[0].train_loss.expect("it was measured");
        equal("training loss", &[loss as f32], &[expected]);
    }
}

fn equal(what: &str, ours: &[f32], expected: &[f64]) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (a, b) in ours.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() < 2e-6, "{what}: {ours:?} instead of {expected:?}");
    }
}
