//! Synchronises a store with the server: lists all objects, then watches changes.
//!
//! ```text
//! run ─> round (retry_loop.rs): stream (watch.rs) or list (list.rs) ─> watch (watch.rs) ─> round …
//!                               └─ Intake (intake.rs): server ─> object ─> store (typed.rs) ─┘
//! ```
//! A round starts with all objects, from a streaming list or, if the server does not support it,
//! from a plain list. An object that the store already has at the same version is reused, so it is
//! neither held twice nor transformed again. A watch that ends is resumed from the last version;
//! another round starts only when that version has expired.
//!
//! The control flow does not depend on the object type, so it is compiled once, in this crate, and
//! not once per type. [`Reflector`] is a thin typed wrapper around `ReflectorLoop`, which reads
//! streams through the trait objects of `intake.rs`. Objects are processed behind those traits, in
//! `typed.rs`: one virtual call per object, without an allocation. Only the control flow is
//! asynchronous, and its futures are boxed, because an `async fn` is compiled in the crate that
//! polls it.

mod backoff;
mod error;
mod health;
mod intake;
mod list;
mod list_buffer;
mod marks;
mod options;
mod retry_loop;
mod typed;
mod verify;
mod watch;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use kubewright_core::{Object, ResourceVersion};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

pub use backoff::ReflectorBackoff;
pub use error::ReflectorError;
pub use health::{Health, HealthState};
pub use marks::UndecodableObjects;
pub use options::{ErrorHandler, ReflectorOptions};

use crate::lister_watcher::ListerWatcher;
use crate::queue::ReflectorStore;
use backoff::FailureKind;
use retry_loop::ReflectorLoop;
use typed::TypedPipeline;

/// Synchronises a store, or the queue in front of one, with the server. A handle: clones share one
/// reflector.
///
/// ```
/// use std::sync::Arc;
/// use kubewright_cache::{ListerWatcher, Reflector, ReflectorOptions, Store};
/// # use kubewright_core::DynamicObject;
/// # async fn example(foos: impl ListerWatcher<DynamicObject>, stop: tokio_util::sync::CancellationToken) {
/// let store = Store::<DynamicObject>::default();
/// let reflector = Reflector::new(foos, store.clone(), ReflectorOptions::default());
/// reflector.run(&stop).await;
/// # }
/// ```
pub struct Reflector<T> {
    shared: Arc<ReflectorLoop>,
    objects: PhantomData<fn() -> T>,
}

impl<T> Clone for Reflector<T> {
    fn clone(&self) -> Self {
        Reflector { shared: self.shared.clone(), objects: PhantomData }
    }
}

impl<T: Object> Reflector<T> {
    /// A reflector that has not been started.
    #[doc(alias = "NewReflector")]
    pub fn new(
        lister_watcher: impl ListerWatcher<T>,
        store: impl ReflectorStore<T>,
        options: ReflectorOptions<T>,
    ) -> Self {
        Self::over(Box::new(lister_watcher), Arc::new(store), options)
    }

    pub(crate) fn over(
        lister_watcher: Box<dyn ListerWatcher<T>>,
        store: Arc<dyn ReflectorStore<T>>,
        options: ReflectorOptions<T>,
    ) -> Self {
        let ReflectorOptions { mut common, transform } = options;
        let expected_kind = common.expected_kind.take();
        let typed = TypedPipeline { lister_watcher, store, transform, expected_kind, marks: Mutex::default() };
        Reflector { shared: ReflectorLoop::new(Box::new(typed), common), objects: PhantomData }
    }

    /// Synchronises the store until `stop` is cancelled.
    ///
    /// No error ends it. Cancel safe: the store is consistent at any moment.
    pub async fn run(&self, stop: &CancellationToken) {
        self.shared.run(stop).await;
    }

    /// Runs one round: lists all objects, then watches until another list is needed. Returns the
    /// reason, or `None` if `stop` was cancelled.
    ///
    /// For callers with their own retry policy. The returned error is not passed to the error
    /// handler; errors that the round survives are. Cancel safe: the store is consistent at any
    /// moment.
    #[doc(alias = "ListAndWatch")]
    pub async fn list_and_watch(&self, stop: &CancellationToken) -> Option<ReflectorError> {
        self.shared.list_and_watch(stop).await
    }

    /// Its current health.
    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// The version it saw last; empty before the first list.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.shared.version()
    }

    /// Whether the server reports that the resource does not exist, so that the store may hold
    /// objects that no longer exist.
    pub fn is_absent(&self) -> bool {
        self.shared.progress().health.state == HealthState::Absent
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.shared.progress().health.is_healthy()
    }

    /// Waits for the back-off after failures of the program itself.
    pub(crate) fn back_off(&self) -> Sleep {
        self.shared.back_off(FailureKind::Refused, None)
    }
}

impl<T> fmt::Debug for Reflector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
