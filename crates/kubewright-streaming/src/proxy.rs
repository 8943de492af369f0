//! Forwards requests of an API server to kubelets and pods.
//!
//! Differences from kube-apiserver: a request body is read completely before it is forwarded, and
//! links in HTML are not rewritten.

use std::error::Error;
use std::io;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};
use kubewright_net::transport::{Body, Transport, TransportError, Upgrade};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

use crate::handshake::is_upgrade;
use crate::location::Location;

/// Headers of a connection, which are not forwarded.
const HOP_BY_HOP: [HeaderName; 8] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
/// Prefixes of headers that state an identity.
const IDENTITY_PREFIXES: [&str; 2] = ["x-remote-", "impersonate-"];
/// Maximum size of an error of a kubelet.
const ERROR_MAX: usize = 64 << 10;

/// The end-to-end headers, without credentials and identities.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let is_forwarded = |name: &HeaderName| {
        !HOP_BY_HOP.contains(name)
            && *name != AUTHORIZATION
            && *name != HOST
            && !IDENTITY_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    headers.iter().filter(|(name, _)| is_forwarded(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The request to a location with these end-to-end headers.
fn request(
    location: &Location,
    method: &Method,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Request<Bytes>, Box<Status>> {
    let mut request = Request::new(body);
    let invalid = |_| Box::new(Status::bad_request(format!("the path {:?} cannot be forwarded", location.path)));
    *request.uri_mut() = location.url().parse().map_err(invalid)?;
    *request.method_mut() = method.clone();
    *request.headers_mut() = end_to_end(headers);
    if let Ok(host) = HeaderValue::from_str(&location.authority) {
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}

/// Asks a kubelet for the log of a container.
///
/// # Errors
/// That of the kubelet, or 500 if it does not answer.
pub async fn log(
    network: &dyn Transport,
    location: &Location,
    pod: (&GroupResource, &str),
) -> Result<Response<Body>, Box<Status>> {
    let request = request(location, &Method::GET, &HeaderMap::new(), Bytes::new())?;
    let response = network.send(request).await;
    let response = response.map_err(|error| unexpected(format!("Get {:?}: {}", location.url(), cause(&error))))?;
    if response.status().is_success() {
        return Ok(response);
    }
    let (status, mut body, mut text) = (response.status(), response.into_body(), Vec::new());
    while text.len() < ERROR_MAX
        && let Ok(Some(chunk)) = body.chunk().await
    {
        text.extend(chunk);
    }
    text.truncate(ERROR_MAX);
    let text = String::from_utf8_lossy(&text).into_owned();
    Err(Box::new(match status {
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        code => Status::from_code(code.as_u16(), "", pod.0, pod.1, &text),
    }))
}

/// Asks a kubelet for an upgrade.
///
/// # Errors
/// 400 if the request is no upgrade, 500 if the kubelet does not answer.
pub async fn upgrade(
    network: &dyn Transport,
    location: &Location,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Upgrade, Box<Status>> {
    if !is_upgrade(headers) {
        return Err(Box::new(Status::bad_request("Upgrade request required")));
    }
    let mut request = request(location, method, headers, Bytes::new())?;
    for name in [CONNECTION, UPGRADE] {
        for value in headers.get_all(&name) {
            request.headers_mut().append(name.clone(), value.clone());
        }
    }
    let upgrade = network.upgrade(request).await;
    upgrade.map_err(|error| unexpected(format!("error dialing backend: {}", cause(&error))))
}

/// Forwards a request of a proxy. `prefix` is the path of the proxy, which redirects keep.
///
/// # Errors
/// 503 if nobody answers.
pub async fn forward(
    network: &dyn Transport,
    location: &Location,
    prefix: &str,
    (method, headers, body): (&Method, &HeaderMap, Bytes),
) -> Result<Response<Body>, Box<Status>> {
    let path = location.path.split('?').next().unwrap_or_default();
    if path.is_empty() && matches!(*method, Method::GET | Method::HEAD) {
        let query = &location.path[path.len()..];
        let mut redirect = Response::new(Body::new(futures_util::stream::empty()));
        *redirect.status_mut() = StatusCode::MOVED_PERMANENTLY;
        if let Ok(target) = HeaderValue::try_from(format!("{prefix}/{query}")) {
            redirect.headers_mut().insert(LOCATION, target);
        }
        return Ok(redirect);
    }
    let response = network.send(request(location, method, headers, body)?).await;
    let response = response.map_err(|error| {
        Box::new(Status::service_unavailable(format!("error trying to reach service: {}", cause(&error))))
    })?;
    let (mut head, body) = response.into_parts();
    head.headers = end_to_end(&head.headers);
    if let Some(target) = head.headers.get(LOCATION).and_then(|target| target.to_str().ok())
        && target.starts_with('/')
        && let Ok(target) = HeaderValue::try_from(format!("{prefix}{target}"))
    {
        head.headers.insert(LOCATION, target);
    }
    Ok(Response::from_parts(head, body))
}

/// Copies bytes between a client and a kubelet, until one of them ends.
///
/// # Errors
/// If a connection breaks.
pub async fn tunnel<C, B>(client: C, backend: B) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let ((mut from_client, mut to_client), (mut from_backend, mut to_backend)) = (split(client), split(backend));
    tokio::select! {
        copied = copy(&mut from_client, &mut to_backend) => copied.map(drop),
        copied = copy(&mut from_backend, &mut to_client) => {
            copied?;
            to_client.shutdown().await
        }
    }
}

/// A 500 without a reason, as of an error that is no Status.
fn unexpected(message: String) -> Box<Status> {
    let mut status = Status::failure(StatusReason::Unknown, message);
    status.code = Some(500);
    Box::new(status)
}

/// The cause of a failed request.
fn cause(error: &TransportError) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
