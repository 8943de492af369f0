//! A request on its way to the service.

use hyper::http::request::Parts;
use kubewright_core::options::QueryParameters;

use super::RequestBody;
use crate::request::{RequestInfo, unescape};

/// A request whose body may still have to be read.
pub(crate) struct IncomingRequest {
    pub(crate) parts: Parts,
    pub(crate) query: QueryParameters,
    pub(crate) info: RequestInfo,
    pub(crate) body: RequestBody,
}

impl IncomingRequest {
    pub(crate) fn new(parts: Parts, body: RequestBody) -> Self {
        let query = QueryParameters::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::new(&parts.method, &unescape(parts.uri.path()), &query);
        IncomingRequest { parts, query, info, body }
    }

    /// Whether the request is about a single object, so that its response comes soon.
    pub(crate) fn is_about_one(&self) -> bool {
        self.info.target.is_some() && !matches!(self.info.verb, "list" | "watch" | "deletecollection")
    }
}
