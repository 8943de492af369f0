//! The queue's lock: `std::sync::Mutex`, or shuttle's in tests of interleavings.
//!
//! The critical sections are a few map operations and never wait, so a blocking lock does not stall
//! the executor.

use std::sync::PoisonError;

#[cfg(shuttle)]
use shuttle::sync::Mutex;
#[cfg(not(shuttle))]
use std::sync::Mutex;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::MutexGuard as Guard;
#[cfg(not(shuttle))]
pub(crate) use std::sync::MutexGuard as Guard;

/// A mutex without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Ignores poisoning: a user's `Clone` or `Eq` may panic, and the state is consistent at each
    /// such call.
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
                    panic!("a user's clone may panic");
                })
                .join()
        });
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
    }
}
