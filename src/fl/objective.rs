//! What a step minimises: plain cross-entropy on the fast path, or any dfdx expression on features and logits.

use crate::base::Outcome;
use crate::engine::tape::{Graph, Loss};

/// A custom loss: it receives one graph a model, and the labels.
type Expression<'a> = dyn Fn(&[Graph], &[u32]) -> Outcome<Loss> + 'a;

/// The loss of one batch, as a mean over its rows.
pub enum Objective<'a> {
    /// Softmax cross-entropy on the logits; needs no tape.
    CrossEntropy,
    /// A dfdx expression.
    Custom(Box<Expression<'a>>),
}

impl<'a> Objective<'a> {
    /// An objective of one model.
    pub fn custom(loss: impl Fn(&Graph, &[u32]) -> Outcome<Loss> + 'a) -> Self {
        Self::Custom(Box::new(move |graphs, labels| loss(&graphs[0], labels)))
    }
    /// An objective of several models in one joint graph.
    pub fn joint(loss: impl Fn(&[Graph], &[u32]) -> Outcome<Loss> + 'a) -> Self {
        Self::Custom(Box::new(loss))
    }
}
