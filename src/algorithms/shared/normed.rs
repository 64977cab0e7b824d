//! A dense layer with a layer normalisation beside it, as the small conditional networks of GPFL and FedCP use them.

use crate::base::Outcome;
use crate::engine::tape::{Leaf, StepTape, Traced, constant, operation};
use crate::engine::update::{Correction, Optimiser};
use crate::engine::{Dense, Layer, Model, Network, Shape};
use crate::fl::{Item, Trainer, Update, Visitor, World};
use dfdx::prelude::*;
use std::sync::Arc;

/// Added to the variance.
const EPS: f32 = 1e-5;

/// The dense layer as a module, and scale and shift of the normalisation of its outputs.
#[derive(Clone, Debug)]
pub(crate) struct Normed {
    /// The dense layer; its head's logits are the layer's outputs.
    pub linear: Model,
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl Normed {
    /// A layer with torch's default start.
    ///
    /// # Errors
    /// A stage fault when a width is 0.
    pub(crate) fn start(world: &World, name: &str, inputs: usize, outputs: usize) -> Outcome<Self> {
        let net = Network::build(Shape::vector(inputs), vec![Layer::linear("fc", outputs)], 0)?;
        let linear = world.module(name, Arc::new(net));
        Ok(Self { linear, scale: vec![1.0; outputs], shift: vec![0.0; outputs] })
    }
    /// All numbers, flat: the dense layer, then scale and shift.
    fn parts(&mut self) -> [&mut [f32]; 3] {
        [&mut self.linear.params, &mut self.scale, &mut self.shift]
    }
    /// Becomes the weighted sum of others.
    pub(crate) fn become_mean<'a>(&mut self, others: impl Iterator<Item = (&'a Self, f64)>) {
        self.parts().into_iter().for_each(|part| part.fill(0.0));
        for (other, weight) in others {
            let share = weight as f32;
            for (sum, part) in self.parts().into_iter().zip([&other.linear.params[..], &other.scale, &other.shift]) {
                sum.iter_mut().zip(part).for_each(|(sum, v)| *sum += v * share);
            }
        }
    }
    /// The numbers that it has.
    pub(crate) fn len(&self) -> usize {
        self.linear.params.len() + 2 * self.scale.len()
    }
    /// The dense layer, and scale and shift as leaves, in one step's loss.
    ///
    /// # Errors
    /// None: it is built of one dense layer.
    pub(crate) fn graph(&self) -> Outcome<(Dense, Norm)> {
        let leaf = |values: &[f32]| Leaf::new(values.to_vec(), 1, values.len());
        Ok((Dense::new(&self.linear)?, Norm { scale: leaf(&self.scale), shift: leaf(&self.shift) }))
    }
    /// The normalisation without a gradient, in place, row by row.
    pub(crate) fn normalise(&self, values: &mut [f32]) {
        let width = self.scale.len();
        for row in values.chunks_exact_mut(width) {
            centre(row);
            row.iter_mut().zip(&self.scale).zip(&self.shift).for_each(|((v, scale), shift)| *v = *v * scale + shift);
        }
    }
    /// One step after [`Trainer::gradients`], in whose loss its graph took part.
    pub(crate) fn step(
        &mut self,
        trainer: &mut Trainer<'_>,
        (dense, norm): (Dense, Norm),
        optimisers: &mut [Optimiser<f32>; 3],
        rate: f32,
        corrections: &[Correction<'_, f32>],
    ) {
        let [first, second, third] = optimisers;
        trainer.apply_dense(dense, &mut self.linear, Update::new(first).with(corrections).rate(rate));
        let range = 0..self.scale.len();
        second.step(&mut self.scale, &norm.scale.gradient(), rate, range.clone(), corrections);
        third.step(&mut self.shift, &norm.shift.gradient(), rate, range, corrections);
    }
}

impl Item for Normed {
    fn visit(&mut self, name: &str, visitor: &mut dyn Visitor) {
        visitor.model(name, &mut self.linear);
        visitor.vector(&format!("{name}.norm.weight"), &mut self.scale);
        visitor.vector(&format!("{name}.norm.bias"), &mut self.shift);
    }
    fn blank(visitor: &dyn Visitor) -> Self {
        Self { linear: visitor.blank(), scale: Vec::new(), shift: Vec::new() }
    }
}

/// Scale and shift of one step.
pub(crate) struct Norm {
    scale: Leaf,
    shift: Leaf,
}

impl Norm {
    /// The normalisation of each row, with gradients to it, the scale and the shift.
    pub(crate) fn apply(&self, x: Traced) -> Traced {
        let (rows, width) = *x.shape();
        let (scale, shift) = (self.scale.constant().as_vec(), self.shift.constant().as_vec());
        let (mut unit, mut deviations) = (x.as_vec(), Vec::with_capacity(rows));
        for row in unit.chunks_exact_mut(width) {
            deviations.push(centre(row));
        }
        let mut y = unit.clone();
        for row in y.chunks_exact_mut(width) {
            row.iter_mut().zip(&scale).zip(&shift).for_each(|((v, scale), shift)| *v = *v * scale + shift);
        }
        let back = move |d_y: &[f32]| {
            let (mut d_x, mut d_scale, mut d_shift) = (d_y.to_vec(), vec![0.0; width], vec![0.0; width]);
            for ((d_row, unit), deviation) in d_x.chunks_exact_mut(width).zip(unit.chunks_exact(width)).zip(&deviations) {
                for (((d, unit), (d_scale, d_shift)), scale) in
                    d_row.iter_mut().zip(unit).zip(d_scale.iter_mut().zip(&mut d_shift)).zip(&scale)
                {
                    *d_scale += *d * unit;
                    *d_shift += *d;
                    *d *= scale;
                }
                let mean = d_row.iter().sum::<f32>() / width as f32;
                let along = d_row.iter().zip(unit).map(|(d, unit)| d * unit).sum::<f32>() / width as f32;
                d_row.iter_mut().zip(unit).for_each(|(d, unit)| *d = (*d - mean - along * unit) / deviation);
            }
            [d_x, d_scale, d_shift]
        };
        operation([x, self.scale.traced(), self.shift.traced()], constant(y, rows, width), back)
    }
}

/// Takes the mean from a row and divides it by its deviation, which is returned.
fn centre(row: &mut [f32]) -> f32 {
    let width = row.len() as f32;
    let mean = row.iter().sum::<f32>() / width;
    row.iter_mut().for_each(|v| *v -= mean);
    let deviation = (row.iter().map(|v| v * v).sum::<f32>() / width + EPS).sqrt();
    row.iter_mut().for_each(|v| *v /= deviation);
    deviation
}

/// The same values twice on the tape: the second use adds to the gradient of the first.
pub(crate) fn twice(x: Traced) -> (Traced, Traced) {
    let (x, tape) = x.split_tape();
    (x.clone().put_tape(tape), x.put_tape(StepTape::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normalisation_on_the_tape_agrees_with_the_one_without() {
        let net = Network::build(Shape::vector(1), vec![Layer::linear("fc", 3)], 0).expect("a valid network");
        let linear = Model { net: Arc::new(net), params: vec![0.0; 6].into(), buffers: Default::default(), training: true };
        let normed = Normed { linear, scale: vec![2.0, 1.0, 0.5], shift: vec![0.0, 1.0, 2.0] };
        let mut values = vec![1.0, 2.0, 6.0, -1.0, 0.0, 0.5];
        let traced = constant(values.clone(), 2, 3).put_tape(StepTape::default());
        let taped = normed.graph().expect("one dense layer").1.apply(traced).as_vec();
        normed.normalise(&mut values);
        // By hand: mean 3, variance 14/3.
        assert!((values[2] - (3.0 / (14f32 / 3.0 + EPS).sqrt() * 0.5 + 2.0)).abs() < 1e-6);
        for (a, b) in taped.iter().zip(&values) {
            assert!((a - b).abs() < 1e-6);
        }
    }

    #[test]
    fn the_gradients_of_the_normalisation_are_the_slopes_of_its_value() {
        let (x, scale, shift) = (vec![1.0, 2.0, 6.0, -1.0, 0.0, 0.5], vec![2.0, 1.0, 0.5], vec![0.0, 1.0, 2.0]);
        let weights = || constant(vec![1.0, -2.0, 0.5, 3.0, 1.0, -1.0], 2, 3);
        let leaves = |values: [&[f32]; 3]| {
            let norm = Norm { scale: Leaf::new(values[1].to_vec(), 1, 3), shift: Leaf::new(values[2].to_vec(), 1, 3) };
            (Leaf::new(values[0].to_vec(), 2, 3), norm)
        };
        let own = [&x[..], &scale, &shift];
        let (leaf, norm) = leaves(own);
        (norm.apply(leaf.traced()) * weights()).sum().backward();
        for (which, gradient) in [leaf.gradient(), norm.scale.gradient(), norm.shift.gradient()].iter().enumerate() {
            for (i, slope) in gradient.iter().enumerate() {
                let at = |step: f32| {
                    let mut moved = own[which].to_vec();
                    moved[i] += step;
                    let mut values = own;
                    values[which] = &moved;
                    let (leaf, norm) = leaves(values);
                    (norm.apply(leaf.traced()) * weights()).as_vec().iter().sum::<f32>()
                };
                assert!((slope - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 5e-3, "{which} {i}: {slope}");
            }
        }
    }

    #[test]
    fn both_uses_of_a_value_add_to_its_gradient() {
        let leaf = Leaf::new(vec![2.0, 3.0], 1, 2);
        let (a, b) = twice(leaf.traced());
        (a.exp() + b.square()).sum().backward();
        let expected = [2f32.exp() + 4.0, 3f32.exp() + 6.0];
        assert!(leaf.gradient().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}
