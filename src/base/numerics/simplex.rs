//! The minimum of a convex quadratic form on the probability simplex, by an exact active-set method.

/// The weights `a >= 0` with sum 1 that minimise `a^T P a`, for a positive definite `P` (n x n, row by row, symmetric).
///
/// The minimum is found on the cone: `y >= 0` that minimises `y^T P y / 2 - sum y` (Lawson and Hanson's active sets), divided by its
/// sum. Absent when `P` is not positive definite, up to rounding, or not finite.
///
/// # Panics
/// When there are not n x n numbers.
#[must_use]
pub fn minimise(p: &[f64], n: usize) -> Option<Vec<f64>> {
    assert_eq!(p.len(), n * n, "a form of n weights has n x n numbers");
    let largest = (0..n).map(|i| p[i * n + i]).fold(0.0, f64::max);
    let definite = (0..n).all(|i| p[i * n + i] > 1e-14 * largest);
    if n == 0 || !definite || p.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut y = vec![0.0; n];
    let mut free: Vec<usize> = Vec::new();
    // Each step lowers the objective, so no set returns; the bound only guards against rounding.
    for _ in 0..10 * n + 10 {
        let slope = |i: usize| 1.0 - (0..n).map(|j| p[i * n + j] * y[j]).sum::<f64>();
        let entering = (0..n).filter(|i| !free.contains(i)).map(|i| (slope(i), i)).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, entering)) = entering.filter(|(slope, _)| *slope > 1e-12) else { break };
        free.push(entering);
        free.sort_unstable();
        while !free.is_empty() {
            let z = solve(p, n, &free)?;
            if z.iter().all(|z| *z > 0.0) {
                free.iter().zip(&z).for_each(|(i, z)| y[*i] = *z);
                break;
            }
            // As far toward the solution as the bounds allow; what meets its bound leaves.
            let step = free.iter().zip(&z).filter(|(_, z)| **z <= 0.0).map(|(i, z)| y[*i] / (y[*i] - z)).fold(1.0, f64::min);
            for (i, z) in free.iter().zip(&z) {
                y[*i] += step * (z - y[*i]);
            }
            let least = free.iter().zip(&z).filter(|(_, z)| **z <= 0.0).map(|(i, _)| y[*i]).fold(f64::INFINITY, f64::min);
            free.retain(|i| {
                let stays = y[*i] > least.max(0.0);
                if !stays {
                    y[*i] = 0.0;
                }
                stays
            });
        }
    }
    let sum: f64 = y.iter().sum();
    (sum > 0.0 && sum.is_finite()).then(|| y.iter().map(|y| y / sum).collect())
}

/// The solution of `P z = 1` on the rows and columns of `free`, by Cholesky's factors.
fn solve(p: &[f64], n: usize, free: &[usize]) -> Option<Vec<f64>> {
    let m = free.len();
    let mut l = vec![0.0; m * m];
    for i in 0..m {
        for j in 0..=i {
            let sum = p[free[i] * n + free[j]] - (0..j).map(|k| l[i * m + k] * l[j * m + k]).sum::<f64>();
            if i == j {
                if sum <= 1e-14 * p[free[i] * n + free[i]] {
                    return None;
                }
                l[i * m + i] = sum.sqrt();
            } else {
                l[i * m + j] = sum / l[j * m + j];
            }
        }
    }
    let mut z = vec![1.0; m];
    for i in 0..m {
        z[i] = (z[i] - (0..i).map(|k| l[i * m + k] * z[k]).sum::<f64>()) / l[i * m + i];
    }
    for i in (0..m).rev() {
        z[i] = (z[i] - (i + 1..m).map(|k| l[k * m + i] * z[k]).sum::<f64>()) / l[i * m + i];
    }
    Some(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: &[f64], wanted: &[f64]) {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} is not {wanted:?}");
    }

    #[test]
    fn small_forms_have_their_closed_solutions() {
        close(&minimise(&[3.0], 1).expect("definite"), &[1.0]);
        close(&minimise(&[2.0, 0.0, 0.0, 2.0], 2).expect("definite"), &[0.5, 0.5]);
        // Without a coupling the weights are inverse to the diagonal.
        close(&minimise(&[1.0, 0.0, 0.0, 4.0], 2).expect("definite"), &[0.8, 0.2]);
        // A strong coupling drives the worse one out.
        close(&minimise(&[1.0, 1.5, 1.5, 4.0], 2).expect("definite"), &[1.0, 0.0]);
    }

    #[test]
    fn the_conditions_of_optimality_hold_on_random_forms() {
        let mut state = 7u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
        };
        for n in [2, 5, 20] {
            let rows: Vec<f64> = (0..n * n).map(|_| random()).collect();
            let mut p: Vec<f64> = (0..n * n).map(|i| (0..n).map(|k| rows[i / n * n + k] * rows[i % n * n + k]).sum::<f64>()).collect();
            (0..n).for_each(|i| p[i * n + i] += 0.01);
            let a = minimise(&p, n).expect("definite");
            assert!((a.iter().sum::<f64>() - 1.0).abs() < 1e-12 && a.iter().all(|a| *a >= 0.0));
            let value: f64 = (0..n * n).map(|i| a[i / n] * p[i] * a[i % n]).sum();
            for i in 0..n {
                let slope: f64 = (0..n).map(|j| p[i * n + j] * a[j]).sum();
                assert!(slope > value - 1e-9, "weight {i} could still grow");
                assert!(a[i] == 0.0 || (slope - value).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_form_that_is_not_definite_has_no_answer() {
        assert_eq!(minimise(&[0.0, 0.0, 0.0, 1.0], 2), None);
        assert_eq!(minimise(&[f64::NAN], 1), None);
        assert_eq!(minimise(&[1.0, 1.0, 1.0, 1.0], 2).map(|a| a.len()), Some(2));
    }
}
