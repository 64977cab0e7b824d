//! Deep leakage from gradients (Zhu, Liu, Han, NeurIPS 2019): dummy samples whose gradient is the observed one, found by L-BFGS. With a
//! known class it is iDLG; PFLlib's form of it stands here too.

use super::matching::Distance;
use super::pause::{Parts, Pause, rest};
use super::problem::{Problem, Reconstruction, normals};
use super::replay::{Replay, Target};
use crate::base::Outcome;
use crate::base::numerics::lbfgs::{Lbfgs, Options};
use crate::base::random::Stream;
use crate::engine::loss::argmax;

/// Steps with torch's defaults from random samples, with random classes that are searched for too unless `labels` says them.
///
/// The point with the least distance after a step is kept. A search that no longer moves ends early.
///
/// # Errors
/// A stage fault when the samples do not fit the model, or `Interrupted`.
pub fn attack(problem: &Problem, labels: Option<&[u32]>, steps: usize, rng: &mut Stream, pause: &dyn Pause) -> Outcome<Reconstruction> {
    let (numbers, classes) = (problem.numbers(), problem.model.net.classes());
    let mut replay = problem.replay();
    let free = if labels.is_some() { 0 } else { problem.samples * classes };
    let mut point = normals(rng, numbers + free);
    let mut best = (f64::NAN, point.clone());
    let (mut first, mut optimizer) = (0, Lbfgs::new(Options::default()));
    if let Some(kept) = pause.kept().and_then(|state| Kept::read(&state, point.len())) {
        (first, point, best, optimizer) = (kept.step, kept.point, kept.best, kept.optimizer);
    }
    for step in first..steps {
        rest(pause, || Kept::state(step, &point, &best, &optimizer))?;
        let before = point.clone();
        let value = optimizer.step(&mut point, &mut |point, gradient| {
            let (x, soft) = point.split_at(numbers);
            let target = labels.map_or(Target::Soft(soft), Target::Classes);
            gradient.fill(0.0);
            let (d_x, d_soft) = gradient.split_at_mut(numbers);
            problem.seen.compare(&mut replay, Distance::Squares, x, &target, d_x, labels.is_none().then_some(d_soft))
        })?;
        // The value is that before the step.
        if value.is_finite() && (best.0.is_nan() || value < best.0) {
            best = (value, before.clone());
        }
        if point == before || !value.is_finite() {
            break;
        }
    }
    let (x, soft) = best.1.split_at(numbers);
    let found = labels.map_or_else(|| soft.chunks_exact(classes).map(|row| argmax(row) as u32).collect(), <[u32]>::to_vec);
    Ok(Reconstruction { x: x.to_vec(), labels: Some(found), distance: best.0 })
}

/// PFLlib's form: 100 steps on samples behind a sigmoid and on the outputs that they should have, by the mean squared difference of
/// outputs, against the update itself; the network is the trained one. The last point is taken.
///
/// # Errors
/// A stage fault when the samples do not fit the model, or `Interrupted`.
pub fn attack_pfllib(problem: &Problem, steps: usize, rng: &mut Stream, pause: &dyn Pause) -> Outcome<Reconstruction> {
    let numbers = problem.numbers();
    let outputs = problem.samples * problem.model.net.classes();
    let mut replay = Replay::single(problem.model.clone(), problem.samples);
    let mut point = normals(rng, numbers + outputs);
    let (mut first, mut optimizer) = (0, Lbfgs::new(Options::default()));
    let mut distance = f64::NAN;
    if let Some(kept) = pause.kept().and_then(|state| Kept::read(&state, point.len())) {
        (first, point, distance, optimizer) = (kept.step, kept.point, kept.best.0, kept.optimizer);
    }
    for step in first..steps {
        rest(pause, || Kept::state(step, &point, &(distance, Vec::new()), &optimizer))?;
        let before = point.clone();
        distance = optimizer.step(&mut point, &mut |point, gradient| {
            let (hidden, wanted) = point.split_at(numbers);
            let x = squashed(hidden);
            gradient.fill(0.0);
            let (d_x, d_wanted) = gradient.split_at_mut(numbers);
            let value = problem.seen.compare(&mut replay, Distance::Squares, &x, &Target::Outputs(wanted), d_x, Some(d_wanted))?;
            d_x.iter_mut().zip(&x).for_each(|(d, x)| *d *= x * (1.0 - x));
            Ok(value)
        })?;
        if point == before || !distance.is_finite() {
            break;
        }
    }
    Ok(Reconstruction { x: squashed(&point[..numbers]), labels: None, distance })
}

/// What a search has after so many steps.
struct Kept {
    step: usize,
    point: Vec<f64>,
    /// The least distance, and where it was; the last one alone where no best point is kept.
    best: (f64, Vec<f64>),
    optimizer: Lbfgs,
}

impl Kept {
    fn state(step: usize, point: &[f64], best: &(f64, Vec<f64>), optimizer: &Lbfgs) -> Vec<f64> {
        let head = [step as f64, best.0, best.1.len() as f64];
        head.iter().chain(point).chain(&best.1).chain(&optimizer.state()).copied().collect()
    }
    /// Out of such a list, for points of so many numbers; nothing when it is none.
    fn read(state: &[f64], numbers: usize) -> Option<Self> {
        let mut parts = Parts(state);
        let (step, distance, size) = (parts.count()?, parts.number()?, parts.count()?);
        let (point, best) = (parts.list(numbers)?.to_vec(), parts.list(size)?.to_vec());
        Some(Self { step, point, best: (distance, best), optimizer: Lbfgs::restored(Options::default(), parts.0)? })
    }
}

fn squashed(values: &[f64]) -> Vec<f64> {
    values.iter().map(|v| 1.0 / (1.0 + (-v).exp())).collect()
}
