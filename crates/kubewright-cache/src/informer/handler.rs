//! Who is told of events: functions, channels, and handlers that look at some objects only.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use kubewright_core::{Object, ObjectKey};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::event::Event;
use crate::Deleted;
use crate::queue::BoxFuture;

/// Told of events one after the other.
///
/// A function is one, [`HandlerFuncs`] are, and so is the sender of a channel, whose receiver may take its time.
#[doc(alias = "ResourceEventHandler")]
pub trait EventHandler<T>: Send + 'static {
    /// Something happened. Should be quick: put a key into a work queue, and do the work there.
    fn on_event(&mut self, event: &Event<T>);

    /// Whether the next event can be taken now. True by default.
    fn is_ready(&self) -> bool {
        true
    }

    /// Resolves when the next event can be taken.
    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Takes an event if that is possible now; says whether it did. By default it does when it [is ready](Self::is_ready).
    ///
    /// For who shares with others the room that it is ready for: between the question and the event another may fill it.
    fn try_event(&mut self, event: &Event<T>) -> bool {
        let is_ready = self.is_ready();
        if is_ready {
            self.on_event(event);
        }
        is_ready
    }

    /// Takes an event as soon as that is possible; asked after [`try_event`](Self::try_event) did not. Where the future is
    /// dropped, the handler is to stop.
    fn event_when_ready<'a>(&'a mut self, event: &'a Event<T>) -> BoxFuture<'a, ()>
    where
        T: Send + Sync,
    {
        Box::pin(async move {
            self.ready().await;
            self.on_event(event);
        })
    }
}

impl<T, F: FnMut(&Event<T>) + Send + 'static> EventHandler<T> for F {
    fn on_event(&mut self, event: &Event<T>) {
        self(event);
    }

    // It is always ready: the future that others get would be compiled for each function.
    fn event_when_ready<'a>(&'a mut self, event: &'a Event<T>) -> BoxFuture<'a, ()>
    where
        T: Send + Sync,
    {
        Box::pin(async move { self(event) })
    }
}

impl<T: Send + Sync + 'static> EventHandler<T> for mpsc::Sender<Event<T>> {
    /// Lets the event go where there is no room for it; the others wait.
    fn on_event(&mut self, event: &Event<T>) {
        let _ = self.try_event(event);
    }

    fn is_ready(&self) -> bool {
        self.capacity() > 0
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.reserve().await) })
    }

    fn try_event(&mut self, event: &Event<T>) -> bool {
        match self.try_reserve() {
            Ok(permit) => permit.send(event.clone()),
            Err(TrySendError::Full(())) => return false,
            // The receiver is gone, who then misses nothing.
            Err(TrySendError::Closed(())) => {}
        }
        true
    }

    fn event_when_ready<'a>(&'a mut self, event: &'a Event<T>) -> BoxFuture<'a, ()> {
        Box::pin(async { drop(self.send(event.clone()).await) })
    }
}

type OnAdd<T> = Box<dyn FnMut(&Arc<T>, bool) + Send>;
type OnUpdate<T> = Box<dyn FnMut(&Arc<T>, &Arc<T>) + Send>;
type OnDelete<T> = Box<dyn FnMut(&Deleted<T>) + Send>;

/// A function for each kind of event; what has none is ignored.
///
/// ```
/// use kubewright_cache::HandlerFuncs;
/// use kubewright_core::{DynamicObject, Object};
/// let handler = HandlerFuncs::<DynamicObject>::default()
///     .on_add(|object, _| println!("{} came", object.name()))
///     .on_update(|_, new| println!("{} changed", new.name()))
///     .on_delete(|deleted| println!("{} went", deleted.key()));
/// # drop(handler);
/// ```
#[doc(alias = "ResourceEventHandlerFuncs")]
#[doc(alias = "ResourceEventHandlerDetailedFuncs")]
pub struct HandlerFuncs<T> {
    on_add: Option<OnAdd<T>>,
    on_update: Option<OnUpdate<T>>,
    on_delete: Option<OnDelete<T>>,
}

impl<T> Default for HandlerFuncs<T> {
    fn default() -> Self {
        HandlerFuncs { on_add: None, on_update: None, on_delete: None }
    }
}

impl<T> HandlerFuncs<T> {
    /// Called with objects that come, and whether they were there at the beginning.
    #[must_use]
    pub fn on_add(mut self, function: impl FnMut(&Arc<T>, bool) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(function));
        self
    }

    /// Called with the old and the new state of objects that change.
    #[must_use]
    pub fn on_update(mut self, function: impl FnMut(&Arc<T>, &Arc<T>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(function));
        self
    }

    /// Called with objects that go.
    #[must_use]
    pub fn on_delete(mut self, function: impl FnMut(&Deleted<T>) + Send + 'static) -> Self {
        self.on_delete = Some(Box::new(function));
        self
    }
}

impl<T: 'static> EventHandler<T> for HandlerFuncs<T> {
    fn on_event(&mut self, event: &Event<T>) {
        match event {
            Event::Added { object, is_in_initial_list } => {
                if let Some(function) = &mut self.on_add {
                    function(object, *is_in_initial_list);
                }
            }
            Event::Updated { old, new } => {
                if let Some(function) = &mut self.on_update {
                    function(old, new);
                }
            }
            Event::Deleted(deleted) => {
                if let Some(function) = &mut self.on_delete {
                    function(deleted);
                }
            }
        }
    }
}

impl<T> fmt::Debug for HandlerFuncs<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuncs").finish_non_exhaustive()
    }
}

/// Hands on events of objects that pass a filter.
///
/// An object that comes to pass is added, one that no longer passes is deleted. The deletion of an object of which nothing is
/// known is handed on, so that none is missed.
#[doc(alias = "FilteringResourceEventHandler")]
pub struct FilteringHandler<T, H> {
    passes: Box<dyn Fn(&T) -> bool + Send>,
    handler: H,
}

impl<T, H> FilteringHandler<T, H> {
    /// Hands on to `handler` what `passes`.
    pub fn new(passes: impl Fn(&T) -> bool + Send + 'static, handler: H) -> Self {
        FilteringHandler { passes: Box::new(passes), handler }
    }
}

impl<T: Object, H> FilteringHandler<T, H> {
    /// What an event means to who sees only what passes.
    fn passed<'a>(&self, event: &'a Event<T>) -> Option<Cow<'a, Event<T>>> {
        let passes = &self.passes;
        match event {
            Event::Updated { old, new } => match (passes(old), passes(new)) {
                (true, true) => Some(Cow::Borrowed(event)),
                (false, true) => Some(Cow::Owned(Event::Added { object: new.clone(), is_in_initial_list: false })),
                (true, false) => {
                    let left = Deleted::LastKnown { key: old.key(), object: Some(old.clone()) };
                    Some(Cow::Owned(Event::Deleted(left)))
                }
                (false, false) => None,
            },
            event => event.object().is_none_or(|object| passes(object)).then_some(Cow::Borrowed(event)),
        }
    }
}

impl<T: Object, H: EventHandler<T>> EventHandler<T> for FilteringHandler<T, H> {
    fn on_event(&mut self, event: &Event<T>) {
        if let Some(event) = self.passed(event) {
            self.handler.on_event(&event);
        }
    }

    fn is_ready(&self) -> bool {
        self.handler.is_ready()
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        self.handler.ready()
    }

    fn try_event(&mut self, event: &Event<T>) -> bool {
        self.passed(event).is_none_or(|event| self.handler.try_event(&event))
    }

    fn event_when_ready<'a>(&'a mut self, event: &'a Event<T>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(event) = self.passed(event) {
                self.handler.event_when_ready(&event).await;
            }
        })
    }
}

/// What came of telling a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Yes,
    /// It has no room now.
    NotYet,
    Panicked,
}

/// Tells a handler if it can take the event now.
pub(crate) fn try_tell<T: Object>(handler: &mut dyn EventHandler<T>, event: &Event<T>) -> Told {
    match catch_unwind(AssertUnwindSafe(|| handler.try_event(event))) {
        Ok(true) => Told::Yes,
        Ok(false) => Told::NotYet,
        Err(_) => panicked(&event.key()),
    }
}

/// Tells a handler as soon as it can take the event.
pub(crate) async fn tell_when_ready<T: Object>(handler: &mut dyn EventHandler<T>, event: &Event<T>) -> Told {
    // What panics when it is called does so when it is polled.
    let told = caught(pin!(async { handler.event_when_ready(event).await })).await;
    if told == Told::Panicked { panicked(&event.key()) } else { told }
}

/// What comes of a future, which may panic.
pub(crate) async fn caught(mut telling: Pin<&mut (dyn Future<Output = ()> + Send)>) -> Told {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| telling.as_mut().poll(context))) {
        Ok(poll) => poll.map(|()| Told::Yes),
        Err(_) => Poll::Ready(Told::Panicked),
    })
    .await
}

/// Tells of a panic.
pub(crate) fn panicked(key: &ObjectKey) -> Told {
    tracing::error!(%key, "a handler of events panicked");
    Told::Panicked
}

impl<T, H: fmt::Debug> fmt::Debug for FilteringHandler<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteringHandler").field("handler", &self.handler).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::DynamicObject;

    use super::*;

    #[tokio::test]
    async fn a_function_is_called_when_it_is_waited_for() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let mut function = move |event: &Event<DynamicObject>| told.send(event.key()).unwrap();
        let event = Event::Added { object: Arc::default(), is_in_initial_list: false };
        drop(function.event_when_ready(&event));
        assert!(heard.try_recv().is_err());
        function.event_when_ready(&event).await;
        assert!(heard.try_recv().is_ok());
    }
}
