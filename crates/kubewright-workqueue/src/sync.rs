//! The lock that the queue is built on, which a test can replace by one that explores interleavings.
//!
//! What is done under it takes some tens of nanoseconds, less than it takes to move the memory that it protects from one
//! processor to another. Threads that do nothing but add and get would spend their time moving memory if they took turns
//! fairly: so a thread that meets others there again and again stays away for long enough that they get much done without
//! it. That costs it a moment now and then, and all together less time than they would lose otherwise.

use std::ops::{Deref, DerefMut};
#[cfg(not(shuttle))]
use std::sync::TryLockError;
use std::sync::{
    PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard};

/// How long to wait before another try while meetings are rare, in pauses of the processor.
const PAUSES: [u32; 4] = [16, 32, 64, 64];

/// How long to stay away while meetings are frequent.
const AWAY: Duration = Duration::from_micros(50);

/// How often to stay away in a row, before waiting in line like everybody.
const TIMES_AWAY: u32 = 4;

/// A meeting that comes so few turns after another counts as one of a row.
const CLOSE: u32 = 8;

/// So many meetings in a row are no accident.
const ROW: u32 = 8;

/// Staying away pays as long as others get so many turns between two meetings.
const WORTHWHILE: u32 = 128;

/// A value for one thread at a time.
///
/// Aligned, so that it shares no memory that moves with it with its neighbours.
#[repr(align(128))]
pub(crate) struct Lock<T> {
    mutex: Mutex<Inner<T>>,
    is_crowded: AtomicBool,
}

struct Inner<T> {
    turns: u32,
    /// The turn in which a thread last had to wait.
    last_meeting: u32,
    /// How many meetings came close after another.
    row: u32,
    value: T,
}

pub(crate) struct Guard<'a, T>(MutexGuard<'a, Inner<T>>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        let inner = Inner { turns: 0, last_meeting: 0, row: 0, value };
        Self { mutex: Mutex::new(inner), is_crowded: AtomicBool::new(false) }
    }

    /// Locks even after a panic of another holder: a user's `Clone` or `Eq` may panic, and our state is whole at each
    /// such call.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let mut guard = self.try_lock().unwrap_or_else(|| self.meet());
        guard.turns = guard.turns.wrapping_add(1);
        Guard(guard)
    }

    #[cfg(shuttle)]
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(not(shuttle))]
    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for the lock, and judges by the turns that others had whether it was right to wait like that.
    #[cold]
    fn meet(&self) -> MutexGuard<'_, Inner<T>> {
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        let guard = if is_crowded { self.stay_away() } else { self.spin() };
        let mut guard = guard.unwrap_or_else(|| self.mutex.lock().unwrap_or_else(PoisonError::into_inner));
        let turns = guard.turns.wrapping_sub(guard.last_meeting);
        guard.last_meeting = guard.turns;
        guard.row = if turns <= CLOSE { guard.row + 1 } else { 0 };
        if is_crowded && turns < WORTHWHILE {
            guard.row = 0;
            self.is_crowded.store(false, Ordering::Relaxed);
        } else if guard.row >= ROW {
            self.is_crowded.store(true, Ordering::Relaxed);
        }
        guard
    }

    fn spin(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        PAUSES.into_iter().find_map(|pauses| {
            (0..pauses).for_each(|_| std::hint::spin_loop());
            self.try_lock()
        })
    }

    fn stay_away(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        (0..TIMES_AWAY).find_map(|_| {
            std::thread::sleep(AWAY);
            self.try_lock().or_else(|| self.spin())
        })
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn is_crowded(lock: &Lock<u32>) -> bool {
        lock.is_crowded.load(Ordering::Relaxed)
    }

    /// A lock at which threads have met in every turn for a while.
    fn crowded() -> Lock<u32> {
        let lock = Lock::new(0);
        (0..ROW).for_each(|_| drop(lock.meet()));
        assert!(is_crowded(&lock));
        lock
    }

    #[test]
    fn meetings_now_and_then_make_no_crowd() {
        let lock = Lock::new(0);
        for _ in 0..100 {
            (0..=CLOSE).for_each(|_| *lock.lock() += 1);
            drop(lock.meet());
        }
        assert!(!is_crowded(&lock));
    }

    #[test]
    fn a_crowd_lasts_while_staying_away_pays() {
        let lock = crowded();
        for _ in 0..3 {
            (0..WORTHWHILE).for_each(|_| *lock.lock() += 1);
            drop(lock.meet());
            assert!(is_crowded(&lock));
        }
        // Nobody needed the lock meanwhile.
        drop(lock.meet());
        assert!(!is_crowded(&lock));
    }

    #[test]
    fn nobody_is_lost_in_a_crowd() {
        let lock = crowded();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 80_000);
    }
}
