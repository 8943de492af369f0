//! Objects of resources that are only known at run time.
//!
//! A dynamic client is an [`Api`] of [`DynamicObject`]s with all verbs and subresources. Integers
//! stay integers and floats stay floats. It uses JSON, because custom resources support nothing
//! else.

use kubewright_core::{DynamicObject, GroupVersionResource};

use crate::api::{Api, Scope};
use crate::rest::Client;

impl Client {
    /// The objects of any resource, without a type; cluster-wide until a namespace is set.
    ///
    /// ```
    /// # use kubewright_client::{Client, Result};
    /// # use kubewright_core::{GroupVersionResource, Value};
    /// # async fn example(client: Client) -> Result<()> {
    /// let deployments = client.dynamic(GroupVersionResource::new("apps", "v1", "deployments"));
    /// let web = deployments.namespace("default").get("web").await?;
    /// let replicas = web.get(&["spec", "replicas"]).as_ref().and_then(Value::as_i64);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "DynamicClient")]
    #[doc(alias = "NewForConfig")]
    #[inline]
    pub fn dynamic(&self, resource: GroupVersionResource) -> Api<DynamicObject> {
        Api::new(self, resource, Scope::Cluster)
    }
}
