//! The scale subresource.

use kubewright_core::meta::v1::{LabelSelector, Status, StatusCause};
use kubewright_core::{Decoder, GroupKind, Selector, Value};

use super::Registry;
use kubewright_objects::object::{Meta, to_json, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// Metadata fields that a scale copies from its object.
const SHARED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// Marks unset replicas of a custom object while its scale is being changed.
const UNSET: i64 = i32::MIN as i64;

impl Registry {
    /// The scale of an object.
    pub(crate) fn scale_of(&self, resource: &Resource, object: &Value) -> Result<Value, Rejection> {
        let scale = self.scale_to_change(resource, object);
        match resource.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
            Some([spec, ..]) if tree::int(&scale, &["spec", "replicas"]) == Some(UNSET) => {
                Err(Status::internal(format!("the spec replicas field {spec:?} does not exist")).into())
            }
            _ => Ok(scale),
        }
    }

    /// The scale of an object for [`with_scale`](Self::with_scale). The replicas may be unset.
    pub(crate) fn scale_to_change(&self, resource: &Resource, object: &Value) -> Value {
        let (replicas, current, selector) = match resource.custom.as_ref().map(|custom| &custom.scale) {
            Some(Some([spec, status, selector])) => {
                let replicas = tree::int(object, &path(spec)).unwrap_or(UNSET);
                let selector = if selector.is_empty() { "" } else { tree::text(object, &path(selector)) };
                (replicas, tree::int(object, &path(status)).unwrap_or_default(), selector.to_owned())
            }
            _ => {
                let replicas = tree::int(object, &["spec", "replicas"]).unwrap_or_default();
                let current = tree::int(object, &["status", "replicas"]).unwrap_or_default();
                (replicas, current, selector_text(object))
            }
        };
        let mut scale = tree::map([("kind", "Scale".into()), ("apiVersion", "autoscaling/v1".into())]);
        for field in SHARED {
            if let Some(value) = object.meta(field) {
                scale.set_meta(field, value.clone());
            }
        }
        let spec = tree::object_mut(&mut scale, &["spec"]);
        if replicas != 0 {
            spec.insert("replicas", replicas.into());
        }
        let status = tree::object_mut(&mut scale, &["status"]);
        status.insert("replicas", current.into());
        if !selector.is_empty() {
            status.insert("selector", selector.into());
        }
        scale
    }

    /// Translates an apply configuration of a scale to one of its object.
    pub(crate) fn scale_configuration(&self, resource: &Resource, scale: &Value) -> Value {
        let mut config =
            tree::map([("kind", resource.kind.clone().into()), ("apiVersion", resource.api_version.clone().into())]);
        for field in ["name", "namespace", "uid", "resourceVersion"] {
            if let Some(value) = scale.meta(field) {
                config.set_meta(field, value.clone());
            }
        }
        if let Some(replicas) = tree::get(scale, &["spec", "replicas"]) {
            match resource.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
                Some([spec, ..]) => tree::set(&mut config, &path(spec), replicas.clone()),
                None => tree::set(&mut config, &["spec", "replicas"], replicas.clone()),
            }
        }
        config
    }

    /// Sets the replicas of an object from a scale. Version and UID are copied for the precondition
    /// checks.
    pub(crate) fn with_scale(&self, resource: &Resource, object: &Value, scale: &Value) -> Result<Value, Rejection> {
        let replicas = tree::int(scale, &["spec", "replicas"]).unwrap_or_default();
        // Custom objects are validated as a whole later.
        if replicas < 0 && !resource.is_custom() {
            let cause = StatusCause::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            let kind = GroupKind::from_static("autoscaling", "Scale");
            return Err(Status::invalid(&kind, scale.name(), [cause]).into());
        }
        let mut object = object.clone();
        match resource.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
            Some([spec, ..]) if replicas == UNSET => {
                return Err(Status::bad_request(format!("the spec replicas field {spec:?} cannot be empty")).into());
            }
            Some([spec, ..]) => tree::set(&mut object, &path(spec), replicas),
            None => tree::set(&mut object, &["spec", "replicas"], replicas),
        }
        for field in ["resourceVersion", "uid", "name", "namespace"] {
            match scale.meta(field) {
                Some(value) => object.set_meta(field, value.clone()),
                None if field == "resourceVersion" => drop(object.remove_meta(field)),
                None => {}
            }
        }
        Ok(object)
    }
}

/// Splits a path with a leading dot.
fn path(text: &str) -> Vec<&str> {
    text.trim_start_matches('.').split('.').collect()
}

/// The selector of a workload as a string. Older kinds have a plain label map.
fn selector_text(object: &Value) -> String {
    let Some(selector) = tree::get(object, &["spec", "selector"]) else { return String::new() };
    let is_plain = selector.as_object().is_some_and(|map| map.values().all(|value| value.as_str().is_some()));
    let selector = if is_plain {
        Selector::from_set(&kubewright_objects::object::text_map(Some(selector)))
    } else {
        let decoded: Result<LabelSelector, _> = Decoder::new().json(&to_json(selector));
        Selector::from_label_selector(decoded.ok().as_ref())
    };
    selector.map(|selector| selector.to_string()).unwrap_or_default()
}
