//! Extracts the fields that a field manager owns.

use kubewright_core::apply_configuration::{ApplyFields, ApplyObject, ApplySchema};
use kubewright_core::meta::v1::OBJECT_META;
use kubewright_core::{DecodeError, DynamicObject, Object, Value};
use kubewright_merge::apply::{FieldSet, MergeSchema, keep_fields};

use crate::error::{Error, Result};

/// Extracts the fields that a manager has applied, to be changed and applied again.
///
/// Applying a configuration removes fields that the same manager applied before and that are
/// missing now. A program that does not know its whole configuration therefore starts with what it
/// owns:
///
/// ```
/// # use kubewright_api::apps::v1::{Deployment, DeploymentApply};
/// # use kubewright_client::{Client, Result, apply::Extract};
/// # use kubewright_core::options::ApplyOptions;
/// # async fn example(client: Client) -> Result<()> {
/// let deployments = client.api::<Deployment>("default");
/// let live = deployments.get("web").await?;
/// let mine = DeploymentApply::extract(&live, "scaler")?.unwrap_or_else(|| DeploymentApply::new("web"));
/// let wanted = mine.spec(|spec| spec.replicas(0));
/// deployments.apply_configuration(&wanted, &ApplyOptions::new("scaler")).await?;
/// # Ok(()) }
/// ```
pub trait Extract: ApplyObject {
    /// The fields that `manager` has applied; `None` if it has applied nothing.
    ///
    /// # Errors
    /// If the managed fields of the object cannot be understood, or are missing: caches drop them
    /// by default, so read the object with [`Api::get`](crate::Api::get).
    #[doc(alias = "ExtractInto")]
    #[doc(alias = "ExtractDeployment")]
    fn extract(object: &Self::Object, manager: &str) -> Result<Option<Self>> {
        Self::extract_subresource(object, manager, "")
    }

    /// Like [`extract`](Self::extract), for the status.
    #[doc(alias = "ExtractStatus")]
    #[doc(alias = "ExtractDeploymentStatus")]
    fn extract_status(object: &Self::Object, manager: &str) -> Result<Option<Self>> {
        Self::extract_subresource(object, manager, "status")
    }

    /// Like [`extract`](Self::extract), for fields applied through this subresource.
    #[doc(alias = "ExtractDeploymentFrom")]
    fn extract_subresource(object: &Self::Object, manager: &str, subresource: &str) -> Result<Option<Self>> {
        let whole = DynamicObject::from_typed(object)?;
        let tree = Value::from_json(&object.to_json())?;
        let schema = Self::schema();
        Ok(owned(&whole, tree, &schema, manager, subresource)?.map(Self::from_fields))
    }
}

impl<A: ApplyObject> Extract for A {}

/// The fields of `tree` that `manager` has applied. Not generic, so that it is compiled once.
fn owned(
    whole: &DynamicObject,
    tree: Value,
    schema: &ApplySchema,
    manager: &str,
    subresource: &str,
) -> Result<Option<ApplyFields>> {
    if whole.metadata.managed_fields.is_empty() && !whole.resource_version().is_empty() {
        let problem = format!("{} {:?} has no managed fields; a cache may have dropped them", whole.kind, whole.name());
        return Err(Error::InvalidRequest(problem));
    }
    let entry = whole.metadata.managed_fields.iter().find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default() == subresource
    });
    let Some(entry) = entry else { return Ok(None) };
    let owned = entry.fields_v1.as_ref().map(|fields| fields.to_value()).transpose()?.unwrap_or_default();
    let not_understood = || Error::Decode(DecodeError::new("managed fields are no set of fields"));
    let owned = FieldSet::from_value(&owned).ok_or_else(not_understood)?;
    let schema = match schema {
        ApplySchema::Table(info) => MergeSchema::of(info),
        ApplySchema::Json(schema) => MergeSchema::described(schema, &OBJECT_META),
    };
    let kept = keep_fields(&tree, &owned, schema).unwrap_or_default();
    let mut fields = ApplyFields::from_value(kept);
    let mut metadata = match fields.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => Default::default(),
    };
    metadata.insert("name", Value::from(whole.name()));
    if !whole.namespace().is_empty() {
        metadata.insert("namespace", Value::from(whole.namespace()));
    }
    fields.set("metadata", Value::Object(metadata));
    Ok(Some(fields))
}
