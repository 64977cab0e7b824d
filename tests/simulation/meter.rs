//! What the meter counts: the passes by which the cost of a round is judged.

use crate::small::case;
use pflpipe::fl::round::Quiet;
use serde_json::json;

/// Samples forward, samples back, and rows times weights of the algorithm's own layers, of one round without evaluation.
fn counted(name: &str) -> ([u64; 3], u64) {
    let case = case(name, json!({})).with(json!({"rounds": 1, "eval_every": 2, "train_loss": "off"}));
    let world = case.world();
    let width = world.layout().entries.iter().rfind(|entry| entry.shape.len() == 2).expect("a head").shape[1] as u64;
    let _permit = world.budget.acquire();
    case.build().simulate(&world, &mut Quiet).expect("it runs");
    ([world.meter.forward(), world.meter.backward(), world.meter.modules()], width)
}

#[test]
fn passes_through_networks_and_through_own_layers_are_counted_apart() {
    let plain = case("fedavg", json!({}));
    let settings = plain.world().settings;
    let whole = |samples: usize| samples / settings.batch_size * settings.batch_size;
    let trained = settings.local_epochs * plain.clients.iter().map(|client| whole(client.train.len()) as u64).sum::<u64>();
    let ([_, back, modules], _) = counted("fedavg");
    assert_eq!((back, modules), (trained, 0));
    // Two networks, and a map of features to features.
    let ([_, back, modules], width) = counted("fedkd");
    assert_eq!((back, modules), (2 * trained, trained * width * width));
}
