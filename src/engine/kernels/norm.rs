//! Batch normalisation, forward and backward, over rows of channels.
//!
//! Sums over the batch are kept in `f64`: they are few, and a mean is then as good as its inputs.

use crate::engine::real::Real;

/// What a forward pass leaves for the backward pass, by channel.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Statistics<F> {
    pub mean: Vec<F>,
    /// `1 / sqrt(variance + eps)`.
    pub scale: Vec<F>,
    /// Whether mean and variance are those of this batch.
    pub batch: bool,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

/// Share of the newest batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// `y = (x - mean) / sqrt(variance + eps) * weight + bias`, channel by channel.
///
/// With `running`, statistics of the batch are used, and mean and unbiased variance are mixed into the running ones; otherwise
/// `statistics` already holds mean and scale. A batch of one value a channel has an undefined unbiased variance and leaves the
/// running one alone.
pub(in crate::engine) fn norm_forward<F: Real>(
    x: &[F],
    y: &mut [F],
    (weight, bias): (&[F], &[F]),
    eps: f64,
    running: Option<(&mut [F], &mut [F])>,
    fixed: Option<(&[F], &[F])>,
    statistics: &mut Statistics<F>,
) {
    let channels = weight.len();
    let Statistics { mean, scale, batch, sums, squares } = statistics;
    mean.resize(channels, F::ZERO);
    scale.resize(channels, F::ZERO);
    if let Some((fixed_mean, fixed_variance)) = fixed {
        *batch = false;
        mean.copy_from_slice(fixed_mean);
        for (scale, &variance) in scale.iter_mut().zip(fixed_variance) {
            *scale = F::from_f64(1.0 / (variance.to_f64() + eps).sqrt());
        }
    } else {
        *batch = true;
        let count = (x.len() / channels) as f64;
        sums.clear();
        sums.resize(channels, 0.0);
        squares.clear();
        squares.resize(channels, 0.0);
        for row in x.chunks_exact(channels) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += value.to_f64();
            }
        }
        for sum in sums.iter_mut() {
            *sum /= count;
        }
        for row in x.chunks_exact(channels) {
            for ((square, &mean), &value) in squares.iter_mut().zip(sums.iter()).zip(row) {
                let difference = value.to_f64() - mean;
                *square += difference * difference;
            }
        }
        for c in 0..channels {
            mean[c] = F::from_f64(sums[c]);
            scale[c] = F::from_f64(1.0 / (squares[c] / count + eps).sqrt());
        }
        if let Some((running_mean, running_variance)) = running {
            for c in 0..channels {
                running_mean[c] = F::from_f64((1.0 - MOMENTUM) * running_mean[c].to_f64() + MOMENTUM * sums[c]);
                if count > 1.0 {
                    running_variance[c] =
                        F::from_f64((1.0 - MOMENTUM) * running_variance[c].to_f64() + MOMENTUM * squares[c] / (count - 1.0));
                }
            }
        }
    }
    for (y, x) in y.chunks_exact_mut(channels).zip(x.chunks_exact(channels)) {
        for c in 0..channels {
            y[c] = (x[c] - mean[c]) * scale[c] * weight[c] + bias[c];
        }
    }
}

/// Adds to the gradients of weight and bias, and writes that of the input.
pub(in crate::engine) fn norm_backward<F: Real>(
    x: &[F],
    d_y: &[F],
    weight: &[F],
    statistics: &mut Statistics<F>,
    gradients: Option<(&mut [F], &mut [F])>,
    d_x: Option<&mut [F]>,
) {
    let channels = weight.len();
    let Statistics { mean, scale, batch, sums, squares } = statistics;
    // Of the gradient, and of the gradient times the normalised input.
    sums.clear();
    sums.resize(channels, 0.0);
    squares.clear();
    squares.resize(channels, 0.0);
    for (x, d_y) in x.chunks_exact(channels).zip(d_y.chunks_exact(channels)) {
        for c in 0..channels {
            sums[c] += d_y[c].to_f64();
            squares[c] += d_y[c].to_f64() * ((x[c] - mean[c]) * scale[c]).to_f64();
        }
    }
    if let Some((d_weight, d_bias)) = gradients {
        for c in 0..channels {
            d_weight[c] += F::from_f64(squares[c]);
            d_bias[c] += F::from_f64(sums[c]);
        }
    }
    let Some(d_x) = d_x else { return };
    let count = (x.len() / channels) as f64;
    for ((d_x, x), d_y) in d_x.chunks_exact_mut(channels).zip(x.chunks_exact(channels)).zip(d_y.chunks_exact(channels)) {
        for c in 0..channels {
            let factor = weight[c] * scale[c];
            d_x[c] = if *batch {
                let normalised = (x[c] - mean[c]) * scale[c];
                factor * (d_y[c] - F::from_f64(sums[c] / count) - normalised * F::from_f64(squares[c] / count))
            } else {
                factor * d_y[c]
            };
        }
    }
}
