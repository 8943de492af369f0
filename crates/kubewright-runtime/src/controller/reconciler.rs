//! Reconcilers: closures, closures with shared state, types, and reconcilers of keys.

use std::future::Future;
use std::sync::Arc;

use kubewright_core::Object;
use tokio_util::sync::CancellationToken;

use super::mapping::itself;
use super::relation::Watch;
use super::{Context, Controller, ControllerError, MainKind, Outcome, RunnableController, run};
use crate::error::BoxError;

/// Reconciles objects, with its fields as shared state.
///
/// ```
/// # use kubewright_api::core::v1::ConfigMap;
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_core::Object;
/// # use kubewright_runtime::Manager;
/// use kubewright_runtime::{BoxError, Context, Outcome, Reconciler};
/// use std::sync::Arc;
///
/// struct Greeter {
///     greeting: String,
/// }
///
/// impl Reconciler<ConfigMap> for Greeter {
///     async fn reconcile(&self, map: Arc<ConfigMap>, _context: Context) -> Result<Outcome, BoxError> {
///         println!("{} {}", self.greeting, map.name());
///         Ok(Outcome::Done)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let mut manager = Manager::new(&server.client(), Default::default());
/// let controller = manager.controller::<ConfigMap>("greeter");
/// manager.add(controller.reconciled_by(Greeter { greeting: "hello".to_owned() }))?;
/// # Ok(()) }
/// ```
#[doc(alias = "ObjectReconciler")]
pub trait Reconciler<T>: Send + Sync + 'static {
    /// Compares the desired and the observed state of `object`, and takes the next step.
    ///
    /// # Errors
    /// Any error. The key is retried with back-off, unless the error or the policy of the
    /// controller says otherwise.
    fn reconcile(&self, object: Arc<T>, context: Context) -> impl Future<Output = Result<Outcome, BoxError>> + Send;
}

impl<T: Object> Controller<T> {
    /// Calls `reconcile` for each object until `shutdown` is cancelled, and returns when running
    /// reconciles have ended.
    ///
    /// Deleted objects are not passed: use a finalizer for cleanup.
    ///
    /// # Errors
    /// If a required kind does not sync in time, or an informer has been stopped.
    pub async fn run<F, R>(self, reconcile: F, shutdown: &CancellationToken) -> Result<(), ControllerError>
    where
        F: Fn(Arc<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        self.reconciling(reconcile).run(shutdown).await
    }

    /// Sets the reconciler; the result can be run, alone or by a manager.
    #[doc(alias = "Complete")]
    pub fn reconciling<F, R>(self, reconcile: F) -> RunnableController
    where
        F: Fn(Arc<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let store = self.main.informer.store().clone();
        self.reconciling_keys(move |context: Context| {
            let run = store.get_by_key(context.key()).map(|object| reconcile(object, context));
            async move {
                match run {
                    Some(run) => run.await,
                    None => Ok(Outcome::Done),
                }
            }
        })
    }

    /// Like [`reconciling`](Self::reconciling), with state that all reconciles share. A closure
    /// then needs no clones before its `async move`.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_apiserver::ApiServer;
    /// # use kubewright_cache::SharedInformerFactory;
    /// # use kubewright_core::Object;
    /// # use kubewright_runtime::{Controller, Outcome};
    /// # use std::collections::HashSet;
    /// # use std::sync::Mutex;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::in_memory().start().await?;
    /// # let factory = SharedInformerFactory::new(&server.client(), Default::default());
    /// let controller = Controller::<ConfigMap>::new("names", &factory)
    ///     .reconciling_with(Mutex::new(HashSet::new()), |map, _context, seen| async move {
    ///         seen.lock().expect("no panic under the lock").insert(map.name().to_owned());
    ///         Ok(Outcome::Done)
    ///     });
    /// # drop(controller);
    /// # Ok(()) }
    /// ```
    pub fn reconciling_with<S, F, R>(self, state: S, reconcile: F) -> RunnableController
    where
        S: Send + Sync + 'static,
        F: Fn(Arc<T>, Context, Arc<S>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let state = Arc::new(state);
        self.reconciling(move |object, context| reconcile(object, context, state.clone()))
    }

    /// Like [`reconciling`](Self::reconciling), with a type whose fields are the shared state.
    pub fn reconciled_by(self, reconciler: impl Reconciler<T>) -> RunnableController {
        self.reconciling_with(reconciler, |object, context, reconciler| async move {
            reconciler.reconcile(object, context).await
        })
    }

    /// Like [`reconciling`](Self::reconciling), with a reconciler of keys, which is also called for
    /// deleted objects.
    ///
    /// In both cases an object that the cache could not decode or transform is not reconciled,
    /// because its cached state is stale. That counts as a failure, and is retried with back-off.
    pub fn reconciling_keys<F, R>(self, reconcile: F) -> RunnableController
    where
        F: Fn(Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let MainKind { resource, informer, filter, is_optional, .. } = self.main;
        let main =
            Watch { name: resource, informer, predicate: filter, mapping: itself(), priority: None, is_optional };
        self.settings.runnable(Some(main.into()), run::places(reconcile))
    }
}
