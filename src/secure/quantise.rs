//! Real numbers as elements of a field: x is rounded to a multiple of 2^-bits.

use super::field::Field;
use crate::base::{Fault, Outcome};

/// A field, and the bits behind the binary point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub field: Field,
    pub bits: u32,
}

impl Grid {
    /// Whether sums of `count` vectors with entries up to `greatest` keep their sign and size.
    ///
    /// # Errors
    /// A stage fault: p must exceed 2 m 2^b max|x|.
    pub fn holds(self, count: usize, greatest: f64) -> Outcome<()> {
        // In f64 so that no product overflows; half a step is added for rounding.
        let needed = 2.0 * count as f64 * (f64::from(self.bits).exp2() * greatest + 0.5);
        let prime = self.field.prime();
        if (prime as f64) > needed {
            return Ok(());
        }
        Err(Fault::stage(format!(
            "the field of `secure` is too small: `prime` {prime} must exceed 2 m 2^bits max|x| = {needed:.0} for m = {count} clients, \
             `bits` {} and parameters up to {greatest:.3}",
            self.bits
        ))
        .help(match super::PRIMES.into_iter().find(|prime| *prime as f64 > needed) {
            Some(prime) => format!("use `prime: {prime}`, or fewer `bits`"),
            None => "use fewer `bits`: no larger `prime` is known here".to_owned(),
        }))
    }
    /// The element for a number within the bound of [`Grid::holds`].
    pub fn element(self, number: f64) -> u64 {
        self.field.of((number * f64::from(self.bits).exp2()).round() as i64)
    }
    /// The number for an element.
    pub fn number(self, element: u64) -> f64 {
        self.field.signed(element) as f64 / f64::from(self.bits).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_errs_by_half_a_step_at_most() {
        let grid = Grid { field: Field::new(2_147_483_647).expect("a prime"), bits: 10 };
        for i in -500..500 {
            let x = f64::from(i) * 0.0137;
            assert!((grid.number(grid.element(x)) - x).abs() <= 0.5 / 1024.0);
        }
    }

    #[test]
    fn the_rule_is_the_one_that_is_named() {
        let grid = Grid { field: Field::new(32_749).expect("a prime"), bits: 10 };
        assert!(grid.holds(10, 1.5).is_ok());
        let fault = grid.holds(10, 1.7).expect_err("too large");
        assert!(fault.what.contains("`prime` 32749 must exceed 2 m 2^bits max|x| = 34826 for m = 10 clients"), "{fault}");
    }

    #[test]
    fn a_field_that_is_too_small_names_one_that_is_not() {
        let help = |prime: u64, greatest: f64| {
            let grid = Grid { field: Field::new(prime).expect("a prime"), bits: 16 };
            grid.holds(10, greatest).expect_err("too small").help.expect("what to do")
        };
        assert_eq!(help(32_749, 1.0), "use `prime: 2147483647`, or fewer `bits`");
        assert_eq!(help(2_147_483_647, 1e4), "use `prime: 2305843009213693951`, or fewer `bits`");
        assert!(help(2_305_843_009_213_693_951, 1e15).starts_with("use fewer `bits`"));
    }
}
