//! Type-erased events and snapshots, as queued for handlers.

use std::any::Any;
use std::sync::Arc;

use crate::informer::event::Event;
use crate::informer::process::ResyncScope;

/// Events that are shared by all handlers.
pub(super) trait Batch: Any + Send + Sync {
    fn count(&self) -> usize;
    /// Drops the last event.
    fn pop(&mut self);
}

impl<T: Send + Sync + 'static> Batch for Vec<Event<T>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn pop(&mut self) {
        self.pop();
    }
}

/// A [`Snapshot`](crate::Snapshot).
pub(super) type AnySnapshot = Arc<dyn Any + Send + Sync>;

/// The result of applying deltas.
pub(super) struct AppliedBatch {
    pub(super) events: Arc<dyn Batch>,
    /// Snapshots of the store before and after.
    pub(super) before: AnySnapshot,
    pub(super) after: AnySnapshot,
    pub(super) resync_scope: ResyncScope,
}

/// The snapshots before and after some work. `before` is `None` if the handler has seen nothing
/// yet.
#[derive(Clone, Copy)]
pub(super) struct Transition<'a> {
    pub(super) before: Option<&'a AnySnapshot>,
    pub(super) after: &'a AnySnapshot,
}

/// Work for a handler.
pub(super) enum HandlerWork {
    /// No events; keeps the position in the queue.
    Nothing,
    /// Events, with or without resyncs.
    Events { events: Arc<dyn Batch>, with_resyncs: bool },
    /// All objects, for a new handler.
    All(AnySnapshot),
    /// Resyncs of objects that are equal in both snapshots; without `before`, of all objects in
    /// `after`.
    Resync { before: Option<AnySnapshot>, after: AnySnapshot },
    /// The difference between two snapshots (or from nothing), and if `all`, resyncs of the rest.
    Difference { from: Option<AnySnapshot>, to: AnySnapshot, all: bool },
}

impl HandlerWork {
    pub(super) fn events(&self) -> usize {
        match self {
            HandlerWork::Events { events, .. } => events.count(),
            _ => 0,
        }
    }
}
