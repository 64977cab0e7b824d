//! Products of bf16 numbers, two at a time, where the CPU has them (AVX-512 BF16).
//!
//! A pair is a `u32`: the first number in its lower half, the second in its upper half. One instruction multiplies sixteen pairs by sixteen
//! others and adds both products to sums in single precision, each rounded; numbers below 2^-126 count as 0.

use super::CHOICE;
use std::sync::OnceLock;

/// Pairs, and sums, in a register.
pub const LANES: usize = 16;

/// A register of pairs.
pub type Pairs = [u32; LANES];
/// A register of sums.
pub type Sums = [f32; LANES];

/// The name by which [`CHOICE`] asks for the instruction set with these products; that without them is `avx512`.
pub(super) const NAME: &str = "avx512-bf16";

/// Whether the CPU has such products and [`CHOICE`] does not choose others.
#[must_use]
pub fn multiplies() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| available() && matches!(std::env::var(CHOICE).unwrap_or_default().as_str(), "" | NAME))
}

/// Whether the CPU has such products.
#[cfg(target_arch = "x86_64")]
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bf16")
}

/// Whether the CPU has such products.
#[cfg(not(target_arch = "x86_64"))]
fn available() -> bool {
    false
}

/// `c[r] += sum over p of a[r][p] * b[p]`, in the order of `p`.
pub struct Product<'a> {
    /// Rows of `a` and `c`.
    pub rows: usize,
    /// Registers in a row of `b` and `c`.
    pub lines: usize,
    /// Pairs that are summed.
    pub pairs: usize,
    /// The pair of row `r` and place `p` is at `r * steps.0 + p * steps.1`.
    pub a: &'a [u32],
    /// See `a`.
    pub steps: (usize, usize),
    /// `pairs` rows of `lines` registers.
    pub b: &'a [Pairs],
    /// `rows` rows of `lines` registers.
    pub c: &'a mut [Sums],
}

/// `c[r][i] = sum of a[r] * b[i]` over whole rows.
pub struct Dots<'a> {
    /// Registers in a row of `a` and `b`.
    pub lines: usize,
    /// Rows of `lines` registers.
    pub a: &'a [Pairs],
    /// Rows of `lines` registers.
    pub b: &'a [Pairs],
    /// As many numbers as `a` has rows times those of `b`.
    pub c: &'a mut [f32],
}

/// Makes the product with the CPU's instruction, or by its definition where it has none.
pub fn multiply(product: Product<'_>) {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the CPU has both features.
        #[allow(unsafe_code)]
        unsafe {
            native::product(product);
        }
        return;
    }
    let Product { rows, lines, pairs, a, steps, b, c } = product;
    for (r, c) in c.chunks_exact_mut(lines).enumerate().take(rows) {
        for (p, b) in b.chunks_exact(lines).enumerate().take(pairs) {
            let a = a[r * steps.0 + p * steps.1];
            for (c, b) in c.iter_mut().zip(b) {
                for (c, &b) in c.iter_mut().zip(b) {
                    *c = add(a, b, *c);
                }
            }
        }
    }
}

/// Makes the dot products with the CPU's instruction, or by their definition where it has none.
pub fn dots(dots: Dots<'_>) {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the CPU has both features.
        #[allow(unsafe_code)]
        unsafe {
            native::dots(dots);
        }
        return;
    }
    let Dots { lines, a, b, c } = dots;
    for (a, c) in a.chunks_exact(lines).zip(c.chunks_exact_mut(b.len() / lines)) {
        for (b, c) in b.chunks_exact(lines).zip(c) {
            *c = a.as_flattened().iter().zip(b.as_flattened()).fold(0.0, |sum, (&a, &b)| add(a, b, sum));
        }
    }
}

/// Both products of two pairs, added to a sum.
fn add(a: u32, b: u32, sum: f32) -> f32 {
    let upper = |pair: u32| f32::from_bits(pair & 0xffff_0000);
    let lower = |pair: u32| f32::from_bits(pair << 16);
    // A product of two such numbers is exact.
    lower(a) * lower(b) + (upper(a) * upper(b) + sum)
}

#[cfg(target_arch = "x86_64")]
mod native {
    use super::{Dots, LANES, Pairs, Product, Sums};
    use core::arch::x86_64::{__m512, __m512bh, _mm512_dpbf16_ps, _mm512_reduce_add_ps, _mm512_set1_epi32, _mm512_setzero_ps};
    use core::mem::transmute;

    /// Pairs that are summed before the next columns: few enough that their part of `b` stays near.
    const BLOCK: usize = 16;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn pairs(from: &Pairs) -> __m512bh {
        // SAFETY: 64 bytes, for which every pattern of bits is a value.
        #[allow(unsafe_code)]
        unsafe {
            transmute(*from)
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn everywhere(pair: u32) -> __m512bh {
        // SAFETY: as in `pairs`.
        #[allow(unsafe_code)]
        unsafe {
            transmute(_mm512_set1_epi32(pair.cast_signed()))
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn load(from: &Sums) -> __m512 {
        // SAFETY: as in `pairs`.
        #[allow(unsafe_code)]
        unsafe {
            transmute(*from)
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn store(sums: __m512, to: &mut Sums) {
        // SAFETY: as in `pairs`.
        #[allow(unsafe_code)]
        unsafe {
            *to = transmute::<__m512, Sums>(sums);
        }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn product(product: Product<'_>) {
        let Product { rows, lines, pairs, a, steps, b, c } = product;
        // Rows at a time: so few that what is read and written of them stays near, and a multiple of those of a tile.
        let near = (16_384 / pairs.max(lines * LANES).max(1) / 6 * 6).clamp(12, 96);
        let mut top = 0;
        while top < rows {
            let bottom = rows.min(top + near);
            let mut from = 0;
            while from < pairs {
                let count = BLOCK.min(pairs - from);
                let mut row = top;
                while row < bottom {
                    let (a, c) = (&a[row * steps.0 + from * steps.1..], &mut c[row * lines..]);
                    let b = &b[from * lines..][..count * lines];
                    row += match bottom - row {
                        left if left >= 6 => columns::<6>(lines, a, steps, b, c),
                        5 => columns::<5>(lines, a, steps, b, c),
                        left if left >= 2 => columns::<2>(lines, a, steps, b, c),
                        _ => columns::<1>(lines, a, steps, b, c),
                    };
                }
                from += count;
            }
            top = bottom;
        }
    }

    /// Some rows, all columns; returns the rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn columns<const ROWS: usize>(lines: usize, a: &[u32], steps: (usize, usize), b: &[Pairs], c: &mut [Sums]) -> usize {
        let mut line = 0;
        while line < lines {
            line += match lines - line {
                left if left >= 4 => tile::<ROWS, 4>(lines, line, a, steps, b, c),
                left if left >= 2 => tile::<ROWS, 2>(lines, line, a, steps, b, c),
                _ => tile::<ROWS, 1>(lines, line, a, steps, b, c),
            };
        }
        ROWS
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn tile<const ROWS: usize, const LINES: usize>(
        lines: usize,
        line: usize,
        a: &[u32],
        steps: (usize, usize),
        b: &[Pairs],
        c: &mut [Sums],
    ) -> usize {
        let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
        for r in 0..ROWS {
            for (sum, from) in sums[r].iter_mut().zip(&c[r * lines + line..][..LINES]) {
                *sum = load(from);
            }
        }
        for (p, b) in b.chunks_exact(lines).enumerate() {
            let b = &b[line..][..LINES];
            // One look at the bounds instead of one a row.
            let a = &a[p * steps.1..][..(ROWS - 1) * steps.0 + 1];
            for r in 0..ROWS {
                let value = everywhere(a[r * steps.0]);
                for l in 0..LINES {
                    sums[r][l] = _mm512_dpbf16_ps(sums[r][l], value, pairs(&b[l]));
                }
            }
        }
        for r in 0..ROWS {
            for (&sum, to) in sums[r].iter().zip(&mut c[r * lines + line..][..LINES]) {
                store(sum, to);
            }
        }
        LINES
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(super) fn dots(dots: Dots<'_>) {
        let Dots { lines, a, b, c } = dots;
        let (rows, columns) = (a.len() / lines, b.len() / lines);
        let mut i = 0;
        while i < columns {
            let four = columns - i >= 4;
            let mut row = 0;
            while row < rows {
                let a = &a[row * lines..];
                let c = &mut c[row * columns + i..];
                let b = &b[i * lines..];
                row += match (rows - row >= 5, four) {
                    (true, true) => sums::<5, 4>(lines, columns, a, b, c),
                    (false, true) => sums::<1, 4>(lines, columns, a, b, c),
                    (true, false) => sums::<5, 1>(lines, columns, a, b, c),
                    (false, false) => sums::<1, 1>(lines, columns, a, b, c),
                };
            }
            i += if four { 4 } else { 1 };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn sums<const ROWS: usize, const COLUMNS: usize>(lines: usize, columns: usize, a: &[Pairs], b: &[Pairs], c: &mut [f32]) -> usize {
        let mut sums = [[_mm512_setzero_ps(); COLUMNS]; ROWS];
        let (a, b) = (&a[..ROWS * lines], &b[..COLUMNS * lines]);
        for l in 0..lines {
            let own: [__m512bh; COLUMNS] = std::array::from_fn(|i| pairs(&b[i * lines + l]));
            for r in 0..ROWS {
                let a = pairs(&a[r * lines + l]);
                for i in 0..COLUMNS {
                    sums[r][i] = _mm512_dpbf16_ps(sums[r][i], a, own[i]);
                }
            }
        }
        for r in 0..ROWS {
            for i in 0..COLUMNS {
                c[r * columns + i] = _mm512_reduce_add_ps(sums[r][i]);
            }
        }
        ROWS
    }
}
