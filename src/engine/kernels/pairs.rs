//! The dense layer with products of bf16 numbers, two at a time: what [`simd::pairs`](crate::engine::simd::pairs) multiplies is laid out here.
//!
//! Weights are (in, out), as for `linear`. Numbers are rounded on their way into pairs, sums stay in single precision. Every output is a sum
//! whose order does not depend on the samples beside it.

use super::linear::turn;
use super::{add_rows, relu};
use crate::engine::real::Real;
use crate::engine::simd::pairs::{self, Dots, LANES, Pairs, Product, Sums, multiply};
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;

/// A dense layer and the rows that go through it.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Shape {
    /// Rows of the input: samples times positions.
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
}

/// Scratch: both factors and the result.
#[derive(Debug, Default)]
pub(in crate::engine) struct Laid {
    a: Vec<u32>,
    b: Vec<Pairs>,
    c: Vec<Sums>,
    turned: Vec<u32>,
}

/// Outputs up to which the input's gradient is a product with the turned weight, as in `linear`.
const SHORT: usize = 64;

/// `y = relu?(x W + b)`.
pub(in crate::engine) fn forward<F: Real>(
    shape: Shape,
    x: &[F],
    weight: &[F],
    bias: Option<&[F]>,
    with_relu: bool,
    y: &mut [F],
    laid: &mut Laid,
) {
    let Shape { rows, inputs, outputs } = shape;
    let Laid { a, b, c, .. } = laid;
    let (pairs, lines) = (inputs.div_ceil(2), outputs.div_ceil(LANES));
    let a = along(&x[..rows * inputs], inputs, pairs, a);
    let b = room(b, pairs * lines, [0; LANES]);
    down(&weight[..inputs * outputs], outputs, lines * LANES, b.as_flattened_mut());
    let y = &mut y[..rows * outputs];
    match bias {
        Some(bias) => y.chunks_exact_mut(outputs).for_each(|y| y.copy_from_slice(bias)),
        None => y.fill(F::ZERO),
    }
    add(y, outputs, c, Product { rows, lines, pairs, a, steps: (pairs, 1), b, c: &mut [] });
    if with_relu {
        relu(y);
    }
}

/// Adds to the gradients of weight and bias, and writes that of the input.
pub(in crate::engine) struct Backward<'a, F> {
    pub shape: Shape,
    pub x: &'a [F],
    pub weight: &'a [F],
    pub d_y: &'a [F],
    pub d_weight: Option<&'a mut [F]>,
    pub d_bias: Option<&'a mut [F]>,
    /// At least rows x inputs.
    pub d_x: Option<&'a mut [F]>,
    /// Whether rows are positions of samples: then there are enough of them for turning the weight.
    pub positions: bool,
}

impl<F: Real> Backward<'_, F> {
    pub fn run(self, laid: &mut Laid) {
        let Shape { rows, inputs, outputs } = self.shape;
        let Laid { a, b, c, turned } = laid;
        let d_y = &self.d_y[..rows * outputs];
        if let Some(d_bias) = self.d_bias {
            add_rows(d_y, d_bias);
        }
        let weight = &self.weight[..inputs * outputs];
        let pairs = outputs.div_ceil(2);
        if let Some(d_x) = self.d_x {
            let d_x = &mut d_x[..rows * inputs];
            if self.positions || outputs <= SHORT {
                let lines = inputs.div_ceil(LANES);
                let weight = along(weight, outputs, pairs, turned);
                let b = room(b, pairs * lines, [0; LANES]);
                columns(weight, pairs, lines * LANES, b.as_flattened_mut());
                let a = along(d_y, outputs, pairs, a);
                d_x.fill(F::ZERO);
                add(d_x, inputs, c, Product { rows, lines, pairs, a, steps: (pairs, 1), b, c: &mut [] });
            } else {
                let lines = pairs.div_ceil(LANES);
                let (a, b) = (along(d_y, outputs, lines * LANES, a), along(weight, outputs, lines * LANES, turned));
                let dots = |c: &mut [f32]| pairs::dots(Dots { lines, a: a.as_chunks().0, b: b.as_chunks().0, c });
                if let Some(d_x) = F::singles(d_x) {
                    dots(d_x);
                } else {
                    let c = &mut room(c, d_x.len().div_ceil(LANES), [0.0; LANES]).as_flattened_mut()[..d_x.len()];
                    dots(c);
                    d_x.iter_mut().zip(c).for_each(|(d_x, c)| *d_x = F::from_f64(f64::from(*c)));
                }
            }
        }
        if let Some(d_weight) = self.d_weight {
            let (pairs, lines) = (rows.div_ceil(2), outputs.div_ceil(LANES));
            let (a, b) = (room(a, pairs * inputs, 0), room(b, pairs * lines, [0; LANES]));
            down(&self.x[..rows * inputs], inputs, inputs, a);
            down(d_y, outputs, lines * LANES, b.as_flattened_mut());
            add(d_weight, outputs, c, Product { rows: inputs, lines, pairs, a, steps: (1, inputs), b, c: &mut [] });
        }
    }
}

/// Adds a product to rows of `line` numbers, where they lie if those are whole registers; `product` has no `c` yet.
fn add<F: Real>(values: &mut [F], line: usize, scratch: &mut Vec<Sums>, product: Product<'_>) {
    if line.is_multiple_of(LANES)
        && let Some(values) = F::singles(values)
    {
        return multiply(Product { c: values.as_chunks_mut().0, ..product });
    }
    let Product { rows, lines, pairs, a, steps, b, .. } = product;
    // Some rows at a time, which stay near; a multiple of those that are multiplied together.
    let some = 96;
    for (top, values) in (0..rows).step_by(some).zip(values.chunks_mut(some * line)) {
        let rows = values.len() / line;
        let c = room(scratch, rows * lines, [0.0; LANES]);
        for (sums, values) in c.chunks_exact_mut(lines).zip(values.chunks_exact(line)) {
            sums.as_flattened_mut().iter_mut().zip(values).for_each(|(sum, value)| *sum = value.to_f64() as f32);
        }
        multiply(Product { rows, lines, pairs, a: &a[top * steps.0..], steps, b, c });
        for (sums, values) in c.chunks_exact(lines).zip(values.chunks_exact_mut(line)) {
            values.iter_mut().zip(sums.as_flattened()).for_each(|(value, &sum)| *value = F::from_f64(f64::from(sum)));
        }
    }
}

/// At least so many elements; what is there stays.
fn room<T: Clone>(buffer: &mut Vec<T>, len: usize, empty: T) -> &mut [T] {
    if buffer.len() < len {
        buffer.resize(len, empty);
    }
    &mut buffer[..len]
}

/// Pairs of neighbours in rows of `line` numbers; rows of `half` pairs, filled up with zeros.
fn along<'a, F: Real>(from: &[F], line: usize, half: usize, to: &'a mut Vec<u32>) -> &'a [u32] {
    let to = room(to, from.len() / line * half, 0);
    dispatch(Along { from, line, half, to });
    to
}

/// Pairs of the numbers of two rows of `line` numbers, one below the other; rows of `step` pairs, filled up with zeros.
fn down<F: Real>(from: &[F], line: usize, step: usize, to: &mut [u32]) {
    dispatch(Down { from, line, step, to });
}

/// Rows of `line` pairs to columns, which begin `step` pairs apart and are filled up with zeros.
fn columns(from: &[u32], line: usize, step: usize, to: &mut [u32]) {
    turn(from, line, step, to);
    let rows = from.len() / line;
    to.chunks_exact_mut(step).for_each(|to| to[rows..].fill(0));
}

struct Along<'a, F> {
    from: &'a [F],
    line: usize,
    half: usize,
    to: &'a mut [u32],
}

impl<F: Real> WithSimd for Along<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (from, to) in self.from.chunks_exact(self.line).zip(self.to.chunks_exact_mut(self.half)) {
            let (pairs, rest) = from.as_chunks::<2>();
            for (to, &[first, second]) in to.iter_mut().zip(pairs) {
                *to = first.bf16_bits() >> 16 | second.bf16_bits();
            }
            let filled = &mut to[pairs.len()..];
            filled.fill(0);
            for (to, first) in filled.iter_mut().zip(rest) {
                *to = first.bf16_bits() >> 16;
            }
        }
    }
}

struct Down<'a, F> {
    from: &'a [F],
    line: usize,
    step: usize,
    to: &'a mut [u32],
}

impl<F: Real> WithSimd for Down<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (from, to) in self.from.chunks(2 * self.line).zip(self.to.chunks_exact_mut(self.step)) {
            let (first, second) = from.split_at(self.line);
            to[self.line..].fill(0);
            if second.is_empty() {
                for (to, first) in to.iter_mut().zip(first) {
                    *to = first.bf16_bits() >> 16;
                }
            }
            for ((to, first), second) in to.iter_mut().zip(first).zip(second) {
                *to = first.bf16_bits() >> 16 | second.bf16_bits();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream, unit};

    fn noise(seed: u64, len: usize) -> Vec<f32> {
        let mut rng = stream(seed, Purpose::Noise, 0, 0, 0);
        (0..len).map(|_| 2.0 * unit(&mut rng) as f32 - 1.0).collect()
    }

    /// What both ways compute, with sums in double precision.
    struct Expected {
        y: Vec<f64>,
        d_x: Vec<f64>,
        d_weight: Vec<f64>,
    }

    fn expected(shape: Shape, x: &[f32], weight: &[f32], d_y: &[f32]) -> Expected {
        let Shape { rows, inputs, outputs } = shape;
        let low = |value: f32| f64::from(f32::from_bits(value.bf16_bits()));
        let mut found = Expected { y: vec![0.0; rows * outputs], d_x: vec![0.0; rows * inputs], d_weight: vec![0.0; inputs * outputs] };
        for r in 0..rows {
            for i in 0..inputs {
                for o in 0..outputs {
                    let (x, w, d) = (low(x[r * inputs + i]), low(weight[i * outputs + o]), low(d_y[r * outputs + o]));
                    found.y[r * outputs + o] += x * w;
                    found.d_x[r * inputs + i] += d * w;
                    found.d_weight[i * outputs + o] += x * d;
                }
            }
        }
        found
    }

    fn near(found: &[f32], expected: &[f64], what: &str, shape: Shape) {
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                (f64::from(*found) - expected).abs() < 2e-5 * expected.abs().max(1.0),
                "{what} {at} of {shape:?}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn both_ways_agree_with_their_definition_on_all_sizes() {
        let mut laid = Laid::default();
        for n in 1..=70 {
            // Each size meets small and large ones of the others; scratch of one shape serves the next.
            for (rows, inputs, outputs) in [(n, 7, 19), (3, n, 33), (10, 37, n), (n, 71 - n, n + 1), (2, 130 - n, 66 + n)] {
                let shape = Shape { rows, inputs, outputs };
                let x = noise(1, rows * inputs);
                let (weight, bias, d_y) = (noise(2, inputs * outputs), noise(3, outputs), noise(4, rows * outputs));
                let mut want = expected(shape, &x, &weight, &d_y);
                let mut y = vec![0.0f32; rows * outputs];
                forward(shape, &x, &weight, None, false, &mut y, &mut laid);
                near(&y, &want.y, "output", shape);
                forward(shape, &x, &weight, Some(&bias), true, &mut y, &mut laid);
                want.y.iter_mut().enumerate().for_each(|(at, y)| *y = (*y + f64::from(bias[at % outputs])).max(0.0));
                near(&y, &want.y, "output with bias and ReLU", shape);
                for positions in [false, true] {
                    let (mut d_weight, mut d_x) = (noise(5, inputs * outputs), vec![9.0f32; rows * inputs]);
                    let before = d_weight.clone();
                    let (x, weight, d_y) = (&x[..], &weight[..], &d_y[..]);
                    let (to_weight, to_x) = (Some(&mut d_weight[..]), Some(&mut d_x[..]));
                    Backward { shape, x, weight, d_y, d_weight: to_weight, d_bias: None, d_x: to_x, positions }.run(&mut laid);
                    near(&d_x, &want.d_x, "input's gradient", shape);
                    let sum: Vec<f64> = want.d_weight.iter().zip(&before).map(|(d, &b)| d + f64::from(b)).collect();
                    near(&d_weight, &sum, "weight's gradient", shape);
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_rows_beside_it() {
        let (inputs, outputs) = (45, 70);
        let (x, weight) = (noise(1, 23 * inputs), noise(2, inputs * outputs));
        let through = |x: &[f32]| {
            let rows = x.len() / inputs;
            let mut y = vec![0.0f32; rows * outputs];
            forward(Shape { rows, inputs, outputs }, x, &weight, None, false, &mut y, &mut Laid::default());
            y
        };
        let all = through(&x);
        for (x, y) in x.chunks_exact(inputs).zip(all.chunks_exact(outputs)) {
            assert_eq!(through(x), y);
        }
    }
}
