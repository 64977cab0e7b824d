//! numpy's legacy generator, bit for bit: what `numpy.random.seed(s)` and the functions after it draw.
//!
//! The reference splits its data with this generator, so its partitions can be had again only by imitating it. Sources: M. Matsumoto,
//! T. Nishimura, "Mersenne Twister", 1998 (MT19937); G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables",
//! 2000 (shape above 1); J. H. Ahrens, U. Dieter, 1974 (shape below 1). Logarithms and powers come from the platform's C library, as
//! numpy's do. It does not know what is drawn for what.

const N: usize = 624;
const M: usize = 397;

/// The legacy generator with its state: 624 words, the position among them, and a normal draw kept for the next call.
pub struct Legacy {
    words: Box<[u32; N]>,
    at: usize,
    kept: Option<f64>,
}

impl Legacy {
    /// The generator after `numpy.random.seed(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut words = Box::new([seed; N]);
        for i in 1..N {
            let before = words[i - 1];
            words[i] = 1_812_433_253_u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        Self { words, at: N, kept: None }
    }
    /// The generator seeded with several words, as Python's `random` and numpy do it for long seeds.
    #[must_use]
    pub(super) fn by_array(key: &[u32]) -> Self {
        let mut rng = Self::new(19_650_218);
        let words = &mut rng.words;
        let (mut i, mut j) = (1, 0);
        let mixed = |words: &[u32; N], i: usize, factor: u32| words[i] ^ (words[i - 1] ^ (words[i - 1] >> 30)).wrapping_mul(factor);
        for _ in 0..N.max(key.len()) {
            words[i] = mixed(words, i, 1_664_525).wrapping_add(key[j]).wrapping_add(j as u32);
            i += 1;
            j = (j + 1) % key.len();
            if i == N {
                words[0] = words[N - 1];
                i = 1;
            }
        }
        for _ in 1..N {
            words[i] = mixed(words, i, 1_566_083_941).wrapping_sub(i as u32);
            i += 1;
            if i == N {
                words[0] = words[N - 1];
                i = 1;
            }
        }
        words[0] = 0x8000_0000;
        rng
    }
    /// The next 32 random bits.
    pub fn word(&mut self) -> u32 {
        if self.at == N {
            self.twist();
        }
        let mut y = self.words[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }
    fn twist(&mut self) {
        for i in 0..N {
            let y = (self.words[i] & 0x8000_0000) | (self.words[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[i] = self.words[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.at = 0;
    }
    /// A uniform double in [0, 1) with 53 random bits.
    pub fn double(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }
    /// A uniform integer in `0..=greatest`: masked words until one fits; draws nothing when `greatest` is 0.
    pub fn up_to(&mut self, greatest: u32) -> u32 {
        if greatest == 0 {
            return 0;
        }
        let mask = u32::MAX >> greatest.leading_zeros();
        loop {
            let value = self.word() & mask;
            if value <= greatest {
                return value;
            }
        }
    }
    /// `numpy.random.shuffle` of a one-dimensional array.
    ///
    /// # Panics
    /// When there are more than 2^32 items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.up_to(u32::try_from(i).expect("indices of samples are u32"));
            items.swap(i, j as usize);
        }
    }
    /// `numpy.random.permutation(n)`; `numpy.random.choice(n, k, replace=False)` is its first `k`.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut items: Vec<u32> = (0..n).collect();
        self.shuffle(&mut items);
        items
    }
    fn exponential(&mut self) -> f64 {
        -(1.0 - self.double()).ln()
    }
    /// A standard normal draw, by the polar method; every second one was drawn before.
    pub fn gauss(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let a = 2.0 * self.double() - 1.0;
            let b = 2.0 * self.double() - 1.0;
            let r = a * a + b * b;
            if r < 1.0 && r != 0.0 {
                let f = (-2.0 * r.ln() / r).sqrt();
                self.kept = Some(f * a);
                return f * b;
            }
        }
    }
    /// A gamma draw of the given shape (above 0) and scale 1.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape == 1.0 {
            return self.exponential();
        }
        if shape < 1.0 {
            loop {
                let u = self.double();
                let v = self.exponential();
                if u <= 1.0 - shape {
                    let x = u.powf(1.0 / shape);
                    if x <= v {
                        return x;
                    }
                } else {
                    let y = -((1.0 - u) / shape).ln();
                    let x = (1.0 - shape + shape * y).powf(1.0 / shape);
                    if x <= v + y {
                        return x;
                    }
                }
            }
        }
        let b = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * b).sqrt();
        loop {
            let (x, v) = loop {
                let x = self.gauss();
                let v = 1.0 + c * x;
                if v > 0.0 {
                    break (x, v);
                }
            };
            let v = v * v * v;
            let u = self.double();
            if u < 1.0 - 0.0331 * (x * x) * (x * x) || u.ln() < 0.5 * x * x + b * (1.0 - v + v.ln()) {
                return b * v;
            }
        }
    }
    /// `numpy.random.lognormal(mean, sigma)`.
    pub fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        (mean + sigma * self.gauss()).exp()
    }
    /// `numpy.random.dirichlet` of `n` equal parameters. All parts may be NaN when the parameter is so small that no draw is above 0.
    pub fn dirichlet(&mut self, alpha: f64, n: usize) -> Vec<f64> {
        let mut parts: Vec<f64> = (0..n).map(|_| self.gamma(alpha)).collect();
        let mut sum = 0.0;
        parts.iter().for_each(|part| sum += part);
        let inverse = 1.0 / sum;
        parts.iter_mut().for_each(|part| *part *= inverse);
        parts
    }
}

/// `numpy.sum` of doubles: pairwise, with eight running sums in blocks of at most 128.
#[must_use]
pub fn sum(values: &[f64]) -> f64 {
    if values.len() < 8 {
        return values.iter().fold(-0.0, |sum, value| sum + value);
    }
    if values.len() > 128 {
        let half = values.len() / 2;
        let (left, right) = values.split_at(half - half % 8);
        return sum(left) + sum(right);
    }
    let blocks = values.chunks_exact(8);
    let rest = blocks.remainder();
    let mut r = [0.0; 8];
    for (at, block) in blocks.enumerate() {
        for (r, value) in r.iter_mut().zip(block) {
            *r = if at == 0 { *value } else { *r + value };
        }
    }
    let whole = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    rest.iter().fold(whole, |sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    // Drawn by numpy 2.2.6 with tests/golden/partitions/make.py.
    #[test]
    fn draws_are_numpys_bit_for_bit() {
        for line in include_str!("../../../tests/golden/partitions/numpy.jsonl").lines() {
            let golden: Value = serde_json::from_str(line).expect("a golden line");
            let bits = |key: &str| -> Vec<u64> {
                let list = golden[key].as_array().expect("a list");
                list.iter().map(|v| u64::from_str_radix(v.as_str().expect("bits"), 16).expect("hexadecimal")).collect()
            };
            let integers = |key: &str| -> Vec<u32> {
                golden[key].as_array().expect("a list").iter().map(|v| v.as_u64().expect("an integer") as u32).collect()
            };
            let seed = golden["seed"].as_u64().expect("a seed") as u32;
            let mut rng = Legacy::new(seed);
            let mut draw = |n: usize, f: &dyn Fn(&mut Legacy) -> f64| -> Vec<u64> { (0..n).map(|_| f(&mut rng).to_bits()).collect() };
            assert_eq!(draw(5, &Legacy::double), bits("double"), "double, seed {seed}");
            assert_eq!(draw(5, &Legacy::gauss), bits("gauss"), "gauss, seed {seed}");
            for alpha in ["0.01", "0.1", "0.5", "1.0", "1.5", "100.0"] {
                let shape: f64 = alpha.parse().expect("a number");
                assert_eq!(draw(20, &|rng| rng.gamma(shape)), bits(&format!("gamma {alpha}")), "gamma {alpha}, seed {seed}");
            }
            assert_eq!(rng.permutation(20), integers("permutation"), "permutation, seed {seed}");
            let randint: Vec<u32> = (0..20).map(|_| 3 + rng.up_to(17 - 1 - 3)).collect();
            assert_eq!(randint, integers("randint"), "randint, seed {seed}");
        }
    }
}
