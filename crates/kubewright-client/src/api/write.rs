//! Create, update, patch and apply.

use std::any::TypeId;

use http::Method;
use kubewright_core::json::Writer;
use kubewright_core::options::{ApplyOptions, CreateOptions, Patch, PatchOptions, PatchType, UpdateOptions};
use kubewright_core::{DynamicObject, Object, Value};

use super::{Api, HasStatus, SubresourceApi, accepting};
use crate::error::{Error, Result};

impl<T: Object> Api<T> {
    /// Creates an object and returns the stored object.
    ///
    /// # Errors
    /// [`is_already_exists`](Error::is_already_exists) if an object of its name exists.
    #[doc(alias = "Create")]
    pub async fn create(&self, object: &T) -> Result<T> {
        self.create_with(object, &CreateOptions::default()).await
    }

    /// Like [`create`](Self::create), with options.
    pub async fn create_with(&self, object: &T, options: &CreateOptions) -> Result<T> {
        let request = self.endpoint.request(Method::POST).options(|query| options.append_query(query));
        accepting::<T>(request).object(object).send().await?.decode()
    }

    /// Replaces the object of the same name. Its version must be the latest, unless it has none.
    ///
    /// # Errors
    /// [`is_conflict`](Error::is_conflict) if the version is stale; see
    /// [`retry_on_conflict`](crate::retry_on_conflict).
    #[doc(alias = "Update")]
    pub async fn update(&self, object: &T) -> Result<T> {
        self.update_with(object, &UpdateOptions::default()).await
    }

    /// Like [`update`](Self::update), with options.
    pub async fn update_with(&self, object: &T, options: &UpdateOptions) -> Result<T> {
        let request = self.request_of(Method::PUT, object.name()).options(|query| options.append_query(query));
        accepting::<T>(request).object(object).send().await?.decode()
    }

    /// Patches an object.
    #[doc(alias = "Patch")]
    pub async fn patch(&self, name: &str, patch: Patch) -> Result<T> {
        self.patch_with(name, patch, &PatchOptions::default()).await
    }

    /// Like [`patch`](Self::patch), with options.
    pub async fn patch_with(&self, name: &str, patch: Patch, options: &PatchOptions) -> Result<T> {
        let request = self.request_of(Method::PATCH, name).options(|query| options.append_query(query));
        accepting::<T>(request).patch(patch).send().await?.decode()
    }

    /// Applies these fields with server-side apply and takes ownership of them. Fields that are not
    /// set in `object` are left unchanged.
    ///
    /// An optional field is set if it is `Some`, also if that is zero: `replicas: Some(0)` is sent.
    /// A struct with nothing set is not sent, unless its presence is meaningful, as with
    /// `emptyDir`. A required number, boolean or string cannot be absent in its type. If it is
    /// zero, it is sent only if a sibling field is set. Types serialised by serde, such as custom
    /// resources, send everything but `null`.
    ///
    /// [`apply_configuration`](Self::apply_configuration) states the fields explicitly.
    ///
    /// # Errors
    /// [`is_conflict`](Error::is_conflict) if other managers own fields that would change, unless
    /// forced. An object with managed fields was read from a server and is rejected: applying it
    /// would claim all its fields.
    #[doc(alias = "Apply")]
    pub async fn apply(&self, object: &T, options: &ApplyOptions) -> Result<T> {
        let body = apply_body(object, &self.endpoint.resource)?;
        let options = PatchOptions::from(options.clone());
        self.patch_with(object.name(), PatchType::Apply.with_body(body), &options).await
    }
}

impl<T: HasStatus> Api<T> {
    /// Replaces the status of the object of the same name; the server ignores everything else in
    /// `object`.
    #[doc(alias = "UpdateStatus")]
    pub async fn update_status(&self, object: &T) -> Result<T> {
        self.status().update_with(object.name(), object, &UpdateOptions::default()).await
    }

    /// Patches the status of an object.
    #[doc(alias = "PatchStatus")]
    pub async fn patch_status(&self, name: &str, patch: Patch) -> Result<T> {
        self.status().patch_with(name, patch, &PatchOptions::default()).await
    }

    /// Applies the status of an object with server-side apply.
    #[doc(alias = "ApplyStatus")]
    pub async fn apply_status(&self, object: &T, options: &ApplyOptions) -> Result<T> {
        self.status().apply(object.name(), object, options).await
    }

    /// The status subresource.
    pub fn status(&self) -> SubresourceApi<T> {
        self.subresource("status")
    }
}

/// The body of a request that applies `object`.
pub(super) fn apply_body<T: Object>(object: &T, resource: &kubewright_core::GroupVersionResource) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    object.write_json(&mut Writer::new(&mut json).as_apply());
    // Applied objects rarely have managed fields, so the text is searched before it is decoded.
    let mentions = json.windows(MANAGED_FIELDS.len()).any(|window| window == MANAGED_FIELDS);
    if mentions && !DynamicObject::from_typed(object)?.metadata.managed_fields.is_empty() {
        let problem =
            format!("cannot apply {} {:?}: metadata.managedFields must be unset", resource.resource, object.name());
        return Err(Error::InvalidRequest(problem));
    }
    // serde writes `null` for an unset `Option`. In dynamic objects and generated types a `null`
    // was set explicitly.
    let is_serde = !T::HAS_PROTOBUF && TypeId::of::<T>() != TypeId::of::<DynamicObject>();
    if is_serde && json.windows(NULL.len()).any(|window| window == NULL) {
        let mut tree = Value::from_json(&json)?;
        remove_nulls(&mut tree);
        json = tree.to_string().into_bytes();
    }
    Ok(json)
}

/// Removes `null` members. List items keep their positions.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !matches!(member, Value::Null));
            members.iter_mut().for_each(|(_, member)| remove_nulls(member));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

const MANAGED_FIELDS: &[u8] = b"\"managedFields\"";
const NULL: &[u8] = b"null";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_values_from_serde_are_removed() {
        let json = r#"{"spec":{"size":0,"colour":null,"parts":[{"a":null,"b":""},null]},"status":null}"#;
        let mut tree = Value::from_json(json.as_bytes()).unwrap();
        remove_nulls(&mut tree);
        assert_eq!(tree.to_string(), r#"{"spec":{"parts":[{"b":""},null],"size":0}}"#);
    }
}
