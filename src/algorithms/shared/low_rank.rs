//! Matrices of lower rank: singular values, and the nearest matrix that keeps the largest of them.

use crate::engine::simd::{WithSimd, dispatch};
use nalgebra::{DMatrix, SymmetricEigen};
use pulp::Simd;

/// Squared singular values of a matrix, the greatest first, and the directions that belong to them.
///
/// They come from the smaller of the two products of the matrix with its transpose, in `f64`: squares below 1e-16 of the greatest are
/// rounding.
#[derive(Clone, Debug)]
pub struct Spectrum {
    rows: usize,
    columns: usize,
    /// Squared singular values, descending, none negative: all min(rows, columns) of them, or the greatest.
    pub squares: Vec<f64>,
    /// The sum of all squared singular values.
    pub total: f64,
    /// One direction for each of `squares`, as columns in the same order.
    directions: DMatrix<f64>,
}

/// Directions that are sought together.
const BLOCK: usize = 16;
/// Matrices up to this size are decomposed whole.
const SMALL: usize = 16 * BLOCK;
/// By how much a direction may miss being one, as a share of the greatest squared singular value: its square is the miss of the value,
/// which is as exact as the numbers of the matrix.
const MISS: f64 = 1e-7;
/// Rows of a matrix that are read together.
const ROWS: usize = 4;
/// Sums that run side by side.
const LANES: usize = 16;

impl Spectrum {
    /// Of a matrix row by row; absent when a number is not finite.
    ///
    /// # Panics
    /// When there are not rows x columns numbers.
    #[must_use]
    pub fn of(matrix: &[f32], rows: usize, columns: usize) -> Option<Self> {
        let wide = wide(matrix, rows, columns)?;
        let (squares, directions) = eigen(&wide * wide.transpose())?;
        Some(Self { rows, columns, total: squares.iter().sum(), squares, directions })
    }

    /// As [`Spectrum::of`], but of a large matrix only as many of the greatest singular values as hold more than `share` of the total,
    /// where few do.
    ///
    /// They are those of the matrix on a Krylov space of blocks, which grows until they are found.
    ///
    /// # Panics
    /// When there are not rows x columns numbers.
    #[must_use]
    pub fn holding(matrix: &[f32], rows: usize, columns: usize, share: f64) -> Option<Self> {
        let n = rows.min(columns);
        if n > SMALL
            && matrix.iter().all(|v| v.is_finite())
            && let Some(leading) = Self::leading(&upright(matrix, rows, columns), n, share)
        {
            return Some(Self { rows, columns, ..leading });
        }
        Self::of(matrix, rows, columns)
    }

    /// The leading part of the spectrum of a wide matrix, row by row; absent where too much of it would be needed.
    fn leading(wide: &[f32], n: usize, share: f64) -> Option<Self> {
        let columns = wide.len() / n;
        let total = wide.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
        let mut between = vec![0.0; columns * BLOCK];
        let mut times = |block: &DMatrix<f64>| {
            let mut image = DMatrix::zeros(n, BLOCK);
            let (block, image_values) = (block.as_slice(), image.as_mut_slice());
            dispatch(ThereAndBack { matrix: wide, columns, block, between: &mut between, image: image_values });
            image
        };
        let mut space = DMatrix::<f64>::zeros(n, 0);
        let mut images = DMatrix::<f64>::zeros(n, 0);
        // Any start that is not special will do, but always the same.
        let mut next = DMatrix::from_fn(n, BLOCK, |i, j| ((i * BLOCK + j + 1) as f64 * 0.618_033_988_749_894_9).fract() - 0.5);
        while space.ncols() + BLOCK <= n / 2 {
            for _ in 0..2 {
                let along = space.transpose() * &next;
                next -= &space * along;
                next = next.qr().q();
            }
            let image = times(&next);
            space = side_by_side(&space, &next);
            images = side_by_side(&images, &image);
            next = image;
            // The space holds no more than its trace; where a fourth of all directions do not, decomposing the whole is faster.
            let held: f64 = space.column_iter().zip(images.column_iter()).map(|(own, image)| own.dot(&image)).sum();
            if held <= share * total && space.ncols() >= n / 4 {
                return None;
            }
            if space.ncols() < 3 * BLOCK || held <= share * total {
                continue;
            }
            let small = space.tr_mul(&images);
            let (squares, inner) = eigen((&small + small.transpose()) * 0.5)?;
            let mut sum = 0.0;
            let short = squares.iter().take_while(|square| {
                sum += **square;
                sum <= share * total
            });
            let count = short.count() + 1;
            if count > squares.len() {
                continue;
            }
            let inner = inner.columns(0, count);
            let directions = &space * inner;
            let mut apart = &images * inner;
            for (mut column, (direction, square)) in apart.column_iter_mut().zip(directions.column_iter().zip(&squares)) {
                column.axpy(-square, &direction, 1.0);
            }
            if apart.column_iter().all(|column| column.norm() <= MISS * squares[0]) {
                return Some(Self { rows: n, columns, squares: squares[..count].to_vec(), total, directions });
            }
        }
        None
    }

    /// Replaces the matrix by the nearest one of this rank.
    ///
    /// # Panics
    /// When `matrix` has another size, or the rank is beyond the singular values that are known but not all.
    pub fn truncate(&self, matrix: &mut [f32], rank: usize) {
        let (rows, columns, n, known) = (self.rows, self.columns, self.rows.min(self.columns), self.squares.len());
        assert_eq!(matrix.len(), rows * columns, "the matrix has the size of its spectrum");
        if rank >= n {
            return;
        }
        assert!(rank <= known, "the directions of the rank are known");
        // Of a large matrix few directions are known.
        if known < n {
            let mut wide = upright(matrix, rows, columns);
            let kept: Vec<f64> = self.directions.columns(0, rank).transpose().iter().copied().collect();
            dispatch(Onto { matrix: &mut wide, columns: rows.max(columns), directions: &kept, rank });
            if rows > columns {
                wide = turned(&wide, columns, rows);
            }
            return matrix.copy_from_slice(&wide);
        }
        let mut whole = oriented(matrix, rows, columns);
        // Onto the kept directions, or off the others where these are fewer.
        if 2 * rank <= n {
            let kept = self.directions.columns(0, rank);
            whole = kept * kept.tr_mul(&whole);
        } else {
            let lost = self.directions.columns(rank, n - rank);
            let gone = lost.tr_mul(&whole);
            whole -= lost * gone;
        }
        for (i, v) in matrix.iter_mut().enumerate() {
            let (row, column) = (i / columns, i % columns);
            *v = whole[if rows <= columns { (row, column) } else { (column, row) }] as f32;
        }
    }
}

/// `matrix (matrix^T block)` of a matrix row by row; `block`, `between` = `matrix^T block` and `image` are column by column.
struct ThereAndBack<'a> {
    matrix: &'a [f32],
    columns: usize,
    block: &'a [f64],
    between: &'a mut [f64],
    image: &'a mut [f64],
}

impl WithSimd for ThereAndBack<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { matrix, columns, block, between, image } = self;
        let rows = matrix.len() / columns;
        // Some rows in `f64`; those behind the last one stay 0.
        let mut lines = vec![0.0; ROWS * columns];
        between.fill(0.0);
        for row in (0..rows).step_by(ROWS) {
            widen(&matrix[row * columns..], &mut lines);
            let (one, rest) = lines.split_at(columns);
            let (two, rest) = rest.split_at(columns);
            let (three, four) = rest.split_at(columns);
            for (own, sum) in block.chunks_exact(rows).zip(between.chunks_exact_mut(columns)) {
                let mut share = [0.0; ROWS];
                for (share, own) in share.iter_mut().zip(&own[row..]) {
                    *share = *own;
                }
                for ((((sum, one), two), three), four) in sum.iter_mut().zip(one).zip(two).zip(three).zip(four) {
                    *sum += (share[0] * one + share[1] * two) + (share[2] * three + share[3] * four);
                }
            }
        }
        for row in (0..rows).step_by(ROWS) {
            widen(&matrix[row * columns..], &mut lines);
            for (own, image) in between.chunks_exact(columns).zip(image.chunks_exact_mut(rows)) {
                let (own, own_rest) = own.as_chunks::<LANES>();
                let mut sums = [[0.0; LANES]; ROWS];
                for (sums, line) in sums.iter_mut().zip(lines.chunks_exact(columns)) {
                    let mut sum = [0.0; LANES];
                    for (line, own) in line.as_chunks::<LANES>().0.iter().zip(own) {
                        for (sum, (line, own)) in sum.iter_mut().zip(line.iter().zip(own)) {
                            *sum += line * own;
                        }
                    }
                    *sums = sum;
                }
                for ((image, sums), line) in image[row..].iter_mut().zip(&sums).zip(lines.chunks_exact(columns)) {
                    let rest = line[columns - own_rest.len()..].iter().zip(own_rest).map(|(line, own)| line * own);
                    *image = sums.iter().sum::<f64>() + rest.sum::<f64>();
                }
            }
        }
    }
}

/// The first numbers in `f64`; zeros behind them.
#[inline(always)]
fn widen(numbers: &[f32], out: &mut [f64]) {
    let known = numbers.len().min(out.len());
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = f64::from(*number);
    }
    out[known..].fill(0.0);
}

/// Replaces the matrix by its part along `rank` directions, which stand row by row, one number of each for a row of the matrix.
struct Onto<'a> {
    matrix: &'a mut [f32],
    columns: usize,
    directions: &'a [f64],
    rank: usize,
}

impl WithSimd for Onto<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { matrix, columns, directions, rank } = self;
        let mut along = vec![0.0; rank * columns];
        for (line, directions) in matrix.chunks_exact(columns).zip(directions.chunks_exact(rank.max(1))) {
            for (along, share) in along.chunks_exact_mut(columns).zip(directions) {
                for (along, line) in along.iter_mut().zip(line) {
                    *along += share * f64::from(*line);
                }
            }
        }
        let mut sum = vec![0.0; columns];
        for (line, directions) in matrix.chunks_exact_mut(columns).zip(directions.chunks_exact(rank.max(1))) {
            sum.fill(0.0);
            for (along, share) in along.chunks_exact(columns).zip(directions) {
                for (sum, along) in sum.iter_mut().zip(along) {
                    *sum += share * along;
                }
            }
            for (line, sum) in line.iter_mut().zip(&sum) {
                *line = *sum as f32;
            }
        }
        if rank == 0 {
            matrix.fill(0.0);
        }
    }
}

/// The transpose of a matrix row by row, by blocks of a line of the cache.
fn turned(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const SIDE: usize = 16;
    let mut out = vec![0.0; matrix.len()];
    for top in (0..rows).step_by(SIDE) {
        for left in (0..columns).step_by(SIDE) {
            for column in left..columns.min(left + SIDE) {
                let line = &mut out[column * rows..][top..rows.min(top + SIDE)];
                for (v, row) in line.iter_mut().zip(top..) {
                    *v = matrix[row * columns + column];
                }
            }
        }
    }
    out
}

/// The matrix row by row, or its transpose where it has more rows than columns.
fn upright(matrix: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    assert_eq!(matrix.len(), rows * columns, "a matrix has rows x columns numbers");
    if rows <= columns { matrix.to_vec() } else { turned(matrix, rows, columns) }
}

/// The matrix, or its transpose where it has more rows than columns.
fn oriented(matrix: &[f32], rows: usize, columns: usize) -> DMatrix<f64> {
    let values = matrix.iter().map(|v| f64::from(*v));
    // Row by row is the transpose column by column.
    if rows <= columns { DMatrix::from_iterator(columns, rows, values).transpose() } else { DMatrix::from_iterator(columns, rows, values) }
}

/// [`oriented`] where all numbers are finite.
fn wide(matrix: &[f32], rows: usize, columns: usize) -> Option<DMatrix<f64>> {
    assert_eq!(matrix.len(), rows * columns, "a matrix has rows x columns numbers");
    matrix.iter().all(|v| v.is_finite()).then(|| oriented(matrix, rows, columns))
}

/// The eigenvalues of a symmetric matrix without negative ones, descending, and their directions.
fn eigen(product: DMatrix<f64>) -> Option<(Vec<f64>, DMatrix<f64>)> {
    let n = product.nrows();
    let eigen = SymmetricEigen::try_new(product, f64::EPSILON, 1000 * (n + 1))?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]).then(a.cmp(b)));
    Some((order.iter().map(|i| eigen.eigenvalues[*i].max(0.0)).collect(), eigen.eigenvectors.select_columns(&order)))
}

fn side_by_side(left: &DMatrix<f64>, right: &DMatrix<f64>) -> DMatrix<f64> {
    let columns: Vec<_> = left.column_iter().chain(right.column_iter()).collect();
    DMatrix::from_columns(&columns)
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

    #[test]
    fn the_leading_part_of_a_large_matrix_is_that_of_the_whole() {
        let (rows, columns) = (380, 300);
        // Singular values that fall by a fifth each, on waves that are nearly orthogonal, and a little noise.
        let noise = |i: usize| ((i * 7919 % 1009) as f32 / 1009.0 - 0.5) * 1e-3;
        let wave = |k: usize, i: usize, n: usize| (std::f32::consts::PI * (k as f32 + 0.5) * i as f32 / n as f32).cos();
        let value = |r: usize, c: usize| (0..12).map(|k| 0.8f32.powi(k as i32) * wave(k, r, rows) * wave(k, c, columns)).sum::<f32>();
        for (rows, columns) in [(rows, columns), (columns, rows)] {
            let at = |i: usize| if rows > columns { value(i / columns, i % columns) } else { value(i % columns, i / columns) };
            let matrix: Vec<f32> = (0..rows * columns).map(|i| at(i) + noise(i)).collect();
            let (all, leading) = (Spectrum::of(&matrix, rows, columns), Spectrum::holding(&matrix, rows, columns, 0.9));
            let (all, leading) = (all.expect("finite"), leading.expect("finite"));
            assert!(leading.squares.len() < 10, "few hold most");
            assert!((all.total - leading.total).abs() < 1e-9 * all.total);
            assert!(leading.squares.iter().sum::<f64>() > 0.9 * all.total);
            for (a, b) in all.squares.iter().zip(&leading.squares) {
                assert!((a - b).abs() < 1e-9 * all.total, "{a} and {b}");
            }
            let rank = leading.squares.len();
            let (mut one, mut other) = (matrix.clone(), matrix);
            all.truncate(&mut one, rank);
            leading.truncate(&mut other, rank);
            assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-5));
        }
    }

    #[test]
    fn a_flat_spectrum_is_decomposed_whole() {
        let matrix: Vec<f32> = (0..270 * 270).map(|i| if i % 271 == 0 { 2.0 } else { 0.0 }).collect();
        let spectrum = Spectrum::holding(&matrix, 270, 270, 0.95).expect("finite");
        assert_eq!(spectrum.squares.len(), 270);
        assert!(Spectrum::holding(&matrix, 270, 270, 1.0).is_some_and(|s| s.squares.len() == 270));
    }
}
