//! An algorithm of your own: FedAvg with momentum at the server (Hsu et al., 2019), in one type.
//!
//!     cargo run --release --example own_algorithm
//!
//! Prints the test accuracy of FedAvg and of the new algorithm on the built-in digits, round by round.

use pflpipe::algorithms::{self, entry};
use pflpipe::base::random::{Purpose, stream};
use pflpipe::base::threads::Budget;
use pflpipe::base::{Fault, Outcome};
use pflpipe::engine::{Model, Params};
use pflpipe::fl::algorithm::weighted_mean;
use pflpipe::fl::round::Quiet;
use pflpipe::fl::{Aggregation, Algorithm, Description, Item, Seeded, Server, Settings, State, Trainer, Uploaded, Visitor, World};
use pflpipe::spec::catalog::{Field, Type};
use pflpipe::{data, models};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// v <- momentum v + (w - mean of the clients), w <- w - v.
#[derive(Deserialize)]
struct FedAvgM {
    momentum: f32,
}

/// The server's velocity; absent before the first round. What is visited here is stored in every checkpoint.
#[derive(Clone, Default)]
struct Velocity(Option<Params<f32>>);

impl State for Velocity {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.0.visit("velocity", visitor);
    }
}

impl Algorithm for FedAvgM {
    type Server = Velocity;
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedavgm",
            title: "FedAvgM",
            family: "traditional",
            paper: "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, arXiv 1909.06335, 2019",
            year: 2019,
            personal: "nothing",
            down: "w",
            up: "w",
            rule: "v <- momentum v + (w - mean_c w_c); w <- w - v",
            differences: "none",
            fields: vec![Field::with("momentum", Type::fraction(), 0.9, "Momentum of the server.").from("beta", "the paper")],
            revision: 1,
        }
    }

    // The only hook that differs from FedAvg.
    fn aggregate(&self, _: &mut Trainer<'_>, server: &mut Server<Velocity>, uploads: &[Uploaded<()>], _: &Aggregation<'_>) -> Outcome<()> {
        let before = server.global.params.clone();
        weighted_mean(&mut server.global, uploads, |upload| upload.weight, |_| true);
        let velocity = server.state.0.get_or_insert_with(|| Params::zeros(before.len()));
        for ((w, v), old) in server.global.params.iter_mut().zip(velocity.iter_mut()).zip(before.iter()) {
            *v = self.momentum * *v + (old - *w);
            *w = old - *v;
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    // In a program of your own, this registry goes to `catalog::catalog` and `stage::Stages`, and pipelines know the new name.
    let algorithms = algorithms::all().with(entry::<FedAvgM>());
    for params in [json!({"name": "fedavg"}), json!({"name": "fedavgm", "momentum": 0.5})] {
        let algorithm = algorithms.build(map(&params)?)?;
        let run = algorithm.simulate(&world()?, &mut Quiet)?;
        let accuracies = run.history.series("test_accuracy");
        let shown: Vec<String> = accuracies.iter().map(|(_, accuracy)| format!("{accuracy:.3}")).collect();
        println!("{:8} {}", params["name"].as_str().unwrap_or_default(), shown.join(" "));
    }
    Ok(())
}

fn world() -> Outcome<World> {
    let data = Arc::new(data::load("optdigits", &serde_json::Map::new(), &[])?);
    let rule = json!({"alpha": 0.3, "clients": 10, "seed": 1});
    let partition = data::partition::build("dirichlet", map(&rule)?, data.labels(), data.classes())?;
    let net = models::build("mlp", map(&json!({"hidden": [32]}))?, data.shape(), data.classes())?;
    let initial = Model::init(Arc::new(net), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
    let settings = Settings { rounds: 12, learning_rate: 0.02, ..Settings::default() };
    World::new(initial, data, partition.clients().to_vec(), settings, Box::new(Seeded { sampling: 1, batches: 1 }), Budget::new(2))
}

fn map(value: &Value) -> Outcome<&serde_json::Map<String, Value>> {
    value.as_object().ok_or_else(|| Fault::internal("not a map"))
}
