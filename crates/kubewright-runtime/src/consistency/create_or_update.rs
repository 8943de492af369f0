//! Creates or updates objects.

use kubewright_core::options::{ApplyOptions, Patch};
use kubewright_core::{Object, Value};
use kubewright_merge::patch::create_merge_patch;

use super::own_api::{Freshness, OwnApi};
use crate::error::BoxError;

/// The result of a create-or-update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationResult {
    /// Nothing: the object was up to date, and no request was sent.
    Unchanged,
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
}

impl<K: Object> OwnApi<K> {
    /// Creates the object of this name, or updates it, by applying `change`.
    ///
    /// `change` receives the cached object, which includes this key's own writes, or a new one.
    /// Nothing is written if it fails. Call
    /// [`set_controller_reference`](crate::ownership::set_controller_reference) in it first, so
    /// that a foreign object of the same name stays unchanged.
    ///
    /// If the object has changed on the server, the result is a conflict. Return that error: the
    /// reconcile is then retried.
    ///
    /// # Errors
    /// The errors of `change` and of the server, and a stale cache.
    #[doc(alias = "CreateOrUpdate")]
    pub async fn create_or_update(
        &self,
        name: &str,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(K, OperationResult), BoxError>
    where
        K: Default,
    {
        self.ensure(name, change, async |_, modified| Ok(self.update(&modified).await?)).await
    }

    /// Like [`create_or_update`](Self::create_or_update), but sends a merge patch with the
    /// differences.
    ///
    /// Other fields may change concurrently. A patch of owner references or finalizers is
    /// conditional on the cached version, because a merge patch replaces whole lists. It is invalid
    /// if another object has taken the name.
    ///
    /// # Errors
    /// The errors of `change` and of the server, and a stale cache.
    #[doc(alias = "CreateOrPatch")]
    pub async fn create_or_patch(
        &self,
        name: &str,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
    ) -> Result<(K, OperationResult), BoxError>
    where
        K: Default,
    {
        let patch = async |original: Vec<u8>, modified: K| {
            let patch = create_merge_patch(&Value::from_json(&original)?, &Value::from_json(&modified.to_json())?);
            Ok(self.patch(name, Patch::merge(guarded(patch, &modified))).await?)
        };
        self.ensure(name, change, patch).await
    }

    /// Applies the fields of `object` as `manager` with server-side apply, taking them over from
    /// other managers.
    ///
    /// # Errors
    /// The errors of the server.
    #[doc(alias = "Apply")]
    pub async fn apply_as(&self, manager: &str, object: &K) -> Result<K, BoxError> {
        Ok(self.apply(object, &ApplyOptions::new(manager).force()).await?)
    }

    async fn ensure(
        &self,
        name: &str,
        change: impl FnOnce(&mut K) -> Result<(), BoxError>,
        write: impl AsyncFnOnce(Vec<u8>, K) -> Result<K, BoxError>,
    ) -> Result<(K, OperationResult), BoxError>
    where
        K: Default,
    {
        let Some(found) = self.get(name, Freshness::AtLeastMyWrites).await? else {
            let mut object = K::default();
            object.set_name(name);
            object.set_namespace(&self.namespace());
            change(&mut object)?;
            return Ok((self.create(&object).await?, OperationResult::Created));
        };
        // Compared in serialised form, which every type supports.
        let original = found.to_json();
        let mut modified = (*found).clone();
        change(&mut modified)?;
        if modified.to_json() == original {
            return Ok((modified, OperationResult::Unchanged));
        }
        Ok((write(original, modified).await?, OperationResult::Updated))
    }
}

/// A merge patch with preconditions: it is rejected if another object has taken the name, or if it
/// would replace a metadata list that has changed.
fn guarded(mut patch: Value, object: &impl Object) -> Value {
    let Some(fields) = patch.as_object_mut() else { return patch };
    if !matches!(fields.get("metadata"), Some(Value::Object(_))) {
        fields.insert("metadata", Value::Object(Default::default()));
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        if metadata.get("ownerReferences").or(metadata.get("finalizers")).is_some() {
            metadata.insert("resourceVersion", Value::from(object.resource_version()));
        }
        metadata.insert("uid", Value::from(object.uid()));
    }
    patch
}

#[cfg(test)]
mod tests {
    use kubewright_core::{DynamicObject, json};

    use super::*;

    #[test]
    fn a_patch_is_for_the_object_that_was_read() {
        let object: DynamicObject = r#"{"kind":"Foo","metadata":{"uid":"5","resourceVersion":"7"}}"#.parse().unwrap();
        for (patch, want) in [
            (json!({"spec": 1}), json!({"spec": 1, "metadata": {"uid": "5"}})),
            (json!({"metadata": {"labels": {}}}), json!({"metadata": {"labels": {}, "uid": "5"}})),
            (
                json!({"metadata": {"ownerReferences": []}}),
                json!({"metadata": {"ownerReferences": [], "resourceVersion": "7", "uid": "5"}}),
            ),
            (
                json!({"metadata": {"finalizers": null}}),
                json!({"metadata": {"finalizers": null, "resourceVersion": "7", "uid": "5"}}),
            ),
        ] {
            assert_eq!(guarded(patch, &object), want);
        }
    }
}
