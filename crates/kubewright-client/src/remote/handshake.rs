//! The agreement to speak WebSocket.

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::RemoteError;
use crate::error::Result;
use crate::rest::Request;

/// What the answer to a request for WebSocket has to match.
#[derive(Debug, Clone)]
pub struct Handshake {
    key: String,
    protocol: &'static str,
}

impl Handshake {
    /// The request that asks for `protocol`, and what its answer has to match.
    pub(super) fn start(request: Request<'_>, protocol: &'static str) -> Result<(http::Request<bytes::Bytes>, Self)> {
        let key = generate_key();
        let request = request
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(SEC_WEBSOCKET_PROTOCOL, protocol);
        Ok((request.into_http()?, Handshake { key, protocol }))
    }

    /// Checks the head of the answer with which the server switched protocols.
    ///
    /// # Errors
    /// If it is not the answer to this request, or not in the protocol that was asked for.
    pub fn finish(&self, headers: &HeaderMap) -> Result<(), RemoteError> {
        let is =
            |value: Option<&HeaderValue>, want: &str| value.is_some_and(|value| value.as_bytes() == want.as_bytes());
        if !is(headers.get(SEC_WEBSOCKET_ACCEPT), &derive_accept_key(self.key.as_bytes())) {
            return Err(RemoteError::Protocol("the answer is not to our request".to_owned()));
        }
        if !is(headers.get(SEC_WEBSOCKET_PROTOCOL), self.protocol) {
            return Err(RemoteError::Protocol(format!("the server does not speak {}", self.protocol)));
        }
        Ok(())
    }
}
