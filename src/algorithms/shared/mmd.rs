//! The maximum mean discrepancy of two sets of feature vectors, with Gaussian kernels of four widths.

/// The variances of the kernels: k(d) is the sum over them of exp(-d / (2 a)) for a squared distance d.
const WIDTHS: [f32; 4] = [10.0, 15.0, 20.0, 50.0];

/// The mean over all pairs of k(a, a') + k(b, b') - 2 k(a, b), and its gradient by `a`; as many rows of `width` numbers on both sides.
///
/// Biased: the diagonal is counted. Squared distances are those of the Gram matrix, as in the reference, so that they may fall below 0
/// by rounding.
pub(crate) fn mmd(a: &[f32], b: &[f32], width: usize) -> (f32, Vec<f32>) {
    let width = width.max(1);
    let rows: Vec<[&[f32]; 2]> = a.chunks_exact(width).zip(b.chunks_exact(width)).map(|(a, b)| [a, b]).collect();
    let n = rows.len() as f32;
    let dot = |a: &[f32], b: &[f32]| super::flat::dot(a, b) as f32;
    let squares: Vec<[f32; 2]> = rows.iter().map(|pair| pair.map(|v| dot(v, v))).collect();
    let kernel = |d: f32| {
        let terms = WIDTHS.map(|width| (-0.5 * d / width).exp());
        (terms.iter().sum::<f32>(), terms.iter().zip(WIDTHS).map(|(term, width)| -0.5 * term / width).sum::<f32>())
    };
    let mut gradient = vec![0.0; a.len()];
    let mut value = 0.0;
    for (i, own) in gradient.chunks_exact_mut(width).enumerate() {
        for j in 0..rows.len() {
            let distance = |p: usize, q: usize| squares[i][p] + squares[j][q] - 2.0 * dot(rows[i][p], rows[j][q]);
            let ((aa, slope_aa), (bb, _), (ab, slope_ab)) = (kernel(distance(0, 0)), kernel(distance(1, 1)), kernel(distance(0, 1)));
            value += aa + bb - 2.0 * ab;
            // Each pair of two rows of `a` stands twice in the sum.
            let (near, far) = (4.0 * slope_aa / (n * n), -4.0 * slope_ab / (n * n));
            for (((d, a_i), a_j), b_j) in own.iter_mut().zip(rows[i][0]).zip(rows[j][0]).zip(rows[j][1]) {
                *d += near * (a_i - a_j) + far * (a_i - b_j);
            }
        }
    }
    (value / (n * n), gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_none_and_the_gradient_follows_differences() {
        let a = [1.0, 2.0, -1.0, 0.5, 3.0, 0.0];
        let b = [0.0, 4.0, 2.0, -2.5, 1.0, 1.0];
        let (zero, still) = mmd(&a, &a, 2);
        assert!(zero.abs() < 1e-6 && still.iter().all(|d| d.abs() < 1e-6));
        // By hand, one row each: k(0) + k(0) - 2 k(5) with a squared distance of 5.
        let by_hand = 8.0 - 2.0 * WIDTHS.iter().map(|w| (-2.5 / w).exp()).sum::<f32>();
        assert!((mmd(&a[..2], &b[..2], 2).0 - by_hand).abs() < 1e-6);
        let (_, gradient) = mmd(&a, &b, 2);
        for (i, own) in gradient.iter().enumerate() {
            let at = |step: f32| {
                let mut moved = a;
                moved[i] += step;
                mmd(&moved, &b, 2).0
            };
            assert!((own - (at(1e-2) - at(-1e-2)) / 2e-2).abs() < 1e-3, "{i}");
        }
    }
}
