//! Admission requests.

use kubewright_api::authentication::v1::UserInfo;
use kubewright_core::meta::v1::Status;
use kubewright_core::{Decoder, GroupVersionKind, GroupVersionResource, Object, Str, Value};
use kubewright_merge::patch::{create_json_patch, create_merge_patch, merge_patch};

use super::response::AdmissionResponse;
use super::tree;

/// The operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A creation.
    Create,
    /// An update.
    Update,
    /// A deletion.
    Delete,
    /// A connection to a subresource, such as `exec`.
    Connect,
}

/// A write of an object of type `T` to be admitted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdmissionRequest<T> {
    /// The id of the request, which the response repeats.
    pub uid: Str,
    /// The kind of the object, as the webhook expects it.
    pub kind: GroupVersionKind,
    /// The resource, as the webhook expects it.
    pub resource: GroupVersionResource,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: Str,
    /// The original kind of the object, if known.
    pub request_kind: Option<GroupVersionKind>,
    /// The original resource, if known.
    pub request_resource: Option<GroupVersionResource>,
    /// The name; empty if the server generates one.
    pub name: Str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The operation.
    pub operation: Operation,
    /// The requester.
    pub user: UserInfo,
    /// The new object; `None` for a deletion.
    pub object: Option<T>,
    /// The existing object; `None` for a creation.
    pub old_object: Option<T>,
    /// Whether the write is a dry run, so that there must be no side effects.
    pub dry_run: bool,
    /// The options of the write, such as `CreateOptions`.
    pub options: Value,
    /// The object as sent, including fields that the type does not know.
    pub raw_object: Value,
}

impl<T: Object> AdmissionRequest<T> {
    /// Parses the `request` of a review.
    ///
    /// # Errors
    /// A message, if it is not for such an object.
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

    /// Allows the write with the changes that `change` makes to its object. Without an object, as
    /// for a deletion, the write is just allowed.
    #[doc(alias = "CustomDefaulter")]
    pub fn mutate(&self, change: impl FnOnce(&mut T)) -> AdmissionResponse {
        let Some(mut object) = self.object.clone() else { return AdmissionResponse::allow() };
        change(&mut object);
        self.replace_by(&object)
    }

    /// Allows the write with `object` instead of its own.
    ///
    /// Only differences in fields of the type are changed, so unknown fields stay.
    #[doc(alias = "PatchResponseFromRaw")]
    pub fn replace_by(&self, object: &T) -> AdmissionResponse {
        let Some(own) = &self.object else { return AdmissionResponse::allow() };
        let patch = || {
            let (before, after) = (tree::of_object(own)?, tree::of_object(object)?);
            // The encoding of the type and the sent object may differ in empty fields; a merge
            // patch applies to both.
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
    use kubewright_merge::patch::json_patch;

    use super::*;

    fn request(object: &str) -> AdmissionRequest<ConfigMap> {
        let text = format!(r#"{{"uid":"1","operation":"CREATE","object":{object}}}"#);
        AdmissionRequest::read(&Value::from_json(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_mutation_patch_preserves_unknown_fields() {
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
    fn an_undecodable_object_is_rejected_with_a_message() {
        for (text, why) in [
            (r#"{"operation":"BURN"}"#, "unknown operation \"BURN\""),
            (r#"{"operation":"CREATE","object":{"data":7}}"#, "object: "),
        ] {
            let refused = AdmissionRequest::<ConfigMap>::read(&Value::from_json(text.as_bytes()).unwrap());
            assert!(refused.unwrap_err().starts_with(why), "{text}");
        }
    }
}
