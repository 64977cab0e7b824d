//! What a round of each algorithm costs beside its passes through the network: `cargo bench --bench passes`.
//!
//! The network is PFLlib's CNN on 1x28x28 images, batch 10, one epoch, 20 clients with 350 images each; they are Fashion-MNIST's where a
//! data folder (`PFLPIPE_DATA` or `../shared/data`) has them, else noise of their shape. For each algorithm: the samples that go forward
//! and backward in its second round, in units of the training set; the processor seconds of that round on one thread; and these divided
//! by what FedAvg takes for as many passes, where at most 1.3 is aimed at. A pass forward without a way back counts what it is
//! measured to cost, and a pass through an algorithm's own dense layers what a multi-layer perceptron (512, 1024, 512) is measured to cost
//! for each weight; `modules` is their share of the expected time, without which the cost would be higher by as much. Last, the seconds on two threads beside PFLlib's, which were taken on
//! another machine with two cores: they say about where ours stand, no more. Arguments choose algorithms by name.
//!
//! What costs most beside the passes: in APPLE the mix of all N models in every batch, in FedKD singular values of every upload and a map of
//! features, in FedCP a policy network with as many weights as the CNN, in GPFL a valve of two networks with half a million weights. What a frozen
//! model makes of a client's samples is computed once a round, many samples at a time (`algorithms/shared/frozen.rs`), and counts as one pass.

use pflpipe::algorithms;
use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::base::threads::Budget;
use pflpipe::data::{self, Bytes, Client, Dataset, Origin, Samples, Shape};
use pflpipe::engine::update::sgd;
use pflpipe::engine::{self, Engine, Layer, Model, Network, Parts};
use pflpipe::fl::{History, Monitor, Seeded, Settings, World};
use pflpipe::models;
use pflpipe::spec::catalog::Default;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: pflpipe::engine::simd::Aligned = pflpipe::engine::simd::Aligned;

const CLIENTS: usize = 20;
/// The bound on the cost of a round.
const MOST: f64 = 1.3;
/// Images a client.
const EACH: usize = 350;
/// PFLlib's seconds a round on as many images and clients, on two cores of another machine.
const PFLLIB: [(&str, f64); 15] = [
    ("fedavg", 3.7),
    ("local", 4.2),
    ("fedprox", 4.5),
    ("ditto", 7.9),
    ("fedmtl", 15.5),
    ("perfedavg", 8.2),
    ("pfedme", 15.3),
    ("moon", 8.5),
    ("apple", 11.0),
    ("fedkd", 18.4),
    ("fedphp", 60.0),
    ("gpfl", 6.5),
    ("fedcp", 5.7),
    ("fedala", 8.7),
    ("fedpac", 8.7),
];

/// The data and the network.
struct Bench {
    data: Arc<Dataset>,
    initial: Model,
}

/// One round, measured.
#[derive(Clone, Copy)]
struct Round {
    /// Processor seconds of this thread.
    busy: f64,
    /// Seconds on the wall.
    wall: f64,
    forward: f64,
    backward: f64,
    /// Rows times weights of the algorithm's own layers.
    modules: f64,
}

/// Looks at the clocks and the meter after each round, and stops after the last.
struct Watch<'a> {
    world: &'a World,
    last: u64,
    done: Cell<u64>,
    marks: Vec<(f64, Instant, [u64; 3])>,
}

impl Monitor for Watch<'_> {
    fn progress(&mut self, done: u64, _: u64, _: &History) {
        self.done.set(done);
        let meter = &self.world.meter;
        self.marks.push((busy(), Instant::now(), [meter.forward(), meter.backward(), meter.modules()]));
    }
    fn stopping(&self) -> bool {
        self.done.get() == self.last
    }
}

/// Processor seconds of this thread where the system tells, else those on the wall.
fn busy() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    thread_local!(static BEGUN: Instant = Instant::now());
    nanoseconds.map_or_else(|| BEGUN.with(|begun| begun.elapsed().as_secs_f64()), |n| n * 1e-9)
}

/// The default hyper-parameters of an algorithm.
fn defaults(name: &str) -> Map<String, Value> {
    let registry = algorithms::all();
    let fields = &registry.get(name).expect("a known algorithm").description.fields;
    let given = fields.iter().filter_map(|f| if let Default::Is(value) = &f.default { Some((f.name, value.clone())) } else { None });
    given.chain([("name", json!(name))]).map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Bench {
    fn new() -> Self {
        let data = images();
        let network = models::build("cnn", &Map::new(), data.shape(), 10).expect("the images fit");
        let initial = Model::init(Arc::new(network), &mut stream(3, Purpose::Initialisation, 0, 0, 0));
        Self { data, initial }
    }
    /// Each client has images of three classes, and ten more to be tested on.
    fn shards(&self, each: usize) -> Vec<Client> {
        let mut by_class = vec![Vec::new(); 10];
        for (i, label) in self.data.labels().iter().enumerate() {
            by_class[*label as usize].push(i as u32);
        }
        let mut take =
            |id: usize, count: usize| -> Vec<u32> { (0..count).filter_map(|k| by_class[(id + [0, 3, 5][k % 3]) % 10].pop()).collect() };
        (0..CLIENTS).map(|id| Client { train: take(id, each), test: take(id, 10) }).collect()
    }
    /// The second round of an algorithm where each client has so many images: the first one differs in some algorithms. FedALA's weights
    /// have their long first training in the second, so that it is the third.
    fn round(&self, name: &str, threads: usize, each: usize) -> Round {
        let settings: Settings =
            serde_json::from_value(json!({"rounds": 100, "eval_every": 100, "train_loss": "off"})).expect("the settings fit");
        let streams = Box::new(Seeded { sampling: 1, batches: 2 });
        let world = World::new(self.initial.clone(), self.data.clone(), self.shards(each), settings, streams, Budget::new(threads));
        let world = world.expect("a valid world");
        let _permit = world.budget.acquire();
        let last = if name == "fedala" { 3 } else { 2 };
        let mut watch = Watch { world: &world, last, done: Cell::new(0), marks: Vec::new() };
        let algorithm = algorithms::all().build(&defaults(name)).expect("the defaults fit");
        // It is stopped, or it diverged.
        let _ = algorithm.simulate(&world, &mut watch);
        let [.., a, b] = &watch.marks[..] else { panic!("two rounds of {name} without divergence") };
        let [forward, backward, modules] = [0, 1, 2].map(|i| (b.2[i] - a.2[i]) as f64);
        Round { busy: b.0 - a.0, wall: (b.1 - a.1).as_secs_f64(), forward, backward, modules }
    }
    /// Processor seconds of one sample forward.
    fn forward(&self) -> f64 {
        let mut engine = Engine::<f32>::new();
        let mut model = self.initial.clone();
        let mut x = Vec::new();
        self.data.gather(&(0..10).collect::<Vec<u32>>(), &mut x);
        let mut fastest = f64::INFINITY;
        for _ in 0..5 {
            let begun = busy();
            for _ in 0..20 {
                engine.forward(0, &mut model, &x, 10).expect("the images fit");
            }
            fastest = fastest.min((busy() - begun) / 200.0);
        }
        fastest
    }
}

/// Processor seconds of one row through one weight of dense layers: forward, back, and a step, at batch 10.
fn module() -> f64 {
    let layers = vec![Layer::linear("a", 1024), Layer::Relu, Layer::linear("b", 512)];
    let net = Arc::new(Network::build(engine::Shape::vector(512), layers, 2).expect("a network that fits"));
    let mut model = Model::init(net, &mut stream(4, Purpose::Initialisation, 0, 0, 0));
    let mut engine = Engine::<f32>::new();
    let (x, d_y, mut gradient) = (vec![0.5; 5120], vec![0.01; 5120], vec![0.0; model.params.len()]);
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let begun = busy();
        for _ in 0..20 {
            gradient.fill(0.0);
            engine.forward(0, &mut model, &x, 10).expect("the rows fit");
            engine.backward(0, &model, Some(&d_y), None, Parts::All, &mut gradient).expect("after forward");
            let all = 0..gradient.len();
            sgd(&mut model.params, &gradient, 1e-6, all, &[]);
        }
        fastest = fastest.min((busy() - begun) / 200.0);
    }
    fastest / model.params.len() as f64
}

fn images() -> Arc<Dataset> {
    let folder =
        std::env::var_os("PFLPIPE_DATA").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let params = json!({"verify": false});
    if let Ok(data) = data::load("fashion-mnist", params.as_object().expect("a map"), &[folder]) {
        println!("Fashion-MNIST");
        return Arc::new(data);
    }
    println!("noise in place of Fashion-MNIST");
    let (count, shape) = (12_000, Shape { channels: 1, height: 28, width: 28 });
    let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
    let values = (0..count * shape.numel()).flat_map(|_| (unit(&mut rng) as f32 * 2.0 - 1.0).to_le_bytes()).collect();
    let labels = (0..count as u32).map(|i| i % 10).collect();
    let samples = Samples::F32(Bytes::new(Arc::new(values), 0));
    Arc::new(Dataset::new("noise", shape, 10, samples, labels, count, Origin::default()).expect("a valid data set"))
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let bench = Bench::new();
    let samples = (CLIENTS * EACH) as f64;
    // FedAvg's time a pass is taken before and after each algorithm, since other work on the machine changes it.
    let reference = || bench.round("fedavg", 1, 70).busy / (CLIENTS * 70) as f64;
    let mut before = reference();
    let mut over = Vec::new();
    println!("algorithm    forward backward  modules  seconds  of FedAvg's a pass   2 threads   PFLlib elsewhere   PFLlib / ours");
    for entry in algorithms::all().iter() {
        let name = entry.description.name;
        if !wanted(name) {
            continue;
        }
        let forward = bench.forward();
        let round = bench.round(name, 1, EACH);
        let after = reference();
        let whole = before.min(after);
        before = after;
        let modules = if round.modules > 0.0 { round.modules * module() } else { 0.0 };
        let expected = round.backward * whole + (round.forward - round.backward) * forward + modules;
        let (ratio, share) = (round.busy / expected, 100.0 * modules / expected);
        print!("{name:12} {:7.2} {:8.2} {share:6.1} %", round.forward / samples, round.backward / samples);
        print!(" {:8.3} {ratio:12.2}", round.busy);
        match PFLLIB.iter().find(|(known, _)| *known == name) {
            Some((_, theirs)) => {
                let ours = bench.round(name, 2, EACH).wall;
                println!(" {ours:17.2} {theirs:16.1} {:16.1}", theirs / ours);
            }
            None => println!(),
        }
        if ratio > MOST {
            over.push(name);
        }
    }
    println!("above {MOST}: {}", if over.is_empty() { "none".to_owned() } else { over.join(", ") });
}
