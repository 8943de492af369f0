//! Webhooks in tests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response};
use kubewright_client::transport::{Body, ResponseFuture, Transport, TransportError};
use kubewright_client::{Api, Error, Scope};
use kubewright_core::options::Patch;
use kubewright_core::{DynamicObject, GroupVersionResource, json};

use super::TestCluster;
use crate::webhook::{Answering, ClientConfig, Webhooks};

/// Host and port of the webhooks.
const AUTHORITY: &str = "webhooks.test:443";

/// The name of their configurations.
const NAME: &str = "webhooks.test";

impl TestCluster {
    /// Lets the server call these webhooks, in memory and in simulated time.
    ///
    /// Registers their configurations, and the conversion in definitions, which must be installed
    /// before. Calling it again replaces the previous webhooks.
    ///
    /// ```
    /// # use kubewright_api::core::v1::ConfigMap;
    /// # use kubewright_client::Api;
    /// # use kubewright_core::Object;
    /// # use kubewright_runtime::testing::TestCluster;
    /// # use kubewright_runtime::webhook::Webhooks;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cluster = TestCluster::start().await?;
    /// cluster.webhooks(Webhooks::new().validate(|new: ConfigMap, _old, _| async move {
    ///     if new.data.contains_key("colour") { Ok(()) } else { Err("a colour is needed".into()) }
    /// })).await?;
    ///
    /// let mut map = ConfigMap::default();
    /// map.set_name("dull");
    /// let refused = Api::<ConfigMap>::namespaced(&cluster.client(), "default").create(&map).await.unwrap_err();
    /// assert!(refused.to_string().contains("a colour is needed"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If a configuration cannot be written.
    ///
    /// # Panics
    /// If two webhooks have the same path.
    #[doc(alias = "WebhookInstallOptions")]
    pub async fn webhooks(&self, webhooks: Webhooks) -> Result<(), Error> {
        let client_config = ClientConfig::url(format!("https://{NAME}"));
        let (configurations, conversions) =
            (webhooks.configurations(NAME, &client_config), webhooks.conversions(&client_config));
        self.connect_in_process(AUTHORITY, webhooks);
        let client = self.client();
        for plural in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
            let resource = GroupVersionResource::new("admissionregistration.k8s.io", "v1", plural);
            let api = Api::<DynamicObject>::new(&client, resource, Scope::Cluster);
            match api.delete(NAME).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
            let of_kind = |configuration: &&DynamicObject| plural.starts_with(&configuration.kind.to_ascii_lowercase());
            if let Some(configuration) = configurations.iter().find(of_kind) {
                api.create(configuration).await?;
            }
        }
        let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let definitions = Api::<DynamicObject>::new(&client, definitions, Scope::Cluster);
        for (definition, conversion) in conversions {
            definitions.patch(&definition, Patch::merge(json!({"spec": {"conversion": conversion}}))).await?;
        }
        Ok(())
    }

    /// Answers the calls of configurations that name this Service, in memory and in simulated time.
    ///
    /// For manifests that the test applies itself, as they are for production.
    ///
    /// # Panics
    /// If two webhooks have the same path.
    pub fn webhooks_of_service(&self, namespace: &str, service: &str, webhooks: Webhooks) {
        self.connect_in_process(&format!("{service}.{namespace}.svc:443"), webhooks);
    }

    fn connect_in_process(&self, authority: &str, webhooks: Webhooks) {
        assert_eq!(webhooks.duplicate(), None, "two webhooks are registered at this path");
        self.server.connect_in_process(authority, InProcess(Arc::new(Answering::in_process(webhooks))));
    }
}

/// Webhooks as a transport.
struct InProcess(Arc<Answering>);

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let answering = self.0.clone();
        Box::pin(async move {
            let (head, body) = answering.answer(request.map(Full::new)).await.into_parts();
            let Ok(body) = body.collect().await;
            Ok(Response::from_parts(head, Body::new(WholeBody(Some(body.to_bytes())))))
        })
    }
}

/// A body of one chunk.
struct WholeBody(Option<Bytes>);

impl Stream for WholeBody {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.take().map(Ok))
    }
}
