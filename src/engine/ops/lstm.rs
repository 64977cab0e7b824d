//! The long short-term memory over a sequence, as torch's `LSTM`: one or more layers, one way or both ways, started with zeros.
//!
//! Inside, values lie position by position, each with the whole batch, so that a position is one product. Gates are in torch's order:
//! input, forget, cell, output. What the way back needs is kept as it is, so that it may be gone twice.

use super::{Backward, Forward, Op, dropout};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::{LinearBackward, LinearForward, reserve};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use crate::engine::simd::dispatch;
use std::ops::Range;

/// One layer in one direction.
#[derive(Clone, Debug)]
struct Cell {
    inputs: usize,
    backward: bool,
    /// From the input to the gates, and from the last state to the gates; the two biases.
    input: Range<usize>,
    state: Range<usize>,
    input_bias: Range<usize>,
    state_bias: Range<usize>,
}

/// All layers.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Lstm {
    positions: usize,
    hidden: usize,
    /// Probability of dropout between layers.
    dropout: f64,
    /// The cells of each layer: one, or one for each direction.
    layers: Vec<Vec<Cell>>,
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
    fn factors(&self, rows: usize) -> usize {
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

/// The logistic function.
#[inline(always)]
fn sigmoid<F: Real>(x: F) -> F {
    F::ONE / (F::ONE + (-x).exp())
}

/// From the sums of the gates to the gates, the memory and the state of one position. `before` is the memory before.
fn advance<F: Real>(gates: &mut [F], before: Option<&[F]>, memory: &mut [F], states: &mut [F], hidden: usize) {
    for (row, gates) in gates.chunks_exact_mut(4 * hidden).enumerate() {
        for unit in 0..hidden {
            let at = row * hidden + unit;
            let (input, forget) = (sigmoid(gates[unit]), sigmoid(gates[hidden + unit]));
            let (cell, output) = (gates[2 * hidden + unit].tanh(), sigmoid(gates[3 * hidden + unit]));
            memory[at] = forget * before.map_or(F::ZERO, |before| before[at]) + input * cell;
            states[at] = output * memory[at].tanh();
            (gates[unit], gates[hidden + unit], gates[2 * hidden + unit], gates[3 * hidden + unit]) = (input, forget, cell, output);
        }
    }
}

/// The positions in the order of a direction, each with the one before it.
fn order(positions: usize, backward: bool) -> impl DoubleEndedIterator<Item = (usize, Option<usize>)> {
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
                packed: &mut scratch.packed,
                padded: &mut scratch.padded,
            });
            let bias = &pass.params[cell.state_bias.clone()];
            for (at, before) in order(positions, cell.backward) {
                let gates = &mut gates[at * wide..][..wide];
                match before {
                    None => gates.chunks_exact_mut(4 * hidden).for_each(|gates| add(gates, bias)),
                    Some(before) => {
                        dispatch(LinearForward {
                            rows,
                            inputs: hidden,
                            outputs: 4 * hidden,
                            x: &states[before * state..][..state],
                            weight: &pass.params[cell.state.clone()],
                            bias: Some(bias),
                            relu: false,
                            y: sums,
                            packed: &mut scratch.packed,
                            padded: &mut scratch.padded,
                        });
                        add(gates, sums);
                    }
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
                advance(gates, memory_before, memory_now, &mut states[at * state..][..state], hidden);
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
                for row in 0..rows {
                    let (gates, now) = (&gates[at * wide + row * 4 * hidden..][..4 * hidden], &mut now[row * 4 * hidden..][..4 * hidden]);
                    for unit in 0..hidden {
                        let place = row * hidden + unit;
                        let (input, forget) = (gates[unit], gates[hidden + unit]);
                        let (cell, output) = (gates[2 * hidden + unit], gates[3 * hidden + unit]);
                        let bent = memory[at * state + place].tanh();
                        let d_h = d_out[(at * rows + row) * line + way * hidden + unit] + d_state[place];
                        let d_c = d_h * output * (F::ONE - bent * bent) + d_memory[place];
                        now[unit] = d_c * cell * input * (F::ONE - input);
                        now[hidden + unit] = d_c * before.map_or(F::ZERO, |before| before[place]) * forget * (F::ONE - forget);
                        now[2 * hidden + unit] = d_c * input * (F::ONE - cell * cell);
                        now[3 * hidden + unit] = d_h * bent * output * (F::ONE - output);
                        d_memory[place] = d_c * forget;
                    }
                }
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
                        packed: &mut scratch.packed,
                        padded: &mut scratch.padded,
                        wide: &mut scratch.wide,
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
                    packed: &mut scratch.packed,
                    padded: &mut scratch.padded,
                    wide: &mut scratch.wide,
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
                packed: &mut scratch.packed,
                padded: &mut scratch.padded,
                wide: &mut scratch.wide,
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
