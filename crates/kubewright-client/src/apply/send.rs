//! Requests that apply a configuration.

use kubewright_core::apply_configuration::ApplyObject;
use kubewright_core::options::{ApplyOptions, PatchOptions, PatchType};
use kubewright_core::{Object, Value};

use crate::api::{Api, HasStatus, SubresourceApi};
use crate::error::{Error, Result};

impl<T: Object> Api<T> {
    /// Applies a configuration, such as a `DeploymentApply`. Exactly the fields that were set are
    /// sent, zero values too. Fields that the same manager applied before and that are missing now
    /// are removed.
    ///
    /// # Errors
    /// As [`apply`](Api::apply); and if the configuration has no name.
    #[doc(alias = "Apply")]
    pub async fn apply_configuration<A: ApplyObject<Object = T>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<T> {
        let (name, body) = (name_of(wanted)?, body(wanted));
        self.patch_with(name, PatchType::Apply.with_body(body), &PatchOptions::from(options.clone())).await
    }

    /// Like [`apply_configuration`](Self::apply_configuration), for fields of the status.
    #[doc(alias = "ApplyStatus")]
    pub async fn apply_status_configuration<A: ApplyObject<Object = T>>(
        &self,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<T>
    where
        T: HasStatus,
    {
        self.status().apply_configuration(name_of(wanted)?, wanted, options).await
    }
}

impl<S: Object> SubresourceApi<S> {
    /// Applies a configuration of the subresource of the object of this name. Exactly the fields
    /// that were set are sent, zero values too.
    ///
    /// # Errors
    /// As [`Api::apply`].
    pub async fn apply_configuration<A: ApplyObject<Object = S>>(
        &self,
        name: &str,
        wanted: &A,
        options: &ApplyOptions,
    ) -> Result<S> {
        self.patch_with(name, PatchType::Apply.with_body(body(wanted)), &PatchOptions::from(options.clone())).await
    }
}

#[cfg(feature = "autoscaling")]
impl<T: crate::api::HasScale> Api<T> {
    /// Applies the number of replicas through the scale of an object.
    ///
    /// The manager then owns `spec.replicas` of the object, and conflicts with other managers of
    /// that field.
    ///
    /// # Errors
    /// As [`apply`](Api::apply).
    #[doc(alias = "ApplyScale")]
    pub async fn apply_scale(
        &self,
        name: &str,
        replicas: i32,
        options: &ApplyOptions,
    ) -> Result<kubewright_api::autoscaling::v1::Scale> {
        let wanted = kubewright_api::autoscaling::v1::ScaleApply::new(name).spec(|spec| spec.replicas(replicas));
        self.scale().apply_configuration(name, &wanted, options).await
    }
}

fn name_of(wanted: &impl ApplyObject) -> Result<&str> {
    let unnamed = || Error::InvalidRequest("a configuration without metadata.name cannot be applied".to_owned());
    wanted.name().filter(|name| !name.is_empty()).ok_or_else(unnamed)
}

fn body<A: ApplyObject>(wanted: &A) -> Vec<u8> {
    let (kind, mut tree) = (A::kind(), wanted.fields().to_value());
    if let Some(members) = tree.as_object_mut() {
        members.insert("apiVersion", Value::from(kind.api_version));
        members.insert("kind", Value::from(kind.kind));
    }
    tree.to_string().into_bytes()
}
