//! One step of each algorithm computed by hand: what moves, mixes or splits whole models. The world stands in `hand`.
//!
//! Two clients with labels 0 and 1 have the gradients G and -3 G at the start, so that FedAvg goes from W to W + 0.4 G.

use crate::hand::{G, RATE, Six, W, gradient, plus, run, square, step};
use crate::small::case;
use serde_json::json;

const BOTH: &[&[u32]] = &[&[0], &[1]];
const ONE: &[&[u32]] = &[&[0]];

/// `a` in the base and `b` in the head.
fn split(a: &Six, b: &Six) -> Six {
    [a[0], a[1], b[2], b[3], b[4], b[5]]
}

fn mean(a: &Six, b: &Six) -> Six {
    std::array::from_fn(|i| (a[i] + b[i]) / 2.0)
}

#[test]
fn the_gradients_at_the_start_are_those_written_down() {
    for label in [0, 1] {
        let factor = [1.0, -3.0][label];
        assert!(gradient(&W, label).iter().zip(&G).all(|(a, g)| (a - factor * g).abs() < 1e-12));
    }
}

#[test]
fn fedavg_and_what_equals_it_here() {
    // W - 0.4 (G - 3 G) / 2
    for name in ["fedavg", "fedbn", "fedntd", "moon"] {
        run(&case(name, json!({})), BOTH, json!({})).server("global", &plus(&W, 0.4, &G));
    }
    // One sample of each class among all clients shifts both logits alike; a client's own counts take the other class out.
    run(&case("fedlc", json!({"counts": "global"})), BOTH, json!({})).server("global", &plus(&W, 0.4, &G));
    run(&case("fedlc", json!({"counts": "own"})), BOTH, json!({})).server("global", &W);
    // -ln 3/4 and -ln 1/4, in the mean.
    run(&case("fedavg", json!({})), BOTH, json!({})).first_loss(((4.0f64 / 3.0).ln() + 4f64.ln()) / 2.0);
}

#[test]
fn local() {
    let done = run(&case("local", json!({})), BOTH, json!({}));
    done.client(0, "model", &plus(&W, -0.4, &G));
    done.client(1, "model", &plus(&W, 1.2, &G));
}

#[test]
fn fedprox() {
    let w1 = plus(&W, -0.4, &G);
    let pulled = plus(&gradient(&w1, 0), 0.5, &plus(&w1, -1.0, &W));
    run(&case("fedprox", json!({"mu": 0.5})), ONE, json!({"local_epochs": 2})).server("global", &plus(&w1, -RATE, &pulled));
}

#[test]
fn perfedavg() {
    // D and D' are one sample each: a step to v, and its gradient moves the start.
    let v = plus(&W, -0.4, &G);
    let meta = case("perfedavg", json!({"variant": "paper", "beta": 0.1}));
    run(&meta, &[&[0, 0]], json!({})).server("global", &plus(&W, -0.1, &gradient(&v, 0)));
}

#[test]
fn pfedme() {
    // theta = W - 0.1 (G + 0.5 W), l = W - 0.4 * 2 (W - theta), and the server goes half of the way.
    let theta = plus(&W, -0.1, &plus(&G, 0.5, &W));
    let l = plus(&W, -0.8, &plus(&W, -1.0, &theta));
    let params = json!({"inner_steps": 1, "personal_learning_rate": 0.1, "lambda": 2.0, "weight_decay": 0.5, "beta": 0.5});
    let done = run(&case("pfedme", params), ONE, json!({}));
    done.client(0, "model", &l);
    done.server("global", &mean(&W, &l));
}

#[test]
fn ditto() {
    // The personal model's second step is drawn to the received W.
    let v1 = plus(&W, -0.4, &G);
    let pulled = plus(&gradient(&v1, 0), 0.3, &plus(&v1, -1.0, &W));
    let done = run(&case("ditto", json!({"mu": 0.3, "personal_epochs": 2})), BOTH, json!({}));
    done.client(0, "personal", &plus(&v1, -RATE, &pulled));
    done.server("global", &plus(&W, 0.4, &G));
}

#[test]
fn scaffold() {
    // After one round c_0 = G, c_1 = -3 G, c = -G; in the second client 0 steps by g - c_0 + c = g - 2 G.
    let w1 = plus(&W, 0.4, &G);
    let done = run(&case("scaffold", json!({})), BOTH, json!({}));
    done.client(0, "control", &G);
    done.client(1, "control", &G.map(|g| -3.0 * g));
    done.server("control", &G.map(|g| -g));
    let second = run(&case("scaffold", json!({})), BOTH, json!({"rounds": 2}));
    second.client(0, "model", &plus(&w1, -RATE, &plus(&gradient(&w1, 0), -2.0, &G)));
}

#[test]
fn feddyn() {
    // r_0 = -alpha (v_0 - W) = 0.5 * 0.4 G, h = -0.5 * mean(v - W) = -0.5 * 0.4 G, w = mean v - h / 0.5 = W + 0.4 G + 0.4 G.
    for variant in ["pfllib", "paper"] {
        let done = run(&case("feddyn", json!({"variant": variant, "alpha": 0.5})), BOTH, json!({}));
        done.client(0, "drift", &G.map(|g| 0.2 * g));
        done.server("drift", &G.map(|g| -0.2 * g));
        done.server("global", &plus(&W, 0.8, &G));
    }
}

#[test]
fn apfl() {
    // In the second round w starts from the mean, v from itself, and PFLlib's v becomes 0.25 v + 0.75 w.
    let (w, v) = (step(&plus(&W, 0.4, &G), 0), step(&plus(&W, -0.4, &G), 0));
    let merged = std::array::from_fn::<f64, 6, _>(|i| 0.25 * v[i] + 0.75 * w[i]);
    let share = json!({"variant": "pfllib", "alpha": 0.25, "adapt": "never"});
    run(&case("apfl", share), BOTH, json!({"rounds": 2})).client(0, "personal", &merged);
    // The paper's v goes down the gradient at the mixture, whose share of v is 0.25, and stays apart: 0.4 * 0.25 = 0.1.
    let (w1, v1) = (plus(&W, -0.4, &G), plus(&W, -0.1, &G));
    let mixture = std::array::from_fn::<f64, 6, _>(|i| 0.25 * v1[i] + 0.75 * w1[i]);
    let apart = case("apfl", json!({"variant": "paper", "alpha": 0.25, "adapt": "never"}));
    run(&apart, ONE, json!({"local_epochs": 2})).client(0, "personal", &plus(&v1, -0.1, &gradient(&mixture, 0)));
}

#[test]
fn fedper_and_lgfedavg() {
    // One shares the base, the other the head; in the second round client 0 starts from the mean there and from its own elsewhere.
    let (mean, own) = (plus(&W, 0.4, &G), plus(&W, -0.4, &G));
    let two = json!({"rounds": 2});
    run(&case("fedper", json!({})), BOTH, two.clone()).client(0, "model", &step(&split(&mean, &own), 0));
    run(&case("lgfedavg", json!({})), BOTH, two).client(0, "model", &step(&split(&own, &mean), 0));
}

#[test]
fn fedrep() {
    // First the head, then the base under the new head.
    let head = split(&W, &plus(&W, -0.4, &G));
    let both = split(&step(&head, 0), &head);
    run(&case("fedrep", json!({"head_epochs": 1})), ONE, json!({})).client(0, "model", &both);
}

#[test]
fn fedbabu() {
    // The head waits.
    let done = run(&case("fedbabu", json!({"fine_tuning_epochs": 0})), BOTH, json!({}));
    done.server("global", &split(&plus(&W, 0.4, &G), &W));
}

#[test]
fn fedphp() {
    // Equal models have no discrepancy, so that half of the cross-entropy is left; in the first round h_c becomes w.
    let done = run(&case("fedphp", json!({"lambda": 0.5})), BOTH, json!({}));
    done.client(0, "inherited", &plus(&W, -0.2, &G));
    done.server("global", &plus(&W, 0.2, &G));
}

#[test]
fn fedamp() {
    // After one round the models are 1.6 G apart: xi = (0.2 / 0.8) exp(-|1.6 G|^2 / 0.8); then a step with the pull 0.5 / 0.2.
    let (own, other) = (plus(&W, -0.4, &G), plus(&W, 1.2, &G));
    let xi = 0.25 * (-2.56 * square(&G) / 0.8).exp();
    let cloud = std::array::from_fn::<f64, 6, _>(|i| (1.0 - xi) * own[i] + xi * other[i]);
    let pulled = plus(&gradient(&own, 0), 2.5, &plus(&own, -1.0, &cloud));
    let params = json!({"variant": "paper", "alpha": 0.2, "sigma": 0.8, "lambda": 0.5});
    let done = run(&case("fedamp", params), BOTH, json!({"rounds": 2}));
    done.client(0, "cloud", &cloud);
    done.client(0, "model", &plus(&own, -RATE, &pulled));
}

#[test]
fn fedfomo() {
    // Client 0 trains on four labels 1 and validates on a label 0, where client 1's model gains on W and its own loses.
    let trained = |label: usize| (0..4).fold(W, |w, _| step(&w, label));
    let (own, other) = (trained(1), trained(0));
    let loss = |w: &Six| -crate::hand::softmax(w)[0].ln();
    // PFLlib adds 1e-5 to each distance.
    let gain = |w: &Six| (loss(&W) - loss(w)) / (square(&plus(w, -1.0, &W)).sqrt() + 1e-5);
    let params = json!({"variant": "pfllib", "models": 2, "validation": 0.2});
    let labels: &[&[u32]] = &[&[1, 1, 1, 1, 0], &[0, 0, 0, 0, 0]];
    let done = run(&case("fedfomo", params), labels, json!({"rounds": 2}));
    assert!(gain(&own) < 0.0 && gain(&other) > 0.0);
    done.client(0, "mixed", &other);
    done.client(0, "gains", &[gain(&own), gain(&other)]);
}

#[test]
fn apple() {
    // One core, p = 1: m <- W - 0.4 G, p <- 1 - 0.1 (<G, m> + pull (1 - 1)), and the mixture is p m.
    let m = plus(&W, -0.4, &G);
    let p = 1.0 - 0.1 * G.iter().zip(&m).map(|(g, m)| g * m).sum::<f64>();
    let done = run(&case("apple", json!({"relation_rate": 0.1})), ONE, json!({}));
    done.client(0, "p[0]", &[p]);
    done.client(0, "model", &m.map(|m| p * m));
    // In PFLlib the clients follow each other on the same cores, with N times the rate: client 0 moves its core by 0.4 * 2 / 2 of G,
    // and client 1, half of whose mixture it is, ends with that mixture.
    let shared = case("apple", json!({"variant": "pfllib", "relation_rate": 0.0}));
    run(&shared, BOTH, json!({})).client(1, "model", &plus(&W, -0.2, &G));
}

#[test]
fn fedas() {
    // The models weigh as the squared gradients that they still have.
    let (a, b) = (plus(&W, -0.4, &G), plus(&W, 1.2, &G));
    let (f_a, f_b) = (square(&gradient(&a, 0)), square(&gradient(&b, 1)));
    let mean = std::array::from_fn::<f64, 6, _>(|i| (f_a * a[i] + f_b * b[i]) / (f_a + f_b));
    run(&case("fedas", json!({"alignment_epochs": 0})), BOTH, json!({})).server("global", &mean);
}

#[test]
fn pflda() {
    // The own head takes a step, then base and copy of the global head, all with the gradient at the start.
    let done = run(&case("pflda", json!({})), BOTH, json!({}));
    done.client(0, "model", &plus(&W, -0.4, &G));
    done.server("global", &split(&W, &plus(&W, 0.4, &G)));
}

#[test]
fn fedmtl() {
    // The models begin equal; in the second round lambda 2 (w_0 - mean) = lambda (w_0 - w_1) draws w_0 to the other one.
    let (own, other) = (plus(&W, -0.4, &G), plus(&W, 1.2, &G));
    let pulled = plus(&gradient(&own, 0), 0.5, &plus(&own, -1.0, &other));
    let done = run(&case("fedmtl", json!({"variant": "paper", "lambda": 0.5})), BOTH, json!({"rounds": 2}));
    done.client(0, "model", &plus(&own, -RATE, &pulled));
}

#[test]
fn fedala() {
    // In the second round the weights begin at 1, so that the gradient is that of the global model; each falls by g (w - w_0).
    let (own, global) = (plus(&W, -0.4, &G), plus(&W, 0.4, &G));
    let g = gradient(&global, 0);
    let apart = plus(&global, -1.0, &own);
    let merged = std::array::from_fn::<f64, 6, _>(|i| own[i] + apart[i] * (1.0 - 0.7 * g[i] * apart[i]).clamp(0.0, 1.0));
    let params = json!({"eta": 0.7, "percent": 100, "tensors": 0, "max_start_epochs": 1});
    run(&case("fedala", params), BOTH, json!({"rounds": 2})).client(0, "model", &step(&merged, 0));
}

#[test]
fn fedcac() {
    // What is critical starts anew in PFLlib's first round; as the paper has it, clients of equal masks average it. Half of a tensor of
    // one number is none, so that the base is nobody's own.
    let mean = plus(&W, 0.4, &G);
    let after = |params| run(&case("fedcac", params), BOTH, json!({}));
    after(json!({"variant": "pfllib", "tau": 1.0})).client(0, "model", &W);
    after(json!({"variant": "paper", "tau": 1.0})).client(0, "model", &mean);
    after(json!({"variant": "pfllib", "tau": 0.0})).client(0, "model", &mean);
    after(json!({"variant": "pfllib", "tau": 0.5})).server("global", &mean);
}

#[test]
fn fedcross() {
    // 0.9 W - 0.36 G + 0.1 W + 0.12 G, and 0.9 W + 1.08 G + 0.1 W - 0.04 G.
    let done = run(&case("fedcross", json!({"alpha": 0.9})), BOTH, json!({}));
    done.server("middleware[0]", &plus(&W, -0.24, &G));
    done.server("middleware[1]", &plus(&W, 1.04, &G));
}

#[test]
fn every_algorithm_has_a_step_by_hand() {
    let text = concat!(include_str!("by_hand.rs"), include_str!("by_hand_features.rs"));
    for entry in pflpipe::algorithms::all().iter() {
        let name = entry.description.name;
        assert!(text.contains(&format!("\"{name}\"")), "{name}");
    }
}
