//! The embedding of words: each number of a text becomes a row of a table.

use super::{Backward, Forward, Op};
use crate::base::{Fault, Outcome};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use std::ops::Range;

/// The table.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Embedding {
    pub words: usize,
    pub width: usize,
    /// A word whose row is 0 at first and gets no gradient.
    pub padding: Option<usize>,
    pub weight: Range<usize>,
}

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, words: usize, width: usize, padding: Option<usize>) -> Outcome<()> {
    positive("words", words)?;
    positive("width", width)?;
    if padding.is_some_and(|padding| padding >= words) {
        return Err(Fault::stage(format!("the padding is a word below {words}")));
    }
    if builder.shape.channels != 1 && !(builder.flat && builder.image == 0) {
        return Err(Fault::stage("an embedding takes numbers of words, one for each position"));
    }
    let length = builder.shape.numel();
    let init = Init::Rows { deviation: 1.0, width, zero: padding };
    let weight = builder.parameter(format!("{name}.weight"), vec![words, width], Order::Plain, init)?;
    builder.end_layer();
    builder.flat = false;
    builder.step(Op::Embedding(Embedding { words, width, padding, weight }), Shape { channels: width, height: 1, width: length })
}

impl Embedding {
    /// The row of a word. A data set has checked its numbers; what else comes in here, an attack's guess, is the last word.
    pub fn row<F: Real>(&self, word: F) -> usize {
        (word.to_f64() as usize).min(self.words - 1)
    }
}

pub(super) fn forward<F: Real>(embedding: &Embedding, pass: &mut Forward<'_, F>) {
    let table = &pass.params[embedding.weight.clone()];
    let width = embedding.width;
    for (y, &word) in pass.kept.value[..pass.outputs].chunks_exact_mut(width).zip(pass.x) {
        y.copy_from_slice(&table[embedding.row(word) * width..][..width]);
    }
}

pub(super) fn backward<F: Real>(embedding: &Embedding, pass: &mut Backward<'_, F>) {
    let width = embedding.width;
    if let Some(gradient) = pass.gradient.as_deref_mut() {
        let table = &mut gradient[embedding.weight.clone()];
        for (d_y, &word) in pass.scratch.gradient[..pass.outputs].chunks_exact(width).zip(pass.x) {
            let row = embedding.row(word);
            if embedding.padding != Some(row) {
                table[row * width..][..width].iter_mut().zip(d_y).for_each(|(sum, &value)| *sum += value);
            }
        }
    }
    // The number of a word cannot be changed a little.
    if pass.down {
        pass.scratch.next[..pass.inputs].fill(F::ZERO);
    }
}
