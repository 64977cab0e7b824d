//! The engine of one worker thread: models forward and backward, several at once.
//!
//! It knows neither losses nor updates. Each pass belongs to a slot; a slot remembers its last forward pass, so that two models can
//! be alive in one joint loss.

use super::kernels::reserve;
use super::model::Model;
use super::network::Network;
use super::params::Buffers;
use super::precision::Precision;
use super::real::Real;
use super::steps::{self, Record, Scratch, Weights};
use super::stock::{Elsewhere, Seeds, Stock};
use super::update::Descent;
use crate::base::random::Stream;
use crate::base::{Fault, Outcome};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which parameters get a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// None: a frozen model.
    Nothing,
    /// The base only; the gradient passes through the head.
    Base,
    /// The head only; the base is not computed backward.
    Head,
    /// Both.
    All,
}

impl Parts {
    /// Whether the base's parameters get a gradient.
    #[must_use]
    pub fn base(self) -> bool {
        matches!(self, Self::Base | Self::All)
    }
    /// Whether the head's parameters get a gradient.
    #[must_use]
    pub fn head(self) -> bool {
        matches!(self, Self::Head | Self::All)
    }
}

/// The forward pass that a slot remembers.
#[derive(Debug, Default)]
struct Slot<F> {
    record: Record<F>,
    net: Option<Arc<Network>>,
    rows: usize,
    /// Steps that were run.
    reached: usize,
    /// What a device brought back of its pass.
    features: Vec<F>,
    logits: Vec<F>,
}

/// The workspaces of one worker thread. Buffers only grow, so that training allocates nothing after its first step.
#[derive(Debug, Default)]
pub struct Engine<F: Real = f32> {
    slots: Vec<Slot<F>>,
    scratch: Scratch<F>,
    elsewhere: Runner<F>,
    pub(super) head: HeadPass<F>,
}

/// What runs the networks.
#[derive(Clone, Copy, Debug, Default)]
enum Runner<F: Real> {
    /// The steps here.
    #[default]
    Here,
    /// A device, by which function it is reached, and the engine's number there.
    There(Reach<F>, Compute, u64),
}

/// Lets something work on an engine's device.
type Reach<F> = fn(Compute, u64, &mut dyn FnMut(&mut dyn Elsewhere<F>) -> Outcome<()>) -> Outcome<()>;

thread_local! {
    /// The devices that engines have opened on this thread. What dfdx keeps of a GPU must not leave its thread, but engines do; nothing of a
    /// pass is lost by it, for no pass goes on elsewhere.
    static OPEN: RefCell<BTreeMap<u64, Box<dyn Elsewhere<f32>>>> = const { RefCell::new(BTreeMap::new()) };
}

fn reach(compute: Compute, engine: u64, work: &mut dyn FnMut(&mut dyn Elsewhere<f32>) -> Outcome<()>) -> Outcome<()> {
    OPEN.with_borrow_mut(|devices| {
        let device = match devices.entry(engine) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(closed) => closed.insert(open(compute)?),
        };
        work(device.as_mut())
    })
}

/// Numbers of engines that do not run here.
static ENGINES: AtomicU64 = AtomicU64::new(0);

/// Where networks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// The fused steps, on the CPU.
    #[default]
    Fused,
    /// Stock operations on the CPU: what other devices run, where there is none.
    Stock,
    /// Stock operations on the NVIDIA device of that number.
    Cuda(usize),
}

impl Compute {
    /// The device of that name: `cpu`, `cuda:0`.
    ///
    /// # Errors
    /// A device fault: this build has no CUDA, or it is no device.
    pub fn of(device: &str) -> Outcome<Self> {
        if device == "cpu" {
            return Ok(Self::Fused);
        }
        let number = device.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| Fault::device(format!("`{device}` is no device")).help("write `cpu` or `cuda:0`"))?;
        if cfg!(feature = "cuda") {
            Ok(Self::Cuda(number))
        } else {
            Err(Fault::device(format!("this build has no CUDA for `{device}`"))
                .help("use `--device cpu`, or build with `cargo build --release --features cuda`"))
        }
    }
    /// Whether it is a device of its own, beside the CPU.
    #[must_use]
    pub fn is_a_device(self) -> bool {
        matches!(self, Self::Cuda(_))
    }
    /// Checks that the network can run there.
    ///
    /// # Errors
    /// A device fault: its products are of a lower precision, which only the fused steps have.
    pub fn check(self, net: &Network) -> Outcome<()> {
        if self == Self::Fused || net.precision == Precision::F32 {
            return Ok(());
        }
        Err(Fault::device("networks with a lower precision run on the CPU only").help("use `device: cpu`"))
    }
}

impl Engine<f32> {
    /// An engine whose networks run there; heads alone and the tapes of losses always run on the CPU. A device is opened when it is
    /// first used.
    #[must_use]
    pub fn on(compute: Compute) -> Self {
        let elsewhere =
            if compute == Compute::Fused { Runner::Here } else { Runner::There(reach, compute, ENGINES.fetch_add(1, Ordering::Relaxed)) };
        Self { elsewhere, ..Self::default() }
    }
}

fn open(compute: Compute) -> Outcome<Box<dyn Elsewhere<f32>>> {
    match compute {
        #[cfg(feature = "cuda")]
        Compute::Cuda(number) => Ok(Box::new(Stock::on_cuda(number)?)),
        #[cfg(not(feature = "cuda"))]
        Compute::Cuda(number) => Err(Fault::device(format!("this build has no CUDA for `cuda:{number}`"))),
        Compute::Fused | Compute::Stock => Ok(Box::new(Stock::new(super::tape::device()))),
    }
}

impl<F: Real> Engine<F> {
    /// An engine without any workspace yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The random numbers of dropout from now on. Without a stream, a fixed one is used, and results depend on what was run before.
    pub fn draw_from(&mut self, stream: Stream) {
        self.scratch.noise.set(stream);
    }

    /// Runs the whole model on `rows` samples, `x` = (rows, height, width, channels), and remembers it in `slot`.
    ///
    /// In training mode, normalisations use the batch's statistics and mix them into the model's buffers.
    ///
    /// # Errors
    /// A stage fault when the batch is empty or `x` has another length.
    pub fn forward(&mut self, slot: usize, model: &mut Model<F>, x: &[F], rows: usize) -> Outcome<()> {
        self.run(slot, model, x, rows, model.net.steps.len())
    }

    /// Runs the base only, up to the features.
    ///
    /// # Errors
    /// As [`Engine::forward`].
    pub fn forward_base(&mut self, slot: usize, model: &mut Model<F>, x: &[F], rows: usize) -> Outcome<()> {
        self.run(slot, model, x, rows, model.net.base_steps)
    }

    fn run(&mut self, slot: usize, model: &mut Model<F>, x: &[F], rows: usize, steps: usize) -> Outcome<()> {
        let len = model.net.input().numel();
        if rows == 0 || x.len() != rows * len {
            return Err(Fault::stage(format!("a batch of {rows} samples of {len} numbers has {} numbers", x.len())));
        }
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        let number = slot;
        let slot = &mut self.slots[slot];
        if let Runner::There(reach, compute, engine) = self.elsewhere {
            let noise = &mut self.scratch.noise;
            reach(compute, engine, &mut |device| {
                (slot.features, slot.logits) = device.forward(number, model, x, rows, steps, noise)?;
                Ok(())
            })?;
        } else {
            let Model { net, params, buffers, training } = model;
            slot.record.load(x);
            slot.record.forward(net, 0..steps, rows, params, buffers, *training, &mut self.scratch);
        }
        let net = &model.net;
        (slot.rows, slot.reached) = (rows, steps);
        if !slot.net.as_ref().is_some_and(|old| Arc::ptr_eq(old, net)) {
            slot.net = Some(net.clone());
        }
        Ok(())
    }

    /// The features of the slot's last pass, (rows, features); empty before the first.
    #[must_use]
    pub fn features(&self, slot: usize) -> &[F] {
        if let Runner::There(..) = self.elsewhere {
            return self.slots.get(slot).map_or(&[], |slot| &slot.features);
        }
        match self.slots.get(slot) {
            Some(Slot { record, net: Some(net), rows, .. }) => record.value(net.base_steps, rows * net.features()),
            _ => &[],
        }
    }

    /// The logits of the slot's last whole pass, (rows, classes); empty when the last pass was of the base only.
    #[must_use]
    pub fn logits(&self, slot: usize) -> &[F] {
        if let Runner::There(..) = self.elsewhere {
            return self.slots.get(slot).map_or(&[], |slot| &slot.logits);
        }
        match self.slots.get(slot) {
            Some(Slot { record, net: Some(net), rows, reached, .. }) if *reached == net.steps.len() => {
                record.value(*reached, rows * net.classes())
            }
            _ => &[],
        }
    }

    /// Adds the gradient of a loss to `gradient`, flat as the parameters.
    ///
    /// `d_logits` (rows, classes) and `d_features` (rows, features) are the loss's gradients by the two outputs of the slot's last
    /// pass, whose model it must be, unchanged. What `parts` leaves out is not computed.
    ///
    /// # Errors
    /// A stage fault when the slot's last pass was of another network or of the base only, or a length does not fit.
    pub fn backward(
        &mut self,
        slot: usize,
        model: &Model<F>,
        d_logits: Option<&[F]>,
        d_features: Option<&[F]>,
        parts: Parts,
        gradient: &mut [F],
    ) -> Outcome<()> {
        check("a gradient", gradient.len(), model.net.layout().len)?;
        self.back(slot, &model.net, Weights::Still(&model.params), d_logits, d_features, parts, Some(gradient), false)
    }

    /// [`Engine::backward`] from the logits, on which some weights take their step of gradient descent as soon as nothing else needs what
    /// they were ([`Engine::steppers`]); their gradient stays what it is. The others' is added as usual.
    ///
    /// Where few samples meet many weights, carrying the gradient to and from memory takes as long as making it.
    ///
    /// # Errors
    /// As [`Engine::backward`].
    pub fn descend(
        &mut self,
        slot: usize,
        model: &mut Model<F>,
        d_logits: &[F],
        parts: Parts,
        gradient: &mut [F],
        descent: Descent<'_, F>,
    ) -> Outcome<()> {
        check("a gradient", gradient.len(), model.net.layout().len)?;
        let Model { net, params, .. } = model;
        self.back(slot, net, Weights::Stepping(params, descent), Some(d_logits), None, parts, Some(gradient), false)
    }

    /// The parameters that take their step in [`Engine::descend`] on so many samples, in order.
    pub fn steppers<'n>(&self, net: &'n Network, parts: Parts, rows: usize) -> impl Iterator<Item = Range<usize>> + use<'n, F> {
        let start = if parts.base() { 0 } else { net.base_steps };
        let end = if parts.head() { net.steps.len() } else { net.base_steps };
        let here = matches!(self.elsewhere, Runner::Here);
        steps::steppers(net, if here { start..end } else { 0..0 }, rows)
    }

    /// The gradient of a loss by the slot's last input, (rows, height, width, channels); the parameters get none.
    ///
    /// # Errors
    /// As [`Engine::backward`].
    pub fn backward_input(
        &mut self,
        slot: usize,
        model: &Model<F>,
        d_logits: Option<&[F]>,
        d_features: Option<&[F]>,
        d_input: &mut Vec<F>,
    ) -> Outcome<()> {
        self.back(slot, &model.net, Weights::Still(&model.params), d_logits, d_features, Parts::Nothing, None, true)?;
        d_input.clear();
        d_input.extend_from_slice(&self.scratch.gradient[..self.slots[slot].rows * model.net.input().numel()]);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn back(
        &mut self,
        slot: usize,
        net: &Arc<Network>,
        mut params: Weights<'_, F>,
        d_logits: Option<&[F]>,
        d_features: Option<&[F]>,
        parts: Parts,
        mut gradient: Option<&mut [F]>,
        input: bool,
    ) -> Outcome<()> {
        let number = slot;
        let Some(slot) = self.slots.get_mut(slot).filter(|s| s.net.as_ref().is_some_and(|last| Arc::ptr_eq(last, net))) else {
            return Err(Fault::internal(format!("slot {slot} holds no forward pass of this network")));
        };
        let scratch = &mut self.scratch;
        let (rows, base, all) = (slot.rows, net.base_steps, net.steps.len());
        let width = rows * net.features();
        let below = parts.base() || input;
        if let Some(d_features) = d_features {
            check("a gradient of features", d_features.len(), width)?;
        }
        if let Some(d_logits) = d_logits {
            check("a gradient of logits", d_logits.len(), rows * net.classes())?;
            if slot.reached != all {
                return Err(Fault::internal("a gradient of logits, but only the base was run forward"));
            }
        }
        if let Runner::There(reach, compute, engine) = self.elsewhere {
            let seeds = Seeds { logits: d_logits, features: d_features };
            return reach(compute, engine, &mut |device| {
                scratch.gradient = device.backward(number, seeds, parts, gradient.as_deref_mut(), input)?;
                Ok(())
            });
        }
        match d_logits {
            Some(d_logits) => {
                reserve(&mut scratch.gradient, d_logits.len());
                scratch.gradient[..d_logits.len()].copy_from_slice(d_logits);
                let head_gradient = if parts.head() { gradient.as_deref_mut() } else { None };
                slot.record.backward(net, base..all, rows, params.stepping(true), head_gradient, below, scratch);
                if let (Some(d_features), true) = (d_features, below) {
                    for (sum, &value) in scratch.gradient.iter_mut().zip(d_features) {
                        *sum += value;
                    }
                }
            }
            None => {
                reserve(&mut scratch.gradient, width);
                match d_features {
                    Some(d_features) => scratch.gradient[..width].copy_from_slice(d_features),
                    None => scratch.gradient[..width].fill(F::ZERO),
                }
            }
        }
        if below {
            let base_gradient = if parts.base() { gradient } else { None };
            slot.record.backward(net, 0..base, rows, params, base_gradient, input, scratch);
        }
        Ok(())
    }

    /// Runs the head alone on `rows` rows of features; remembers nothing.
    ///
    /// # Panics
    /// When there are fewer features than rows need.
    pub fn head_forward(&mut self, model: &Model<F>, features: &[F], rows: usize, logits: &mut Vec<F>) {
        self.head.forward(&model.net, &model.params, features, rows, logits);
    }

    /// The head alone backward from `d_logits` (rows, classes): adds to `gradient` (flat, as long as the parameters; only the head's
    /// part is touched) and writes `d_features` (rows, features).
    ///
    /// # Panics
    /// When there are fewer features than the rows of `d_logits` need, or the gradient is shorter than the parameters.
    pub fn head_backward(
        &mut self,
        model: &Model<F>,
        features: &[F],
        d_logits: &[F],
        gradient: Option<&mut [F]>,
        d_features: Option<&mut Vec<F>>,
    ) {
        self.head.backward(&model.net, &model.params, features, d_logits, gradient, d_features);
    }
}

fn check(what: &str, found: usize, len: usize) -> Outcome<()> {
    if found == len { Ok(()) } else { Err(Fault::internal(format!("{what} of {found} numbers instead of {len}"))) }
}

/// A head without its base, for features from elsewhere.
#[derive(Debug, Default)]
pub(super) struct HeadPass<F> {
    record: Record<F>,
    scratch: Scratch<F>,
    /// A head has no buffers.
    none: Buffers<F>,
}

impl<F: Real> HeadPass<F> {
    pub fn forward(&mut self, net: &Network, params: &[F], features: &[F], rows: usize, logits: &mut Vec<F>) {
        let all = net.steps.len();
        self.steps(net, params, features, rows, all);
        logits.clear();
        logits.extend_from_slice(self.record.value(all, rows * net.classes()));
    }
    /// Runs the head's steps up to `end`. The features stand where the base's last value or the input would.
    fn steps(&mut self, net: &Network, params: &[F], features: &[F], rows: usize, end: usize) {
        self.record.load_at(net, net.base_steps, &features[..rows * net.features()]);
        self.record.forward(net, net.base_steps..end, rows, params, &mut self.none, false, &mut self.scratch);
    }
    pub fn backward(
        &mut self,
        net: &Network,
        params: &[F],
        features: &[F],
        d_logits: &[F],
        gradient: Option<&mut [F]>,
        d_features: Option<&mut Vec<F>>,
    ) {
        let rows = d_logits.len() / net.classes();
        // The last step's own output matters to the way back only through its ReLU.
        let all = net.steps.len();
        let end = if net.steps[all - 1].relu { all } else { all - 1 };
        self.steps(net, params, features, rows, end);
        reserve(&mut self.scratch.gradient, d_logits.len());
        self.scratch.gradient[..d_logits.len()].copy_from_slice(d_logits);
        let down = d_features.is_some();
        self.record.backward(net, net.base_steps..all, rows, Weights::Still(params), gradient, down, &mut self.scratch);
        if let Some(d_features) = d_features {
            d_features.clear();
            d_features.extend_from_slice(&self.scratch.gradient[..rows * net.features()]);
        }
    }
}
