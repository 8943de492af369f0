//! The upgrade handshake of WebSocket and SPDY.

use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::RemoteError;
use crate::error::Result;
use crate::rest::Request;

/// The header for SPDY subprotocols.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const SPDY: &str = "SPDY/3.1";

/// Verifies the response to an upgrade request.
#[derive(Debug, Clone)]
pub struct Handshake {
    /// The key of a WebSocket handshake.
    key: Option<String>,
    protocols: &'static [&'static str],
}

impl Handshake {
    /// A WebSocket upgrade request for one of `protocols`, and its handshake.
    pub(super) fn web_socket(
        request: Request<'_>,
        protocols: &'static [&'static str],
    ) -> Result<(http::Request<bytes::Bytes>, Self)> {
        let key = generate_key();
        let request = request
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(SEC_WEBSOCKET_PROTOCOL, &protocols.join(", "));
        Ok((request.into_http()?, Handshake { key: Some(key), protocols }))
    }

    /// A SPDY upgrade request for one of `protocols`, and its handshake.
    pub(super) fn spdy(
        request: Request<'_>,
        protocols: &'static [&'static str],
    ) -> Result<(http::Request<bytes::Bytes>, Self)> {
        let mut request = request.header(CONNECTION, "Upgrade").header(UPGRADE, SPDY).into_http()?;
        for protocol in protocols {
            request.headers_mut().append(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
        }
        Ok((request, Handshake { key: None, protocols }))
    }

    /// Verifies the headers of the upgrade response and returns the negotiated protocol.
    ///
    /// # Errors
    /// If it does not match this request, or the protocol was not requested.
    pub fn finish(&self, headers: &HeaderMap) -> Result<&'static str, RemoteError> {
        let (is_answer, chosen) = match &self.key {
            Some(key) => {
                let accept = headers.get(SEC_WEBSOCKET_ACCEPT);
                let is_answer =
                    accept.is_some_and(|accept| accept.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
                (is_answer, headers.get(SEC_WEBSOCKET_PROTOCOL))
            }
            None => {
                let upgrade = headers.get(UPGRADE);
                (
                    upgrade.is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes())),
                    headers.get(STREAM_PROTOCOL),
                )
            }
        };
        if !is_answer {
            return Err(RemoteError::Protocol("the answer is not to our request".to_owned()));
        }
        let chosen = self.protocols.iter().find(|protocol| chosen.is_some_and(|chosen| chosen == **protocol));
        chosen
            .copied()
            .ok_or_else(|| RemoteError::Protocol(format!("the server does not speak {}", self.protocols.join(" or "))))
    }
}
