//! The scale subresource of objects of any kind.
//!
//! Types with a scale have methods for it on their [`Api`]. [`ScaleApi`] scales resources that are
//! only known at run time, in the API version of their server: `autoscaling/v1` since 1.9, three
//! others before. Callers only see `autoscaling/v1`.

use http::Method;
use kubewright_api::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use kubewright_core::options::{Patch, PatchOptions};
use kubewright_core::{
    DynamicObject, GroupResource, GroupVersionKind, GroupVersionResource, NamespaceScope, Object, Str, Value,
};

use crate::api::{Api, HasScale, SubresourceApi};
use crate::discovery::RestMapper;
use crate::error::{Error, Result};
use crate::rest::Client;

/// The API versions of scales that servers have used.
const FORMS: [&str; 4] = ["autoscaling/v1", "apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"];

impl<T: HasScale> Api<T> {
    /// The scale of an object.
    #[doc(alias = "GetScale")]
    pub async fn get_scale(&self, name: &str) -> Result<Scale> {
        self.scale().get(name).await
    }

    /// Updates the scale of an object.
    #[doc(alias = "UpdateScale")]
    pub async fn update_scale(&self, name: &str, scale: &Scale) -> Result<Scale> {
        self.scale().update(name, scale).await
    }

    /// Patches the scale of an object.
    #[doc(alias = "PatchScale")]
    pub async fn patch_scale(&self, name: &str, patch: Patch) -> Result<Scale> {
        self.scale().patch(name, patch).await
    }

    /// The scale subresource, for example to apply it.
    #[doc(alias = "ApplyScale")]
    pub fn scale(&self) -> SubresourceApi<Scale> {
        self.subresource("scale")
    }
}

/// The scales of resources that are given at run time, in one namespace.
#[derive(Debug, Clone)]
#[doc(alias = "ScalesGetter")]
#[doc(alias = "ScaleInterface")]
pub struct ScaleApi {
    client: Client,
    mapper: RestMapper,
    namespace: NamespaceScope,
}

impl ScaleApi {
    /// Scales objects in `namespace`, and cluster-scoped ones. `mapper` resolves resources and the
    /// kinds of their scales.
    pub fn new(client: &Client, mapper: RestMapper, namespace: impl Into<NamespaceScope>) -> Self {
        ScaleApi { client: client.clone(), mapper, namespace: namespace.into() }
    }

    /// The scale of an object.
    #[doc(alias = "Get")]
    #[inline]
    pub async fn get(&self, resource: &GroupResource, name: &str) -> Result<Scale> {
        let mapping = self.mapper.resource(resource).await?;
        let answer = mapping
            .api(&self.client, self.namespace.clone())
            .subresource_request(Method::GET, name, "scale")
            .send()
            .await?;
        from_any(&answer.decode()?)
    }

    /// Updates the scale of the object with the scale's name.
    ///
    /// # Errors
    /// [`is_conflict`](Error::is_conflict) if the scale has a version and it is stale.
    #[doc(alias = "Update")]
    #[inline]
    pub async fn update(&self, resource: &GroupResource, scale: &Scale) -> Result<Scale> {
        let mapping = self.mapper.resource(resource).await?;
        let form = self.mapper.scale_kind(&mapping.resource).await?;
        let body = to_form(scale, &form)?;
        let request =
            mapping.api(&self.client, self.namespace.clone()).subresource_request(Method::PUT, scale.name(), "scale");
        from_any(&request.object(&body).send().await?.decode()?)
    }

    /// Patches a scale, in a version that the caller knows.
    #[doc(alias = "Patch")]
    #[inline]
    pub async fn patch(
        &self,
        resource: GroupVersionResource,
        name: &str,
        patch: Patch,
        options: &PatchOptions,
    ) -> Result<Scale> {
        let api = self.client.dynamic(resource).namespace(self.namespace.clone());
        let request = api.subresource_request(Method::PATCH, name, "scale");
        from_any(&request.options(|query| options.append_query(query)).patch(patch).send().await?.decode()?)
    }
}

/// Converts a scale of any version to `autoscaling/v1`.
#[inline]
fn from_any(object: &DynamicObject) -> Result<Scale> {
    if object.kind != "Scale" || !FORMS.contains(&object.api_version.as_str()) {
        let found = format!("expected a scale, found {} {}", object.api_version, object.kind);
        return Err(kubewright_core::DecodeError::new(found).into());
    }
    let replicas = |part: &str| {
        let count = object.data.get(part).and_then(|part| part.get("replicas")).and_then(Value::as_i64);
        count.and_then(|count| i32::try_from(count).ok())
    };
    let status = object.data.get("status");
    // Old versions have a map of labels, and a string for more general selectors.
    let text = |field: &str| status.and_then(|status| status.get(field)).and_then(Value::as_str).map(Str::from);
    let labels = status.and_then(|status| status.get("selector")).and_then(Value::as_object).map(|labels| {
        let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        Str::from(pairs.collect::<Vec<_>>().join(","))
    });
    let mut scale = Scale { metadata: object.metadata.clone(), ..Default::default() };
    scale.spec = Some(ScaleSpec { replicas: replicas("spec") });
    let selector = text("targetSelector").or_else(|| text("selector")).or(labels).filter(|text| !text.is_empty());
    scale.status = Some(ScaleStatus { replicas: replicas("status").unwrap_or(0), selector });
    Ok(scale)
}

/// Converts a scale to the version of a resource. The server owns its status.
#[inline]
fn to_form(scale: &Scale, form: &GroupVersionKind) -> Result<DynamicObject> {
    if !FORMS.contains(&form.api_version().as_str()) || form.kind != "Scale" {
        return Err(Error::InvalidRequest(format!("{form} is not a scale")));
    }
    let mut object = DynamicObject::new(form, "");
    object.metadata = scale.metadata.clone();
    let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
    object
        .data
        .insert("spec", Value::Object([(Str::from("replicas"), Value::Int(replicas.into()))].into_iter().collect()));
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_understood() {
        // SC-1
        for (version, status) in [
            ("autoscaling/v1", r#"{"replicas":2,"selector":"a=b,c=d"}"#),
            ("apps/v1beta1", r#"{"replicas":2,"selector":{"a":"b","c":"d"}}"#),
            ("apps/v1beta2", r#"{"replicas":2,"selector":{"a":"b"},"targetSelector":"a=b,c=d"}"#),
            ("extensions/v1beta1", r#"{"replicas":2,"targetSelector":"a=b,c=d"}"#),
        ] {
            let json = format!(
                r#"{{"apiVersion":"{version}","kind":"Scale","metadata":{{"name":"web"}},"spec":{{"replicas":3}},"status":{status}}}"#
            );
            let scale = from_any(&json.parse().unwrap()).unwrap();
            assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(3));
            let status = scale.status.as_ref().unwrap();
            assert_eq!((status.replicas, status.selector.as_deref()), (2, Some("a=b,c=d")), "{version}");
            let (group, number) = version.split_once('/').unwrap();
            let back = to_form(&scale, &GroupVersionKind::new(group, number, "Scale")).unwrap();
            assert_eq!((back.api_version.as_str(), back.get(&["spec", "replicas"])), (version, Some(Value::Int(3))));
        }
        assert!(from_any(&r#"{"apiVersion":"v1","kind":"Pod"}"#.parse().unwrap()).is_err());
    }
}
