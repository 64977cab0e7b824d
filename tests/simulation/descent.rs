//! Weights that take their step on the way back end where they would after it.

use crate::small::{Case, case};
use pflpipe::fl::round::Quiet;
use pflpipe::fl::{Intervention, Needs, Place};
use serde_json::json;

/// Might look at every gradient, so that none may be used before it has; and does nothing.
struct Watching;

impl Intervention for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }
    fn place(&self) -> Place {
        Place::Threat
    }
    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}

/// The training losses, which show every client's numbers, and the global parameters.
fn result(case: &Case, watched: bool) -> (Vec<(u64, f64)>, Vec<f32>) {
    let world = if watched { case.world().with(Box::new(Watching)) } else { case.world() };
    let _permit = world.budget.acquire();
    let run = case.build().simulate(&world, &mut Quiet).expect("it runs");
    (run.history.series("train_loss"), run.global.params.to_vec())
}

#[test]
fn a_step_on_the_way_back_changes_no_number() {
    let plain = json!({"rounds": 2, "train_loss": "full"});
    let decayed = json!({"rounds": 2, "train_loss": "full", "optimizer": {"name": "sgd", "momentum": 0.0, "weight_decay": 0.01}});
    for name in ["fedavg", "fedprox", "scaffold", "ditto", "fedper", "fedrep", "fedbabu", "feddyn", "pfedme", "fedamp", "local"] {
        for settings in [&plain, &decayed] {
            // 64 x 2000 weights are too many to carry their gradient about.
            let case = case(name, json!({})).dense(2000).with(settings.clone());
            assert!(result(&case, false) == result(&case, true), "{name}, {settings}");
        }
    }
}
