//! The kinds of this project.
//!
//! Written by `kubewright create` from `kubewright.yaml`, and replaced by it. Do not edit this
//! file; the modules below are yours.

// checksum: 8036f4514c11769a

use kubewright::api::apiextensions::v1::CustomResourceDefinition;
use kubewright::runtime::custom::CustomResource;
use kubewright::runtime::webhook::Webhooks;
use kubewright::runtime::{BoxError, Manager};

pub mod widget {
    pub mod controller;
    pub mod v1alpha1;

    #[cfg(test)]
    mod tests;
}

/// The definitions of all kinds.
pub fn definitions() -> Result<Vec<CustomResourceDefinition>, BoxError> {
    Ok(vec![widget::v1alpha1::Widget::definition()])
}

/// Adds the controllers of all kinds to `manager`.
pub fn add_to(manager: &mut Manager) -> Result<(), BoxError> {
    widget::controller::add_to(manager)?;
    Ok(())
}

/// The webhooks of all kinds, if there are any.
pub fn webhooks() -> Option<Webhooks> {
    None
}
