//! The lock of the queue: that of the standard library, or shuttle's where a test explores
//! interleavings.
//!
//! Holders do a few map operations and never wait, so that a blocking lock does not hold up an
//! executor.

use std::sync::PoisonError;

#[cfg(shuttle)]
use shuttle::sync::Mutex;
#[cfg(not(shuttle))]
use std::sync::Mutex;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::MutexGuard as Guard;
#[cfg(not(shuttle))]
pub(crate) use std::sync::MutexGuard as Guard;

/// A value for one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks even after a panic of another holder: a user's `Clone` or `Eq` may panic, and the
    /// state is consistent at each such call.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_panics_gives_the_lock_back() {
        let lock = Lock::new(1);
        let panicked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _guard = lock.lock();
                    panic!("as a user's clone may");
                })
                .join()
        });
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
