//! What works on each position of a sequence, an image of height 1, by itself: a dense layer, the signs of places, and the choice of
//! one position.

use super::linear::Rows;
use super::{Backward, Forward, Op};
use crate::base::{Fault, Outcome};
use crate::engine::kernels::reserve;
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, positive};
use crate::engine::real::Real;
use std::ops::Range;

/// A dense layer with the same weights at every position.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Dense {
    pub inputs: usize,
    pub outputs: usize,
    pub positions: usize,
    pub weight: Range<usize>,
    pub bias: Option<Range<usize>>,
}

pub(in crate::engine) fn plan_dense(builder: &mut Builder, name: &str, out: usize, bias: bool) -> Outcome<()> {
    builder.image_only()?;
    positive("outputs", out)?;
    let Shape { channels: inputs, height, width } = builder.shape;
    let (order, init) = (Order::Linear { inputs, outputs: out, channels: 0 }, Init::fan_in(inputs));
    let weight = builder.parameter(format!("{name}.weight"), vec![out, inputs], order, init)?;
    let bias = if bias { Some(builder.parameter(format!("{name}.bias"), vec![out], Order::Plain, init)?) } else { None };
    builder.end_layer();
    let dense = Dense { inputs, outputs: out, positions: height * width, weight, bias };
    builder.step(Op::Dense(dense), Shape { channels: out, height, width })
}

pub(super) fn forward<F: Real>(dense: &Dense, pass: &mut Forward<'_, F>) {
    dense.rows().forward(false, pass);
}

pub(super) fn backward<F: Real>(dense: &Dense, pass: &mut Backward<'_, F>) {
    dense.rows().backward(pass);
}

impl Dense {
    fn rows(&self) -> Rows<'_> {
        let &Self { inputs, outputs, positions, ref weight, ref bias } = self;
        Rows { positions, inputs, outputs, weight, bias: bias.as_ref() }
    }
}

/// A scale, and a fixed number added to each element by its position: sines and cosines of falling frequency.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Signs {
    pub scale: f64,
    /// What is added to a sample.
    pub table: Vec<f64>,
}

pub(in crate::engine) fn plan_signs(builder: &mut Builder, scale: f64) -> Outcome<()> {
    builder.image_only()?;
    let shape = builder.shape;
    let width = shape.channels;
    let sign = |at: usize| {
        let (position, channel) = (at / width, at % width);
        // Torch computes the table in f32; its last bit is not followed.
        let angle = position as f64 * (-((channel - channel % 2) as f64) * 10_000_f64.ln() / width as f64).exp();
        if channel % 2 == 0 { angle.sin() } else { angle.cos() }
    };
    let table = (0..shape.numel()).map(sign).collect();
    builder.step(Op::Signs(Signs { scale, table }), shape)
}

pub(super) fn signs_forward<F: Real>(signs: &Signs, pass: &mut Forward<'_, F>) {
    let scale = F::from_f64(signs.scale);
    let samples = pass.kept.value[..pass.outputs].chunks_exact_mut(signs.table.len()).zip(pass.x.chunks_exact(signs.table.len()));
    for (y, x) in samples {
        for ((y, &x), &sign) in y.iter_mut().zip(x).zip(&signs.table) {
            *y = x * scale + F::from_f64(sign);
        }
    }
}

pub(super) fn signs_backward<F: Real>(signs: &Signs, pass: &mut Backward<'_, F>) {
    if pass.down {
        let scale = F::from_f64(signs.scale);
        let d_y = &pass.scratch.gradient[..pass.outputs];
        pass.scratch.next[..pass.inputs].iter_mut().zip(d_y).for_each(|(d_x, &d_y)| *d_x = d_y * scale);
    }
}

/// Which position of a sequence is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The first one.
    First,
    /// The last one, whatever stands there.
    Last,
    /// That of the last word which is not this one, the padding of the network's input; the first one where there is none.
    LastWord {
        /// The word that fills a text up.
        padding: usize,
    },
}

/// The choice of a position.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Pick {
    pub at: At,
    pub width: usize,
    pub positions: usize,
}

pub(in crate::engine) fn plan_pick(builder: &mut Builder, at: At, words: Shape) -> Outcome<()> {
    builder.image_only()?;
    let Shape { channels: width, height, width: positions } = builder.shape;
    if height != 1 {
        return Err(Fault::stage("a position is chosen of a sequence, which is an image of height 1"));
    }
    if matches!(at, At::LastWord { .. }) && words.numel() != positions {
        return Err(Fault::stage(format!("the input has {} words, but the sequence {positions} positions", words.numel())));
    }
    builder.flat = true;
    builder.image = 0;
    builder.step(Op::Pick(Pick { at, width, positions }), Shape::vector(width))
}

impl Pick {
    /// The position that is taken of each sample, by the network's input.
    pub fn places<F: Real>(self, rows: usize, input: &[F]) -> impl Iterator<Item = usize> {
        (0..rows).map(move |row| match self.at {
            At::First => 0,
            At::Last => self.positions - 1,
            At::LastWord { padding } => {
                let words = &input[row * self.positions..][..self.positions];
                words.iter().rposition(|word| word.to_f64() as usize != padding).unwrap_or(0)
            }
        })
    }
}

pub(super) fn pick_forward<F: Real>(pick: Pick, pass: &mut Forward<'_, F>) {
    let Pick { width, positions, .. } = pick;
    let places = &mut pass.kept.places;
    places.clear();
    places.extend(pick.places(pass.rows, pass.values.get(0)).map(|place| place as u32));
    let samples = pass.kept.value[..pass.outputs].chunks_exact_mut(width).zip(pass.x.chunks_exact(positions * width));
    for ((y, x), &place) in samples.zip(places.iter()) {
        y.copy_from_slice(&x[place as usize * width..][..width]);
    }
}

pub(super) fn pick_backward<F: Real>(pick: Pick, pass: &mut Backward<'_, F>) {
    if !pass.down {
        return;
    }
    let Pick { width, positions, .. } = pick;
    let scratch = &mut *pass.scratch;
    reserve(&mut scratch.next, pass.inputs);
    scratch.next[..pass.inputs].fill(F::ZERO);
    let samples = scratch.next[..pass.inputs].chunks_exact_mut(positions * width).zip(scratch.gradient.chunks_exact(width));
    for ((d_x, d_y), &place) in samples.zip(&pass.kept.places) {
        d_x[place as usize * width..][..width].copy_from_slice(d_y);
    }
}
