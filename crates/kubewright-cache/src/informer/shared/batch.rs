//! Events and snapshots without their type, as they stand in line.

use std::any::Any;
use std::sync::Arc;

use crate::informer::event::Event;
use crate::informer::process::Reminder;

/// Events that are shared by all handlers.
pub(super) trait Batch: Any + Send + Sync {
    fn count(&self) -> usize;
    /// Lets go of the last one.
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

/// What came of applying deltas.
pub(super) struct Applied {
    pub(super) events: Arc<dyn Batch>,
    /// The store before and after.
    pub(super) before: AnySnapshot,
    pub(super) after: AnySnapshot,
    pub(super) reminder: Reminder,
}

/// The store around some work. Before it a handler may have seen nothing.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) before: Option<&'a AnySnapshot>,
    pub(super) after: &'a AnySnapshot,
}

/// Something for a handler to work through.
pub(super) enum Work {
    /// Nothing, where it is only about its place in the line.
    Nothing,
    /// Events, with reminders or without.
    Events { events: Arc<dyn Batch>, with_reminders: bool },
    /// All objects, for a handler that begins.
    All(AnySnapshot),
    /// Reminders of objects that are the same in both, or of all that the second one has.
    Reminders { before: Option<AnySnapshot>, after: AnySnapshot },
    /// What leads from one to the other, or from nothing, and if `all`, reminders of the rest as well.
    Difference { from: Option<AnySnapshot>, to: AnySnapshot, all: bool },
}

impl Work {
    pub(super) fn events(&self) -> usize {
        match self {
            Work::Events { events, .. } => events.count(),
            _ => 0,
        }
    }
}
