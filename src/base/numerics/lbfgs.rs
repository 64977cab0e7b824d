//! L-BFGS with the semantics of `torch.optim.LBFGS`, step for step: fixed step length or strong Wolfe line search.
//!
//! It knows a function by its values and gradients only.

use crate::base::Outcome;
use std::collections::VecDeque;

/// The objective: writes the gradient at a point and returns the value there.
pub type Objective<'a> = dyn FnMut(&[f64], &mut [f64]) -> Outcome<f64> + 'a;

/// What `torch.optim.LBFGS` takes; [`Options::default`] is torch's default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Length of a step, in units of the quasi-Newton direction.
    pub rate: f64,
    /// Iterations of one [`Lbfgs::step`], at least 1.
    pub iterations: usize,
    /// Evaluations of one [`Lbfgs::step`].
    pub evaluations: usize,
    /// The step ends when no component of the gradient is above it.
    pub gradient_tolerance: f64,
    /// The step ends when value or point change by less.
    pub change_tolerance: f64,
    /// Pairs of differences that are remembered, at least 1.
    pub history: usize,
    /// Whether the length of a step is searched for by the strong Wolfe conditions.
    pub strong_wolfe: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rate: 1.0,
            iterations: 20,
            evaluations: 25,
            gradient_tolerance: 1e-7,
            change_tolerance: 1e-9,
            history: 100,
            strong_wolfe: false,
        }
    }
}

/// One remembered pair: the difference of gradients, that of points, and the inverse of their product.
#[derive(Clone, Debug)]
struct Pair {
    gradients: Vec<f64>,
    points: Vec<f64>,
    inverse: f64,
}

/// The optimizer with what it remembers between steps.
#[derive(Clone, Debug)]
pub struct Lbfgs {
    options: Options,
    pairs: VecDeque<Pair>,
    direction: Vec<f64>,
    length: f64,
    scale: f64,
    before: Vec<f64>,
    iterations: u64,
}

impl Lbfgs {
    /// An optimizer that remembers nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, pairs: VecDeque::new(), direction: Vec::new(), length: 0.0, scale: 1.0, before: Vec::new(), iterations: 0 }
    }

    /// What it remembers, as a list of numbers.
    #[must_use]
    pub fn state(&self) -> Vec<f64> {
        let mut state = vec![self.length, self.scale, self.iterations as f64, self.direction.len() as f64, self.pairs.len() as f64];
        state.extend(&self.direction);
        state.extend(&self.before);
        for pair in &self.pairs {
            state.extend(&pair.gradients);
            state.extend(&pair.points);
            state.push(pair.inverse);
        }
        state
    }

    /// An optimizer that remembers what another one did; nothing when the list is no state.
    #[must_use]
    pub fn restored(options: Options, state: &[f64]) -> Option<Self> {
        let (head, rest) = state.split_first_chunk::<5>()?;
        let [length, scale, iterations, size, pairs] = *head;
        let (size, pairs) = (size as usize, pairs as usize);
        if rest.len() != pairs.checked_mul(2 * size + 1)?.checked_add(2 * size)? {
            return None;
        }
        let (direction, rest) = rest.split_at(size);
        let (before, rest) = rest.split_at(size);
        let pair = |part: &[f64]| Pair { gradients: part[..size].to_vec(), points: part[size..2 * size].to_vec(), inverse: part[2 * size] };
        Some(Self {
            options,
            pairs: rest.chunks_exact(2 * size + 1).map(pair).collect(),
            direction: direction.to_vec(),
            length,
            scale,
            before: before.to_vec(),
            iterations: iterations as u64,
        })
    }

    /// Some iterations from `x`, which is moved; returns the objective's value before them.
    ///
    /// # Errors
    /// The first fault of the objective.
    pub fn step(&mut self, x: &mut [f64], objective: &mut Objective<'_>) -> Outcome<f64> {
        let options = self.options;
        let mut gradient = vec![0.0; x.len()];
        let first = objective(x, &mut gradient)?;
        let mut value = first;
        let mut evaluations = 1;
        if greatest(&gradient) <= options.gradient_tolerance {
            return Ok(first);
        }
        for iteration in 1..=options.iterations {
            self.iterations += 1;
            self.turn(&gradient);
            self.before.clone_from(&gradient);
            let value_before = value;
            self.length = if self.iterations == 1 {
                let sum: f64 = gradient.iter().map(|g| g.abs()).sum();
                (1.0 / sum).min(1.0) * options.rate
            } else {
                options.rate
            };
            let slope = dot(&gradient, &self.direction);
            if slope > -options.change_tolerance {
                break;
            }
            let last = iteration == options.iterations;
            if options.strong_wolfe {
                let search = Search { from: x, direction: &self.direction, value, slope, tolerance: options.change_tolerance };
                let (found, used) = search.run(self.length, &gradient, options.evaluations.saturating_sub(evaluations), objective)?;
                (value, self.length, gradient) = (found.value, found.at, found.gradient);
                evaluations += used;
                advance(x, self.length, &self.direction);
            } else {
                advance(x, self.length, &self.direction);
                if !last {
                    value = objective(x, &mut gradient)?;
                    evaluations += 1;
                }
            }
            let moved = greatest(&self.direction) * self.length.abs();
            if last
                || evaluations >= options.evaluations
                || greatest(&gradient) <= options.gradient_tolerance
                || moved <= options.change_tolerance
                || (value - value_before).abs() < options.change_tolerance
            {
                break;
            }
        }
        Ok(first)
    }

    /// The next direction: the gradient, through the inverse Hessian that the remembered pairs imply.
    fn turn(&mut self, gradient: &[f64]) {
        if self.iterations == 1 {
            self.direction = gradient.iter().map(|g| -g).collect();
            self.scale = 1.0;
            return;
        }
        let gradients: Vec<f64> = gradient.iter().zip(&self.before).map(|(now, before)| now - before).collect();
        let points: Vec<f64> = self.direction.iter().map(|d| d * self.length).collect();
        let product = dot(&gradients, &points);
        // A pair without curvature would turn the direction uphill.
        if product > 1e-10 {
            if self.pairs.len() >= self.options.history.max(1) {
                self.pairs.pop_front();
            }
            self.scale = product / dot(&gradients, &gradients);
            self.pairs.push_back(Pair { gradients, points, inverse: 1.0 / product });
        }
        let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut shares = vec![0.0; self.pairs.len()];
        for (pair, share) in self.pairs.iter().zip(&mut shares).rev() {
            *share = dot(&pair.points, &q) * pair.inverse;
            advance(&mut q, -*share, &pair.gradients);
        }
        q.iter_mut().for_each(|q| *q *= self.scale);
        for (pair, share) in self.pairs.iter().zip(&shares) {
            let other = dot(&pair.gradients, &q) * pair.inverse;
            advance(&mut q, share - other, &pair.points);
        }
        self.direction = q;
    }
}

/// A trial of the line search.
#[derive(Clone, Debug)]
struct Trial {
    at: f64,
    value: f64,
    gradient: Vec<f64>,
    slope: f64,
}

/// A search along a direction for a point with the strong Wolfe conditions.
struct Search<'a> {
    from: &'a [f64],
    direction: &'a [f64],
    value: f64,
    slope: f64,
    tolerance: f64,
}

impl Search<'_> {
    /// Share of the first slope by which the value has to fall.
    const DECREASE: f64 = 1e-4;
    /// Share of the first slope that may be left.
    const CURVATURE: f64 = 0.9;

    fn trial(&self, at: f64, objective: &mut Objective<'_>) -> Outcome<Trial> {
        let mut x = self.from.to_vec();
        advance(&mut x, at, self.direction);
        let mut gradient = vec![0.0; x.len()];
        let value = objective(&x, &mut gradient)?;
        let slope = dot(&gradient, self.direction);
        Ok(Trial { at, value, gradient, slope })
    }
    fn too_high(&self, trial: &Trial) -> bool {
        trial.value > self.value + Self::DECREASE * trial.at * self.slope
    }
    fn flat(&self, trial: &Trial) -> bool {
        trial.slope.abs() <= -Self::CURVATURE * self.slope
    }

    /// The trial that is taken, and how often the objective was evaluated.
    fn run(&self, at: f64, gradient: &[f64], most: usize, objective: &mut Objective<'_>) -> Outcome<(Trial, usize)> {
        let start = Trial { at: 0.0, value: self.value, gradient: gradient.to_vec(), slope: self.slope };
        let mut now = self.trial(at, objective)?;
        let mut before = start.clone();
        let (mut evaluations, mut tries) = (1, 0);
        // First a bracket with a good point inside.
        let mut bracket = loop {
            if tries >= most {
                break [start, now];
            }
            if self.too_high(&now) || (tries > 1 && now.value >= before.value) {
                break [before, now];
            }
            if self.flat(&now) {
                return Ok((now, evaluations));
            }
            if now.slope >= 0.0 {
                break [before, now];
            }
            let bounds = (now.at + 0.01 * (now.at - before.at), now.at * 10.0);
            let next = self.trial(cubic(&before, &now, bounds), objective)?;
            (before, now) = (now, next);
            evaluations += 1;
            tries += 1;
        };
        // Then the bracket is made smaller.
        let mut low = usize::from(bracket[0].value > bracket[1].value);
        let mut stuck = false;
        while tries < most {
            let (left, right) = (bracket[0].at.min(bracket[1].at), bracket[0].at.max(bracket[1].at));
            if (right - left) * greatest(self.direction) < self.tolerance {
                break;
            }
            let mut at = cubic(&bracket[0], &bracket[1], (left, right));
            // Twice near an end is no progress: then a tenth of the bracket away from it.
            let margin = 0.1 * (right - left);
            if (right - at).min(at - left) < margin {
                if stuck || at >= right || at <= left {
                    at = if (at - right).abs() < (at - left).abs() { right - margin } else { left + margin };
                    stuck = false;
                } else {
                    stuck = true;
                }
            } else {
                stuck = false;
            }
            let trial = self.trial(at, objective)?;
            evaluations += 1;
            tries += 1;
            if self.too_high(&trial) || trial.value >= bracket[low].value {
                bracket[1 - low] = trial;
                low = usize::from(bracket[0].value > bracket[1].value);
                continue;
            }
            let done = self.flat(&trial);
            if !done && trial.slope * (bracket[1 - low].at - bracket[low].at) >= 0.0 {
                bracket[1 - low] = bracket[low].clone();
            }
            bracket[low] = trial;
            if done {
                break;
            }
        }
        let [first, second] = bracket;
        Ok((if low == 0 { first } else { second }, evaluations))
    }
}

/// The minimum of the cubic through two values and slopes, kept inside the bounds; their middle where there is none.
fn cubic(a: &Trial, b: &Trial, (least, most): (f64, f64)) -> f64 {
    let d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.at - b.at);
    let square = d1 * d1 - a.slope * b.slope;
    if square < 0.0 || square.is_nan() {
        return f64::midpoint(least, most);
    }
    let d2 = square.sqrt();
    let (near, far) = if a.at <= b.at { (a, b) } else { (b, a) };
    let at = far.at - (far.at - near.at) * ((far.slope + d2 - d1) / (far.slope - near.slope + 2.0 * d2));
    at.max(least).min(most)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn advance(x: &mut [f64], length: f64, direction: &[f64]) {
    x.iter_mut().zip(direction).for_each(|(x, d)| *x += length * d);
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, v| if v.is_nan() { f64::NAN } else { v.abs().max(most) })
}
