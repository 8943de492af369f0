//! The trace of a key, from the first event to the last write.
//!
//! ```text
//! key                from the first event to the end of the reconcile
//! ├── queued         until a worker takes the key, with an event for each reason
//! └── reconcile      the span of the reconciler and its log lines
//!     └── request    one for each request, with all its attempts (kubewright-client)
//! ```
//!
//! The spans have the target `kubewright::trace` and the level DEBUG, except for `reconcile`. So
//! they cost nothing and do not lengthen log lines unless a subscriber asks for them. A retry or a
//! requeue begins a new trace: its `queued` span contains the delay.

use kubewright_core::ObjectKey;
use tracing::{Level, Span};

use super::reason::Reason;

/// The target of spans that are meant for traces, not for logs.
const TARGET: &str = "kubewright::trace";

/// The spans of a pending key.
#[derive(Debug)]
pub(crate) struct KeyTrace {
    root: Span,
    queued: Span,
}

impl KeyTrace {
    /// Starts a trace; `None` unless the target is enabled.
    #[inline]
    pub(super) fn start(controller: &str, key: &ObjectKey) -> Option<Box<Self>> {
        tracing::enabled!(target: TARGET, Level::DEBUG).then(|| {
            let root = tracing::debug_span!(target: TARGET, parent: None, "key", controller, %key);
            let queued = tracing::debug_span!(target: TARGET, parent: &root, "queued");
            Box::new(KeyTrace { root, queued })
        })
    }

    /// Records an event for the key.
    pub(super) fn received(&self, reason: &Reason) {
        tracing::debug!(target: TARGET, parent: &self.queued, %reason, "event received");
    }

    /// Ends `queued`. The trace ends when the returned span is dropped.
    pub(super) fn taken(self) -> Span {
        self.root
    }
}
