//! Event handlers: functions, channels and filters.

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

/// Receives events one at a time.
///
/// Implemented for functions, for [`HandlerFuncs`], and for the sender of a bounded channel, which
/// applies backpressure.
#[doc(alias = "ResourceEventHandler")]
pub trait EventHandler<T>: Send + 'static {
    /// Handles an event. Should be quick: add a key to a work queue, and do the work there.
    fn on_event(&mut self, event: &Event<T>);

    /// Whether the next event can be accepted now. True by default.
    fn is_ready(&self) -> bool {
        true
    }

    /// Resolves when the next event can be accepted.
    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Handles an event if possible now, and returns whether it did. By default it does when it [is
    /// ready](Self::is_ready).
    ///
    /// Handlers that share capacity with others override this: another handler may fill it between
    /// `is_ready` and the event.
    fn try_event(&mut self, event: &Event<T>) -> bool {
        let is_ready = self.is_ready();
        if is_ready {
            self.on_event(event);
        }
        is_ready
    }

    /// Handles an event as soon as possible; called after [`try_event`](Self::try_event) returned
    /// false. The future is dropped if the handler is removed.
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

    // A function is always ready. The default implementation would be compiled for each function
    // type.
    fn event_when_ready<'a>(&'a mut self, event: &'a Event<T>) -> BoxFuture<'a, ()>
    where
        T: Send + Sync,
    {
        Box::pin(async move { self(event) })
    }
}

impl<T: Send + Sync + 'static> EventHandler<T> for mpsc::Sender<Event<T>> {
    /// Drops the event if the channel is full; the other methods wait.
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
            // The receiver was dropped, so no event can be missed.
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

/// A function per kind of event; kinds without a function are ignored.
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
    /// Called with new objects, and whether they belong to the initial list.
    #[must_use]
    pub fn on_add(mut self, function: impl FnMut(&Arc<T>, bool) + Send + 'static) -> Self {
        self.on_add = Some(Box::new(function));
        self
    }

    /// Called with the old and the new state of changed objects.
    #[must_use]
    pub fn on_update(mut self, function: impl FnMut(&Arc<T>, &Arc<T>) + Send + 'static) -> Self {
        self.on_update = Some(Box::new(function));
        self
    }

    /// Called with deleted objects.
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

/// Forwards events of objects that pass a filter.
///
/// An object that starts to pass is reported as added, one that stops passing as deleted. A
/// tombstone without a state is forwarded, so that no deletion is missed.
#[doc(alias = "FilteringResourceEventHandler")]
pub struct FilteringHandler<T, H> {
    passes: Box<dyn Fn(&T) -> bool + Send>,
    handler: H,
}

impl<T, H> FilteringHandler<T, H> {
    /// Forwards events to `handler` for objects that satisfy `passes`.
    pub fn new(passes: impl Fn(&T) -> bool + Send + 'static, handler: H) -> Self {
        FilteringHandler { passes: Box::new(passes), handler }
    }
}

impl<T: Object, H> FilteringHandler<T, H> {
    /// Translates an event for a handler that sees only passing objects.
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

/// The result of delivering an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Delivered,
    /// The handler has no capacity now.
    Full,
    Panicked,
}

/// Delivers the event if the handler can accept it now.
pub(crate) fn try_deliver<T: Object>(handler: &mut dyn EventHandler<T>, event: &Event<T>) -> DeliveryOutcome {
    match catch_unwind(AssertUnwindSafe(|| handler.try_event(event))) {
        Ok(true) => DeliveryOutcome::Delivered,
        Ok(false) => DeliveryOutcome::Full,
        Err(_) => panicked(&event.key()),
    }
}

/// Delivers the event as soon as the handler can accept it.
pub(crate) async fn deliver_when_ready<T: Object>(
    handler: &mut dyn EventHandler<T>,
    event: &Event<T>,
) -> DeliveryOutcome {
    // The inner `async` block turns a panic of the call itself into a panic of `poll`.
    let outcome = caught(pin!(async { handler.event_when_ready(event).await })).await;
    if outcome == DeliveryOutcome::Panicked { panicked(&event.key()) } else { outcome }
}

/// Polls a future and catches its panics.
pub(crate) async fn caught(mut dispatching: Pin<&mut (dyn Future<Output = ()> + Send)>) -> DeliveryOutcome {
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| dispatching.as_mut().poll(context))) {
        Ok(poll) => poll.map(|()| DeliveryOutcome::Delivered),
        Err(_) => Poll::Ready(DeliveryOutcome::Panicked),
    })
    .await
}

/// Logs a panic.
pub(crate) fn panicked(key: &ObjectKey) -> DeliveryOutcome {
    tracing::error!(%key, "event handler panicked");
    DeliveryOutcome::Panicked
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
        let (outcome, mut heard) = mpsc::unbounded_channel();
        let mut function = move |event: &Event<DynamicObject>| outcome.send(event.key()).unwrap();
        let event = Event::Added { object: Arc::default(), is_in_initial_list: false };
        drop(function.event_when_ready(&event));
        assert!(heard.try_recv().is_err());
        function.event_when_ready(&event).await;
        assert!(heard.try_recv().is_ok());
    }
}
