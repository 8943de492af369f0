//! The state that readers see, and how they keep it while they look something up.
//!
//! A pointer that counts its readers says which state that is. To look through it takes two atomic operations, which is more than
//! the rest of a look-up. So a thread that has looked into the same state again and again has a copy of the pointer at a seat of its own,
//! where to begin is one atomic operation and to leave is a plain write. Whoever finds no seat, or an old state at it, looks through the
//! pointer, and nobody ever waits.
//!
//! A seat must not keep alive what nobody needs any more, nor keep a writer from changing the state in place: the writer who
//! publishes the next state clears the seats, and again before the next change those that were in use in that very moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use spin::Mutex;

use super::threads::{self, NUMBERS};

/// So many looks into the same state are worth a seat, which the next writer has to clear.
const OFTEN: u32 = 64;

/// Instead of the name of a state, where there is none.
const NONE: usize = 0;

/// The current one of many states. Aligned, so that what the writer writes meanwhile is not in the memory that readers look at.
#[repr(align(128))]
pub(super) struct Published<S> {
    state: ArcSwap<S>,
    /// The name of the state, or of the one that is just being published. What is at a seat is current if it has this name.
    current: AtomicUsize,
    /// There may be states at so many seats, from the first one on.
    seated: AtomicUsize,
    seats: Box<[Seat<S>]>,
}

/// A thread's place. Aligned, so that threads do not write to each other's memory.
#[repr(align(128))]
struct Seat<S> {
    state: Mutex<Option<Arc<S>>>,
    /// The name of the state that is here. A hint: what is behind the lock decides.
    name: AtomicUsize,
    /// The name of the state that this thread looked into last.
    seen: AtomicUsize,
    /// How often in a row.
    times: AtomicU32,
}

impl<S> Published<S> {
    pub(super) fn new(state: S) -> Self {
        let state = Arc::new(state);
        Published {
            current: AtomicUsize::new(name(&state)),
            state: ArcSwap::new(state),
            seated: AtomicUsize::new(0),
            seats: (0..NUMBERS).map(|_| Seat::default()).collect(),
        }
    }

    /// Looks into the current state for a moment.
    #[inline]
    pub(super) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        let Some(number) = threads::number() else { return look(&self.load()) };
        let seat = &self.seats[number];
        // The state of this name was current now, whatever a writer does in the next moment.
        let current = self.current.load(Ordering::Acquire);
        if seat.name.load(Ordering::Relaxed) == current
            && let Some(held) = seat.state.try_lock()
            // No other state has its place in memory, and so its name, for as long as it is held here.
            && let Some(state) = held.as_ref().filter(|state| name(state) == current)
        {
            return look(state);
        }
        let state = self.load();
        let result = look(&state);
        if seat.is_worth(&state) {
            self.settle(number, &state);
        }
        result
    }

    /// The current state, for a look that takes longer.
    pub(super) fn load(&self) -> Guard<Arc<S>> {
        self.state.load()
    }

    /// The current state, to keep.
    pub(super) fn load_full(&self) -> Arc<S> {
        self.state.load_full()
    }

    /// Publishes a state and gives the one from before. By one writer at a time.
    pub(super) fn swap(&self, state: Arc<S>) -> Arc<S> {
        // First, so that nobody finds the state from before at a seat after another has found this one through the pointer.
        self.current.store(name(&state), Ordering::SeqCst);
        let before = self.state.swap(state);
        self.clear_seats();
        before
    }

    /// Clears all seats at which there is a state from before, and nobody just now.
    #[inline]
    pub(super) fn clear_seats(&self) {
        let seated = self.seated.load(Ordering::SeqCst);
        if seated > 0 {
            self.clear(seated);
        }
    }

    #[cold]
    #[inline(never)]
    fn clear(&self, seated: usize) {
        // Before the seats are looked at: who sits down from now on says so again.
        self.seated.store(0, Ordering::SeqCst);
        let current = self.current.load(Ordering::Relaxed);
        for (number, seat) in self.seats[..seated].iter().enumerate() {
            let is_left = match seat.state.try_lock() {
                Some(held) if held.as_ref().is_some_and(|state| name(state) == current) => true,
                Some(mut held) => {
                    seat.name.store(NONE, Ordering::Relaxed);
                    *held = None;
                    false
                }
                None => true,
            };
            if is_left {
                self.seated.fetch_max(number + 1, Ordering::SeqCst);
            }
        }
    }

    /// Puts a state at a seat, if it is still the current one.
    #[cold]
    #[inline(never)]
    fn settle(&self, number: usize, state: &Arc<S>) {
        let seat = &self.seats[number];
        // The thread may be at its seat already, and look again from there.
        let Some(mut held) = seat.state.try_lock() else { return };
        // Either the writer sees this and finds the seat, or what the writer has written first is seen here.
        self.seated.fetch_max(number + 1, Ordering::SeqCst);
        let is_current = self.current.load(Ordering::SeqCst) == name(state);
        let before = std::mem::replace(&mut *held, is_current.then(|| state.clone()));
        seat.name.store(if is_current { name(state) } else { NONE }, Ordering::Relaxed);
        drop(held);
        drop(before);
    }
}

impl<S> Seat<S> {
    /// Whether its thread has looked into this state so often that it should be here. Only that thread writes what it goes by.
    #[inline]
    fn is_worth(&self, state: &Arc<S>) -> bool {
        let is_new = self.seen.load(Ordering::Relaxed) != name(state);
        if is_new {
            self.seen.store(name(state), Ordering::Relaxed);
        }
        let times = if is_new { 1 } else { self.times.load(Ordering::Relaxed) + 1 };
        let is_worth = times == OFTEN;
        self.times.store(if is_worth { 0 } else { times }, Ordering::Relaxed);
        is_worth
    }
}

impl<S> Default for Seat<S> {
    fn default() -> Self {
        let (name, seen) = (AtomicUsize::new(NONE), AtomicUsize::new(NONE));
        Seat { state: Mutex::new(None), name, seen, times: AtomicU32::new(0) }
    }
}

/// Its place in memory is the name of a state.
#[inline]
fn name<S>(state: &Arc<S>) -> usize {
    Arc::as_ptr(state).addr()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;

    /// Runs a test in a thread that has a number, which other tests may leave none of for a moment.
    fn with_a_number(test: impl Fn() + Sync) {
        let run = || threads::number().map(|_| test());
        while thread::scope(|threads| threads.spawn(run).join()).expect("the test passes").is_none() {
            thread::yield_now();
        }
    }

    /// Looks often enough for a seat.
    fn look_often<S>(published: &Published<S>) {
        (0..2 * OFTEN).for_each(|_| published.look(|_| ()));
    }

    #[test]
    fn a_thread_that_looks_often_has_a_seat_until_the_next_state_comes() {
        with_a_number(|| {
            let published = Published::new(1);
            let first = published.load_full();
            look_often(&published);
            assert_eq!(Arc::strong_count(&first), 3, "here, at the pointer, at the seat");
            assert_eq!(published.look(|state| *state), 1);
            let before = published.swap(Arc::new(2));
            drop(first);
            assert_eq!(Arc::strong_count(&before), 1, "no seat keeps what is outdated");
            assert_eq!(published.look(|state| *state), 2);
            look_often(&published);
            assert_eq!(Arc::strong_count(&published.load_full()), 3);
        });
    }

    #[test]
    fn a_seat_that_was_in_use_is_cleared_later() {
        with_a_number(|| {
            let published = Published::new(1);
            look_often(&published);
            let mut before = published.look(|_| published.swap(Arc::new(2)));
            assert!(Arc::get_mut(&mut before).is_none(), "it is looked into while the next one is published");
            look_often(&published);
            let current = published.load_full();
            assert_eq!(Arc::strong_count(&before), 1, "this thread has another one now");
            published.clear_seats();
            assert_eq!(Arc::strong_count(&current), 3, "what is current stays");
            let before = published.look(|_| published.swap(Arc::new(3)));
            drop(current);
            published.clear_seats();
            assert_eq!(Arc::strong_count(&before), 1);
        });
    }

    #[test]
    fn who_looks_from_a_look_sees_the_same() {
        with_a_number(|| {
            let published = Published::new(7);
            look_often(&published);
            let nested =
                published.look(|outer| (0..100).map(|_| published.look(|inner| *inner)).all(|inner| inner == *outer));
            assert!(nested);
        });
    }

    #[test]
    fn nobody_sees_an_older_state_than_another_has_told_of() {
        const STATES: u64 = 5_000;
        let (published, told) = (Published::new(0), AtomicU64::new(0));
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    loop {
                        let at_least = told.load(Ordering::Acquire);
                        let found = published.look(|state| *state);
                        assert!(found >= at_least, "{found} after {at_least}");
                        told.fetch_max(found, Ordering::AcqRel);
                        if found == STATES {
                            break;
                        }
                    }
                });
            }
            let mut spare = Arc::new(0);
            for number in 1..=STATES {
                match Arc::get_mut(&mut spare) {
                    Some(state) => *state = number,
                    None => spare = Arc::new(number),
                }
                spare = published.swap(spare);
                // Long enough for some readers to sit down, some of the time.
                (0..number % 64 * 32).for_each(|_| std::hint::spin_loop());
            }
        });
    }

    #[test]
    fn threads_without_a_seat_look_as_well() {
        let published = Published::new(5);
        thread::scope(|threads| {
            let found: Vec<_> = (0..3 * NUMBERS)
                .map(|_| threads.spawn(|| (0..100).map(|_| published.look(|state| *state)).sum::<u64>()))
                .collect();
            assert!(found.into_iter().all(|found| found.join().expect("a reader does not panic") == 500));
        });
    }
}
