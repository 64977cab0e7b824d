//! An allocator that lets large buffers begin where a line of the cache does, and knows what to do with those as large as models.
//!
//! The system's allocator begins them 16 bytes after, so that every load of a whole AVX-512 pack touches two lines, which costs a tenth to
//! a third of a training step's kernels. Programs that train set it as their `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;

/// Bytes of a line of the cache, and of the widest pack.
const LINE: usize = 64;
/// Bytes from which a buffer may be one of numbers.
const LARGE: usize = 1024;
/// Bytes from which a buffer may be a model.
const MODEL: usize = 1 << 20;
/// The most bytes and buffers that wait for their next use.
const WAITING: (usize, usize) = (256 << 20, 128);
/// Larger buffers never wait: too many others would have to go for one.
const HUGE: usize = WAITING.0 / 4;

/// The system's allocator, with large buffers at lines of the cache. Some of the largest that are freed wait for the next one of their size,
/// whose pages are then there already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aligned;

/// Freed buffers of at least `MODEL` bytes, at lines of the cache; the first `count` places are taken, those that wait longest first.
struct Waiting {
    buffers: [(usize, *mut u8); WAITING.1],
    count: usize,
    bytes: usize,
}

// SAFETY: a waiting buffer belongs to nobody; whoever takes it out is the only one who has its address.
#[allow(unsafe_code)]
unsafe impl Send for Waiting {}

static BUFFERS: Mutex<Waiting> = Mutex::new(Waiting { buffers: [(0, std::ptr::null_mut()); WAITING.1], count: 0, bytes: 0 });

impl Waiting {
    /// The buffer of this size that has waited least: it is likeliest to be in the cache still.
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let at = self.buffers[..self.count].iter().rposition(|(own, _)| *own == size)?;
        Some(self.remove(at).1)
    }
    fn remove(&mut self, at: usize) -> (usize, *mut u8) {
        let buffer = self.buffers[at];
        self.buffers.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.bytes -= buffer.0;
        buffer
    }
    /// Lets a buffer wait, or tells which one has to go for it to fit: of a size that nobody asks for any more, in the long run.
    fn put(&mut self, size: usize, buffer: *mut u8) -> Option<(usize, *mut u8)> {
        if self.count > 0 && (self.count == self.buffers.len() || self.bytes + size > WAITING.0) {
            return Some(self.remove(0));
        }
        self.buffers[self.count] = (size, buffer);
        self.count += 1;
        self.bytes += size;
        None
    }
}

impl Aligned {
    /// Lets other large buffers go back to the system as soon as they are freed; called once, when a program starts.
    ///
    /// GNU's allocator stops doing so after the first one was freed, and cuts the next ones out of what it has. As it cannot use the place of an
    /// aligned buffer for another of the same size, a simulation that holds 500 MiB of models then grows to 4 GiB.
    pub fn give_back_large() {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            /// `M_MMAP_THRESHOLD` of `malloc.h`.
            const MMAP_THRESHOLD: i32 = -3;
            #[allow(unsafe_code)]
            unsafe extern "C" {
                fn mallopt(parameter: i32, value: i32) -> i32;
            }
            // SAFETY: the function of the C library with its documented signature; it changes how memory is got, not what is held.
            #[allow(unsafe_code)]
            unsafe {
                mallopt(MMAP_THRESHOLD, MODEL as i32);
            }
        }
    }
    /// The layout that the system is asked for; a function of the size alone, so that it is known again when the memory is given back.
    fn layout(layout: Layout) -> Layout {
        let aligned = if layout.size() >= LARGE { layout.align_to(LINE) } else { Ok(layout) };
        aligned.unwrap_or(layout)
    }
    /// Whether such a buffer may wait, or come from one that does: all of a size are then alike.
    fn waits(layout: Layout) -> bool {
        (MODEL..=HUGE).contains(&layout.size()) && layout.align() <= LINE
    }
    /// Lets a buffer wait, if nobody else is looking right now.
    fn waits_now(layout: Layout, memory: *mut u8) -> bool {
        let Some(mut waiting) = Self::waits(layout).then(|| BUFFERS.try_lock().ok()).flatten() else { return false };
        while let Some((size, buffer)) = waiting.put(layout.size(), memory) {
            // SAFETY: the buffer came here from `dealloc` with this size and an alignment of at most a line, for which the system was asked
            // for a line; nobody else has it.
            #[allow(unsafe_code)]
            unsafe {
                System.dealloc(buffer, Layout::from_size_align_unchecked(size, LINE));
            }
        }
        true
    }
    /// A buffer that waits, if nobody else is looking right now.
    fn waiting(layout: Layout) -> Option<*mut u8> {
        if Self::waits(layout) { BUFFERS.try_lock().ok()?.take(layout.size()) } else { None }
    }
}

// SAFETY: a buffer is the system allocator's, with a layout whose size is the caller's and whose alignment is at least the caller's. As
// `layout` depends on the caller's layout only, memory goes back with the layout with which it came; and where it waits in between, the next
// caller's has the same size and an alignment of at most a line, for which `layout` gives the same.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Aligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout has a size above 0, and so has this one.
        Self::waiting(layout).unwrap_or_else(|| unsafe { System.alloc(Self::layout(layout)) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`; pages that are new to the process are zero without being written.
        unsafe { System.alloc_zeroed(Self::layout(layout)) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if Self::waits_now(layout, memory) {
            return;
        }
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

    #[test]
    fn buffers_wait_for_their_own_size_within_the_limits() {
        let mut waiting = Waiting { buffers: [(0, std::ptr::null_mut()); WAITING.1], count: 0, bytes: 0 };
        let buffer = |n: usize| std::ptr::without_provenance_mut::<u8>(LINE * n);
        assert!(waiting.put(MODEL, buffer(1)).is_none() && waiting.put(2 * MODEL, buffer(2)).is_none());
        assert!(waiting.put(MODEL, buffer(3)).is_none() && waiting.take(3 * MODEL).is_none());
        assert_eq!((waiting.take(MODEL), waiting.take(MODEL), waiting.take(MODEL)), (Some(buffer(3)), Some(buffer(1)), None));
        assert_eq!(waiting.put(WAITING.0 - MODEL, buffer(4)), Some((2 * MODEL, buffer(2))), "too many bytes");
        assert_eq!((waiting.put(WAITING.0 - MODEL, buffer(4)), waiting.bytes), (None, WAITING.0 - MODEL));
        assert_eq!(waiting.take(WAITING.0 - MODEL), Some(buffer(4)));
        assert!((0..WAITING.1).all(|n| waiting.put(MODEL, buffer(n)).is_none()));
        assert_eq!(waiting.put(MODEL, buffer(500)), Some((MODEL, buffer(0))), "too many buffers");
    }
}
