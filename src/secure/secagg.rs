//! SecAgg (Bonawitz et al., CCS 2017): additive masks by pairs of clients, which cancel in the sum, and one mask of each client's
//! own; secret shares take off what clients leave behind that fall out.
//!
//! Client u sends y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv) mod p, where s_uv is the key that
//! u and v agree on. Of every survivor the server is given shares of b_u, of every client that fell out shares of its secret key.

use super::cost::{Cost, KEY, SHARE, TAG};
use super::field::Field;
use crate::base::random::{Purpose, Stream, stream};
use crate::base::{Fault, Outcome};

/// A generator of the multiplicative group of the field of keys.
const GENERATOR: u64 = 37;

/// The sum of the survivors' vectors, computed from nothing that a server could not see. `survives` says of each client whether its
/// masked vector arrives.
///
/// # Errors
/// A stage fault: fewer than `threshold` clients survive.
pub(super) fn sum(
    field: Field,
    vectors: &[Vec<u64>],
    survives: &[bool],
    threshold: usize,
    rng: &mut Stream,
    cost: &mut Cost,
) -> Outcome<Vec<u64>> {
    let (n, len) = (vectors.len(), vectors.first().map_or(0, Vec::len));
    let survivors: Vec<usize> = (0..n).filter(|u| survives[*u]).collect();
    if survivors.len() < threshold {
        return Err(Fault::stage(format!(
            "only {} of {n} clients sent their masked update, but `threshold` {threshold} of them are needed to take the masks off",
            survivors.len()
        ))
        .help("lower `dropouts` or `threshold`"));
    }
    // Keys and shares: every client has a secret key and a seed of its own, and gives a share of both to each client.
    let keys = Field::KEYS;
    let secret: Vec<(u64, u64)> = (0..n).map(|_| (keys.random(rng), keys.random(rng))).collect();
    let public: Vec<u64> = secret.iter().map(|(key, _)| keys.pow(GENERATOR, *key)).collect();
    let shares: Vec<(Vec<u64>, Vec<u64>)> =
        secret.iter().map(|(key, own)| (keys.share(*key, threshold, n, rng), keys.share(*own, threshold, n, rng))).collect();
    cost.phase(0, n, n * 2 * KEY, n * n * 2 * KEY);
    cost.phase(0, n, n * (n - 1) * (2 * SHARE + TAG), n * (n - 1) * (2 * SHARE + TAG));

    // Masked vectors. A pair of clients expands its key twice; here once, with both signs.
    let mut masked: Vec<Vec<u64>> = vectors.to_vec();
    for (u, (_, own)) in secret.iter().enumerate() {
        add_mask(field, *own, &mut masked[u]);
    }
    for u in 0..n {
        for (v, public) in public.iter().enumerate().skip(u + 1) {
            let key = keys.pow(*public, secret[u].0);
            let (left, right) = masked.split_at_mut(v);
            let mut prg = expand(key);
            for (a, b) in left[u].iter_mut().zip(right[0].iter_mut()) {
                let mask = field.random(&mut prg);
                (*a, *b) = (field.add(*a, mask), field.sub(*b, mask));
            }
        }
    }
    let vector = (len * field.bits() as usize).div_ceil(8);
    cost.phase(1, n, survivors.len() * vector, survivors.len() * survivors.len() * 4);

    // What the server does: it adds what arrived, asks for shares, and takes the masks off.
    let mut sum = vec![0; len];
    for u in &survivors {
        sum.iter_mut().zip(&masked[*u]).for_each(|(sum, y)| *sum = field.add(*sum, *y));
    }
    cost.phase(2, survivors.len(), survivors.len() * n * SHARE, 0);
    let answering = &survivors[..threshold];
    let recovered = |shares: &[u64]| keys.recover(&answering.iter().map(|j| (*j as u64 + 1, shares[*j])).collect::<Vec<_>>());
    for u in &survivors {
        let mut prg = expand(recovered(&shares[*u].1));
        sum.iter_mut().for_each(|sum| *sum = field.sub(*sum, field.random(&mut prg)));
    }
    for v in (0..n).filter(|v| !survives[*v]) {
        let key = recovered(&shares[v].0);
        for u in &survivors {
            let mut prg = expand(keys.pow(public[*u], key));
            for sum in &mut sum {
                let mask = field.random(&mut prg);
                // A client with a smaller number added it.
                *sum = if *u < v { field.sub(*sum, mask) } else { field.add(*sum, mask) };
            }
        }
    }
    Ok(sum)
}

fn expand(seed: u64) -> Stream {
    stream(seed, Purpose::Secure, u64::MAX, 0, 0)
}

fn add_mask(field: Field, seed: u64, to: &mut [u64]) {
    let mut prg = expand(seed);
    to.iter_mut().for_each(|value| *value = field.add(*value, field.random(&mut prg)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_survivors_whatever_is_lost() {
        for prime in [101, Field::LARGEST] {
            let field = Field::new(prime).expect("a prime");
            let vectors: Vec<Vec<u64>> = (0..4).map(|u| (0..7).map(|i| field.of(u * 10 + i)).collect()).collect();
            let run = |survives: &[bool], threshold| {
                let mut rng = stream(5, Purpose::Secure, 0, 0, 0);
                sum(field, &vectors, survives, threshold, &mut rng, &mut Cost::new(1.0, 0.0))
            };
            assert_eq!(run(&[true, false, true, true], 3).expect("enough are left"), (0..7).map(|i| 50 + 3 * i).collect::<Vec<_>>());
            assert_eq!(run(&[false, false, true, true], 2).expect("enough are left"), (0..7).map(|i| 50 + 2 * i).collect::<Vec<_>>());
            assert!(run(&[false, false, true, true], 3).expect_err("two are left").what.contains("`threshold` 3 of them"));
        }
    }
}
