//! Informers that are shared by all who ask for the same objects.
//!
//! An informer exists once for each type, resource, scope, selector and transform, and as long as somebody uses it.

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
use kubewright_core::{DynamicObject, GroupVersionResource, Kind, Object, Str};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

// Without the feature of any group there is nothing.
#[allow(unused_imports)]
pub use generated::*;
pub use handle::InformerHandle;
pub use options::{FactoryOptions, Scoped};

use crate::informer::SharedIndexInformer;
use crate::list_watch::ListWatch;
use crate::lister_watcher::ListerWatcher;
use crate::reflector::Health;
use crate::task::Tasks;
use entry::{AnyInformer, Asked, Make, State};

/// Makes informers, starts them, and waits for them. A handle: clones share one factory.
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
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    options: FactoryOptions,
    state: Mutex<State>,
    /// Cancelled when all informers are to stop.
    stop: CancellationToken,
    tasks: Tasks,
}

/// Some caches are not complete.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not synced: {}", .missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NotSynced {
    /// Which, and why.
    pub missing: Vec<Unsynced>,
}

/// A cache that is not complete.
#[derive(Debug, Clone)]
pub struct Unsynced {
    /// The resource and where it is looked at, as `pods`, or `deployments.apps in default`; with its type if another has that name.
    pub name: String,
    /// How its reflector is doing; absent if the informer has not been started.
    pub health: Option<Health>,
}

/// An informer in use, seen from outside.
#[derive(Debug, Clone)]
pub struct InformerState {
    /// The resource and where it is looked at, as `pods`, or `deployments.apps in default`; with its type if another has that name.
    pub name: String,
    /// Whether its cache is complete.
    pub has_synced: bool,
    /// How many objects its cache has.
    pub objects: usize,
    /// How its reflector is doing; absent if the informer has not been started.
    pub health: Option<Health>,
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
            shared: Arc::new(Shared {
                client: client.clone(),
                options,
                state: Mutex::default(),
                stop: CancellationToken::new(),
                tasks: Tasks::default(),
            }),
        }
    }

    /// The client that the informers ask through.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The informer of a type, the same one however often asked.
    #[doc(alias = "InformerFor")]
    #[doc(alias = "ForResource")]
    pub fn informer<T: Kind>(&self) -> InformerHandle<T> {
        self.informer_with(Scoped::default())
    }

    /// The informer of a type and of the objects that `which` says.
    pub fn informer_with<T: Kind>(&self, mut which: Scoped<T>) -> InformerHandle<T> {
        if !T::RESOURCE.namespaced {
            // Objects of the cluster are in no namespace, whatever that of the factory is.
            which.which.namespaces = Some(Vec::new());
        }
        self.of_api(Api::<T>::all(&self.shared.client), which)
    }

    /// The informer of a resource that is given at run time.
    #[doc(alias = "NewDynamicSharedInformerFactory")]
    #[inline] // Compiled where it is asked for, as those by name.
    pub fn dynamic(
        &self,
        resource: GroupVersionResource,
        which: Scoped<DynamicObject>,
    ) -> InformerHandle<DynamicObject> {
        self.of_api(Api::new(&self.shared.client, resource, Scope::Cluster), which)
    }

    /// The informer of a resource, its objects decoded as the type of `api`: a user's own with few fields, or
    /// [`Compact`](crate::Compact).
    ///
    /// Of the namespace that `which` says, else that of `api`, else that of the factory.
    pub fn of_api<T: Object>(&self, api: Api<T>, mut which: Scoped<T>) -> InformerHandle<T> {
        let resource = api.resource().clone();
        if let Scope::Namespace(namespace) = api.scope() {
            which.which.default_namespace(namespace);
        }
        self.get_or_make(resource, false, which, |namespace| {
            // An `api` of the cluster stays as it is, and one of a namespace becomes that of all.
            let is_as_asked = namespace.is_empty() && !matches!(api.scope(), Scope::Namespace(_));
            ListWatch::new(if is_as_asked { api.clone() } else { api.clone().namespace(namespace.clone()) })
        })
    }

    /// The informer of the metadata of a resource.
    #[doc(alias = "NewSharedInformerFactory")]
    #[inline]
    pub fn metadata(
        &self,
        resource: GroupVersionResource,
        which: Scoped<PartialObjectMetadata>,
    ) -> InformerHandle<PartialObjectMetadata> {
        let api = self.shared.client.metadata(resource.clone());
        self.get_or_make(resource, true, which, |namespace| {
            let api = api.clone();
            ListWatch::of_metadata(if namespace.is_empty() { api } else { api.namespace(namespace.clone()) })
        })
    }

    fn get_or_make<T: Object>(
        &self,
        resource: GroupVersionResource,
        is_metadata: bool,
        which: Scoped<T>,
        list_watch: impl Fn(&Str) -> ListWatch<T>,
    ) -> InformerHandle<T> {
        let Scoped { which, transform, through } = which;
        let (objects, type_name) = (TypeId::of::<T>(), std::any::type_name::<T>());
        let options = &self.shared.options;
        let make: Make<'_> = Box::new(|wanted| {
            let list_watch = |namespace: &Str| {
                let list_watch = list_watch(namespace).labels(wanted.labels.clone()).fields(wanted.fields.clone());
                match options.reflector.choices.patience {
                    Some(patience) => list_watch.answer_timeout(patience),
                    None => list_watch,
                }
            };
            let one = |namespace: &Str| Box::new(list_watch(namespace)) as Box<dyn ListerWatcher<T>>;
            let sources = match (wanted.namespaces.as_slice(), through) {
                (several @ [_, _, ..], _) => several.iter().map(|each| (each.clone(), one(each))).collect(),
                (one_or_all, through) => {
                    let namespace = one_or_all.first().cloned().unwrap_or_default();
                    let source = match through {
                        Some(through) => through(list_watch(&namespace)),
                        None => one(&namespace),
                    };
                    vec![(Str::new(), source)]
                }
            };
            Arc::new(SharedIndexInformer::over(sources, options.for_informer(&wanted.name, wanted.resource, transform)))
        });
        let asked = Asked { objects, type_name, resource, is_metadata, which };
        let (informer, lease) = self.shared.get_or_make(asked, make);
        let informer = informer.as_any().downcast_ref::<SharedIndexInformer<T>>();
        InformerHandle::new(informer.expect("the key has the type").clone(), lease)
    }

    /// Starts all informers that have not been started; they stop when `stop` is cancelled, or nobody uses them any more.
    ///
    /// To be called again when more have been asked for. Does nothing after [`shutdown`](Self::shutdown).
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
    /// An informer that cannot list, because it may not or the resource does not exist, is waited for:
    /// [`unsynced`](Self::unsynced) tells which and why.
    ///
    /// # Errors
    /// If some stopped before; says which.
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

    /// The same, for so long at the most.
    ///
    /// # Errors
    /// If some have not synced by then; says which and why.
    pub async fn wait_for_cache_sync_within(&self, patience: Duration) -> Result<(), NotSynced> {
        match timeout(patience, self.wait_for_cache_sync()).await {
            Ok(result) => result,
            Err(_) => match self.unsynced() {
                missing if missing.is_empty() => Ok(()),
                missing => Err(NotSynced { missing }),
            },
        }
    }

    /// Which informers in use have not synced, and why.
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

    /// The informers in use and how they are doing, by name.
    #[inline]
    pub fn informers(&self) -> Vec<InformerState> {
        let state = self.shared.state();
        let in_use = state.entry_of.values().filter(|entry| entry.lease.strong_count() > 0);
        let mut informers: Vec<InformerState> = in_use
            .map(|entry| InformerState {
                name: entry.name.clone(),
                has_synced: entry.informer.has_synced(),
                objects: entry.informer.len(),
                health: entry.informer.health(),
            })
            .collect();
        informers.sort_by(|one, two| one.name.cmp(&two.name));
        informers
    }

    /// Stops all informers and waits for their tasks. No informer can be started afterwards.
    #[doc(alias = "Shutdown")]
    pub async fn shutdown(&self) {
        self.shared.state().is_shut_down = true;
        self.shared.stop.cancel();
        self.shared.tasks.ended().await;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
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
