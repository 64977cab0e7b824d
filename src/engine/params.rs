//! A model's numbers: one flat vector of parameters, shared until somebody writes, and the buffers of normalisation layers.
//!
//! Which number belongs to which layer is not known here; `layout` knows.

use super::real::Real;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A flat vector, shared by cloning: the first write through a clone copies it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params<F = f32>(Arc<Vec<F>>);

impl<F> Params<F> {
    /// Whether both share one vector. Equal vectors that are not shared give `false`.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Whether nothing else shares the vector, so that a write does not copy.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
    /// How many share the vector, at least 1.
    #[must_use]
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl<F: Real> Params<F> {
    /// `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        Self(Arc::new(vec![F::ZERO; len]))
    }
    /// The vector itself, copied only where it is shared.
    #[must_use]
    pub fn into_vec(self) -> Vec<F> {
        Arc::try_unwrap(self.0).unwrap_or_else(|shared| (*shared).clone())
    }
}

impl<F> From<Vec<F>> for Params<F> {
    fn from(values: Vec<F>) -> Self {
        Self(Arc::new(values))
    }
}

impl<F> Deref for Params<F> {
    type Target = [F];
    fn deref(&self) -> &[F] {
        &self.0
    }
}

impl<F: Clone> DerefMut for Params<F> {
    fn deref_mut(&mut self) -> &mut [F] {
        Arc::<Vec<F>>::make_mut(&mut self.0)
    }
}

/// What a model carries beside its parameters: running statistics of its normalisation layers, and how many batches they saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buffers<F = f32> {
    /// Running means and variances, flat.
    pub values: Params<F>,
    /// Batches seen in training, one count a normalisation layer.
    pub counters: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_shares_until_it_is_written() {
        let a = Params::from(vec![1.0f32, 2.0]);
        let mut b = a.clone();
        assert!(a.ptr_eq(&b) && !a.is_unique());
        b[0] = 5.0;
        assert!(!a.ptr_eq(&b) && a.is_unique());
        assert_eq!((&a[..], &b[..]), (&[1.0, 2.0][..], &[5.0, 2.0][..]));
    }
}
