//! Conversion webhooks.
//!
//! Reads wait for it ([`in_version`]). Writes are plain functions that never wait: one that needs
//! an object in another version ends with [`Rejection::NeedsWebhook`] and is done again when the
//! answer is there, as with webhooks that have a say in it.

use std::sync::Arc;
use std::time::Duration;

use kubewright_core::validation::{label_value, qualified_name};
use kubewright_core::{Str, Value};

use crate::object::{Meta, ObjectDraft, StoredObject, text_map, to_json, tree};
use crate::random;
use crate::rejection::Rejection;
use crate::webhook_client::WebhookClients;
use kubewright_resources::catalog::{ConversionWebhook, Resource};

/// Timeout of a webhook call.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A conversion that a write waits for.
#[derive(Debug)]
pub struct PendingConversion {
    converter: Arc<ConversionWebhook>,
    object: Value,
    version: Str,
}

/// The converted object, or the reason why it could not be converted.
pub type Converted = Result<Value, String>;

impl PendingConversion {
    /// A conversion of this object.
    pub fn new(converter: &Arc<ConversionWebhook>, object: &Value, version: &Str) -> Self {
        PendingConversion { converter: Arc::clone(converter), object: object.clone(), version: version.clone() }
    }

    /// Whether this is the conversion of `object` to `version`.
    pub fn is_about(&self, object: &Value, version: &str) -> bool {
        self.version == version && self.object == *object
    }

    /// Calls the webhook.
    pub async fn ask(&self, clients: &WebhookClients) -> Converted {
        let converted = convert(clients, &self.converter, &[&self.object], &self.version).await?;
        converted.into_iter().next().ok_or_else(|| "no objects returned".to_owned())
    }
}

/// Converts objects of one version to another, in one review.
async fn convert(
    clients: &WebhookClients,
    converter: &ConversionWebhook,
    objects: &[&Value],
    version: &str,
) -> Result<Vec<Value>, String> {
    let review = converter.review.ok_or("no supported conversion review versions")?;
    let kind = objects.first().map(|first| shown_kind(first)).unwrap_or_default();
    let fail = |why: String| format!("conversion webhook for {kind} failed: {why}");
    let uid = random::uid();
    let list: Vec<Value> = objects.iter().map(|object| (*object).clone()).collect();
    let request = tree::map([
        ("uid", uid.as_str().into()),
        ("desiredAPIVersion", version.into()),
        ("objects", Value::from(list)),
    ]);
    let api_version = format!("apiextensions.k8s.io/{review}");
    let body = tree::map([
        ("kind", "ConversionReview".into()),
        ("apiVersion", api_version.as_str().into()),
        ("request", request),
    ]);
    let answer = clients.post(&converter.client_config, TIMEOUT, to_json(&body)).await.map_err(fail)?;
    let converted = read(&answer, &api_version, &uid).map_err(fail)?;
    if converted.len() != objects.len() {
        let (have, want) = (converted.len(), objects.len());
        return Err(format!("conversion webhook for {kind} returned {have} objects, expected {want}"));
    }
    let pairs = objects.iter().zip(converted).enumerate();
    pairs.map(|(index, (object, converted))| check(object, converted, version, index)).collect()
}

/// The objects of a response.
fn read(answer: &[u8], api_version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let review = Value::from_json(answer).map_err(|error| format!("the response is not JSON: {error}"))?;
    let is_strict = api_version.ends_with("/v1");
    if is_strict
        && (tree::text(&review, &["kind"]), tree::text(&review, &["apiVersion"])) != ("ConversionReview", api_version)
    {
        let want = "apiextensions.k8s.io/v1, Kind=ConversionReview";
        return Err(format!("expected webhook response of {want}, got {}", shown_kind(&review)));
    }
    let response = review.get("response").filter(|response| !response.is_null()).ok_or("no response provided")?;
    let answered = tree::text(response, &["uid"]);
    if is_strict && answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    match (tree::text(response, &["result", "status"]), tree::text(response, &["result", "message"])) {
        ("Success", _) => Ok(tree::items(response, &["convertedObjects"]).to_vec()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Checks a converted object. Only labels and annotations of its metadata may differ.
fn check(object: &Value, mut converted: Value, version: &str, index: usize) -> Converted {
    let kind = shown_kind(object);
    let refuse =
        |why: String| Err(format!("conversion webhook for {kind} returned invalid object at index {index}: {why}"));
    let text = |value: &Value, field: &str| tree::text(value, &[field]).to_owned();
    let (got, want) = (text(&converted, "apiVersion"), version);
    if got != want {
        return refuse(format!("invalid groupVersion (expected {want}, received {got})"));
    }
    let (got, want) = (text(&converted, "kind"), text(object, "kind"));
    if got != want {
        return refuse(format!("invalid kind (expected {want}, received {got})"));
    }
    for (what, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let (before, after) = (object.meta_text(field), converted.meta_text(field));
        if before != after {
            let why = format!("must have the same {what}: {before} != {after}");
            return Err(format!("conversion webhook for {kind} returned invalid object: {why}"));
        }
    }
    let metadata = restored(object, &converted)
        .map_err(|why| format!("conversion webhook for {kind} returned invalid metadata: {why}"))?;
    tree::set(&mut converted, &["metadata"], metadata);
    Ok(converted)
}

/// The original metadata with the converted labels and annotations.
fn restored(object: &Value, converted: &Value) -> Result<Value, String> {
    let answered = converted.get("metadata").ok_or("missing metadata in converted object")?;
    if answered.as_object().is_none() {
        return Err("metadata in converted object is not an object".to_owned());
    }
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| tree::map([]));
    for field in ["labels", "annotations"] {
        let Some(given) = answered.get(field).filter(|given| !given.is_null()) else {
            tree::remove(&mut metadata, &[field]);
            continue;
        };
        let entries = given.as_object().ok_or_else(|| format!("invalid metadata.{field} in converted object"))?;
        if let Some((key, _)) = entries.iter().find(|(_, value)| value.as_str().is_none()) {
            return Err(format!("metadata.{field}[{key}] must be a string"));
        }
        if object.meta(field) != Some(given) {
            let is_label = field == "labels";
            for (key, value) in text_map(Some(given)).iter() {
                let mut complaints = qualified_name(&if is_label { key.to_string() } else { key.to_lowercase() });
                complaints.extend(if is_label { label_value(value) } else { Vec::new() });
                if let Some(why) = complaints.first() {
                    return Err(format!("metadata.{field}: Invalid value: {:?}: {why}", key.as_str()));
                }
            }
        }
        tree::set(&mut metadata, &[field], given.clone());
    }
    Ok(metadata)
}

/// Version and kind of an object, as in messages.
fn shown_kind(object: &Value) -> String {
    let (api_version, kind) = (tree::text(object, &["apiVersion"]), tree::text(object, &["kind"]));
    let separator = if api_version.contains('/') { "" } else { "/" };
    format!("{separator}{api_version}, Kind={kind}")
}

/// Converts stored objects to the version of a resource, if that needs a webhook.
///
/// # Errors
///
/// The webhook failed. Messages equal those of the real server.
pub async fn in_version(
    clients: &WebhookClients,
    resource: &Resource,
    mut objects: Vec<Arc<StoredObject>>,
) -> Result<Vec<Arc<StoredObject>>, Rejection> {
    let Some(converter) = resource.custom.as_ref().and_then(|custom| custom.converter.as_ref()) else {
        return Ok(objects);
    };
    loop {
        // Convert the objects of one version together. Usually there is only one version.
        let version_of = |object: &StoredObject| Str::from(object.api_version());
        let foreign = objects.iter().map(|object| version_of(object)).find(|version| *version != resource.api_version);
        let Some(version) = foreign else { return Ok(objects) };
        let places: Vec<usize> = (0..objects.len()).filter(|index| version_of(&objects[*index]) == version).collect();
        let trees: Vec<_> = places.iter().map(|place| objects[*place].tree()).collect();
        let values: Vec<&Value> = trees.iter().map(|tree| &**tree).collect();
        let revisions: Vec<_> = values.iter().map(|value| value.resource_version().parse()).collect();
        let converted =
            convert(clients, converter, &values, &resource.api_version).await.map_err(Rejection::unexpected)?;
        drop(trees);
        for ((place, value), revision) in places.into_iter().zip(converted).zip(revisions) {
            let draft = ObjectDraft::new(value);
            objects[place] =
                Arc::new(revision.map_or_else(|_| draft.clone().unstamped(""), |at| draft.clone().stamp(at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        text.parse().expect("valid JSON")
    }

    fn foo(version: &str, metadata: &str) -> Value {
        value(&format!(r#"{{"apiVersion":"e.com/{version}","kind":"Foo","metadata":{metadata}}}"#))
    }

    #[test]
    fn a_conversion_changes_no_metadata_but_labels_and_annotations() {
        let before =
            foo("v1", r#"{"name":"a","uid":"1","resourceVersion":"7","labels":{"a":"b"},"annotations":{"x":"y"}}"#);
        let after = foo("v2", r#"{"name":"a","uid":"1","resourceVersion":"9","finalizers":["f"],"labels":{"c":"d"}}"#);
        let checked = check(&before, after, "e.com/v2", 0).expect("allowed");
        let want = foo("v2", r#"{"name":"a","uid":"1","resourceVersion":"7","labels":{"c":"d"}}"#);
        assert_eq!(checked, want);
    }

    #[test]
    fn a_converted_object_with_a_different_identity_is_rejected() {
        let before = foo("v1", r#"{"name":"a","uid":"1"}"#);
        let refused = |after: Value| check(&before, after, "e.com/v2", 0).expect_err("refused");
        let by = "conversion webhook for e.com/v1, Kind=Foo returned invalid";
        assert_eq!(
            refused(foo("v3", "{}")),
            format!("{by} object at index 0: invalid groupVersion (expected e.com/v2, received e.com/v3)")
        );
        assert_eq!(
            refused(foo("v2", r#"{"name":"b","uid":"1"}"#)),
            format!("{by} object: must have the same name: a != b")
        );
        assert_eq!(refused(foo("v2", r#"{"name":"a"}"#)), format!("{by} object: must have the same UID: 1 != "));
        let labelled = foo("v2", r#"{"name":"a","uid":"1","labels":{"-":"x"}}"#);
        assert!(refused(labelled).starts_with(&format!("{by} metadata: metadata.labels: Invalid value: \"-\"")));
    }

    #[test]
    fn a_response_must_match_its_request() {
        let read = |text: &str| read(text.as_bytes(), "apiextensions.k8s.io/v1", "u");
        let review = |response: &str| {
            format!(r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{response}}}"#)
        };
        assert_eq!(read(&review("null")), Err("no response provided".to_owned()));
        assert_eq!(read(&review(r#"{"uid":"x"}"#)), Err("expected response.uid=\"u\", got \"x\"".to_owned()));
        assert_eq!(
            read(&review(r#"{"uid":"u","result":{"status":"Failed"}}"#)),
            Err("response.result.status was 'Failed', not 'Success'".to_owned())
        );
        assert_eq!(
            read(&review(r#"{"uid":"u","result":{"status":"Failed","message":"cannot"}}"#)),
            Err("cannot".to_owned())
        );
        assert_eq!(
            read("{}"),
            Err("expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=".to_owned())
        );
    }
}
