//! Which numbers of a gradient a batch can reach: of an embedding's table only the rows of the batch's words.
//!
//! A table of a hundred thousand words is larger than the rest of its network; clearing and applying only what was reached makes a step
//! of plain gradient descent as cheap as its batch, with the same result to the last bit.

use super::network::Network;
use super::ops::Op;
use super::real::Real;
use std::ops::Range;

/// Ranges of a flat gradient, in order, outside of which it is 0, and what has taken its step already.
#[derive(Clone, Debug, Default)]
pub struct Support {
    ranges: Vec<Range<usize>>,
    /// In order, and in none of the ranges.
    stepped: Vec<Range<usize>>,
    spare: Vec<Range<usize>>,
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
        self.only(0..0);
    }
    /// Everything.
    pub fn whole(&mut self, len: usize) {
        self.only(0..len);
    }
    /// One range.
    pub fn only(&mut self, range: Range<usize>) {
        self.stepped.clear();
        self.ranges.clear();
        push(&mut self.ranges, range);
    }
    /// Takes out what has taken its step, in order ([`Engine::steppers`](super::Engine::steppers)).
    pub fn step(&mut self, stepped: impl Iterator<Item = Range<usize>>) {
        self.stepped.clear();
        self.stepped.extend(stepped);
        let ranges = std::mem::take(&mut self.ranges);
        let mut rest = std::mem::take(&mut self.spare);
        rest.clear();
        ranges.iter().for_each(|range| rest.extend(self.left(range.clone())));
        (self.ranges, self.spare) = (rest, ranges);
    }
    /// What has not taken its step, of a range.
    pub fn left(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let (start, end) = (range.start, range.end);
        let starts = std::iter::once(start).chain(self.stepped.iter().map(move |stepped| stepped.end.max(start)));
        let ends = self.stepped.iter().map(move |stepped| stepped.start.min(end)).chain(std::iter::once(end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }
    /// What the gradient of a network on the samples `x` can reach.
    pub fn batch<F: Real>(&mut self, net: &Network, x: &[F]) {
        self.only(0..0);
        let Self { ranges, rows, .. } = self;
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
    use super::super::kernels::MOST_ROWS;
    use super::super::update::{self, Correction, Descent};
    use super::super::{Activation, At, Engine, Layer, Model, Parts, Precision, Shape, loss};
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

    /// Layers of each kind that matters: with and without a ReLU and a bias, large and small.
    fn images() -> Arc<Network> {
        let bare = Layer::Linear { name: "fc2".into(), out: 750, bias: false };
        let layers = vec![Layer::conv("conv", 5, 3, 0), Layer::Relu, Layer::pool(2), Layer::Flatten];
        let dense = vec![Layer::linear("fc1", 150), Layer::Relu, bare, Layer::linear("fc", 3)];
        let layers: Vec<Layer> = layers.into_iter().chain(dense).collect();
        Arc::new(Network::build(Shape { channels: 1, height: 28, width: 28 }, layers, 6).expect("it fits"))
    }

    #[test]
    fn a_step_on_the_way_back_is_one_after_it() {
        stepping_changes_nothing(images(), MOST_ROWS);
        // Its kernels make gradients; nothing takes its step before.
        stepping_changes_nothing(Arc::new(Network::clone(&images()).with_precision(Precision::Bf16)), 0);
    }

    /// Whether it is on the way back or after it. With more than `most` rows, nothing takes its step on the way.
    fn stepping_changes_nothing(net: Arc<Network>, most: usize) {
        let start = Model::<f32>::init(net.clone(), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
        let len = net.layout().len;
        let wave = |len: usize, by: f32| (0..len).map(|i| (i as f32 * by).sin()).collect::<Vec<f32>>();
        let (reference, control) = (wave(len, 0.3), wave(len, 0.9));
        let pull = [Correction::Decay(0.01), Correction::Proximal { mu: 0.5, reference: &reference }, Correction::Add(&control)];
        for (rows, parts, corrections) in [
            (10, Parts::All, &[][..]),
            (MOST_ROWS, Parts::All, &pull),
            (MOST_ROWS + 1, Parts::All, &pull),
            (3, Parts::Base, &pull[..1]),
            (3, Parts::Head, &pull[1..]),
        ] {
            let range = match parts {
                Parts::Base => net.layout().base(),
                Parts::Head => net.layout().head(),
                _ => 0..len,
            };
            let (x, y) = (wave(rows * 784, 0.7), (0..rows as u32).map(|i| i % 3).collect::<Vec<_>>());
            let run = |at_once: bool| {
                let (mut model, mut engine, mut support) = (start.clone(), Engine::<f32>::new(), Support::default());
                let (mut gradient, mut d_logits) = (Vec::new(), Vec::new());
                for _ in 0..3 {
                    support.clear(&mut gradient, len);
                    support.only(range.clone());
                    engine.forward(0, &mut model, &x, rows).expect("it fits");
                    loss::cross_entropy(engine.logits(0), &y, 3, &mut d_logits);
                    if at_once {
                        let descent = Descent { rate: 0.1, corrections };
                        engine.descend(0, &mut model, &d_logits, parts, &mut gradient, descent).expect("it fits");
                        support.step(engine.steppers(&net, parts, rows));
                    } else {
                        engine.backward(0, &model, Some(&d_logits), None, parts, &mut gradient).expect("it fits");
                    }
                    for left in support.ranges() {
                        update::sgd(&mut model.params, &gradient, 0.1, left.clone(), corrections);
                    }
                }
                (model.params.to_vec(), support.ranges().iter().map(ExactSizeIterator::len).sum::<usize>())
            };
            let ((one, left), (other, all)) = (run(true), run(false));
            assert!(one == other, "{rows} rows, {parts:?}");
            assert_eq!((left < all, all), (rows <= most, range.len()), "{rows} rows, {parts:?}");
        }
    }

    #[test]
    fn what_has_taken_its_step_is_in_no_range() {
        let mut support = Support::default();
        support.only(5..40);
        support.step([0..7, 10..20, 38..50].into_iter());
        assert_eq!(support.ranges(), [7..10, 20..38]);
        assert_eq!(support.left(12..60).collect::<Vec<_>>(), [20..38, 50..60]);
        assert_eq!(support.left(10..20).count(), 0);
        support.only(0..3);
        assert!(support.left(0..60).eq(std::iter::once(0..60)));
    }

    #[test]
    fn ranges_are_in_order_and_touch_nobody() {
        let (net, mut support) = (texts(), Support::default());
        support.batch(&net, &[8.0f32, 7.0, 3.0, 8.0]);
        let len = net.layout().len;
        assert_eq!(support.ranges(), [9..12, 21..27, 150..len]);
    }
}
