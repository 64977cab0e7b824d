//! LightSecAgg (So et al., MLSys 2022): one mask of each client's own, whose sum is recovered in one step from coded pieces.
//!
//! Client u sends x_u + z_u. Its mask z_u, in U - T pieces and with T random pieces more, is a polynomial through the points N + 1 to
//! N + U, and client j holds its value at j. Each survivor sends the sum of what it holds of the survivors; U such sums are the
//! polynomial of the summed masks. T clients together learn nothing, and N - U may fall out.

use super::cost::{Cost, KEY, TAG};
use super::field::Field;
use crate::base::random::Stream;
use crate::base::{Fault, Outcome};

/// The sum of the survivors' vectors, computed from nothing that a server could not see. `survives` says of each client whether its
/// masked vector arrives; `private` is T, `needed` is U.
///
/// # Errors
/// A stage fault: fewer than `needed` clients survive, or the field has fewer elements than the points.
pub(super) fn sum(
    field: Field,
    vectors: &[Vec<u64>],
    survives: &[bool],
    (private, needed): (usize, usize),
    rng: &mut Stream,
    cost: &mut Cost,
) -> Outcome<Vec<u64>> {
    let (n, len) = (vectors.len(), vectors.first().map_or(0, Vec::len));
    if (n + needed) as u64 >= field.prime() {
        return Err(Fault::stage(format!("`prime` {} has too few elements for {n} clients and {needed} points of masks", field.prime()))
            .help("use a larger `prime`, such as 2147483647"));
    }
    let survivors: Vec<usize> = (0..n).filter(|u| survives[*u]).collect();
    if survivors.len() < needed {
        return Err(Fault::stage(format!(
            "only {} of {n} clients sent their masked update, but `recovery` {needed} of them are needed to take the masks off",
            survivors.len()
        ))
        .help("lower `dropouts` or `recovery`"));
    }
    let data = needed - private;
    let length = len.div_ceil(data);
    let bytes = |numbers: usize| (numbers * field.bits() as usize).div_ceil(8);
    cost.phase(0, n, n * KEY, n * n * KEY);
    cost.phase(0, n, n * (n - 1) * (bytes(length) + TAG), n * (n - 1) * (bytes(length) + TAG));

    // The pieces of all survivors' masks, summed: coding is linear, so that the sum of coded pieces is the coded sum of pieces.
    let mut pieces = vec![vec![0; length]; needed];
    let mut sum = vec![0; len];
    for (u, vector) in vectors.iter().enumerate() {
        for (k, piece) in pieces.iter_mut().enumerate() {
            for (i, value) in piece.iter_mut().enumerate() {
                let mask = field.random(rng);
                if !survives[u] {
                    continue;
                }
                *value = field.add(*value, mask);
                // What arrives is x + z; the last piece of z is longer than the vector, and the last T are not part of z.
                let at = k * length + i;
                if k < data && at < len {
                    sum[at] = field.add(sum[at], field.add(vector[at], mask));
                }
            }
        }
    }
    cost.phase(1, n, survivors.len() * bytes(len), survivors.len() * survivors.len() * 4);

    // What the survivors send, and what the server makes of it.
    let sources: Vec<u64> = (0..needed as u64).map(|k| n as u64 + 1 + k).collect();
    let answering: Vec<u64> = survivors[..needed].iter().map(|j| *j as u64 + 1).collect();
    let coded: Vec<Vec<u64>> = answering.iter().map(|point| combine(field, &field.lagrange(&sources, *point), &pieces)).collect();
    cost.phase(2, needed, needed * bytes(length), 0);
    for (k, source) in sources[..data].iter().enumerate() {
        let mask = combine(field, &field.lagrange(&answering, *source), &coded);
        for (sum, mask) in sum.iter_mut().skip(k * length).zip(mask) {
            *sum = field.sub(*sum, mask);
        }
    }
    Ok(sum)
}

fn combine(field: Field, factors: &[u64], pieces: &[Vec<u64>]) -> Vec<u64> {
    let mut sum = vec![0; pieces.first().map_or(0, Vec::len)];
    for (factor, piece) in factors.iter().zip(pieces) {
        for (sum, value) in sum.iter_mut().zip(piece) {
            *sum = field.add(*sum, field.mul(*factor, *value));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};

    fn run(prime: u64, survives: &[bool], numbers: (usize, usize)) -> Outcome<Vec<u64>> {
        let field = Field::new(prime).expect("a prime");
        let vectors: Vec<Vec<u64>> = (0..survives.len() as u64).map(|u| (0..7).map(|i| field.of((u * 10 + i) as i64)).collect()).collect();
        let mut rng = stream(5, Purpose::Secure, 0, 0, 0);
        sum(field, &vectors, survives, numbers, &mut rng, &mut Cost::new(1.0, 0.0))
    }

    #[test]
    fn the_sum_is_that_of_the_survivors() {
        // Clients 0, 2 and 3 of 4: 50 + 3 i, modulo a small prime too.
        for prime in [101, Field::LARGEST] {
            let sum = run(prime, &[true, false, true, true], (1, 3)).expect("enough are left");
            assert_eq!(sum, (0..7).map(|i| 50 + 3 * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn too_few_clients_or_points_are_refused() {
        assert!(run(101, &[true, false, false, true], (1, 3)).expect_err("two are left").what.contains("only 2 of 4"));
        assert!(run(7, &[true; 4], (1, 3)).expect_err("7 points").what.contains("too few elements"));
    }
}
