//! Checks whether aggregated API servers answer.

use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::header::ACCEPT;
use kubewright_core::Decoder;
use kubewright_core::meta::v1::APIResourceList;
use kubewright_resources::discovery::{RemoteVersion, Served};

use super::backend::Backend;
use super::forwarding::{add_identity, chain};
use super::front_proxy::FrontProxy;
use super::{AggregatedServer, Connection};
use crate::registry::Registry;
use kubewright_auth::{MASTERS, User};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a discovery document.
const DOCUMENT_MAX: usize = 3 << 20;

/// Why an aggregated server is unavailable: the reason and message of the condition.
#[derive(Debug)]
pub(super) struct Unavailable {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Checks the server of a backend: its Service, and its discovery document.
pub(super) async fn check(
    registry: &Registry,
    backend: Backend,
    front_proxy: Option<&FrontProxy>,
    former: Option<&AggregatedServer>,
) -> (AggregatedServer, Result<(), Unavailable>) {
    let checked = match backend.connect(registry, front_proxy, former) {
        Ok(connection) => discover(&backend, &connection).await.map(|resources| (connection, resources)),
        Err(unavailable) => Err(unavailable),
    };
    let ((connection, resources), result) = match checked {
        Ok((connection, resources)) => ((Some(connection), Some(resources)), Ok(())),
        Err(unavailable) => ((None, None), Err(unavailable)),
    };
    let version = RemoteVersion { group: backend.group.clone(), version: backend.version.clone(), resources };
    (AggregatedServer { backend, connection, version }, result)
}

/// The resources that the server serves.
async fn discover(backend: &Backend, connection: &Connection) -> Result<Vec<Served>, Unavailable> {
    let path = backend.discovery_path();
    let url = format!("https://{}{path}", connection.authority);
    let failed = |message| Unavailable { reason: "FailedDiscoveryCheck", message };
    let missing = |error: String| failed(format!("failing or missing response from {url}: {error}"));
    let mut request = Request::get(&path)
        .header(ACCEPT, "application/json")
        .body(Bytes::new())
        .map_err(|error| missing(error.to_string()))?;
    let aggregator = User { name: "system:kube-aggregator".into(), groups: vec![MASTERS.into()], ..User::default() };
    add_identity(request.headers_mut(), &aggregator);
    let exchange = async {
        let response = connection.transport.send(request).await.map_err(|error| missing(chain(&error)))?;
        if !response.status().is_success() {
            return Err(missing(format!("bad status from {url}: {}", response.status().as_u16())));
        }
        let (mut body, mut document) = (response.into_body(), Vec::new());
        while let Some(chunk) = body.chunk().await.map_err(|error| missing(chain(&error)))? {
            document.extend_from_slice(&chunk);
            if document.len() > DOCUMENT_MAX {
                return Err(missing("the discovery document is too long".to_owned()));
            }
        }
        Ok(document)
    };
    let timed_out = |_| failed(format!("timed out waiting for {url}"));
    let document = tokio::time::timeout(TIMEOUT, exchange).await.map_err(timed_out)??;
    let list: APIResourceList = Decoder::new().json(&document).map_err(|error| missing(error.to_string()))?;
    Ok(RemoteVersion::resources_of(&backend.group, &backend.version, &list))
}
