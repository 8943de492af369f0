//! Who rings while the task is at work is heard by it, without a way through the scheduler.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Nobody is at work: who rings wakes the task.
const ASLEEP: u8 = 0;
/// The task is at work.
const AT_WORK: u8 = 1;
/// Somebody rang since the task began, or has woken it.
const RUNG: u8 = 2;

/// Stands between a task, or a part of it, and those who wake it.
///
/// A connection and its streams wake each other, all in one task. A scheduler that is told to run what runs already puts it into its queue
/// again and wakes another thread for it, which costs more than what is left to do.
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
        let bell = Arc::new(Bell { state: AtomicU8::new(ASLEEP), task: Mutex::new(Waker::noop().clone()) });
        Doorbell { waker: Arc::clone(&bell).into(), bell }
    }
}

impl Doorbell {
    /// What the task gives to those it waits for.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The task is awake, and is to be woken by this.
    pub fn wake_later(&self, task: &Waker) {
        let mut known = self.bell.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }

    /// Before the task looks at anything: what is rung from now on is heard by [`rest`](Self::rest).
    pub fn begin(&self) {
        self.bell.state.swap(AT_WORK, Ordering::AcqRel);
    }

    /// Whether somebody rang that the task has not looked for yet.
    pub fn is_rung(&self) -> bool {
        self.bell.state.load(Ordering::Acquire) == RUNG
    }

    /// Whether nobody has rung since the task began, so that it may sleep.
    pub fn rest(&self) -> bool {
        self.bell.state.compare_exchange(AT_WORK, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
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
        if self.state.swap(RUNG, Ordering::AcqRel) == ASLEEP {
            // Not under the lock: whoever is woken may come at once.
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
    fn a_task_at_work_hears_the_bell_and_one_asleep_is_woken_once() {
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
