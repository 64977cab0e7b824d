//! A tiny world: a few clients with some digits each, and a small network.

use pflpipe::algorithms::{self, Algorithms};
use pflpipe::base::Outcome;
use pflpipe::base::random::{Purpose, stream};
use pflpipe::base::threads::Budget;
use pflpipe::data::partition::Client;
use pflpipe::data::{self, Dataset};
use pflpipe::engine::{Layer, Model, Network, Shape};
use pflpipe::fl::round::{Monitor, Quiet, Simulated};
use pflpipe::fl::{Seeded, Settings, Simulation, World};
use pflpipe::spec::catalog::{Default, Field, Variant};
use pflpipe::{defences, threats};
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};

pub const CLIENTS: usize = 5;
pub const PER_CLIENT: usize = 34;

/// A world and the algorithm that lives in it.
#[derive(Clone)]
pub struct Case {
    pub algorithm: Value,
    pub settings: Value,
    pub clients: Vec<Client>,
    pub norm: bool,
    /// Units of the one dense layer that the network has instead of a small convolution.
    pub dense: Option<usize>,
    pub threads: usize,
    /// The threat and the defence with all their parameters.
    pub threat: Map<String, Value>,
    pub defence: Map<String, Value>,
}

/// Every algorithm of the registry with its default hyper-parameters, in both variants where there are two.
pub fn every() -> Vec<Case> {
    let mut cases = Vec::new();
    for description in registry().iter().map(|entry| &entry.description) {
        if description.fields.iter().any(|field| field.name == "variant") {
            for variant in ["pfllib", "paper"] {
                let mut params = json!({"variant": variant});
                if (description.name, variant) == ("fd", "pfllib") {
                    // Its loss has no lower bound: at full weight these few rounds would already diverge.
                    params["lambda"] = json!(0.01);
                }
                cases.push(case(description.name, params));
            }
        } else {
            cases.push(case(description.name, json!({})));
        }
    }
    cases
}

/// One algorithm with some hyper-parameters changed.
pub fn case(name: &str, changed: Value) -> Case {
    let fields = &registry().get(name).expect("a known algorithm").description.fields;
    let mut params = defaults(fields);
    params.insert("name".to_owned(), json!(name));
    params.extend(changed.as_object().expect("a map").clone());
    let none = Map::from_iter([("kind".to_owned(), json!("none"))]);
    Case {
        algorithm: Value::Object(params),
        settings: json!({}),
        clients: shards(&[PER_CLIENT; CLIENTS]),
        norm: false,
        dense: None,
        threads: 1,
        threat: none.clone(),
        defence: none,
    }
}

impl Case {
    pub fn name(&self) -> &str {
        self.algorithm["name"].as_str().expect("a name")
    }
    /// Its name, and its variant where it has one.
    pub fn key(&self) -> String {
        self.algorithm.get("variant").and_then(Value::as_str).map_or_else(|| self.name().to_owned(), |v| format!("{} {v}", self.name()))
    }
    /// With other settings.
    pub fn with(mut self, settings: Value) -> Self {
        self.settings.as_object_mut().expect("a map").extend(settings.as_object().expect("a map").clone());
        self
    }
    /// Under a threat with some parameters changed.
    pub fn under(mut self, kind: &str, changed: Value) -> Self {
        self.threat = chosen(&threats::variants(), kind, &changed);
        self
    }
    /// Behind a defence with some parameters changed.
    pub fn behind(mut self, kind: &str, changed: Value) -> Self {
        self.defence = chosen(&defences::variants(), kind, &changed);
        self
    }
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
    pub fn dense(mut self, units: usize) -> Self {
        self.dense = Some(units);
        self
    }
    pub fn norm(mut self) -> Self {
        self.norm = true;
        self
    }
    /// With these numbers of samples a client.
    pub fn sizes(mut self, sizes: &[usize]) -> Self {
        self.clients = shards(sizes);
        self
    }
    pub fn build(&self) -> Box<dyn Simulation> {
        registry().build(self.algorithm.as_object().expect("a map")).expect("default hyper-parameters fit")
    }
    pub fn world(&self) -> World {
        self.try_world().expect("a valid world")
    }
    pub fn try_world(&self) -> Outcome<World> {
        let settings: Settings = serde_json::from_value(settings(&self.settings)).expect("the settings fit");
        let streams = Box::new(Seeded { sampling: settings.sampling_seed, batches: settings.batch_seed });
        let model = Model::init(Arc::new(network(self.norm, self.dense)), &mut stream(3, Purpose::Initialisation, 0, 0, 0));
        let world = World::new(model, digits(), self.clients.clone(), settings, streams, Budget::new(self.threads))?;
        let acting = [threats::build(&self.threat, &world)?, defences::build(&self.defence)?];
        Ok(acting.into_iter().flatten().fold(world, World::with))
    }
    pub fn run(&self) -> Outcome<Simulated> {
        self.run_with(&mut Quiet)
    }
    pub fn run_with(&self, monitor: &mut dyn Monitor) -> Outcome<Simulated> {
        let world = self.try_world()?;
        // A stage holds one permit while it runs.
        let _permit = world.budget.acquire();
        self.build().simulate(&world, monitor)
    }
}

fn registry() -> &'static Algorithms {
    static ALL: OnceLock<Algorithms> = OnceLock::new();
    ALL.get_or_init(algorithms::all)
}

pub fn digits() -> Arc<Dataset> {
    static DIGITS: OnceLock<Arc<Dataset>> = OnceLock::new();
    DIGITS.get_or_init(|| Arc::new(data::load("optdigits", &Map::new(), &[]).expect("part of the program"))).clone()
}

/// Clients with that many samples each; each holds only some of the classes. The last quarter is for testing.
pub fn shards(sizes: &[usize]) -> Vec<Client> {
    let labels = digits();
    let labels = labels.labels();
    let mut free: Vec<u32> = (0..labels.len() as u32).collect();
    sizes
        .iter()
        .enumerate()
        .map(|(id, size)| {
            let fits = |label: u32| (label as usize + 10 - id * 2 % 10) % 10 < 4;
            let chosen: Vec<u32> = free.iter().copied().filter(|i| fits(labels[*i as usize])).take(*size).collect();
            free.retain(|i| !chosen.contains(i));
            let train = chosen.len() - chosen.len() / 4;
            Client { train: chosen[..train].to_vec(), test: chosen[train..].to_vec() }
        })
        .collect()
}

fn network(norm: bool, dense: Option<usize>) -> Network {
    if let Some(units) = dense {
        let layers = vec![Layer::Flatten, Layer::linear("fc1.0", units), Layer::Relu, Layer::linear("fc", 10)];
        return Network::build(Shape { channels: 1, height: 8, width: 8 }, layers, 3).expect("a valid network");
    }
    let mut layers = vec![Layer::conv("conv1.0", 4, 3, 0)];
    if norm {
        layers.push(Layer::norm2d("conv1.1"));
    }
    layers.extend([Layer::Relu, Layer::pool(2), Layer::Flatten, Layer::linear("fc1.0", 12), Layer::Relu]);
    let head = layers.len();
    layers.push(Layer::linear("fc", 10));
    Network::build(Shape { channels: 1, height: 8, width: 8 }, layers, head).expect("a valid network")
}

fn defaults(fields: &[Field]) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|f| if let Default::Is(value) = &f.default { Some((f.name.to_owned(), value.clone())) } else { None })
        .collect()
}

fn chosen(variants: &[Variant], kind: &str, changed: &Value) -> Map<String, Value> {
    let variant = variants.iter().find(|variant| variant.name == kind).expect("a known kind");
    let mut params = defaults(&variant.fields);
    params.insert("kind".to_owned(), json!(kind));
    params.extend(changed.as_object().expect("a map").clone());
    params
}

fn settings(changed: &Value) -> Value {
    let mut settings = json!({"rounds": 4, "local_epochs": 2, "batch_size": 8, "learning_rate": 0.05, "batch_seed": 1, "sampling_seed": 2});
    settings.as_object_mut().expect("a map").extend(changed.as_object().expect("a map").clone());
    settings
}
