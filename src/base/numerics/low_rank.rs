//! Matrices of lower rank: singular values, and the nearest matrix that keeps the largest of them.

use nalgebra::{DMatrix, SymmetricEigen};

/// The squared singular values of a matrix and the directions that belong to them.
///
/// They come from the smaller of the two products of the matrix with its transpose, in `f64`: squares below 1e-16 of the greatest are
/// rounding.
#[derive(Clone, Debug)]
pub struct Spectrum {
    rows: usize,
    columns: usize,
    /// Squared singular values, descending, min(rows, columns) of them, none negative.
    pub squares: Vec<f64>,
    /// One direction for each, as columns in the same order.
    directions: DMatrix<f64>,
}

impl Spectrum {
    /// Of a matrix row by row; absent when a number is not finite.
    ///
    /// # Panics
    /// When there are not rows x columns numbers.
    #[must_use]
    pub fn of(matrix: &[f32], rows: usize, columns: usize) -> Option<Self> {
        assert_eq!(matrix.len(), rows * columns, "a matrix has rows x columns numbers");
        if !matrix.iter().all(|v| v.is_finite()) {
            return None;
        }
        let n = rows.min(columns);
        let matrix = DMatrix::from_row_iterator(rows, columns, matrix.iter().map(|v| f64::from(*v)));
        let product = if rows <= columns { &matrix * matrix.transpose() } else { matrix.transpose() * &matrix };
        let eigen = SymmetricEigen::try_new(product, f64::EPSILON, 1000 * (n + 1))?;
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]).then(a.cmp(b)));
        let squares = order.iter().map(|i| eigen.eigenvalues[*i].max(0.0)).collect();
        let directions = eigen.eigenvectors.select_columns(&order);
        Some(Self { rows, columns, squares, directions })
    }

    /// Replaces the matrix by the nearest one of this rank.
    ///
    /// # Panics
    /// When `matrix` has another size.
    pub fn truncate(&self, matrix: &mut [f32], rank: usize) {
        let (rows, columns, n) = (self.rows, self.columns, self.squares.len());
        assert_eq!(matrix.len(), rows * columns, "the matrix has the size of its spectrum");
        if rank >= n {
            return;
        }
        // Onto the kept directions, or off the others where these are fewer.
        let projection = if 2 * rank <= n {
            let kept = self.directions.columns(0, rank);
            kept * kept.transpose()
        } else {
            let lost = self.directions.columns(rank, n - rank);
            DMatrix::identity(n, n) - lost * lost.transpose()
        };
        let whole = DMatrix::from_row_iterator(rows, columns, matrix.iter().map(|v| f64::from(*v)));
        let result = if rows <= columns { projection * whole } else { whole * projection };
        for (row, values) in matrix.chunks_exact_mut(columns).zip(result.row_iter()) {
            row.iter_mut().zip(values.iter()).for_each(|(v, r)| *v = *r as f32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_of_a_known_matrix() {
        // Singular values 3, 2 and 0.
        let spectrum = Spectrum::of(&[0.0, 3.0, 0.0, 2.0, 0.0, 0.0], 2, 3).expect("finite");
        assert!((spectrum.squares[0] - 9.0).abs() < 1e-12 && (spectrum.squares[1] - 4.0).abs() < 1e-12);
        assert!(Spectrum::of(&[f32::NAN], 1, 1).is_none());
    }

    #[test]
    fn the_error_of_a_truncation_is_the_energy_left_out() {
        for (rows, columns) in [(4, 7), (7, 4), (5, 5)] {
            let matrix: Vec<f32> = (0..rows * columns).map(|i| ((i * i + 3 * i) % 17) as f32 - 8.0).collect();
            let spectrum = Spectrum::of(&matrix, rows, columns).expect("finite");
            for rank in 0..=rows.min(columns) {
                let mut low = matrix.clone();
                spectrum.truncate(&mut low, rank);
                let error: f64 = matrix.iter().zip(&low).map(|(a, b)| f64::from(a - b).powi(2)).sum();
                let left: f64 = spectrum.squares[rank..].iter().sum();
                assert!((error - left).abs() < 1e-3, "{rows} x {columns}, rank {rank}: {error} and {left}");
            }
        }
    }
}
