//! Keeps a store in step with the server: reads all objects, then follows changes.
//!
//! ```text
//! run ─> round (rounds.rs): stream (watch.rs) or list (list.rs) ─> watch (watch.rs) ─> back off ─> round …
//!                             └── Intake (intake.rs): server ─> object ─> store (typed.rs) ──┘
//! ```
//! A round begins with all objects, by a watch that sends them first or, where the server cannot, by a list. Each
//! object that the store has already is taken from there, so that old and new are never both in memory, and is not transformed
//! again. A watch that merely ends is resumed from the last version; only when that is forgotten does another round begin.
//!
//! None of this is about the type of objects, and a program that reflects thirty kinds should not have it thirty times. So the
//! control flow is compiled once, in this crate: [`Reflector`] is a thin door to `Shared`, which knows no type and hears through
//! the trait objects of `intake.rs` what has come. What is to be done with an object is done behind them, in `typed.rs`, by the
//! same call that takes it from the server: one virtual call for each object, no allocation, and no object in what it returns.
//! Only the control flow is asynchronous, and it is in a box: the body of an `async fn` is compiled by whoever polls it.

mod backoff;
mod error;
mod gathering;
mod health;
mod intake;
mod list;
mod marks;
mod options;
mod rounds;
mod typed;
mod verify;
mod watch;

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use kubewright_core::{Object, ResourceVersion};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use error::ReflectorError;
pub use health::{Health, HealthState};
pub use marks::UndecodableObjects;
pub use options::{ErrorHandler, ReflectorOptions};

use crate::lister_watcher::ListerWatcher;
use crate::queue::ReflectorStore;
use backoff::Failure;
use rounds::Shared;
use typed::Typed;

/// Keeps a store, or the queue before one, in step with the server. A handle: clones share one reflector.
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
    shared: Arc<Shared>,
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
        let ReflectorOptions { mut choices, transform } = options;
        let expected_kind = choices.expected_kind.take();
        let typed = Typed { lister_watcher, store, transform, expected_kind, marks: Mutex::default() };
        Reflector { shared: Shared::new(Box::new(typed), choices), objects: PhantomData }
    }

    /// Keeps the store in step until `stop` is cancelled.
    ///
    /// Nothing that goes wrong ends it. Cancel safe, in that the store is whole at any moment.
    pub async fn run(&self, stop: &CancellationToken) {
        self.shared.run(stop).await;
    }

    /// Does one round: lists all objects, then watches until only another list helps. Returns why,
    /// or `None` if `stop` was cancelled.
    ///
    /// For those who decide themselves when to try again. The error that is returned is not passed
    /// to the error handler; those that the round survives are. Cancel safe, in that the store is
    /// whole at any moment.
    #[doc(alias = "ListAndWatch")]
    pub async fn list_and_watch(&self, stop: &CancellationToken) -> Option<ReflectorError> {
        self.shared.list_and_watch(stop).await
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        self.shared.health()
    }

    /// The version it has seen last; empty before the first list.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.shared.version()
    }

    /// Whether the server says that there is no such resource, so that the store may have objects
    /// that do not exist any more.
    pub fn is_absent(&self) -> bool {
        self.shared.progress().health.state == HealthState::Absent
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.shared.progress().health.is_healthy()
    }

    /// Waits for as long as failures of the program itself have gone on.
    pub(crate) fn back_off(&self) -> Sleep {
        self.shared.back_off(Failure::Refused, None)
    }
}

impl<T> fmt::Debug for Reflector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
