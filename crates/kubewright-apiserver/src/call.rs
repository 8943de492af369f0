//! One request, as the handlers see it.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri};
use kubewright_core::options::QueryParameters;
use kubewright_storage::Disk;

use crate::metrics::ServerMetrics;
use crate::registry::Registry;
use crate::request::RequestInfo;
use crate::tunnel::Tunnel;
use crate::warnings::Warnings;
use kubewright_auth::User;
use kubewright_auth::authentication::Authenticator;

/// An authorized request and the parts of the server that answer it.
pub(crate) struct Call<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) metrics: &'a ServerMetrics,
    pub(crate) authenticator: &'a Authenticator,
    pub(crate) user: &'a User,
    pub(crate) info: &'a RequestInfo,
    pub(crate) method: &'a Method,
    pub(crate) url: &'a Uri,
    pub(crate) query: &'a QueryParameters,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// The data file, if objects are kept in one.
    pub(crate) disk: Option<&'a Disk>,
    /// Where to put a connection that takes over that of the client, if it can.
    pub(crate) tunnel: Option<&'a Tunnel>,
    /// Warnings for the client.
    pub(crate) warnings: Warnings,
}
