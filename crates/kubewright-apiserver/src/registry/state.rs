//! Implements the registry traits of authentication, authorization and admission.

use std::sync::{Arc, MutexGuard, PoisonError};

use kubewright_core::Value;
use kubewright_storage::{Entry, Key, ListOptions, Page, Scope};

use super::Registry;
use crate::admission::allocation::{ServiceNumbers, ServiceState};
use crate::admission::control::{ControlState, HookCache, Policies};
use crate::admission::quota::{QuotaState, Usage};
use crate::admission::state::ClusterState;
use crate::lookup::{ObjectReader, Term, TermIndex};
use crate::object::StoredObject;
use crate::rejection::Rejection;
use kubewright_resources::catalog::{Catalog, Resource};

impl ObjectReader for Registry {
    fn catalog(&self) -> Arc<Catalog> {
        Registry::catalog(self)
    }

    fn durable(&self, key: &Key) -> Option<Entry<StoredObject>> {
        self.store.get(key)
    }

    fn newest(&self, key: &Key) -> Option<Entry<StoredObject>> {
        self.store.newest(key)
    }

    fn all(&self, scope: &Scope) -> Vec<Entry<StoredObject>> {
        Registry::all(self, scope)
    }

    fn terms(&self) -> MutexGuard<'_, TermIndex<Term>> {
        self.indices.terms()
    }
}

impl ClusterState for Registry {
    fn assigns_accounts(&self) -> bool {
        self.assigns_accounts
    }

    fn page(&self, scope: &Scope, options: ListOptions) -> Option<Page<StoredObject>> {
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

impl ServiceState for Registry {
    fn services(&self) -> MutexGuard<'_, ServiceNumbers> {
        self.indices.services()
    }
}

impl QuotaState for Registry {
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.indices.usage()
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
}
