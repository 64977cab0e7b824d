//! Shadow models (Shokri, Stronati, Song, Shmatikov, S&P 2017): models of one's own, trained on samples that are known to be in or
//! out, teach a judge how a model answers samples that it was trained on.

use crate::base::Outcome;
use crate::base::random::{Stream, shuffle};
use crate::data::Dataset;
use crate::engine::{Engine, Model, Parts, loss};
use crate::fl::Response;
use std::collections::BTreeMap;

/// How shadow models are trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How many.
    pub models: usize,
    /// Passes over the training half.
    pub epochs: usize,
    /// Step size of plain gradient descent.
    pub rate: f32,
    /// Samples a step.
    pub batch: usize,
}

/// A logistic regression on a model's answers: the log-odds of the true class, the entropy, and whether the answer is right.
#[derive(Clone, Debug, PartialEq)]
pub struct Judge {
    means: [f64; FEATURES],
    sds: [f64; FEATURES],
    weights: [f64; FEATURES + 1],
}

const FEATURES: usize = 3;

fn features(answer: &Response) -> [f64; FEATURES] {
    // Beyond this an answer is sure, and how sure says nothing.
    let odds = f64::from(answer.odds).clamp(-50.0, 50.0);
    [odds, f64::from(answer.entropy), f64::from(u8::from(answer.right))]
}

impl Judge {
    /// Learns from answers to samples that were in the training set and to others, by Newton's method with a small penalty.
    #[must_use]
    pub fn learn(inside: &[Response], outside: &[Response]) -> Self {
        let rows: Vec<([f64; FEATURES], f64)> =
            inside.iter().map(|a| (features(a), 1.0)).chain(outside.iter().map(|a| (features(a), 0.0))).collect();
        let n = rows.len().max(1) as f64;
        let mean = |of: &dyn Fn(&[f64; FEATURES]) -> f64| rows.iter().map(|(x, _)| of(x)).sum::<f64>() / n;
        let means: [f64; FEATURES] = std::array::from_fn(|i| mean(&|x| x[i]));
        let sds = std::array::from_fn(|i| mean(&|x| (x[i] - means[i]).powi(2)).sqrt().max(1e-9));
        let mut judge = Self { means, sds, weights: [0.0; FEATURES + 1] };
        for _ in 0..25 {
            let (mut slope, mut bend) = (nalgebra::SVector::<f64, 4>::zeros(), nalgebra::SMatrix::<f64, 4, 4>::zeros());
            for (x, y) in &rows {
                let x = nalgebra::SVector::<f64, 4>::from(judge.scaled(x));
                let p = sigmoid(x.dot(&nalgebra::SVector::from(judge.weights)));
                slope += x * (p - y);
                bend += x * x.transpose() * (p * (1.0 - p));
            }
            for i in 0..=FEATURES {
                slope[i] += PENALTY * judge.weights[i];
                bend[(i, i)] += PENALTY;
            }
            let Some(step) = bend.lu().solve(&slope) else { break };
            judge.weights.iter_mut().zip(step.iter()).for_each(|(w, s)| *w -= s);
            if step.amax() < 1e-9 {
                break;
            }
        }
        judge
    }
    /// As a list of numbers.
    #[must_use]
    pub fn state(&self) -> Vec<f64> {
        [&self.means[..], &self.sds, &self.weights].concat()
    }
    /// Out of such a list; nothing when it is none.
    #[must_use]
    pub fn restored(state: &[f64]) -> Option<Self> {
        let (means, rest) = state.split_first_chunk::<FEATURES>()?;
        let (sds, weights) = rest.split_first_chunk::<FEATURES>()?;
        Some(Self { means: *means, sds: *sds, weights: weights.try_into().ok()? })
    }
    fn scaled(&self, x: &[f64; FEATURES]) -> [f64; FEATURES + 1] {
        std::array::from_fn(|i| if i < FEATURES { (x[i] - self.means[i]) / self.sds[i] } else { 1.0 })
    }
    /// The judge's odds, as a logarithm, that the answer is to a sample of the training set.
    #[must_use]
    pub fn score(&self, answer: &Response) -> f64 {
        self.scaled(&features(answer)).iter().zip(&self.weights).map(|(x, w)| x * w).sum()
    }
}

/// Weight of the squared norm of the judge's weights, so that separable answers have a solution.
const PENALTY: f64 = 1e-2;

fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// Trains shadow models of the kind of `initial` and a judge on their answers. Half of what each is given is its training set.
///
/// Each draws as many samples of a class from `pool` as `wanted` says, or as many as there are.
///
/// # Errors
/// A stage fault when the samples do not fit the model.
pub fn teach(
    initial: &Model,
    data: &Dataset,
    pool: &[u32],
    wanted: &BTreeMap<u32, usize>,
    options: &Options,
    rng: &mut Stream,
) -> Outcome<Judge> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let mut engine = Engine::new();
    for _ in 0..options.models {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (class, count) in wanted {
            let mut of_class: Vec<u32> = pool.iter().copied().filter(|i| data.labels()[*i as usize] == *class).collect();
            shuffle(rng, &mut of_class);
            of_class.truncate(*count);
            let half = of_class.len() / 2;
            known.extend_from_slice(&of_class[..half]);
            unknown.extend_from_slice(&of_class[half..2 * half]);
        }
        let model = descend(&mut engine, initial, data, &known, options, rng)?;
        inside.extend(answers(&mut engine, &model, data, &known)?);
        outside.extend(answers(&mut engine, &model, data, &unknown)?);
    }
    Ok(Judge::learn(&inside, &outside))
}

fn descend(engine: &mut Engine, initial: &Model, data: &Dataset, samples: &[u32], options: &Options, rng: &mut Stream) -> Outcome<Model> {
    let mut model = Model { training: true, ..initial.clone() };
    let mut order = samples.to_vec();
    let (mut x, mut y, mut d_logits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.epochs {
        shuffle(rng, &mut order);
        for batch in order.chunks(options.batch.max(1)) {
            data.gather(batch, &mut x);
            data.gather_labels(batch, &mut y);
            engine.forward(0, &mut model, &x, batch.len())?;
            loss::cross_entropy(engine.logits(0), &y, model.net.classes(), &mut d_logits);
            let mut gradient = vec![0.0; model.params.len()];
            engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient)?;
            model.params.iter_mut().zip(&gradient).for_each(|(p, g)| *p -= options.rate * g);
        }
    }
    model.training = false;
    Ok(model)
}

fn answers(engine: &mut Engine, model: &Model, data: &Dataset, samples: &[u32]) -> Outcome<Vec<Response>> {
    let (mut model, classes) = (model.clone(), model.net.classes());
    let (mut x, mut all) = (Vec::new(), Vec::new());
    for batch in samples.chunks(128) {
        data.gather(batch, &mut x);
        engine.forward(0, &mut model, &x, batch.len())?;
        all.extend(engine.logits(0).chunks_exact(classes).zip(batch).map(|(row, i)| Response::of(row, data.labels()[*i as usize])));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_learns_what_tells_the_two_apart() {
        let answer = |odds: f32| Response { loss: 0.0, odds, entropy: 0.3, right: odds > 0.0 };
        let inside: Vec<_> = (0..50).map(|i| answer(1.0 + (i % 7) as f32)).collect();
        let outside: Vec<_> = (0..50).map(|i| answer(-1.0 + (i % 7) as f32)).collect();
        let judge = Judge::learn(&inside, &outside);
        assert!(judge.score(&answer(6.0)) > judge.score(&answer(0.0)));
        assert!(judge.weights.iter().all(|w| w.is_finite()));
        // Without answers it has no opinion.
        assert_eq!(Judge::learn(&[], &[]).score(&answer(3.0)), 0.0);
    }
}
