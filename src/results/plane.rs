//! Points of many dimensions on a plane: by principal components, and by t-SNE (van der Maaten and Hinton, 2008) on all pairs.
//!
//! Both are functions of the points alone: there is no random start, and signs are fixed.

use nalgebra::{DMatrix, SymmetricEigen};

/// Neighbors that t-SNE looks at, about.
const PERPLEXITY: f64 = 30.0;
const STEPS: usize = 500;
/// Steps in which clusters are pulled together.
const EARLY: usize = 100;
const EXAGGERATION: f64 = 12.0;

/// Points on the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// A pair a point, in order.
    pub points: Vec<[f64; 2]>,
    /// The shares of the variance along the two axes; 0 for t-SNE, whose axes mean nothing.
    pub shares: [f64; 2],
}

/// The first two principal components of rows of `width` numbers. None without two rows, or when a number is not finite.
#[must_use]
pub fn components(values: &[f32], width: usize) -> Option<Plane> {
    let rows = values.len().checked_div(width)?;
    if rows < 2 || rows * width != values.len() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut x = DMatrix::from_row_iterator(rows, width, values.iter().map(|&value| f64::from(value)));
    for mut column in x.column_iter_mut() {
        let mean = column.mean();
        column.add_scalar_mut(-mean);
    }
    let all: f64 = x.norm_squared();
    // The smaller of the two products has the same greatest eigenvalues.
    let (of_rows, product) = if rows <= width { (true, &x * x.transpose()) } else { (false, x.transpose() * &x) };
    let eigen = SymmetricEigen::new(product);
    let mut order: Vec<usize> = (0..eigen.eigenvalues.len()).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let mut plane = Plane { points: vec![[0.0; 2]; rows], shares: [0.0; 2] };
    for (axis, &index) in order.iter().take(2).enumerate() {
        let value = eigen.eigenvalues[index].max(0.0);
        let vector = eigen.eigenvectors.column(index);
        let along: Vec<f64> =
            if of_rows { vector.iter().map(|v| v * value.sqrt()).collect() } else { (&x * vector).iter().copied().collect() };
        // The point farthest out lies on the positive side.
        let far = along.iter().copied().fold(0.0_f64, |far, v| if v.abs() > far.abs() { v } else { far });
        let sign = if far < 0.0 { -1.0 } else { 1.0 };
        plane.points.iter_mut().zip(along).for_each(|(point, v)| point[axis] = sign * v);
        plane.shares[axis] = if all > 0.0 { value / all } else { 0.0 };
    }
    Some(plane)
}

/// t-SNE of rows of `width` numbers, started from the principal components. None without four rows, or when a number is not finite.
#[must_use]
pub fn neighbors(values: &[f32], width: usize) -> Option<Plane> {
    let start = components(values, width)?;
    let n = start.points.len();
    if n < 4 {
        return None;
    }
    let pairs = affinities(&distances(values, width), n);
    // The first axis begins with a standard deviation of 1e-4.
    let spread = (start.points.iter().map(|point| point[0] * point[0]).sum::<f64>() / n as f64).sqrt().max(1e-300);
    let mut y: Vec<[f64; 2]> = start.points.iter().map(|point| point.map(|v| v / spread * 1e-4)).collect();
    let mut speed = vec![[0.0; 2]; n];
    let mut gains = vec![[1.0_f64; 2]; n];
    let rate = (n as f64 / EXAGGERATION / 4.0).max(50.0);
    let mut weights = vec![0.0; n * n];
    for step in 0..STEPS {
        let (pull, momentum) = if step < EARLY { (EXAGGERATION, 0.5) } else { (1.0, 0.8) };
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..i {
                let (a, b) = (y[i][0] - y[j][0], y[i][1] - y[j][1]);
                let weight = 1.0 / (1.0 + a * a + b * b);
                weights[i * n + j] = weight;
                sum += 2.0 * weight;
            }
        }
        let mut slopes = vec![[0.0; 2]; n];
        for i in 0..n {
            for j in 0..i {
                let weight = weights[i * n + j];
                let force = 4.0 * (pull * pairs[i * n + j] - weight / sum) * weight;
                for axis in 0..2 {
                    let part = force * (y[i][axis] - y[j][axis]);
                    slopes[i][axis] += part;
                    slopes[j][axis] -= part;
                }
            }
        }
        for i in 0..n {
            for axis in 0..2 {
                let gain = &mut gains[i][axis];
                *gain = if (slopes[i][axis] > 0.0) == (speed[i][axis] > 0.0) { (*gain * 0.8).max(0.01) } else { *gain + 0.2 };
                speed[i][axis] = momentum * speed[i][axis] - rate * *gain * slopes[i][axis];
                y[i][axis] += speed[i][axis];
            }
        }
        for axis in 0..2 {
            let mean = y.iter().map(|point| point[axis]).sum::<f64>() / n as f64;
            y.iter_mut().for_each(|point| point[axis] -= mean);
        }
    }
    y.iter().flatten().all(|v| v.is_finite()).then_some(Plane { points: y, shares: [0.0; 2] })
}

/// The squared distances of all pairs.
fn distances(values: &[f32], width: usize) -> Vec<f64> {
    let rows: Vec<&[f32]> = values.chunks_exact(width).collect();
    let between = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>();
    rows.iter().flat_map(|a| rows.iter().map(move |b| between(a, b))).collect()
}

/// How near each pair is: a normal distribution around each point that has the wanted perplexity, both ways together, summing to 1.
fn affinities(distances: &[f64], n: usize) -> Vec<f64> {
    let wanted = PERPLEXITY.min((n - 1) as f64 / 3.0).max(1.5).ln();
    let mut near = vec![0.0; n * n];
    for i in 0..n {
        let own = &distances[i * n..][..n];
        let least = own.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, d)| *d).fold(f64::INFINITY, f64::min);
        let (mut low, mut high, mut beta) = (0.0, f64::INFINITY, 1.0);
        for _ in 0..64 {
            let (mut sum, mut weighted) = (0.0, 0.0);
            for (j, d) in own.iter().enumerate().filter(|(j, _)| *j != i) {
                let weight = (-(d - least) * beta).exp();
                near[i * n + j] = weight;
                sum += weight;
                weighted += weight * (d - least);
            }
            near[i * n..][..n].iter_mut().for_each(|weight| *weight /= sum);
            let entropy = sum.ln() + beta * weighted / sum;
            if (entropy - wanted).abs() < 1e-5 {
                break;
            }
            if entropy > wanted {
                low = beta
            } else {
                high = beta
            }
            beta = if high.is_finite() { (low + high) / 2.0 } else { beta * 2.0 };
        }
    }
    let mut both = vec![0.0; n * n];
    for i in 0..n {
        for j in (0..n).filter(|j| *j != i) {
            both[i * n + j] = ((near[i * n + j] + near[j * n + i]) / (2 * n) as f64).max(1e-12);
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three clouds of 20 points in 5 dimensions.
    fn clouds() -> Vec<f32> {
        let value = |at: usize| {
            let (point, axis) = (at / 5, at % 5);
            let center = if point / 20 == axis { 10.0 } else { 0.0 };
            center + ((at * 7919 % 1000) as f32 / 1000.0 - 0.5)
        };
        (0..60 * 5).map(value).collect()
    }

    /// The least distance between points of different clouds over the greatest within one.
    fn apart(plane: &Plane) -> f64 {
        let (mut within, mut between) = (0.0_f64, f64::INFINITY);
        for (i, a) in plane.points.iter().enumerate() {
            for (j, b) in plane.points.iter().enumerate().take(i) {
                let d = (a[0] - b[0]).hypot(a[1] - b[1]);
                if i / 20 == j / 20 { within = within.max(d) } else { between = between.min(d) }
            }
        }
        between / within
    }

    #[test]
    fn components_keep_the_variance() {
        // A line along (3, 4): all variance is on one axis, and distances stay.
        let line: Vec<f32> = (0..9).flat_map(|i| [3.0 * i as f32, 4.0 * i as f32, 1.0]).collect();
        let plane = components(&line, 3).expect("finite");
        assert!((plane.shares[0] - 1.0).abs() < 1e-12 && plane.shares[1].abs() < 1e-12);
        assert!(((plane.points[8][0] - plane.points[0][0]).abs() - 40.0).abs() < 1e-9);
        // More rows than columns and fewer give the same.
        let wide = components(&line[..6], 3).expect("finite");
        assert!(((wide.points[1][0] - wide.points[0][0]).abs() - 5.0).abs() < 1e-9);
        assert_eq!(components(&[1.0, f32::NAN, 2.0, 3.0], 2), None);
        assert!(components(&[1.0, 2.0], 2).is_none() && components(&[], 0).is_none());
        assert!(components(&[2.0; 8], 2).is_some_and(|plane| plane.shares == [0.0; 2]));
    }

    #[test]
    fn clouds_stay_apart() {
        assert!(apart(&components(&clouds(), 5).expect("finite")) > 2.0);
        let plane = neighbors(&clouds(), 5).expect("finite");
        assert!(apart(&plane) > 1.0, "{}", apart(&plane));
        assert_eq!(plane, neighbors(&clouds(), 5).expect("finite"));
        assert!(neighbors(&[1.0; 20], 2).is_some(), "equal points are no division by zero");
    }
}
