//! Elementary functions in single precision without branches and tables, so that a loop over them is compiled to whole packs.
//!
//! Only additions, multiplications and shifts of bits: the results are equal on every class of CPU. Errors are stated in units in the
//! last place (ulp) of the result, or as absolute ones where the result is a probability.

/// `1.5 * 2^23`: adding it rounds to the nearest whole number, which then stands in the last bits.
const ROUND: f32 = 12_582_912.0;

/// The exponential, within 2 ulp. 0 below -104, infinite above 89; NaN stays.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // ln 2 in two parts, of which the first has few enough bits for exact products.
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = -2.121_944_4e-4;
    // Comparisons that NaN fails, so that it stays.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let rest = x - whole * HIGH - whole * LOW;
    // The minimax polynomial of Moshier's Cephes library for exp(rest) = 1 + rest + rest^2 p(rest), |rest| <= ln(2) / 2.
    let p = 1.987_569_1e-4;
    let p = p * rest + 1.398_2e-3;
    let p = p * rest + 8.333_452e-3;
    let p = p * rest + 4.166_579_6e-2;
    let p = p * rest + 1.666_666_6e-1;
    let p = p * rest + 0.5;
    let value = p * (rest * rest) + rest + 1.0;
    // In two steps, since 2^exponent itself may be too large or too small for a float.
    let half = exponent >> 1;
    value * power_of_two(half) * power_of_two(exponent.wrapping_sub(half))
}

/// `2^exponent` for exponents from -126 to 127.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

/// The hyperbolic tangent, within 3 ulp.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    // Cephes' polynomial where the difference above would cancel.
    let square = x * x;
    let p = -5.704_988_7e-3;
    let p = p * square + 2.063_909e-2;
    let p = p * square - 5.373_971_6e-2;
    let p = p * square + 0.133_314_42;
    let p = p * square - 0.333_332_8;
    let near = p * square * x + x;
    (if x.abs() < 0.625 { near } else { far }).copysign(x)
}

/// The share of a standard normal distribution below `x`, within 3e-7.
#[inline(always)]
pub(super) fn normal_share(x: f32) -> f32 {
    // Abramowitz and Stegun, 7.1.26, for the error function of |x| / sqrt(2).
    let far = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * far);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152;
    let p = p * t + 1.421_413_7;
    let p = p * t - 0.284_496_74;
    let p = p * t + 0.254_829_6;
    let tail = 0.5 * p * t * exp(-far * far);
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (0..200_001).map(move |i| from + (to - from) * (i as f32 / 200_000.0))
    }

    fn ulp(value: f64) -> f64 {
        let near = value as f32;
        f64::from(f32::from_bits(near.abs().to_bits() + 1) - near.abs())
    }

    #[test]
    fn exponentials_and_tangents_are_near_those_of_double_precision() {
        for x in steps(-87.0, 88.7) {
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 2.0 * ulp(exact), "exp({x}) = {} but is {exact}", exp(x));
        }
        for x in steps(-10.0, 10.0).chain(steps(-0.01, 0.01)) {
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() <= 3.0 * ulp(exact), "tanh({x}) = {} but is {exact}", tanh(x));
        }
    }

    #[test]
    fn the_normal_share_is_near_that_of_double_precision() {
        for x in steps(-12.0, 12.0) {
            let exact = 0.5 * statrs::function::erf::erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
            assert!((f64::from(normal_share(x)) - exact).abs() <= 3e-7, "{x}: {} but is {exact}", normal_share(x));
        }
    }

    #[test]
    fn ends_of_the_range_and_nan() {
        assert_eq!((exp(0.0), tanh(0.0), normal_share(0.0)), (1.0, 0.0, 0.5));
        assert_eq!((exp(f32::NEG_INFINITY), exp(-200.0), exp(f32::INFINITY)), (0.0, 0.0, f32::INFINITY));
        assert!(exp(-100.0) > 0.0 && exp(-100.0) < 1e-43);
        assert_eq!((tanh(50.0), tanh(-50.0), tanh(f32::INFINITY)), (1.0, -1.0, 1.0));
        assert_eq!((normal_share(-40.0), normal_share(40.0)), (0.0, 1.0));
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && normal_share(f32::NAN).is_nan());
        assert!(tanh(-0.0).is_sign_negative());
    }
}
