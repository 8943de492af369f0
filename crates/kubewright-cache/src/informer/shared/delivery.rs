//! The task of one handler: takes work, tells the handler, and survives its panics.

use std::sync::Arc;
use std::time::Duration;

use kubewright_core::Object;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

use super::listener::{Batch, Listener, Work};
use super::options::OnPanic;
use crate::Deleted;
use crate::informer::event::Event;
use crate::informer::handler::{EventHandler, Told, tell_when_ready, try_tell};
use crate::store::{Change, Snapshot};

/// How long a handler that panicked rests before it is told of everything again.
const REST: Duration = Duration::from_secs(1);

/// Tells `handler` of all that comes until it is removed or the informer stops. The event in hand is finished first.
pub(super) async fn deliver<T: Object>(listener: Arc<Listener<T>>, handler: Box<dyn EventHandler<T>>) {
    let _stopped = Stopped(&listener);
    Delivery { listener: &listener, handler, has_panicked: false, has_missed: false }.run().await;
}

/// Says that the task is over, however it came to that.
struct Stopped<'a, T: Object>(&'a Listener<T>);

impl<T: Object> Drop for Stopped<'_, T> {
    fn drop(&mut self) {
        self.0.end();
        self.0.stopped.cancel();
    }
}

struct Delivery<'a, T> {
    listener: &'a Listener<T>,
    handler: Box<dyn EventHandler<T>>,
    has_panicked: bool,
    /// An event was let go because the handler is to stop.
    has_missed: bool,
}

impl<T: Object> Delivery<'_, T> {
    async fn run(&mut self) {
        while let Some(Batch { work, after, ends_initial_list }) = self.listener.take().await {
            self.work_through(work).await;
            if self.has_missed {
                return;
            }
            match (std::mem::take(&mut self.has_panicked), self.listener.options.on_panic) {
                (false, _) | (true, OnPanic::Skip) => self.listener.done(after, ends_initial_list),
                (true, OnPanic::Replay) => {
                    self.listener.replay(after, ends_initial_list);
                    tokio::select! {
                        () = self.listener.ended() => return,
                        () = sleep(REST) => {}
                    }
                }
                (true, OnPanic::Remove) => return,
            }
        }
    }

    async fn work_through(&mut self, work: Work<T>) {
        let is_initial = !*self.listener.synced.borrow();
        match work {
            Work::Events { events, with_reminders } => {
                for event in events.iter().filter(|event| with_reminders || !event.is_reminder()) {
                    self.tell(event).await;
                }
            }
            Work::All(snapshot) => {
                for object in &snapshot {
                    self.tell(&added(object, true)).await;
                }
            }
            Work::Reminders { before, after } => {
                for object in &after {
                    let is_same = |before: &Snapshot<T>| {
                        let old = before.get(object.namespace(), object.name());
                        old.is_some_and(|old| Arc::ptr_eq(old, object))
                    };
                    if before.as_ref().is_none_or(is_same) {
                        self.tell(&Event::Updated { old: object.clone(), new: object.clone() }).await;
                    }
                }
            }
            Work::Difference { from, to, all } => self.catch_up(&from, &to, all, is_initial).await,
        }
    }

    /// Tells what leads from one snapshot to the other: first what is gone.
    async fn catch_up(&mut self, from: &Snapshot<T>, to: &Snapshot<T>, all: bool, is_initial: bool) {
        let changes = from.changes(to);
        let is_another = |old: &Arc<T>, new: &Arc<T>| old.uid() != new.uid();
        for change in &changes {
            match change {
                Change::Removed(old) => self.tell(&gone(old)).await,
                Change::Updated { old, new } if is_another(old, new) => self.tell(&gone(old)).await,
                _ => {}
            }
        }
        for change in &changes {
            match change {
                Change::Added(new) => self.tell(&added(new, is_initial)).await,
                Change::Updated { old, new } if is_another(old, new) => self.tell(&added(new, is_initial)).await,
                Change::Updated { old, new } => {
                    self.tell(&Event::Updated { old: Arc::clone(old), new: Arc::clone(new) }).await;
                }
                Change::Removed(_) => {}
            }
        }
        if all {
            for object in to {
                let is_same = from.get(object.namespace(), object.name()).is_some_and(|old| Arc::ptr_eq(old, object));
                if is_same {
                    self.tell(&Event::Updated { old: object.clone(), new: object.clone() }).await;
                }
            }
        }
    }

    async fn tell(&mut self, event: &Event<T>) {
        if self.listener.has_ended() {
            self.has_missed = true;
            return;
        }
        if self.has_panicked && self.listener.options.on_panic != OnPanic::Skip {
            return;
        }
        let mut told = try_tell(&mut *self.handler, event);
        if told == Told::NotYet {
            told = tokio::select! {
                () = self.listener.ended() => {
                    self.has_missed = true;
                    return;
                }
                told = tell_when_ready(&mut *self.handler, event) => told,
            };
        }
        if told == Told::Panicked {
            self.listener.panicked();
            self.has_panicked = true;
        }
        // Lets others have their turn.
        consume_budget().await;
    }
}

fn added<T>(object: &Arc<T>, is_in_initial_list: bool) -> Event<T> {
    Event::Added { object: object.clone(), is_in_initial_list }
}

fn gone<T: Object>(object: &Arc<T>) -> Event<T> {
    Event::Deleted(Deleted::LastKnown { key: object.key(), object: Some(object.clone()) })
}
