//! A handler's registration, by which its owner asks after it and removes it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::listener::Listener;

/// A handler that was added to an informer. Clones are the same registration; dropping it removes nothing.
#[derive(Clone)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct HandlerRegistration {
    pub(super) listener: Arc<Listener>,
}

impl HandlerRegistration {
    /// Whether the handler has been told of every object of the first list.
    ///
    /// An informer that has synced says nothing about its handlers: this is the one to ask before work begins.
    pub fn has_synced(&self) -> bool {
        *self.listener.synced.borrow()
    }

    /// Waits until the handler has been told of every object of the first list; false if it stopped before.
    ///
    /// Later changes may still be on their way. Cancel safe: drop the future and call again.
    pub async fn synced(&self) -> bool {
        self.listener.wait_until_synced().await
    }

    /// Removes the handler. A call that is under way is not interrupted. The buffer of the handler
    /// is freed at once.
    ///
    /// Can be called any number of times, from anywhere.
    #[doc(alias = "RemoveEventHandler")]
    pub fn remove(&self) {
        self.listener.end();
    }

    /// Stops telling the handler and waits for the call that is under way; must not be called by the handler itself.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn shut_down(&self) {
        self.remove();
        self.listener.stopped.cancelled().await;
    }

    /// How many events wait for the handler.
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
