//! The lock that the queue is built on, which a test can replace by one that explores interleavings.
//!
//! What is done under it takes some tens of nanoseconds, less than it takes to move the memory that it protects from one
//! processor to another. Threads that do nothing but add and get would spend their time moving memory if they took turns
//! fairly: so a thread that meets others there again and again stays away for long enough that they get much done without
//! it, and they in turn stay away as soon as it is back. That costs each a moment now and then, and all together less time
//! than they would lose otherwise.
//!
//! Whoever waits looks again after a moment and is not woken. So nobody has to be looked for when the lock is given back, and that
//! is a plain write: half of what taking and giving back a lock of the standard library cost.

use std::ops::{Deref, DerefMut};
#[cfg(shuttle)]
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
use spin::{Mutex, MutexGuard};

/// How long to wait before another try while meetings are rare, in pauses of the processor.
const PAUSES: [u32; 4] = [16, 32, 64, 64];

/// How long to stay away when meetings begin to be frequent, or when pauses were in vain.
const AWAY: Duration = Duration::from_micros(50);

/// A meeting that comes so few turns after another counts as one of a row.
const CLOSE: u32 = 8;

/// So many meetings in a row are no accident.
const ROW: u32 = 4;

/// Staying away for [`AWAY`] pays if others get so many turns meanwhile.
const WORTHWHILE: u32 = 128;

/// Each stay that paid makes the next one twice as long, up to so many times [`AWAY`]: what a change of threads costs is spread
/// over more turns the longer a crowd lasts. Less than a millisecond, after which Go's lock is handed to who waits.
const LONGEST: u32 = 16;

thread_local! {
    /// Its place in memory is the name of the thread.
    static ME: u8 = const { 0 };
}

/// A value for one thread at a time.
///
/// Aligned, so that it shares no memory that moves with it with its neighbours.
#[repr(align(128))]
pub(crate) struct Lock<T> {
    mutex: Mutex<Inner<T>>,
    /// How often the lock was taken. Written by who holds it, and read by others who want to know whether it is in use.
    turns: AtomicU32,
    /// How many times [`AWAY`] to stay away; zero while meetings are rare.
    crowd: AtomicU32,
}

struct Inner<T> {
    /// The turn in which a thread last had to wait.
    last_meeting: u32,
    /// How many meetings came close after another.
    row: u32,
    /// The thread that came last into the crowd, and may stay.
    guest: usize,
    value: T,
}

pub(crate) struct Guard<'a, T>(MutexGuard<'a, Inner<T>>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        let inner = Inner { last_meeting: 0, row: 0, guest: 0, value };
        Self { mutex: Mutex::new(inner), turns: AtomicU32::new(0), crowd: AtomicU32::new(0) }
    }

    /// Locks even after a panic of another holder: a user's `Clone` or `Eq` may panic, and our state is whole at each
    /// such call.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let mut guard = self.try_lock().unwrap_or_else(|| self.meet());
        if self.crowd.load(Ordering::Relaxed) > 0 && guard.guest != me() {
            guard = self.give_way(guard);
        }
        // Not counted at once in memory, which would cost as much as another lock: nobody else writes.
        self.turns.store(self.turns().wrapping_add(1), Ordering::Relaxed);
        Guard(guard)
    }

    #[cfg(shuttle)]
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(not(shuttle))]
    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        self.mutex.try_lock()
    }

    /// Goes away, since another thread has come.
    #[cold]
    #[inline(never)]
    fn give_way<'a>(&'a self, guard: MutexGuard<'a, Inner<T>>) -> MutexGuard<'a, Inner<T>> {
        drop(guard);
        self.meet()
    }

    /// Waits for the lock, and judges by the turns that others had whether it was right to wait like that.
    #[cold]
    #[inline(never)]
    fn meet(&self) -> MutexGuard<'_, Inner<T>> {
        let crowd = self.crowd.load(Ordering::Relaxed);
        let soon = if crowd == 0 { self.spin() } else { None };
        let is_in_vain = soon.is_none();
        let mut guard = soon.unwrap_or_else(|| self.stay_away(crowd));
        let turns = self.turns().wrapping_sub(guard.last_meeting);
        guard.last_meeting = self.turns();
        guard.guest = me();
        guard.row = if turns <= CLOSE { guard.row + 1 } else { 0 };
        let pays = is_in_vain && turns >= WORTHWHILE * crowd.max(1);
        if pays || crowd == 0 && guard.row >= ROW {
            self.crowd.store((crowd * 2).clamp(1, LONGEST), Ordering::Relaxed);
        } else if crowd > 0 {
            guard.row = 0;
            self.crowd.store(0, Ordering::Relaxed);
        }
        guard
    }

    fn spin(&self) -> Option<MutexGuard<'_, Inner<T>>> {
        PAUSES.into_iter().find_map(|pauses| {
            (0..pauses).for_each(|_| std::hint::spin_loop());
            self.try_lock()
        })
    }

    /// Comes back early if nobody needs the lock: a crowd may have gone home long ago.
    fn stay_away(&self, crowd: u32) -> MutexGuard<'_, Inner<T>> {
        let before = self.turns();
        std::thread::sleep(AWAY);
        if crowd > 1 && self.turns().wrapping_sub(before) >= WORTHWHILE {
            std::thread::sleep(AWAY * (crowd - 1));
        }
        loop {
            if let Some(guard) = self.try_lock().or_else(|| self.spin()) {
                return guard;
            }
            std::thread::sleep(AWAY);
        }
    }

    #[inline]
    fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// Tells threads apart while they live.
#[inline]
fn me() -> usize {
    ME.with(|me| std::ptr::from_ref(me).addr())
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
        lock.crowd.load(Ordering::Relaxed) > 0
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
        for stay in [1, 2, 4, 8, 16, 16] {
            assert_eq!(lock.crowd.load(Ordering::Relaxed), stay.min(LONGEST));
            (0..WORTHWHILE * stay).for_each(|_| *lock.lock() += 1);
            drop(lock.meet());
        }
        // Nobody needed the lock meanwhile.
        drop(lock.meet());
        assert!(!is_crowded(&lock));
    }

    #[test]
    fn who_is_in_a_crowd_gives_way_to_who_comes() {
        let lock = crowded();
        (0..WORTHWHILE).for_each(|_| *lock.lock() += 1);
        let before = lock.mutex.lock().guest;
        std::thread::scope(|scope| scope.spawn(|| drop(lock.meet())).join()).unwrap();
        assert!(is_crowded(&lock));
        assert_ne!(lock.mutex.lock().guest, before);
        // We stay away, and find that nobody needed the lock meanwhile.
        drop(lock.lock());
        assert!(!is_crowded(&lock));
        assert_eq!(lock.mutex.lock().guest, before);
    }

    #[test]
    fn a_holder_that_takes_long_is_waited_for() {
        let lock = Lock::new(0);
        let mut guard = lock.lock();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| *lock.lock());
            std::thread::sleep(AWAY * 20);
            *guard = 7;
            drop(guard);
            assert_eq!(waiting.join().unwrap(), 7);
        });
    }

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
