//! The API verbs over the store.
//!
//! The registry works on objects; HTTP is handled by its callers. Writes use optimistic
//! concurrency: read the stored object, change a copy without holding a lock, store it if the
//! revision is unchanged, and retry otherwise.

mod aggregation;
mod binding;
pub(crate) mod claims;
mod create;
mod definition;
mod definition_names;
mod delete;
mod eviction;
#[cfg(feature = "etcd")]
mod following;
mod index;
mod list;
mod ownership;
mod persistence;
mod scale;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod update;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_net::transport::Transport;
use tokio::sync::watch as channel;

pub(crate) use create::CreateRequest;
pub(crate) use definition::set_condition;
pub(crate) use delete::{CUSTOM_CLEANUP, DeleteOutcome, FOREGROUND, ORPHAN};
#[cfg(feature = "etcd")]
pub(crate) use following::ListedObjects;
use index::Indices;
pub(crate) use kubewright_objects::selection::Selectors;
use list::ListHorizon;
pub(crate) use list::{ListPage, parse_version};
pub(crate) use ownership::{FieldManager, Ownership, apply, check_configuration, group_version};
pub(crate) use persistence::track_writes;
pub(crate) use shared::{PastPage, SharedDatabase};
pub(crate) use update::{UpdateKind, UpdateRequest, check_target, unreadable_version, wrong_uid};
pub(crate) use watch::{FrameSlot, RegistryWatch};

use crate::admission::control::{HookCache, Policies};
use crate::admission::plugins::EnabledPlugins;
use crate::feature_gates::FeatureGates;
use crate::offload::Offload;
use kubewright_auth::authorization::AuthorizationModes;
use kubewright_objects::encoding::SharedFrames;
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_objects::selection::indexed_value;
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_resources::catalog::custom::{CustomResources, Replacement};
use kubewright_resources::catalog::{Catalog, Resource, RuntimeConfig};
use kubewright_resources::discovery::RemoteVersion;
use kubewright_storage::{Key, KeyRange, Store, StoreListOptions, StoreOptions, VersionedValue, WriteError};
use persistence::{UnreadableObjects, note_write};

/// Maximum total size of objects that only the event log retains, in bytes of JSON.
const HISTORY_WEIGHT: usize = 64 << 20;
/// Objects drop their parsed tree once this many newer writes exist. The trees of recent objects
/// stay, because field selectors of watches read them and objects are often written again soon.
const ARCHIVE_AFTER: usize = 512;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Maximum nesting depth of an object, equal to the limit of [`Value::from_json`].
const MAX_DEPTH: usize = 256;

/// The stored objects and the resources that are served.
pub(crate) struct Registry {
    pub(crate) store: Store<StoredObject>,
    /// Objects of the data file that cannot be decoded.
    pub(crate) unreadable: UnreadableObjects,
    /// The revision of the definitions in the catalog, which may not be durable yet.
    catalog_revision: AtomicU64,
    /// Secondary indices.
    pub(crate) indices: Arc<Indices>,
    catalog: RwLock<Arc<Catalog>>,
    /// The catalog has all definitions up to this revision.
    catalog_reached: channel::Sender<u64>,
    /// Serializes catalog updates, so that an older catalog never replaces a newer one.
    custom: Mutex<CustomResources>,
    /// Serializes allocations of cluster IPs and node ports.
    pub(crate) allocation: Mutex<()>,
    /// The admission plugins that run.
    pub(crate) plugins: EnabledPlugins,
    /// How long an event is kept after its last write. Zero keeps it forever.
    pub(crate) event_ttl: Duration,
    /// The features that are on.
    pub(crate) features: FeatureGates,
    /// The built-in APIs that are served.
    runtime_config: RuntimeConfig,
    /// Whether the server runs controllers that belong to kube-controller-manager.
    pub(crate) has_controllers: bool,
    /// The authorization modes.
    pub(crate) authorization_modes: AuthorizationModes,
    /// Serializes writes that a quota limits.
    pub(crate) quota: Mutex<()>,
    /// The compiled admission policies.
    pub(crate) policies: Policies,
    /// The configured webhooks and policies.
    pub(crate) hook_cache: HookCache,
    /// Connections to kubelets and pods.
    network: RwLock<Option<Arc<dyn Transport>>>,
    /// Connections to webhooks.
    pub(crate) webhook_clients: WebhookClients,
    /// The oldest revision that clients may list at.
    pub(crate) list_horizon: ListHorizon,
    /// Runs large reads on blocking threads.
    pub(crate) offload: Offload,
    /// The database that the store follows, if several servers share one.
    pub(crate) database: Option<Arc<dyn SharedDatabase>>,
    /// Runs writes that wait for the database.
    writes: Offload,
    /// Encoded frames of recent events, shared by all watches.
    frames: Arc<SharedFrames>,
    /// True once the server stops, which ends all watches.
    stop: channel::Receiver<bool>,
}

impl Registry {
    /// An empty registry that ends its watches when `stop` becomes true.
    pub(crate) fn new(options: StoreOptions<StoredObject>, stop: channel::Receiver<bool>) -> Self {
        let indices = Arc::<Indices>::default();
        let store = Store::new(bounded(options.observer(Arc::clone(&indices))));
        Registry::over(store, indices, stop)
    }

    fn over(store: Store<StoredObject>, indices: Arc<Indices>, stop: channel::Receiver<bool>) -> Self {
        Registry {
            store,
            indices,
            unreadable: UnreadableObjects::default(),
            catalog_revision: AtomicU64::new(0),
            catalog: RwLock::new(Arc::new(Catalog::new([]))),
            catalog_reached: channel::Sender::new(0),
            custom: Mutex::default(),
            allocation: Mutex::new(()),
            plugins: EnabledPlugins::default(),
            event_ttl: Duration::ZERO,
            features: FeatureGates::default(),
            runtime_config: RuntimeConfig::default(),
            has_controllers: true,
            authorization_modes: AuthorizationModes::default(),
            quota: Mutex::new(()),
            policies: Policies::default(),
            hook_cache: HookCache::default(),
            network: RwLock::default(),
            webhook_clients: WebhookClients::default(),
            list_horizon: ListHorizon::default(),
            offload: Offload::on_half_of_the_processors(),
            database: None,
            writes: Offload::new(shared::CONCURRENT_WRITES),
            frames: Arc::default(),
            stop,
        }
    }

    pub(crate) fn network(&self) -> Option<Arc<dyn Transport>> {
        self.network.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_network(&self, network: Arc<dyn Transport>) {
        *self.network.write().unwrap_or_else(PoisonError::into_inner) = Some(network);
    }

    /// The revision of the definitions in the catalog. Readers wait until it is durable.
    pub(crate) fn catalog_revision(&self) -> u64 {
        self.catalog_revision.load(Ordering::Acquire)
    }

    /// The current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets which built-in APIs are served.
    pub(crate) fn set_runtime_config(&mut self, config: RuntimeConfig) {
        let catalog = Arc::new(self.catalog().restricted(&config));
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        self.runtime_config = config;
    }

    /// Loads all CustomResourceDefinitions at startup.
    fn load_catalog(&self) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        self.catalog_revision.store(self.store.newest_revision(), Ordering::Release);
        let definitions = self.all(&KeyRange::resource(DEFINITIONS));
        let resources = definitions.iter().filter_map(|entry| {
            let definition = entry.object.value();
            custom.set(definition.name(), Some((entry.revision, definition)))
        });
        let catalog = Catalog::new(resources.flat_map(|replacement| replacement.after));
        let catalog = Arc::new(catalog.restricted(&self.runtime_config));
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }

    /// Updates the catalog after a definition was written or deleted.
    fn refresh_catalog(&self, name: &str) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = self.store.newest_revision();
        self.catalog_revision.store(revision, Ordering::Release);
        let definition = self.store.newest(&Key::cluster(DEFINITIONS, name));
        let definition = definition.as_ref().map(|entry| (entry.revision, entry.object.value()));
        if let Some(Replacement { before, after }) = custom.set(name, definition) {
            let catalog = Arc::new(self.catalog().with(&before, &after));
            *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        }
        self.catalog_reached.send_replace(revision);
    }

    /// Waits until the catalog has the definition that was written at this revision. A watch may
    /// show the write a moment earlier.
    pub(crate) async fn catalog_reaches(&self, revision: u64) {
        // Fails only if the registry is gone.
        let _ = self.catalog_reached.subscribe().wait_for(|reached| *reached >= revision).await;
    }

    /// Sets the versions of aggregated API servers that discovery lists.
    pub(crate) fn set_remote_versions(&self, remote: Vec<RemoteVersion>) {
        let _serialized = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = self.catalog();
        if *catalog.remote() != *remote {
            let catalog = Arc::new(catalog.with_remote(remote));
            *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        }
    }

    /// Reads one object. The result is durable.
    pub(crate) fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<VersionedValue<StoredObject>, Rejection> {
        let key = resource.key(namespace, name);
        self.store.get(&key).ok_or_else(|| self.not_found(resource, &key))
    }

    /// Reads one object for a write. It may not be durable yet, so use [`get`](Self::get) for
    /// responses to readers.
    pub(crate) fn newest(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<VersionedValue<StoredObject>, Rejection> {
        let key = resource.key(namespace, name);
        self.store.newest(&key).ok_or_else(|| self.not_found(resource, &key))
    }

    fn not_found(&self, resource: &Resource, key: &Key) -> Rejection {
        let unreadable = self.unreadable.rejection(resource, key);
        unreadable.unwrap_or_else(|| Status::not_found(&resource.group_resource(), key.name()).into())
    }

    /// Reads all objects of a scope for a write. They may not be durable yet.
    pub(crate) fn all(&self, scope: &KeyRange) -> Vec<VersionedValue<StoredObject>> {
        let page = self.store.list(scope, StoreListOptions::default().newest());
        // A list of the newest state cannot fail: only old revisions can expire.
        page.map(|page| page.entries.into_iter().map(|(_, entry)| entry).collect()).unwrap_or_default()
    }

    /// Runs the synchronous reactions to a write. `written` is the object before and after it.
    fn after_write(&self, resource: &Resource, written: &[&StoredObject]) {
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
            written.first().into_iter().for_each(|definition| self.refresh_catalog(definition.value().name()));
        } else if resource.is("rbac.authorization.k8s.io", "clusterroles") {
            aggregation::collect_rules(self, written);
        } else if resource.group == "admissionregistration.k8s.io" {
            self.hook_cache.invalidate();
        }
    }
}

/// Rejects an object that is nested too deeply to be parsed again, by this server or a client.
fn check_depth(value: &Value) -> Result<(), Rejection> {
    if tree::is_deeper(value, MAX_DEPTH) {
        Err(Status::bad_request(format!(
            "the object is nested deeper than {MAX_DEPTH} values, including its managedFields"
        ))
        .into())
    } else {
        Ok(())
    }
}

/// Limits the memory for past events.
fn bounded(options: StoreOptions<StoredObject>) -> StoreOptions<StoredObject> {
    let options = options.window_weight(HISTORY_WEIGHT, |object| object.json().len());
    options.archive(ARCHIVE_AFTER, StoredObject::archived).index(indexed_value)
}

/// The rejection of a failed write. `None` for a conflict, after which callers try again.
fn refusal(resource: &Resource, name: &str, error: WriteError<StoredObject>) -> Option<Rejection> {
    match error {
        WriteError::Conflict { .. } | WriteError::Contended => None,
        WriteError::NotFound => Some(Status::not_found(&resource.group_resource(), name).into()),
        WriteError::AlreadyExists(found) => Some(already_exists(resource, name, found.object.value())),
        WriteError::Backend(error) => Some(Status::internal(error.to_string()).into()),
        // The enum is non-exhaustive.
        error => Some(Status::internal(error.to_string()).into()),
    }
}

fn already_exists(resource: &Resource, name: &str, found: &Value) -> Rejection {
    let mut status = Status::already_exists(&resource.group_resource(), name);
    if found.is_being_deleted() {
        let message = status.message.take().unwrap_or_default();
        status.message = Some(format!("object is being deleted: {message}").into());
    }
    status.into()
}
