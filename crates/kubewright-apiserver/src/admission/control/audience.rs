//! Those who have a say in writes, read once and kept until their configurations change.
//!
//! Nearly all writes are of other things, and would otherwise list four kinds each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::policy::{self, Bound};
use super::webhook::{self, Webhook};
use crate::registry::Registry;

/// Webhooks and policies as they are configured.
#[derive(Default)]
pub(super) struct Listeners {
    pub(super) webhooks: Vec<Webhook>,
    pub(super) policies: Vec<Bound>,
    /// Policies that change objects.
    pub(super) mutations: Vec<Bound>,
}

/// Keeps them.
#[derive(Default)]
pub(crate) struct Audience {
    /// How often a configuration has changed.
    changes: AtomicU64,
    /// Those that were read after so many changes.
    known: Mutex<Option<(u64, Arc<Listeners>)>>,
}

impl Audience {
    /// A configuration has changed, and the change can be read.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Those who have a say now.
    pub(super) fn now(&self, registry: &Registry) -> Arc<Listeners> {
        // Counted before anything is read, so that what is read while it changes is not kept beyond the change.
        let changes = self.changes.load(Ordering::Acquire);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, listeners)) = known().as_ref().filter(|(then, _)| *then == changes) {
            return Arc::clone(listeners);
        }
        let listeners = Arc::new(Listeners {
            webhooks: webhook::all(registry),
            policies: policy::all(registry, "validating"),
            mutations: policy::all(registry, "mutating"),
        });
        *known() = Some((changes, Arc::clone(&listeners)));
        listeners
    }
}
