//! Converts objects between their storage version and other served versions.
//!
//! Custom resources change their `apiVersion` and are pruned and defaulted by the schema of the
//! other version, unless a [`webhook`] converts them. Two built-in kinds have several versions.
//! Events have different field names in their two groups. Autoscalers have an older version with
//! fewer fields (`autoscaler`).

mod autoscaler;
pub mod webhook;

use std::borrow::Cow;
use std::sync::Arc;

use kubewright_core::{Str, Value};

use crate::object::tree;
use crate::rejection::Rejection;
use crate::webhook_client::WebhookClients;
use kubewright_resources::catalog::{ConversionWebhook, Resource};

/// Converts objects for a write, which cannot wait for a webhook.
pub trait ConvertWrite {
    /// The object in another version.
    ///
    /// # Errors
    /// [`Rejection::NeedsWebhook`] if the webhook has to be asked first.
    fn converted(&self, converter: &Arc<ConversionWebhook>, object: &Value, version: &Str) -> Result<Value, Rejection>;
}

/// Fields of an event: the name in the core group, and the name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts a stored object to the version of `resource`.
pub fn to_version(resource: &Resource, mut value: Value) -> Value {
    if let Some(custom) = &resource.custom {
        value = custom.view(&value).unwrap_or(value);
    }
    if tree::text(&value, &["apiVersion"]) == resource.api_version {
        return value;
    }
    match (&*resource.plural, &*resource.api_version) {
        ("events", "events.k8s.io/v1") if !resource.is_custom() => {
            rename(&mut value, EVENT_FIELDS);
            // `events.k8s.io` omits these fields when they are empty.
            for field in ["reportingController", "reportingInstance"] {
                if tree::text(&value, &[field]).is_empty() {
                    tree::remove(&mut value, &[field]);
                }
            }
        }
        ("horizontalpodautoscalers", "autoscaling/v1") => autoscaler::to_v1(&mut value),
        _ => {}
    }
    tree::set(&mut value, &["apiVersion"], resource.api_version.clone());
    value
}

/// Converts a stored object to the version of `resource`, for a write.
///
/// Without `control`, an object that only a webhook could convert stays in its storage version: the
/// server's own writes change metadata only.
pub fn to_change<'a>(
    resource: &Resource,
    value: &'a Value,
    control: Option<&dyn ConvertWrite>,
) -> Result<Cow<'a, Value>, Rejection> {
    if !resource.is_custom() && tree::text(value, &["apiVersion"]) == resource.api_version {
        return Ok(Cow::Borrowed(value));
    }
    let Some(converter) = resource.custom.as_ref().and_then(|custom| custom.converter.as_ref()) else {
        return Ok(Cow::Owned(to_version(resource, value.clone())));
    };
    let Some(control) = control else { return Ok(Cow::Borrowed(value)) };
    let is_foreign = tree::text(value, &["apiVersion"]) != resource.api_version;
    let value = if is_foreign { control.converted(converter, value, &resource.api_version)? } else { value.clone() };
    Ok(Cow::Owned(to_version(resource, value)))
}

/// Converts an object between versions of a resource, for a write. It may be in the storage
/// version.
///
/// Does not prune fields, because the result is converted back.
pub fn across<'v>(
    from: &Resource,
    to: &Resource,
    value: &'v Value,
    control: &dyn ConvertWrite,
) -> Result<Cow<'v, Value>, Rejection> {
    match to.custom.as_ref().and_then(|custom| custom.converter.as_ref()) {
        _ if tree::text(value, &["apiVersion"]) == to.api_version => Ok(Cow::Borrowed(value)),
        Some(converter) => control.converted(converter, value, &to.api_version).map(Cow::Owned),
        None => Ok(Cow::Owned(plainly_across(from, to, value))),
    }
}

/// Like [`across`], but awaits conversion webhooks.
pub async fn across_now(
    clients: &WebhookClients,
    from: &Resource,
    to: &Resource,
    value: &Value,
) -> Result<Value, String> {
    match to.custom.as_ref().and_then(|custom| custom.converter.as_ref()) {
        _ if tree::text(value, &["apiVersion"]) == to.api_version => Ok(value.clone()),
        Some(converter) => webhook::PendingConversion::new(converter, value, &to.api_version).ask(clients).await,
        None => Ok(plainly_across(from, to, value)),
    }
}

fn plainly_across(from: &Resource, to: &Resource, value: &Value) -> Value {
    if !to.is_custom() {
        return to_version(to, to_stored(from, value.clone()));
    }
    let mut value = value.clone();
    tree::set(&mut value, &["apiVersion"], to.api_version.clone());
    value
}

/// A custom object that has been checked in the version of `resource`, in the version that is
/// stored.
pub fn settle(resource: &Resource, value: &mut Value, control: Option<&dyn ConvertWrite>) -> Result<(), Rejection> {
    let Some(custom) = &resource.custom else { return Ok(()) };
    if let Some(converter) = &custom.converter {
        let Some(control) = control else { return Ok(()) };
        if tree::text(value, &["apiVersion"]) != custom.storage_version {
            *value = control.converted(converter, value, &custom.storage_version)?;
        }
    }
    custom.storage_schema.prune_and_default(value);
    tree::set(value, &["apiVersion"], custom.storage_version.clone());
    shorten_numbers(value);
    Ok(())
}

/// Encodes integral numbers without decimals, as Go does: `1.0` is stored as `1`.
fn shorten_numbers(value: &mut Value) {
    match value {
        // Larger floats may not be exact integers.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < (1_u64 << 53) as f64 => {
            *value = Value::Int(*number as i64);
        }
        Value::Array(list) => list.iter_mut().for_each(shorten_numbers),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| shorten_numbers(field)),
        _ => {}
    }
}

/// Converts an object from the version of `resource` to the storage version. Custom objects are
/// converted later, by [`settle`].
pub fn to_stored(resource: &Resource, mut value: Value) -> Value {
    let api_version: Str = match (&*resource.plural, &*resource.api_version) {
        ("events", "events.k8s.io/v1") if !resource.is_custom() => {
            rename(&mut value, EVENT_FIELDS.map(|(core, new)| (new, core)));
            "v1".into()
        }
        ("horizontalpodautoscalers", "autoscaling/v1") => {
            autoscaler::from_v1(&mut value);
            "autoscaling/v2".into()
        }
        _ => return value,
    };
    tree::set(&mut value, &["apiVersion"], api_version);
    value
}

fn rename<const N: usize>(value: &mut Value, fields: [(&str, &str); N]) {
    for (from, to) in fields {
        if let Some(field) = tree::remove(value, &[from]) {
            tree::set(value, &[to], field);
        }
    }
}
