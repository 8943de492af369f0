//! Small numbers for threads, each with one thread at a time.

use std::sync::atomic::{AtomicU16, Ordering};

/// How many numbers there are: more threads than that seldom read.
pub(super) const NUMBERS: usize = u16::BITS as usize;

/// A bit for each number that no thread has.
static FREE: AtomicU16 = AtomicU16::new(u16::MAX);

thread_local! {
    static NUMBER: Number = Number::take();
}

/// The number of this thread, for as long as it lives; none if there are more threads than numbers.
#[inline]
pub(super) fn number() -> Option<usize> {
    // Gone while the thread ends.
    NUMBER.try_with(|number| number.0).ok().flatten()
}

struct Number(Option<usize>);

impl Number {
    fn take() -> Self {
        // The lowest one.
        let free = FREE.fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| Some(free & free.wrapping_sub(1)));
        let number = free.unwrap_or_default().trailing_zeros() as usize;
        Number(Some(number).filter(|number| *number < NUMBERS))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            FREE.fetch_or(1 << number, Ordering::Release);
        }
    }
}
