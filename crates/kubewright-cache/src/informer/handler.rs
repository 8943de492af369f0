//! Who is told of events: functions, channels, and handlers that look at some objects only.

use std::fmt;
use std::sync::Arc;

use kubewright_core::Object;
use tokio::sync::mpsc;

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
}

impl<T, F: FnMut(&Event<T>) + Send + 'static> EventHandler<T> for F {
    fn on_event(&mut self, event: &Event<T>) {
        self(event);
    }
}

impl<T: Send + Sync + 'static> EventHandler<T> for mpsc::Sender<Event<T>> {
    fn on_event(&mut self, event: &Event<T>) {
        // Fails only if the receiver is gone, who then misses nothing.
        let _ = self.try_send(event.clone());
    }

    fn is_ready(&self) -> bool {
        self.capacity() > 0
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.reserve().await) })
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

impl<T: Object, H: EventHandler<T>> EventHandler<T> for FilteringHandler<T, H> {
    fn on_event(&mut self, event: &Event<T>) {
        let passes = &self.passes;
        match event {
            Event::Updated { old, new } => match (passes(old), passes(new)) {
                (true, true) => self.handler.on_event(event),
                (false, true) => {
                    self.handler.on_event(&Event::Added { object: new.clone(), is_in_initial_list: false });
                }
                (true, false) => {
                    let left = Deleted::LastKnown { key: old.key(), object: Some(old.clone()) };
                    self.handler.on_event(&Event::Deleted(left));
                }
                (false, false) => {}
            },
            event if event.object().is_none_or(|object| passes(object)) => self.handler.on_event(event),
            _ => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.handler.is_ready()
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        self.handler.ready()
    }
}

impl<T, H: fmt::Debug> fmt::Debug for FilteringHandler<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilteringHandler").field("handler", &self.handler).finish_non_exhaustive()
    }
}
