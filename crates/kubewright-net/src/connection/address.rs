//! The server address, and default headers of requests.

use std::fmt;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderMap, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};

use super::connector::Protocol;
use crate::authentication::RequestCredentials;
use crate::config::Config;
use crate::credentials::Impersonation;
use crate::error::ConfigError;
use crate::transport::{TransportError, TransportErrorKind};

/// The server address, and headers that requests get unless they set them.
pub(super) struct Address {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// Path prefix without a trailing slash.
    prefix: String,
    user_agent: Option<HeaderValue>,
    impersonation: Option<Impersonation>,
    wants_gzip: bool,
}

impl Address {
    /// The host and port.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let authority = config.server.authority().cloned();
        let authority = authority.ok_or_else(|| ConfigError::Invalid("the server has no host".to_owned()))?;
        let header = |text: &str| {
            let invalid = |_| ConfigError::Invalid(format!("{text:?} cannot stand in a header"));
            HeaderValue::from_str(text).map_err(invalid)
        };
        Ok(Address {
            scheme: config.server.scheme().cloned().unwrap_or(Scheme::HTTPS),
            host: header(authority.as_str())?,
            authority,
            prefix: config.server.path().trim_end_matches('/').to_owned(),
            user_agent: (!config.user_agent.is_empty()).then(|| header(&config.user_agent)).transpose()?,
            impersonation: config.impersonation.clone(),
            wants_gzip: !config.disable_compression,
        })
    }

    /// Whether we, and not the caller, request compression.
    pub(super) fn asks_gzip(&self, request: &Request<Bytes>) -> bool {
        self.wants_gzip && !request.headers().contains_key(ACCEPT_ENCODING)
    }

    /// Prepares a request for a connection.
    pub(super) fn outgoing(
        &self,
        request: &Request<Bytes>,
        shown: &RequestCredentials,
        protocol: Protocol,
    ) -> Result<Request<Bytes>, TransportError> {
        // A request that cannot be encoded is never sent.
        let invalid = |error: http::Error| TransportError::new(TransportErrorKind::Unsupported, error);
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let path: PathAndQuery =
            if self.prefix.is_empty() { path.parse() } else { format!("{}{path}", self.prefix).parse() }
                .map_err(|error: http::uri::InvalidUri| invalid(error.into()))?;
        let mut headers = request.headers().clone();
        self.complete(&mut headers, request, shown).map_err(invalid)?;
        let uri = match protocol {
            Protocol::Http1 => {
                headers.entry(HOST).or_insert_with(|| self.host.clone());
                Uri::from(path)
            }
            Protocol::Http2 => {
                headers.remove(HOST);
                let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
                uri.path_and_query(path).build().map_err(invalid)?
            }
        };
        let mut outgoing = Request::new(request.body().clone());
        *outgoing.method_mut() = request.method().clone();
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }

    /// Adds default headers.
    fn complete(
        &self,
        headers: &mut HeaderMap,
        request: &Request<Bytes>,
        shown: &RequestCredentials,
    ) -> Result<(), http::Error> {
        if let Some(header) = &shown.header {
            headers.entry(AUTHORIZATION).or_insert_with(|| header.clone());
        }
        if let Some(user_agent) = &self.user_agent {
            headers.entry(USER_AGENT).or_insert_with(|| user_agent.clone());
        }
        if self.wants_gzip {
            headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("gzip"));
        }
        match request.extensions().get::<Impersonation>().or(self.impersonation.as_ref()) {
            Some(impersonation) => impersonation.apply(headers),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}
