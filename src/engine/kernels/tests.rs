//! Kernels for this CPU against the same kernels for any CPU, over sizes around the packs' borders.

use super::*;
use crate::base::random::{Purpose, Stream, below, stream, unit};
use crate::engine::simd::dispatch;
use pulp::{Scalar, WithSimd};

fn noise(rng: &mut Stream, len: usize) -> Vec<f64> {
    let mut values: Vec<f64> = (0..len).map(|_| 2.0 * unit(rng) - 1.0).collect();
    // What lies in the slack must not matter.
    values.resize(len + SLACK, 1e30);
    values
}

fn close(what: &str, a: &[f64], b: &[f64]) {
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-9, "{what} {i}: {a} or {b}");
    }
}

/// Runs with the CPU's own instructions or with none.
fn run<K: WithSimd>(portable: bool, kernel: K) -> K::Output {
    if portable { kernel.with_simd(Scalar) } else { dispatch(kernel) }
}

#[test]
fn dense_layers_agree_on_every_path() {
    let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
    for outputs in 1..=70 {
        let (rows, inputs) = (1 + below(&mut rng, 13) as usize, 1 + below(&mut rng, 70) as usize);
        let (x, weight) = (noise(&mut rng, rows * inputs), noise(&mut rng, inputs * outputs));
        let (bias, d_y) = (noise(&mut rng, outputs), noise(&mut rng, rows * outputs));
        let result = |portable: bool| {
            let (mut y, mut d_x) = (vec![0.0; rows * outputs + SLACK], vec![0.0; rows * inputs]);
            let (mut d_weight, mut d_bias) = (vec![0.5; inputs * outputs], vec![0.5; outputs]);
            run(
                portable,
                LinearForward {
                    rows,
                    inputs,
                    outputs,
                    x: &x,
                    weight: &weight[..inputs * outputs],
                    bias: Some(&bias[..outputs]),
                    relu: outputs % 2 == 0,
                    y: &mut y,
                    padded: &mut Vec::new(),
                },
            );
            run(
                portable,
                LinearBackward {
                    rows,
                    inputs,
                    outputs,
                    x: &x,
                    weight: &weight[..inputs * outputs],
                    d_y: &d_y,
                    d_weight: Some(&mut d_weight),
                    d_bias: Some(&mut d_bias),
                    d_x: Some(&mut d_x),
                    padded: &mut Vec::new(),
                    turned: &mut Vec::new(),
                },
            );
            y.truncate(rows * outputs);
            [y, d_x, d_weight, d_bias].concat()
        };
        close(&format!("{rows}x{inputs}x{outputs}"), &result(true), &result(false));
    }
}

#[test]
fn a_dense_layers_step_is_its_gradient_and_update_to_the_last_bit() {
    let mut rng = stream(5, Purpose::Noise, 0, 0, 0);
    for outputs in 1..=70 {
        let (rows, inputs) = (1 + below(&mut rng, 32) as usize, 1 + below(&mut rng, 70) as usize);
        let mut small = |len: usize| noise(&mut rng, len).iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let (x, d_y, weight) = (small(rows * inputs), small(rows * outputs), small(inputs * outputs));
        let (reference, control) = (small(inputs * outputs), small(inputs * outputs));
        let (reference, control) = (&reference[..inputs * outputs], &control[..inputs * outputs]);
        let terms =
            [Term::Decay(0.3), Term::Proximal(0.2, reference), Term::Add(control), Term::Subtract(reference), Term::Proximal(0.1, control)];
        let (from, to) = [(0, 0), (0, 1), (1, 3), (2, 4), (0, 5)][outputs % 5];
        let terms = &terms[from..to];
        for portable in [true, false] {
            let (mut one, mut two) = (weight[..inputs * outputs].to_vec(), weight[..inputs * outputs].to_vec());
            let (mut one_x, mut two_x) = (vec![0.0; rows * inputs], vec![0.0; rows * inputs]);
            let (mut one_bias, mut two_bias) = (vec![0.5; outputs], vec![0.5; outputs]);
            let (x, d_y) = (&x, &d_y);
            let (padded, turned) = (&mut Vec::new(), &mut Vec::new());
            let (d_bias, d_x, rate) = (Some(&mut one_bias[..]), Some(&mut one_x[..]), 0.1);
            run(portable, LinearDescent { rows, inputs, outputs, x, d_y, weight: &mut one, rate, terms, d_bias, d_x, padded, turned });
            let mut gradient = vec![0.0; two.len()];
            let (d_weight, weight) = (Some(&mut gradient[..]), &two[..]);
            let (d_bias, d_x) = (Some(&mut two_bias[..]), Some(&mut two_x[..]));
            run(portable, LinearBackward { rows, inputs, outputs, x, weight, d_y, d_weight, d_bias, d_x, padded, turned });
            run(portable, Update { params: &mut two, gradient: &gradient, lr: 0.1, terms });
            assert!(one == two && one_x == two_x && one_bias == two_bias, "{rows}x{inputs}x{outputs}");
        }
    }
}

#[test]
fn convolutions_agree_on_every_path() {
    let mut rng = stream(2, Purpose::Noise, 0, 0, 0);
    let mut pick = |low: usize, high: usize| low + below(&mut rng, (high - low + 1) as u64) as usize;
    let mut shapes = Vec::new();
    for out in 1..=70 {
        let (kernel, padding) = ((pick(1, 5), pick(1, 5)), (pick(0, 2), pick(0, 2)));
        let (height, width, channels) = (pick(kernel.0 + 1, 11), pick(kernel.1 + 1, 11), pick(1, 20));
        let stride = (pick(1, 2), pick(1, 2));
        let out_height = (height + 2 * padding.0 - kernel.0) / stride.0 + 1;
        let out_width = (width + 2 * padding.1 - kernel.1) / stride.1 + 1;
        let conv = Conv { channels, height, width, out, kernel, stride, padding, out_height, out_width };
        let size = (pick(1, out_height.min(3)), pick(1, out_width.min(3)));
        let step = (pick(1, 2), pick(1, 2));
        let window = (out % 3 > 0).then(|| Window {
            kernel: size,
            stride: step,
            out_height: (out_height - size.0) / step.0 + 1,
            out_width: (out_width - size.1) / step.1 + 1,
            ..Window::single(out, out_height, out_width)
        });
        shapes.push((conv, window, pick(1, 4)));
    }
    for (conv, window, rows) in shapes {
        let outputs = rows * window.map_or(conv.positions(), |w| w.out_height * w.out_width) * conv.out;
        let x = noise(&mut rng, rows * conv.padded_len());
        let (weight, bias) = (noise(&mut rng, conv.out * conv.patch()), noise(&mut rng, conv.out));
        let (weight, bias) = (&weight[..conv.out * conv.patch()], &bias[..conv.out]);
        let d_out = noise(&mut rng, outputs);
        let result = |portable: bool| {
            let (mut out, mut picks) = (vec![0.0; outputs + SLACK], vec![0; outputs]);
            run(
                portable,
                ConvForward {
                    conv,
                    window,
                    relu: conv.out % 2 == 0,
                    rows,
                    x: &x,
                    weight,
                    bias: Some(bias),
                    out: &mut out,
                    picks: &mut picks,
                    packed: &mut Vec::new(),
                    padded_bias: &mut Vec::new(),
                    plane: &mut Vec::new(),
                    tiles: &mut Tiles::default(),
                    taps: &mut Taps::default(),
                },
            );
            let (mut d_weight, mut d_bias, mut d_x) = (vec![0.5; weight.len()], vec![0.5; conv.out], Vec::new());
            run(
                portable,
                ConvBackward {
                    conv,
                    window,
                    rows,
                    x: &x,
                    weight,
                    d_out: &d_out,
                    picks: &picks,
                    d_weight: Some(&mut d_weight),
                    d_bias: Some(&mut d_bias),
                    d_x: Some(&mut d_x),
                    entries: &mut Entries::default(),
                    packed: &mut Vec::new(),
                    tiles: &mut Tiles::default(),
                    taps: &mut Taps::default(),
                },
            );
            out.truncate(outputs);
            d_x.truncate(rows * conv.padded_len());
            [out, d_x, d_weight, d_bias].concat()
        };
        close(&format!("{conv:?} {window:?}"), &result(true), &result(false));
    }
}

/// A convolution and its gradients by their definition, all in (image, position, channel).
fn by_definition(conv: &Conv, rows: usize, x: &[f64], weight: &[f64], d_out: &[f64]) -> [Vec<f64>; 3] {
    let mut out = vec![0.0; rows * conv.positions() * conv.out];
    let (mut d_weight, mut d_x) = (vec![0.0; weight.len()], vec![0.0; rows * conv.padded_len()]);
    for at in 0..out.len() {
        let (channel, position, row) = (at % conv.out, at / conv.out % conv.positions(), at / conv.out / conv.positions());
        let start = row * conv.padded_len() + conv.patch_start(position / conv.out_width, position % conv.out_width);
        for element in 0..conv.patch() {
            let from = start + element / conv.row() * conv.row_stride() + element % conv.row();
            let filter = channel * conv.patch() + element;
            out[at] += x[from] * weight[filter];
            d_weight[filter] += x[from] * d_out[at];
            d_x[from] += weight[filter] * d_out[at];
        }
    }
    [out, d_weight, d_x]
}

/// Convolutions without a pool: of both tile sizes, of incomplete tiles, with a border, and of kernels that have no tiles.
fn plain_convolutions() -> Vec<(Conv, usize)> {
    let mut rng = stream(4, Purpose::Noise, 0, 0, 0);
    let mut pick = |low: usize, high: usize| low + below(&mut rng, (high - low + 1) as u64) as usize;
    let mut shapes = Vec::new();
    for out in 5..40 {
        let side = [1, 3, 5][out % 3];
        let (stride, padding) = (if out % 7 == 0 { 2 } else { 1 }, pick(0, 2));
        let (height, width, channels) = (pick(side + 1, 13), pick(side + 1, 13), pick(1, 40));
        let size = |size: usize| (size + 2 * padding - side) / stride + 1;
        let conv = Conv {
            channels,
            height,
            width,
            out,
            kernel: (side, side),
            stride: (stride, stride),
            padding: (padding, padding),
            out_height: size(height),
            out_width: size(width),
        };
        shapes.push((conv, pick(1, 9)));
        // Whole packs of input channels.
        let (side, stride) = (pick(1, 3), pick(1, 2));
        let (height, width) = (pick(1, 7), pick(1, 7));
        let padding = if height.min(width) < side { side - 1 } else { pick(0, 2) };
        let size = |size: usize| (size + 2 * padding - side) / stride + 1;
        let conv = Conv {
            channels: 16 * pick(1, 6),
            height,
            width,
            kernel: (side, side),
            stride: (stride, stride),
            padding: (padding, padding),
            out_height: size(height),
            out_width: size(width),
            ..conv
        };
        shapes.push((conv, pick(1, 9)));
    }
    assert!(shapes.iter().filter(|(conv, _)| winograd::fits(conv)).count() > 10, "all ways are tried");
    assert!(shapes.iter().filter(|(conv, _)| taps::fits_forward(conv)).count() > 5, "all ways are tried");
    shapes
}

/// Output, gradient of the weight and of the input on this CPU, in the precision asked for.
fn plain<F: Real>(conv: Conv, rows: usize, values: [&[f64]; 3]) -> [Vec<f64>; 3] {
    let [x, weight, d_out] = values.map(|values| values.iter().map(|&value| F::from_f64(value)).collect::<Vec<F>>());
    let outputs = rows * conv.positions() * conv.out;
    let (mut out, mut d_weight, mut d_x) = (vec![F::ZERO; outputs + SLACK], vec![F::ZERO; weight.len()], Vec::new());
    dispatch(ConvForward {
        conv,
        window: None,
        relu: false,
        rows,
        x: &x,
        weight: &weight,
        bias: None,
        out: &mut out,
        picks: &mut [],
        packed: &mut Vec::new(),
        padded_bias: &mut Vec::new(),
        plane: &mut Vec::new(),
        tiles: &mut Tiles::default(),
        taps: &mut Taps::default(),
    });
    dispatch(ConvBackward {
        conv,
        window: None,
        rows,
        x: &x,
        weight: &weight,
        d_out: &d_out,
        picks: &[],
        d_weight: Some(&mut d_weight),
        d_bias: None,
        d_x: Some(&mut d_x),
        entries: &mut Entries::default(),
        packed: &mut Vec::new(),
        tiles: &mut Tiles::default(),
        taps: &mut Taps::default(),
    });
    out.truncate(outputs);
    // What lies in the border is not looked at by anybody.
    let mut inner = vec![F::ZERO; rows * conv.height * conv.width * conv.channels];
    unpad(&conv, rows, &d_x, &mut inner);
    [out, d_weight, inner].map(|values| values.into_iter().map(Real::to_f64).collect())
}

#[test]
fn convolutions_and_their_gradients_are_what_their_definition_says() {
    let mut rng = stream(5, Purpose::Noise, 0, 0, 0);
    for (conv, rows) in plain_convolutions() {
        let inside = noise(&mut rng, rows * conv.height * conv.width * conv.channels);
        let mut x = Vec::new();
        pad(&conv, rows, &inside, &mut x);
        let weight = noise(&mut rng, conv.out * conv.patch());
        let weight = &weight[..conv.out * conv.patch()];
        let d_out = noise(&mut rng, rows * conv.positions() * conv.out);
        let d_out = &d_out[..rows * conv.positions() * conv.out];
        let mut wanted = by_definition(&conv, rows, &x, weight, d_out);
        let mut inner = vec![0.0; inside.len() - SLACK];
        unpad(&conv, rows, &wanted[2], &mut inner);
        wanted[2] = inner;
        for (what, (wanted, found)) in wanted.iter().zip(plain::<f64>(conv, rows, [&x, weight, d_out])).enumerate() {
            close(&format!("{conv:?} {what}"), wanted, &found);
        }
        for (what, (wanted, found)) in wanted.iter().zip(plain::<f32>(conv, rows, [&x, weight, d_out])).enumerate() {
            let scale = wanted.iter().fold(1.0f64, |scale, value| scale.max(value.abs()));
            let worst = wanted.iter().zip(&found).fold(0.0f64, |worst, (a, b)| worst.max((a - b).abs()));
            assert!(worst < 5e-6 * scale, "{conv:?} {what}: {worst} of {scale}");
        }
    }
}

/// Result, gradient of the input, of weight and bias, and running variance of a normalisation in one piece, with or without its pool.
fn norm(portable: bool, window: Window, rows: usize, fused: bool, relu: bool, [x, weight, bias, d_y]: [&[f64]; 4]) -> Vec<f64> {
    let (channels, positions) = (window.channels, window.height * window.width);
    let total = rows * positions * channels;
    let outputs = rows * window.out_height * window.out_width * channels;
    let (mut y, mut picks, mut places) = (vec![0.0; total.max(outputs)], vec![0; outputs], Vec::new());
    let (mut mean, mut variance) = (vec![0.0; channels], vec![1.0; channels]);
    let (mut statistics, mut plane) = (Statistics::default(), Vec::new());
    run(
        portable,
        NormForward {
            x: &x[..total],
            weight: &weight[..channels],
            bias: &bias[..channels],
            eps: 1e-5,
            fixed: None,
            running: Some((&mut mean, &mut variance)),
            relu,
            window: fused.then_some(window),
            y: &mut y,
            picks: &mut picks,
            statistics: &mut statistics,
            plane: &mut plane,
        },
    );
    let mut d = d_y[..outputs].to_vec();
    if !fused {
        let mut pooled = vec![0.0; outputs];
        pool_forward(&window, rows, &y, &mut pooled, &mut places);
        d = vec![0.0; total];
        pool_backward(&window, rows, d_y, &places, &mut d);
        if relu {
            relu_backward(&mut d, &y[..total]);
        }
        y = pooled;
    }
    let (mut d_weight, mut d_bias, mut d_x) = (vec![0.5; channels], vec![0.5; channels], vec![0.0; total]);
    run(
        portable,
        NormBackward {
            x: &x[..total],
            weight: &weight[..channels],
            d_y: &d,
            window: fused.then_some(window),
            picks: &picks,
            statistics: &mut statistics,
            gradients: Some((&mut d_weight, &mut d_bias)),
            d_x: Some(&mut d_x),
            plane: &mut plane,
        },
    );
    y.truncate(outputs);
    [y, d_x, d_weight, d_bias, mean, variance].concat()
}

#[test]
fn normalisations_agree_on_every_path_and_with_their_pool_apart() {
    let mut rng = stream(6, Purpose::Noise, 0, 0, 0);
    for channels in 1..=70 {
        let mut pick = |low: usize, high: usize| low + below(&mut rng, (high - low + 1) as u64) as usize;
        let (height, width, rows) = (pick(2, 7), pick(2, 7), pick(1, 4));
        let (kernel, stride, padding) = ((pick(1, 2), pick(1, 2)), (pick(1, 2), pick(1, 2)), (channels % 2, 0));
        let padding = (padding.0.min(kernel.0 / 2), padding.1);
        let window = Window {
            kernel,
            stride,
            padding,
            out_height: (height + 2 * padding.0 - kernel.0) / stride.0 + 1,
            out_width: (width - kernel.1) / stride.1 + 1,
            ..Window::single(channels, height, width)
        };
        let total = rows * height * width * channels;
        let values = [noise(&mut rng, total), noise(&mut rng, channels), noise(&mut rng, channels), noise(&mut rng, 2 * total)];
        let values = [&values[0][..], &values[1], &values[2], &values[3]];
        let relu = channels % 3 > 0;
        let wanted = norm(true, window, rows, false, relu, values);
        for (portable, fused) in [(true, true), (false, false), (false, true)] {
            close(&format!("{window:?} {portable} {fused}"), &wanted, &norm(portable, window, rows, fused, relu, values));
        }
    }
}

#[test]
fn an_update_agrees_on_every_path() {
    let mut rng = stream(3, Purpose::Noise, 0, 0, 0);
    for len in [1, 7, 8, 127, 128, 300] {
        let (params, gradient, reference) = (noise(&mut rng, len), noise(&mut rng, len), noise(&mut rng, len));
        let result = |portable: bool| {
            let mut params = params[..len].to_vec();
            let terms = [Term::Proximal(0.3, &reference[..len]), Term::Decay(0.1), Term::Add(&reference[..len])];
            run(portable, Update { params: &mut params, gradient: &gradient[..len], lr: 0.5, terms: &terms });
            params
        };
        close("update", &result(true), &result(false));
        let by_hand = |i: usize| {
            let p = params[i];
            p - 0.5 * (gradient[i] + 0.3 * (p - reference[i]) + 0.1 * p + reference[i])
        };
        close("by hand", &result(false), &(0..len).map(by_hand).collect::<Vec<_>>());
    }
}
