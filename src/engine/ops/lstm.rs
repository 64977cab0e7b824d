//! The long short-term memory over a sequence, as torch's `LSTM`: one or more layers, one way or both ways, started with zeros.
//!
//! Inside, values lie position by position, each with the whole batch, so that a position is one product. Gates are in torch's order:
//! input, forget, cell, output. What the way back needs is kept as it is, so that it may be gone twice.

use super::activation::sigmoid;
use super::{Backward, Forward, Op, dropout};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearForward, reserve};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// One layer in one direction.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Cell {
    pub inputs: usize,
    pub backward: bool,
    /// From the input to the gates, and from the last state to the gates; the two biases.
    pub input: Range<usize>,
    pub state: Range<usize>,
    pub input_bias: Range<usize>,
    pub state_bias: Range<usize>,
}

/// All layers.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Lstm {
    pub positions: usize,
    pub hidden: usize,
    /// Probability of dropout between layers.
    pub dropout: f64,
    /// The cells of each layer: one, or one for each direction.
    pub layers: Vec<Vec<Cell>>,
}

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, hidden: usize, layers: usize, both: bool, dropout: f64) -> Outcome<()> {
    builder.image_only()?;
    dropout::check(dropout)?;
    positive("hidden", hidden)?;
    positive("layers", layers)?;
    let Shape { channels, height, width: positions } = builder.shape;
    if height != 1 {
        return Err(Fault::stage("a recurrent layer runs along a sequence, which is an image of height 1"));
    }
    let ways: &[bool] = if both { &[false, true] } else { &[false] };
    // Torch's bound for every weight and bias.
    let init = Init::Uniform(1.0 / (hidden as f64).sqrt());
    let mut inputs = channels;
    let mut all = Vec::new();
    for layer in 0..layers {
        let mut cells = Vec::new();
        for &backward in ways {
            let ending = if backward { format!("l{layer}_reverse") } else { format!("l{layer}") };
            let mut weight = |kind: &str, inputs: usize| {
                let order = Order::Linear { inputs, outputs: 4 * hidden, channels: 0 };
                builder.parameter(format!("{name}.weight_{kind}_{ending}"), vec![4 * hidden, inputs], order, init)
            };
            let (input, state) = (weight("ih", inputs)?, weight("hh", hidden)?);
            let mut bias = |kind: &str| builder.parameter(format!("{name}.bias_{kind}_{ending}"), vec![4 * hidden], Order::Plain, init);
            let (input_bias, state_bias) = (bias("ih")?, bias("hh")?);
            cells.push(Cell { inputs, backward, input, state, input_bias, state_bias });
        }
        inputs = hidden * ways.len();
        all.push(cells);
    }
    builder.end_layer();
    builder.step(Op::Lstm(Lstm { positions, hidden, dropout, layers: all }), Shape { channels: inputs, height: 1, width: positions })
}

/// What a cell keeps of a batch: its gates, memory and states, position by position.
struct Kept<'a, F> {
    gates: &'a mut [F],
    memory: &'a mut [F],
    states: &'a mut [F],
}

impl Lstm {
    /// Takes the next `len` numbers off a buffer.
    fn take<'a, F>(rest: &mut &'a mut [F], len: usize) -> &'a mut [F] {
        let (taken, after) = std::mem::take(rest).split_at_mut(len);
        *rest = after;
        taken
    }
    fn kept<'a, F>(&self, rest: &mut &'a mut [F], rows: usize) -> Kept<'a, F> {
        let states = self.positions * rows * self.hidden;
        Kept { gates: Self::take(rest, 4 * states), memory: Self::take(rest, states), states: Self::take(rest, states) }
    }
    /// Numbers of a layer's input of a whole batch.
    fn inputs(&self, layer: usize, rows: usize) -> usize {
        self.positions * rows * self.layers[layer][0].inputs
    }
    /// Numbers of the inputs of all layers, which are kept one after the other; then all cells follow.
    fn all_inputs(&self, rows: usize) -> usize {
        (0..self.layers.len()).map(|layer| self.inputs(layer, rows)).sum()
    }
    /// All numbers that are kept of a batch.
    fn total(&self, rows: usize) -> usize {
        let cells = self.layers.iter().map(Vec::len).sum::<usize>();
        self.all_inputs(rows) + cells * 6 * self.positions * rows * self.hidden
    }
    /// The factors of dropout, behind all that: for each layer but the first those of its input.
    pub fn factors(&self, rows: usize) -> usize {
        if self.dropout == 0.0 { 0 } else { self.all_inputs(rows) - self.inputs(0, rows) }
    }
}

/// (batch, positions, width) to (positions, batch, width), or back with the first two swapped.
fn turn<F: Copy>(from: &[F], first: usize, second: usize, width: usize, to: &mut [F]) {
    for i in 0..first {
        for j in 0..second {
            to[(j * first + i) * width..][..width].copy_from_slice(&from[(i * second + j) * width..][..width]);
        }
    }
}

/// From the sums of the gates to the gates, the memory and the state of one position. `before` is the memory before.
struct Advance<'a, F> {
    hidden: usize,
    gates: &'a mut [F],
    /// Added to the gates first: what the last state gives, with its bias.
    sums: &'a [F],
    before: Option<&'a [F]>,
    memory: &'a mut [F],
    states: &'a mut [F],
}

impl<F: Real> WithSimd for Advance<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { hidden, gates, sums, before, memory, states } = self;
        add(gates, sums);
        for (row, gates) in gates.chunks_exact_mut(4 * hidden).enumerate() {
            let own = row * hidden..(row + 1) * hidden;
            let (memory, states) = (&mut memory[own.clone()], &mut states[own.clone()]);
            let (low, high) = gates.split_at_mut(2 * hidden);
            let ((input, forget), (cell, output)) = (low.split_at_mut(hidden), high.split_at_mut(hidden));
            match before {
                Some(before) => memory.copy_from_slice(&before[own]),
                None => memory.fill(F::ZERO),
            }
            let (input, forget, cell, output) = (&mut input[..hidden], &mut forget[..hidden], &mut cell[..hidden], &mut output[..hidden]);
            let (memory, states) = (&mut memory[..hidden], &mut states[..hidden]);
            for unit in 0..hidden {
                (input[unit], forget[unit]) = (sigmoid(input[unit]), sigmoid(forget[unit]));
                (cell[unit], output[unit]) = (cell[unit].tanh(), sigmoid(output[unit]));
                memory[unit] = forget[unit] * memory[unit] + input[unit] * cell[unit];
                states[unit] = output[unit] * memory[unit].tanh();
            }
        }
    }
}

/// The gradients of the gates' sums of one position, and of the memory before it.
struct Return<'a, F> {
    hidden: usize,
    gates: &'a [F],
    before: Option<&'a [F]>,
    memory: &'a [F],
    /// Of the state by what comes after this layer, `line` numbers from row to row.
    d_out: &'a [F],
    line: usize,
    /// Of the state by the next position.
    d_state: &'a [F],
    d_gates: &'a mut [F],
    d_memory: &'a mut [F],
}

impl<F: Real> WithSimd for Return<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { hidden, gates, before, memory, d_out, line, d_state, d_gates, d_memory } = self;
        for (row, (gates, d_gates)) in gates.chunks_exact(4 * hidden).zip(d_gates.chunks_exact_mut(4 * hidden)).enumerate() {
            for from in (0..hidden).step_by(UNITS) {
                // Blocks in arrays of their own: the compiler cannot see that so many slices do not overlap.
                let count = UNITS.min(hidden - from);
                let at = row * hidden + from;
                let gate = |index: usize| block(&gates[index * hidden + from..][..count]);
                let (input, forget, cell, output) = (gate(0), gate(1), gate(2), gate(3));
                let (memory, d_state, d_out) =
                    (block(&memory[at..][..count]), block(&d_state[at..][..count]), block(&d_out[row * line + from..][..count]));
                let before = before.map_or([F::ZERO; UNITS], |before| block(&before[at..][..count]));
                let mut d_c = block(&d_memory[at..][..count]);
                let [mut d_input, mut d_forget, mut d_cell, mut d_output] = [[F::ZERO; UNITS]; 4];
                for i in 0..UNITS {
                    let bent = memory[i].tanh();
                    let d_h = d_out[i] + d_state[i];
                    let d = d_h * output[i] * (F::ONE - bent * bent) + d_c[i];
                    d_input[i] = d * cell[i] * input[i] * (F::ONE - input[i]);
                    d_forget[i] = d * before[i] * forget[i] * (F::ONE - forget[i]);
                    d_cell[i] = d * input[i] * (F::ONE - cell[i] * cell[i]);
                    d_output[i] = d_h * bent * output[i] * (F::ONE - output[i]);
                    d_c[i] = d * forget[i];
                }
                for (index, d_gate) in [d_input, d_forget, d_cell, d_output].iter().enumerate() {
                    d_gates[index * hidden + from..][..count].copy_from_slice(&d_gate[..count]);
                }
                d_memory[at..][..count].copy_from_slice(&d_c[..count]);
            }
        }
    }
}

/// Units at a time.
const UNITS: usize = 16;

/// Some values, and zeros behind them.
#[inline(always)]
fn block<F: Real>(values: &[F]) -> [F; UNITS] {
    match values.try_into() {
        Ok(all) => all,
        Err(_) => {
            let mut filled = [F::ZERO; UNITS];
            filled[..values.len()].copy_from_slice(values);
            filled
        }
    }
}

/// The positions in the order of a direction, each with the one before it.
pub(in crate::engine) fn order(positions: usize, backward: bool) -> impl DoubleEndedIterator<Item = (usize, Option<usize>)> {
    (0..positions).map(move |step| match backward {
        false => (step, step.checked_sub(1)),
        true => (positions - 1 - step, (step > 0).then(|| positions - step)),
    })
}

pub(super) fn forward<F: Real>(lstm: &Lstm, pass: &mut Forward<'_, F>) {
    let (rows, hidden, positions) = (pass.rows, lstm.hidden, lstm.positions);
    let (state, wide) = (rows * hidden, 4 * rows * hidden);
    reserve(&mut pass.kept.floats, wide + lstm.total(rows) + lstm.factors(rows));
    let (rest, factors) = pass.kept.floats.split_at_mut(wide + lstm.total(rows));
    let (mut rest, mut factors) = (rest, &mut factors[..lstm.factors(rows)]);
    let sums = Lstm::take(&mut rest, wide);
    let scratch = &mut *pass.scratch;
    let mut inputs = Lstm::take(&mut rest, lstm.all_inputs(rows));
    let mut input = Lstm::take(&mut inputs, lstm.inputs(0, rows));
    turn(&pass.x[..pass.inputs], rows, positions, lstm.layers[0][0].inputs, input);
    for (number, cells) in lstm.layers.iter().enumerate() {
        let ways = cells.len();
        let last = number + 1 == lstm.layers.len();
        let next = if last { Default::default() } else { Lstm::take(&mut inputs, lstm.inputs(number + 1, rows)) };
        for (way, cell) in cells.iter().enumerate() {
            let Kept { gates, memory, states } = lstm.kept(&mut rest, rows);
            dispatch(LinearForward {
                rows: positions * rows,
                inputs: cell.inputs,
                outputs: 4 * hidden,
                x: input,
                weight: &pass.params[cell.input.clone()],
                bias: Some(&pass.params[cell.input_bias.clone()]),
                relu: false,
                y: gates,
                padded: &mut scratch.padded,
            });
            let bias = &pass.params[cell.state_bias.clone()];
            for (at, before) in order(positions, cell.backward) {
                match before {
                    None => sums.chunks_exact_mut(4 * hidden).for_each(|sums| sums.copy_from_slice(bias)),
                    Some(before) => dispatch(LinearForward {
                        rows,
                        inputs: hidden,
                        outputs: 4 * hidden,
                        x: &states[before * state..][..state],
                        weight: &pass.params[cell.state.clone()],
                        bias: Some(bias),
                        relu: false,
                        y: sums,
                        padded: &mut scratch.padded,
                    }),
                }
                // The memory before lies on one side of the memory now.
                let (memory_now, memory_before) = match before {
                    None => (&mut memory[at * state..][..state], None),
                    Some(before) if before < at => {
                        let (low, high) = memory.split_at_mut(at * state);
                        (&mut high[..state], Some(&low[before * state..][..state]))
                    }
                    Some(before) => {
                        let (low, high) = memory.split_at_mut(before * state);
                        (&mut low[at * state..][..state], Some(&high[..state]))
                    }
                };
                dispatch(Advance {
                    hidden,
                    gates: &mut gates[at * wide..][..wide],
                    sums,
                    before: memory_before,
                    memory: memory_now,
                    states: &mut states[at * state..][..state],
                });
            }
            // Both directions stand side by side.
            let line = ways * hidden;
            for (token, states) in states.chunks_exact(hidden).enumerate() {
                let (position, row) = (token / rows, token % rows);
                let to = if last { (row * positions + position) * line } else { token * line } + way * hidden;
                let out: &mut [F] = if last { &mut pass.kept.value } else { &mut *next };
                out[to..to + hidden].copy_from_slice(states);
            }
        }
        if !last {
            if lstm.dropout > 0.0 {
                let factors = Lstm::take(&mut factors, next.len());
                dropout::draw(lstm.dropout, pass.recording, &mut scratch.noise, factors);
                next.iter_mut().zip(factors.iter()).for_each(|(value, &factor)| *value *= factor);
            }
            input = next;
        }
    }
}

#[inline(always)]
fn add<F: Real>(sums: &mut [F], values: &[F]) {
    sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
}

pub(super) fn backward<F: Real>(lstm: &Lstm, pass: &mut Backward<'_, F>) {
    let (rows, hidden, positions) = (pass.rows, lstm.hidden, lstm.positions);
    let (state, wide) = (rows * hidden, 4 * rows * hidden);
    let deepest = lstm.layers.iter().map(|cells| cells[0].inputs).max().unwrap_or(0);
    let line = lstm.layers[0].len() * hidden;
    let scratch = &mut *pass.scratch;
    // Of the layer's output, of the gates of one cell, of state and memory, and of the layer's input from one and from all cells.
    let sizes = [positions * rows * line, positions * wide, state, state, positions * rows * deepest, positions * rows * deepest];
    reserve(&mut scratch.border, sizes.iter().sum());
    let mut room = &mut scratch.border[..];
    let [d_out, d_gates, d_state, d_memory, d_one, d_input] = sizes.map(|size| Lstm::take(&mut room, size));
    turn(&scratch.gradient[..pass.outputs], rows, positions, line, d_out);
    // Behind the room for sums are the inputs of all layers, then their cells.
    let (inputs, kept) = pass.kept.floats[wide..].split_at(lstm.all_inputs(rows));
    let mut input_end = inputs.len();
    for (number, cells) in lstm.layers.iter().enumerate().rev() {
        let width = cells[0].inputs;
        let input = &inputs[input_end - lstm.inputs(number, rows)..input_end];
        input_end -= input.len();
        let down = pass.down || number > 0;
        for (way, cell) in cells.iter().enumerate() {
            let from = (number * cells.len() + way) * 6 * positions * state;
            let (gates, rest) = kept[from..].split_at(positions * wide);
            let (memory, rest) = rest.split_at(positions * state);
            let states = &rest[..positions * state];
            let weight = &pass.params[cell.state.clone()];
            d_state.fill(F::ZERO);
            d_memory.fill(F::ZERO);
            for (at, before) in order(positions, cell.backward).rev() {
                let before = before.map(|before| &memory[before * state..][..state]);
                let now = &mut d_gates[at * wide..][..wide];
                dispatch(Return {
                    hidden,
                    gates: &gates[at * wide..][..wide],
                    before,
                    memory: &memory[at * state..][..state],
                    d_out: &d_out[at * rows * line + way * hidden..],
                    line,
                    d_state,
                    d_gates: &mut *now,
                    d_memory,
                });
                if before.is_some() {
                    dispatch(LinearBackward {
                        rows,
                        inputs: hidden,
                        outputs: 4 * hidden,
                        x: &[],
                        weight,
                        d_y: now,
                        d_weight: None,
                        d_bias: None,
                        d_x: Some(&mut *d_state),
                        padded: &mut scratch.padded,
                        turned: &mut scratch.turned,
                    });
                }
            }
            let (mut d_weight, mut d_bias) = (None, None);
            if let Some(gradient) = pass.gradient.as_deref_mut() {
                // The states before each position but the first, which began with zeros.
                let (first, then) = if cell.backward { (state, 0) } else { (0, wide) };
                let count = (positions - 1) * rows;
                dispatch(LinearBackward {
                    rows: count,
                    inputs: hidden,
                    outputs: 4 * hidden,
                    x: &states[first..],
                    weight,
                    d_y: &d_gates[then..],
                    d_weight: Some(&mut gradient[cell.state.clone()]),
                    d_bias: None,
                    d_x: None,
                    padded: &mut scratch.padded,
                    turned: &mut scratch.turned,
                });
                let sums = &mut gradient[cell.state_bias.clone()];
                d_gates.chunks_exact(4 * hidden).for_each(|d_gates| add(sums, d_gates));
                let (head, tail) = gradient.split_at_mut(cell.input_bias.start);
                d_weight = Some(&mut head[cell.input.clone()]);
                d_bias = Some(&mut tail[..cell.input_bias.len()]);
            }
            dispatch(LinearBackward {
                rows: positions * rows,
                inputs: width,
                outputs: 4 * hidden,
                x: input,
                weight: &pass.params[cell.input.clone()],
                d_y: d_gates,
                d_weight,
                d_bias,
                d_x: down.then_some(&mut *d_one),
                padded: &mut scratch.padded,
                turned: &mut scratch.turned,
            });
            let len = positions * rows * width;
            match way {
                _ if !down => {}
                0 => d_input[..len].copy_from_slice(&d_one[..len]),
                _ => add(&mut d_input[..len], &d_one[..len]),
            }
        }
        if number > 0 {
            d_out.copy_from_slice(&d_input[..positions * rows * width]);
            if lstm.dropout > 0.0 {
                let factors = &pass.kept.floats[wide + lstm.total(rows) + input_end - lstm.inputs(0, rows)..];
                d_out.iter_mut().zip(factors).for_each(|(d, &factor)| *d *= factor);
            }
        } else if pass.down {
            turn(&d_input[..positions * rows * width], positions, rows, width, &mut scratch.next);
        }
    }
}
