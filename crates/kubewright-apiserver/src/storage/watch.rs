//! A position in the log of one scope, and the way forward from it.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::{collections::VecDeque, fmt, sync::Arc};

use super::changes::Listener;
use super::{Compacted, Event, Scope, Store};

/// How many events a watcher takes from the log at a time. It holds no more than these of its
/// own, and a writer waits no longer than it takes to share them.
const BATCH: usize = 64;

/// The events of a scope after a revision, each one once and in order.
///
/// A watcher holds up nobody. If it is so slow that the log forgets an event before the watcher
/// has taken it, the watcher gets what it had already taken, then [`Compacted`], for ever.
/// Dropping it leaves nothing behind.
pub struct Watcher<V> {
    store: Store<V>,
    scope: Scope,
    /// All events of the scope up to here have been taken from the log.
    position: u64,
    /// Taken, not yet given out.
    taken: VecDeque<Arc<Event<V>>>,
    /// There may be events in the log that nobody will tell of again.
    is_behind: bool,
    changes: Listener,
}

impl<V> Watcher<V> {
    pub(super) fn new(store: Store<V>, scope: Scope, from: u64, changes: Listener) -> Self {
        Watcher { store, scope, position: from, taken: VecDeque::new(), is_behind: true, changes }
    }

    /// Waits for the next event.
    ///
    /// Cancel safe: a dropped future has taken nothing.
    ///
    /// # Errors
    /// [`Compacted`] if the watcher was too slow; start again with a list.
    pub async fn next(&mut self) -> Result<Arc<Event<V>>, Compacted> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for those who wait for other things as well.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event<V>>, Compacted>> {
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
    pub fn try_next(&mut self) -> Result<Option<Arc<Event<V>>>, Compacted> {
        // Whoever has taken all is told of more: no need to look for it, which takes the lock.
        if self.taken.is_empty() && (self.is_behind || self.changes.has_changed()) {
            // Before we look, so that a write after the look is told.
            self.changes.hear();
            self.take()?;
        }
        Ok(self.taken.pop_front())
    }

    /// The current revision of the store, if the caller has been given all events up to it.
    ///
    /// This is what a bookmark says. `None` means that there are events to take first, or that
    /// they are lost, or that the watch starts in the future.
    pub fn progress(&mut self) -> Option<u64> {
        if self.taken.is_empty() {
            self.take().ok()?;
        }
        // `take` has gone to the current revision exactly if it found nothing on the way; newer
        // revisions do not matter, the caller has seen everything up to this one.
        (self.taken.is_empty() && self.position <= self.store.current_revision()).then_some(self.position)
    }

    /// Moves the next events from the log to ourselves.
    fn take(&mut self) -> Result<(), Compacted> {
        self.is_behind = true;
        let state = self.store.read();
        let Some(topic) = state.topic(&self.scope) else { return Ok(()) };
        if topic.forgotten() > self.position {
            return Err(Compacted { requested: self.position, oldest: state.oldest(&self.scope) });
        }
        let revisions = topic.after(self.position);
        let is_all = revisions.len() <= BATCH;
        self.is_behind = !is_all;
        self.taken.extend(revisions.take(BATCH).filter_map(|revision| state.log.get(revision).cloned()));
        self.position = match self.taken.back() {
            Some(last) if !is_all => last.revision,
            _ => state.revision.max(self.position),
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
