//! Wake-ups that arrive while a task is being polled set a flag instead of rescheduling it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The task is idle: a wake-up schedules it.
const IDLE: u8 = 0;
/// The task is being polled.
const POLLING: u8 = 1;
/// A wake-up arrived since polling began, or the task was scheduled.
const WOKEN: u8 = 2;

/// A waker between a task, or a part of it, and its wake-up sources.
///
/// A connection and its streams wake each other, all in one task. Scheduling a task that is already
/// running would queue it again and wake another thread, which costs more than the remaining work.
pub struct Doorbell {
    bell: Arc<Bell>,
    waker: Waker,
}

struct Bell {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl Default for Doorbell {
    fn default() -> Self {
        let bell = Arc::new(Bell { state: AtomicU8::new(IDLE), task: Mutex::new(Waker::noop().clone()) });
        Doorbell { waker: Arc::clone(&bell).into(), bell }
    }
}

impl Doorbell {
    /// The waker to pass to inner futures.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sets the waker of the task.
    pub fn wake_later(&self, task: &Waker) {
        let mut known = self.bell.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }

    /// Call before polling: later wake-ups are detected by [`rest`](Self::rest).
    pub fn begin(&self) {
        self.bell.state.swap(POLLING, Ordering::AcqRel);
    }

    /// Whether there is an unhandled wake-up.
    pub fn is_rung(&self) -> bool {
        self.bell.state.load(Ordering::Acquire) == WOKEN
    }

    /// Whether no wake-up arrived since [`begin`](Self::begin), so that the task may return
    /// pending.
    pub fn rest(&self) -> bool {
        self.bell.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("is_rung", &self.is_rung()).finish()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            // Outside of the lock: the woken task may run immediately.
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_wake_up_during_a_poll_sets_a_flag_and_an_idle_task_is_woken_once() {
        let (woken, doorbell) = (Arc::new(Count::default()), Doorbell::default());
        doorbell.wake_later(&Arc::clone(&woken).into());
        doorbell.begin();
        doorbell.waker().wake();
        assert!(!doorbell.rest() && doorbell.is_rung());
        doorbell.begin();
        assert!(doorbell.rest());
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        doorbell.waker().wake();
        doorbell.waker().wake_by_ref();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
