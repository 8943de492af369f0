//! A watch: the events of one scope, in order.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::{collections::VecDeque, fmt, sync::Arc};

use crate::changes::ChangeListener;
use crate::error::Compacted;
use crate::event::StoreEvent;
use crate::key::KeyRange;
use crate::store::Store;

/// The maximum number of events that a watcher takes from the log at a time. It bounds the memory
/// of a watcher and the time for which it keeps writers waiting.
const BATCH: usize = 64;

/// The events of a scope after a revision, each one once and in order.
///
/// A slow watcher does not delay writers. If the log forgets an event before the watcher has taken
/// it, the watcher returns the events that it had taken, and then [`Compacted`] each time.
pub struct Watcher<V> {
    store: Store<V>,
    scope: KeyRange,
    /// All events of the scope up to this revision have been taken from the log.
    position: u64,
    /// Events taken from the log and not yet returned.
    taken: VecDeque<Arc<StoreEvent<V>>>,
    /// Whether the log may have events without a pending notification.
    is_behind: bool,
    changes: ChangeListener,
}

impl<V> Store<V> {
    /// Follows the events of `scope` after revision `from`, each one once and in order.
    ///
    /// A `from` in the future is allowed: the watcher skips the events up to it.
    ///
    /// # Errors
    /// [`Compacted`] if events after `from` have been dropped.
    pub fn watch(&self, scope: &KeyRange, from: u64) -> Result<Watcher<V>, Compacted> {
        let changed = self.write().subscribe(scope, from)?;
        Ok(Watcher::new(self.clone(), scope.clone(), from, changed))
    }

    /// Follows the events of all objects of a resource that have this name, in any namespace.
    ///
    /// # Errors
    /// As for [`watch`](Store::watch).
    pub fn watch_named(&self, resource: &str, name: &str, from: u64) -> Result<Watcher<V>, Compacted> {
        self.watch(&KeyRange::named(resource, name), from)
    }

    /// Follows the events of all objects of a resource whose indexed value is `value`, or was until
    /// the event. Events of other values do not wake the watcher. See
    /// [`StoreOptions::index`](crate::StoreOptions::index).
    ///
    /// # Errors
    /// As for [`watch`](Store::watch).
    pub fn watch_indexed(&self, resource: &str, value: &str, from: u64) -> Result<Watcher<V>, Compacted> {
        self.watch(&KeyRange::indexed(resource, value), from)
    }
}

impl<V> Watcher<V> {
    fn new(store: Store<V>, scope: KeyRange, from: u64, changes: ChangeListener) -> Self {
        Watcher { store, scope, position: from, taken: VecDeque::new(), is_behind: true, changes }
    }

    /// Waits for the next event.
    ///
    /// Cancel safe: a dropped future loses no event.
    ///
    /// # Errors
    /// [`Compacted`] if the watcher was too slow; start again with a list.
    pub async fn next(&mut self) -> Result<Arc<StoreEvent<V>>, Compacted> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same as [`next`](Self::next), as a poll function.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<StoreEvent<V>>, Compacted>> {
        loop {
            if let Some(event) = self.try_next()? {
                return Poll::Ready(Ok(event));
            }
            ready!(self.changes.poll_changed(context));
        }
    }

    /// The next event, if it has happened already.
    ///
    /// # Errors
    /// As for [`next`](Watcher::next).
    pub fn try_next(&mut self) -> Result<Option<Arc<StoreEvent<V>>>, Compacted> {
        // A watcher that has taken all events is notified of the next: without a notification,
        // there is no need to take the lock.
        if self.taken.is_empty() && (self.is_behind || self.changes.has_changed()) {
            // Before reading the log, so that a later write notifies again.
            self.changes.mark_seen();
            self.take()?;
        }
        Ok(self.taken.pop_front())
    }

    /// The current revision of the store, if all events up to it were returned.
    ///
    /// This is the revision of a bookmark. `None` if there are events to return first, if events
    /// were dropped, or if the watch starts in the future.
    pub fn progress(&mut self) -> Option<u64> {
        if self.taken.is_empty() {
            self.take().ok()?;
        }
        // If `take` finds no event, `position` is the revision that was current then. A newer
        // revision does not invalidate it.
        (self.taken.is_empty() && self.position <= self.store.current_revision()).then_some(self.position)
    }

    /// Moves the next events from the log to `taken`.
    fn take(&mut self) -> Result<(), Compacted> {
        self.is_behind = true;
        let state = self.store.read();
        let Some(topic) = state.topic(&self.scope) else { return Ok(()) };
        if topic.forgotten() > self.position {
            return Err(Compacted { requested: self.position, oldest: state.oldest(&self.scope) });
        }
        let revisions = topic.range(self.position, state.committed);
        let is_all = revisions.len() <= BATCH;
        self.is_behind = !is_all;
        let events = revisions.take(BATCH).flat_map(|revision| state.log.at(revision));
        self.taken.extend(events.filter(|event| self.scope.has_event(event)).cloned());
        self.position = match self.taken.back() {
            Some(last) if !is_all => last.revision,
            _ => state.committed.max(self.position),
        };
        Ok(())
    }
}

impl<V> Drop for Watcher<V> {
    fn drop(&mut self) {
        self.store.write().unsubscribe(&self.scope);
    }
}

impl<V> fmt::Debug for Watcher<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("scope", &self.scope).field("position", &self.position).finish_non_exhaustive()
    }
}
