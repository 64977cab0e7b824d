//! The training loop asks for memory at its first step and never again: a step that allocates waits for the allocator, and with it
//! for the other threads.

use pflpipe::algorithms;
use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::base::threads::Budget;
use pflpipe::data;
use pflpipe::data::partition::Client;
use pflpipe::engine::update::{self, Descent};
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, Precision, Shape, Support, loss};
use pflpipe::fl::round::Quiet;
use pflpipe::fl::{Seeded, World};
use pflpipe::privacy;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Units of a layer whose weight takes its step on the way back, of an image or of what is left of it after the convolution.
const WIDE: usize = 2000;

fn network(norm: bool, convolve: bool, units: usize) -> Arc<Network> {
    let mut layers = Vec::new();
    if convolve {
        layers.push(Layer::conv("conv1.0", 6, 3, 0));
        layers.extend(norm.then(|| Layer::norm2d("conv1.1")));
        layers.extend([Layer::Relu, Layer::pool(2)]);
    }
    layers.extend([Layer::Flatten, Layer::linear("fc1.0", units), Layer::Relu]);
    let head = layers.len();
    layers.push(Layer::linear("fc", 10));
    Arc::new(Network::build(Shape { channels: 1, height: 8, width: 8 }, layers, head).expect("a network that fits"))
}

/// A sum and a concatenation.
fn branches() -> Arc<Network> {
    let layers = vec![
        Layer::conv("a", 4, 3, 1),
        Layer::Relu,
        Layer::save("a"),
        Layer::conv("b", 4, 3, 1),
        Layer::plus("a"),
        Layer::Relu,
        Layer::Concat { names: vec!["a".to_owned()] },
        Layer::Flatten,
        Layer::linear("fc", 10),
    ];
    Arc::new(Network::build(Shape { channels: 1, height: 8, width: 8 }, layers, 8).expect("a network that fits"))
}

#[test]
fn a_step_allocates_nothing_after_the_first() {
    let bf16 = Arc::new(Network::clone(&network(false, true, 12)).with_precision(Precision::Bf16));
    let networks = [
        ("cnn", network(false, true, 12)),
        ("norm", network(true, true, 12)),
        ("mlp", network(false, false, 12)),
        ("wide", network(false, false, WIDE)),
        ("branches", branches()),
        ("bf16", bf16),
    ];
    for (name, net) in networks {
        let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
        let mut model = Model::<f32>::init(net.clone(), &mut rng);
        let x: Vec<f32> = (0..10 * 64).map(|_| unit(&mut rng) as f32).collect();
        let labels: Vec<u32> = (0..10).collect();
        let mut engine = Engine::<f32>::new();
        let (mut gradient, mut support, mut d_logits) = (Vec::new(), Support::default(), Vec::new());
        let descent = Descent { rate: 0.005, corrections: &[] };
        let mut step = || {
            engine.forward(0, &mut model, &x, 10).expect("shapes fit");
            loss::cross_entropy(engine.logits(0), &labels, 10, &mut d_logits);
            support.clear(&mut gradient, net.layout().len);
            support.batch(&net, &x);
            engine.descend(0, &mut model, &d_logits, Parts::All, &mut gradient, descent).expect("after forward");
            support.step(engine.steppers(&net, Parts::All, 10));
            for range in support.ranges() {
                update::sgd(&mut model.params, &gradient, 0.005, range.clone(), &[]);
            }
        };
        step();
        let counted = allocation_counter::measure(|| (0..20).for_each(|_| step()));
        assert_eq!(counted.count_total, 0, "{name}");
    }
}

/// Allocations of a whole simulation of one client with 96 samples, whose round has 96 / `batch_size` steps.
fn allocations(algorithm: &str, batch_size: usize, units: usize, privacy: &Value) -> u64 {
    let digits = Arc::new(data::load("optdigits", &Map::new(), &[]).expect("part of the program"));
    let settings =
        json!({"rounds": 2, "local_epochs": 1, "batch_size": batch_size, "learning_rate": 0.01, "batch_seed": 1, "sampling_seed": 2});
    let settings = serde_json::from_value(settings).expect("the settings fit");
    let plain = privacy["kind"] == "none";
    // Running statistics would not be protected.
    let model = Model::init(network(plain, true, units), &mut stream(3, Purpose::Initialisation, 0, 0, 0));
    let clients = vec![Client { train: (0..96).collect(), test: (96..128).collect() }];
    let streams = Box::new(Seeded { sampling: 2, batches: 1 });
    let mut world = World::new(model, digits, clients, settings, streams, Budget::new(1)).expect("a valid world");
    if let Some(noise) = privacy::build(privacy.as_object().expect("a map"), &world).expect("it fits") {
        world = world.with(noise);
    }
    let _permit = world.budget.acquire();
    let registry = algorithms::all();
    let mut params = json!({"name": algorithm, "mu": 0.1}).as_object().expect("a map").clone();
    if algorithm == "ditto" {
        params.insert("personal_epochs".to_owned(), json!(1));
    }
    let simulation = registry.build(&params).expect("the hyper-parameters fit");
    let counted = allocation_counter::measure(|| {
        simulation.simulate(&world, &mut Quiet).expect("it trains");
    });
    counted.count_total
}

#[test]
fn eight_times_as_many_steps_allocate_no_more() {
    // Without and with a correction in the update.
    for (algorithm, units) in [("fedprox", 12), ("ditto", 12), ("fedprox", WIDE), ("ditto", WIDE)] {
        let none = json!({"kind": "none"});
        let (few, many) = (allocations(algorithm, 16, units, &none), allocations(algorithm, 2, units, &none));
        // Buffers grow in steps, so that smaller batches may need one or two more of them; 84 further steps do not show.
        assert!(many <= few + 8, "{algorithm}, {units} units: {few} allocations with 12 steps a round, {many} with 96");
    }
}

#[test]
fn gradients_of_single_samples_allocate_no_more_either() {
    let noise = json!({"kind": "dp-sgd", "clip": 1.0, "noise_multiplier": 1.0, "delta": 1e-3, "accounting": "poisson"});
    let (few, many) = (allocations("fedprox", 16, 12, &noise), allocations("fedprox", 2, 12, &noise));
    // The epsilon of each sampling rate is computed from curves, whose vectors do not depend on the number of steps.
    assert!(many <= few + 8, "{few} allocations with 12 steps a round, {many} with 96");
}
