//! One step of each algorithm computed by hand: losses on features, prototypes and logits. The world stands in `hand`.

use crate::hand::{G, H, RATE, Six, W, chain, feature, plus, run, softmax, step};
use crate::small::case;
use serde_json::json;

const BOTH: &[&[u32]] = &[&[0], &[1]];
const ONE: &[&[u32]] = &[&[0]];

#[test]
fn moon_adds_ln_2_where_both_contrasts_are_equal() {
    let cross_entropy = ((4.0f64 / 3.0).ln() + 4f64.ln()) / 2.0;
    run(&case("moon", json!({"mu": 0.5})), BOTH, json!({})).first_loss(cross_entropy + 0.5 * 2f64.ln());
}

#[test]
fn fedproto() {
    // The prototypes of the first round are the features before its step, H; in the second the feature is drawn to H.
    let own = plus(&W, -0.4, &G);
    let d = [softmax(&own)[0] - 1.0, softmax(&own)[1]];
    let pulled = chain(&own, d, 2.0 * 0.7 * (feature(&own) - H));
    let params = json!({"variant": "pfllib", "lambda": 0.7});
    let first = run(&case("fedproto", params.clone()), BOTH, json!({}));
    first.server("protos[0]", &[H]);
    first.server("protos[1]", &[H]);
    run(&case("fedproto", params), BOTH, json!({"rounds": 2})).client(0, "model", &plus(&own, -RATE, &pulled));
}

#[test]
fn fd() {
    // The outputs of the first round are (3/4, 1/4) at both clients; in the second they are soft targets.
    let own = plus(&W, -0.4, &G);
    let p = softmax(&own);
    let d = [p[0] - 1.0 + 0.6 * (p[0] - 0.75), p[1] + 0.6 * (p[1] - 0.25)];
    let params = json!({"variant": "paper", "lambda": 0.6});
    let done = run(&case("fd", params), &[&[0], &[0]], json!({"rounds": 2}));
    done.client(0, "model", &plus(&own, -RATE, &chain(&own, d, 0.0)));
}

#[test]
fn fedrod() {
    // Labels 0, 0, 1 in one batch: z + ln n has the odds 3 * 2 : 1, so p = (6/7, 1/7) and the mean of p - y is 4/21. With the head's
    // twin the logits are 2 z, of odds 9 : 1, and the mean is (0.9 - 1 + 0.9 - 1 + 0.9) / 3 = 0.7 / 3.
    let (generic, personal) = (4.0 / 21.0, 0.7 / 3.0);
    let done = run(&case("fedrod", json!({})), &[&[0, 0, 1]], json!({"batch_size": 3}));
    done.server("global", &plus(&W, -RATE, &chain(&W, [generic, -generic], 0.0)));
    let d = RATE * personal;
    done.client(0, "head", &[1.0 - d * H, -1.0 + d * H, -d, d]);
}

#[test]
fn fedgen() {
    // A generator of zeros gives the feature 0: the logits are the biases, p = (1/2, 1/2), and only they move for the drawn label 0.
    let done = run(&case("fedgen", json!({"server_steps": 0})), ONE, json!({}));
    done.server("global", &plus(&plus(&W, -0.4, &G), -0.4, &[0.0, 0.0, 0.0, 0.0, -0.5, 0.5]));
}

#[test]
fn fml() {
    // Equal models do not diverge, so that the shares of cross-entropy are left.
    let done = run(&case("fml", json!({"alpha": 0.75, "beta": 0.5})), BOTH, json!({}));
    done.client(0, "personal", &plus(&W, -0.3, &G));
    done.server("global", &plus(&W, 0.2, &G));
}

#[test]
fn fedkd() {
    // Teacher and student are equal and the map is 0: with s = 2 CE the loss is s + 2 f^2 / s. Its derivatives: (1 - 2 f^2 / s^2) G
    // for both, 4 f / s more for the teacher's feature, -4 f f' / s for the map.
    let s = 2.0 * (4.0f64 / 3.0).ln();
    let factor = 1.0 - 2.0 * H * H / (s * s);
    let more = 4.0 * H / s;
    let params = json!({"t_start": 1.0, "t_end": 1.0});
    let done = run(&case("fedkd", params), ONE, json!({}));
    let teacher = plus(&plus(&W, -RATE * factor, &G), -RATE, &[more, more, 0.0, 0.0, 0.0, 0.0]);
    done.client(0, "model", &teacher);
    done.client(0, "student", &plus(&W, -RATE * factor, &G));
    done.client(0, "bridge", &[RATE * 4.0 * H * H / s]);
}

#[test]
fn fedcp() {
    // A policy of zeros halves the features: z = v f/2 + v f/2 + 2 b, so p = (3/4, 1/4). The own head sees f/2, the base both heads.
    let g = [G[0], G[1], G[2] / 2.0, G[3] / 2.0, G[4], G[5]];
    let done = run(&case("fedcp", json!({"lambda": 0.0})), ONE, json!({}));
    let head = plus(&W, -RATE / 2.0, &g);
    // h_g becomes the mean of the trained and the old head; the only client's is everybody's.
    done.server("global", &[W[0] + 0.2, W[1] + 0.2, head[2], head[3], head[4], head[5]]);
    done.client(0, "global_head", &head[2..]);
}

#[test]
fn gpfl() {
    // A valve of zeros changes nothing. Numbers on a line have cosines 1 and -1 with the embeddings, whatever they are, so that the
    // angle has no slope; the distance |f - 1| has the slope -1, weighed by lambda.
    let done = run(&case("gpfl", json!({"lambda": 0.1, "mu": 0.0})), ONE, json!({}));
    done.server("global", &[W[0] + 0.4 * 0.6, W[1] + 0.4 * 0.6, 1.0, -1.0, 0.0, 0.0]);
    done.client(0, "generic", &[0.0]);
    done.client(0, "personal", &[1.0]);
}

#[test]
fn fedgh() {
    // Each client trains on its sample; then its class mean is its feature, and the server's head takes one step on both pairs.
    let params = json!({"server_learning_rate": 0.8, "header": "server"});
    let done = run(&case("fedgh", params), BOTH, json!({"batch_size": 2, "drop_last": false}));
    let f = [feature(&plus(&W, -0.4, &G)), feature(&plus(&W, 1.2, &G))];
    // Under the initial head the logits are f and -f.
    let d = |f: f64, label: f64| 1.0 / (1.0 + (-2.0 * f).exp()) - (1.0 - label);
    let (d0, d1) = (d(f[0], 0.0), d(f[1], 1.0));
    let (weight, bias) = (0.8 * (d0 * f[0] + d1 * f[1]) / 2.0, 0.8 * (d0 + d1) / 2.0);
    done.server("global", &[W[0], W[1], 1.0 - weight, -1.0 + weight, -bias, bias]);
}

#[test]
fn fedpcl() {
    // On a line the normalised feature is 1, and so is every prototype; the angle to it cannot change.
    let done = run(&case("fedpcl", json!({})), BOTH, json!({"rounds": 2}));
    done.client(0, "model", &W);
    done.server("protos[0]", &[1.0]);
}

#[test]
fn fedpac() {
    // First the head takes a step, then the base under it. Clients of one sample have no variance, so that each keeps its own head. In
    // the second round the feature is drawn to the own prototype, the feature after the first.
    let part = |a: &Six, b: &Six| [a[0], a[1], b[2], b[3], b[4], b[5]];
    let trained = |start: &Six, label: usize| {
        let head = part(start, &step(start, label));
        part(&step(&head, label), &head)
    };
    let (own, other) = (trained(&W, 0), trained(&W, 1));
    let received = [(own[0] + other[0]) / 2.0, (own[1] + other[1]) / 2.0, own[2], own[3], own[4], own[5]];
    let head = part(&received, &step(&received, 0));
    let d = [softmax(&head)[0] - 1.0, softmax(&head)[1]];
    let pulled = chain(&head, d, 2.0 * 0.7 * (feature(&head) - feature(&own)));
    let done = run(&case("fedpac", json!({"lambda": 0.7})), BOTH, json!({"rounds": 2}));
    done.client(0, "model", &part(&plus(&head, -RATE, &pulled), &head));
}

#[test]
fn fedgc() {
    // Heads are embeddings of the own classes and begin at 0 here. Client 0 sees label 0: its rows become +-0.2 H; then label 1, with
    // logits +-0.2 H^2. Client 1 has one class, and nothing to learn; its row is pushed from the embedding of class 0.
    let p = 1.0 / (1.0 + (-0.4 * H * H).exp());
    let row = 0.2 * H - RATE * p * H;
    let moved = RATE * 0.4 * H * p * 2.0 / 3.0;
    let done = run(&case("fedgc", json!({"lambda": 0.5})), &[&[0, 1], &[1]], json!({}));
    done.server("heads[0]", &[row, -row]);
    done.server("heads[1]", &[-RATE * 0.5 / (1.0 + (row * row).exp()) * row]);
    done.server("global", &[W[0] - moved, W[1] - moved, 1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn feddbe() {
    // The common mean is H, that of every batch before the first round. The first step moves the offset by the slope of the feature,
    // -1/2; in the second the head sees the feature with it, and the feature is drawn to H.
    let (start, offset, kappa) = (plus(&W, 0.4, &G), RATE * 0.5, 3.0);
    let seen = [start[0] + offset, start[1], start[2], start[3], start[4], start[5]];
    let d = [softmax(&seen)[0] - 1.0, softmax(&seen)[1]];
    let done = run(&case("feddbe", json!({"momentum": 1.0, "kappa": kappa})), BOTH, json!({"rounds": 2}));
    done.client(0, "model", &plus(&start, -RATE, &chain(&seen, d, kappa * (feature(&start) - H))));
    done.client(0, "offset", &[offset - RATE * (d[0] * start[2] + d[1] * start[3])]);
    done.server("mean", &[H]);
}
