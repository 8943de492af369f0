//! Requests discovery from a server.

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::{APIGroupList, APIResourceList, APIVersions};
use kubewright_core::{Decoder, GroupVersion, Value};

use super::catalog::{ApiResource, Discovery};
use super::disk::DiskCache;
use super::document::DiscoveryDocument;
use super::documents::Documents;
use super::legacy::Fetched;
use super::version::ServerVersion;
use super::{aggregated, legacy};
use crate::error::Result;
use crate::rest::Client;

/// Timeout of a document: an aggregator requests it from other servers.
const TIMEOUT: Duration = Duration::from_secs(32);

/// Requests the groups, versions and resources of a server, without a cache.
#[derive(Debug, Clone)]
pub struct DiscoveryClient {
    client: Client,
    aggregated: bool,
    peers: bool,
    /// Cached documents with their ETags; clones share them.
    documents: Arc<Documents>,
}

impl Client {
    /// A discovery client.
    ///
    /// ```
    /// # use kubewright_client::{Client, Result};
    /// # async fn example(client: Client) -> Result<()> {
    /// for (version, resource) in client.discovery().discover().await?.resources() {
    ///     println!("{:30} {:20} {}", resource.plural, version.to_string(), resource.kind.kind);
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "DiscoveryClient")]
    #[doc(alias = "NewDiscoveryClientForConfig")]
    #[inline]
    pub fn discovery(&self) -> DiscoveryClient {
        let client = self.clone().default_request_timeout(TIMEOUT);
        DiscoveryClient { client, aggregated: true, peers: true, documents: Arc::default() }
    }
}

/// The root documents of discovery.
enum Roots {
    Aggregated(Vec<Value>),
    Legacy(Option<APIVersions>, Option<APIGroupList>),
}

/// A root document: aggregated, or the list of groups or versions.
enum Root<T> {
    Aggregated(Value),
    Plain(T),
}

impl<T: Message + Default> Root<T> {
    fn read(document: &DiscoveryDocument) -> Result<Self> {
        Ok(if aggregated::is_aggregated(&document.media_type) {
            Root::Aggregated(Value::from_json(&document.body)?)
        } else {
            Root::Plain(Decoder::new().json(&document.body)?)
        })
    }

    fn plain(self) -> Option<T> {
        match self {
            Root::Aggregated(_) => None,
            Root::Plain(plain) => Some(plain),
        }
    }
}

impl DiscoveryClient {
    /// Requests each version separately even if the server supports aggregated discovery. Off by
    /// default.
    #[must_use]
    #[doc(alias = "WithLegacy")]
    #[inline]
    pub fn legacy(mut self) -> Self {
        self.aggregated = false;
        self
    }

    /// Excludes resources of peer servers of other versions. Off by default.
    #[must_use]
    #[doc(alias = "nopeer")]
    #[inline]
    pub fn without_peers(mut self) -> Self {
        self.peers = false;
        self
    }

    /// Also caches the large documents on disk.
    #[inline]
    pub(super) fn documents_on(mut self, disk: DiskCache) -> Self {
        self.documents = Arc::new(Documents::on(disk));
        self
    }

    /// The client.
    #[inline]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// All groups, versions and resources. A failed version is retried once, and then recorded in
    /// [`Discovery::failures`].
    ///
    /// # Errors
    /// If the groups cannot be listed.
    #[doc(alias = "ServerGroupsAndResources")]
    #[inline]
    pub async fn discover(&self) -> Result<Discovery> {
        let first = self.discover_once().await;
        match &first {
            Ok(discovery) if discovery.failures.is_empty() => return first,
            Err(error) if !error.is_retriable() => return first,
            _ => {}
        }
        match (self.discover_once().await, first) {
            (Err(_), Ok(partial)) => Ok(partial),
            (second, _) => second,
        }
    }

    #[inline]
    async fn discover_once(&self) -> Result<Discovery> {
        match self.roots().await? {
            Roots::Aggregated(documents) => {
                let mut discovery = Discovery::default();
                documents.iter().for_each(|document| aggregated::read(document, &mut discovery));
                Ok(discovery)
            }
            Roots::Legacy(core, groups) => Ok(legacy::discover(core, groups, &self.fetch()).await),
        }
    }

    /// The aggregated documents if both roots have one: one of them alone would look complete.
    #[inline]
    async fn roots(&self) -> Result<Roots> {
        let (core, groups) = (self.root("/api").await?, self.root("/apis").await?);
        Ok(match (core, groups) {
            (Some(Root::Aggregated(core)), Some(Root::Aggregated(groups))) => Roots::Aggregated(vec![core, groups]),
            (Some(Root::Aggregated(core)), None) => Roots::Aggregated(vec![core]),
            (None, Some(Root::Aggregated(groups))) => Roots::Aggregated(vec![groups]),
            // If only one root is aggregated, both are requested again in the legacy format.
            (Some(Root::Aggregated(_)), _) | (_, Some(Root::Aggregated(_))) => {
                Roots::Legacy(self.plain_root("/api").await?, self.plain_root("/apis").await?)
            }
            (core, groups) => Roots::Legacy(core.and_then(Root::plain), groups.and_then(Root::plain)),
        })
    }

    /// A root document; a server may lack either.
    async fn root<T: Message + Default>(&self, path: &str) -> Result<Option<Root<T>>> {
        let (accept, names) = match (self.aggregated, self.peers) {
            (false, _) => return Ok(self.plain_root(path).await?.map(Root::Plain)),
            (true, true) => (aggregated::ACCEPT, ["api.http", "apis.http"]),
            (true, false) => (aggregated::ACCEPT_WITHOUT_PEERS, ["api-nopeer.http", "apis-nopeer.http"]),
        };
        let name = names[usize::from(path == "/apis")];
        let request = || self.client.rest().get().absolute_path(path).header(ACCEPT, accept);
        found(self.documents.ask(name, request, Root::read).await)
    }

    async fn plain_root<T: Message + Default>(&self, path: &str) -> Result<Option<T>> {
        let answer = self.client.rest().get().absolute_path(path).send().await;
        found(answer.and_then(|answer| Ok(Decoder::new().json(&answer.bytes())?)))
    }

    /// The resources of one version of a group.
    #[doc(alias = "ServerResourcesForGroupVersion")]
    #[inline]
    pub async fn version(&self, group_version: &GroupVersion) -> Result<Vec<ApiResource>> {
        let answer = self.client.rest().get().absolute_path(&group_version.api_path()).send().await?;
        let list: APIResourceList = Decoder::new().json(&answer.bytes())?;
        legacy::resources(&list, group_version)
    }

    /// Requests the resources of a version, in a task.
    pub(super) fn fetch(&self) -> impl Fn(GroupVersion) -> Fetched + use<> {
        let client = self.clone();
        move |version| {
            let client = client.clone();
            Box::pin(async move { client.version(&version).await })
        }
    }

    /// The Kubernetes version of the server.
    #[doc(alias = "ServerVersion")]
    #[inline]
    pub async fn server_version(&self) -> Result<ServerVersion> {
        let answer = self.client.rest().get().absolute_path("/version").send().await?;
        Ok(ServerVersion::from_value(&Value::from_json(&answer.bytes())?))
    }
}

fn found<R>(answer: Result<R>) -> Result<Option<R>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
