//! The SGD update in one pass over parameters, gradient and whatever corrects the gradient.

use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// What is added to the gradient before the step; slices are as long as the parameters.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Term<'a, F> {
    /// `+ mu * (p - reference)`, each operation rounded.
    Proximal(F, &'a [F]),
    Add(&'a [F]),
    Subtract(&'a [F]),
    /// `+ factor * p`, rounded once.
    Decay(F),
}

/// `p -= lr * (gradient + terms)`, the last product and difference rounded once.
pub(in crate::engine) struct Update<'a, F> {
    pub params: &'a mut [F],
    pub gradient: &'a [F],
    pub lr: F,
    pub terms: &'a [Term<'a, F>],
}

/// Elements at a time, so that the corrected gradient stays in registers or the nearest cache.
const BLOCK: usize = 128;

impl<F: Real> WithSimd for Update<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lr = F::splat(simd, -self.lr);
        if self.terms.is_empty() {
            return add_scaled(simd, lr, self.gradient, self.params);
        }
        let mut from = 0;
        while from < self.params.len() {
            let to = self.params.len().min(from + BLOCK);
            let params = &mut self.params[from..to];
            let mut delta = [F::ZERO; BLOCK];
            let delta = &mut delta[..to - from];
            delta.copy_from_slice(&self.gradient[from..to]);
            for term in self.terms {
                match *term {
                    Term::Proximal(mu, reference) => {
                        for ((delta, &p), &reference) in delta.iter_mut().zip(&*params).zip(&reference[from..to]) {
                            *delta += mu * (p - reference);
                        }
                    }
                    Term::Add(values) => {
                        for (delta, &value) in delta.iter_mut().zip(&values[from..to]) {
                            *delta += value;
                        }
                    }
                    Term::Subtract(values) => {
                        for (delta, &value) in delta.iter_mut().zip(&values[from..to]) {
                            *delta -= value;
                        }
                    }
                    Term::Decay(factor) => add_scaled(simd, F::splat(simd, factor), params, delta),
                }
            }
            add_scaled(simd, lr, delta, params);
            from = to;
        }
    }
}

/// `target += factor * values`, rounded once.
#[inline(always)]
fn add_scaled<F: Real, S: Simd>(simd: S, factor: F::Pack<S>, values: &[F], target: &mut [F]) {
    let (values, values_rest) = F::packs::<S>(values);
    let (target, target_rest) = F::packs_mut::<S>(target);
    for (target, value) in target.iter_mut().zip(values) {
        *target = F::pack_mul_add(simd, factor, *value, *target);
    }
    if !target_rest.is_empty() {
        let (mut a, mut b) = ([F::ZERO; 16], [F::ZERO; 16]);
        let lanes = F::lanes::<S>();
        a[..values_rest.len()].copy_from_slice(values_rest);
        b[..target_rest.len()].copy_from_slice(target_rest);
        let (b_packs, _) = F::packs_mut::<S>(&mut b[..lanes]);
        b_packs[0] = F::pack_mul_add(simd, factor, F::packs::<S>(&a[..lanes]).0[0], b_packs[0]);
        target_rest.copy_from_slice(&b[..target_rest.len()]);
    }
}

/// `target += factor * values`, rounded once where the CPU can.
pub(in crate::engine) struct AddScaled<'a, F> {
    pub factor: F,
    pub values: &'a [F],
    pub target: &'a mut [F],
}

impl<F: Real> WithSimd for AddScaled<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        add_scaled(simd, F::splat(simd, self.factor), self.values, self.target);
    }
}
