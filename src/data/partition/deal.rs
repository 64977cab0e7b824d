//! Dealing without bias: whole numbers by weights, classes to clients, samples in even order.
//!
//! The clean procedures are made of these; they know neither data sets nor parameters.

use crate::base::random::{Stream, below};

/// Whole numbers that sum to `total`: each at least `floor`, the rest in proportion to the weights by largest remainders.
///
/// `floor` times the number of weights must not be above `total`; weights are finite, at least 0, and count as equal when all are 0.
pub(super) fn apportion(total: usize, weights: &[f64], floor: usize) -> Vec<usize> {
    let rest = total.saturating_sub(floor * weights.len());
    let sum: f64 = weights.iter().sum();
    let exact = |weight: f64| if sum > 0.0 { rest as f64 * (weight / sum) } else { rest as f64 / weights.len() as f64 };
    let mut parts: Vec<usize> = weights.iter().map(|&weight| exact(weight) as usize).collect();
    let given: usize = parts.iter().sum();
    let short = rest.saturating_sub(given);
    if short > 0 && short < parts.len() {
        let remainders: Vec<f64> = weights.iter().zip(&parts).map(|(&weight, &part)| exact(weight) - part as f64).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.select_nth_unstable_by(short, |&a, &b| remainders[b].total_cmp(&remainders[a]).then(a.cmp(&b)));
        order[..short].iter().for_each(|&at| parts[at] += 1);
    } else {
        // Only rounding can put the sum so far off.
        (0..short).for_each(|at| parts[at % weights.len()] += 1);
    }
    for _ in 0..given.saturating_sub(rest) {
        if let Some(most) = parts.iter_mut().max() {
            *most -= 1;
        }
    }
    parts.iter().map(|part| part + floor).collect()
}

/// Sizes of `parts` even pieces: the first ones are one longer where it does not divide (numpy's `array_split`).
pub(super) fn even(total: usize, parts: usize) -> Vec<usize> {
    (0..parts).map(|part| total / parts + usize::from(part < total % parts)).collect()
}

/// Consecutive pieces of the given sizes.
pub(super) fn cut(order: &[u32], sizes: &[usize]) -> Vec<Vec<u32>> {
    let mut rest = order;
    let piece = |&size: &usize| {
        let (piece, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        piece.to_vec()
    };
    sizes.iter().map(piece).collect()
}

/// All samples in an order in which every class is spread evenly, so that any piece has the label distribution of the whole.
pub(super) fn interleave(classes: &[Vec<u32>]) -> Vec<u32> {
    let places = classes.iter().enumerate().flat_map(|(class, own)| {
        let n = own.len() as u128;
        own.iter().enumerate().map(move |(rank, &sample)| (2 * rank as u128 + 1, n, class, sample))
    });
    let mut places: Vec<_> = places.collect();
    // The fraction (2 rank + 1) / (2 n), compared without division.
    places.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.2.cmp(&b.2)));
    places.into_iter().map(|(_, _, _, sample)| sample).collect()
}

/// Gives each of `clients` clients `each` of `classes` classes, every class to as many clients as the others or one more.
///
/// Returns the clients of each class, ascending. `each` is at most `classes`, and `clients * each` at least `classes`.
pub(super) fn deal_classes(rng: &mut Stream, classes: usize, clients: usize, each: usize) -> Vec<Vec<usize>> {
    let slots = clients * each;
    let mut left = vec![slots / classes; classes];
    let mut order: Vec<usize> = (0..classes).collect();
    crate::base::random::shuffle(rng, &mut order);
    for &class in &order[..slots % classes] {
        left[class] += 1;
    }
    let mut holders = vec![Vec::new(); classes];
    for client in 0..clients {
        let remaining = clients - client;
        // A class with as many places as there are clients left must be taken by each of them; there are at most `each` such.
        let mut taken: Vec<usize> = (0..classes).filter(|&class| left[class] == remaining).collect();
        while taken.len() < each {
            let open = |class: &usize| !taken.contains(class);
            let weight: usize = (0..classes).filter(open).map(|class| left[class]).sum();
            let mut at = below(rng, weight.max(1) as u64) as usize;
            let drawn = (0..classes).filter(open).find(|&class| {
                let here = at < left[class];
                at = at.saturating_sub(left[class]);
                here
            });
            match drawn {
                Some(class) => taken.push(class),
                None => break,
            }
        }
        for class in taken {
            left[class] -= 1;
            holders[class].push(client);
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn apportioned_parts_sum_up_and_respect_the_floor(
            total in 0_usize..10_000, weights in prop::collection::vec(0.0..1e6_f64, 1..50), floor in 0_usize..10
        ) {
            prop_assume!(floor * weights.len() <= total);
            let parts = apportion(total, &weights, floor);
            prop_assert_eq!(parts.iter().sum::<usize>(), total);
            prop_assert!(parts.iter().all(|&part| part >= floor));
        }

        #[test]
        fn every_client_gets_distinct_classes_and_no_class_is_forgotten(
            seed in 0_u64..1000, classes in 1_usize..20, clients in 1_usize..40, each in 1_usize..20
        ) {
            prop_assume!(each <= classes && clients * each >= classes);
            let holders = deal_classes(&mut stream(seed, Purpose::Partition, 0, 0, 0), classes, clients, each);
            let mut count = vec![0; clients];
            for own in &holders {
                prop_assert!(own.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(own.len() == clients * each / classes || own.len() == (clients * each).div_ceil(classes));
                own.iter().for_each(|&client| count[client] += 1);
            }
            prop_assert!(count.iter().all(|&n| n == each));
        }
    }

    #[test]
    fn interleaving_spreads_every_class() {
        assert_eq!(interleave(&[vec![0, 1, 2, 3], vec![], vec![4, 5]]), [0, 4, 1, 2, 5, 3]);
    }
}
