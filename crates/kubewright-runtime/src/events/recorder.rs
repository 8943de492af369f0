//! Records events without ever waiting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kubewright_core::{Object, Str};
use tokio::sync::mpsc;

use super::new_event::{EventType, NewEvent};

/// Which API events are written to. Both are shown by `kubectl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EventApi {
    /// `v1`, which counts what repeats.
    #[default]
    Core,
    /// `events.k8s.io/v1`, which makes a series of it.
    Events,
}

/// Records events in the name of one component. Clones are the same.
#[derive(Clone)]
pub struct EventRecorder {
    pub(super) who: Arc<Who>,
    pub(super) to: To,
}

/// Who records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) component: Str,
    pub(super) instance: Str,
    pub(super) api: EventApi,
}

#[derive(Clone)]
pub(super) enum To {
    Broadcaster { sender: mpsc::Sender<(Arc<Who>, NewEvent)>, dropped: Arc<AtomicU64> },
    Fake(mpsc::Sender<String>),
}

impl EventRecorder {
    /// A recorder for tests, which gives texts such as `Normal Synced all is well`.
    #[doc(alias = "NewFakeRecorder")]
    #[inline]
    pub fn fake(buffer: usize) -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(buffer.max(1));
        let who = Who { component: Str::from_static("fake"), instance: Str::new(), api: EventApi::Core };
        (EventRecorder { who: Arc::new(who), to: To::Fake(sender) }, receiver)
    }

    /// Something happened that is as expected.
    #[inline]
    pub fn normal(&self, object: &impl Object, reason: impl Into<Str>, note: impl Into<Str>) {
        self.record(NewEvent::new(object, EventType::Normal, reason, note));
    }

    /// Something happened that somebody may have to look at.
    #[inline]
    pub fn warning(&self, object: &impl Object, reason: impl Into<Str>, note: impl Into<Str>) {
        self.record(NewEvent::new(object, EventType::Warning, reason, note));
    }

    /// Something happened. Never waits: if too much happens at once, it is dropped and counted.
    #[doc(alias = "Event")]
    #[doc(alias = "Eventf")]
    #[inline]
    pub fn record(&self, event: NewEvent) {
        if event.regarding.kind.is_none() {
            tracing::error!(reason = %event.reason, "no event can be recorded of an object without a kind");
            return;
        }
        match &self.to {
            To::Fake(sender) => {
                let _ = sender.try_send(format!("{} {} {}", event.event_type, event.reason, event.note));
            }
            To::Broadcaster { sender, dropped } => {
                if let Err(error) = sender.try_send((self.who.clone(), event)) {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    let event = error.into_inner().1;
                    tracing::warn!(reason = %event.reason, note = %event.note, "an event was dropped");
                }
            }
        }
    }
}

impl fmt::Debug for EventRecorder {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder").field("component", &self.who.component).finish_non_exhaustive()
    }
}
