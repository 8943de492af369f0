//! Admission: defaults, changes and validates objects before they are stored.
//!
//! `registry` calls the stages of a user's write in this order:
//!
//! 1. `classes`, `limits`, `accounts` and `node_taint` complete the object;
//! 2. `control` runs mutating policies and webhooks;
//! 3. [`create`] or [`update`] sets defaults and validates the object;
//! 4. `limits`, `security` and `control` (policies, then webhooks) may reject it;
//! 5. `quota` is last, because it charges exactly what is stored.
//!
//! [`plugins`] says which of these run. The server's own writes pass stage 3 only. Defaults and
//! validation are in the crate `kubewright-validation`, which knows neither the registry nor
//! requests.

pub(crate) mod accounts;
pub(crate) mod allocation;
pub(crate) mod classes;
pub(crate) mod control;
pub(crate) mod limits;
mod node_restriction;
pub(crate) mod node_taint;
pub(crate) mod plugins;
mod priority;
pub(crate) mod quota;
pub(crate) mod security;
mod signer;
pub(crate) mod state;
mod tls_secret;

pub(crate) use signer::{check as check_signer, set_requester};

use kubewright_core::Value;
use kubewright_core::meta::v1::{Status, StatusCause};
pub(crate) use kubewright_validation::Part;
use kubewright_validation::{CustomProperties, defaulting, strategy, validation};

use crate::feature_gates::FeatureGate;
use allocation::ServiceState;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// Completes and checks an object that is to be created.
pub(crate) fn create(cluster: &dyn ServiceState, resource: &Resource, value: &mut Value) -> Result<(), Rejection> {
    let described = described(resource);
    defaulting::apply(&described, value);
    strategy::prepare_create(&described, value);
    if resource.is("", "pods") {
        priority::set(cluster, value)?;
    }
    let mut causes = validation::create(&described, value);
    allow_zero_replicas(cluster, resource, value, &mut causes);
    if causes.is_empty() {
        causes = allocation::create(cluster, resource, value);
    }
    check(resource, value, causes)
}

/// With the feature HPAScaleToZero, no minimum of an autoscaler is too small.
fn allow_zero_replicas(cluster: &dyn ServiceState, resource: &Resource, value: &Value, causes: &mut Vec<StatusCause>) {
    let is_zero = tree::int(value, &["spec", "minReplicas"]) == Some(0);
    if is_zero && &*resource.plural == "horizontalpodautoscalers" && cluster.has_feature(FeatureGate::HPAScaleToZero) {
        causes.retain(|cause| cause.field.as_deref() != Some("spec.minReplicas"));
    }
}

/// Sets defaults only. Fields that the server controls stay as they are.
pub(crate) fn set_defaults(resource: &Resource, value: &mut Value) {
    defaulting::apply(&described(resource), value);
}

/// Sets the defaults of an object that kube-apiserver may have stored.
#[cfg(feature = "etcd")]
pub(crate) fn set_stored_defaults(resource: &Resource, value: &mut Value) {
    defaulting::apply_stored(&described(resource), value);
}

/// Defaults and validates an update. Violations that `old` already had may become `warnings`.
pub(crate) fn update(
    cluster: &dyn ServiceState,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    part: Part,
    warnings: &mut Vec<String>,
) -> Result<(), Rejection> {
    let described = described(resource);
    strategy::carry_over(&described, old, new);
    defaulting::apply(&described, new);
    // An older server may have stored `old` without today's defaults. Those must not count as
    // changes.
    let completed;
    let old = if matches!(part, Part::Main | Part::Ephemeral | Part::Resize) && !resource.is_custom() {
        let mut before = old.clone();
        defaulting::apply(&described, &mut before);
        completed = before;
        &completed
    } else {
        old
    };
    strategy::prepare_update(&described, old, new, part);
    signer::set_condition_times(resource, part, old, new);
    if resource.is("", "pods") && part == Part::Main {
        priority::update(cluster, old, new);
    }
    let mut causes = validation::update(&described, old, new, part, warnings);
    allow_zero_replicas(cluster, resource, new, &mut causes);
    if causes.is_empty() && part == Part::Main {
        causes = allocation::update(cluster, resource, old, new);
    }
    check(resource, new, causes)
}

/// The warnings about an object that replaces `old`.
pub(crate) fn warnings(resource: &Resource, old: Option<&Value>, new: &Value) -> Vec<String> {
    let mut warnings = kubewright_validation::warnings(&described(resource), old, new);
    warnings.extend(tls_secret::warning(resource, new));
    warnings
}

/// The resource as the crate `kubewright-validation` sees it.
fn described(resource: &Resource) -> kubewright_validation::ValidatedResource<'_> {
    let custom = resource.custom.as_ref();
    kubewright_validation::ValidatedResource {
        group: &resource.group,
        plural: &resource.plural,
        namespaced: resource.namespaced,
        has_status: resource.has_status(),
        initial_status: resource.empty.get("status"),
        custom: custom.map(|custom| CustomProperties { schema: &custom.schema, scale: custom.scale.as_ref() }),
    }
}

fn check(resource: &Resource, value: &Value, causes: Vec<StatusCause>) -> Result<(), Rejection> {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(&resource.group_kind(), value.name(), causes).into()) }
}
