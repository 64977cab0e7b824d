//! Inverting Gradients (Geiping, Bauermeister, Droege, Moeller, NeurIPS 2020): samples whose update points in the direction of the
//! observed one and that are smooth, found by Adam inside the range of the data.

use super::matching::Distance;
use super::pause::{Parts, Pause, rest};
use super::problem::{Problem, Reconstruction, normals};
use super::replay::Target;
use crate::base::Outcome;
use crate::base::random::Stream;
use crate::engine::Shape;

/// What the search takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Steps of Adam.
    pub steps: usize,
    /// Its step size, a tenth of it after three, five and seven eighths of the steps.
    pub rate: f64,
    /// Weight of the total variation.
    pub variation: f64,
    /// Whether only the signs of the gradient count.
    pub signed: bool,
}

/// Samples with these classes.
///
/// # Errors
/// A stage fault when the samples do not fit the model, or `Interrupted`.
pub fn attack(problem: &Problem, labels: &[u32], options: &Options, rng: &mut Stream, pause: &dyn Pause) -> Outcome<Reconstruction> {
    let shape = problem.model.net.input();
    let mut replay = problem.replay();
    let mut x = normals(rng, problem.numbers());
    let target = Target::Classes(labels);
    let (mut first, mut second) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let (beta1, beta2, epsilon) = (0.9f64, 0.999f64, 1e-8);
    let mut gradient = vec![0.0; x.len()];
    let mut distance = f64::NAN;
    let mut begin = 0;
    if let Some(state) = pause.kept() {
        let mut parts = Parts(&state);
        let head = parts.count().zip(parts.number());
        if let (Some((step, last)), Some(point), Some(m), Some(v)) = (head, parts.list(x.len()), parts.list(x.len()), parts.list(x.len())) {
            (begin, distance) = (step, last);
            (x, first, second) = (point.to_vec(), m.to_vec(), v.to_vec());
        }
    }
    for step in begin..options.steps {
        if step % 16 == 0 {
            rest(pause, || [step as f64, distance].iter().chain(&x).chain(&first).chain(&second).copied().collect())?;
        }
        gradient.fill(0.0);
        distance = problem.seen.compare(&mut replay, Distance::Cosine, &x, &target, &mut gradient, None)?;
        distance += options.variation * total_variation(&x, shape, options.variation, &mut gradient);
        if !distance.is_finite() {
            break;
        }
        let rate = options.rate * scale(step, options.steps);
        let corrections = (1.0 - beta1.powf(step as f64 + 1.0), 1.0 - beta2.powf(step as f64 + 1.0));
        for (((x, g), m), v) in x.iter_mut().zip(&gradient).zip(&mut first).zip(&mut second) {
            let g = if options.signed && *g != 0.0 { g.signum() } else { *g };
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *x -= rate * (*m / corrections.0) / ((*v / corrections.1).sqrt() + epsilon);
            *x = x.clamp(problem.range.0, problem.range.1);
        }
    }
    Ok(Reconstruction { x, labels: Some(labels.to_vec()), distance })
}

/// The step size falls to a tenth at 3/8, 5/8 and 7/8 of the steps.
fn scale(step: usize, steps: usize) -> f64 {
    let passed = [3, 5, 7].iter().filter(|eighths| step * 8 >= *eighths * steps).count();
    [1.0, 0.1, 0.01, 0.001][passed]
}

/// The mean absolute difference of vertical neighbors plus that of horizontal ones, over all samples and channels; `weight` times its
/// gradient is added. A side of one pixel has no neighbors.
pub fn total_variation(x: &[f64], shape: Shape, weight: f64, gradient: &mut [f64]) -> f64 {
    let samples = x.len() / shape.numel().max(1);
    let mut value = 0.0;
    let row = shape.width * shape.channels;
    for (along, offset, count) in [
        (true, row, samples * shape.height.saturating_sub(1) * row),
        (false, shape.channels, samples * shape.height * shape.width.saturating_sub(1) * shape.channels),
    ] {
        if count == 0 {
            continue;
        }
        let share = 1.0 / count as f64;
        let mut sum = 0.0;
        for sample in 0..samples {
            let start = sample * shape.numel();
            for i in start..start + shape.numel() {
                let inside = if along { i + offset < start + shape.numel() } else { (i - start) % row + offset < row };
                if !inside {
                    continue;
                }
                let difference = x[i + offset] - x[i];
                sum += difference.abs();
                if difference != 0.0 {
                    let slope = weight * share * difference.signum();
                    gradient[i + offset] += slope;
                    gradient[i] -= slope;
                }
            }
        }
        value += sum * share;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_the_mean_difference_of_neighbors() {
        // Two rows of two pixels: |3-1| and |7-2| down, |2-1| and |7-3| across.
        let (x, shape) = ([1.0, 2.0, 3.0, 7.0], Shape { channels: 1, height: 2, width: 2 });
        let mut gradient = vec![0.0; 4];
        let value = total_variation(&x, shape, 2.0, &mut gradient);
        assert_eq!(value, 3.5 + 2.5);
        assert_eq!(gradient, [-2.0, 0.0, 0.0, 2.0]);
        let shape = Shape { channels: 2, height: 1, width: 2 };
        // Channels are no neighbors.
        assert_eq!(total_variation(&[1.0, 10.0, 2.0, 13.0], shape, 1.0, &mut [0.0; 4]), 2.0);
        assert_eq!(total_variation(&[1.0, 5.0], Shape::vector(2), 1.0, &mut [0.0; 2]), 0.0);
    }

    #[test]
    fn the_step_size_falls_three_times() {
        let scales: Vec<f64> = (0..8).map(|step| scale(step, 8)).collect();
        assert_eq!(scales, [1.0, 1.0, 1.0, 0.1, 0.1, 0.01, 0.01, 0.001]);
    }
}
