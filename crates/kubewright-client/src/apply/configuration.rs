//! Partial objects for server-side apply.

use std::fmt;
use std::marker::PhantomData;

use kubewright_core::apply_configuration::{ApplyFields, ApplyObject, ApplyPart, ApplySchema};
use kubewright_core::message::Message;
use kubewright_core::scheme::KindInfo;
use kubewright_core::{Decoder, DynamicObject, Finding, GroupVersionKind, Kind, Value};

use crate::error::{Error, Result};

/// A set of fields of an object of type `T`, addressed by path.
///
/// Built-in kinds have builders with typed setters, such as
/// [`DeploymentApply`](kubewright_api::apps::v1::DeploymentApply). This type is for paths that are
/// only known at run time. They are checked when they are set.
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
    fields: ApplyFields,
    of: PhantomData<fn() -> T>,
}

impl<T: Kind + Message + Default> ApplyConfiguration<T> {
    /// A configuration with only the name.
    pub fn new(name: &str) -> Self {
        let metadata = Value::Object([("name", Value::from(name))].into());
        let mut configuration = Self::default();
        configuration.fields.set("metadata", metadata);
        configuration
    }

    /// Sets a field, creating parent objects.
    ///
    /// # Errors
    /// If the type has no such field, or the value has the wrong type.
    pub fn set(mut self, path: &[&str], value: impl Into<Value>) -> Result<Self> {
        let mut object = self.to_dynamic()?;
        object.set(path, value).map_err(|error| Error::InvalidRequest(error.to_string()))?;
        let mut tree = Value::from_json(&kubewright_core::Object::to_json(&object))?;
        for name in ["apiVersion", "kind"] {
            tree.as_object_mut().and_then(|members| members.remove(name));
        }
        self.fields = ApplyFields::from_value(tree);
        self.check()?;
        Ok(self)
    }

    /// The fields as a dynamic object.
    ///
    /// # Errors
    /// If the metadata is invalid.
    pub fn to_dynamic(&self) -> Result<DynamicObject> {
        let kind = GroupVersionKind::from(&T::RESOURCE.kind);
        let mut object: DynamicObject = self.fields.to_value().to_string().parse()?;
        object.api_version = kind.api_version().into();
        object.kind = kind.kind;
        Ok(object)
    }

    fn check(&self) -> Result<()> {
        let mut decoder = Decoder::new().report_findings();
        let json = self.fields.to_value().to_string();
        decoder.json_into(&mut T::default(), json.as_bytes()).map_err(refused)?;
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

impl<T> ApplyPart for ApplyConfiguration<T> {
    fn fields(&self) -> &ApplyFields {
        &self.fields
    }

    fn fields_mut(&mut self) -> &mut ApplyFields {
        &mut self.fields
    }
}

impl<T: Kind + Message + Default> ApplyObject for ApplyConfiguration<T> {
    type Object = T;

    fn kind() -> KindInfo {
        T::RESOURCE.kind
    }

    fn schema() -> ApplySchema {
        ApplySchema::Table(T::default().scheme())
    }
}

impl<T> Default for ApplyConfiguration<T> {
    fn default() -> Self {
        ApplyConfiguration { fields: ApplyFields::default(), of: PhantomData }
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

/// Prints names of fields only, because values may be secret.
impl<T> fmt::Debug for ApplyConfiguration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApplyConfiguration").field(&self.fields).finish()
    }
}
