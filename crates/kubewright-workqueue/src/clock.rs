//! The queue's clock: tokio's, or a simulated one in tests under shuttle.

use tokio::time::Instant;

#[cfg(shuttle)]
pub(crate) use simulated::{Sleep, sleep_until};
#[cfg(not(shuttle))]
pub(crate) use tokio::time::{Sleep, sleep_until};

/// The current time.
#[cfg(not(shuttle))]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The current time.
#[cfg(shuttle)]
pub(crate) fn now() -> Instant {
    simulated::now()
}

/// A clock that moves only when a test advances it. It is thread-local: shuttle runs all threads of
/// a test on one OS thread.
#[cfg(shuttle)]
pub mod simulated {
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::time::Instant;

    struct Clock {
        now: Instant,
        sleepers: Vec<(u64, Instant, Waker)>,
        names: u64,
    }

    thread_local! {
        static CLOCK: RefCell<Clock> =
            RefCell::new(Clock { now: Instant::now(), sleepers: Vec::new(), names: 0 });
    }

    pub(super) fn now() -> Instant {
        CLOCK.with_borrow(|clock| clock.now)
    }

    /// Advances the clock and wakes every sleeper whose deadline has passed.
    pub fn advance(time: Duration) {
        let woken: Vec<Waker> = CLOCK.with_borrow_mut(|clock| {
            clock.now += time;
            let now = clock.now;
            clock.sleepers.extract_if(.., |(_, deadline, _)| *deadline <= now).map(|(_, _, waker)| waker).collect()
        });
        woken.into_iter().for_each(Waker::wake);
    }

    /// Resolves when the clock has reached `deadline`.
    pub fn sleep_until(deadline: Instant) -> Sleep {
        let name = CLOCK.with_borrow_mut(|clock| {
            clock.names += 1;
            clock.names
        });
        Sleep { name, deadline }
    }

    /// A simulated sleep with the subset of tokio's methods that the queue uses.
    #[derive(Debug)]
    pub struct Sleep {
        name: u64,
        deadline: Instant,
    }

    impl Sleep {
        /// The current deadline.
        pub fn deadline(&self) -> Instant {
            self.deadline
        }

        /// Changes the deadline.
        pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
            self.deadline = deadline;
        }
    }

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            CLOCK.with_borrow_mut(|clock| {
                clock.sleepers.retain(|(name, ..)| *name != self.name);
                if self.deadline <= clock.now {
                    return Poll::Ready(());
                }
                clock.sleepers.push((self.name, self.deadline, context.waker().clone()));
                Poll::Pending
            })
        }
    }

    impl Drop for Sleep {
        fn drop(&mut self) {
            CLOCK.with_borrow_mut(|clock| clock.sleepers.retain(|(name, ..)| *name != self.name));
        }
    }
}
