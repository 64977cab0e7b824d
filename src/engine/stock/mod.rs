//! The same networks from dfdx's own operations only, for any of its devices.
//!
//! Slower than the fused steps on a CPU, and the way to run on other devices. Values lie as the fused steps' do: (rows, numbers of one
//! sample), images channel last. A pass forward keeps every value on the device; on the way back each step is computed once more, on a
//! tape of its own, so that branches need nothing special and no tape outlives a step.

mod expressions;
mod places;

use super::model::Model;
use super::network::Network;
use super::ops::embedding::Embedding;
use super::ops::{Op, Step};
use super::params::Params;
use super::real::Real;
use super::run::Parts;
use super::steps::Noise;
use crate::base::{Fault, Outcome};
use dfdx::prelude::*;
use expressions::Context;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A matrix without a tape: rows, numbers of one sample.
type Matrix<D> = Tensor<(usize, usize), f32, D>;
/// A parameter, or statistics.
type Vector<D> = Tensor<(usize,), f32, D>;
/// A matrix on the tape of a step.
type Taped<D> = Tensor<(usize, usize), f32, D, OwnedTape<f32, D>>;

/// What another device does in place of the fused steps. The caller checks shapes.
pub(super) trait Elsewhere<F: Real>: std::fmt::Debug {
    /// Runs the first `steps` steps on `rows` samples and remembers them in `slot`; returns features and logits row by row, none of what
    /// was not reached.
    fn forward(
        &mut self,
        slot: usize,
        model: &mut Model<F>,
        x: &[F],
        rows: usize,
        steps: usize,
        noise: &mut Noise,
    ) -> Outcome<(Vec<F>, Vec<F>)>;
    /// The way back of the slot's last pass. Gradients are added to `gradient`, where there is one; returns the input's where it is
    /// wanted.
    fn backward(&mut self, slot: usize, seeds: Seeds<'_, F>, parts: Parts, gradient: Option<&mut [F]>, input: bool) -> Outcome<Vec<F>>;
}

/// The gradients of a loss by the outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds<'a, F> {
    pub logits: Option<&'a [F]>,
    pub features: Option<&'a [F]>,
}

/// A runner on one device of dfdx.
#[derive(Debug)]
pub struct Stock<D: Device<f32>> {
    device: D,
    slots: BTreeMap<usize, Slot<D>>,
    plans: Vec<Plan<D>>,
}

/// Index lists and masks of a network with so many rows, which are the same in every pass.
#[derive(Debug)]
struct Plan<D: Device<f32>> {
    net: Arc<Network>,
    rows: usize,
    constants: Constants<D>,
}

/// By step and by what they are for.
#[derive(Debug)]
struct Constants<D: Device<f32>> {
    indices: BTreeMap<(usize, usize), Tensor<(usize,), usize, D>>,
    values: BTreeMap<(usize, usize), Vector<D>>,
}

impl<D: Device<f32>> Default for Constants<D> {
    fn default() -> Self {
        Self { indices: BTreeMap::new(), values: BTreeMap::new() }
    }
}

/// Networks and batch sizes whose constants are kept.
const PLANS: usize = 8;

/// One forward pass.
#[derive(Debug)]
struct Slot<D: Device<f32>> {
    net: Arc<Network>,
    rows: usize,
    training: bool,
    /// The input, for what reads words.
    words: Vec<f32>,
    /// The input, then what each step made.
    values: Vec<Matrix<D>>,
    /// What dropout multiplied by, by step.
    factors: BTreeMap<usize, Matrix<D>>,
    /// Parameters and statistics on the device.
    numbers: Numbers<D>,
}

/// The numbers of a model, put on the device as they are asked for.
#[derive(Debug)]
struct Numbers<D: Device<f32>> {
    params: Params<f32>,
    buffers: Params<f32>,
    parameters: BTreeMap<usize, (Range<usize>, Vector<D>)>,
    statistics: BTreeMap<usize, Vector<D>>,
    /// Parameters that the present step has asked for.
    asked: Vec<usize>,
}

impl<D: Device<f32>> Numbers<D> {
    fn of(model: &Model<f32>) -> Self {
        Self {
            params: model.params.clone(),
            buffers: model.buffers.values.clone(),
            parameters: BTreeMap::new(),
            statistics: BTreeMap::new(),
            asked: Vec::new(),
        }
    }
    /// A parameter on the step's tape.
    fn parameter(&mut self, device: &D, range: &Range<usize>) -> Tensor<(usize,), f32, D, OwnedTape<f32, D>> {
        let new = || (range.clone(), vector(device, self.params[range.clone()].to_vec()));
        let (_, tensor) = self.parameters.entry(range.start).or_insert_with(new);
        self.asked.push(range.start);
        tensor.leaky_trace()
    }
    /// Running statistics as they were before the pass.
    fn statistic(&mut self, device: &D, range: &Range<usize>) -> Vector<D> {
        self.statistics.entry(range.start).or_insert_with(|| vector(device, self.buffers[range.clone()].to_vec())).clone()
    }
}

fn vector<D: Device<f32>>(device: &D, values: Vec<f32>) -> Vector<D> {
    let len = values.len();
    TensorFromVec::<f32>::tensor_from_vec(device, values, (len,))
}

fn matrix<D: Device<f32>>(device: &D, values: &[f32], rows: usize) -> Matrix<D> {
    TensorFromVec::<f32>::tensor_from_vec(device, values.to_vec(), (rows, values.len() / rows))
}

impl<D: Device<f32>> Stock<D> {
    /// A runner on `device`.
    #[must_use]
    pub fn new(device: D) -> Self {
        Self { device, slots: BTreeMap::new(), plans: Vec::new() }
    }

    /// The place among `plans` of a network with so many rows.
    fn plan(&mut self, net: &Arc<Network>, rows: usize) -> usize {
        if let Some(known) = self.plans.iter().position(|plan| plan.rows == rows && Arc::ptr_eq(&plan.net, net)) {
            return known;
        }
        if self.plans.len() == PLANS {
            self.plans.remove(0);
        }
        self.plans.push(Plan { net: net.clone(), rows, constants: Constants::default() });
        self.plans.len() - 1
    }
}

/// What a step reads: its input, or whatever it joins.
fn reads<D: Device<f32>>(step: &Step, values: &[Matrix<D>]) -> (Matrix<D>, Vec<Matrix<D>>) {
    (values[step.from].clone(), step.op.others().iter().map(|(value, _)| values[*value].clone()).collect())
}

impl<D: Device<f32>> Elsewhere<f32> for Stock<D> {
    fn forward(
        &mut self,
        slot: usize,
        model: &mut Model<f32>,
        x: &[f32],
        rows: usize,
        steps: usize,
        noise: &mut Noise,
    ) -> Outcome<(Vec<f32>, Vec<f32>)> {
        let net = model.net.clone();
        super::run::Compute::Stock.check(&net)?;
        let plan = self.plan(&net, rows);
        let mut pass = Slot {
            net: net.clone(),
            rows,
            training: model.training,
            words: x.to_vec(),
            values: vec![matrix(&self.device, x, rows)],
            factors: BTreeMap::new(),
            numbers: Numbers::of(model),
        };
        for (index, step) in net.steps[..steps].iter().enumerate() {
            if model.training
                && let Some(factors) = expressions::draw(&step.op, step, rows, noise)
            {
                pass.factors.insert(index, matrix(&self.device, &factors, rows));
            }
            let (input, others) = reads(step, &pass.values);
            let constants = &mut self.plans[plan].constants;
            let mut context = Context::new(&self.device, index, rows, &pass.words, pass.training, constants, &mut pass.numbers);
            context.factors = pass.factors.get(&index);
            context.buffers = Some(&mut model.buffers);
            let (value, _) = expressions::step(&mut context, step, &input, &others).split_tape();
            pass.values.push(value);
        }
        let features = pass.values[net.base_steps].as_vec();
        let logits = if steps == net.steps.len() { pass.values[steps].as_vec() } else { Vec::new() };
        self.slots.insert(slot, pass);
        Ok((features, logits))
    }

    fn backward(
        &mut self,
        slot: usize,
        seeds: Seeds<'_, f32>,
        parts: Parts,
        mut gradient: Option<&mut [f32]>,
        input: bool,
    ) -> Outcome<Vec<f32>> {
        let Some(pass) = self.slots.get(&slot) else { return Err(Fault::internal("a way back without a forward pass")) };
        let (net, rows) = (pass.net.clone(), pass.rows);
        let plan = self.plan(&net, rows);
        let Self { device, slots, plans } = self;
        let pass = slots.get_mut(&slot).expect("it was found above");
        let failed = |error: D::Err| Fault::device(format!("dfdx: {error:?}"));
        let below = parts.base() || input;
        let mut sums: Vec<Option<Matrix<D>>> = vec![None; pass.values.len()];
        let mut end = net.base_steps;
        if let Some(logits) = seeds.logits {
            end = net.steps.len();
            sums[end] = Some(matrix(device, logits, rows));
        }
        if let (Some(features), true) = (seeds.features, below) {
            sums[net.base_steps] = Some(matrix(device, features, rows));
        }
        let first = if below { 0 } else { net.base_steps };
        for index in (first..end).rev() {
            let Some(above) = sums[index + 1].take() else { continue };
            let step = &net.steps[index];
            let (x, others) = reads(step, &pass.values);
            pass.numbers.asked.clear();
            let constants = &mut plans[plan].constants;
            let mut context = Context::new(device, index, rows, &pass.words, pass.training, constants, &mut pass.numbers);
            context.factors = pass.factors.get(&index);
            let value = expressions::step(&mut context, step, &x, &others);
            // The sum of products with a constant has that constant as its gradient.
            let mut gradients = (value * above).sum::<Rank0, _>().try_backward().map_err(failed)?;
            let wanted = if index < net.base_steps { parts.base() } else { parts.head() };
            if let (Some(gradient), true) = (gradient.as_deref_mut(), wanted) {
                pass.numbers.asked.sort_unstable();
                pass.numbers.asked.dedup();
                for start in &pass.numbers.asked {
                    let (range, tensor) = &pass.numbers.parameters[start];
                    gradients.try_alloc_for(tensor).map_err(failed)?;
                    let mut values = gradients.get(tensor).as_vec();
                    if let Op::Embedding(Embedding { padding: Some(word), width, .. }) = &step.op {
                        values[word * width..][..*width].fill(0.0);
                    }
                    gradient[range.clone()].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
            }
            // A value that is read twice has its whole gradient at once.
            let mut reached: BTreeMap<usize, Matrix<D>> = step.op.others().iter().map(|(value, _)| *value).zip(others).collect();
            if !step.op.spreads() {
                reached.insert(step.from, x);
            }
            for (value, tensor) in reached {
                if value > first || input {
                    gradients.try_alloc_for(&tensor).map_err(failed)?;
                    let own = gradients.get(&tensor);
                    sums[value] = Some(match sums[value].take() {
                        None => own,
                        Some(sum) => sum + own,
                    });
                }
            }
        }
        Ok(match sums[0].take() {
            Some(sum) if input => sum.as_vec(),
            _ if input => vec![0.0; rows * net.input().numel()],
            _ => Vec::new(),
        })
    }
}

#[cfg(feature = "cuda")]
impl Stock<Cuda> {
    /// A runner on the NVIDIA device of that number.
    ///
    /// # Errors
    /// A device fault when there is no such device or its driver is missing.
    pub fn on_cuda(ordinal: usize) -> Outcome<Self> {
        let device = Cuda::try_build(ordinal, 0).map_err(|error| Fault::device(format!("cannot open `cuda:{ordinal}`: {error:?}")))?;
        Ok(Self::new(device))
    }
}
