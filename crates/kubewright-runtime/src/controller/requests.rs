//! Requests: what a controller reconciles if not objects.
//!
//! controller-runtime is generic over the request type, down to its queue. Here the queue, the
//! metrics, the health and the logs always know keys; a request type converts to a key and back. So
//! all parts are compiled once, and every option of a [`Controller`] works for requests.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use kubewright_cache::SharedInformerFactory;
use kubewright_core::{Object, ObjectKey, Str};

use super::settings::ControllerSettings;
use super::{Context, Controller, MainKind, Outcome, ReconcileError, RunnableController, run};
use crate::error::BoxError;

/// The input of a controller: the objects of a kind, or [`Requests`]. Only this crate implements
/// it.
pub trait Subject: sealed::Sealed {
    /// The items that watches and other sources name: keys of objects, or requests.
    type Key: Into<ObjectKey> + Send + 'static;
}

mod sealed {
    pub trait Sealed {
        /// The main kind, if there is one.
        type Main: Send;
    }
}

impl<T: Object> sealed::Sealed for T {
    type Main = MainKind<T>;
}

impl<T: Object> Subject for T {
    type Key = ObjectKey;
}

/// Requests of a type `R`, which a [`Controller`] reconciles instead of objects.
///
/// A request is queued as a key, so that equal requests are one. The conversion back must yield the
/// same request.
///
/// ```
/// # use kubewright_api::core::v1::Node;
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_core::{Object, ObjectKey};
/// # use kubewright_runtime::{BoxError, Context, Manager, Outcome};
/// /// All nodes of a zone, which have one load balancer.
/// struct Zone(String);
///
/// impl From<Zone> for ObjectKey {
///     fn from(zone: Zone) -> Self {
///         ObjectKey::cluster(zone.0)
///     }
/// }
///
/// impl From<ObjectKey> for Zone {
///     fn from(key: ObjectKey) -> Self {
///         Zone(key.name().to_string())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let mut manager = Manager::new(&server.client(), Default::default());
/// let zone_of = |node: &Node| node.labels().get("topology.kubernetes.io/zone").map(|zone| Zone(zone.to_owned()));
/// let zones = manager.request_controller::<Zone>("zones")
///     .watches::<Node>(move |node| zone_of(node).into_iter().collect())
///     .reconciling(|zone, _context: Context| async move {
///         println!("balance {}", zone.0);
///         Ok(Outcome::Done)
///     });
/// manager.add(zones)?;
/// # Ok(()) }
/// ```
pub struct Requests<R>(PhantomData<fn() -> R>);

impl<R> sealed::Sealed for Requests<R> {
    type Main = ();
}

impl<R: Into<ObjectKey> + Send + 'static> Subject for Requests<R> {
    type Key = R;
}

impl<R> Controller<Requests<R>>
where
    R: Into<ObjectKey> + TryFrom<ObjectKey, Error: Into<BoxError>> + Send + 'static,
{
    /// A controller of requests. They come from watches, streams and other sources.
    #[doc(alias = "TypedControllerManagedBy")]
    pub fn requests(name: impl Into<Str>, factory: &SharedInformerFactory) -> Self {
        Controller { settings: ControllerSettings::new(name.into(), factory.clone()), main: () }
    }

    /// Sets the reconciler; the result can be run, alone or by a manager.
    ///
    /// A key that is no request is a terminal error.
    #[doc(alias = "TypedReconciler")]
    pub fn reconciling<F, T>(self, reconcile: F) -> RunnableController
    where
        F: Fn(R, Context) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let places = run::places(move |context: Context| {
            let run = R::try_from(context.key().clone()).map(|request| reconcile(request, context)).map_err(Into::into);
            async move {
                match run {
                    Ok(run) => run.await,
                    Err(error) => Err(ReconcileError::terminal(error).into()),
                }
            }
        });
        self.settings.runnable(None, places)
    }

    /// Like [`reconciling`](Self::reconciling), with state that all reconciles share.
    pub fn reconciling_with<S, F, T>(self, state: S, reconcile: F) -> RunnableController
    where
        S: Send + Sync + 'static,
        F: Fn(R, Context, Arc<S>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Outcome, BoxError>> + Send + 'static,
    {
        let state = Arc::new(state);
        self.reconciling(move |request, context| reconcile(request, context, state.clone()))
    }
}

impl<R> fmt::Debug for Requests<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requests")
    }
}
