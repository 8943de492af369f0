//! Event recorders.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kubewright_client::Client;
use kubewright_core::{GroupVersion, Object, Str};
use tokio::sync::mpsc;

use super::new_event::{EventType, NewEvent};

/// The API that events are written to. `kubectl` shows both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EventApi {
    /// `v1`, which counts repeated events.
    #[default]
    Core,
    /// `events.k8s.io/v1`, which has series of events.
    Events,
}

impl EventApi {
    /// The newer API if the server supports it, or else the older.
    ///
    /// # Errors
    /// If the request fails.
    #[doc(alias = "NewEventBroadcasterAdapter")]
    #[inline]
    pub async fn detect(client: &Client) -> kubewright_client::Result<Self> {
        let newer = GroupVersion::new("events.k8s.io", "v1");
        match client.discovery().version(&newer).await {
            Ok(_) => Ok(EventApi::Events),
            Err(error) if error.is_not_found() => Ok(EventApi::Core),
            Err(error) => Err(error),
        }
    }
}

/// Records events for one component. Clones are the same recorder.
#[derive(Clone)]
pub struct EventRecorder {
    pub(super) who: Arc<Reporter>,
    pub(super) to: To,
}

/// The reporting component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reporter {
    pub(super) component: Str,
    pub(super) instance: Str,
    pub(super) api: EventApi,
}

#[derive(Clone)]
pub(super) enum To {
    Broadcaster { sender: mpsc::Sender<(Arc<Reporter>, NewEvent)>, dropped: Arc<AtomicU64> },
    Fake(mpsc::Sender<String>),
}

impl EventRecorder {
    /// A recorder for tests, which sends texts such as `Normal Synced all is well` to a channel.
    ///
    /// The channel has a capacity of `buffer`, at least one. Further events are dropped, since a
    /// recorder never waits.
    #[doc(alias = "NewFakeRecorder")]
    #[doc(alias = "FakeRecorder")]
    #[inline]
    pub fn fake(buffer: usize) -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(buffer.max(1));
        let who = Reporter { component: Str::from_static("fake"), instance: Str::new(), api: EventApi::Core };
        (EventRecorder { who: Arc::new(who), to: To::Fake(sender) }, receiver)
    }

    /// A recorder of the same component that writes to another API.
    ///
    /// It adapts code written for one API to the other. The older API does not support
    /// [`NewEvent::action`] and
    /// [`NewEvent::related`].
    #[doc(alias = "NewEventRecorderAdapter")]
    #[doc(alias = "EventRecorderAdapter")]
    #[doc(alias = "DeprecatedNewLegacyRecorder")]
    #[must_use]
    #[inline]
    pub fn with_api(&self, api: EventApi) -> Self {
        EventRecorder { who: Arc::new(Reporter { api, ..Reporter::clone(&self.who) }), to: self.to.clone() }
    }

    /// Its API.
    #[inline]
    pub fn api(&self) -> EventApi {
        self.who.api
    }

    /// Records a normal event.
    pub fn normal(&self, object: &impl Object, reason: impl Into<Str>, note: impl Into<Str>) {
        self.record(NewEvent::new(object, EventType::Normal, reason, note));
    }

    /// Records a warning.
    pub fn warning(&self, object: &impl Object, reason: impl Into<Str>, note: impl Into<Str>) {
        self.record(NewEvent::new(object, EventType::Warning, reason, note));
    }

    /// Records an event. Never waits: if the queue is full, the event is dropped and counted.
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
                if sender.try_send(format!("{} {} {}", event.event_type, event.reason, event.note)).is_err() {
                    tracing::warn!(reason = %event.reason, note = %event.note, "a fake recorder dropped an event");
                }
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
