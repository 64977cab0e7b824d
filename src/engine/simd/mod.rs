//! One source for every class of CPU: kernels are written on packs of lanes and compiled once for each instruction set.
//!
//! The instruction set is chosen at run time, by hand with `PFLPIPE_CPU`. What the kernels compute is none of its business; `kernels` says that.

mod aligned;
pub mod pairs;

pub use aligned::Aligned;
pub use pulp::WithSimd;
use pulp::{Arch, Simd};
use std::sync::OnceLock;

/// The variable that names another instruction set than the best one, for tests and comparisons.
pub const CHOICE: &str = "PFLPIPE_CPU";

/// The instruction sets for this kind of machine.
#[cfg(target_arch = "x86_64")]
const NAMES: [&str; 4] = ["portable", "avx2", "avx512", pairs::NAME];
#[cfg(target_arch = "aarch64")]
const NAMES: [&str; 2] = ["portable", "neon"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NAMES: [&str; 1] = ["portable"];

/// Runs `kernel` with the best instruction set of this CPU, or the one that [`CHOICE`] names.
#[inline]
pub fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    static CHOSEN: OnceLock<Arch> = OnceLock::new();
    CHOSEN.get_or_init(|| chosen().unwrap_or_default()).dispatch(kernel)
}

/// The instruction set that kernels run with.
///
/// # Errors
/// What is wrong with the value of [`CHOICE`]: no instruction set that is known, or none of this CPU.
pub fn chosen() -> Result<Arch, String> {
    let name = std::env::var(CHOICE).unwrap_or_default();
    let found = match name.as_str() {
        "" => Some(Arch::new()),
        "portable" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        #[cfg(target_arch = "x86_64")]
        pairs::NAME => pulp::x86::V4::try_new().filter(|_| pairs::available()).map(Arch::V4),
        #[cfg(target_arch = "aarch64")]
        "neon" => pulp::aarch64::Neon::try_new().map(Arch::Neon),
        _ => return Err(format!("{CHOICE} is `{name}`, but must be one of {}", NAMES.map(|name| format!("`{name}`")).join(", "))),
    };
    found.ok_or_else(|| format!("{CHOICE} is `{name}`, but this CPU does not have it"))
}

/// The name of the class of CPU whose results in single precision are equal bit for bit: `portable`, or lanes of `f32` and how products are added.
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
    /// A truth value for each lane.
    type Mask<S: Simd>: Copy;

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
    /// `a - b`.
    fn pack_sub<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Pack<S>;
    /// `a * b`.
    fn pack_mul<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Pack<S>;
    /// `a * b + c`, rounded once where the CPU can.
    fn pack_mul_add<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>, c: Self::Pack<S>) -> Self::Pack<S>;
    /// Where `a > b`.
    fn pack_greater<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Mask<S>;
    /// Where `a <= b`.
    fn pack_at_most<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Mask<S>;
    /// Where `a == b`; of a value with itself, where it is a number.
    fn pack_equal<S: Simd>(simd: S, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Mask<S>;
    /// `a` where the mask is set, `b` elsewhere.
    fn pack_select<S: Simd>(simd: S, mask: Self::Mask<S>, a: Self::Pack<S>, b: Self::Pack<S>) -> Self::Pack<S>;
    /// The sum of the lanes.
    fn pack_sum<S: Simd>(simd: S, a: Self::Pack<S>) -> Self;
}

macro_rules! lanes {
    ($float:ty, $pack:ident, $packs:ident, $packs_mut:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident, $mul_add:ident, $sum:ident,
     $mask:ident, $greater:ident, $at_most:ident, $equal:ident, $select:ident) => {
        impl Lanes for $float {
            type Pack<S: Simd> = S::$pack;
            type Mask<S: Simd> = S::$mask;
            #[inline(always)]
            fn pack_greater<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$mask {
                simd.$greater(a, b)
            }
            #[inline(always)]
            fn pack_at_most<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$mask {
                simd.$at_most(a, b)
            }
            #[inline(always)]
            fn pack_equal<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$mask {
                simd.$equal(a, b)
            }
            #[inline(always)]
            fn pack_select<S: Simd>(simd: S, mask: S::$mask, a: S::$pack, b: S::$pack) -> S::$pack {
                simd.$select(mask, a, b)
            }
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
            fn pack_sub<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$pack {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn pack_mul<S: Simd>(simd: S, a: S::$pack, b: S::$pack) -> S::$pack {
                simd.$mul(a, b)
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

lanes!(
    f32,
    f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    splat_f32s,
    add_f32s,
    sub_f32s,
    mul_f32s,
    mul_add_e_f32s,
    reduce_sum_f32s,
    m32s,
    greater_than_f32s,
    less_than_or_equal_f32s,
    equal_f32s,
    select_f32s
);
lanes!(
    f64,
    f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    splat_f64s,
    add_f64s,
    sub_f64s,
    mul_f64s,
    mul_add_e_f64s,
    reduce_sum_f64s,
    m64s,
    greater_than_f64s,
    less_than_or_equal_f64s,
    equal_f64s,
    select_f64s
);
