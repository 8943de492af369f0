//! A handler as its task sees it: told of some work, one event after the other.
//!
//! Here is what depends on the type of the objects. Whether and when there is something to tell is up to `delivery`.

use std::any::Any;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey};

use super::batch::{AnySnapshot, Batch, Work};
use crate::Deleted;
use crate::informer::event::Event;
use crate::informer::handler::EventHandler;
use crate::queue::BoxFuture;
use crate::store::{Change, Snapshot, Store};

/// A handler of whatever type.
pub(super) trait Tell: Send {
    /// Takes up some work and stands before its first event; `is_initial` says that objects that come are part of the first list.
    fn begin(&mut self, work: &Work, is_initial: bool);
    /// Goes on to the next event; false if there is none.
    fn advance(&mut self) -> bool;
    /// Has the handler take the event if it can now; says whether it did. May panic as the handler does, and so may the next one.
    fn try_tell(&mut self) -> bool;
    /// Has the handler take the event as soon as it can.
    fn tell_when_ready(&mut self) -> BoxFuture<'_, ()>;
    /// The key of the object that the event is about.
    fn key(&self) -> Option<ObjectKey>;
    /// Lets go of the work.
    fn end(&mut self);
}

pub(super) struct Teller<T> {
    handler: Box<dyn EventHandler<T>>,
    telling: Telling<T>,
}

enum Telling<T> {
    Nothing,
    Events { events: Arc<Vec<Event<T>>>, with_reminders: bool, next: usize },
    Objects { walk: Walk<T>, event: Option<Event<T>> },
}

/// All objects of a snapshot, which are added, or reminders of those that another has as well.
struct Walk<T> {
    snapshot: Snapshot<T>,
    reminds: bool,
    before: Option<Snapshot<T>>,
    next: u32,
}

impl<T: Object> Teller<T> {
    pub(super) fn new(handler: Box<dyn EventHandler<T>>) -> Self {
        Teller { handler, telling: Telling::Nothing }
    }
}

impl<T: Object> Tell for Teller<T> {
    fn begin(&mut self, work: &Work, is_initial: bool) {
        self.telling = match work {
            Work::Nothing => Telling::Nothing,
            Work::Events { events, with_reminders } => {
                Telling::Events { events: typed(events.clone()), with_reminders: *with_reminders, next: 0 }
            }
            Work::All(snapshot) => Telling::walk(snapshot, false, None),
            Work::Reminders { before, after } => Telling::walk(after, true, before.as_ref()),
            Work::Difference { from, to, .. } => {
                let events = Arc::new(difference(&snapshot_of(from.as_ref()), &Snapshot::of(to), is_initial));
                Telling::Events { events, with_reminders: true, next: 0 }
            }
        };
    }

    fn advance(&mut self) -> bool {
        match &mut self.telling {
            Telling::Nothing => false,
            Telling::Events { events, with_reminders, next } => loop {
                let Some(event) = events.get(*next) else { return false };
                *next += 1;
                if *with_reminders || !event.is_reminder() {
                    return true;
                }
            },
            Telling::Objects { walk, event } => {
                *event = walk.next();
                event.is_some()
            }
        }
    }

    fn try_tell(&mut self) -> bool {
        self.telling.event().is_none_or(|event| self.handler.try_event(event))
    }

    fn tell_when_ready(&mut self) -> BoxFuture<'_, ()> {
        match self.telling.event() {
            Some(event) => self.handler.event_when_ready(event),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn key(&self) -> Option<ObjectKey> {
        self.telling.event().map(Event::key)
    }

    fn end(&mut self) {
        self.telling = Telling::Nothing;
    }
}

impl<T: Object> Telling<T> {
    fn walk(snapshot: &AnySnapshot, reminds: bool, before: Option<&AnySnapshot>) -> Self {
        let walk = Walk { snapshot: Snapshot::of(snapshot), reminds, before: before.map(Snapshot::of), next: 0 };
        Telling::Objects { walk, event: None }
    }

    fn event(&self) -> Option<&Event<T>> {
        match self {
            Telling::Nothing => None,
            Telling::Events { events, next, .. } => events.get(next.checked_sub(1)?),
            Telling::Objects { event, .. } => event.as_ref(),
        }
    }
}

impl<T: Object> Walk<T> {
    fn next(&mut self) -> Option<Event<T>> {
        loop {
            let (slot, object) = self.snapshot.first_from(self.next)?;
            self.next = slot + 1;
            if !self.reminds {
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

/// What leads from one snapshot to the other: first what is gone.
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

/// How many changes lead from one snapshot, or from nothing, to another.
pub(super) fn count_changes<T: Object>(from: Option<&AnySnapshot>, to: &AnySnapshot) -> usize {
    snapshot_of::<T>(from).changes(&Snapshot::of(to)).len()
}

/// A snapshot, or nothing: of another store, but empty, so that the difference to any snapshot is all of it.
fn snapshot_of<T: Object>(snapshot: Option<&AnySnapshot>) -> Snapshot<T> {
    snapshot.map_or_else(|| Store::default().snapshot(), Snapshot::of)
}

fn typed<T: Object>(events: Arc<dyn Batch>) -> Arc<Vec<Event<T>>> {
    let events: Arc<dyn Any + Send + Sync> = events;
    events.downcast().expect("the handlers of an informer are of one type")
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

    /// What a handler is told of some work, in short.
    fn told(work: &Work) -> Vec<String> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let told = told.clone();
            move |event: &Event<DynamicObject>| {
                let what = match event {
                    Event::Added { .. } => '+',
                    Event::Updated { .. } if event.is_reminder() => '=',
                    Event::Updated { .. } => '~',
                    Event::Deleted(_) => '-',
                };
                told.lock().unwrap().push(format!("{what}{}", event.key()));
            }
        };
        let mut teller = Teller::new(Box::new(handler));
        teller.begin(work, false);
        while teller.advance() {
            assert!(teller.try_tell());
        }
        teller.end();
        assert_eq!(teller.key(), None, "nothing is kept");
        std::mem::take(&mut told.lock().unwrap())
    }

    #[test]
    fn work_is_told_in_order_past_what_is_gone() {
        let store = Store::default();
        for name in ["a", "b", "c", "d"] {
            store.add(object(name, "1"));
        }
        let before = store.snapshot().into_any();
        store.delete(object("b", "1"));
        store.add(object("c", "2"));
        store.add(object("d", "1"));
        let after = store.snapshot().into_any();
        assert_eq!(told(&Work::All(after.clone())), ["+a", "+c", "+d"]);
        assert_eq!(told(&Work::Reminders { before: None, after: after.clone() }), ["=a", "=c", "=d"]);
        assert_eq!(told(&Work::Reminders { before: Some(before.clone()), after: after.clone() }), ["=a"]);
        assert_eq!(count_changes::<DynamicObject>(Some(&before), &after), 3);
        let difference = Work::Difference { from: Some(before), to: after.clone(), all: false };
        assert_eq!(told(&difference), ["-b", "-c", "+c", "~d"]);
        assert_eq!(count_changes::<DynamicObject>(None, &after), 3);
        assert_eq!(told(&Work::Difference { from: None, to: after, all: false }), ["+a", "+c", "+d"]);
        assert_eq!(told(&Work::Nothing), [""; 0]);
    }
}
