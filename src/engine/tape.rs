//! The bridge to dfdx's tape: an algorithm's loss is an ordinary dfdx expression on features and logits.
//!
//! Below the features the engine's fused steps compute; on the tape a base is one leaf and a head is one node. After the loss's
//! backward pass the gradient of the features goes down through the fused steps again.
//!
//! Facts about dfdx 0.13 that matter here: a clone of a tensor keeps its identity, and an operation on two tensors of one identity
//! panics. So [`Leaf::traced`] and what is built on it give a tensor of its own at each call: call twice instead of cloning.

use super::kernels::{LinearBackward, LinearForward};
use super::loss;
use super::model::Model;
use super::network::Network;
use super::params::Params;
use super::run::{Engine, HeadPass, Parts};
use super::simd::dispatch;
use crate::base::{Fault, Outcome};
use dfdx::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The tape of one step.
pub type StepTape = OwnedTape<f32, Cpu>;
/// A matrix (rows, columns) without a gradient.
pub type Constant = dfdx::prelude::Tensor<(usize, usize), f32, Cpu>;
/// A matrix (rows, columns) on a tape.
pub type Traced = dfdx::prelude::Tensor<(usize, usize), f32, Cpu, StepTape>;
/// A number on a tape.
pub type Loss = dfdx::prelude::Tensor<Rank0, f32, Cpu, StepTape>;

/// A flat gradient that backward operations add into.
type Shared = Rc<RefCell<Vec<f32>>>;

thread_local! {
    /// One device a thread; it keeps freed tensors for the next step.
    static DEVICE: Cpu = {
        let device = Cpu::default();
        device.enable_cache();
        device
    };
}

/// This thread's device.
#[must_use]
pub fn device() -> Cpu {
    DEVICE.with(Clone::clone)
}

/// A matrix without a gradient; `values` are row by row.
///
/// # Panics
/// When there are not rows x columns values.
#[must_use]
pub fn constant(values: Vec<f32>, rows: usize, columns: usize) -> Constant {
    assert_eq!(values.len(), rows * columns, "a matrix has rows x columns values");
    device().tensor_from_vec(values, (rows, columns))
}

/// A value of its own in a loss: features, prototypes, weights of a small module. Its gradient is readable after
/// [`Engine::differentiate`] and grows with each use.
#[derive(Clone, Debug)]
pub struct Leaf {
    values: Rc<Vec<f32>>,
    shape: (usize, usize),
    gradient: Shared,
}

impl Leaf {
    /// A leaf of `values`, row by row.
    ///
    /// # Panics
    /// When there are not rows x columns values.
    #[must_use]
    pub fn new(values: Vec<f32>, rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix has rows x columns values");
        let gradient = Rc::new(RefCell::new(vec![0.0; values.len()]));
        Self { values: Rc::new(values), shape: (rows, columns), gradient }
    }
    /// The leaf on a new tape, as a tensor of its own at each call.
    #[must_use]
    pub fn traced(&self) -> Traced {
        // Only new data has a new identity: clones and reshapes keep the old one.
        let alias = self.constant();
        let (ghost, gradient) = (alias.ghost(), self.gradient.clone());
        let mut tape = StepTape::default();
        tape.add_backward_op(move |grads| {
            add(&mut gradient.borrow_mut(), grads.get_or_alloc_mut(&ghost)?);
            Ok(())
        });
        alias.put_tape(tape)
    }
    /// The values without a tape.
    #[must_use]
    pub fn constant(&self) -> Constant {
        constant(self.values.to_vec(), self.shape.0, self.shape.1)
    }
    /// The gradient so far, row by row.
    #[must_use]
    pub fn gradient(&self) -> Vec<f32> {
        self.gradient.borrow().clone()
    }
}

/// The tensor row by row in memory, and its tape. Free unless it is broadcast or permuted; then the gradient is carried back too.
pub(super) fn row_by_row(tensor: Traced) -> (Constant, StepTape) {
    tensor.contiguous().split_tape()
}

/// The values of a tensor that is row by row in memory.
pub(super) fn values(tensor: &Constant) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape().num_elements()];
    tensor.copy_into(&mut values);
    values
}

fn add(target: &mut [f32], values: &[f32]) {
    for (target, &value) in target.iter_mut().zip(values) {
        *target += value;
    }
}

/// A model's head as one operation.
#[derive(Clone, Debug)]
pub struct Head {
    net: Arc<Network>,
    params: Params<f32>,
    gradient: Option<Shared>,
    pass: Rc<RefCell<HeadPass<f32>>>,
}

impl Head {
    /// A head whose parameters get no gradient; the gradient passes through it.
    #[must_use]
    pub fn frozen(model: &Model<f32>) -> Self {
        Self { net: model.net.clone(), params: model.params.clone(), gradient: None, pass: Rc::default() }
    }
    /// Logits (rows, classes) of features (rows, features).
    #[must_use]
    pub fn apply(&self, features: Traced) -> Traced {
        let (features, tape) = row_by_row(features);
        self.on(features, tape, true)
    }
    /// [`Head::apply`] on features that take no gradient, which is not computed then.
    #[must_use]
    pub fn apply_constant(&self, features: Constant) -> Traced {
        self.on(features, StepTape::default(), false)
    }
    fn on(&self, features: Constant, mut tape: StepTape, through: bool) -> Traced {
        let (rows, values) = (features.shape().0, values(&features));
        let mut logits = Vec::new();
        self.pass.borrow_mut().forward(&self.net, &self.params, &values, rows, &mut logits);
        let logits = constant(logits, rows, self.net.classes());
        let (from, to, head) = (features.ghost(), logits.ghost(), self.clone());
        tape.add_backward_op(move |grads| {
            let d_logits = grads.get_or_alloc_mut(&to)?.to_vec();
            let mut d_features = Vec::new();
            let mut gradient = head.gradient.as_ref().map(|gradient| gradient.borrow_mut());
            let gradient = gradient.as_mut().map(|gradient| &mut gradient[..]);
            let below = through.then_some(&mut d_features);
            head.pass.borrow_mut().backward(&head.net, &head.params, &values, &d_logits, gradient, below);
            if through {
                add(grads.get_or_alloc_mut(&from)?, &d_features);
            }
            Ok(())
        });
        logits.put_tape(tape)
    }
}

/// One model in a loss: its features on this batch, and its head.
#[derive(Debug)]
pub struct Graph {
    features: Leaf,
    head: Head,
    rows: usize,
}

impl Graph {
    /// The features, (rows, features).
    #[must_use]
    pub fn features(&self) -> Traced {
        self.features.traced()
    }
    /// The features as constants: nothing flows back from here.
    #[must_use]
    pub fn detached_features(&self) -> Constant {
        self.features.constant()
    }
    /// The head on any features, (rows, classes).
    #[must_use]
    pub fn head(&self, features: Traced) -> Traced {
        self.head.apply(features)
    }
    /// The head on features that take no gradient, (rows, classes).
    #[must_use]
    pub fn head_of_constant(&self, features: Constant) -> Traced {
        self.head.apply_constant(features)
    }
    /// The head on the features, (rows, classes).
    #[must_use]
    pub fn logits(&self) -> Traced {
        self.head(self.features())
    }
    /// Samples in the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// A model that takes part in a loss.
#[derive(Debug)]
pub struct Branch<'a> {
    /// Where the engine keeps its forward pass; another one for each branch.
    pub slot: usize,
    /// The model, in its own mode; training mode moves its running statistics.
    pub model: &'a mut Model<f32>,
    /// The batch, (rows, height, width, channels).
    pub x: &'a [f32],
    /// Samples in the batch.
    pub rows: usize,
    /// Which parameters get a gradient.
    pub parts: Parts,
}

impl Engine<f32> {
    /// The value of a loss over one or several models; its gradients are added to `gradients`, one for each branch, flat as the
    /// parameters (an empty one is made long enough first).
    ///
    /// `loss` sees one graph for each branch, in their order.
    ///
    /// # Errors
    /// A stage fault for a batch that does not fit, a fault of `loss`, an internal fault for a wrong number or length of gradients.
    pub fn differentiate(
        &mut self,
        branches: &mut [Branch<'_>],
        gradients: &mut [Vec<f32>],
        loss: impl FnOnce(&[Graph]) -> Outcome<Loss>,
    ) -> Outcome<f32> {
        if branches.len() != gradients.len() {
            return Err(Fault::internal(format!("{} gradients for {} models", gradients.len(), branches.len())));
        }
        for (branch, gradient) in branches.iter_mut().zip(gradients.iter_mut()) {
            let len = branch.model.net.layout().len;
            if gradient.is_empty() {
                gradient.resize(len, 0.0);
            }
            if gradient.len() != len {
                return Err(Fault::internal(format!("a gradient of {} numbers for {len} parameters", gradient.len())));
            }
            self.forward_base(branch.slot, branch.model, branch.x, branch.rows)?;
        }
        let pass = Rc::new(RefCell::new(std::mem::take(&mut self.head)));
        let graphs: Vec<Graph> = branches
            .iter()
            .zip(gradients.iter_mut())
            .map(|(branch, gradient)| {
                let Model { net, params, .. } = &*branch.model;
                // The operations of the tape are 'static, so what they add into is lent to them and taken back below.
                let gradient = branch.parts.head().then(|| Rc::new(RefCell::new(std::mem::take(gradient))));
                let features = Leaf::new(self.features(branch.slot).to_vec(), branch.rows, net.features());
                let head = Head { net: net.clone(), params: params.clone(), gradient, pass: pass.clone() };
                Graph { features, head, rows: branch.rows }
            })
            .collect();
        let value = loss(&graphs).and_then(|loss| {
            let value = loss.as_vec()[0];
            loss.try_backward().map_err(|error| Fault::internal(format!("dfdx: {error:?}")))?;
            Ok(value)
        });
        self.head = std::mem::take(&mut pass.borrow_mut());
        for (graph, gradient) in graphs.iter().zip(gradients.iter_mut()) {
            if let Some(lent) = &graph.head.gradient {
                *gradient = std::mem::take(&mut lent.borrow_mut());
            }
        }
        let value = value?;
        for ((branch, graph), gradient) in branches.iter().zip(graphs).zip(gradients) {
            if branch.parts.base() {
                let d_features = graph.features.gradient.borrow();
                self.backward(branch.slot, branch.model, None, Some(&d_features), Parts::Base, gradient)?;
            }
        }
        Ok(value)
    }
}

/// A loss of `x` whose value and gradient (row by row, as long as `x`) are already known.
///
/// # Panics
/// When the gradient has another length.
#[must_use]
pub fn known(x: Traced, value: f32, gradient: Vec<f32>) -> Loss {
    let (x, mut tape) = row_by_row(x);
    assert_eq!(gradient.len(), x.shape().num_elements(), "a gradient is as long as its value");
    let loss = device().tensor(value);
    let (from, to) = (x.ghost(), loss.ghost());
    tape.add_backward_op(move |grads| {
        let factor = grads.get_or_alloc_mut(&to)?[0];
        for (sum, value) in grads.get_or_alloc_mut(&from)?.iter_mut().zip(&gradient) {
            *sum += factor * value;
        }
        Ok(())
    });
    loss.put_tape(tape)
}

/// A loss of several values whose value and gradients (row by row, as long as the values) are already known.
#[must_use]
pub fn known_of<const N: usize>(values: [Traced; N], value: f32, gradients: [Vec<f32>; N]) -> Loss {
    operation(values, constant(vec![value], 1, 1), move |factor| gradients.map(|gradient| gradient.iter().map(|d| factor[0] * d).collect()))
        .sum()
}

/// An operation of several values whose result is already known: `back` maps the gradient of the result (row by row) to those of the
/// values, which are as long as they are.
#[must_use]
pub fn operation<const N: usize>(values: [Traced; N], result: Constant, back: impl FnOnce(&[f32]) -> [Vec<f32>; N] + 'static) -> Traced {
    let mut tape = StepTape::default();
    let from = values.map(|value| {
        let (value, own) = row_by_row(value);
        let others = std::mem::take(&mut tape);
        tape = others.merge(own);
        value.ghost()
    });
    let to = result.ghost();
    tape.add_backward_op(move |grads| {
        let gradients = back(&grads.get_or_alloc_mut(&to)?.to_vec());
        for (from, gradient) in from.iter().zip(&gradients) {
            add(grads.get_or_alloc_mut(from)?, gradient);
        }
        Ok(())
    });
    result.put_tape(tape)
}

/// The mean cross-entropy of logits (rows, classes) against one label a row.
#[must_use]
pub fn cross_entropy(logits: Traced, labels: &[u32]) -> Loss {
    let classes = logits.shape().1;
    let (logits, tape) = row_by_row(logits);
    let mut gradient = Vec::new();
    let value = loss::cross_entropy(&values(&logits), labels, classes, &mut gradient);
    known(logits.put_tape(tape), value, gradient)
}

/// The mean over all elements of `(x - target)^2`; `target` is row by row.
#[must_use]
pub fn mse(x: Traced, target: &[f32]) -> Loss {
    let (x, tape) = row_by_row(x);
    let values = values(&x);
    let count = values.len() as f32;
    let difference: Vec<f32> = values.iter().zip(target).map(|(x, target)| x - target).collect();
    let value = difference.iter().map(|d| d * d).sum::<f32>() / count;
    known(x.put_tape(tape), value, difference.iter().map(|d| 2.0 / count * d).collect())
}

/// `sum of p * (ln p - log_q)` with gradients to both; divide by rows for torch's `batchmean`, by all elements for its `mean`.
///
/// Where `p` is 0 the term and its gradients are 0.
#[must_use]
pub fn kl_divergence(log_q: Traced, p: Traced) -> Loss {
    let (log_q, tape) = row_by_row(log_q);
    let (p, other) = row_by_row(p);
    let mut tape = tape.merge(other);
    let (q_values, p_values) = (values(&log_q), values(&p));
    let term = |(&p, &log_q): (&f32, &f32)| if p > 0.0 { p * (p.ln() - log_q) } else { p * 0.0 };
    let loss = device().tensor(p_values.iter().zip(&q_values).map(term).sum::<f32>());
    let (from_q, from_p, to) = (log_q.ghost(), p.ghost(), loss.ghost());
    tape.add_backward_op(move |grads| {
        let factor = grads.get_or_alloc_mut(&to)?[0];
        for (sum, p) in grads.get_or_alloc_mut(&from_q)?.iter_mut().zip(&p_values) {
            *sum -= factor * p;
        }
        for ((sum, p), log_q) in grads.get_or_alloc_mut(&from_p)?.iter_mut().zip(&p_values).zip(&q_values) {
            if *p > 0.0 {
                *sum += factor * (p.ln() + 1.0 - log_q);
            }
        }
        Ok(())
    });
    loss.put_tape(tape)
}

/// `x W + b` with gradients to all three: `x` (rows, in), `weight` (in, out), `bias` (1, out).
///
/// # Panics
/// When the shapes do not fit.
#[must_use]
pub fn linear(x: Traced, weight: Traced, bias: Option<Traced>) -> Traced {
    let (x, tape) = row_by_row(x);
    let (weight, other) = row_by_row(weight);
    let mut tape = tape.merge(other);
    let bias = bias.map(|bias| {
        let (bias, other) = row_by_row(bias);
        let own = std::mem::take(&mut tape);
        tape = own.merge(other);
        bias
    });
    let ((rows, inputs), (weight_rows, outputs)) = (*x.shape(), *weight.shape());
    assert!(inputs == weight_rows && bias.as_ref().is_none_or(|bias| *bias.shape() == (1, outputs)), "the shapes of a dense layer fit");
    let (x_values, weight_values) = (values(&x), values(&weight));
    let bias_values = bias.as_ref().map(values);
    let mut y = vec![0.0; rows * outputs];
    dispatch(LinearForward {
        rows,
        inputs,
        outputs,
        x: &x_values,
        weight: &weight_values,
        bias: bias_values.as_deref(),
        relu: false,
        y: &mut y,
        padded: &mut Vec::new(),
    });
    let y = constant(y, rows, outputs);
    let (from_x, from_weight, from_bias, to) = (x.ghost(), weight.ghost(), bias.map(|bias| bias.ghost()), y.ghost());
    tape.add_backward_op(move |grads| {
        let d_y = grads.get_or_alloc_mut(&to)?.to_vec();
        let mut d_x = vec![0.0; rows * inputs];
        let mut d_bias = vec![0.0; outputs];
        dispatch(LinearBackward {
            rows,
            inputs,
            outputs,
            x: &x_values,
            weight: &weight_values,
            d_y: &d_y,
            d_weight: Some(grads.get_or_alloc_mut(&from_weight)?),
            d_bias: Some(&mut d_bias),
            d_x: Some(&mut d_x),
            padded: &mut Vec::new(),
            turned: &mut Vec::new(),
        });
        add(grads.get_or_alloc_mut(&from_x)?, &d_x);
        if let Some(from_bias) = &from_bias {
            add(grads.get_or_alloc_mut(from_bias)?, &d_bias);
        }
        Ok(())
    });
    y.put_tape(tape)
}
