//! A factory of shared informers.
//!
//! There is one informer per type, resource, client, scope, selector and transform. It lives as
//! long as it is in use.

mod entry;
mod generated;
mod handle;
mod options;

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_client::{Api, Client, Scope};
use kubewright_core::meta::v1::PartialObjectMetadata;
use kubewright_core::{DynamicObject, GroupVersionResource, Kind, NamespaceScope, Object, ResourceVersion, Str};
use kubewright_net::observation::CacheScope;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

// Empty unless the feature of at least one API group is enabled.
#[allow(unused_imports)]
pub use generated::*;
pub use handle::InformerHandle;
pub use options::{FactoryOptions, InformerScope};

use crate::informer::SharedIndexInformer;
use crate::list_watch::ListWatch;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::Health;
use crate::task::Tasks;
use entry::{AnyInformer, FactoryState, InformerRequest, Make};

/// Creates informers, starts them, and waits for their caches to sync. A handle: clones share one
/// factory.
///
/// ```
/// # use kubewright_cache::SharedInformerFactory;
/// # use kubewright_client::Client;
/// # use kubewright_core::Kind;
/// # async fn example<Pod: Kind>(client: &Client, stop: tokio_util::sync::CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = SharedInformerFactory::new(client, Default::default());
/// let pods = factory.informer::<Pod>().lister();
/// factory.start(&stop);
/// factory.wait_for_cache_sync().await?;
/// println!("{} pods", pods.snapshot().len());
/// factory.shutdown().await;
/// # Ok(()) }
/// ```
#[doc(alias = "NewSharedInformerFactory")]
#[doc(alias = "DynamicSharedInformerFactory")]
#[derive(Clone)]
pub struct SharedInformerFactory {
    shared: Arc<SharedFactory>,
}

struct SharedFactory {
    client: Client,
    options: FactoryOptions,
    state: Mutex<FactoryState>,
    /// Cancelled to stop all informers.
    stop: CancellationToken,
    tasks: Tasks,
}

/// Some caches have not synced.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not synced: {}", .missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NotSynced {
    /// The caches, with the reasons.
    pub missing: Vec<Unsynced>,
}

/// A cache that has not synced.
#[derive(Debug, Clone)]
pub struct Unsynced {
    /// Resource and scope, such as `pods` or `deployments.apps in default`; includes the type if
    /// the name is ambiguous.
    pub name: String,
    /// The health of its reflector; `None` if the informer has not been started.
    pub health: Option<Health>,
}

/// The status of an informer in use.
#[derive(Debug, Clone)]
pub struct InformerState {
    /// Resource and scope, such as `pods` or `deployments.apps in default`; includes the type if
    /// the name is ambiguous.
    pub name: String,
    /// Whether its cache has synced.
    pub has_synced: bool,
    /// Number of objects in its cache.
    pub objects: usize,
    /// The version of its cache. Empty before the first list.
    pub resource_version: ResourceVersion,
    /// Number of objects with deltas that wait in the DeltaFIFO.
    pub queued: usize,
    /// Number of events that wait for the slowest handler.
    pub handler_lag: usize,
    /// Number of batches of changes that were applied to the cache.
    pub batches: u64,
    /// The health of its reflector; `None` if the informer has not been started.
    pub health: Option<Health>,
}

impl InformerState {
    fn of(name: String, informer: &dyn AnyInformer) -> Self {
        let sample = informer.observe();
        InformerState {
            name,
            has_synced: informer.has_synced(),
            objects: sample.objects as usize,
            resource_version: sample.version,
            queued: sample.queued as usize,
            handler_lag: sample.lag as usize,
            batches: sample.latency.count(),
            health: informer.health(),
        }
    }
}

impl fmt::Display for Unsynced {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let Some(health) = &self.health else { return f.write_str(" (not started)") };
        write!(f, " ({:?}", health.state)?;
        if let Some((error, _)) = &health.last_error {
            let mut cause: Option<&dyn std::error::Error> = Some(&**error);
            while let Some(error) = cause {
                write!(f, ": {error}")?;
                cause = error.source();
            }
        }
        f.write_str(")")
    }
}

impl SharedInformerFactory {
    /// A factory without informers.
    pub fn new(client: &Client, options: FactoryOptions) -> Self {
        SharedInformerFactory {
            shared: Arc::new(SharedFactory {
                client: client.clone(),
                options,
                state: Mutex::default(),
                stop: CancellationToken::new(),
                tasks: Tasks::default(),
            }),
        }
    }

    /// The client of the informers.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The informer of a type. Repeated calls return the same informer.
    #[doc(alias = "InformerFor")]
    #[doc(alias = "ForResource")]
    pub fn informer<T: Kind>(&self) -> InformerHandle<T> {
        self.informer_with(InformerScope::default())
    }

    /// The informer of a type with the scope of `which`.
    pub fn informer_with<T: Kind>(&self, mut which: InformerScope<T>) -> InformerHandle<T> {
        if !T::RESOURCE.namespaced {
            // Cluster-scoped objects have no namespace, so the factory's namespaces do not apply.
            which = which.cluster_wide();
        }
        self.of_api(Api::<T>::all(&self.shared.client), which)
    }

    /// The informer of a resource that is only known at run time.
    #[doc(alias = "NewDynamicSharedInformerFactory")]
    #[inline] // Compiled where it is called, as those by name.
    pub fn dynamic(
        &self,
        resource: GroupVersionResource,
        which: InformerScope<DynamicObject>,
    ) -> InformerHandle<DynamicObject> {
        self.of_api(Api::new(&self.shared.client, resource, Scope::Cluster), which)
    }

    /// The informer of a resource whose objects are decoded as the type of `api`: a partial type
    /// with few fields, or [`Compact`](crate::Compact).
    ///
    /// The namespace is that of `which`, else that of `api`, else that of the factory. An `api` of
    /// another cluster, or of another impersonated user, has an informer of its own.
    pub fn of_api<T: Object>(&self, api: Api<T>, mut which: InformerScope<T>) -> InformerHandle<T> {
        let resource = api.resource().clone();
        if let Scope::Namespace(namespace) = api.scope() {
            which.scope.default_namespace(namespace);
        }
        self.get_or_make(api.client(), resource, false, which, |namespace| {
            // A cluster-wide `api` is used as it is; a namespaced `api` is widened to all
            // namespaces.
            let is_as_asked = namespace == NamespaceScope::All && !matches!(api.scope(), Scope::Namespace(_));
            ListWatch::new(if is_as_asked { api.clone() } else { api.clone().with_scope(namespace.into()) })
        })
    }

    /// The informer of the metadata of a resource.
    #[doc(alias = "NewSharedInformerFactory")]
    #[inline]
    pub fn metadata(
        &self,
        resource: GroupVersionResource,
        which: InformerScope<PartialObjectMetadata>,
    ) -> InformerHandle<PartialObjectMetadata> {
        let api = self.shared.client.metadata(resource.clone());
        self.get_or_make(api.client(), resource, true, which, |namespace| {
            let api = api.clone();
            ListWatch::of_metadata(if namespace == NamespaceScope::All { api } else { api.namespace(namespace) })
        })
    }

    fn get_or_make<T: Object>(
        &self,
        client: &Client,
        resource: GroupVersionResource,
        is_metadata: bool,
        which: InformerScope<T>,
        list_watch: impl Fn(NamespaceScope) -> ListWatch<T>,
    ) -> InformerHandle<T> {
        let InformerScope { scope, transform, wrapper: wrap } = which;
        let (objects, type_name) = (TypeId::of::<T>(), std::any::type_name::<T>());
        let options = &self.shared.options;
        let make: Make<'_> = Box::new(|wanted| {
            let list_watch = |namespace: NamespaceScope| {
                let list_watch = list_watch(namespace).labels(wanted.labels.clone()).fields(wanted.fields.clone());
                match options.reflector.common.response_timeout {
                    Some(limit) => list_watch.answer_timeout(limit),
                    None => list_watch,
                }
            };
            let one = |namespace: NamespaceScope| Box::new(list_watch(namespace)) as Box<dyn ListerWatcher<T>>;
            let sources = match (wanted.namespaces.as_slice(), wrap) {
                (several @ [_, _, ..], _) => several.iter().map(|each| (each.clone(), one(each.into()))).collect(),
                (one_or_all, wrap) => {
                    let namespace = one_or_all.first().map_or(NamespaceScope::All, NamespaceScope::from);
                    let source = match wrap {
                        Some(wrap) => wrap(list_watch(namespace)),
                        None => one(namespace),
                    };
                    vec![(Str::new(), source)]
                }
            };
            let scope = options.observer.is_some().then(|| CacheScope {
                resource: wanted.resource.clone(),
                namespaces: wanted.namespaces.clone(),
                labels: wanted.labels.to_string(),
                fields: wanted.fields.to_string(),
                is_metadata,
            });
            let mut of_informer = options.for_informer(&wanted.name, wanted.resource, transform);
            if let Some((observer, scope)) = options.observer.as_ref().zip(scope) {
                of_informer = of_informer.observer(observer.clone(), scope);
            }
            Arc::new(SharedIndexInformer::over(sources, of_informer))
        });
        let request = InformerRequest { objects, client: client.clone(), type_name, resource, is_metadata, scope };
        let (informer, lease) = self.shared.get_or_make(request, make);
        let informer = informer.as_any().downcast_ref::<SharedIndexInformer<T>>();
        InformerHandle::new(informer.expect("the key has the type").clone(), lease)
    }

    /// Starts all informers that have not been started. They stop when `stop` is cancelled or when
    /// they are no longer in use.
    ///
    /// Call it again after requesting more informers. Does nothing after
    /// [`shutdown`](Self::shutdown).
    pub fn start(&self, stop: &CancellationToken) {
        let mut state = self.shared.state();
        if state.is_shut_down {
            return;
        }
        state.entry_of.retain(|_, entry| entry.lease.strong_count() > 0);
        for entry in state.entry_of.values_mut().filter(|entry| !entry.is_started) {
            entry.is_started = true;
            let (informer, own, stop) = (entry.informer.clone(), entry.stop.clone(), stop.clone());
            let work = Box::pin(async move {
                let both = own.child_token();
                let waits = async {
                    stop.cancelled().await;
                    both.cancel();
                    std::future::pending().await
                };
                tokio::select! {
                    () = informer.run(&both) => {}
                    () = waits => {}
                }
            });
            self.shared.tasks.spawn(work);
        }
    }

    /// Waits until all informers that have been started and are in use have synced.
    ///
    /// Also waits for informers that cannot list, because of missing permissions or because the
    /// resource does not exist:
    /// [`unsynced`](Self::unsynced) reports them with the reason.
    ///
    /// # Errors
    /// If informers stopped before they had synced.
    #[doc(alias = "WaitForNamedCacheSync")]
    pub async fn wait_for_cache_sync(&self) -> Result<(), NotSynced> {
        let started: Vec<Arc<dyn AnyInformer>> = {
            let state = self.shared.state();
            let started = state.entry_of.values().filter(|entry| entry.is_started && entry.lease.strong_count() > 0);
            started.map(|entry| entry.informer.clone()).collect()
        };
        let mut all = true;
        for informer in started {
            all &= informer.synced().await;
        }
        match self.unsynced() {
            missing if !all && !missing.is_empty() => Err(NotSynced { missing }),
            _ => Ok(()),
        }
    }

    /// Like [`wait_for_cache_sync`](Self::wait_for_cache_sync), with a timeout.
    ///
    /// # Errors
    /// If informers have not synced within `time_limit`; the error names them with the reasons.
    pub async fn wait_for_cache_sync_within(&self, time_limit: Duration) -> Result<(), NotSynced> {
        match timeout(time_limit, self.wait_for_cache_sync()).await {
            Ok(result) => result,
            Err(_) => match self.unsynced() {
                missing if missing.is_empty() => Ok(()),
                missing => Err(NotSynced { missing }),
            },
        }
    }

    /// The informers in use that have not synced, with the reasons.
    #[inline]
    pub fn unsynced(&self) -> Vec<Unsynced> {
        let state = self.shared.state();
        let unsynced = state
            .entry_of
            .values()
            .filter(|entry| entry.lease.strong_count() > 0 && !entry.informer.has_synced())
            .map(|entry| Unsynced { name: entry.name.clone(), health: entry.informer.health() });
        let mut unsynced: Vec<Unsynced> = unsynced.collect();
        unsynced.sort_by(|one, two| one.name.cmp(&two.name));
        unsynced
    }

    /// The status of all informers in use, by name.
    #[inline]
    pub fn informers(&self) -> Vec<InformerState> {
        // Observed without the lock: the lag of a slow handler needs a comparison of snapshots.
        let mut in_use: Vec<(String, Arc<dyn AnyInformer>)> = self
            .shared
            .state()
            .entry_of
            .values()
            .filter(|entry| entry.lease.strong_count() > 0)
            .map(|entry| (entry.name.clone(), entry.informer.clone()))
            .collect();
        in_use.sort_by(|(one, _), (two, _)| one.cmp(two));
        in_use.into_iter().map(|(name, informer)| InformerState::of(name, &*informer)).collect()
    }

    /// Stops all informers and waits for their tasks. No informer can be started afterwards.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) {
        self.shared.state().is_shut_down = true;
        self.shared.stop.cancel();
        self.shared.tasks.ended().await;
    }
}

impl SharedFactory {
    fn state(&self) -> MutexGuard<'_, FactoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedFactory {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl fmt::Debug for SharedInformerFactory {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.shared.state().entry_of.values().map(|entry| entry.name.clone()).collect();
        f.debug_struct("SharedInformerFactory").field("informers", &names).finish()
    }
}
