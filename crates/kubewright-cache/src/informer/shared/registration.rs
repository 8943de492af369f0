//! A handler's registration, by which its owner asks after it and removes it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kubewright_core::Object;

use super::listener::Listener;
use crate::queue::BoxFuture;

/// A handler that was added to an informer. Clones are the same registration; dropping it removes nothing.
#[derive(Clone)]
#[doc(alias = "ResourceEventHandlerRegistration")]
pub struct HandlerRegistration {
    pub(super) listener: Arc<dyn Registered>,
}

/// A listener whatever its type.
pub(super) trait Registered: Send + Sync {
    fn has_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, bool>;
    fn remove(&self);
    fn stopped(&self) -> BoxFuture<'_, ()>;
    fn lag(&self) -> usize;
    fn is_behind(&self) -> bool;
    fn panics(&self) -> u64;
}

impl<T: Object> Registered for Listener<T> {
    fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let mut synced = self.synced.subscribe();
            tokio::select! {
                // At the same instant, having synced counts.
                biased;
                _ = synced.wait_for(|synced| *synced) => true,
                () = self.stopped.cancelled() => false,
            }
        })
    }

    fn remove(&self) {
        self.end();
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stopped.cancelled())
    }

    fn lag(&self) -> usize {
        Listener::lag(self)
    }

    fn is_behind(&self) -> bool {
        Listener::is_behind(self)
    }

    fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl HandlerRegistration {
    /// Whether the handler has been told of every object of the first list.
    ///
    /// An informer that has synced says nothing about its handlers: this is the one to ask before work begins.
    pub fn has_synced(&self) -> bool {
        self.listener.has_synced()
    }

    /// Waits until the handler has been told of every object of the first list; false if it stopped before.
    ///
    /// Later changes may still be on their way. Cancel safe: drop the future and call again.
    pub async fn synced(&self) -> bool {
        self.listener.synced().await
    }

    /// Stops telling the handler. A call that is under way goes on; what waits for the handler is let go.
    ///
    /// Can be called any number of times, from anywhere.
    #[doc(alias = "RemoveEventHandler")]
    pub fn remove(&self) {
        self.listener.remove();
    }

    /// Stops telling the handler and waits for the call that is under way; must not be called by the handler itself.
    #[doc(alias = "ShutDownEventHandler")]
    pub async fn shut_down(&self) {
        self.remove();
        self.listener.stopped().await;
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
        self.listener.panics()
    }
}

impl fmt::Debug for HandlerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("has_synced", &self.has_synced()).finish_non_exhaustive()
    }
}
