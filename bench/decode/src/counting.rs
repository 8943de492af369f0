//! Counts allocations and CPU time of the process. The one place that needs `unsafe`, which is why
//! it is in a bench.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static HELD: AtomicU64 = AtomicU64::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            HELD.fetch_add(layout.size() as u64, Relaxed);
            CALLS.fetch_add(1, Relaxed);
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            HELD.fetch_sub(layout.size() as u64, Relaxed);
        }
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if ON.load(Relaxed) {
            HELD.fetch_add(size as u64, Relaxed);
            HELD.fetch_sub(layout.size() as u64, Relaxed);
            CALLS.fetch_add(1, Relaxed);
        }
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Counts from zero.
pub fn start() {
    HELD.store(0, Relaxed);
    CALLS.store(0, Relaxed);
    ON.store(true, Relaxed);
}

/// Bytes held now that were allocated since `start`.
pub fn held() -> u64 {
    HELD.load(Relaxed)
}

/// Bytes held that were allocated since `start`, and calls of the allocator, growing in place
/// included.
pub fn stop() -> (u64, u64) {
    ON.store(false, Relaxed);
    (HELD.load(Relaxed), CALLS.load(Relaxed))
}

/// User and system time of the process.
pub fn cpu_seconds() -> f64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
