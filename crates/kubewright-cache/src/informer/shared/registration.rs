//! The registration of a handler.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::listener::Listener;

/// A handler added to an informer. Clones are the same registration; dropping it does not remove
/// the handler.
#[derive(Clone)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct HandlerRegistration {
    pub(super) listener: Arc<Listener>,
}

impl HandlerRegistration {
    /// Whether the handler has received every object of the initial list.
    ///
    /// An informer that has synced says nothing about its handlers: check this before starting
    /// work.
    pub fn has_synced(&self) -> bool {
        *self.listener.synced.borrow()
    }

    /// Waits until the handler has received every object of the initial list; false if it stopped
    /// before.
    ///
    /// Later changes may still be queued. Cancel safe: drop the future and call again.
    pub async fn synced(&self) -> bool {
        self.listener.wait_until_synced().await
    }

    /// Removes the handler. A call in progress is not interrupted. The handler's buffer is freed
    /// immediately.
    ///
    /// Idempotent; may be called from anywhere.
    #[doc(alias = "RemoveEventHandler")]
    pub fn remove(&self) {
        self.listener.end();
    }

    /// Removes the handler and waits for a call in progress. The handler itself must not call this.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn shut_down(&self) {
        self.remove();
        self.listener.stopped.cancelled().await;
    }

    /// Number of events queued for the handler.
    pub fn lag(&self) -> usize {
        self.listener.lag()
    }

    /// Whether the handler has fallen behind by more than its buffer holds.
    pub fn is_behind(&self) -> bool {
        self.listener.is_behind()
    }

    /// How often the handler has panicked.
    pub fn panics(&self) -> u64 {
        self.listener.panics.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for HandlerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("has_synced", &self.has_synced()).finish_non_exhaustive()
    }
}
