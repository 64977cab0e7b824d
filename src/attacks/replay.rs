//! A client's local training, replayed on dummy samples in double precision: the update that they would give, and how it changes with
//! them.
//!
//! Second derivatives come from first ones. For a fixed direction `a`, the gradient of `<a, grad_w L(w, x)>` by `x` is the derivative of
//! `grad_x L(w + e a, x)` by `e` at 0, and the same holds for labels and parameters; all three are taken as central differences. The
//! engine needs no second backward pass for it.

use crate::base::random::{Purpose, stream};
use crate::base::{Fault, Outcome};
use crate::engine::{Engine, Model, Params, Parts, loss};
use std::ops::Range;

/// What the dummy samples are trained towards.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Cross-entropy with one class a sample.
    Classes(&'a [u32]),
    /// Cross-entropy with the softmax of these numbers (samples x classes).
    Soft(&'a [f64]),
    /// The mean squared difference of the logits to these (samples x classes).
    Outputs(&'a [f64]),
}

impl Target<'_> {
    fn part(&self, rows: &Range<usize>, classes: usize) -> Target<'_> {
        let wide = rows.start * classes..rows.end * classes;
        match self {
            Self::Classes(labels) => Target::Classes(&labels[rows.clone()]),
            Self::Soft(values) => Target::Soft(&values[wide]),
            Self::Outputs(values) => Target::Outputs(&values[wide]),
        }
    }
}

/// The distance over which central differences are taken, in the Euclidean norm of the parameters. Larger steps cross kinks of ReLUs,
/// smaller ones lose digits; in double precision about ten digits are left.
const STEP: f64 = 1e-5;

/// Plain gradient descent from known parameters over known batches.
#[derive(Debug)]
pub struct Replay {
    model: Model<f64>,
    start: Params<f64>,
    batches: Vec<Range<usize>>,
    rate: f64,
    engine: Engine<f64>,
    d_logits: Vec<f64>,
    d_input: Vec<f64>,
    /// The parameters before each step of the last [`Replay::update`].
    path: Vec<Params<f64>>,
}

/// The gradients of a loss by whatever is asked for; each is added.
#[derive(Default)]
struct Wanted<'a> {
    params: Option<&'a mut [f64]>,
    x: Option<&'a mut [f64]>,
    target: Option<&'a mut [f64]>,
}

impl Replay {
    /// Steps of size `rate` from `start`, one for each range of samples.
    #[must_use]
    pub fn new(start: Model<f64>, batches: Vec<Range<usize>>, rate: f64) -> Self {
        let params = start.params.clone();
        Self {
            model: start,
            start: params,
            batches,
            rate,
            engine: Engine::new(),
            d_logits: Vec::new(),
            d_input: Vec::new(),
            path: Vec::new(),
        }
    }
    /// One gradient of all samples together.
    #[must_use]
    pub fn single(start: Model<f64>, samples: usize) -> Self {
        Self::new(start, std::iter::once(0..samples).collect(), 1.0)
    }
    /// The model from which the steps start.
    #[must_use]
    pub fn model(&self) -> &Model<f64> {
        &self.model
    }

    /// The mean gradient of the steps: the whole change, divided by step size and number of steps.
    ///
    /// # Errors
    /// A stage fault when the samples do not fit the model.
    pub fn update(&mut self, x: &[f64], target: &Target<'_>) -> Outcome<Vec<f64>> {
        self.path.clear();
        let mut params = self.start.clone();
        let mut sum = vec![0.0; params.len()];
        for step in 0..self.batches.len() {
            let mut gradient = vec![0.0; params.len()];
            self.gradients(&params, step, x, target, Wanted { params: Some(&mut gradient), ..Wanted::default() })?;
            sum.iter_mut().zip(&gradient).for_each(|(sum, g)| *sum += g);
            let next = if step + 1 < self.batches.len() { moved(&params, -self.rate, &gradient) } else { Params::default() };
            self.path.push(std::mem::replace(&mut params, next));
        }
        let share = 1.0 / self.batches.len().max(1) as f64;
        sum.iter_mut().for_each(|sum| *sum *= share);
        Ok(sum)
    }

    /// The gradients of `<direction, update>` by the samples and, where asked for, by the target's numbers, added to `d_x` and
    /// `d_target`. [`Replay::update`] must have been called with the same samples before.
    ///
    /// # Errors
    /// A stage fault when the samples do not fit the model, an internal one when there was no update.
    pub fn pull(
        &mut self,
        x: &[f64],
        target: &Target<'_>,
        direction: &[f64],
        d_x: &mut [f64],
        mut d_target: Option<&mut [f64]>,
    ) -> Outcome<()> {
        let steps = self.batches.len();
        if self.path.len() != steps {
            return Err(Fault::internal("a replay is pulled back before its update"));
        }
        // The weight of each step's gradient, which earlier steps change by way of the parameters.
        let mut weight: Vec<f64> = direction.iter().map(|v| v / steps as f64).collect();
        for step in (0..steps).rev() {
            let norm = weight.iter().map(|w| w * w).sum::<f64>().sqrt();
            if norm == 0.0 || !norm.is_finite() {
                continue;
            }
            let base = self.path[step].clone();
            let mut bent = vec![0.0; if step > 0 { weight.len() } else { 0 }];
            for side in [1.0, -1.0] {
                let params = moved(&base, side * STEP / norm, &weight);
                let scale = side * norm / (2.0 * STEP);
                let mut by_x = vec![0.0; x.len()];
                let mut by_target = d_target.as_deref().map(|d| vec![0.0; d.len()]);
                let mut by_params = (step > 0).then(|| vec![0.0; weight.len()]);
                let wanted = Wanted { params: by_params.as_deref_mut(), x: Some(&mut by_x), target: by_target.as_deref_mut() };
                self.gradients(&params, step, x, target, wanted)?;
                add(d_x, scale, &by_x);
                if let (Some(d), Some(by_target)) = (d_target.as_deref_mut(), &by_target) {
                    add(d, scale, by_target);
                }
                if let Some(by_params) = &by_params {
                    add(&mut bent, scale, by_params);
                }
            }
            // The gradient before this step also moves the parameters at which this step's gradient is taken.
            if step > 0 {
                add(&mut weight, -self.rate, &bent);
            }
        }
        Ok(())
    }

    /// The logits of samples at the start, samples x classes.
    ///
    /// # Errors
    /// A stage fault when the samples do not fit the model.
    pub fn outputs(&mut self, x: &[f64]) -> Outcome<Vec<f64>> {
        let rows = x.len() / self.model.net.input().numel().max(1);
        self.model.params = self.start.clone();
        self.engine.forward(0, &mut self.model, x, rows)?;
        Ok(self.engine.logits(0).to_vec())
    }

    fn gradients(&mut self, params: &Params<f64>, step: usize, x: &[f64], target: &Target<'_>, wanted: Wanted<'_>) -> Outcome<()> {
        let rows = self.batches[step].clone();
        let (width, classes) = (self.model.net.input().numel(), self.model.net.classes());
        let part = rows.start * width..rows.end * width;
        let Some(samples) = x.get(part.clone()) else {
            return Err(Fault::internal(format!("a replay of {} samples was given {} numbers", rows.end, x.len())));
        };
        self.model.params = params.clone();
        // Differences are of one function: the same units drop out in every pass.
        self.engine.draw_from(stream(0, Purpose::Dropout, 0, 0, step as u64));
        self.engine.forward(0, &mut self.model, samples, rows.len())?;
        let by_target = wanted.target.map(|d| &mut d[rows.start * classes..rows.end * classes]);
        output_gradients(self.engine.logits(0), &target.part(&rows, classes), classes, &mut self.d_logits, by_target);
        if let Some(gradient) = wanted.params {
            self.engine.backward(0, &self.model, Some(&self.d_logits), None, Parts::All, gradient)?;
        }
        if let Some(d_x) = wanted.x {
            self.engine.backward_input(0, &self.model, Some(&self.d_logits), None, &mut self.d_input)?;
            add(&mut d_x[part], 1.0, &self.d_input);
        }
        Ok(())
    }
}

/// The gradients of the mean loss of some samples by their logits, and by the target's numbers, which is added.
fn output_gradients(logits: &[f64], target: &Target<'_>, classes: usize, d_logits: &mut Vec<f64>, d_target: Option<&mut [f64]>) {
    match target {
        Target::Classes(labels) => {
            loss::cross_entropy(logits, labels, classes, d_logits);
        }
        Target::Soft(values) => {
            let mut shares = values.to_vec();
            loss::softmax(&mut shares, classes);
            d_logits.clear();
            d_logits.extend_from_slice(logits);
            loss::softmax(d_logits, classes);
            let part = classes as f64 / logits.len().max(1) as f64;
            d_logits.iter_mut().zip(&shares).for_each(|(p, q)| *p = (*p - q) * part);
            if let Some(d_target) = d_target {
                let mut logs = logits.to_vec();
                loss::log_softmax(&mut logs, classes);
                let rows = d_target.chunks_exact_mut(classes).zip(shares.chunks_exact(classes)).zip(logs.chunks_exact(classes));
                for ((d, q), log) in rows {
                    // Through the softmax: q (u - <q, u>) with u the derivative by the shares.
                    let mean: f64 = q.iter().zip(log).map(|(q, log)| -q * log).sum();
                    d.iter_mut().zip(q).zip(log).for_each(|((d, q), log)| *d += part * q * (-log - mean));
                }
            }
        }
        Target::Outputs(values) => {
            let part = 2.0 / logits.len().max(1) as f64;
            d_logits.clear();
            d_logits.extend(logits.iter().zip(*values).map(|(z, o)| part * (z - o)));
            if let Some(d_target) = d_target {
                d_target.iter_mut().zip(&*d_logits).for_each(|(d, g)| *d -= g);
            }
        }
    }
}

fn moved(params: &[f64], length: f64, direction: &[f64]) -> Params<f64> {
    params.iter().zip(direction).map(|(p, d)| p + length * d).collect::<Vec<f64>>().into()
}

fn add(sum: &mut [f64], scale: f64, values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, v)| *sum += scale * v);
}
