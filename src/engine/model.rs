//! A model: a network, its parameters and buffers, and its mode.

use super::layout::{Entry, Init, StateItem};
use super::network::Network;
use super::params::{Buffers, Params};
use super::real::Real;
use crate::base::random::{Stream, unit};
use crate::base::{Fault, FaultKind, Outcome};
use rand_distr::{Distribution, StandardNormal};
use std::collections::HashMap;
use std::sync::Arc;

/// A named tensor in torch's order: name, shape, values.
pub type Tensor<F> = (String, Vec<usize>, Vec<F>);

/// A network with numbers. A clone shares them until one of the two is written.
#[derive(Clone, Debug)]
pub struct Model<F: Real = f32> {
    /// The network.
    pub net: Arc<Network>,
    /// The parameters, planned by the network's layout.
    pub params: Params<F>,
    /// Running statistics and batch counters.
    pub buffers: Buffers<F>,
    /// Training mode: normalisation uses and records the batch's statistics. Otherwise it uses the running ones.
    pub training: bool,
}

/// The initial value of the element `at`.
fn draw(init: Init, at: usize, rng: &mut Stream) -> f64 {
    let normal = |rng: &mut Stream| -> f64 { StandardNormal.sample(rng) };
    match init {
        Init::Constant(value) => value,
        // Not drawn: the caller copies.
        Init::Copy(_) => 0.0,
        Init::Uniform(bound) => (2.0 * unit(rng) - 1.0) * bound,
        Init::Normal(deviation) => deviation * normal(rng),
        Init::Truncated { deviation, bound } => loop {
            let value = deviation * normal(rng);
            if value.abs() <= bound {
                break value;
            }
        },
        Init::Rows { width, zero, .. } if Some(at / width) == zero => 0.0,
        Init::Rows { deviation, .. } => deviation * normal(rng),
    }
}

impl<F: Real> Model<F> {
    /// A model in training mode with initial parameters as its layout says: PyTorch's defaults, unless the network has others.
    ///
    /// By default, weights and biases of convolutions and dense layers are uniform in plus or minus 1 / sqrt(inputs of one output),
    /// and normalisations start as the identity. Numbers are drawn in torch's order of parameters and elements.
    #[must_use]
    pub fn init(net: Arc<Network>, rng: &mut Stream) -> Self {
        Self::init_until(net, rng, &|| false).expect("nobody stops it")
    }
    /// The same, given up when `stop` says so.
    ///
    /// # Errors
    /// An interruption.
    pub fn init_until(net: Arc<Network>, rng: &mut Stream, stop: &dyn Fn() -> bool) -> Outcome<Self> {
        let layout = net.layout();
        let mut params = vec![F::ZERO; layout.len];
        for entry in &layout.entries {
            let values: Vec<F> = match entry.init {
                Init::Copy(earlier) => layout.export(&params, &layout.entries[earlier]),
                init => {
                    let mut values = Vec::with_capacity(entry.range.len());
                    for at in 0..entry.range.len() {
                        if at % (1 << 20) == 0 && stop() {
                            return Err(Fault::new(FaultKind::Interrupted, "stopped while the initial parameters were drawn"));
                        }
                        values.push(F::from_f64(draw(init, at, rng)));
                    }
                    values
                }
            };
            layout.import(&mut params, entry, &values).expect("as many values as the entry has");
        }
        let mut buffers = vec![F::ZERO; layout.buffers_len];
        for entry in layout.buffers.iter().filter(|entry| entry.name.ends_with("running_var")) {
            buffers[entry.range.clone()].fill(F::ONE);
        }
        let counters = vec![0; layout.counters.len()];
        Ok(Self { params: params.into(), buffers: Buffers { values: buffers.into(), counters }, training: true, net })
    }
    /// A parameter's values in torch's order.
    #[must_use]
    pub fn export(&self, entry: &Entry) -> Vec<F> {
        self.net.layout().export(&self.params, entry)
    }
    /// Everything in the order of torch's state dict; a batch counter is a tensor without dimensions.
    #[must_use]
    pub fn export_torch(&self) -> Vec<Tensor<F>> {
        let layout = self.net.layout();
        let item = |item: &StateItem| match *item {
            StateItem::Parameter(i) => {
                let entry = &layout.entries[i];
                (entry.name.clone(), entry.shape.clone(), layout.export(&self.params, entry))
            }
            StateItem::Buffer(i) => {
                let entry = &layout.buffers[i];
                (entry.name.clone(), entry.shape.clone(), layout.export_buffer(&self.buffers.values, entry))
            }
            StateItem::Counter(i) => (layout.counters[i].clone(), Vec::new(), vec![F::from_f64(self.buffers.counters[i] as f64)]),
        };
        layout.state_order().iter().map(item).collect()
    }
    /// Takes over tensors in torch's order, in any sequence.
    ///
    /// Every parameter must be there. Running statistics and counters that are not there keep their values; names that the network
    /// does not have are an error.
    ///
    /// # Errors
    /// A stage fault that names the tensor; the model is then unchanged.
    pub fn import_torch(&mut self, tensors: &[Tensor<F>]) -> Outcome<()> {
        let net = self.net.clone();
        let layout = net.layout();
        let (mut params, mut buffers) = (self.params.to_vec(), self.buffers.clone());
        let mut seen = vec![false; layout.entries.len()];
        let places: HashMap<&str, usize> = layout.entries.iter().enumerate().map(|(i, entry)| (entry.name.as_str(), i)).collect();
        let check = |name: &str, own: &[usize], shape: &[usize]| {
            if own == shape { Ok(()) } else { Err(Fault::stage(format!("`{name}` has the shape {shape:?}, but the network's is {own:?}"))) }
        };
        for (name, shape, values) in tensors {
            if let Some(&i) = places.get(name.as_str()) {
                let entry = &layout.entries[i];
                check(name, &entry.shape, shape)?;
                layout.import(&mut params, entry, values)?;
                seen[i] = true;
            } else if let Some(entry) = layout.buffers.iter().find(|entry| entry.name == *name) {
                check(name, &entry.shape, shape)?;
                layout.import_buffer(&mut buffers.values, entry, values)?;
            } else if let Some(i) = layout.counters.iter().position(|counter| counter == name) {
                let count = values.first().ok_or_else(|| Fault::stage(format!("`{name}` is empty")))?;
                buffers.counters[i] = count.to_f64() as u64;
            } else {
                return Err(Fault::stage(format!("the network has no `{name}`")));
            }
        }
        if let Some(i) = seen.iter().position(|seen| !seen) {
            return Err(Fault::stage(format!("`{}` is missing", layout.entries[i].name)));
        }
        (self.params, self.buffers) = (params.into(), buffers);
        Ok(())
    }
    /// The same model in other floats, for attacks in double precision.
    #[must_use]
    pub fn cast<G: Real>(&self) -> Model<G> {
        let cast = |values: &[F]| values.iter().map(|v| G::from_f64(v.to_f64())).collect::<Vec<G>>();
        Model {
            net: self.net.clone(),
            params: cast(&self.params).into(),
            buffers: Buffers { values: cast(&self.buffers.values).into(), counters: self.buffers.counters.clone() },
            training: self.training,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};
    use crate::engine::{Layer, Shape};
    use std::cell::Cell;

    #[test]
    fn a_model_is_given_up_while_it_is_drawn() {
        let shape = Shape { channels: 1, height: 1, width: 1500 };
        let layers = vec![Layer::Flatten, Layer::linear("a", 1500), Layer::linear("b", 2)];
        let net = Arc::new(Network::build(shape, layers, 2).expect("fits"));
        let rng = || stream(1, Purpose::Initialisation, 0, 0, 0);
        let asked = Cell::new(0);
        let third = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let fault = Model::<f32>::init_until(net.clone(), &mut rng(), &third).expect_err("it is stopped");
        assert_eq!((fault.kind, asked.get()), (FaultKind::Interrupted, 3), "it is asked within a large parameter, too");
        let whole = Model::<f32>::init_until(net.clone(), &mut rng(), &|| false).expect("nobody stops it");
        assert_eq!(whole.params.to_vec(), Model::<f32>::init(net, &mut rng()).params.to_vec());
    }
}
