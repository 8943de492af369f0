//! Pauses the workers of a queue, and lets keys through one at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A gate between a queue and its workers. Open by default, which costs one atomic load for each
/// key.
///
/// A worker waits with [`opened`](Self::opened) before it takes a key, and asks
/// [`pass`](Self::pass) with the key in its hands. If that refuses, it puts the key back.
///
/// ```
/// # use kubewright_workqueue::Gate;
/// let gate = Gate::default();
/// assert!(gate.pass());
/// gate.pause();
/// assert!(!gate.pass());
/// gate.step();
/// assert!(gate.pass());
/// assert!(!gate.pass(), "one step is one key");
/// gate.resume();
/// assert!(gate.pass());
/// ```
#[derive(Debug, Default)]
pub struct Gate {
    is_paused: AtomicBool,
    /// Number of keys that may pass although the gate is closed.
    steps: Mutex<u64>,
    changed: Notify,
}

impl Gate {
    /// Whether workers are paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }

    /// Lets no further key through. Running work continues.
    pub fn pause(&self) {
        let mut steps = self.steps();
        *steps = 0;
        self.is_paused.store(true, Ordering::Release);
    }

    /// Lets all keys through.
    pub fn resume(&self) {
        let _steps = self.steps();
        self.is_paused.store(false, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Lets one key through a closed gate.
    pub fn step(&self) {
        let mut steps = self.steps();
        if self.is_paused() {
            *steps = steps.saturating_add(1);
            self.changed.notify_waiters();
        }
    }

    /// Waits until a key may pass. Cancel safe.
    pub async fn opened(&self) {
        while self.is_paused() {
            // Registered before the check, so that no change in between is missed.
            let changed = self.changed.notified();
            if !self.is_paused() || *self.steps() > 0 {
                return;
            }
            changed.await;
        }
    }

    /// Whether a key may pass now. Takes the step, if the gate is closed.
    #[must_use]
    pub fn pass(&self) -> bool {
        if !self.is_paused() {
            return true;
        }
        let mut steps = self.steps();
        let may_pass = !self.is_paused() || *steps > 0;
        *steps = steps.saturating_sub(1);
        may_pass
    }

    fn steps(&self) -> MutexGuard<'_, u64> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_waiter_passes_with_a_step_and_with_the_end_of_the_pause() {
        let gate = Arc::new(Gate::default());
        gate.pause();
        for release in [Gate::step, Gate::resume] {
            let waiting = gate.clone();
            let waiter = tokio::spawn(async move { waiting.opened().await });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!waiter.is_finished());
            release(&gate);
            waiter.await.unwrap();
            assert!(gate.pass());
        }
    }
}
