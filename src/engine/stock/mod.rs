//! The same networks from dfdx's own operations only, for any of its devices: gather and product for a convolution, gather and
//! choice for a max-pool.
//!
//! Slower than the fused steps on a CPU, and the way to run on other devices. Values are kept (elements, samples), an image's
//! elements channel first.

use super::kernels::{Conv, Window};
use super::model::Model;
use super::network::Network;
use super::ops::Op;
use super::ops::activation::Activation;
use super::ops::norm::Norm;
use super::params::Buffers;
use crate::base::{Fault, Outcome};
use dfdx::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A matrix (elements, samples), or (channels, positions and samples).
type Matrix<D, T = NoneTape> = Tensor<(usize, usize), f32, D, T>;
type Taped<D> = Matrix<D, OwnedTape<f32, D>>;
type Vector<D> = Tensor<(usize,), f32, D>;

/// A model's step on one device.
#[derive(Debug)]
pub struct Stock<D: Device<f32>> {
    device: D,
    last: Option<Pass<D>>,
}

/// What a forward pass leaves for the way back.
#[derive(Debug)]
struct Pass<D: Device<f32>> {
    net: Arc<Network>,
    rows: usize,
    /// Parameters on the device, by their range in the flat vector.
    weights: Vec<(Range<usize>, Weight<D>)>,
    features: Matrix<D>,
    logits: Taped<D>,
}

/// A parameter on the device.
#[derive(Debug)]
enum Weight<D: Device<f32>> {
    Matrix(Matrix<D>),
    Vector(Vector<D>),
}

/// Puts parameters on the device as they are asked for.
struct Loader<'a, D: Device<f32>> {
    device: &'a D,
    params: &'a [f32],
    weights: Vec<(Range<usize>, Weight<D>)>,
}

impl<D: Device<f32>> Loader<'_, D> {
    fn matrix(&mut self, range: &Range<usize>, rows: usize, columns: usize) -> Matrix<D> {
        let tensor = matrix(self.device, self.params[range.clone()].to_vec(), rows, columns);
        self.weights.push((range.clone(), Weight::Matrix(tensor.clone())));
        tensor
    }
    fn vector(&mut self, range: &Range<usize>) -> Vector<D> {
        let tensor = vector(self.device, self.params[range.clone()].to_vec());
        self.weights.push((range.clone(), Weight::Vector(tensor.clone())));
        tensor
    }
}

fn matrix<D: Device<f32>>(device: &D, values: Vec<f32>, rows: usize, columns: usize) -> Matrix<D> {
    TensorFromVec::<f32>::tensor_from_vec(device, values, (rows, columns))
}

fn vector<D: Device<f32>>(device: &D, values: Vec<f32>) -> Vector<D> {
    let len = values.len();
    TensorFromVec::<f32>::tensor_from_vec(device, values, (len,))
}

impl<D: Device<f32>> Stock<D> {
    /// A runner on `device`.
    #[must_use]
    pub fn new(device: D) -> Self {
        Self { device, last: None }
    }

    /// Runs the model on `rows` samples, `x` = (rows, height, width, channels); in training mode its running statistics move.
    ///
    /// # Errors
    /// A stage fault when the batch is empty or `x` has another length; a device fault when the device fails.
    pub fn forward(&mut self, model: &mut Model<f32>, x: &[f32], rows: usize) -> Outcome<()> {
        let net = model.net.clone();
        let (shape, len) = (net.input(), net.input().numel());
        if rows == 0 || x.len() != rows * len {
            return Err(Fault::stage(format!("a batch of {rows} samples of {len} numbers has {} numbers", x.len())));
        }
        let mut input = vec![0.0; x.len()];
        for (row, sample) in x.chunks_exact(len).enumerate() {
            for (at, &value) in sample.iter().enumerate() {
                let (position, channel) = (at / shape.channels, at % shape.channels);
                input[(channel * shape.height * shape.width + position) * rows + row] = value;
            }
        }
        let mut loader = Loader { device: &self.device, params: &model.params, weights: Vec::new() };
        let mut value: Taped<D> = matrix(&self.device, input, len, rows).leaky_traced();
        // Channels of an image that no flatten has put channel last yet.
        let mut image = (shape.height * shape.width > 1).then_some(shape.channels);
        let mut features = None;
        for (index, step) in net.steps.iter().enumerate() {
            if index == net.base_steps {
                let (plain, tape) = channel_last(&self.device, value, &mut image).split_tape();
                features = Some(plain.clone());
                value = plain.put_tape(tape);
            }
            if step.from != index {
                return Err(missing("branches"));
            }
            let mut window = None;
            value = match &step.op {
                Op::Conv { conv, weight, bias, window: fused } => {
                    window = *fused;
                    image = Some(conv.out);
                    convolution(&mut loader, conv, weight, bias.as_ref(), value)
                }
                Op::Linear { weight, bias } => {
                    let x = channel_last(&self.device, value, &mut image);
                    let weight = loader.matrix(weight, step.inputs, step.outputs);
                    let y = weight.retaped::<OwnedTape<f32, D>>().permute::<_, Axes2<1, 0>>().matmul(x);
                    match bias {
                        Some(bias) => {
                            let shape = *y.shape();
                            y + loader.vector(bias).retaped::<OwnedTape<f32, D>>().broadcast_like::<_, Axis<1>>(&shape)
                        }
                        None => y,
                    }
                }
                Op::Norm(norm) => {
                    window = norm.window;
                    // A normalisation of single elements has its numbers in the order of the flattened image.
                    let x = if norm.channels == step.inputs { channel_last(&self.device, value, &mut image) } else { value };
                    let shape = *x.shape();
                    let x = x.reshape_like(&(norm.channels, step.inputs / norm.channels * rows));
                    normalisation(&mut loader, norm, &mut model.buffers, model.training, x).reshape_like(&shape)
                }
                Op::Pool(alone) => {
                    window = Some(*alone);
                    value
                }
                Op::Activation(Activation::Sigmoid) => value.sigmoid(),
                Op::Activation(Activation::Tanh) => value.tanh(),
                Op::Activation(other) => return Err(missing(other.name())),
                Op::GroupNorm(_) => return Err(missing("group or layer normalisation")),
                Op::Grouped(_) => return Err(missing("grouped or dilated convolutions")),
                Op::Embedding(_) => return Err(missing("embeddings")),
                Op::Dense(_) | Op::Signs(_) | Op::Pick(_) | Op::Lstm(_) | Op::Attention(_) | Op::Tokens(_) => {
                    return Err(missing("sequences"));
                }
                Op::Dropout(_) => return Err(missing("dropout")),
                Op::Average(_) => return Err(missing("average pools")),
                Op::Add(_) | Op::Concat(_) => return Err(missing("branches")),
                Op::Copy => value,
            };
            if step.relu {
                value = value.relu();
            }
            if let Some(window) = window {
                value = maximum(&self.device, &window, value);
            }
        }
        let features = features.ok_or_else(|| Fault::internal("a network without a head"))?;
        let weights = loader.weights;
        self.last = Some(Pass { net, rows, weights, features, logits: value });
        Ok(())
    }

    /// The features of the last pass, (rows, features); empty before the first.
    #[must_use]
    pub fn features(&self) -> Vec<f32> {
        self.last.as_ref().map_or_else(Vec::new, |pass| samples(pass.features.as_vec(), pass.rows))
    }

    /// The logits of the last pass, (rows, classes); empty before the first.
    #[must_use]
    pub fn logits(&self) -> Vec<f32> {
        self.last.as_ref().map_or_else(Vec::new, |pass| samples(pass.logits.as_vec(), pass.rows))
    }

    /// Adds a loss's gradient to `gradient`, flat as the parameters, and forgets the pass.
    ///
    /// `d_logits` (rows, classes) and `d_features` (rows, features) are the loss's gradients by the two outputs.
    ///
    /// # Errors
    /// An internal fault without a forward pass, or when a length does not fit; a device fault when the device fails.
    pub fn backward(&mut self, d_logits: &[f32], d_features: Option<&[f32]>, gradient: &mut [f32]) -> Outcome<()> {
        let Some(Pass { net, rows, weights, features, logits }) = self.last.take() else {
            return Err(Fault::internal("a way back without a forward pass"));
        };
        let wanted = (rows * net.classes(), rows * net.features(), net.layout().len);
        let found = (d_logits.len(), d_features.map_or(wanted.1, <[f32]>::len), gradient.len());
        if found != wanted {
            return Err(Fault::internal(format!("gradients of {found:?} numbers instead of {wanted:?}")));
        }
        let columns = |values: &[f32]| matrix(&self.device, elements(values, rows), values.len() / rows, rows);
        // The sum of products with a constant has that constant as its gradient.
        let mut loss = (logits * columns(d_logits)).sum::<Rank0, _>();
        if let Some(d_features) = d_features {
            loss = loss + (features.leaky_traced() * columns(d_features)).sum::<Rank0, _>();
        }
        let failed = |error: D::Err| Fault::device(format!("dfdx: {error:?}"));
        let mut gradients = loss.try_backward().map_err(failed)?;
        for (range, weight) in weights {
            let values = match weight {
                Weight::Matrix(weight) => {
                    gradients.try_alloc_for(&weight).map_err(failed)?;
                    gradients.get(&weight).as_vec()
                }
                Weight::Vector(weight) => {
                    gradients.try_alloc_for(&weight).map_err(failed)?;
                    gradients.get(&weight).as_vec()
                }
            };
            for (sum, value) in gradient[range].iter_mut().zip(values) {
                *sum += value;
            }
        }
        Ok(())
    }
}

/// The fault of a layer that is not here.
fn missing(what: &str) -> Fault {
    Fault::device(format!("networks with {what} run on the CPU only")).help("use `device: cpu`")
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

/// (elements, samples) to (samples, elements).
fn samples(values: Vec<f32>, rows: usize) -> Vec<f32> {
    let len = values.len() / rows;
    (0..values.len()).map(|at| values[at % len * rows + at / len]).collect()
}

/// (samples, elements) to (elements, samples).
fn elements(values: &[f32], rows: usize) -> Vec<f32> {
    let len = values.len() / rows;
    (0..values.len()).map(|at| values[at % rows * len + at / rows]).collect()
}

/// Rows of `value` by index.
fn pick<D: Device<f32>>(device: &D, value: Taped<D>, places: Vec<usize>) -> Taped<D> {
    let len = places.len();
    value.gather(TensorFromVec::<usize>::tensor_from_vec(device, places, (len,)))
}

/// An image's elements channel last, once; a vector as it is.
fn channel_last<D: Device<f32>>(device: &D, value: Taped<D>, image: &mut Option<usize>) -> Taped<D> {
    let Some(channels) = image.take() else { return value };
    let positions = value.shape().0 / channels;
    let places = (0..positions).flat_map(|position| (0..channels).map(move |channel| channel * positions + position)).collect();
    pick(device, value, places)
}

fn convolution<D: Device<f32>>(
    loader: &mut Loader<'_, D>,
    conv: &Conv,
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    x: Taped<D>,
) -> Taped<D> {
    let rows = x.shape().1;
    let (patch, positions) = (conv.patch(), conv.positions());
    let (mut places, mut inside) = (Vec::with_capacity(patch * positions), Vec::with_capacity(patch * positions));
    for i in 0..conv.kernel.0 {
        for j in 0..conv.kernel.1 {
            for channel in 0..conv.channels {
                for position in 0..positions {
                    let (y, x) = (position / conv.out_width, position % conv.out_width);
                    let row = (y * conv.stride.0 + i).checked_sub(conv.padding.0).filter(|&row| row < conv.height);
                    let column = (x * conv.stride.1 + j).checked_sub(conv.padding.1).filter(|&column| column < conv.width);
                    let place = row.zip(column).map(|(row, column)| (channel * conv.height + row) * conv.width + column);
                    places.push(place.unwrap_or(0));
                    inside.push(if place.is_some() { 1.0 } else { 0.0 });
                }
            }
        }
    }
    let mut patches = pick(loader.device, x, places);
    if conv.padding != (0, 0) {
        let shape = *patches.shape();
        patches = patches * vector(loader.device, inside).broadcast_like::<_, Axis<1>>(&shape);
    }
    let patches = patches.reshape_like(&(patch, positions * rows));
    let weight = loader.matrix(weight, conv.out, patch);
    let mut y = weight.retaped::<OwnedTape<f32, D>>().matmul(patches);
    if let Some(bias) = bias {
        let shape = *y.shape();
        y = y + loader.vector(bias).retaped::<OwnedTape<f32, D>>().broadcast_like::<_, Axis<1>>(&shape);
    }
    y.reshape_like(&(conv.out * positions, rows))
}

/// The greatest of each window; of equal ones the first is chosen, and alone has a gradient.
fn maximum<D: Device<f32>>(device: &D, window: &Window, x: Taped<D>) -> Taped<D> {
    let outputs = window.out_height * window.out_width;
    let (x, mut tape) = x.split_tape();
    let mut best: Option<Matrix<D>> = None;
    for element in 0..window.area() {
        let (mut places, mut outside) = (Vec::with_capacity(window.channels * outputs), Vec::new());
        for at in 0..window.channels * outputs {
            let (channel, position) = (at / outputs, at % outputs);
            let place = window.place(position / window.out_width, position % window.out_width, element);
            let place = place.map(|(row, column)| (channel * window.height + row) * window.width + column);
            places.push(place.unwrap_or(0));
            outside.push(if place.is_some() { 0.0 } else { f32::NEG_INFINITY });
        }
        // One tape is handed from element to element.
        let mut values = pick(device, x.clone().put_tape(tape), places);
        if window.padding != (0, 0) {
            let shape = *values.shape();
            values = values + vector(device, outside).broadcast_like::<_, Axis<1>>(&shape);
        }
        let chosen: Taped<D> = match best {
            None => values,
            Some(best) => {
                let (values, tape) = values.split_tape();
                values.gt(&best).choose(values.put_tape(tape), best.leaky_traced())
            }
        };
        let (plain, rest) = chosen.split_tape();
        (best, tape) = (Some(plain), rest);
    }
    best.expect("a window has an element").put_tape(tape)
}

/// Normalisation of rows: channels, then positions and samples.
fn normalisation<D: Device<f32>>(
    loader: &mut Loader<'_, D>,
    norm: &Norm,
    buffers: &mut Buffers<f32>,
    training: bool,
    x: Taped<D>,
) -> Taped<D> {
    let shape = *x.shape();
    let count = shape.1 as f32;
    let (x, tape) = x.split_tape();
    let (centered, variance) = if training {
        let mean = x.clone().put_tape(tape).mean::<_, Axis<1>>();
        let batch_mean = mean.as_vec();
        let (centered, tape) = (mean.broadcast_like::<_, Axis<1>>(&shape).negate() + x).split_tape();
        let variance = centered.clone().put_tape(tape).square().mean::<_, Axis<1>>();
        let batch_variance = variance.as_vec();
        let blend = |old: &mut f32, new: f32| *old = (0.9 * f64::from(*old) + 0.1 * f64::from(new)) as f32;
        for c in 0..norm.channels {
            blend(&mut buffers.values[norm.mean.start + c], batch_mean[c]);
            if count > 1.0 {
                blend(&mut buffers.values[norm.variance.start + c], batch_variance[c] * count / (count - 1.0));
            }
        }
        buffers.counters[norm.counter] += 1;
        (centered.leaky_traced(), variance)
    } else {
        let fixed = |range: &Range<usize>| vector(loader.device, buffers.values[range.clone()].to_vec());
        let centered = x.put_tape(tape) - fixed(&norm.mean).broadcast_like::<_, Axis<1>>(&shape);
        (centered, fixed(&norm.variance).leaky_traced())
    };
    let scale = (variance + norm.eps as f32).sqrt().recip() * loader.vector(&norm.weight);
    let y = scale.broadcast_like::<_, Axis<1>>(&shape) * centered;
    y + loader.vector(&norm.bias).retaped::<OwnedTape<f32, D>>().broadcast_like::<_, Axis<1>>(&shape)
}
