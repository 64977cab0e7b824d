//! Convolutions of many channels, tap by tap: an element of the kernel joins a pixel of the input with one of the output, as a product of
//! the channels of both.
//!
//! Where the transform of [`super::winograd`] does not pay (large filters, strides, 1x1 kernels, images of a few pixels), this reads the
//! weights as they lie, once for several pixels, and never multiplies with the border: in an image of one pixel only one of nine taps of
//! a 3x3 kernel meets it.

use super::Conv;
use crate::engine::real::Real;
use pulp::Simd;

/// Channels of input pixels are whole packs of every instruction set.
const WHOLE: usize = 16;
/// Numbers in a filter from which on the sums of lanes at its end do not matter.
const LONG: usize = 256;

/// Where an input's and an output's channels begin: in the padded images, and in the outputs.
#[derive(Clone, Copy, Debug)]
struct Pair {
    x: usize,
    y: usize,
}

impl Pair {
    /// An output of an image, and the pixel that lies `shift` behind the beginning of its patch.
    fn of(conv: &Conv, image: usize, (y, x): (usize, usize), shift: usize) -> Self {
        Self {
            x: image * conv.padded_len() + conv.patch_start(y, x) + shift,
            y: (image * conv.positions() + y * conv.out_width + x) * conv.out,
        }
    }
}

/// Outputs whose patches have the same rows and columns of the kernel inside the image.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Of the list of pairs; `x` is where the patch begins.
    places: (usize, usize),
    rows: (usize, usize),
    columns: (usize, usize),
}

/// Lists that only grow.
#[derive(Debug, Default)]
pub(in crate::engine) struct Taps {
    pairs: Vec<Pair>,
    groups: Vec<Group>,
}

/// Whether the way back of a convolution without a pool goes by taps.
pub(super) fn fits(conv: &Conv) -> bool {
    conv.channels.is_multiple_of(WHOLE) && conv.out >= 8 && (!super::winograd::fits(conv) || conv.out_height.min(conv.out_width) <= 2)
}

/// Whether the way forward does, too.
pub(super) fn fits_forward(conv: &Conv) -> bool {
    fits(conv) && conv.patch() >= LONG
}

/// Outputs from which on element `tap` of the kernel lies inside the image, and the one at which it no longer does.
fn inside(tap: usize, (size, outputs): (usize, usize), stride: usize, padding: usize) -> (usize, usize) {
    let from = padding.saturating_sub(tap).div_ceil(stride);
    let to = (size + padding).saturating_sub(tap).div_ceil(stride).min(outputs);
    (from, to.max(from))
}

/// Elements of the kernel that lie inside the image at output `at`.
fn within(at: usize, kernel: usize, size: usize, stride: usize, padding: usize) -> (usize, usize) {
    let from = padding.saturating_sub(at * stride).min(kernel);
    (from, (size + padding).saturating_sub(at * stride).min(kernel).max(from))
}

/// Calls `each` with each run of outputs of equal `within`.
fn runs(outputs: usize, kernel: usize, size: usize, stride: usize, padding: usize, mut each: impl FnMut((usize, usize), (usize, usize))) {
    let mut from = 0;
    while from < outputs {
        let taps = within(from, kernel, size, stride, padding);
        let mut to = from + 1;
        while to < outputs && within(to, kernel, size, stride, padding) == taps {
            to += 1;
        }
        each((from, to), taps);
        from = to;
    }
}

impl Taps {
    fn group(&mut self, conv: &Conv, images: usize) {
        self.pairs.clear();
        self.groups.clear();
        runs(conv.out_height, conv.kernel.0, conv.height, conv.stride.0, conv.padding.0, |ys, rows| {
            runs(conv.out_width, conv.kernel.1, conv.width, conv.stride.1, conv.padding.1, |xs, columns| {
                let first = self.pairs.len();
                for image in 0..images {
                    for y in ys.0..ys.1 {
                        self.pairs.extend((xs.0..xs.1).map(|x| Pair::of(conv, image, (y, x), 0)));
                    }
                }
                self.groups.push(Group { places: (first, self.pairs.len()), rows, columns });
            });
        });
    }
    /// The pairs that a tap joins.
    fn join(&mut self, conv: &Conv, images: usize, tap: (usize, usize)) {
        self.pairs.clear();
        let (top, bottom) = inside(tap.0, (conv.height, conv.out_height), conv.stride.0, conv.padding.0);
        let (left, right) = inside(tap.1, (conv.width, conv.out_width), conv.stride.1, conv.padding.1);
        let shift = tap.0 * conv.row_stride() + tap.1 * conv.channels;
        for image in 0..images {
            for y in top..bottom {
                self.pairs.extend((left..right).map(|x| Pair::of(conv, image, (y, x), shift)));
            }
        }
    }
}

/// Writes `conv(x) + bias` of all images, (image, position, out).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn forward<F: Real, S: Simd>(
    simd: S,
    conv: &Conv,
    images: usize,
    x: &[F],
    weight: &[F],
    bias: Option<&[F]>,
    out: &mut [F],
    taps: &mut Taps,
) {
    taps.group(conv, images);
    let mut from = 0;
    while from < conv.out {
        from += match conv.out - from {
            left if left >= 4 => outputs::<F, S, 4>(simd, conv, from, x, weight, bias, out, taps),
            _ => outputs::<F, S, 1>(simd, conv, from, x, weight, bias, out, taps),
        };
    }
}

/// Output channels from `from` on, whose filters stay near; returns `OUT`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn outputs<F: Real, S: Simd, const OUT: usize>(
    simd: S,
    conv: &Conv,
    from: usize,
    x: &[F],
    weight: &[F],
    bias: Option<&[F]>,
    out: &mut [F],
    taps: &Taps,
) -> usize {
    let filters = &weight[from * conv.patch()..(from + OUT) * conv.patch()];
    let mut start = [F::ZERO; OUT];
    if let Some(bias) = bias {
        start.copy_from_slice(&bias[from..from + OUT]);
    }
    for group in &taps.groups {
        let mut places = &taps.pairs[group.places.0..group.places.1];
        while !places.is_empty() {
            // Of 32 registers 20 hold sums, of 16 eight.
            let count = match places.len() {
                left if left >= 5 && S::F32_LANES == 16 => {
                    dots::<F, S, OUT, 5>(simd, conv, group, places, x, filters, start, &mut out[from..])
                }
                left if left >= 2 => dots::<F, S, OUT, 2>(simd, conv, group, places, x, filters, start, &mut out[from..]),
                _ => dots::<F, S, OUT, 1>(simd, conv, group, places, x, filters, start, &mut out[from..]),
            };
            places = &places[count..];
        }
    }
    OUT
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn dots<F: Real, S: Simd, const OUT: usize, const PLACES: usize>(
    simd: S,
    conv: &Conv,
    group: &Group,
    places: &[Pair],
    x: &[F],
    filters: &[F],
    start: [F; OUT],
    out: &mut [F],
) -> usize {
    let patch = conv.patch();
    let run = (group.columns.1 - group.columns.0) * conv.channels;
    let mut sums = [[F::splat(simd, F::ZERO); OUT]; PLACES];
    for i in group.rows.0..group.rows.1 {
        let (at, shift) = (i * conv.row() + group.columns.0 * conv.channels, i * conv.row_stride() + group.columns.0 * conv.channels);
        let (first, _) = F::packs::<S>(&filters[at..at + run]);
        let mut own = [first; OUT];
        for o in 1..OUT {
            own[o] = F::packs::<S>(&filters[o * patch + at..][..run]).0;
        }
        let mut inputs = [first; PLACES];
        for p in 0..PLACES {
            inputs[p] = F::packs::<S>(&x[places[p].x + shift..][..run]).0;
        }
        let packs = first.len();
        for o in 0..OUT {
            own[o] = &own[o][..packs];
        }
        for p in 0..PLACES {
            inputs[p] = &inputs[p][..packs];
        }
        for k in 0..packs {
            let mut filter = [own[0][k]; OUT];
            for o in 1..OUT {
                filter[o] = own[o][k];
            }
            for p in 0..PLACES {
                let input = inputs[p][k];
                for o in 0..OUT {
                    sums[p][o] = F::pack_mul_add(simd, input, filter[o], sums[p][o]);
                }
            }
        }
    }
    for (p, sums) in sums.iter().enumerate() {
        for (o, &sum) in sums.iter().enumerate() {
            out[places[p].y + o] = F::pack_sum(simd, sum) + start[o];
        }
    }
    PLACES
}

/// Adds to the gradient of the weight, and to that of the padded images.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn backward<F: Real, S: Simd>(
    simd: S,
    conv: &Conv,
    images: usize,
    x: &[F],
    weight: &[F],
    d_out: &[F],
    mut d_weight: Option<&mut [F]>,
    mut d_x: Option<&mut [F]>,
    taps: &mut Taps,
) {
    for i in 0..conv.kernel.0 {
        for j in 0..conv.kernel.1 {
            taps.join(conv, images, (i, j));
            let at = i * conv.row() + j * conv.channels;
            if let Some(d_weight) = d_weight.as_deref_mut() {
                weight_gradient(simd, conv, &taps.pairs, x, d_out, &mut d_weight[at..]);
            }
            if let Some(d_x) = d_x.as_deref_mut() {
                input_gradient(simd, conv, &taps.pairs, &weight[at..], d_out, d_x);
            }
        }
    }
}

/// The products of all pairs, summed in registers: some output channels times two packs of input channels.
#[inline(always)]
fn weight_gradient<F: Real, S: Simd>(simd: S, conv: &Conv, pairs: &[Pair], x: &[F], d_out: &[F], d_weight: &mut [F]) {
    if pairs.is_empty() {
        return;
    }
    let packs = conv.channels / F::lanes::<S>();
    let mut pack = 0;
    while pack < packs {
        pack += match packs - pack {
            left if left >= 2 => columns::<F, S, 2>(simd, conv, pairs, pack, x, d_out, d_weight),
            _ => columns::<F, S, 1>(simd, conv, pairs, pack, x, d_out, d_weight),
        };
    }
}

#[inline(always)]
fn columns<F: Real, S: Simd, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    pairs: &[Pair],
    pack: usize,
    x: &[F],
    d_out: &[F],
    d_weight: &mut [F],
) -> usize {
    let mut from = 0;
    while from < conv.out {
        let d_weight = &mut d_weight[from * conv.patch()..];
        from += match conv.out - from {
            left if left >= 8 && S::F32_LANES == 16 => outer::<F, S, 8, PACKS>(simd, conv, pairs, (from, pack), x, d_out, d_weight),
            left if left >= 4 => outer::<F, S, 4, PACKS>(simd, conv, pairs, (from, pack), x, d_out, d_weight),
            _ => outer::<F, S, 1, PACKS>(simd, conv, pairs, (from, pack), x, d_out, d_weight),
        };
    }
    PACKS
}

/// Output channels and packs of input channels from `first` on; returns `OUT`.
#[inline(always)]
fn outer<F: Real, S: Simd, const OUT: usize, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    pairs: &[Pair],
    first: (usize, usize),
    x: &[F],
    d_out: &[F],
    d_weight: &mut [F],
) -> usize {
    let (lanes, patch) = (F::lanes::<S>(), conv.patch());
    let (width, shift) = (PACKS * lanes, first.1 * lanes);
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; OUT];
    for pair in pairs {
        let (x, _) = F::packs::<S>(&x[pair.x + shift..][..width]);
        let d_out = &d_out[pair.y + first.0..][..OUT];
        for o in 0..OUT {
            let value = F::splat(simd, d_out[o]);
            for p in 0..PACKS {
                sums[o][p] = F::pack_mul_add(simd, value, x[p], sums[o][p]);
            }
        }
    }
    for (o, sums) in sums.iter().enumerate() {
        let (target, _) = F::packs_mut::<S>(&mut d_weight[o * patch + shift..][..width]);
        for p in 0..PACKS {
            target[p] = F::pack_add(simd, target[p], sums[p]);
        }
    }
    OUT
}

/// The products with all filters, summed in registers: some pixels times some packs of input channels.
#[inline(always)]
fn input_gradient<F: Real, S: Simd>(simd: S, conv: &Conv, pairs: &[Pair], weight: &[F], d_out: &[F], d_x: &mut [F]) {
    let packs = conv.channels / F::lanes::<S>();
    let mut pack = 0;
    while pack < packs {
        pack += match packs - pack {
            left if left >= 4 && S::F32_LANES == 16 => pixels::<F, S, 4>(simd, conv, pairs, pack, weight, d_out, d_x),
            left if left >= 2 => pixels::<F, S, 2>(simd, conv, pairs, pack, weight, d_out, d_x),
            _ => pixels::<F, S, 1>(simd, conv, pairs, pack, weight, d_out, d_x),
        };
    }
}

#[inline(always)]
fn pixels<F: Real, S: Simd, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    pairs: &[Pair],
    pack: usize,
    weight: &[F],
    d_out: &[F],
    d_x: &mut [F],
) -> usize {
    let mut pairs = pairs;
    while !pairs.is_empty() {
        let count = match pairs.len() {
            left if left >= 6 => pixel_tile::<F, S, 6, PACKS>(simd, conv, pairs, pack, weight, d_out, d_x),
            left if left >= 2 => pixel_tile::<F, S, 2, PACKS>(simd, conv, pairs, pack, weight, d_out, d_x),
            _ => pixel_tile::<F, S, 1, PACKS>(simd, conv, pairs, pack, weight, d_out, d_x),
        };
        pairs = &pairs[count..];
    }
    PACKS
}

#[inline(always)]
fn pixel_tile<F: Real, S: Simd, const PLACES: usize, const PACKS: usize>(
    simd: S,
    conv: &Conv,
    pairs: &[Pair],
    pack: usize,
    weight: &[F],
    d_out: &[F],
    d_x: &mut [F],
) -> usize {
    let (lanes, patch) = (F::lanes::<S>(), conv.patch());
    let (width, shift) = (PACKS * lanes, pack * lanes);
    let mut sums = [[F::splat(simd, F::ZERO); PACKS]; PLACES];
    let mut gradients: [&[F]; PLACES] = [&[]; PLACES];
    for p in 0..PLACES {
        sums[p].copy_from_slice(F::packs::<S>(&d_x[pairs[p].x + shift..][..width]).0);
        gradients[p] = &d_out[pairs[p].y..][..conv.out];
    }
    for o in 0..conv.out {
        let (filter, _) = F::packs::<S>(&weight[o * patch + shift..][..width]);
        for p in 0..PLACES {
            let value = F::splat(simd, gradients[p][o]);
            for k in 0..PACKS {
                sums[p][k] = F::pack_mul_add(simd, value, filter[k], sums[p][k]);
            }
        }
    }
    for p in 0..PLACES {
        F::packs_mut::<S>(&mut d_x[pairs[p].x + shift..][..width]).0.copy_from_slice(&sums[p]);
    }
    PLACES
}
