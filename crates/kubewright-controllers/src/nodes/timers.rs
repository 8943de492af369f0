//! Due times of pod steps.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// The pending step of each pod, and since when.
#[derive(Debug, Default)]
pub(super) struct Timers {
    since_of: Mutex<HashMap<ObjectKey, (Str, PodStep, Instant)>>,
}

/// A step in the lifecycle of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodStep {
    Start,
    BecomeReady,
    End,
    Restart,
    Stop,
}

impl Timers {
    /// The time until a step is due, `delay` after it was first requested; `None` if it is due.
    pub(super) fn wait(&self, key: &ObjectKey, uid: &str, step: PodStep, delay: Duration) -> Option<Duration> {
        let mut since_of = self.since_of.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match since_of.get(key) {
            Some((known, waits_for, since)) if *known == uid && *waits_for == step => *since,
            _ => {
                since_of.insert(key.clone(), (uid.into(), step, Instant::now()));
                Instant::now()
            }
        };
        Some(delay.saturating_sub(since.elapsed())).filter(|wait| !wait.is_zero())
    }

    /// Removes a deleted pod.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.since_of.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_is_due_by_the_delay_that_it_has_now() {
        let (timers, key) = (Timers::default(), ObjectKey::namespaced("default", "web"));
        let wait = |seconds: u64| timers.wait(&key, "1", PodStep::Stop, Duration::from_secs(seconds));
        assert_eq!(wait(300), Some(Duration::from_secs(300)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((wait(300), wait(12)), (Some(Duration::from_secs(290)), Some(Duration::from_secs(2))));
        assert_eq!((wait(10), wait(0)), (None, None));
        assert_eq!(wait(u64::MAX), Some(Duration::from_secs(u64::MAX - 10)));
        assert_eq!(timers.wait(&key, "2", PodStep::Stop, Duration::from_secs(1)), Some(Duration::from_secs(1)));
    }
}
