//! Options of informers and handlers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::GroupVersionResource;
use kubewright_net::observation::{CacheScope, Observer};

use crate::informer::process::Recreated;
use crate::metrics::InformerMetrics;
use crate::reflector::ReflectorOptions;
use crate::store::Indexers;

/// Default buffer size of a handler, in events.
const BUFFER: usize = 8192;

/// Policy for a full buffer of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The later half of the queued events is dropped. After the rest, the handler receives what
    /// has changed since, each object once.
    #[default]
    Coalesce,
    /// The informer waits for the handler, and so do all other handlers.
    Block,
    /// Like `Coalesce`, followed by a resync of all other objects, as after a disconnection.
    Replay,
}

/// Policy for a panicking handler. Panics are counted and logged in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPanic {
    /// The handler continues with the next event.
    #[default]
    Skip,
    /// All objects are replayed to the handler, after a second.
    Replay,
    /// The handler is removed.
    Remove,
}

/// Options of a handler.
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
    /// Resyncs the handler once per `period`; zero means never. By default the period of the
    /// informer.
    #[must_use]
    #[doc(alias = "AddEventHandlerWithResyncPeriod")]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Approximate number of events to buffer; a batch is never split. 8192 by default.
    #[must_use]
    pub fn buffer(mut self, events: usize) -> Self {
        self.buffer = events.max(1);
        self
    }

    /// Policy for a full buffer. Events are coalesced by default.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Policy for a panic of the handler. The event is skipped by default.
    #[must_use]
    pub fn on_panic(mut self, policy: OnPanic) -> Self {
        self.on_panic = policy;
        self
    }
}

/// The kind of queue between reflector and store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueKind {
    /// [`RealFifo`](crate::RealFifo): every change in order; a list is one change.
    #[default]
    InOrder,
    /// [`DeltaFifo`](crate::DeltaFifo): changes grouped by object, as informers did before
    /// Kubernetes 1.33.
    DeltaFifo,
}

/// Options of an informer.
pub struct InformerOptions<T> {
    pub(crate) indexers: Indexers<T>,
    pub(crate) reflector: ReflectorOptions<T>,
    pub(crate) resync: Option<Duration>,
    pub(crate) queue: QueueKind,
    pub(crate) recreated: Recreated,
    pub(crate) metrics: Option<(InformerMetrics, String)>,
    pub(crate) resource: Option<GroupVersionResource>,
    pub(crate) observer: Option<(Arc<dyn Observer>, CacheScope)>,
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
            observer: None,
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

    /// Options of the reflector: transform, error handler, back-off, page size, name.
    #[must_use]
    pub fn reflector(mut self, options: ReflectorOptions<T>) -> Self {
        self.reflector = options;
        self
    }

    /// Resyncs handlers once per `period`, unless their options differ. Off by default.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// The kind of queue. In order by default.
    #[must_use]
    #[doc(alias = "InOrderInformers")]
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// How handlers see an object that was deleted and recreated while no watch was open.
    #[must_use]
    pub fn recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Exposes the informer in these metrics under this name until it is dropped. Off by default.
    #[must_use]
    #[doc(alias = "InformerName")]
    pub fn metrics(mut self, metrics: &InformerMetrics, name: impl Into<String>) -> Self {
        self.metrics = Some((metrics.clone(), name.into()));
        self
    }

    /// Reports changes of the cache, and reads of it by reconciles, to this observer. Off by
    /// default.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>, cache: CacheScope) -> Self {
        self.observer = Some((observer, cache));
        self
    }

    /// The resource, as a label of its metrics. Unknown by default; factories set it.
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
