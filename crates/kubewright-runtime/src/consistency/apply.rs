//! Typed server-side apply in a reconciler.

use kubewright_client::apply::ApplyObject;
use kubewright_client::{HasStatus, Result};
use kubewright_core::options::ApplyOptions;
use kubewright_core::{Object, ObjectKey, Value, json};

use super::own_api::{Freshness, OwnApi};
use crate::error::BoxError;
use crate::ownership::{OwnerError, controller_reference, set_controller_reference};

impl<K: Object> OwnApi<K> {
    /// Applies a configuration, such as a `DeploymentApply`. See
    /// [`Api::apply_configuration`](kubewright_client::Api::apply_configuration).
    pub async fn apply_configuration<A: ApplyObject<Object = K>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<K> {
        self.wrote(self.untracked().apply_configuration(wanted, options).await)
    }

    /// Applies a configuration of an object that `owner` controls, with its owner reference.
    ///
    /// An existing object without a controller, or with another one, stays unchanged. The uid of
    /// the object is a precondition of the request, so one that takes its name meanwhile stays
    /// unchanged, too. Only if no object of the name existed, one that is created between the read
    /// and the request is taken over.
    ///
    /// # Errors
    /// If the object is not controlled by `owner`, or `owner` is in another namespace; a stale
    /// cache; and the errors of the server.
    #[doc(alias = "SetControllerReference")]
    pub async fn apply_controlled<A: ApplyObject<Object = K>>(
        &self,
        owner: &impl Object,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<K, BoxError> {
        let (name, namespace) = (wanted.name().unwrap_or_default(), owner.namespace());
        if !namespace.is_empty() && namespace != self.namespace().as_str() {
            let object = ObjectKey::namespaced(self.namespace(), name);
            return Err(OwnerError::OtherNamespace { object, owner_namespace: namespace.into() }.into());
        }
        let mut fields = wanted.fields().clone();
        let mut metadata = fields.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(found) = self.get(name, Freshness::AtLeastMyWrites).await? {
            set_controller_reference(owner, &mut (*found).clone())?;
            metadata.insert("uid", Value::from(found.uid()));
        }
        let reference = controller_reference(owner);
        let reference = json!({
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        });
        metadata.insert("ownerReferences", Value::from(vec![reference]));
        fields.set("metadata", Value::Object(metadata));
        Ok(self.apply_configuration(&A::from_fields(fields), options).await?)
    }

    /// Applies a configuration of the status. See
    /// [`Api::apply_status_configuration`](kubewright_client::Api::apply_status_configuration).
    pub async fn apply_status_configuration<A: ApplyObject<Object = K>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<K>
    where
        K: HasStatus,
    {
        self.wrote(self.untracked().apply_status_configuration(wanted, options).await)
    }
}
