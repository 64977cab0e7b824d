//! Logarithm, exponential and gamma draws from additions, multiplications, divisions and square roots alone.
//!
//! Those are rounded alike everywhere, so a partition drawn with them is the same on every platform, whichever C library it has.
//! Accurate to about one unit in the last place. It does not know what is drawn for what.

use crate::base::random::{Stream, unit};

/// The high bits of ln 2, so that small integer multiples are exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// ln 2 without its high bits.
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

/// The natural logarithm of a finite number above 0; minus infinity for 0.
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * 18_014_398_509_481_984.0, -54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i32) - 1023 + shift;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh(s), and |s| is at most 0.172, so 11 terms are enough.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for k in (1..=11).rev() {
        series = square * (1.0 / f64::from(2 * k + 1) + series);
    }
    let e = f64::from(exponent);
    e * LN2_HIGH + (2.0 * s + (2.0 * s * series + e * LN2_LOW))
}

/// The exponential function; 0 below about -708.
#[must_use]
pub fn exp(x: f64) -> f64 {
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    let k = (x * std::f64::consts::LOG2_E).round();
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let mut series = 1.0;
    for n in (1..=14).rev() {
        series = 1.0 + r * series / f64::from(n);
    }
    series * f64::from_bits(((1023 + k as i64) as u64) << 52)
}

/// A uniform number in (0, 1].
fn positive_unit(rng: &mut Stream) -> f64 {
    1.0 - unit(rng)
}

/// A standard normal draw, by the polar method.
pub(in crate::data) fn gauss(rng: &mut Stream) -> f64 {
    loop {
        let (a, b) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let r = a * a + b * b;
        if r < 1.0 && r > 0.0 {
            return a * (-2.0 * ln(r) / r).sqrt();
        }
    }
}

/// The logarithm of a gamma draw of the given shape (above 0) and scale 1; finite however small the shape is.
///
/// Marsaglia and Tsang's method for shapes of at least 1; below, a draw of the next shape times u^(1/shape).
#[must_use]
pub fn ln_gamma_draw(rng: &mut Stream, shape: f64) -> f64 {
    if shape < 1.0 {
        let lift = (ln(positive_unit(rng)) / shape).max(f64::MIN / 4.0);
        return ln_gamma_draw(rng, shape + 1.0) + lift;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = gauss(rng);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if ln(positive_unit(rng)) < 0.5 * x * x + d * (1.0 - v + ln(v)) {
            return ln(d) + ln(v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::{Purpose, stream};

    #[test]
    fn logarithm_and_exponential_are_near_the_platforms() {
        let mut rng = stream(1, Purpose::Partition, 0, 0, 0);
        for _ in 0..20_000 {
            let x = exp(1400.0 * (unit(&mut rng) - 0.5));
            assert!((ln(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * x.ln().abs(), "ln {x}");
            let y = 1400.0 * (unit(&mut rng) - 0.5);
            assert!((exp(y) / y.exp() - 1.0).abs() < 8.0 * f64::EPSILON, "exp {y}");
        }
        assert_eq!((ln(1.0), exp(0.0), ln(0.0), exp(-1e9)), (0.0, 1.0, f64::NEG_INFINITY, 0.0));
        assert!((ln(5e-324) - 5e-324_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn gamma_draws_have_their_mean_and_stay_finite() {
        let mut rng = stream(2, Purpose::Partition, 0, 0, 0);
        for shape in [0.1, 0.7, 1.0, 3.5, 100.0] {
            let n = 20_000;
            let mean = (0..n).map(|_| exp(ln_gamma_draw(&mut rng, shape))).sum::<f64>() / f64::from(n);
            // Five standard errors; the variance equals the shape.
            assert!((mean - shape).abs() < 5.0 * (shape / f64::from(n)).sqrt(), "shape {shape}: mean {mean}");
        }
        assert!((0..1000).all(|_| ln_gamma_draw(&mut rng, 1e-300).is_finite()));
    }
}
