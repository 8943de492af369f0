//! The lock that the queue is built on, which a test can replace by one that explores interleavings.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// How long to stay away from a lock that is taken before trying again, in pauses of the processor.
///
/// Whoever comes back at once snatches the lock, and with it the memory it protects, from a thread that needs it again in
/// a moment; what is done under it is so short that moving the memory to and fro would cost more than the work.
#[cfg(not(shuttle))]
const PAUSES: [u32; 4] = [16, 32, 64, 64];

/// Locks even after a panic of another holder: a user's `Clone` or `Eq` may panic, and our state is whole at each such
/// call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(not(shuttle))]
    for pauses in PAUSES {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => (0..pauses).for_each(|_| std::hint::spin_loop()),
        }
    }
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
