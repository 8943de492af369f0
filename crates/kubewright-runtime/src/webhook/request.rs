//! Admission requests.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Object, Value};
use kubewright_merge::patch::{create_json_patch, create_merge_patch, merge_patch};

use super::context::{AdmissionContext, Operation};
use super::response::AdmissionResponse;
use super::tree;

/// A write of an object of type `T` to be admitted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdmissionRequest<T> {
    /// The requester, the operation and the names of the object.
    pub context: AdmissionContext,
    /// The new object; `None` for a deletion.
    pub object: Option<T>,
    /// The existing object; `None` for a creation.
    pub old_object: Option<T>,
    /// The object as sent, including fields that the type does not know.
    pub raw_object: Value,
}

impl<T: Object> AdmissionRequest<T> {
    /// Parses the `request` of a review.
    ///
    /// # Errors
    /// A message, if it is not for such an object.
    pub(super) fn read(request: &Value) -> Result<Self, String> {
        let context = AdmissionContext::read(request)?;
        // A rule may match a subresource with objects of another kind, such as Scale.
        if let Some(expected) = T::static_kind().filter(|expected| context.kind != *expected) {
            return Err(format!("expected an object of {expected}, got {}", context.kind));
        }
        Ok(AdmissionRequest {
            context,
            object: object("object", request)?,
            old_object: object("oldObject", request)?,
            raw_object: request.get("object").cloned().unwrap_or_default(),
        })
    }

    /// The new object, and the existing one for an update.
    ///
    /// # Errors
    /// A message, if the request lacks one of them.
    pub(super) fn written(&self) -> Result<(&T, Option<&T>), &'static str> {
        let new = self.object.as_ref().ok_or("the request has no object")?;
        match &self.old_object {
            None if self.context.operation == Operation::Update => Err("the request has no oldObject"),
            old => Ok((new, old.as_ref())),
        }
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

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::ConfigMap;
    use kubewright_merge::patch::json_patch;

    use super::*;

    const KIND: &str = r#""kind":{"group":"","version":"v1","kind":"ConfigMap"}"#;

    fn request(object: &str) -> AdmissionRequest<ConfigMap> {
        let text = format!(r#"{{"uid":"1",{KIND},"operation":"CREATE","object":{object}}}"#);
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
        let scale = r#""kind":{"group":"autoscaling","version":"v1","kind":"Scale"}"#;
        for (text, why) in [
            (format!(r#"{{{KIND},"operation":"BURN"}}"#), "unknown operation \"BURN\""),
            (format!(r#"{{{KIND},"operation":"CREATE","object":{{"data":7}}}}"#), "object: "),
            (format!(r#"{{{scale},"operation":"UPDATE"}}"#), "expected an object of /v1, Kind=ConfigMap, got auto"),
        ] {
            let refused = AdmissionRequest::<ConfigMap>::read(&Value::from_json(text.as_bytes()).unwrap());
            assert!(refused.unwrap_err().starts_with(why), "{text}");
        }
    }
}
