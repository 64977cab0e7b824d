//! Convolutions of groups of channels (depthwise ones among them) and with holes in the kernel.
//!
//! Weights are ordered (row, column, in, out), so that every inner loop runs over channels side by side.

use super::{Backward, Forward, Op, split};
use crate::base::{Fault, Outcome};
use crate::engine::layout::{Init, Order};
use crate::engine::network::Shape;
use crate::engine::plan::{Builder, Slide, positive};
use crate::engine::real::Real;
use crate::engine::simd::{WithSimd, dispatch};
use pulp::Simd;
use std::ops::Range;

/// The geometry, and where the numbers are.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Grouped {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub out: usize,
    pub out_height: usize,
    pub out_width: usize,
    pub slide: Slide,
    pub groups: usize,
    pub weight: Range<usize>,
    pub bias: Option<Range<usize>>,
}

pub(in crate::engine) fn plan(builder: &mut Builder, name: &str, out: usize, slide: Slide, groups: usize, bias: bool) -> Outcome<()> {
    builder.image_only()?;
    let (out_height, out_width) = builder.slide(slide)?;
    positive("output channels", out)?;
    let Shape { channels, height, width } = builder.shape;
    if groups == 0 || !channels.is_multiple_of(groups) || !out.is_multiple_of(groups) {
        return Err(Fault::stage(format!("{channels} input and {out} output channels cannot be divided into {groups} equal groups")));
    }
    let (inputs, positions) = (channels / groups, slide.kernel.0 * slide.kernel.1);
    let init = Init::fan_in(inputs * positions);
    let shape = vec![out, inputs, slide.kernel.0, slide.kernel.1];
    let weight = builder.parameter(format!("{name}.weight"), shape, Order::Grouped { outputs: out, inputs, positions }, init)?;
    let bias = if bias { Some(builder.parameter(format!("{name}.bias"), vec![out], Order::Plain, init)?) } else { None };
    builder.end_layer();
    let grouped = Grouped { channels, height, width, out, out_height, out_width, slide, groups, weight, bias };
    builder.step(Op::Grouped(grouped), Shape { channels: out, height: out_height, width: out_width })
}

impl Grouped {
    /// Calls `each` with the pixel of the output, that of the input and the place in the kernel, wherever the three meet.
    #[inline(always)]
    fn meet(&self, mut each: impl FnMut(usize, usize, usize)) {
        let Slide { kernel, stride, padding, dilation, .. } = self.slide;
        for out_row in 0..self.out_height {
            for out_column in 0..self.out_width {
                for i in 0..kernel.0 {
                    let Some(row) = (out_row * stride.0 + i * dilation.0).checked_sub(padding.0).filter(|&row| row < self.height) else {
                        continue;
                    };
                    for j in 0..kernel.1 {
                        let column = (out_column * stride.1 + j * dilation.1).checked_sub(padding.1);
                        let Some(column) = column.filter(|&column| column < self.width) else { continue };
                        each(out_row * self.out_width + out_column, row * self.width + column, i * kernel.1 + j);
                    }
                }
            }
        }
    }
    fn depthwise(&self) -> bool {
        self.groups == self.channels && self.out == self.channels
    }
}

struct Products<'a, F> {
    grouped: &'a Grouped,
    x: &'a [F],
    weight: &'a [F],
    bias: Option<&'a [F]>,
    y: &'a mut [F],
}

impl<F: Real> WithSimd for Products<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { grouped, x, weight, bias, y } = self;
        let Grouped { channels, out, groups, .. } = *grouped;
        let (inputs, outputs) = (channels / groups, out / groups);
        for pixel in y.chunks_exact_mut(out) {
            match bias {
                Some(bias) => pixel.copy_from_slice(bias),
                None => pixel.fill(F::ZERO),
            }
        }
        let (image, result) = (grouped.height * grouped.width * channels, grouped.out_height * grouped.out_width * out);
        for (x, y) in x.chunks_exact(image).zip(y.chunks_exact_mut(result)) {
            if grouped.depthwise() {
                grouped.meet(|to, from, place| {
                    let y = &mut y[to * out..(to + 1) * out];
                    let terms = x[from * channels..(from + 1) * channels].iter().zip(&weight[place * out..(place + 1) * out]);
                    y.iter_mut().zip(terms).for_each(|(y, (&x, &w))| *y += x * w);
                });
                continue;
            }
            grouped.meet(|to, from, place| {
                for group in 0..groups {
                    let y = &mut y[to * out + group * outputs..][..outputs];
                    for input in 0..inputs {
                        let value = x[from * channels + group * inputs + input];
                        let weight = &weight[(place * inputs + input) * out + group * outputs..][..outputs];
                        y.iter_mut().zip(weight).for_each(|(y, &w)| *y += value * w);
                    }
                }
            });
        }
    }
}

struct ProductsBack<'a, F> {
    grouped: &'a Grouped,
    x: &'a [F],
    weight: &'a [F],
    d_y: &'a [F],
    d_weight: Option<&'a mut [F]>,
    d_bias: Option<&'a mut [F]>,
    d_x: Option<&'a mut [F]>,
}

impl<F: Real> WithSimd for ProductsBack<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { grouped, x, weight, d_y, mut d_weight, d_bias, mut d_x } = self;
        let Grouped { channels, out, groups, .. } = *grouped;
        let (inputs, outputs) = (channels / groups, out / groups);
        if let Some(d_bias) = d_bias {
            for pixel in d_y.chunks_exact(out) {
                d_bias.iter_mut().zip(pixel).for_each(|(sum, &value)| *sum += value);
            }
        }
        let (image, result) = (grouped.height * grouped.width * channels, grouped.out_height * grouped.out_width * out);
        if let Some(d_x) = d_x.as_deref_mut() {
            d_x.fill(F::ZERO);
        }
        for (index, (x, d_y)) in x.chunks_exact(image).zip(d_y.chunks_exact(result)).enumerate() {
            if let Some(d_weight) = d_weight.as_deref_mut() {
                grouped.meet(|to, from, place| {
                    if inputs == 1 && outputs == 1 {
                        let terms = x[from * channels..(from + 1) * channels].iter().zip(&d_y[to * out..(to + 1) * out]);
                        let sums = d_weight[place * out..(place + 1) * out].iter_mut();
                        sums.zip(terms).for_each(|(sum, (&x, &d))| *sum += x * d);
                        return;
                    }
                    for group in 0..groups {
                        let d_y = &d_y[to * out + group * outputs..][..outputs];
                        for input in 0..inputs {
                            let value = x[from * channels + group * inputs + input];
                            let sums = &mut d_weight[(place * inputs + input) * out + group * outputs..][..outputs];
                            sums.iter_mut().zip(d_y).for_each(|(sum, &d)| *sum += value * d);
                        }
                    }
                });
            }
            let Some(d_x) = d_x.as_deref_mut() else { continue };
            let d_x = &mut d_x[index * image..(index + 1) * image];
            grouped.meet(|to, from, place| {
                if inputs == 1 && outputs == 1 {
                    let terms = weight[place * out..(place + 1) * out].iter().zip(&d_y[to * out..(to + 1) * out]);
                    let sums = d_x[from * channels..(from + 1) * channels].iter_mut();
                    sums.zip(terms).for_each(|(sum, (&w, &d))| *sum += w * d);
                    return;
                }
                for group in 0..groups {
                    let d_y = &d_y[to * out + group * outputs..][..outputs];
                    for input in 0..inputs {
                        let weight = &weight[(place * inputs + input) * out + group * outputs..][..outputs];
                        let sum = weight.iter().zip(d_y).fold(F::ZERO, |sum, (&w, &d)| sum + w * d);
                        d_x[from * channels + group * inputs + input] += sum;
                    }
                }
            });
        }
    }
}

pub(super) fn forward<F: Real>(grouped: &Grouped, pass: &mut Forward<'_, F>) {
    dispatch(Products {
        grouped,
        x: &pass.x[..pass.inputs],
        weight: &pass.params[grouped.weight.clone()],
        bias: grouped.bias.clone().map(|bias| &pass.params[bias]),
        y: &mut pass.kept.value[..pass.outputs],
    });
}

pub(super) fn backward<F: Real>(grouped: &Grouped, pass: &mut Backward<'_, F>) {
    let (d_weight, d_bias) = split(pass.gradient.as_deref_mut(), &grouped.weight, grouped.bias.as_ref());
    let scratch = &mut *pass.scratch;
    dispatch(ProductsBack {
        grouped,
        x: &pass.x[..pass.inputs],
        weight: &pass.params[grouped.weight.clone()],
        d_y: &scratch.gradient[..pass.outputs],
        d_weight,
        d_bias,
        d_x: pass.down.then_some(&mut scratch.next[..pass.inputs]),
    });
}
