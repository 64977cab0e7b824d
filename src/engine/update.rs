//! Updates of flat parameters: SGD with typed corrections, momentum, Adam, and the clip of a gradient's norm.
//!
//! The formulas and the places of rounding are PyTorch's.

use super::kernels::{AddScaled, Term, Update};
use super::real::Real;
use super::simd::{WithSimd, dispatch};
use crate::base::{Fault, Outcome};
use pulp::Simd;
use smallvec::SmallVec;
use std::ops::Range;

/// A term that is added to the gradient before the step. Slices are flat and as long as the parameters.
#[derive(Clone, Copy, Debug)]
pub enum Correction<'a, F> {
    /// `+ mu * (p - reference)`: the gradient of `mu / 2 * |p - reference|^2`.
    Proximal {
        /// The strength.
        mu: F,
        /// The parameters that attract.
        reference: &'a [F],
    },
    /// `+ values`.
    Add(&'a [F]),
    /// `- values`.
    Subtract(&'a [F]),
    /// `+ factor * p`: weight decay.
    Decay(F),
}

impl<'a, F: Real> Correction<'a, F> {
    /// What it adds to the gradient of a range of the parameters.
    fn term(&self, range: &Range<usize>) -> Term<'a, F> {
        match *self {
            Self::Proximal { mu, reference } => Term::Proximal(mu, &reference[range.clone()]),
            Self::Add(values) => Term::Add(&values[range.clone()]),
            Self::Subtract(values) => Term::Subtract(&values[range.clone()]),
            Self::Decay(factor) => Term::Decay(factor),
        }
    }
}

/// A step of plain gradient descent: `p -= rate * (gradient + corrections)`.
#[derive(Clone, Copy, Debug)]
pub struct Descent<'a, F> {
    /// The learning rate.
    pub rate: F,
    /// What is added to the gradient, in this order.
    pub corrections: &'a [Correction<'a, F>],
}

impl<'a, F: Real> Descent<'a, F> {
    // More than a few are rare, and a step that allocates waits for other threads.
    pub(super) fn terms(&self, range: &Range<usize>) -> SmallVec<[Term<'a, F>; 4]> {
        self.corrections.iter().map(|correction| correction.term(range)).collect()
    }
}

/// `p -= lr * (gradient + corrections)` over `range`, the corrections applied in the order given.
///
/// Each operation is rounded, but the last product and difference together once, as torch does where the CPU can.
///
/// # Panics
/// When `range` goes beyond the parameters, the gradient or a correction's slice.
pub fn sgd<F: Real>(params: &mut [F], gradient: &[F], lr: F, range: Range<usize>, corrections: &[Correction<'_, F>]) {
    let terms = &Descent { rate: lr, corrections }.terms(&range);
    dispatch(Update { params: &mut params[range.clone()], gradient: &gradient[range], lr, terms });
}

/// `target += factor * values`, product and sum rounded together once where the CPU can.
pub fn add_scaled<F: Real>(target: &mut [F], factor: F, values: &[F]) {
    dispatch(AddScaled { factor, values, target });
}

/// The sum of `square(a, b)` over two slices of one length in `f64`, the same on every class of CPU: it is split in as many sums as
/// fill the widest registers, which are added in order at the end.
struct SumOfSquares<'a, F, S> {
    a: &'a [F],
    b: &'a [F],
    root: S,
}

/// Sums at a time.
const SUMS: usize = 32;

impl<F: Real, R: Fn(f64, f64) -> f64> WithSimd for SumOfSquares<'_, F, R> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let (blocks, rest) = self.a.as_chunks::<SUMS>();
        let (others, other_rest) = self.b.as_chunks::<SUMS>();
        let mut sums = [0.0; SUMS];
        for (block, other) in blocks.iter().zip(others) {
            for i in 0..SUMS {
                let root = (self.root)(block[i].to_f64(), other[i].to_f64());
                sums[i] += root * root;
            }
        }
        let rest = rest.iter().zip(other_rest).map(|(a, b)| (self.root)(a.to_f64(), b.to_f64()).powi(2));
        sums.iter().sum::<f64>() + rest.sum::<f64>()
    }
}

/// The Euclidean norm of several slices together, summed in `f64`.
pub fn norm<F: Real>(parts: &[&[F]]) -> F {
    let sum: f64 = parts.iter().map(|part| dispatch(SumOfSquares { a: part, b: part, root: |a, _| a })).sum();
    F::from_f64(sum.sqrt())
}

/// The Euclidean distance of two vectors of one length, summed in `f64`.
pub fn distance<F: Real>(a: &[F], b: &[F]) -> F {
    F::from_f64(dispatch(SumOfSquares { a, b, root: |a, b| a - b }).sqrt())
}

/// Scales every value.
struct Scale<'a, F>(&'a mut [F], F);

impl<F: Real> WithSimd for Scale<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for value in self.0 {
            *value *= self.1;
        }
    }
}

/// Scales the gradients by `max_norm / (norm + 1e-6)` where that is below 1, and returns the norm before (torch's
/// `clip_grad_norm_`).
pub fn clip<F: Real>(gradients: &mut [&mut [F]], max_norm: F) -> F {
    let total = norm(&gradients.iter().map(|part| &**part).collect::<Vec<_>>());
    let scale = max_norm / (total + F::from_f64(1e-6));
    if scale < F::ONE {
        gradients.iter_mut().for_each(|part| dispatch(Scale(part, scale)));
    }
    total
}

/// Which optimiser, as data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Plain gradient descent.
    Sgd,
    /// Gradient descent with momentum: `v = momentum * v + g`, `p -= lr * v`; the first `v` is `g`.
    Momentum {
        /// In [0, 1).
        momentum: f64,
        /// `p -= lr * (g + momentum * v)` instead.
        nesterov: bool,
    },
    /// Adam with bias correction.
    Adam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
}

impl Rule {
    /// Adam with torch's defaults: 0.9, 0.999, 1e-8.
    pub const ADAM: Self = Self::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
}

/// An optimiser with its state, which is plain numbers.
#[derive(Clone, Debug)]
pub struct Optimiser<F = f32> {
    rule: Rule,
    /// Steps taken.
    steps: u64,
    /// Momentum, or the first moment.
    first: Vec<F>,
    /// The second moment.
    second: Vec<F>,
    /// Room for the corrected gradient; no part of the state.
    delta: Vec<F>,
}

impl<F: Real> Optimiser<F> {
    /// An optimiser before its first step.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self { rule, steps: 0, first: Vec::new(), second: Vec::new(), delta: Vec::new() }
    }
    /// The rule.
    #[must_use]
    pub fn rule(&self) -> Rule {
        self.rule
    }
    /// One step over `range`; the corrections are added to the gradient first, in order. The state is as long as the parameters.
    pub fn step(&mut self, params: &mut [F], gradient: &[F], lr: F, range: Range<usize>, corrections: &[Correction<'_, F>]) {
        if self.rule == Rule::Sgd {
            return sgd(params, gradient, lr, range, corrections);
        }
        let len = params.len();
        self.first.resize(len, F::ZERO);
        self.steps += 1;
        // Momentum and moments are fed by the corrected gradient, rounded as in `sgd`.
        let delta = &mut self.delta;
        delta.clear();
        delta.extend_from_slice(&gradient[range.clone()]);
        for correction in corrections {
            match correction.term(&range) {
                Term::Proximal(mu, reference) => {
                    for ((delta, &p), &reference) in delta.iter_mut().zip(&params[range.clone()]).zip(reference) {
                        *delta += mu * (p - reference);
                    }
                }
                Term::Add(values) => delta.iter_mut().zip(values).for_each(|(delta, &value)| *delta += value),
                Term::Subtract(values) => delta.iter_mut().zip(values).for_each(|(delta, &value)| *delta -= value),
                Term::Decay(factor) => add_scaled(delta, factor, &params[range.clone()]),
            }
        }
        let (params, first) = (&mut params[range.clone()], &mut self.first[range.clone()]);
        match self.rule {
            Rule::Sgd => {}
            Rule::Momentum { momentum, nesterov } => {
                let momentum = F::from_f64(momentum);
                if self.steps == 1 {
                    first.copy_from_slice(delta);
                } else {
                    for (v, g) in first.iter_mut().zip(&*delta) {
                        *v = *v * momentum + *g;
                    }
                }
                if nesterov {
                    add_scaled(delta, momentum, first);
                    add_scaled(params, -lr, delta);
                } else {
                    add_scaled(params, -lr, first);
                }
            }
            Rule::Adam { beta1, beta2, eps } => {
                self.second.resize(len, F::ZERO);
                let second = &mut self.second[range];
                let steps = self.steps as f64;
                let (correction1, correction2) = (1.0 - beta1.powf(steps), 1.0 - beta2.powf(steps));
                let rate = F::from_f64(lr.to_f64() / correction1);
                let root = F::from_f64(correction2.sqrt());
                let (share1, beta2, share2, eps) =
                    (F::from_f64(1.0 - beta1), F::from_f64(beta2), F::from_f64(1.0 - beta2), F::from_f64(eps));
                for (((p, m), v), g) in params.iter_mut().zip(first).zip(second).zip(&*delta) {
                    *m += share1 * (*g - *m);
                    *v = *v * beta2 + share2 * *g * *g;
                    *p -= rate * (*m / (v.sqrt() / root + eps));
                }
            }
        }
    }
    /// The state as numbers: steps taken, then the moments in use; what [`Optimiser::load`] reads.
    #[must_use]
    pub fn state(&self) -> (u64, Vec<F>) {
        (self.steps, [&self.first[..], &self.second[..]].concat())
    }
    /// Takes over a state of the same rule for `len` parameters.
    ///
    /// # Errors
    /// A stage fault when the number of values does not fit.
    pub fn load(&mut self, steps: u64, values: &[F], len: usize) -> Outcome<()> {
        let moments = match (self.rule, steps) {
            (Rule::Sgd, _) | (_, 0) => 0,
            (Rule::Momentum { .. }, _) => 1,
            (Rule::Adam { .. }, _) => 2,
        };
        if values.len() != moments * len {
            return Err(Fault::stage(format!("an optimiser's state of {} numbers instead of {}", values.len(), moments * len)));
        }
        self.steps = steps;
        self.first = values[..moments.min(1) * len].to_vec();
        self.second = values[self.first.len()..].to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_apply_in_order_and_only_in_the_range() {
        let mut params = vec![1.0f32, 2.0, 3.0];
        let (gradient, reference, control) = ([0.5f32; 3], [0.0f32; 3], [0.25f32; 3]);
        let corrections = [Correction::Proximal { mu: 0.5, reference: &reference }, Correction::Subtract(&control), Correction::Decay(0.1)];
        sgd(&mut params, &gradient, 0.1, 1..3, &corrections);
        assert_eq!(params[0], 1.0);
        assert!((params[1] - (2.0 - 0.1 * (0.5 + 1.0 - 0.25 + 0.2))).abs() < 1e-6);
    }

    // torch 2.7.1: w = [1, -2], g = [0.1, 0.2] twice, SGD(lr 0.1, momentum 0.9); then Adam(lr 0.1).
    #[test]
    fn momentum_and_adam_follow_torch() {
        let mut w = vec![1.0f64, -2.0];
        let mut momentum = Optimiser::new(Rule::Momentum { momentum: 0.9, nesterov: false });
        for _ in 0..2 {
            momentum.step(&mut w, &[0.1, 0.2], 0.1, 0..2, &[]);
        }
        assert!((w[0] - (1.0 - 0.01 - 0.019)).abs() < 1e-12);
        let mut w = vec![1.0f64, -2.0];
        let mut adam = Optimiser::new(Rule::ADAM);
        adam.step(&mut w, &[0.1, 0.2], 0.1, 0..2, &[]);
        assert!((w[0] - 0.9).abs() < 1e-6 && (w[1] + 2.1).abs() < 1e-6);
        let (steps, values) = adam.state();
        let mut again = Optimiser::new(Rule::ADAM);
        again.load(steps, &values, 2).expect("own state");
        assert_eq!(again.state(), adam.state());
        assert!(again.load(1, &values, 3).is_err());
    }

    #[test]
    fn the_clip_acts_only_above_the_norm() {
        let (mut a, mut b) = (vec![3.0f64], vec![4.0f64]);
        assert_eq!(clip(&mut [&mut a, &mut b], 10.0), 5.0);
        assert_eq!(a[0], 3.0);
        clip(&mut [&mut a, &mut b], 1.0);
        assert!((a[0] - 0.6).abs() < 1e-6 && (b[0] - 0.8).abs() < 1e-6);
    }
}
