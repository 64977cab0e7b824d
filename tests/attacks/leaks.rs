//! Gradient attacks on one 8 x 8 digit and a sigmoid network: they find it, and from a shuffled gradient they find nothing.

use pflpipe::attacks::problem::Problem;
use pflpipe::attacks::score::{Truth, score};
use pflpipe::attacks::{Distance, Replay, Seen, Target, dlg, inverting, labels};
use pflpipe::base::random::{Purpose, shuffle, stream};
use pflpipe::data::{self, Dataset};
use pflpipe::engine::{Activation, Layer, Model, Network};
use serde_json::Map;
use std::collections::BTreeMap;
use std::sync::Arc;

fn digits() -> Dataset {
    data::load("optdigits", &Map::new(), &[]).expect("it is part of the program")
}

/// A network of 64, 32 and 10 units with sigmoids, and the start of one seed.
fn model(data: &Dataset, seed: u64) -> Model<f64> {
    let layers =
        vec![Layer::Flatten, Layer::linear("fc1", 32), Layer::Activation(Activation::Sigmoid), Layer::linear("fc", data.classes())];
    let net = Network::build(data.shape(), layers, 3).expect("a network");
    Model::init(Arc::new(net), &mut stream(seed, Purpose::Initialisation, 0, 0, 0))
}

/// The samples at some places.
fn samples(data: &Dataset, places: &[u32]) -> (Vec<f64>, Vec<u32>) {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    data.gather(places, &mut x);
    data.gather_labels(places, &mut y);
    (x.iter().map(|v| f64::from(*v)).collect(), y)
}

/// The gradient of these samples as all that was sent.
fn seen(model: &Model<f64>, x: &[f64], y: &[u32]) -> Seen {
    let update = Replay::single(model.clone(), y.len()).update(x, &Target::Classes(y)).expect("the samples fit");
    Seen { sent: std::iter::once(0..update.len()).collect(), update }
}

fn problem(model: Model<f64>, seen: Seen, samples: usize) -> Problem {
    Problem { model, seen, samples, batches: std::iter::once(0..samples).collect(), rate: 1.0, range: (-1.0, 1.0) }
}

fn values(data: &Dataset, x: &[f64], y: &[u32], made: &pflpipe::attacks::Reconstruction) -> BTreeMap<String, f64> {
    score(&Truth { x, labels: y, shape: data.shape(), range: (-1.0, 1.0) }, made).values
}

#[test]
fn dlg_finds_the_digit_and_its_class() {
    let data = digits();
    let mut found = Vec::new();
    for seed in 0..10 {
        let (x, y) = samples(&data, &[37 * seed as u32]);
        let model = model(&data, seed);
        let problem = problem(model.clone(), seen(&model, &x, &y), 1);
        let made = dlg::attack(&problem, None, 100, &mut stream(seed, Purpose::Attack, 0, 0, 0), &|| false).expect("an answer");
        let values = values(&data, &x, &y, &made);
        found.push((values["psnr"], values["label_accuracy"], made.distance));
    }
    println!("{found:?}");
    assert!(found.iter().filter(|(psnr, right, _)| *psnr > 30.0 && *right == 1.0).count() >= 9, "{found:?}");
}

#[test]
fn idlg_always_knows_the_class() {
    let data = digits();
    for seed in 0..200u64 {
        let (x, y) = samples(&data, &[(seed * 7919 % data.len() as u64) as u32]);
        let model = model(&data, seed % 10);
        let seen = seen(&model, &x, &y);
        let layout = model.net.layout();
        assert_eq!(labels::single(&seen, layout, data.classes()), Some(y[0]));
        // Without the bias, by the rows of the weights.
        let last = layout.entry("fc.weight").expect("a head").range.clone();
        let weights = Seen { sent: vec![last.clone()], ..seen.clone() };
        assert_eq!(labels::single(&weights, layout, data.classes()), Some(y[0]));
        // Without the last layer, not at all.
        let base = Seen { sent: std::iter::once(0..last.start).collect(), ..seen };
        assert_eq!(labels::single(&base, layout, data.classes()), None);
    }
}

#[test]
fn a_known_class_helps_and_a_shuffled_gradient_tells_nothing() {
    let data = digits();
    let (mut right, mut classes, mut by_dlg) = (0, 0.0, 0.0);
    for seed in 0..10 {
        let (x, y) = samples(&data, &[41 * seed as u32 + 3]);
        let model = model(&data, seed);
        let honest = seen(&model, &x, &y);
        let told = [labels::single(&honest, model.net.layout(), data.classes()).expect("the head is sent")];
        let rng = |n| stream(seed, Purpose::Attack, n, 0, 0);
        let made = dlg::attack(&problem(model.clone(), honest.clone(), 1), Some(&told), 100, &mut rng(0), &|| false).expect("an answer");
        right += usize::from(values(&data, &x, &y, &made)["psnr"] > 30.0);

        let mut shuffled = honest;
        shuffle(&mut rng(1), &mut shuffled.update);
        let guess = labels::single(&shuffled, model.net.layout(), data.classes()).expect("the head is sent");
        classes += f64::from(u8::from(guess == y[0]));
        let problem = problem(model, shuffled, 1);
        let blind = dlg::attack(&problem, None, 20, &mut rng(2), &|| false).expect("an answer");
        by_dlg += values(&data, &x, &y, &blind)["label_accuracy"];
        for made in [
            blind,
            inverting::attack(
                &problem,
                &y,
                &inverting::Options { steps: 200, rate: 0.1, variation: 0.01, signed: true },
                &mut rng(3),
                &|| false,
            )
            .expect("an answer"),
        ] {
            let psnr = values(&data, &x, &y, &made)["psnr"];
            assert!(psnr < 12.0, "seed {seed}: {psnr} dB from noise");
        }
    }
    println!("{right} of 10 by iDLG; {classes} and by DLG {by_dlg} of 10 classes by chance");
    assert!(right >= 9, "{right} of 10");
    // Ten tries at one in ten: five or more have a probability of 0.2 %.
    assert!(classes < 5.0 && by_dlg < 5.0, "{classes} and {by_dlg} of 10");
}

#[test]
fn inverting_gradients_finds_several_digits_through_several_steps() {
    let data = digits();
    let (x, y) = samples(&data, &[10, 501, 1002, 1503]);
    let model = model(&data, 1);
    // Two epochs of two steps each.
    let batches = vec![0..2, 2..4, 0..2, 2..4];
    let update = Replay::new(model.clone(), batches.clone(), 0.1).update(&x, &Target::Classes(&y)).expect("the samples fit");
    let seen = Seen { sent: std::iter::once(0..update.len()).collect(), update };
    let problem = Problem { model, seen, samples: 4, batches, rate: 0.1, range: (-1.0, 1.0) };
    assert!(
        problem
            .seen
            .compare(&mut problem.replay(), Distance::Cosine, &x, &Target::Classes(&y), &mut vec![0.0; x.len()], None)
            .expect("it fits")
            < 1e-12
    );
    let options = inverting::Options { steps: 2000, rate: 0.1, variation: 1e-4, signed: true };
    let made = inverting::attack(&problem, &y, &options, &mut stream(5, Purpose::Attack, 0, 0, 0), &|| false).expect("an answer");
    let values = values(&data, &x, &y, &made);
    println!("{values:?}");
    assert!(values["psnr"] > 20.0, "{values:?}");
}
