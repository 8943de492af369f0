//! What can be chosen about informers and their handlers.

use std::fmt;
use std::time::Duration;

use kubewright_core::GroupVersionResource;

use crate::informer::process::Recreated;
use crate::metrics::Metrics;
use crate::reflector::ReflectorOptions;
use crate::store::Indexers;

/// How many events wait for a handler before it counts as behind.
const BUFFER: usize = 8192;

/// What happens when more events wait for a handler than its buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The later half of what waits is let go, and when the handler is through with the rest it is told what has changed since, each
    /// object once.
    #[default]
    Coalesce,
    /// The informer waits for the handler, and with it all others do.
    Block,
    /// As with `Coalesce`, and then it is told of all other objects as well, as if it had been disconnected.
    Replay,
}

/// What happens when a handler panics. It is counted and logged in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPanic {
    /// It goes on with the next event.
    #[default]
    Skip,
    /// It is told of everything again, after a second.
    Replay,
    /// It is removed.
    Remove,
}

/// Choices about a handler.
#[derive(Debug, Clone)]
pub struct HandlerOptions {
    pub(super) resync: Option<Duration>,
    pub(super) buffer: usize,
    pub(super) overflow: Overflow,
    pub(super) on_panic: OnPanic,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        HandlerOptions { resync: None, buffer: BUFFER, overflow: Overflow::default(), on_panic: OnPanic::default() }
    }
}

impl HandlerOptions {
    /// Reminds the handler of all objects once each `period`, zero being never. By default as often as the informer says.
    #[must_use]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Lets about so many events wait; a batch that has begun to fit is taken whole. 8192 by default.
    #[must_use]
    pub fn buffer(mut self, events: usize) -> Self {
        self.buffer = events.max(1);
        self
    }

    /// What happens when more wait. They coalesce by default.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// What happens when the handler panics. The event is skipped by default.
    #[must_use]
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }
}

/// Which queue stands between reflector and store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueKind {
    /// [`RealFifo`](crate::RealFifo): every change in order, lists all at once.
    #[default]
    InOrder,
    /// [`DeltaFifo`](crate::DeltaFifo): the changes of each object together, as informers did before Kubernetes 1.33.
    DeltaFifo,
}

/// Choices about an informer.
pub struct InformerOptions<T> {
    pub(crate) indexers: Indexers<T>,
    pub(crate) reflector: ReflectorOptions<T>,
    pub(crate) resync: Option<Duration>,
    pub(crate) queue: QueueKind,
    pub(crate) recreated: Recreated,
    pub(crate) metrics: Option<(Metrics, String)>,
    pub(crate) resource: Option<GroupVersionResource>,
}

impl<T> Default for InformerOptions<T> {
    fn default() -> Self {
        InformerOptions {
            indexers: Indexers::new(),
            reflector: ReflectorOptions::default(),
            resync: None,
            queue: QueueKind::default(),
            recreated: Recreated::default(),
            metrics: None,
            resource: None,
        }
    }
}

impl<T> InformerOptions<T> {
    /// Indices of the store. None by default.
    #[must_use]
    pub fn indexers(mut self, indexers: Indexers<T>) -> Self {
        self.indexers = indexers;
        self
    }

    /// How the reflector works: transform, error handler, back-off, page size, name.
    #[must_use]
    pub fn reflector(mut self, options: ReflectorOptions<T>) -> Self {
        self.reflector = options;
        self
    }

    /// Reminds handlers of all objects once each `period`, unless they say otherwise. Off by default.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// Which queue is used. In order by default.
    #[must_use]
    #[doc(alias = "InOrderInformers")]
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// What handlers are told of objects that were deleted and created anew unseen.
    #[must_use]
    pub fn recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Shows the informer in these metrics, under this name, while it lives. Off by default.
    #[must_use]
    #[doc(alias = "InformerName")]
    pub fn metrics(mut self, metrics: &Metrics, name: impl Into<String>) -> Self {
        self.metrics = Some((metrics.clone(), name.into()));
        self
    }

    /// What resource it is about, for its metrics. Unknown by default; a factory knows.
    #[must_use]
    pub fn resource(mut self, resource: GroupVersionResource) -> Self {
        self.resource = Some(resource);
        self
    }
}

impl<T> fmt::Debug for InformerOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerOptions")
            .field("indexers", &self.indexers)
            .field("reflector", &self.reflector)
            .field("resync", &self.resync)
            .field("queue", &self.queue)
            .field("recreated", &self.recreated)
            .finish_non_exhaustive()
    }
}
