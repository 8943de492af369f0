//! What a webhook of admission is asked.

use kubewright_api::authentication::v1::UserInfo;
use kubewright_core::meta::v1::Status;
use kubewright_core::patch::{create_json_patch, create_merge_patch, merge_patch};
use kubewright_core::{Decoder, GroupVersionKind, GroupVersionResource, Object, Str, Value};

use super::response::AdmissionResponse;
use super::tree;

/// What is to be done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// It is to be created.
    Create,
    /// It is to be changed.
    Update,
    /// It is to be deleted.
    Delete,
    /// A subresource is to be connected to, such as `exec`.
    Connect,
}

/// A write that a webhook is asked about, of objects of type `T`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdmissionRequest<T> {
    /// Names this question; the answer carries it by itself.
    pub uid: Str,
    /// The kind of the object as the webhook has asked for it.
    pub kind: GroupVersionKind,
    /// The resource as the webhook has asked for it.
    pub resource: GroupVersionResource,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: Str,
    /// The kind of the object as it was sent, where that is known.
    pub request_kind: Option<GroupVersionKind>,
    /// The resource as it was asked for, where that is known.
    pub request_resource: Option<GroupVersionResource>,
    /// The name; empty if the server is to make one.
    pub name: Str,
    /// The namespace; empty for objects of the cluster.
    pub namespace: Str,
    /// What is to be done.
    pub operation: Operation,
    /// Who asks for it.
    pub user: UserInfo,
    /// The object as it is to be; absent in deletions.
    pub object: Option<T>,
    /// The object as it is; absent in creations.
    pub old_object: Option<T>,
    /// Whether nothing is written in the end, so that nothing else must happen either.
    pub dry_run: bool,
    /// The options of the write, such as `CreateOptions`.
    pub options: Value,
    /// The object as it was sent, with fields that the type may not know.
    pub raw_object: Value,
}

impl<T: Object> AdmissionRequest<T> {
    /// Reads the `request` of a review.
    ///
    /// # Errors
    /// In words, if it is none of such an object.
    pub(super) fn read(request: &Value) -> Result<Self, String> {
        let text = |field: &str| Str::from(request.get(field).and_then(Value::as_str).unwrap_or_default());
        let operation = match &*text("operation") {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            other => return Err(format!("unknown operation {other:?}")),
        };
        let user = request.get("userInfo").map(|user| Decoder::new().json(user.to_string().as_bytes())).transpose();
        Ok(AdmissionRequest {
            uid: text("uid"),
            kind: kind(request.get("kind")).unwrap_or_default(),
            resource: resource(request.get("resource")).unwrap_or_default(),
            subresource: text("subResource"),
            request_kind: kind(request.get("requestKind")),
            request_resource: resource(request.get("requestResource")),
            name: text("name"),
            namespace: text("namespace"),
            operation,
            user: user.map_err(|error| format!("userInfo: {error}"))?.unwrap_or_default(),
            object: object("object", request)?,
            old_object: object("oldObject", request)?,
            dry_run: request.get("dryRun").and_then(Value::as_bool).unwrap_or_default(),
            options: request.get("options").cloned().unwrap_or_default(),
            raw_object: request.get("object").cloned().unwrap_or_default(),
        })
    }

    /// Lets the write pass with what `change` changes in its object. Where there is none, as in deletions, it just passes.
    #[doc(alias = "CustomDefaulter")]
    pub fn mutate(&self, change: impl FnOnce(&mut T)) -> AdmissionResponse {
        let Some(mut object) = self.object.clone() else { return AdmissionResponse::allow() };
        change(&mut object);
        self.replace_by(&object)
    }

    /// Lets the write pass with `object` in place of its own.
    ///
    /// Only what differs between the two as the type sees them is changed, so that fields which the type does not know stay.
    #[doc(alias = "PatchResponseFromRaw")]
    pub fn replace_by(&self, object: &T) -> AdmissionResponse {
        let Some(own) = &self.object else { return AdmissionResponse::allow() };
        let patch = || {
            let (before, after) = (tree::of_object(own)?, tree::of_object(object)?);
            // What the type writes and what was sent may differ in fields that are empty; a merge patch applies to both.
            let changed = merge_patch(&self.raw_object, &create_merge_patch(&before, &after))?;
            Ok::<_, crate::BoxError>(create_json_patch(&self.raw_object, &changed))
        };
        match patch() {
            Ok(patch) => AdmissionResponse::allow().patch(patch),
            Err(error) => AdmissionResponse::status(Status::internal(error)),
        }
    }
}

fn object<T: Object>(field: &str, request: &Value) -> Result<Option<T>, String> {
    let Some(value) = request.get(field).filter(|value| !value.is_null()) else { return Ok(None) };
    tree::to_object(value).map(Some).map_err(|error| format!("{field}: {error}"))
}

fn kind(value: Option<&Value>) -> Option<GroupVersionKind> {
    let text = |field: &str| value.and_then(|value| value.get(field)?.as_str()).unwrap_or_default().to_owned();
    value?.as_object()?;
    Some(GroupVersionKind::new(text("group"), text("version"), text("kind")))
}

fn resource(value: Option<&Value>) -> Option<GroupVersionResource> {
    let text = |field: &str| value.and_then(|value| value.get(field)?.as_str()).unwrap_or_default().to_owned();
    value?.as_object()?;
    Some(GroupVersionResource::new(text("group"), text("version"), text("resource")))
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::ConfigMap;
    use kubewright_core::patch::json_patch;

    use super::*;

    fn request(object: &str) -> AdmissionRequest<ConfigMap> {
        let text = format!(r#"{{"uid":"1","operation":"CREATE","object":{object}}}"#);
        AdmissionRequest::read(&Value::from_json(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_change_is_a_patch_of_what_was_sent_with_fields_that_nobody_knows() {
        let sent = r#"{"metadata":{"name":"a","labels":null},"data":{"a/b":"1","c":"2"},"fromTheFuture":{"x":1}}"#;
        let request = request(sent);
        let response = request.mutate(|map| {
            map.data.insert("a/b", "3".into());
            map.data.remove("c");
            map.metadata.labels.insert("new", "yes".into());
        });
        let patched = json_patch(&request.raw_object, response.json_patch().unwrap()).unwrap();
        let wanted = r#"{"metadata":{"name":"a","labels":{"new":"yes"}},"data":{"a/b":"3"},"fromTheFuture":{"x":1}}"#;
        assert_eq!(patched, Value::from_json(wanted.as_bytes()).unwrap());
    }

    #[test]
    fn no_change_is_no_patch() {
        let response = request(r#"{"metadata":{"name":"a","creationTimestamp":null}}"#).mutate(|_| {});
        assert!(response.is_allowed() && response.json_patch().is_none());
    }

    #[test]
    fn what_cannot_be_read_is_told_in_words() {
        for (text, why) in [
            (r#"{"operation":"BURN"}"#, "unknown operation \"BURN\""),
            (r#"{"operation":"CREATE","object":{"data":7}}"#, "object: "),
        ] {
            let refused = AdmissionRequest::<ConfigMap>::read(&Value::from_json(text.as_bytes()).unwrap());
            assert!(refused.unwrap_err().starts_with(why), "{text}");
        }
    }
}
