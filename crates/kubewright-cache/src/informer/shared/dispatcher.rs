//! Delivers the events of one work item to a handler.
//!
//! This is the part that depends on the object type. `delivery` decides whether and when to
//! deliver.

use std::sync::Arc;

use kubewright_core::{Object, ObjectKey};

use super::batch::{AnySnapshot, HandlerWork};
use crate::Deleted;
use crate::informer::event::Event;
use crate::informer::handler::EventHandler;
use crate::queue::BoxFuture;
use crate::store::{Change, Snapshot, Store};
use crate::typed::typed;

/// A type-erased handler.
pub(super) trait Dispatch: Send {
    /// Starts a work item, before its first event. `is_initial` marks added objects as part of the
    /// initial list.
    fn begin(&mut self, work: &HandlerWork, is_initial: bool);
    /// Moves to the next event; false if there is none.
    fn advance(&mut self) -> bool;
    /// Delivers the current event if the handler can accept it now, and returns whether it did.
    /// Panics if the handler does.
    fn try_deliver(&mut self) -> bool;
    /// Delivers the current event as soon as the handler can accept it.
    fn deliver_when_ready(&mut self) -> BoxFuture<'_, ()>;
    /// The key of the current event.
    fn key(&self) -> Option<ObjectKey>;
    /// Drops the work item.
    fn end(&mut self);
}

pub(super) struct Dispatcher<T> {
    handler: Box<dyn EventHandler<T>>,
    dispatching: Dispatching<T>,
}

enum Dispatching<T> {
    Nothing,
    Events { events: Arc<Vec<Event<T>>>, with_resyncs: bool, next: usize },
    Objects { walk: SnapshotCursor<T>, event: Option<Event<T>> },
}

/// Iterates over a snapshot: adds of all objects, or resyncs of those that another snapshot
/// contains too.
struct SnapshotCursor<T> {
    snapshot: Snapshot<T>,
    is_resync: bool,
    before: Option<Snapshot<T>>,
    next: u32,
}

impl<T: Object> Dispatcher<T> {
    pub(super) fn new(handler: Box<dyn EventHandler<T>>) -> Self {
        Dispatcher { handler, dispatching: Dispatching::Nothing }
    }
}

impl<T: Object> Dispatch for Dispatcher<T> {
    fn begin(&mut self, work: &HandlerWork, is_initial: bool) {
        self.dispatching = match work {
            HandlerWork::Nothing => Dispatching::Nothing,
            HandlerWork::Events { events, with_resyncs } => {
                Dispatching::Events { events: typed(events.clone()), with_resyncs: *with_resyncs, next: 0 }
            }
            HandlerWork::All(snapshot) => Dispatching::walk(snapshot, false, None),
            HandlerWork::Resync { before, after } => Dispatching::walk(after, true, before.as_ref()),
            HandlerWork::Difference { from, to, .. } => {
                let events = Arc::new(difference(&snapshot_of(from.as_ref()), &Snapshot::of(to), is_initial));
                Dispatching::Events { events, with_resyncs: true, next: 0 }
            }
        };
    }

    fn advance(&mut self) -> bool {
        match &mut self.dispatching {
            Dispatching::Nothing => false,
            Dispatching::Events { events, with_resyncs, next } => loop {
                let Some(event) = events.get(*next) else { return false };
                *next += 1;
                if *with_resyncs || !event.is_resync() {
                    return true;
                }
            },
            Dispatching::Objects { walk, event } => {
                *event = walk.next();
                event.is_some()
            }
        }
    }

    fn try_deliver(&mut self) -> bool {
        self.dispatching.event().is_none_or(|event| self.handler.try_event(event))
    }

    fn deliver_when_ready(&mut self) -> BoxFuture<'_, ()> {
        match self.dispatching.event() {
            Some(event) => self.handler.event_when_ready(event),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn key(&self) -> Option<ObjectKey> {
        self.dispatching.event().map(Event::key)
    }

    fn end(&mut self) {
        self.dispatching = Dispatching::Nothing;
    }
}

impl<T: Object> Dispatching<T> {
    fn walk(snapshot: &AnySnapshot, is_resync: bool, before: Option<&AnySnapshot>) -> Self {
        let walk =
            SnapshotCursor { snapshot: Snapshot::of(snapshot), is_resync, before: before.map(Snapshot::of), next: 0 };
        Dispatching::Objects { walk, event: None }
    }

    fn event(&self) -> Option<&Event<T>> {
        match self {
            Dispatching::Nothing => None,
            Dispatching::Events { events, next, .. } => events.get(next.checked_sub(1)?),
            Dispatching::Objects { event, .. } => event.as_ref(),
        }
    }
}

impl<T: Object> SnapshotCursor<T> {
    fn next(&mut self) -> Option<Event<T>> {
        loop {
            let (slot, object) = self.snapshot.first_from(self.next)?;
            self.next = slot + 1;
            if !self.is_resync {
                return Some(added(object, true));
            }
            let is_same = |before: &Snapshot<T>| {
                let old = before.get(object.namespace(), object.name());
                old.is_some_and(|old| Arc::ptr_eq(old, object))
            };
            if self.before.as_ref().is_none_or(is_same) {
                return Some(Event::Updated { old: object.clone(), new: object.clone() });
            }
        }
    }
}

/// The events that lead from one snapshot to another, deletions first.
fn difference<T: Object>(from: &Snapshot<T>, to: &Snapshot<T>, is_initial: bool) -> Vec<Event<T>> {
    let changes = from.changes(to);
    let is_another = |old: &Arc<T>, new: &Arc<T>| old.uid() != new.uid();
    let mut events = Vec::with_capacity(changes.len());
    for change in &changes {
        match change {
            Change::Removed(old) => events.push(gone(old)),
            Change::Updated { old, new } if is_another(old, new) => events.push(gone(old)),
            _ => {}
        }
    }
    for change in changes {
        match change {
            Change::Added(new) => events.push(added(new, is_initial)),
            Change::Updated { old, new } if is_another(old, new) => events.push(added(new, is_initial)),
            Change::Updated { old, new } => events.push(Event::Updated { old: old.clone(), new: new.clone() }),
            Change::Removed(_) => {}
        }
    }
    events
}

/// The number of changes between two snapshots, or from nothing.
pub(super) fn count_changes<T: Object>(from: Option<&AnySnapshot>, to: &AnySnapshot) -> usize {
    snapshot_of::<T>(from).changes(&Snapshot::of(to)).len()
}

/// The snapshot, or an empty one, so that the difference to any snapshot is all of it.
fn snapshot_of<T: Object>(snapshot: Option<&AnySnapshot>) -> Snapshot<T> {
    snapshot.map_or_else(|| Store::default().snapshot(), Snapshot::of)
}

fn added<T>(object: &Arc<T>, is_in_initial_list: bool) -> Event<T> {
    Event::Added { object: object.clone(), is_in_initial_list }
}

fn gone<T: Object>(object: &Arc<T>) -> Event<T> {
    Event::Deleted(Deleted::LastKnown { key: object.key(), object: Some(object.clone()) })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kubewright_core::DynamicObject;

    use super::*;

    fn object(name: &str, uid: &str) -> DynamicObject {
        let text = format!(r#"{{"metadata": {{"name": "{name}", "uid": "{uid}"}}}}"#);
        text.parse().expect("an object")
    }

    /// The events delivered for a work item, abbreviated.
    fn retained(work: &HandlerWork) -> Vec<String> {
        let retained = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let retained = retained.clone();
            move |event: &Event<DynamicObject>| {
                let what = match event {
                    Event::Added { .. } => '+',
                    Event::Updated { .. } if event.is_resync() => '=',
                    Event::Updated { .. } => '~',
                    Event::Deleted(_) => '-',
                };
                retained.lock().unwrap().push(format!("{what}{}", event.key()));
            }
        };
        let mut dispatcher = Dispatcher::new(Box::new(handler));
        dispatcher.begin(work, false);
        while dispatcher.advance() {
            assert!(dispatcher.try_deliver());
        }
        dispatcher.end();
        assert_eq!(dispatcher.key(), None, "nothing is keep_alive");
        std::mem::take(&mut retained.lock().unwrap())
    }

    #[test]
    fn work_is_delivered_in_order_and_skips_removed_objects() {
        let store = Store::default();
        for name in ["a", "b", "c", "d"] {
            store.add(object(name, "1"));
        }
        let before = store.snapshot().into_any();
        store.delete(object("b", "1"));
        store.add(object("c", "2"));
        store.add(object("d", "1"));
        let after = store.snapshot().into_any();
        assert_eq!(retained(&HandlerWork::All(after.clone())), ["+a", "+c", "+d"]);
        assert_eq!(retained(&HandlerWork::Resync { before: None, after: after.clone() }), ["=a", "=c", "=d"]);
        assert_eq!(retained(&HandlerWork::Resync { before: Some(before.clone()), after: after.clone() }), ["=a"]);
        assert_eq!(count_changes::<DynamicObject>(Some(&before), &after), 3);
        let difference = HandlerWork::Difference { from: Some(before), to: after.clone(), all: false };
        assert_eq!(retained(&difference), ["-b", "-c", "+c", "~d"]);
        assert_eq!(count_changes::<DynamicObject>(None, &after), 3);
        assert_eq!(retained(&HandlerWork::Difference { from: None, to: after, all: false }), ["+a", "+c", "+d"]);
        assert_eq!(retained(&HandlerWork::Nothing), [""; 0]);
    }
}
