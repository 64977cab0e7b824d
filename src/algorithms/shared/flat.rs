//! Inner products and distances of flat parameter vectors, at memory speed and the same on every machine.

/// Numbers summed in `f32` before `f64` takes over.
const BLOCK: usize = 1024;
/// Sums that run side by side, so that the compiler can use vector registers.
const LANES: usize = 16;

fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f64 {
    let block = |(a, b): (&[f32], &[f32])| {
        let mut sums = [0.0; LANES];
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (a, b) in a.iter().zip(b) {
            for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += term(*a, *b);
            }
        }
        let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b)).sum();
        f64::from(sums.iter().sum::<f32>() + rest)
    };
    a.chunks(BLOCK).zip(b.chunks(BLOCK)).map(block).sum()
}

/// The inner product of two vectors of the same length.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| a * b)
}

/// The squared Euclidean distance of two vectors of the same length.
pub(crate) fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_counts_once_whatever_the_length() {
        for len in [0, 1, 15, 16, 17, 1023, 1024, 1025, 5000] {
            let a: Vec<f32> = (0..len).map(|i| (i % 7) as f32).collect();
            let b: Vec<f32> = (0..len).map(|i| (i % 3) as f32).collect();
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert_eq!(dot(&a, &b), f64::from(exact));
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
            assert_eq!(squared_distance(&a, &b), f64::from(exact));
        }
    }
}
