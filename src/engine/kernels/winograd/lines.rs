//! The transforms of tiles: of one line of values, and of rows and columns.
//!
//! They evaluate polynomials at 0, +-3/4, +-3/2 and infinity, and are sums of few products; even and odd powers are shared between a
//! point and its negative.

use super::SIDE;
use crate::engine::real::Real;
use pulp::Simd;

/// The finite points but 0, each with both signs.
const NEAR: f64 = 0.75;
const FAR: f64 = 1.5;

/// A transform of one line of `N` values into `M`. A trait instead of closures, for only `inline(always)` functions are compiled with
/// the instruction set that was chosen.
pub(super) trait Line<F: Real, const N: usize, const M: usize> {
    fn of<S: Simd>(simd: S, line: [F::Pack<S>; N]) -> [F::Pack<S>; M];
}

/// The transform `L` of the rows, then of the columns.
#[inline(always)]
pub(super) fn both<F: Real, S: Simd, L: Line<F, N, M>, const N: usize, const M: usize>(
    simd: S,
    values: [[F::Pack<S>; N]; N],
) -> [[F::Pack<S>; M]; M] {
    let zero = F::splat(simd, F::ZERO);
    let mut rows = [[zero; M]; N];
    for i in 0..N {
        rows[i] = L::of(simd, values[i]);
    }
    let mut result = [[zero; M]; M];
    for j in 0..M {
        let mut column = [zero; N];
        for i in 0..N {
            column[i] = rows[i][j];
        }
        let column = L::of(simd, column);
        for i in 0..M {
            result[i][j] = column[i];
        }
    }
    result
}

/// The arithmetic of the transforms.
#[derive(Clone, Copy)]
struct Sums<S>(S);

impl<S: Simd> Sums<S> {
    /// `factor * a + b`.
    #[inline(always)]
    fn plus<F: Real>(self, factor: f64, a: F::Pack<S>, b: F::Pack<S>) -> F::Pack<S> {
        F::pack_mul_add(self.0, F::splat(self.0, F::from_f64(factor)), a, b)
    }
    #[inline(always)]
    fn times<F: Real>(self, factor: f64, a: F::Pack<S>) -> F::Pack<S> {
        self.plus::<F>(factor, a, F::splat(self.0, F::ZERO))
    }
    #[inline(always)]
    fn sum<F: Real>(self, a: F::Pack<S>, b: F::Pack<S>) -> F::Pack<S> {
        F::pack_add(self.0, a, b)
    }
    #[inline(always)]
    fn difference<F: Real>(self, a: F::Pack<S>, b: F::Pack<S>) -> F::Pack<S> {
        self.plus::<F>(-1.0, b, a)
    }
    /// `factor` times the polynomial with these coefficients, the lowest first, at `point` and at `-point`.
    #[inline(always)]
    fn polynomial<F: Real, const N: usize>(self, point: f64, factor: f64, c: [F::Pack<S>; N]) -> (F::Pack<S>, F::Pack<S>) {
        let (mut even, mut odd) = (self.times::<F>(factor, c[0]), self.times::<F>(factor * point, c[1]));
        for i in 2..N {
            let sum = if i % 2 == 0 { &mut even } else { &mut odd };
            *sum = self.plus::<F>(factor * power(point, i), c[i], *sum);
        }
        (self.sum::<F>(even, odd), self.difference::<F>(even, odd))
    }
}

const NEAR2: f64 = NEAR * NEAR;
const FAR2: f64 = FAR * FAR;
/// `x^4 - (NEAR2 + FAR2) x^2 + NEAR2 FAR2` has the four points as its roots.
const MIDDLE: f64 = -(NEAR2 + FAR2);
const LOWEST: f64 = NEAR2 * FAR2;
/// Products of a point's differences from the other points, by which the filters are divided.
const AT_NEAR: f64 = 1.0 / (2.0 * NEAR2 * (NEAR2 - FAR2));
const AT_FAR: f64 = 1.0 / (2.0 * FAR2 * (FAR2 - NEAR2));

/// `B^T d`.
pub(super) struct InputLine;

impl<F: Real> Line<F, SIDE, SIDE> for InputLine {
    #[inline(always)]
    fn of<S: Simd>(simd: S, d: [F::Pack<S>; SIDE]) -> [F::Pack<S>; SIDE] {
        let s = Sums(simd);
        let (even_near, odd_near) = (s.plus::<F>(-FAR2, d[2], d[4]), s.plus::<F>(-FAR2, d[1], d[3]));
        let (even_far, odd_far) = (s.plus::<F>(-NEAR2, d[2], d[4]), s.plus::<F>(-NEAR2, d[1], d[3]));
        [
            s.plus::<F>(LOWEST, d[0], s.plus::<F>(MIDDLE, d[2], d[4])),
            s.plus::<F>(NEAR, odd_near, even_near),
            s.plus::<F>(-NEAR, odd_near, even_near),
            s.plus::<F>(FAR, odd_far, even_far),
            s.plus::<F>(-FAR, odd_far, even_far),
            s.plus::<F>(LOWEST, d[1], s.plus::<F>(MIDDLE, d[3], d[5])),
        ]
    }
}

/// `B t`.
pub(super) struct InputBack;

impl<F: Real> Line<F, SIDE, SIDE> for InputBack {
    #[inline(always)]
    fn of<S: Simd>(simd: S, t: [F::Pack<S>; SIDE]) -> [F::Pack<S>; SIDE] {
        let s = Sums(simd);
        let (near, near_odd) = (s.sum::<F>(t[1], t[2]), s.difference::<F>(t[1], t[2]));
        let (far, far_odd) = (s.sum::<F>(t[3], t[4]), s.difference::<F>(t[3], t[4]));
        [
            s.times::<F>(LOWEST, t[0]),
            s.plus::<F>(LOWEST, t[5], s.plus::<F>(-NEAR * FAR2, near_odd, s.times::<F>(-NEAR2 * FAR, far_odd))),
            s.plus::<F>(MIDDLE, t[0], s.plus::<F>(-FAR2, near, s.times::<F>(-NEAR2, far))),
            s.plus::<F>(MIDDLE, t[5], s.plus::<F>(NEAR, near_odd, s.times::<F>(FAR, far_odd))),
            s.sum::<F>(t[0], s.sum::<F>(near, far)),
            t[5],
        ]
    }
}

/// `A^T m`.
pub(super) struct OutputLine;

impl<F: Real, const SIZE: usize> Line<F, SIDE, SIZE> for OutputLine {
    #[inline(always)]
    fn of<S: Simd>(simd: S, m: [F::Pack<S>; SIDE]) -> [F::Pack<S>; SIZE] {
        let s = Sums(simd);
        let (near, near_odd) = (s.sum::<F>(m[1], m[2]), s.difference::<F>(m[1], m[2]));
        let (far, far_odd) = (s.sum::<F>(m[3], m[4]), s.difference::<F>(m[3], m[4]));
        let mut y = [s.sum::<F>(m[0], s.sum::<F>(near, far)); SIZE];
        for (i, y) in y.iter_mut().enumerate().skip(1) {
            let (near, far) = if i % 2 == 0 { (near, far) } else { (near_odd, far_odd) };
            *y = s.plus::<F>(power(NEAR, i), near, s.times::<F>(power(FAR, i), far));
        }
        y[SIZE - 1] = s.sum::<F>(y[SIZE - 1], m[5]);
        y
    }
}

/// `A y`.
pub(super) struct OutputBack;

impl<F: Real, const SIZE: usize> Line<F, SIZE, SIDE> for OutputBack {
    #[inline(always)]
    fn of<S: Simd>(simd: S, y: [F::Pack<S>; SIZE]) -> [F::Pack<S>; SIDE] {
        let s = Sums(simd);
        let (near, minus_near) = s.polynomial::<F, SIZE>(NEAR, 1.0, y);
        let (far, minus_far) = s.polynomial::<F, SIZE>(FAR, 1.0, y);
        [y[0], near, minus_near, far, minus_far, y[SIZE - 1]]
    }
}

/// `G g`.
pub(super) struct FilterLine;

impl<F: Real, const K: usize> Line<F, K, SIDE> for FilterLine {
    #[inline(always)]
    fn of<S: Simd>(simd: S, g: [F::Pack<S>; K]) -> [F::Pack<S>; SIDE] {
        let s = Sums(simd);
        let (near, minus_near) = s.polynomial::<F, K>(NEAR, AT_NEAR, g);
        let (far, minus_far) = s.polynomial::<F, K>(FAR, AT_FAR, g);
        [s.times::<F>(1.0 / LOWEST, g[0]), near, minus_near, far, minus_far, g[K - 1]]
    }
}

/// `G^T u`.
pub(super) struct FilterBack;

impl<F: Real, const K: usize> Line<F, SIDE, K> for FilterBack {
    #[inline(always)]
    fn of<S: Simd>(simd: S, u: [F::Pack<S>; SIDE]) -> [F::Pack<S>; K] {
        let s = Sums(simd);
        let (near, near_odd) = (s.sum::<F>(u[1], u[2]), s.difference::<F>(u[1], u[2]));
        let (far, far_odd) = (s.sum::<F>(u[3], u[4]), s.difference::<F>(u[3], u[4]));
        let mut g = [near; K];
        for (j, g) in g.iter_mut().enumerate() {
            let (near, far) = if j % 2 == 0 { (near, far) } else { (near_odd, far_odd) };
            *g = s.plus::<F>(AT_NEAR * power(NEAR, j), near, s.times::<F>(AT_FAR * power(FAR, j), far));
        }
        g[0] = s.plus::<F>(1.0 / LOWEST, u[0], g[0]);
        g[K - 1] = s.sum::<F>(g[K - 1], u[5]);
        g
    }
}

/// A small power, known when compiling.
#[inline(always)]
fn power(point: f64, exponent: usize) -> f64 {
    let mut product = 1.0;
    for _ in 0..exponent {
        product *= point;
    }
    product
}
