//! Python's `random`, bit for bit: what `random.seed(s)` and the functions after it draw.
//!
//! The same generator as numpy's (MT19937), seeded and read in another way. It does not know what is drawn for what.

use super::numpy::Legacy;

/// The generator after `random.seed(seed)`.
pub struct Python(Legacy);

impl Python {
    /// Seeds it with a whole number, as version 2 of Python's seeding does.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key: &[u32] = if high == 0 { &[low] } else { &[low, high] };
        Self(Legacy::by_array(key))
    }
    /// A uniform integer below `bound`, which must be at least 1: `random.randrange(bound)`.
    pub fn below(&mut self, bound: u32) -> u32 {
        let bits = 32 - bound.leading_zeros();
        loop {
            let value = self.0.word() >> (32 - bits.max(1));
            if value < bound.max(1) {
                return value;
            }
        }
    }
    /// `random.sample(items, count)`; `count` is at most the number of items.
    pub fn sample(&mut self, items: &[u32], count: usize) -> Vec<u32> {
        let n = items.len();
        let count = count.min(n);
        // Python takes a pool when that is smaller than a set of what was drawn.
        let mut limit = 21_usize;
        if count > 5 {
            limit += 4_usize.saturating_pow(((count as f64 * 3.0).ln() / 4_f64.ln()).ceil() as u32);
        }
        let mut out = Vec::with_capacity(count);
        if n <= limit {
            let mut pool = items.to_vec();
            for i in 0..count {
                let j = self.below((n - i) as u32) as usize;
                out.push(pool[j]);
                pool[j] = pool[n - i - 1];
            }
        } else {
            let mut drawn = vec![false; n];
            for _ in 0..count {
                let mut j = self.below(n as u32) as usize;
                while drawn[j] {
                    j = self.below(n as u32) as usize;
                }
                drawn[j] = true;
                out.push(items[j]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    // Drawn by Python 3.11 with tests/golden/partitions/make_rules.py.
    #[test]
    fn draws_are_pythons() {
        for line in include_str!("../../../tests/golden/partitions/python.jsonl").lines() {
            let golden: Value = serde_json::from_str(line).expect("a golden line");
            let mut rng = Python::new(golden["seed"].as_u64().expect("a seed"));
            let list = |key: &str| -> Vec<u32> {
                golden[key].as_array().expect("a list").iter().map(|v| v.as_u64().expect("an integer") as u32).collect()
            };
            let below: Vec<u32> = [1, 2, 3, 10, 16, 17, 1000, 70_000].iter().map(|&bound| rng.below(bound)).collect();
            assert_eq!(below, list("below"));
            let items: Vec<u32> = (100..1100).collect();
            assert_eq!(rng.sample(&items[..20], 7), list("small"));
            assert_eq!(rng.sample(&items, 6), list("sparse"));
            assert_eq!(rng.sample(&items, 900), list("dense"));
        }
    }
}
