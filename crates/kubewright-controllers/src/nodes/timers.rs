//! Due times of pod steps.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// The pending steps of each pod, and since when.
#[derive(Debug, Default)]
pub(super) struct Timers {
    pending_of: Mutex<HashMap<ObjectKey, PendingSteps>>,
}

#[derive(Debug)]
struct PendingSteps {
    uid: Str,
    since: Vec<(Step, Instant)>,
}

/// A step of a pod, or of one of its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) kind: PodStep,
    /// Empty for the whole pod.
    pub(super) container: Str,
    /// The restarts of the container so far, so that a step of the next run is another one.
    pub(super) restarts: i32,
}

/// A step in the lifecycle of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodStep {
    Start,
    /// Its image is pulled again.
    Pull,
    /// It shows that it waits for the next pull.
    BackOff,
    /// Its startup probe has succeeded.
    BecomeStarted,
    BecomeReady,
    BecomeUnready,
    End,
    /// It is killed because its liveness or startup probe fails.
    Kill,
    Restart,
    Stop,
}

impl Step {
    /// A step of a whole pod.
    pub(super) fn of_pod(kind: PodStep) -> Self {
        Step { kind, container: Str::default(), restarts: 0 }
    }
}

impl Timers {
    /// The steps that are due, and the time until the next one is. Each step is due some time after
    /// it was first among the pending ones. Steps that are no longer pending are forgotten.
    pub(super) fn due(
        &self,
        key: &ObjectKey,
        uid: &str,
        pending: &[(Step, Duration)],
    ) -> (Vec<Step>, Option<Duration>) {
        let now = Instant::now();
        let mut pending_of = self.pending_of.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pending_of.get(key).filter(|known| known.uid == uid);
        let since = |step: &Step| {
            let known = known.and_then(|known| known.since.iter().find(|(known, _)| known == step));
            known.map_or(now, |(_, since)| *since)
        };
        let (mut due, mut next, mut all) = (Vec::new(), None, Vec::new());
        for (step, delay) in pending {
            let since = since(step);
            let wait = delay.saturating_sub(now - since);
            all.push((step.clone(), since));
            if wait.is_zero() {
                due.push(step.clone());
            } else {
                next = Some(next.unwrap_or(wait).min(wait));
            }
        }
        if all.is_empty() {
            pending_of.remove(key);
        } else {
            pending_of.insert(key.clone(), PendingSteps { uid: uid.into(), since: all });
        }
        (due, next)
    }

    /// The time until the only pending step is due; `None` if it is due.
    pub(super) fn wait(&self, key: &ObjectKey, uid: &str, step: PodStep, delay: Duration) -> Option<Duration> {
        self.due(key, uid, &[(Step::of_pod(step), delay)]).1
    }

    /// Removes a deleted pod.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.pending_of.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
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

    #[tokio::test(start_paused = true)]
    async fn containers_have_steps_of_their_own() {
        let (timers, key) = (Timers::default(), ObjectKey::namespaced("default", "web"));
        let end = |container: &str, restarts, seconds| {
            let step = Step { kind: PodStep::End, container: container.into(), restarts };
            (step, Duration::from_secs(seconds))
        };
        assert_eq!(timers.due(&key, "1", &[end("a", 0, 30)]).1, Some(Duration::from_secs(30)));
        tokio::time::sleep(Duration::from_secs(20)).await;
        let (due, next) = timers.due(&key, "1", &[end("a", 0, 30), end("b", 0, 40)]);
        assert_eq!((due, next), (vec![], Some(Duration::from_secs(10))));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (due, next) = timers.due(&key, "1", &[end("a", 0, 30), end("b", 0, 40)]);
        assert_eq!((due, next), (vec![end("a", 0, 30).0], Some(Duration::from_secs(30))));
        // The next run starts anew.
        assert_eq!(timers.due(&key, "1", &[end("a", 1, 30)]).1, Some(Duration::from_secs(30)));
    }
}
