//! Objects that are served in more versions than the one they are stored in.
//!
//! Custom resources only change their `apiVersion`, and lose and gain what the schema of the other version says, unless
//! their definition names a [`webhook`] that knows more. Of the built-in ones, events are the same objects in two groups
//! with other names for some fields, and autoscalers ([`autoscaler`]) have an old version with few of them.

mod autoscaler;
pub(crate) mod webhook;

use std::borrow::Cow;

use kubewright_core::{Str, Value};

use crate::admission::control::Control;
use crate::catalog::Resource;
use crate::object::tree;
use crate::rejection::Rejection;

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

/// A stored object in the version of `resource`.
pub(crate) fn to_version(resource: &Resource, mut value: Value) -> Value {
    if let Some(custom) = &resource.custom {
        value = custom.view(&value).unwrap_or(value);
    }
    if tree::text(&value, &["apiVersion"]) == resource.api_version {
        return value;
    }
    match (&*resource.plural, &*resource.api_version) {
        ("events", "events.k8s.io/v1") if !resource.is_custom() => {
            rename(&mut value, EVENT_FIELDS);
            // The newer group leaves out what the older one always shows.
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

/// A stored object in the version of `resource`, for a request that writes.
///
/// What the server changes by itself is about metadata only, and stays in the version that it is stored in where only a
/// webhook could convert it.
pub(crate) fn to_change<'a>(
    resource: &Resource,
    value: &'a Value,
    control: Option<&Control<'_>>,
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

/// An object of one version of a resource as another one shows it, for a write. It may be in the version that is stored.
///
/// Nothing is taken from it that the other version does not know, since what becomes of it is to come back.
pub(crate) fn across<'v>(
    from: &Resource,
    to: &Resource,
    value: &'v Value,
    control: &Control<'_>,
) -> Result<Cow<'v, Value>, Rejection> {
    match to.custom.as_ref().and_then(|custom| custom.converter.as_ref()) {
        _ if tree::text(value, &["apiVersion"]) == to.api_version => Ok(Cow::Borrowed(value)),
        Some(converter) => control.converted(converter, value, &to.api_version).map(Cow::Owned),
        None => Ok(Cow::Owned(plainly_across(from, to, value))),
    }
}

/// The same for one who can wait.
pub(crate) async fn across_now(from: &Resource, to: &Resource, value: &Value) -> Result<Value, String> {
    match to.custom.as_ref().and_then(|custom| custom.converter.as_ref()) {
        _ if tree::text(value, &["apiVersion"]) == to.api_version => Ok(value.clone()),
        Some(converter) => webhook::Pending::new(converter, value, &to.api_version).ask().await,
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

/// A custom object that has been checked in the version of `resource`, in the version that is stored.
pub(crate) fn settle(resource: &Resource, value: &mut Value, control: Option<&Control<'_>>) -> Result<(), Rejection> {
    let Some(custom) = &resource.custom else { return Ok(()) };
    if let Some(converter) = &custom.converter {
        let Some(control) = control else { return Ok(()) };
        if tree::text(value, &["apiVersion"]) != custom.storage_version {
            *value = control.converted(converter, value, &custom.storage_version)?;
        }
    }
    custom.storage_schema.complete(value);
    tree::set(value, &["apiVersion"], custom.storage_version.clone());
    shorten_numbers(value);
    Ok(())
}

/// Writes whole numbers without decimals, as Go does: `1.0` is stored as `1`.
fn shorten_numbers(value: &mut Value) {
    match value {
        // Up to here every whole number is exact.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < (1_u64 << 53) as f64 => {
            *value = Value::Int(*number as i64);
        }
        Value::Array(list) => list.iter_mut().for_each(shorten_numbers),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, field)| shorten_numbers(field)),
        _ => {}
    }
}

/// An object of the version of `resource` in the version that is stored. Custom ones wait for [`settle`].
pub(crate) fn to_stored(resource: &Resource, mut value: Value) -> Value {
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
