//! One source for every class of CPU: kernels are written on packs of lanes and compiled once for each instruction set.
//!
//! The instruction set is chosen at run time. What the kernels compute is none of its business; `kernels` says that.

use pulp::Simd;
pub use pulp::WithSimd;

/// Runs `kernel` with the best instruction set of this CPU.
#[inline]
pub fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

/// The name of the class of CPU whose results are equal bit for bit: `portable`, or lanes of `f32` and how products are added.
#[must_use]
pub fn cpu_class() -> &'static str {
    struct Name;
    impl WithSimd for Name {
        type Output = &'static str;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> &'static str {
            match (S::IS_SCALAR, S::F32_LANES) {
                (true, _) => "portable",
                (_, 4) => "fma-4",
                (_, 8) => "fma-8",
                _ => "fma-16",
            }
        }
    }
    dispatch(Name)
}

/// A float that comes in packs of as many lanes as the instruction set holds.
pub trait Lanes: Copy + Send + Sync + 'static {
    /// A register full.
    type Pack<S: Simd>: Copy;

    /// Lanes in a pack.
    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Pack<S>>() / size_of::<Self>()
    }
    /// The slice as packs, and the rest that fills none.
    fn packs<S: Simd>(values: &[Self]) -> (&[Self::Pack<S>], &[Self]);
    /// The slice as packs, and the rest that fills none.
    fn packs_mut<S: Simd>(values: &mut [Self]) -> (&mut [Self::Pack<S>], &mut [Self]);
    /// The value in every lane.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Pack<S>;
    /// `a + b`.
    fn pack_add<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Pack<S>;
    /// `a * b + c`, rounded once where the CPU can.
    fn pack_mul_add<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>, c: Self::Pack<S>) -> Self::Pack<S>;
    /// The sum of the lanes.
    fn pack_sum<S: Simd>(simd: S, a: Self::Pack<S>) -> Self;
}

macro_rules! lanes {
    ($float:ty, $pack:ident, $packs:ident, $packs_mut:ident, $splat:ident, $add:ident, $mul_add:ident, $sum:ident) => {
        impl Lanes for $float {
            type Pack<S: Simd> = S::$pack;
            #[inline(always)]
            fn packs<S: Simd>(values: &[Self]) -> (&[S::$pack], &[Self]) {
                S::$packs(values)
            }
            #[inline(always)]
            fn packs_mut<S: Simd>(values: &mut [Self]) -> (&mut [S::$pack], &mut [Self]) {
                S::$packs_mut(values)
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$pack {
                simd.$splat(value)
            }
            #[inline(always)]
            fn pack_add<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$pack {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn pack_mul_add<S: Simd>(simd: S, a: S::$pack, b: S::$pack, c: S::$pack) -> S::$pack {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn pack_sum<S: Simd>(simd: S, a: S::$pack) -> Self {
                simd.$sum(a)
            }
        }
    };
}

lanes!(f32, f32s, as_simd_f32s, as_mut_simd_f32s, splat_f32s, add_f32s, mul_add_e_f32s, reduce_sum_f32s);
lanes!(f64, f64s, as_simd_f64s, as_mut_simd_f64s, splat_f64s, add_f64s, mul_add_e_f64s, reduce_sum_f64s);
