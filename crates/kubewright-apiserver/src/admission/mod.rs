//! What happens to an object between the request and the store: it is completed, then checked.
//!
//! The stages of a write by a user, in the order in which `registry` calls them: `limits` and `accounts` fill in what a
//! namespace gives to its pods; `control` lets webhooks change the object; [`create`] or [`update`] sets defaults and
//! checks the rules of the kind; `limits`, `security` and `control` (policies, then webhooks) may refuse it; `quota` comes last,
//! because what it counts is then written. What the server writes by itself passes only the middle one.

pub(crate) mod accounts;
mod allocation;
pub(crate) mod approval;
pub(crate) mod classes;
pub(crate) mod control;
mod data_source;
mod defaulting;
pub(crate) mod limits;
mod own_labels;
mod priority;
pub(crate) mod quota;
pub(crate) mod security;
mod strategy;
mod validation;
mod warnings;

pub(crate) use strategy::{PV_PROTECTION, PVC_PROTECTION, note_requester};
pub(crate) use validation::{dns1035_label, path_segment};
pub(crate) use warnings::warnings;

use kubewright_core::Value;
use kubewright_core::meta::v1::{Status, StatusCause};

use crate::catalog::Resource;
use crate::object::Meta;
use crate::registry::{Part, Registry};
use crate::rejection::Rejection;

/// Completes and checks an object that is to be created.
pub(crate) fn create(registry: &Registry, resource: &Resource, value: &mut Value) -> Result<(), Rejection> {
    defaulting::apply(resource, value);
    strategy::prepare_create(resource, value);
    if resource.is("", "pods") {
        priority::set(registry, value)?;
    }
    let mut causes = validation::create(resource, value);
    if causes.is_empty() {
        causes = allocation::create(registry, resource, value);
    }
    check(resource, value, causes)
}

/// Fills in what a request leaves out, and nothing that the server decides otherwise.
pub(crate) fn set_defaults(resource: &Resource, value: &mut Value) {
    defaulting::apply(resource, value);
}

/// Completes and checks an object that is to take the place of `old`. What may stay because it was there is in `warnings`.
pub(crate) fn update(
    registry: &Registry,
    resource: &Resource,
    old: &Value,
    new: &mut Value,
    part: Part,
    warnings: &mut Vec<String>,
) -> Result<(), Rejection> {
    strategy::carry_over(resource, old, new);
    defaulting::apply(resource, new);
    // What an earlier server stored may lack defaults of today, and nobody changes them by a change of something else.
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
        causes = allocation::update(registry, resource, old, new);
    }
    check(resource, new, causes)
}

fn check(resource: &Resource, value: &Value, causes: Vec<StatusCause>) -> Result<(), Rejection> {
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&resource.group_kind(), value.name(), causes).into()),
    }
}
