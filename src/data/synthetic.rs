//! Data that are drawn: FedProx's synthetic(alpha, beta), and NIID-Bench's FCUBE. No files are needed.

use super::Shape;
use super::assemble::{Rows, of_floats};
use super::dataset::Dataset;
use super::partition::portable::{exp, gauss, ln};
use super::registry::Request;
use crate::base::Outcome;
use crate::base::random::{Purpose, stream, unit};
use crate::spec::catalog::{Field, Type, When};

const DIMENSION: usize = 60;
const CLASSES: usize = 10;

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with(
            "alpha",
            Type::non_negative(),
            1.0,
            "How much the users' models differ, unless `iid`: the standard deviation of their mean.",
        )
        .from("alpha", "FedProx")
        .read_with("iid", When::Is(&["false"])),
        Field::with("beta", Type::non_negative(), 1.0, "How much the users' inputs differ: the standard deviation of their mean.")
            .from("beta", "FedProx"),
        Field::with("iid", Type::Bool, false, "One model and one law of the inputs for all users."),
        Field::with("users", Type::Int { min: 1, max: 100_000 }, 30, "The number of users.").from("", "FedML"),
        Field::with("seed", Type::at_least(0), 0, "Seed of the draw. Numbers are this program's, the law is FedProx's.")
            .from("", "FedProx"),
    ]
}

/// FedProx's synthetic data: 60 inputs, 10 classes, a linear model a user. Users are the groups.
pub(super) fn fedprox(request: &Request<'_>) -> Outcome<Dataset> {
    let number = |name: &str| Ok::<_, crate::base::Fault>(request.params.number(name, -f64::MIN_POSITIVE, None)?.unwrap_or(1.0));
    let (alpha, beta, iid) = (number("alpha")?, number("beta")?, request.params.flag("iid", false)?);
    let users = request.params.integer("users", 1, 100_000)?.unwrap_or(30);
    let seed = request.params.integer("seed", 0, u64::MAX)?.unwrap_or(0);
    let mut shared = stream(seed, Purpose::Noise, u64::MAX, 0, 0);
    let matrix =
        |rng: &mut crate::base::random::Stream, mean: f64| -> Vec<f64> { (0..DIMENSION * CLASSES).map(|_| mean + gauss(rng)).collect() };
    let (common, common_bias) = (matrix(&mut shared, 0.0), (0..CLASSES).map(|_| gauss(&mut shared)).collect::<Vec<_>>());
    // The variances of the inputs: j to the power of -1.2.
    let spread: Vec<f64> = (1..=DIMENSION).map(|j| exp(-0.6 * ln(j as f64))).collect();
    let (mut values, mut rows) = (Vec::new(), Rows { what: "user", ..Rows::default() });
    for user in 0..users {
        let mut rng = stream(seed, Purpose::Noise, user, 0, 0);
        let count = exp((4.0 + 2.0 * gauss(&mut rng)).min(12.0)) as usize + 50;
        let (of_model, of_inputs) = (alpha * gauss(&mut rng), beta * gauss(&mut rng));
        let center: Vec<f64> = (0..DIMENSION).map(|_| if iid { of_inputs } else { of_inputs + gauss(&mut rng) }).collect();
        let own = if iid { common.clone() } else { matrix(&mut rng, of_model) };
        let bias: Vec<f64> = if iid { common_bias.clone() } else { (0..CLASSES).map(|_| of_model + gauss(&mut rng)).collect() };
        for _ in 0..count {
            let x: Vec<f64> = center.iter().zip(&spread).map(|(center, spread)| center + spread * gauss(&mut rng)).collect();
            let score = |class: usize| bias[class] + x.iter().enumerate().map(|(at, x)| x * own[at * CLASSES + class]).sum::<f64>();
            let scores: Vec<f64> = (0..CLASSES).map(score).collect();
            let best = (0..CLASSES).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or_default();
            rows.labels.push(best as u32);
            rows.groups.push(user.to_string());
            values.extend(x.iter().map(|&x| x as f32));
        }
    }
    rows.train = rows.labels.len();
    of_floats(request.name, Shape { channels: DIMENSION, height: 1, width: 1 }, CLASSES, &values, rows, request.origin())
}

pub(super) fn fcube_fields() -> Vec<Field> {
    vec![
        Field::with("samples", Type::Int { min: 8, max: 10_000_000 }, 4_000, "The number of points.").from("", "NIID-Bench"),
        Field::with("seed", Type::at_least(0), 0, "Seed of the draw."),
    ]
}

/// FCUBE: points of a cube, of which the class is the side of the first axis; groups are pairs of opposite octants.
pub(super) fn fcube(request: &Request<'_>) -> Outcome<Dataset> {
    let samples = request.params.count("samples", 8)?.unwrap_or(4_000);
    let mut rng = stream(request.params.integer("seed", 0, u64::MAX)?.unwrap_or(0), Purpose::Noise, 0, 0, 0);
    let (mut values, mut rows) = (Vec::new(), Rows { what: "party", train: samples, ..Rows::default() });
    for _ in 0..samples {
        let point: [f64; 3] = std::array::from_fn(|_| 2.0 * unit(&mut rng) - 1.0);
        let octant = point.iter().fold(0, |octant, x| 2 * octant + u32::from(*x > 0.0));
        rows.labels.push(u32::from(point[0] > 0.0));
        rows.groups.push(octant.min(7 - octant).to_string());
        values.extend(point.map(|x| x as f32));
    }
    of_floats(request.name, Shape { channels: 3, height: 1, width: 1 }, 2, &values, rows, request.origin())
}
