//! An allocator that lets large buffers begin where a line of the cache does.
//!
//! The system's allocator begins them 16 bytes after, so that every load of a whole AVX-512 pack touches two lines, which costs a tenth to
//! a third of a training step's kernels. Programs that train set it as their `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a line of the cache, and of the widest pack.
const LINE: usize = 64;
/// Bytes from which a buffer may be one of numbers.
const LARGE: usize = 1024;

/// The system's allocator, with large buffers at lines of the cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aligned;

impl Aligned {
    /// The layout that the system is asked for; a function of the size alone, so that it is known again when the memory is given back.
    fn layout(layout: Layout) -> Layout {
        let aligned = if layout.size() >= LARGE { layout.align_to(LINE) } else { Ok(layout) };
        aligned.unwrap_or(layout)
    }
}

// SAFETY: each call is the system allocator's, with a layout whose size is the caller's and whose alignment is at least the caller's; as
// `layout` depends on the caller's layout only, memory goes back with the layout with which it came.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Aligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has a size above 0, and so has this one.
        unsafe { System.alloc(Self::layout(layout)) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(Self::layout(layout)) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` with the same layout, hence from the system with this one.
        unsafe { System.dealloc(memory, Self::layout(layout)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_begin_at_a_line_and_small_ones_as_the_system_says() {
        assert_eq!(Aligned::layout(Layout::array::<f32>(256).expect("a layout")).align(), LINE);
        assert_eq!(Aligned::layout(Layout::array::<f32>(255).expect("a layout")).align(), align_of::<f32>());
    }
}
