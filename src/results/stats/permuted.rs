//! The exact p-value of Friedman's test for few methods and blocks: the share of all orders within the blocks whose statistic is at least
//! as large.
//!
//! What counts of the blocks so far are the rank sums of the methods, in any order, since each further block is permuted in all ways. So
//! equal sums are counted together, which keeps them few.

use std::collections::BTreeMap;

/// The most steps, a fraction of a second.
const MOST: usize = 4_000_000;
/// The most methods; 7 already have 5,040 orders.
const METHODS: usize = 6;

/// The share of orders whose sum of squared rank sums is at least that of these `ranks` (a row a block), ties within a block included; none
/// where there are too many orders to count.
#[must_use]
pub fn friedman(ranks: &[Vec<f64>]) -> Option<f64> {
    let methods = ranks.first().map(Vec::len).filter(|methods| (2..=METHODS).contains(methods))?;
    // Shared ranks end in one half.
    let blocks: Vec<Vec<u32>> = ranks.iter().map(|block| block.iter().map(|rank| (2.0 * rank).round() as u32).collect()).collect();
    let squares = |sums: &[u32]| sums.iter().map(|&sum| u64::from(sum) * u64::from(sum)).sum::<u64>();
    let observed = squares(&(0..methods).map(|method| blocks.iter().map(|block| block[method]).sum()).collect::<Vec<u32>>());
    let mut sums: BTreeMap<Vec<u32>, f64> = BTreeMap::from([(vec![0; methods], 1.0)]);
    let mut steps = 0;
    for block in &blocks {
        let orders = orders(block);
        steps += sums.len() * orders.len();
        if steps > MOST {
            return None;
        }
        let share = 1.0 / orders.len() as f64;
        let mut next: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
        for (sum, weight) in &sums {
            for order in &orders {
                let mut sum: Vec<u32> = sum.iter().zip(order).map(|(sum, rank)| sum + rank).collect();
                sum.sort_unstable();
                *next.entry(sum).or_default() += weight * share;
            }
        }
        sums = next;
    }
    Some(sums.iter().filter(|(sum, _)| squares(sum) >= observed).map(|(_, weight)| weight).sum::<f64>().min(1.0))
}

/// All different orders of some ranks.
fn orders(ranks: &[u32]) -> Vec<Vec<u32>> {
    let mut order = ranks.to_vec();
    order.sort_unstable();
    let mut all = vec![order.clone()];
    // The next order by size, until there is none.
    while let Some(at) = (0..order.len().saturating_sub(1)).rev().find(|&at| order[at] < order[at + 1]) {
        let greater = (at + 1..order.len()).rev().find(|&other| order[other] > order[at]).expect("the next one is greater");
        order.swap(at, greater);
        order[at + 1..].reverse();
        all.push(order.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreeing(methods: usize, blocks: usize) -> Vec<Vec<f64>> {
        vec![(1..=methods).map(|rank| rank as f64).collect(); blocks]
    }

    #[test]
    fn values_are_those_of_the_published_tables() {
        // Friedman's own tables (1937): complete agreement, and others.
        let near = |found: Option<f64>, wanted: f64| assert!((found.expect("few orders") - wanted).abs() < 5e-5, "{found:?}, not {wanted}");
        near(friedman(&agreeing(3, 2)), 0.1667);
        near(friedman(&agreeing(3, 3)), 0.0278);
        near(friedman(&agreeing(3, 4)), 0.0046);
        near(friedman(&agreeing(4, 3)), 0.0017);
        // Rank sums 4, 5, 9 of three blocks: chi2 = 14 / 3, p 0.194.
        near(friedman(&[vec![1.0, 2.0, 3.0], vec![1.0, 2.0, 3.0], vec![2.0, 1.0, 3.0]]), 0.194_44);
        assert_eq!(friedman(&agreeing(7, 3)), None);
        assert!(friedman(&agreeing(6, 40)).is_none() && friedman(&agreeing(3, 100)).is_some());
    }

    #[test]
    fn counting_agrees_with_trying_all_orders() {
        let blocks = [vec![1.0, 2.5, 2.5, 4.0], vec![2.0, 1.0, 4.0, 3.0], vec![1.5, 3.5, 1.5, 3.5]];
        let doubled: Vec<Vec<u32>> = blocks.iter().map(|block| block.iter().map(|rank| (2.0 * rank) as u32).collect()).collect();
        let squares = |picked: [&[u32]; 3]| (0..4).map(|m| picked.iter().map(|order| order[m]).sum::<u32>().pow(2)).sum::<u32>();
        let observed = squares([&doubled[0], &doubled[1], &doubled[2]]);
        let (mut all, mut as_large) = (0, 0);
        for a in orders(&doubled[0]) {
            for b in orders(&doubled[1]) {
                for c in orders(&doubled[2]) {
                    all += 1;
                    as_large += u32::from(squares([&a, &b, &c]) >= observed);
                }
            }
        }
        assert_eq!(all, 12 * 24 * 6);
        let found = friedman(&blocks).expect("few orders");
        assert!((found - f64::from(as_large) / f64::from(all)).abs() < 1e-12);
    }
}
