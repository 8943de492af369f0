//! Answers upgrade requests: WebSocket or SPDY, with one of the protocols of the server.

use http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE,
};
use http::{Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The header for protocols over SPDY.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The header of the protocols that a server has.
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
const SPDY: &str = "SPDY/3.1";

/// An accepted upgrade.
#[derive(Debug)]
pub struct Handshake {
    /// How streams share the connection.
    pub transport: StreamTransport,
    /// The negotiated protocol; empty if the client named none.
    pub protocol: &'static str,
    /// The response, with status 101.
    pub response: Response<()>,
}

/// How streams share a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTransport {
    /// Messages of channels.
    WebSocket,
    /// Frames of streams.
    Spdy,
}

/// Why an upgrade is refused: a status code and a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status code.
    pub status: StatusCode,
    /// The text for the user.
    pub message: String,
}

/// Whether the headers ask for an upgrade.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    headers.contains_key(UPGRADE)
        && values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case("upgrade"))
}

/// Accepts an upgrade to one of these protocols, of which the client prefers the first.
///
/// # Errors
/// If the request is no upgrade, or has other protocols only.
pub fn accept(
    headers: &HeaderMap,
    over_web_socket: &[&'static str],
    over_spdy: &[&'static str],
) -> Result<Handshake, Refusal> {
    let upgrade = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
    let is_web_socket = upgrade == "websocket";
    if !is_upgrade(headers) || !(is_web_socket || upgrade.contains("spdy/3.1")) {
        let message = "unable to upgrade: missing upgrade headers in request".to_owned();
        return Err(Refusal { status: StatusCode::BAD_REQUEST, message });
    }
    let (header, protocols) =
        if is_web_socket { (SEC_WEBSOCKET_PROTOCOL, over_web_socket) } else { (STREAM_PROTOCOL, over_spdy) };
    let values = headers.get_all(&header).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    let chosen = offered.iter().find_map(|offer| protocols.iter().find(|protocol| *protocol == offer));
    let protocol = match chosen {
        Some(protocol) => *protocol,
        None if offered.is_empty() => "",
        None => {
            let message = format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
                offered.join(" "),
                protocols.join(" ")
            );
            return Err(Refusal { status: StatusCode::FORBIDDEN, message });
        }
    };
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if is_web_socket {
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
            let message = "unable to upgrade: missing Sec-WebSocket-Key".to_owned();
            return Err(Refusal { status: StatusCode::BAD_REQUEST, message });
        };
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).expect("it is base64");
        answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
    } else {
        answer.insert(UPGRADE, HeaderValue::from_static(SPDY));
        for protocol in protocols {
            answer.append(ACCEPTED_PROTOCOLS, HeaderValue::from_static(protocol));
        }
    }
    if !protocol.is_empty() {
        answer.insert(header, HeaderValue::from_static(protocol));
    }
    let transport = if is_web_socket { StreamTransport::WebSocket } else { StreamTransport::Spdy };
    Ok(Handshake { transport, protocol, response })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_first_known_protocol_of_the_client_is_accepted() {
        let asked = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v9, v5.channel.k8s.io, v4.channel.k8s.io"),
        ]);
        let known = ["v4.channel.k8s.io", "v5.channel.k8s.io"];
        let accepted = accept(&asked, &known, &[]).unwrap();
        assert_eq!((accepted.protocol, accepted.transport), ("v5.channel.k8s.io", StreamTransport::WebSocket));
        assert_eq!(accepted.response.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let spdy = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "channel.k8s.io"),
        ]);
        assert_eq!(accept(&spdy, &[], &known).unwrap().protocol, "v4.channel.k8s.io");
        let refused = accept(&spdy, &[], &["v1"]).unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert!(refused.message.contains("client supports [v4.channel.k8s.io channel.k8s.io], server accepts [v1]"));
    }

    #[test]
    fn a_request_without_an_upgrade_is_refused() {
        let plain = headers(&[("upgrade", "websocket")]);
        assert_eq!(accept(&plain, &[], &[]).unwrap_err().status, StatusCode::BAD_REQUEST);
        let other = headers(&[("connection", "upgrade"), ("upgrade", "h2c")]);
        assert_eq!(accept(&other, &[], &[]).unwrap_err().status, StatusCode::BAD_REQUEST);
        let keyless = headers(&[("connection", "upgrade"), ("upgrade", "websocket")]);
        assert!(accept(&keyless, &[], &[]).unwrap_err().message.contains("Sec-WebSocket-Key"));
    }
}
