//! Arithmetic in a field of integers modulo a prime below 2^61, and polynomials through given points.

use crate::base::random::Stream;
use rand::Rng;

/// The integers modulo a prime. Elements are numbers below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(u64);

impl Field {
    /// The largest prime that fits, the Mersenne prime 2^61 - 1.
    pub const LARGEST: u64 = (1 << 61) - 1;
    /// The field of keys and seeds.
    pub const KEYS: Self = Self(Self::LARGEST);

    /// The field with this many elements; absent when the number is no prime or above [`Field::LARGEST`].
    #[must_use]
    pub fn new(prime: u64) -> Option<Self> {
        (prime <= Self::LARGEST && is_prime(prime)).then_some(Self(prime))
    }
    /// The prime.
    #[must_use]
    pub fn prime(self) -> u64 {
        self.0
    }
    /// Bits of an element.
    #[must_use]
    pub fn bits(self) -> u32 {
        64 - (self.0 - 1).leading_zeros()
    }
    /// a + b
    #[must_use]
    pub fn add(self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        if sum >= self.0 { sum - self.0 } else { sum }
    }
    /// a - b
    #[must_use]
    pub fn sub(self, a: u64, b: u64) -> u64 {
        if a >= b { a - b } else { a + self.0 - b }
    }
    /// a b
    #[must_use]
    pub fn mul(self, a: u64, b: u64) -> u64 {
        // A division of 128 bits takes several times as long as one of 64.
        if self.0 <= 1 << 32 { a * b % self.0 } else { (u128::from(a) * u128::from(b) % u128::from(self.0)) as u64 }
    }
    /// a to the power of n
    #[must_use]
    pub fn pow(self, mut a: u64, mut n: u64) -> u64 {
        let mut result = 1 % self.0;
        while n > 0 {
            if n & 1 == 1 {
                result = self.mul(result, a);
            }
            a = self.mul(a, a);
            n >>= 1;
        }
        result
    }
    /// 1 / a, by Fermat; 0 for 0.
    #[must_use]
    pub fn inverse(self, a: u64) -> u64 {
        self.pow(a, self.0 - 2)
    }
    /// The element that stands for a whole number; negative ones are in the upper half.
    #[must_use]
    pub fn of(self, number: i64) -> u64 {
        number.rem_euclid(self.0 as i64) as u64
    }
    /// The number nearest to 0 for which an element stands.
    #[must_use]
    pub fn signed(self, element: u64) -> i64 {
        if element > (self.0 - 1) / 2 { element as i64 - self.0 as i64 } else { element as i64 }
    }
    /// A uniform element.
    pub fn random(self, rng: &mut Stream) -> u64 {
        loop {
            let value = rng.next_u64() >> (64 - self.bits());
            if value < self.0 {
                return value;
            }
        }
    }
    /// The factors by which the values at `points` (distinct) make the value at `x` of the polynomial through them.
    #[must_use]
    pub fn lagrange(self, points: &[u64], x: u64) -> Vec<u64> {
        let factor = |(i, &own): (usize, &u64)| {
            let others = points.iter().enumerate().filter(|(j, _)| *j != i);
            let (above, below) = others
                .fold((1, 1), |(above, below), (_, &other)| (self.mul(above, self.sub(x, other)), self.mul(below, self.sub(own, other))));
            self.mul(above, self.inverse(below))
        };
        points.iter().enumerate().map(factor).collect()
    }
    /// Shamir's shares of a secret at the points 1 to `count`: any `threshold` of them give it back, fewer say nothing about it.
    pub fn share(self, secret: u64, threshold: usize, count: usize, rng: &mut Stream) -> Vec<u64> {
        let coefficients: Vec<u64> = std::iter::once(secret).chain((1..threshold).map(|_| self.random(rng))).collect();
        let at = |x: u64| coefficients.iter().rev().fold(0, |sum, c| self.add(self.mul(sum, x), *c));
        (1..=count as u64).map(at).collect()
    }
    /// The secret behind shares, each with its point; wrong when they are fewer than the threshold.
    #[must_use]
    pub fn recover(self, shares: &[(u64, u64)]) -> u64 {
        let points: Vec<u64> = shares.iter().map(|(point, _)| *point).collect();
        let factors = self.lagrange(&points, 0);
        factors.iter().zip(shares).fold(0, |sum, (factor, (_, share))| self.add(sum, self.mul(*factor, *share)))
    }
}

/// Miller and Rabin's test with bases that decide every number of 64 bits.
fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 || BASES.iter().any(|base| n != *base && n.is_multiple_of(*base)) {
        return false;
    }
    if BASES.contains(&n) {
        return true;
    }
    let ring = Field(n);
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|base| {
        let mut power = ring.pow(*base, odd);
        if power == 1 || power == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            power = ring.mul(power, power);
            power == n - 1
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};

    #[test]
    fn primes_are_told_from_others() {
        for prime in [2, 3, 1997, 32_749, 65_537, 2_147_483_647, 4_294_967_291, 4_294_967_311, Field::LARGEST] {
            assert!(Field::new(prime).is_some_and(|field| field.prime() == prime), "{prime}");
        }
        // Carmichael numbers, a square, a number above the largest.
        for other in [0, 1, 4, 561, 1_729, 32_750, 4_295_098_369, 3_215_031_751, u64::MAX - 58] {
            assert_eq!(Field::new(other), None, "{other}");
        }
    }

    #[test]
    fn products_do_not_overflow() {
        for prime in [2_147_483_647, 4_294_967_291, 4_294_967_311, Field::LARGEST] {
            let field = Field::new(prime).expect("a prime");
            let (a, b) = (prime - 1, prime - 2);
            // (-1)(-2) = 2, and an element times its inverse is 1.
            assert_eq!(field.mul(a, b), 2 % prime);
            assert_eq!(field.mul(b, field.inverse(b)), 1);
            assert_eq!((field.add(a, a), field.sub(0, a)), (prime - 2, 1));
        }
    }

    #[test]
    fn signed_numbers_come_back() {
        let field = Field::new(1997).expect("a prime");
        for number in [-998, -1, 0, 1, 998] {
            assert_eq!(field.signed(field.of(number)), number);
        }
        assert_eq!(field.bits(), 11);
    }

    #[test]
    fn a_secret_needs_its_threshold() {
        let mut rng = stream(1, Purpose::Secure, 0, 0, 0);
        for field in [Field::KEYS, Field::new(1997).expect("a prime")] {
            let secret = field.random(&mut rng);
            let shares = field.share(secret, 4, 9, &mut rng);
            let some = |indices: &[usize]| indices.iter().map(|i| (*i as u64 + 1, shares[*i])).collect::<Vec<_>>();
            assert_eq!(field.recover(&some(&[0, 1, 2, 3])), secret);
            assert_eq!(field.recover(&some(&[8, 2, 5, 4])), secret);
            assert_ne!(field.recover(&some(&[0, 1, 2])), secret);
        }
    }
}
