//! Data that are drawn: FedProx's synthetic(alpha, beta), and NIID-Bench's FCUBE. No files are needed.

use super::Shape;
use super::assemble::{Drawn, Rows};
use super::dataset::Dataset;
use super::partition::portable::{exp, gauss, ln};
use super::registry::{Request, room};
use crate::base::random::{Purpose, stream, unit};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type, When};
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

const DIMENSION: usize = 60;
const CLASSES: usize = 10;
/// The most users, and their number when nobody says it.
const MOST: u64 = 100_000;
const USERS: u64 = 30;
/// Bytes that a number takes, and what a sample's label and the name of its group take.
const NUMBER: u64 = 4;
const ROW: u64 = 60;
const SHAPE: Shape = Shape { channels: DIMENSION, height: 1, width: 1 };
const CUBE: Shape = Shape { channels: 3, height: 1, width: 1 };
/// The greatest standard deviation with which samples are finite.
const DEVIATION: f64 = 1e30;
/// What there is to do about more than fits this machine.
const FEWER_USERS: &str = "choose fewer `users`, or use a machine with more memory";
const FEWER_POINTS: &str = "choose fewer `samples`, or use a machine with more memory";
/// The most users whose samples are counted before they are drawn.
const COUNTED: u64 = 1000;

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
        Field::with("users", Type::Int { min: 1, max: MOST as i64 }, USERS as i64, "The number of users.").from("", "FedML"),
        Field::with("seed", Type::at_least(0), 0, "Seed of the draw. Numbers are this program's, the law is FedProx's.")
            .from("", "FedProx"),
    ]
}

/// How many samples a user has; takes the first numbers of its stream.
fn size(rng: &mut crate::base::random::Stream) -> u64 {
    exp((4.0 + 2.0 * gauss(rng)).min(12.0)) as u64 + 50
}

/// The samples of so many users.
fn total(users: u64, seed: u64) -> u64 {
    (0..users).map(|user| size(&mut stream(seed, Purpose::Noise, user, 0, 0))).sum()
}

/// The users and their samples that these parameters ask for; the samples only where counting them costs next to nothing.
pub(super) fn asked(params: &Map<String, Value>) -> (u64, Option<usize>) {
    let whole = |name: &str, default: u64| params.get(name).and_then(Value::as_u64).unwrap_or(default);
    let users = whole("users", USERS);
    let samples = (users <= COUNTED).then(|| total(users, whole("seed", 0))).and_then(|n| usize::try_from(n).ok());
    (users, samples)
}

/// What is wrong with the parameters of a drawn data set on this machine: the one that asks for more than its memory.
pub(super) fn rules(name: &str, params: &Map<String, Value>) -> Option<Breach> {
    let whole = |name: &str| params.get(name).and_then(Value::as_u64);
    match name {
        "synthetic" => {
            for name in ["alpha", "beta"] {
                if let Some(found) = params.get(name).and_then(Value::as_f64).filter(|found| *found > DEVIATION) {
                    let fault = Fault::stage(format!("`{name}` is {found:e}, with which samples are drawn that are not finite"));
                    return Some(Breach::new(name, fault.help(format!("choose at most {DEVIATION:e}"))));
                }
            }
            // At least 50 samples each; only where that may not fit are they counted.
            let users = whole("users").filter(|users| (COUNTED..=MOST).contains(users))?;
            room(name, total(users, whole("seed").unwrap_or(0)), DIMENSION as u64 * NUMBER + ROW, FEWER_USERS)
                .err()
                .map(|f| Breach::new("users", f))
        }
        "fcube" => room(name, whole("samples")?, 3 * NUMBER + ROW, FEWER_POINTS).err().map(|fault| Breach::new("samples", fault)),
        _ => None,
    }
}

/// FedProx's synthetic data: 60 inputs, 10 classes, a linear model a user. Users are the groups.
pub(super) fn fedprox(request: &Request<'_>) -> Outcome<Dataset> {
    let number =
        |name: &str| Ok::<_, crate::base::Fault>(request.params.number(name, -f64::MIN_POSITIVE, Some(10.0 * DEVIATION))?.unwrap_or(1.0));
    let (alpha, beta, iid) = (number("alpha")?, number("beta")?, request.params.flag("iid", false)?);
    let users = request.params.integer("users", 1, MOST)?.unwrap_or(USERS);
    let seed = request.params.integer("seed", 0, u64::MAX)?.unwrap_or(0);
    let mut shared = stream(seed, Purpose::Noise, u64::MAX, 0, 0);
    let matrix =
        |rng: &mut crate::base::random::Stream, mean: f64| -> Vec<f64> { (0..DIMENSION * CLASSES).map(|_| mean + gauss(rng)).collect() };
    let (common, common_bias) = (matrix(&mut shared, 0.0), (0..CLASSES).map(|_| gauss(&mut shared)).collect::<Vec<_>>());
    // The variances of the inputs: j to the power of -1.2.
    let spread: Vec<f64> = (1..=DIMENSION).map(|j| exp(-0.6 * ln(j as f64))).collect();
    let all = total(users, seed);
    request.room(all, DIMENSION as u64 * NUMBER + ROW, FEWER_USERS)?;
    let mut rows = Rows { what: "user", ..Rows::default() };
    let mut values = Drawn::new(usize::try_from(all).unwrap_or_default(), SHAPE);
    for user in 0..users {
        request.go_on()?;
        let mut rng = stream(seed, Purpose::Noise, user, 0, 0);
        let count = size(&mut rng);
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
            values.extend(x);
        }
    }
    rows.train = rows.labels.len();
    values.finish(request.name, SHAPE, CLASSES, rows, request.origin())
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
    request.room(samples as u64, 3 * NUMBER + ROW, FEWER_POINTS)?;
    let mut rng = stream(request.params.integer("seed", 0, u64::MAX)?.unwrap_or(0), Purpose::Noise, 0, 0, 0);
    let (mut values, mut rows) = (Drawn::new(samples, CUBE), Rows { what: "party", train: samples, ..Rows::default() });
    for sample in 0..samples {
        request.go_on_at(sample)?;
        let point: [f64; 3] = std::array::from_fn(|_| 2.0 * unit(&mut rng) - 1.0);
        let octant = point.iter().fold(0, |octant, x| 2 * octant + u32::from(*x > 0.0));
        rows.labels.push(u32::from(point[0] > 0.0));
        rows.groups.push(octant.min(7 - octant).to_string());
        values.extend(point);
    }
    values.finish(request.name, CUBE, 2, rows, request.origin())
}
