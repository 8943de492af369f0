//! Implements the registry traits of authentication, authorization and admission.

use std::sync::{Arc, MutexGuard, PoisonError};

use kubewright_core::Value;
use kubewright_storage::{Key, KeyRange, Page, StoreListOptions, VersionedValue};

use super::Registry;
use crate::admission::allocation::ServiceState;
use crate::admission::control::{ControlState, HookCache, Policies};
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::quota::{QuotaState, QuotaUsage};
use crate::admission::state::ClusterState;
use crate::feature_gates::FeatureGate;
use kubewright_auth::authorization::{AuthorizationModes, AuthorizationReader};
use kubewright_objects::lookup::{IndexTerm, ObjectReader, TermIndex};
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_objects::service_numbers::{self, ServiceAddresses, ServiceNumbers};
use kubewright_objects::webhook_client::WebhookClients;
use kubewright_resources::catalog::{Catalog, Resource};

impl ObjectReader for Registry {
    fn catalog(&self) -> Arc<Catalog> {
        Registry::catalog(self)
    }

    fn durable(&self, key: &Key) -> Option<VersionedValue<StoredObject>> {
        self.store.get(key)
    }

    fn newest(&self, key: &Key) -> Option<VersionedValue<StoredObject>> {
        self.store.newest(key)
    }

    fn all(&self, scope: &KeyRange) -> Vec<VersionedValue<StoredObject>> {
        Registry::all(self, scope)
    }

    fn terms(&self) -> MutexGuard<'_, TermIndex<IndexTerm>> {
        self.indices.terms()
    }
}

impl AuthorizationReader for Registry {
    fn authorization_modes(&self) -> &AuthorizationModes {
        &self.authorization_modes
    }
}

impl ClusterState for Registry {
    fn has_feature(&self, gate: FeatureGate) -> bool {
        self.features.contains(gate)
    }

    fn has_plugin(&self, plugin: AdmissionPlugin) -> bool {
        self.plugins.contains(plugin)
    }

    fn page(&self, scope: &KeyRange, options: StoreListOptions) -> Option<Page<StoredObject>> {
        self.store.list(scope, options).ok()
    }

    fn change_object(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&Value) -> Result<Value, Rejection>,
    ) -> Result<(), Rejection> {
        self.change(resource, namespace, name, change).map(|_| ())
    }
}

impl Registry {
    /// Sets the addresses that Services get.
    pub(crate) fn set_service_addresses(&self, addresses: ServiceAddresses) {
        let pages = service_numbers::COUNTED.map(|resource| {
            let page = self.store.list(&KeyRange::resource(resource), StoreListOptions::default().newest());
            // A list of the newest state cannot fail.
            page.map(|page| page.entries).unwrap_or_default()
        });
        let objects = pages.iter().flatten().map(|(key, entry)| (key, &*entry.object));
        self.indices.services().set_addresses(addresses, objects);
    }
}

impl ServiceState for Registry {
    fn services(&self) -> MutexGuard<'_, ServiceNumbers> {
        self.indices.services()
    }
}

impl QuotaState for Registry {
    fn usage(&self) -> MutexGuard<'_, QuotaUsage> {
        self.indices.usage()
    }

    fn is_shared(&self) -> bool {
        self.database.is_some()
    }

    fn lock_quotas(&self) -> MutexGuard<'_, ()> {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControlState for Registry {
    fn policies(&self) -> &Policies {
        &self.policies
    }

    fn hook_cache(&self) -> &HookCache {
        &self.hook_cache
    }

    fn webhook_clients(&self) -> &WebhookClients {
        &self.webhook_clients
    }
}
