//! The informers that a factory has, whatever their types, and what makes one another one.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kubewright_core::{FieldSelector, GroupVersionResource, Object, Selector, Str};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::handle::Lease;
use super::options::Which;
use crate::informer::SharedIndexInformer;
use crate::queue::BoxFuture;
use crate::reflector::Health;

#[derive(Default)]
pub(super) struct State {
    pub(super) entry_of: HashMap<Key, Entry>,
    pub(super) is_shut_down: bool,
}

/// What makes an informer another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    objects: TypeId,
    resource: GroupVersionResource,
    is_metadata: bool,
    namespaces: Vec<Str>,
    label_selector: String,
    field_selector: String,
    transform: Str,
    through: Str,
}

pub(super) struct Entry {
    pub(super) informer: Arc<dyn AnyInformer>,
    pub(super) lease: Weak<Lease>,
    pub(super) name: String,
    pub(super) stop: CancellationToken,
    pub(super) is_started: bool,
}

/// An informer whatever its type.
pub(super) trait AnyInformer: Send + Sync {
    fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()>;
    fn synced(&self) -> BoxFuture<'_, bool>;
    fn has_synced(&self) -> bool;
    fn health(&self) -> Option<Health>;
    fn len(&self) -> usize;
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

    fn len(&self) -> usize {
        self.store().len()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What somebody asks for.
pub(super) struct Asked {
    pub(super) objects: TypeId,
    /// The name of the type.
    pub(super) type_name: &'static str,
    pub(super) resource: GroupVersionResource,
    pub(super) is_metadata: bool,
    pub(super) which: Which,
}

/// What a new informer is about.
pub(super) struct Specification {
    pub(super) name: String,
    pub(super) resource: GroupVersionResource,
    pub(super) namespaces: Vec<Str>,
    pub(super) labels: Selector,
    pub(super) fields: FieldSelector,
}

/// Makes an informer of one type.
pub(super) type Make<'a> = Box<dyn FnOnce(Specification) -> Arc<dyn AnyInformer> + 'a>;

impl Shared {
    /// The informer that is asked for, a new one if nobody uses such.
    // What was given is dropped after the lock: it may hold more than is known here.
    pub(super) fn get_or_make(&self, asked: Asked, make: Make<'_>) -> (Arc<dyn AnyInformer>, Arc<Lease>) {
        let options = &self.options;
        let mut state = self.state();
        let Asked { objects, type_name, resource, is_metadata, which } = asked;
        let of_type = options.which_of.get(&objects).cloned().unwrap_or_default();
        let namespaces = which.namespaces.or(of_type.namespaces).unwrap_or_else(|| options.namespaces.clone());
        let or_all = |one: Option<Selector>| one.unwrap_or_else(|| options.label_selector.clone());
        let labels = or_all(which.label_selector.or(of_type.label_selector));
        let or_all = |one: Option<FieldSelector>| one.unwrap_or_else(|| options.field_selector.clone());
        let fields = or_all(which.field_selector.or(of_type.field_selector));
        let key = Key {
            objects,
            resource: resource.clone(),
            is_metadata,
            namespaces: namespaces.clone(),
            label_selector: labels.to_string(),
            field_selector: fields.to_string(),
            transform: which.transform,
            through: which.through,
        };
        if let Some(entry) = state.entry_of.get(&key)
            && let Some(lease) = entry.lease.upgrade()
        {
            return (entry.informer.clone(), lease);
        }
        // What nobody uses any more has stopped, or never began.
        state.entry_of.retain(|_, entry| entry.lease.strong_count() > 0);
        let mut name = key.name();
        // Most often there is one type for a resource, which then need not be told.
        if state.entry_of.values().any(|entry| entry.name == name) {
            name.extend([" as ", type_name]);
        }
        let stop = self.stop.child_token();
        let lease = Arc::new(Lease {
            stop: stop.clone(),
            namespaces: namespaces.clone(),
            is_all: namespaces == options.namespaces,
            label_selector: labels.clone(),
            field_selector: fields.clone(),
            // Where there are several namespaces, nothing stands between.
            is_filtered: !key.through.is_empty() && namespaces.len() < 2,
        });
        let informer = make(Specification { name: name.clone(), resource, namespaces, labels, fields });
        let entry = Entry { informer: informer.clone(), lease: Arc::downgrade(&lease), name, stop, is_started: false };
        state.entry_of.insert(key, entry);
        (informer, lease)
    }
}

impl Key {
    fn name(&self) -> String {
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
            ("through", &self.through),
        ] {
            if !text.is_empty() {
                name.extend([" ", what, " ", text]);
            }
        }
        name
    }
}
