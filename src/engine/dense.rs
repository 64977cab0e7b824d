//! A dense layer of an algorithm's own in a loss: it remembers what it saw, and its step follows from that.
//!
//! With a batch of few rows, a layer of many weights spends its time on carrying a gradient of all of them to and from memory. Here
//! the plain step (SGD without momentum) is applied to the weights in one pass, with the same result to the last bit.

use super::kernels::{LinearBackward, LinearDescent, LinearForward, MOST_ROWS, Update, sum_of_products};
use super::model::Model;
use super::params::Params;
use super::simd::{WithSimd, dispatch};
use super::tape::{Constant, StepTape, Traced, constant, row_by_row, values};
use super::update::{Correction, Descent, Optimiser, Rule};
use crate::base::{Fault, Outcome};
use dfdx::prelude::*;
use pulp::Simd;
use std::cell::RefCell;
use std::rc::Rc;

/// One dense layer in one step's loss.
#[derive(Clone, Debug)]
pub struct Dense {
    params: Params<f32>,
    inputs: usize,
    outputs: usize,
    seen: Rc<RefCell<Seen>>,
}

/// The inputs that it was applied to and the gradients of its outputs, row by row.
#[derive(Debug, Default)]
struct Seen {
    x: Vec<f32>,
    d_y: Vec<f32>,
}

impl Dense {
    /// The layer of a model that is nothing else.
    ///
    /// # Errors
    /// An internal fault when the model is more than one dense layer.
    pub fn new(model: &Model) -> Outcome<Self> {
        let layout = model.net.layout();
        match &layout.entries[..] {
            [weight, bias @ ..] if weight.shape.len() == 2 && weight.range.start == 0 && bias.len() < 2 => {
                let [outputs, inputs] = [weight.shape[0], weight.shape[1]];
                Ok(Self { params: model.params.clone(), inputs, outputs, seen: Rc::default() })
            }
            _ => Err(Fault::internal("a model of other layers than one dense layer".to_owned())),
        }
    }
    /// Its outputs, (rows, outputs), of `x`, (rows, inputs).
    #[must_use]
    pub fn apply(&self, x: Traced) -> Traced {
        let (x, tape) = row_by_row(x);
        self.on(x, tape, true)
    }
    /// [`Dense::apply`] on inputs that take no gradient, which is not computed then.
    #[must_use]
    pub fn apply_constant(&self, x: Constant) -> Traced {
        self.on(x, StepTape::default(), false)
    }
    fn on(&self, x: Constant, mut tape: StepTape, through: bool) -> Traced {
        let (rows, x_values) = (x.shape().0, values(&x));
        let (weight, bias) = self.params.split_at(self.inputs * self.outputs);
        let mut y = vec![0.0; rows * self.outputs];
        dispatch(LinearForward {
            rows,
            inputs: self.inputs,
            outputs: self.outputs,
            x: &x_values,
            weight,
            bias: (!bias.is_empty()).then_some(bias),
            relu: false,
            y: &mut y,
            padded: &mut Vec::new(),
        });
        let y = constant(y, rows, self.outputs);
        let (from, to, layer) = (x.ghost(), y.ghost(), self.clone());
        tape.add_backward_op(move |grads| {
            let d_y = grads.get_or_alloc_mut(&to)?.to_vec();
            if through {
                let mut d_x = vec![0.0; rows * layer.inputs];
                layer.backward(&x_values, &d_y, None, Some(&mut d_x));
                grads.get_or_alloc_mut(&from)?.iter_mut().zip(&d_x).for_each(|(sum, d)| *sum += d);
            }
            let mut seen = layer.seen.borrow_mut();
            seen.x.extend_from_slice(&x_values);
            seen.d_y.extend_from_slice(&d_y);
            Ok(())
        });
        y.put_tape(tape)
    }
    fn backward(&self, x: &[f32], d_y: &[f32], d_weight: Option<&mut [f32]>, d_x: Option<&mut [f32]>) {
        dispatch(LinearBackward {
            rows: d_y.len() / self.outputs,
            inputs: self.inputs,
            outputs: self.outputs,
            x,
            weight: &self.params[..self.inputs * self.outputs],
            d_y,
            d_weight,
            d_bias: None,
            d_x,
            padded: &mut Vec::new(),
            turned: &mut Vec::new(),
        });
    }
    /// Scales its gradient, by all parameters, to this Euclidean norm where it is longer, as [`clip`](super::update::clip).
    pub fn clip(&self, norm: f32) {
        let mut seen = self.seen.borrow_mut();
        let scale = norm / (squared_norm(&seen, self.inputs, self.outputs, self.has_bias()).sqrt() as f32 + 1e-6);
        if scale < 1.0 {
            seen.d_y.iter_mut().for_each(|d| *d *= scale);
        }
    }
    /// The rows whose gradients it has seen, times its weights.
    #[must_use]
    pub fn products(&self) -> u64 {
        (self.seen.borrow().d_y.len() * self.inputs) as u64
    }
    fn has_bias(&self) -> bool {
        self.params.len() > self.inputs * self.outputs
    }
    /// One step of its model after the loss's way back; the corrections are as long as the parameters.
    pub fn step(self, model: &mut Model, optimiser: &mut Optimiser<f32>, rate: f32, corrections: &[Correction<'_, f32>]) {
        let (inputs, outputs, weights) = (self.inputs, self.outputs, self.inputs * self.outputs);
        let seen = self.seen.take();
        let rows = seen.d_y.len() / outputs;
        let mut d_bias = vec![0.0; outputs];
        for row in seen.d_y.chunks_exact(outputs) {
            d_bias.iter_mut().zip(row).for_each(|(sum, d)| *sum += d);
        }
        let descent = Descent { rate, corrections };
        if optimiser.rule() == Rule::Sgd && rows <= MOST_ROWS {
            // Another owner would make the write a copy.
            drop(self);
            let (weight, bias) = model.params.split_at_mut(weights);
            let (x, d_y, terms, padded, turned) = (&seen.x, &seen.d_y, &descent.terms(&(0..weights)), &mut Vec::new(), &mut Vec::new());
            dispatch(LinearDescent { rows, inputs, outputs, x, d_y, weight, rate, terms, d_bias: None, d_x: None, padded, turned });
            let terms = &descent.terms(&(weights..weights + bias.len()));
            return dispatch(Update { gradient: &d_bias[..bias.len()], params: bias, lr: rate, terms });
        }
        let mut gradient = vec![0.0; model.params.len()];
        let (weight, bias) = gradient.split_at_mut(weights);
        self.backward(&seen.x, &seen.d_y, Some(weight), None);
        bias.copy_from_slice(&d_bias[..bias.len()]);
        drop(self);
        let all = 0..gradient.len();
        optimiser.step(&mut model.params, &gradient, rate, all, corrections);
    }
}

/// The squared norm of `x^T d_y`, and of the sums of `d_y` where there is a bias: the sum over pairs of rows of the products of their
/// inner products.
fn squared_norm(seen: &Seen, inputs: usize, outputs: usize, bias: bool) -> f64 {
    let rows = seen.d_y.len() / outputs;
    let mut sum = 0.0;
    for r in 0..rows {
        for s in r..rows {
            let along =
                |values: &[f32], width: usize| dispatch(Inner { a: &values[r * width..][..width], b: &values[s * width..][..width] });
            let of_x = along(&seen.x, inputs) + f64::from(u8::from(bias));
            let times = if r == s { 1.0 } else { 2.0 };
            sum += times * of_x * along(&seen.d_y, outputs);
        }
    }
    sum.max(0.0)
}

/// An inner product.
struct Inner<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl WithSimd for Inner<'_> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        sum_of_products(self.a, self.b, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tape::Leaf;
    use super::super::update::{clip, sgd};
    use super::super::{Layer, Network, Shape};
    use super::*;
    use crate::base::random::{Purpose, stream};
    use std::sync::Arc;

    /// A model, and the gradient of the loss `sum of (w y)` of its outputs for some weights `w`, as the layer has it.
    fn seen(bias: bool, rows: usize) -> (Model, Dense, Vec<f32>) {
        let layer = Layer::Linear { name: "fc".to_owned(), out: 37, bias };
        let net = Network::build(Shape::vector(21), vec![layer], 0).expect("a valid network");
        let model = Model::init(Arc::new(net), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
        let wave = |len: usize, by: f32| (0..len).map(|i| (i as f32 * by).sin()).collect::<Vec<f32>>();
        let (x, w) = (wave(rows * 21, 0.7), wave(rows * 37, 1.3));
        let dense = Dense::new(&model).expect("a dense layer");
        let leaf = Leaf::new(x.clone(), rows, 21);
        (dense.apply(leaf.traced()) * constant(w.clone(), rows, 37)).sum().backward();
        let mut gradient = vec![0.0; model.params.len()];
        for (x, w) in x.chunks_exact(21).zip(w.chunks_exact(37)) {
            for (i, x) in x.iter().enumerate() {
                (0..37).for_each(|k| gradient[i * 37 + k] = x.mul_add(w[k], gradient[i * 37 + k]));
            }
            if bias {
                (0..37).for_each(|k| gradient[21 * 37 + k] += w[k]);
            }
        }
        // The inputs' gradient is w W'.
        let d_x = leaf.gradient();
        let first: f32 = (0..37).map(|k| w[k] * model.params[k]).sum();
        assert!((d_x[0] - first).abs() < 1e-5);
        (model, dense, gradient)
    }

    #[test]
    fn a_step_is_that_of_the_gradient_whatever_the_optimiser() {
        let rules = [Rule::Sgd, Rule::Momentum { momentum: 0.9, nesterov: false }, Rule::ADAM];
        for rule in rules {
            for (bias, rows) in [(true, 10), (false, 3), (true, 40)] {
                let (model, dense, gradient) = seen(bias, rows);
                // Other values for the bias than for the weight.
                let other: Vec<f32> = (0..gradient.len()).map(|i| 0.001 * i as f32).collect();
                let pull = Correction::Proximal { mu: 0.2, reference: &other };
                for corrections in [&[][..], &[Correction::Decay(0.3)], &[Correction::Decay(0.3), Correction::Add(&other)], &[pull]] {
                    let (mut one, mut two) = (model.clone(), model.clone());
                    let again = Dense { seen: Rc::new(RefCell::new(copy(&dense))), ..dense.clone() };
                    again.step(&mut one, &mut Optimiser::new(rule), 0.1, corrections);
                    Optimiser::new(rule).step(&mut two.params, &gradient, 0.1, 0..gradient.len(), corrections);
                    let apart = one.params.iter().zip(two.params.iter()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(apart < 1e-6, "{rule:?} {bias} {rows}: {apart}");
                }
            }
        }
    }

    fn copy(dense: &Dense) -> Seen {
        let seen = dense.seen.borrow();
        Seen { x: seen.x.clone(), d_y: seen.d_y.clone() }
    }

    #[test]
    fn the_clip_is_that_of_the_gradient() {
        for bias in [true, false] {
            let (mut model, dense, mut gradient) = seen(bias, 10);
            let mut other = model.clone();
            dense.clip(2.0);
            assert!(clip(&mut [&mut gradient[..]], 2.0) > 2.0, "it acts");
            dense.step(&mut model, &mut Optimiser::new(Rule::Sgd), 0.5, &[]);
            sgd(&mut other.params, &gradient, 0.5, 0..gradient.len(), &[]);
            assert!(model.params.iter().zip(other.params.iter()).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }

    #[test]
    fn other_models_are_refused() {
        let net = Network::build(Shape::vector(2), vec![Layer::linear("a", 2), Layer::linear("b", 2)], 0).expect("a valid network");
        let model = Model::init(Arc::new(net), &mut stream(1, Purpose::Initialisation, 0, 0, 0));
        assert!(Dense::new(&model).is_err());
    }
}
