//! When the next step of a pod is due.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// The step that each pod waits for, and until when.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due_of: Mutex<HashMap<ObjectKey, (Str, Step, Instant)>>,
}

/// What happens to a pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Start,
    BecomeReady,
    End,
    Stop,
}

impl Timers {
    /// How long until a step is due, which it is `delay` after it was first asked about; nothing if it is.
    pub(super) fn wait(&self, key: &ObjectKey, uid: &str, step: Step, delay: Duration) -> Option<Duration> {
        let mut due_of = self.due_of.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = match due_of.get(key) {
            Some((known, waits_for, due)) if *known == uid && *waits_for == step => *due,
            _ => {
                due_of.insert(key.clone(), (uid.into(), step, now + delay));
                now + delay
            }
        };
        (due > now).then(|| due - now)
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.due_of.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
