//! Partial objects for server-side apply.

use std::fmt;
use std::marker::PhantomData;

use kubewright_core::json::Reader;
use kubewright_core::message::Message;
use kubewright_core::options::ApplyOptions;
use kubewright_core::{Decoder, DynamicObject, Finding, GroupVersionKind, Kind, Object, Value};
use kubewright_merge::apply::{FieldSet, MergeSchema, keep_fields};

use crate::api::{Api, HasStatus};
use crate::error::{Error, Result};

/// A set of fields of an object of type `T`, for server-side apply.
///
/// ```
/// # use kubewright_client::apply::ApplyConfiguration;
/// # use kubewright_api::apps::v1::Deployment;
/// let web = ApplyConfiguration::<Deployment>::new("web")
///     .set(&["metadata", "labels", "tier"], "front")?
///     .set(&["spec", "replicas"], 3)?;
/// assert!(web.clone().set(&["spec", "replica"], 3).is_err());
/// # Ok::<(), kubewright_client::Error>(())
/// ```
pub struct ApplyConfiguration<T> {
    fields: DynamicObject,
    of: PhantomData<fn() -> T>,
}

impl<T: Kind + Message + Default> ApplyConfiguration<T> {
    /// A configuration with only the name.
    pub fn new(name: &str) -> Self {
        let kind = GroupVersionKind::from(&T::RESOURCE.kind);
        ApplyConfiguration { fields: DynamicObject::new(&kind, name), of: PhantomData }
    }

    /// Sets a field, creating parent objects.
    ///
    /// # Errors
    /// If the type has no such field, or the value has the wrong type.
    pub fn set(mut self, path: &[&str], value: impl Into<Value>) -> Result<Self> {
        self.fields.set(path, value).map_err(|error| Error::InvalidRequest(error.to_string()))?;
        self.check()?;
        Ok(self)
    }

    /// The fields as a dynamic object.
    pub fn fields(&self) -> &DynamicObject {
        &self.fields
    }

    /// The fields that `manager` has applied to an object, to be changed and applied again. `None`
    /// if it has applied nothing.
    ///
    /// # Errors
    /// If the object's managed fields cannot be understood.
    #[doc(alias = "Extract")]
    #[doc(alias = "ExtractInto")]
    pub fn extract(object: &T, manager: &str) -> Result<Option<Self>> {
        Self::extract_part(object, manager, "")
    }

    /// Like [`extract`](Self::extract), for the status.
    #[doc(alias = "ExtractStatus")]
    pub fn extract_status(object: &T, manager: &str) -> Result<Option<Self>> {
        Self::extract_part(object, manager, "status")
    }

    fn extract_part(object: &T, manager: &str, subresource: &str) -> Result<Option<Self>> {
        let whole = DynamicObject::from_typed(object)?;
        let entry = whole.metadata.managed_fields.iter().find(|entry| {
            entry.manager.as_deref() == Some(manager)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().unwrap_or_default() == subresource
        });
        let Some(entry) = entry else { return Ok(None) };
        let owned = entry.fields_v1.as_ref().map(|fields| fields.to_value()).transpose()?.unwrap_or_default();
        let not_understood = || Error::Decode(kubewright_core::DecodeError::new("managed fields are no set of fields"));
        let owned = FieldSet::from_value(&owned).ok_or_else(not_understood)?;
        let value = Value::from_json(&object.to_json())?;
        let kept = keep_fields(&value, &owned, MergeSchema::of(T::default().scheme()));
        let mut configuration = ApplyConfiguration::new(object.name());
        if let Some(kept) = kept {
            let kind = GroupVersionKind::from(&T::RESOURCE.kind);
            let text = kept.to_string();
            let mut decoder = Decoder::new();
            let fields = DynamicObject::from_json(&mut Reader::new(text.as_bytes(), &mut decoder))?;
            configuration.fields = DynamicObject { api_version: kind.api_version().into(), kind: kind.kind, ..fields };
            configuration.fields.set_name(object.name());
        }
        configuration.fields.set_namespace(object.namespace());
        Ok(Some(configuration))
    }

    fn check(&self) -> Result<()> {
        let mut decoder = Decoder::new().report_findings();
        decoder.json_into(&mut T::default(), &self.fields.to_json()).map_err(refused)?;
        match decoder.take_findings().into_iter().next() {
            Some(Finding::UnknownField(path) | Finding::DuplicateField(path)) => {
                Err(Error::InvalidRequest(format!("{} has no field {path}", T::RESOURCE.kind.kind)))
            }
            None => Ok(()),
        }
    }
}

fn refused(error: kubewright_core::DecodeError) -> Error {
    Error::InvalidRequest(error.to_string())
}

impl<T: Kind + Message + Default> Api<T> {
    /// Applies the configuration. Fields that the same manager applied before and that are missing
    /// now are removed.
    ///
    /// # Errors
    /// As [`apply`](Api::apply).
    #[doc(alias = "Apply")]
    pub async fn apply_configuration(&self, wanted: &ApplyConfiguration<T>, options: &ApplyOptions) -> Result<T> {
        self.untyped().apply(&wanted.fields, options).await.and_then(|object| Ok(object.to_typed()?))
    }

    /// Like [`apply_configuration`](Self::apply_configuration), for fields of the status.
    #[doc(alias = "ApplyStatus")]
    pub async fn apply_status_configuration(&self, wanted: &ApplyConfiguration<T>, options: &ApplyOptions) -> Result<T>
    where
        T: HasStatus,
    {
        self.untyped().apply_status(&wanted.fields, options).await.and_then(|object| Ok(object.to_typed()?))
    }

    fn untyped(&self) -> Api<DynamicObject> {
        Api::new(self.client(), self.resource().clone(), self.scope().clone())
    }
}

impl<T> Clone for ApplyConfiguration<T> {
    fn clone(&self) -> Self {
        ApplyConfiguration { fields: self.fields.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for ApplyConfiguration<T> {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl<T> fmt::Debug for ApplyConfiguration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApplyConfiguration").field(&self.fields).finish()
    }
}
