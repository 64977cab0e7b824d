//! Which numbers of a gradient a batch can reach: of an embedding's table only the rows of the batch's words.
//!
//! A table of a hundred thousand words is larger than the rest of its network; clearing and applying only what was reached makes a step
//! of plain gradient descent as cheap as its batch, with the same result to the last bit.

use super::network::Network;
use super::ops::Op;
use super::real::Real;
use std::ops::Range;

/// Ranges of a flat gradient, in order, outside of which it is 0.
#[derive(Clone, Debug, Default)]
pub struct Support {
    ranges: Vec<Range<usize>>,
    rows: Vec<usize>,
}

impl Support {
    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
    /// Clears a gradient of which this is the support; one of another length is made anew with `len` numbers.
    pub fn clear<F: Real>(&mut self, gradient: &mut Vec<F>, len: usize) {
        if gradient.len() == len {
            self.ranges.iter().for_each(|range| gradient[range.clone()].fill(F::ZERO));
        } else {
            gradient.clear();
            gradient.resize(len, F::ZERO);
        }
        self.ranges.clear();
    }
    /// Everything.
    pub fn whole(&mut self, len: usize) {
        self.only(0..len);
    }
    /// One range.
    pub fn only(&mut self, range: Range<usize>) {
        self.ranges.clear();
        self.ranges.push(range);
    }
    /// What the gradient of a network on the samples `x` can reach.
    pub fn batch<F: Real>(&mut self, net: &Network, x: &[F]) {
        let Self { ranges, rows } = self;
        ranges.clear();
        let mut from = 0;
        for step in net.steps.iter().filter(|step| step.from == 0) {
            let Op::Embedding(embedding) = &step.op else { continue };
            if embedding.weight.start < from {
                continue;
            }
            push(ranges, from..embedding.weight.start);
            rows.clear();
            rows.extend(x.iter().map(|&word| embedding.row(word)));
            rows.sort_unstable();
            rows.dedup();
            for row in &*rows {
                let start = embedding.weight.start + row * embedding.width;
                push(ranges, start..start + embedding.width);
            }
            from = embedding.weight.end;
        }
        push(ranges, from..net.layout().len);
    }
}

/// Adds a range behind the others, joined with the last one where they touch.
fn push(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Activation, At, Engine, Layer, Model, Parts, Shape, loss, update};
    use super::*;
    use crate::base::random::{Purpose, stream};
    use std::sync::Arc;

    fn texts() -> Arc<Network> {
        let embedding = Layer::Embedding { name: "embedding".into(), words: 50, width: 3, padding: Some(0) };
        let layers =
            vec![embedding, Layer::Pick(At::Last), Layer::linear("fc1", 4), Layer::Activation(Activation::Tanh), Layer::linear("fc", 2)];
        Arc::new(Network::build(Shape { channels: 1, height: 1, width: 4 }, layers, 4).expect("it fits"))
    }

    #[test]
    fn steps_on_the_support_are_whole_steps() {
        let net = texts();
        let start = Model::<f32>::init(net.clone(), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
        let batches = [[3.0, 7.0, 8.0, 8.0, 0.0, 49.0, 1.0, 2.0], [4.0, 4.0, 4.0, 5.0, 9.0, 9.0, 9.0, 3.0]];
        let run = |sparse: bool| {
            let (mut model, mut engine, mut support) = (start.clone(), Engine::<f32>::new(), Support::default());
            let (mut gradient, mut d_logits) = (Vec::new(), Vec::new());
            for x in batches {
                if !sparse {
                    support.whole(net.layout().len);
                }
                support.clear(&mut gradient, net.layout().len);
                assert!(gradient.iter().all(|value| *value == 0.0));
                support.batch(&net, &x);
                engine.forward(0, &mut model, &x, 2).expect("it fits");
                loss::cross_entropy(engine.logits(0), &[0, 1], 2, &mut d_logits);
                engine.backward(0, &model, Some(&d_logits), None, Parts::All, &mut gradient).expect("it fits");
                if !sparse {
                    support.whole(gradient.len());
                }
                for range in support.ranges() {
                    update::sgd(&mut model.params, &gradient, 0.1, range.clone(), &[]);
                }
            }
            model
        };
        assert_eq!(run(true).params.to_vec(), run(false).params.to_vec());
    }

    #[test]
    fn ranges_are_in_order_and_touch_nobody() {
        let (net, mut support) = (texts(), Support::default());
        support.batch(&net, &[8.0f32, 7.0, 3.0, 8.0]);
        let len = net.layout().len;
        assert_eq!(support.ranges(), [9..12, 21..27, 150..len]);
    }
}
