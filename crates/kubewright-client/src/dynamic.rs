//! Objects of resources that are known only at run time.
//!
//! A dynamic client is an [`Api`] of [`DynamicObject`]s: it has all verbs and all subresources, and the server says
//! which of them exist. Integers stay integers and floats stay floats on the way through. Custom resources speak
//! JSON only, and so does this client.

use kubewright_core::{DynamicObject, GroupVersionResource};

use crate::api::{Api, Scope};
use crate::client::Client;

impl Client {
    /// The objects of any resource, without a type: those of the cluster, until a namespace is named.
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
