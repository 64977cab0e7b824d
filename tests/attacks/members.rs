//! Membership inference: it sees what a model has learned by heart, and nothing in a model that never saw the data.

use pflpipe::attacks::membership::{measure, separation};
use pflpipe::attacks::shadow::{self, Options};
use pflpipe::base::random::{Purpose, shuffle, stream};
use pflpipe::data;
use pflpipe::engine::{Engine, Layer, Model, Network, Parts, loss};
use pflpipe::fl::Response;
use serde_json::Map;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The interval that holds the AUC of a ranking by chance with a probability of 99.9 %, by the variance of the rank sum.
fn chance(members: usize, others: usize) -> f64 {
    let (m, n) = (members as f64, others as f64);
    3.29 * ((m + n + 1.0) / (12.0 * m * n)).sqrt()
}

#[test]
fn only_what_was_learned_by_heart_is_recognized() {
    let data = data::load("optdigits", &Map::new(), &[]).expect("it is part of the program");
    let mut order: Vec<u32> = (0..data.len() as u32).collect();
    shuffle(&mut stream(4, Purpose::Attack, 0, 0, 0), &mut order);
    let (learned, rest) = order.split_at(60);
    let (fresh, rest) = rest.split_at(600);
    let (strangers, rest) = rest.split_at(600);
    let layers = vec![Layer::Flatten, Layer::linear("fc1", 64), Layer::Relu, Layer::linear("fc", data.classes())];
    let net = Network::build(data.shape(), layers, 3).expect("a network");
    let initial = Model::<f32>::init(Arc::new(net), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
    let mut model = initial.clone();
    let mut engine = Engine::new();
    let (mut x, mut y, mut d_logits) = (Vec::new(), Vec::new(), Vec::new());
    for epoch in 0..80 {
        for batch in learned.chunks(10) {
            data.gather(batch, &mut x);
            data.gather_labels(batch, &mut y);
            engine.forward(0, &mut model, &x, batch.len()).expect("it fits");
            let loss = loss::cross_entropy(engine.logits(0), &y, data.classes(), &mut d_logits);
            assert!(epoch < 70 || loss < 0.1, "it learns by heart");
            let mut gradient = vec![0.0; model.params.len()];
            engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("it fits");
            model.params.iter_mut().zip(&gradient).for_each(|(p, g)| *p -= 0.1 * g);
        }
    }
    let mut answers = |model: &Model, samples: &[u32]| -> Vec<Response> {
        data.gather(samples, &mut x);
        engine.forward(0, &mut model.clone(), &x, samples.len()).expect("it fits");
        let rows = engine.logits(0).chunks_exact(data.classes());
        rows.zip(samples).map(|(row, i)| Response::of(row, data.labels()[*i as usize])).collect()
    };
    let wanted: BTreeMap<u32, usize> = (0..10).map(|class| (class, 12)).collect();
    let options = Options { models: 4, epochs: 80, rate: 0.1, batch: 10 };
    let judge = shadow::teach(&initial, &data, rest, &wanted, &options, &mut stream(2, Purpose::Attack, 0, 0, 0)).expect("it fits");
    let (inside, outside, others) = (answers(&model, learned), answers(&model, fresh), answers(&model, strangers));
    for judge in [None, Some(&judge)] {
        let mut rng = stream(3, Purpose::Attack, 0, 0, 0);
        let known = measure("", &inside, &outside, judge, &mut rng);
        println!("{known:?}");
        assert!(known["auc"] > 0.5 + chance(60, 60), "{known:?}");
        // Neither half of what it never saw is told from the other, and an untrained model knows nobody.
        let unknown = measure("", &outside, &others, judge, &mut rng);
        assert!((unknown["auc"] - 0.5).abs() < chance(600, 600), "{unknown:?}");
        assert!(unknown["tpr"] < 0.05, "{unknown:?}");
        let untrained = measure("", &answers(&initial, learned), &answers(&initial, fresh), judge, &mut rng);
        assert!((untrained["auc"] - 0.5).abs() < chance(60, 60), "{untrained:?}");
    }
    let scores = |answers: &[Response]| answers.iter().map(|a| -f64::from(a.loss)).collect::<Vec<f64>>();
    let all = separation(&scores(&inside), &scores(&outside)).expect("both kinds");
    assert!(all.advantage > 0.1, "{all:?}");
}
