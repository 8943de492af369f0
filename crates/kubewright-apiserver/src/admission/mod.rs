//! Admission: defaults, changes and validates objects before they are stored.
//!
//! `registry` calls the stages of a user's write in this order:
//!
//! 1. `limits` and `accounts` set namespace-specific defaults of pods;
//! 2. `control` runs mutating policies and webhooks;
//! 3. [`create`] or [`update`] sets defaults and validates the object;
//! 4. `limits`, `security` and `control` (policies, then webhooks) may reject it;
//! 5. `quota` is last, because it charges exactly what is stored.
//!
//! The server's own writes pass stage 3 only.

pub(crate) mod accounts;
pub(crate) mod allocation;
pub(crate) mod approval;
pub(crate) mod classes;
pub(crate) mod control;
mod data_source;
mod defaulting;
pub(crate) mod limits;
mod match_label_keys;
mod part;
mod pod_totals;
mod priority;
pub(crate) mod quota;
pub(crate) mod security;
mod signer;
pub(crate) mod state;
mod strategy;
mod validation;
mod warnings;

pub(crate) use signer::check as check_signer;
pub(crate) use strategy::{PV_PROTECTION, PVC_PROTECTION, set_requester};
pub(crate) use validation::path_segment;
pub(crate) use warnings::warnings;

use kubewright_core::Value;
use kubewright_core::meta::v1::{Status, StatusCause};

use crate::catalog::Resource;
use crate::object::Meta;
use crate::rejection::Rejection;
use allocation::ServiceState;
pub(crate) use part::Part;

/// Completes and checks an object that is to be created.
pub(crate) fn create(cluster: &dyn ServiceState, resource: &Resource, value: &mut Value) -> Result<(), Rejection> {
    defaulting::apply(resource, value);
    strategy::prepare_create(resource, value);
    if resource.is("", "pods") {
        priority::set(cluster, value)?;
    }
    let mut causes = validation::create(resource, value);
    if causes.is_empty() {
        causes = allocation::create(cluster, resource, value);
    }
    check(resource, value, causes)
}

/// Sets defaults only. Fields that the server controls stay as they are.
pub(crate) fn set_defaults(resource: &Resource, value: &mut Value) {
    defaulting::apply(resource, value);
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
    strategy::carry_over(resource, old, new);
    defaulting::apply(resource, new);
    // An older server may have stored `old` without today's defaults. Those must not count as
    // changes.
    let completed;
    let old = if matches!(part, Part::Main | Part::Ephemeral | Part::Resize) && !resource.is_custom() {
        let mut before = old.clone();
        defaulting::apply(resource, &mut before);
        completed = before;
        &completed
    } else {
        old
    };
    strategy::prepare_update(resource, old, new, part);
    let mut causes = validation::update(resource, old, new, part, warnings);
    if causes.is_empty() && part == Part::Main {
        causes = allocation::update(cluster, resource, old, new);
    }
    check(resource, new, causes)
}

fn check(resource: &Resource, value: &Value, causes: Vec<StatusCause>) -> Result<(), Rejection> {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(&resource.group_kind(), value.name(), causes).into()) }
}
