//! The informers of a factory, type-erased, and the key that identifies each.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use kubewright_client::Client;
use kubewright_core::{FieldSelector, GroupVersionResource, Object, Selector, Str};
use tokio_util::sync::CancellationToken;

use super::SharedFactory;
use super::handle::UsageGuard;
use super::options::ScopeOptions;
use crate::informer::SharedIndexInformer;
use crate::metrics::InformerSample;
use crate::queue::BoxFuture;
use crate::reflector::Health;

#[derive(Default)]
pub(super) struct FactoryState {
    pub(super) entry_of: HashMap<InformerKey, InformerEntry>,
    pub(super) is_shut_down: bool,
}

/// Identifies an informer within its factory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct InformerKey {
    objects: TypeId,
    client: ClientIdentity,
    resource: GroupVersionResource,
    is_metadata: bool,
    namespaces: Vec<Str>,
    label_selector: String,
    field_selector: String,
    transform: Str,
    wrapper: Str,
}

/// A client as part of a key. Clients are equal if the server gives them the same answers.
#[derive(Debug, Clone)]
struct ClientIdentity(Client);

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.0.has_same_identity(&other.0)
    }
}

impl Eq for ClientIdentity {}

impl Hash for ClientIdentity {
    /// Hashes nothing: a factory has informers of few clients.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

pub(super) struct InformerEntry {
    pub(super) informer: Arc<dyn AnyInformer>,
    pub(super) lease: Weak<UsageGuard>,
    pub(super) name: String,
    pub(super) stop: CancellationToken,
    pub(super) is_started: bool,
}

/// A type-erased informer.
pub(super) trait AnyInformer: Send + Sync {
    fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()>;
    fn synced(&self) -> BoxFuture<'_, bool>;
    fn has_synced(&self) -> bool;
    fn health(&self) -> Option<Health>;
    fn observe(&self) -> InformerSample;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Object> AnyInformer for SharedIndexInformer<T> {
    fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        self.running(stop)
    }

    fn synced(&self) -> BoxFuture<'_, bool> {
        self.wait_until_synced()
    }

    fn has_synced(&self) -> bool {
        SharedIndexInformer::has_synced(self)
    }

    fn health(&self) -> Option<Health> {
        SharedIndexInformer::health(self)
    }

    fn observe(&self) -> InformerSample {
        SharedIndexInformer::observe(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A request for an informer.
pub(super) struct InformerRequest {
    pub(super) objects: TypeId,
    /// The client of a new informer.
    pub(super) client: Client,
    /// The name of the object type.
    pub(super) type_name: &'static str,
    pub(super) resource: GroupVersionResource,
    pub(super) is_metadata: bool,
    pub(super) scope: ScopeOptions,
}

/// The configuration of a new informer.
pub(super) struct InformerSpec {
    pub(super) name: String,
    pub(super) resource: GroupVersionResource,
    pub(super) namespaces: Vec<Str>,
    pub(super) labels: Selector,
    pub(super) fields: FieldSelector,
}

/// Creates an informer of a concrete type.
pub(super) type Make<'a> = Box<dyn FnOnce(InformerSpec) -> Arc<dyn AnyInformer> + 'a>;

impl SharedFactory {
    /// Returns the requested informer, creating it if it is not in use.
    // The arguments are dropped after unlocking: they may own arbitrary values.
    pub(super) fn get_or_make(
        &self,
        request: InformerRequest,
        make: Make<'_>,
    ) -> (Arc<dyn AnyInformer>, Arc<UsageGuard>) {
        let options = &self.options;
        let mut state = self.state();
        let InformerRequest { objects, client, type_name, resource, is_metadata, scope } = request;
        let of_type = options.which_of.get(&objects).cloned().unwrap_or_default();
        let namespaces = scope.namespaces.or(of_type.namespaces).unwrap_or_else(|| options.namespaces.clone());
        let or_all = |one: Option<Selector>| one.unwrap_or_else(|| options.label_selector.clone());
        let labels = or_all(scope.label_selector.or(of_type.label_selector));
        let or_all = |one: Option<FieldSelector>| one.unwrap_or_else(|| options.field_selector.clone());
        let fields = or_all(scope.field_selector.or(of_type.field_selector));
        let key = InformerKey {
            objects,
            client: ClientIdentity(client.clone()),
            resource: resource.clone(),
            is_metadata,
            namespaces: namespaces.clone(),
            label_selector: labels.to_string(),
            field_selector: fields.to_string(),
            transform: scope.transform,
            wrapper: scope.wrapper,
        };
        if let Some(entry) = state.entry_of.get(&key)
            && let Some(lease) = entry.lease.upgrade()
        {
            return (entry.informer.clone(), lease);
        }
        // Informers that are no longer in use have stopped or never started.
        state.entry_of.retain(|_, entry| entry.lease.strong_count() > 0);
        let mut name = key.name(&self.client);
        // The type is part of the name only if a resource has informers of several types.
        if state.entry_of.values().any(|entry| entry.name == name) {
            name.extend([" as ", type_name]);
        }
        let stop = self.stop.child_token();
        let lease = Arc::new(UsageGuard {
            stop: stop.clone(),
            client,
            namespaces: namespaces.clone(),
            is_all: namespaces == options.namespaces,
            label_selector: labels.clone(),
            field_selector: fields.clone(),
            // A `ListerWatcher` wrapper applies to single-namespace informers only.
            is_filtered: !key.wrapper.is_empty() && namespaces.len() < 2,
        });
        let informer = make(InformerSpec { name: name.clone(), resource, namespaces, labels, fields });
        let entry =
            InformerEntry { informer: informer.clone(), lease: Arc::downgrade(&lease), name, stop, is_started: false };
        state.entry_of.insert(key, entry);
        (informer, lease)
    }
}

impl InformerKey {
    /// The name of the informer in a factory of this client.
    fn name(&self, of_factory: &Client) -> String {
        let ClientIdentity(client) = &self.client;
        let is_other = !client.shares_transport(of_factory);
        let host = client.transport().host().filter(|_| is_other).unwrap_or_default();
        let user = client.impersonated().filter(|user| of_factory.impersonated() != Some(user));
        let mut name = self.resource.group_resource().to_string();
        if self.is_metadata {
            name.push_str(" (metadata)");
        }
        let namespaces = self.namespaces.iter().map(Str::as_str).collect::<Vec<_>>().join(", ");
        for (what, text) in [
            ("in", namespaces.as_str()),
            ("with", &self.label_selector),
            ("where", &self.field_selector),
            ("after", &self.transform),
            ("through", &self.wrapper),
            ("at", &host),
            ("for", user.map_or("", |user| &user.user)),
        ] {
            if !text.is_empty() {
                name.extend([" ", what, " ", text]);
            }
        }
        name
    }
}
