//! Caches the webhooks and policies of the cluster until their configurations change.
//!
//! Most writes match none of them. Without the cache, each write would list four kinds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::ControlState;
use super::matching;
use super::policy::{self, BoundPolicy};
use super::webhook::{self, ConfiguredWebhook};
use crate::admission::plugins::AdmissionPlugin;

/// The configured webhooks and policies.
#[derive(Default)]
pub(super) struct HookConfigurations {
    pub(super) webhooks: Vec<ConfiguredWebhook>,
    pub(super) policies: Vec<BoundPolicy>,
    /// The mutating policies.
    pub(super) mutations: Vec<BoundPolicy>,
}

impl HookConfigurations {
    /// Whether policies or match conditions of webhooks may be evaluated for resources of this
    /// name. Ignores groups and selectors.
    pub(super) fn evaluates_expressions(&self, plural: &str) -> bool {
        let mut policies = self.policies.iter().chain(&self.mutations).map(|bound| bound.policy.rules());
        let webhooks = self.webhooks.iter().filter(|webhook| webhook.has_conditions());
        policies.any(|rules| matching::name_resource(rules, plural))
            || webhooks.map(ConfiguredWebhook::rules).any(|rules| matching::name_resource(rules, plural))
    }
}

/// The cache of [`HookConfigurations`].
#[derive(Default)]
pub(crate) struct HookCache {
    /// Number of configuration changes so far.
    changes: AtomicU64,
    /// The hooks, and the number of changes before they were read.
    cached: Mutex<Option<(u64, Arc<HookConfigurations>)>>,
}

impl HookCache {
    /// Invalidates the cache. Call it once the change is visible to readers.
    pub(crate) fn invalidate(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The current webhooks and policies.
    pub(super) fn get(&self, cluster: &dyn ControlState) -> Arc<HookConfigurations> {
        // Load the counter first: a change during the reads below must invalidate their result.
        let changes = self.changes.load(Ordering::Acquire);
        let cached = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hooks)) = cached().as_ref().filter(|(read_at, _)| *read_at == changes) {
            return Arc::clone(hooks);
        }
        let policies = |kind: &str, plugin: AdmissionPlugin| {
            if cluster.has_plugin(plugin) { policy::all(cluster, kind) } else { Vec::new() }
        };
        let hooks = Arc::new(HookConfigurations {
            webhooks: webhook::all(cluster),
            policies: policies("validating", AdmissionPlugin::ValidatingAdmissionPolicy),
            mutations: policies("mutating", AdmissionPlugin::MutatingAdmissionPolicy),
        });
        *cached() = Some((changes, Arc::clone(&hooks)));
        hooks
    }
}
