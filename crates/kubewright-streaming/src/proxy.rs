//! Forwards requests of an API server to kubelets and pods.
//!
//! Difference from kube-apiserver: a request body is read completely before it is forwarded.

use std::error::Error;
use std::io::{self, Read};

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, StatusReason};
use kubewright_net::transport::{Body, Transport, TransportError, Upgrade};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

use crate::handshake::is_upgrade;
use crate::links::{self, Proxied};
use crate::location::Location;

/// Headers of a connection, which are not forwarded.
const HOP_BY_HOP: [HeaderName; 8] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
/// Prefixes of headers that state an identity.
const IDENTITY_PREFIXES: [&str; 2] = ["x-remote-", "impersonate-"];
/// Headers by which a server shares its responses with pages of other hosts. Behind a proxy, these
/// would share them under the credentials of the API server.
const CROSS_ORIGIN: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];
/// The path of a request, as the client of a proxy sees it.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Maximum size of a page whose links are rewritten.
const PAGE_MAX: usize = 16 << 20;
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
    let mut request = request(location, method, headers, body)?;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let proxied = Proxied { prefix, backend: &location.authority, host };
    if let Ok(uri) = HeaderValue::try_from(format!("{prefix}{}", links::clean(path))) {
        request.headers_mut().insert(FORWARDED_URI, uri);
    }
    let response = network.send(request).await;
    let response = response.map_err(|error| {
        Box::new(Status::service_unavailable(format!("error trying to reach service: {}", cause(&error))))
    })?;
    let (mut head, body) = response.into_parts();
    head.headers = end_to_end(&head.headers);
    for name in CROSS_ORIGIN {
        head.headers.remove(name);
    }
    if let Some(target) = head.headers.get(LOCATION).and_then(|target| target.to_str().ok()) {
        if let Some(Ok(target)) = proxied.rewrite(target).map(HeaderValue::try_from) {
            head.headers.insert(LOCATION, target);
        }
        return Ok(Response::from_parts(head, body));
    }
    if !is_page(&head.headers) || *method == Method::HEAD {
        return Ok(Response::from_parts(head, body));
    }
    let body = rewrite_page(&mut head.headers, body, &proxied).await;
    Ok(Response::from_parts(head, body))
}

/// Whether a response is HTML.
fn is_page(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().unwrap_or_default().trim() == "text/html"
}

/// Rewrites the links of a page. One that is too long, incomplete or in an unknown encoding stays
/// as it is.
async fn rewrite_page(headers: &mut HeaderMap, mut body: Body, proxied: &Proxied<'_>) -> Body {
    let (mut chunks, mut size, mut end) = (Vec::new(), 0, None);
    while end.is_none() && size <= PAGE_MAX {
        match body.chunk().await {
            Ok(Some(chunk)) => {
                size += chunk.len();
                chunks.push(Ok(chunk));
            }
            Ok(None) => end = Some(Ok(())),
            Err(error) => end = Some(Err(error)),
        }
    }
    match end {
        Some(Ok(())) => {
            let bytes: Vec<u8> = chunks.iter().flatten().flat_map(|chunk| chunk.to_vec()).collect();
            if let Some(page) = decoded_page(headers, &bytes) {
                headers.remove(CONTENT_ENCODING);
                let page = Bytes::from(proxied.rewrite_page(&page));
                return Body::new(futures_util::stream::iter([Ok(page)]));
            }
            Body::new(futures_util::stream::iter(chunks))
        }
        Some(Err(error)) => {
            chunks.push(Err(error));
            Body::new(futures_util::stream::iter(chunks))
        }
        None => {
            let rest =
                futures_util::stream::unfold(body, async |mut body| Some((body.chunk().await.transpose()?, body)));
            Body::new(futures_util::stream::iter(chunks).chain(rest))
        }
    }
}

/// The text of a page without its encoding.
fn decoded_page(headers: &HeaderMap, bytes: &[u8]) -> Option<String> {
    let encoding = headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut page = String::new();
    let limit = PAGE_MAX as u64;
    match encoding {
        "" => page = String::from_utf8(bytes.to_vec()).ok()?,
        "gzip" => drop(flate2::read::GzDecoder::new(bytes).take(limit).read_to_string(&mut page).ok()?),
        "deflate" => drop(flate2::read::DeflateDecoder::new(bytes).take(limit).read_to_string(&mut page).ok()?),
        _ => return None,
    }
    (page.len() < PAGE_MAX).then_some(page)
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;

    use kubewright_net::transport::{ResponseFuture, UpgradeFuture};

    use super::*;

    /// A server that gives one response, and remembers the last request.
    #[derive(Default)]
    struct Server {
        headers: Vec<(HeaderName, &'static str)>,
        body: Vec<u8>,
        seen: Mutex<HeaderMap>,
    }

    impl Transport for Server {
        fn send(&self, request: Request<Bytes>) -> ResponseFuture {
            *self.seen.lock().unwrap() = request.headers().clone();
            let body: Vec<_> = self.body.chunks(7).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            let mut response = Response::new(Body::new(futures_util::stream::iter(body)));
            for (name, value) in &self.headers {
                response.headers_mut().insert(name.clone(), HeaderValue::from_static(value));
            }
            Box::pin(async { Ok(response) })
        }

        fn upgrade(&self, _: Request<Bytes>) -> UpgradeFuture {
            unreachable!("no test asks for an upgrade")
        }
    }

    async fn get(server: &Server) -> (HeaderMap, String) {
        let location = Location { scheme: "http", authority: "10.0.0.7:80".to_owned(), path: "/a//b?q".to_owned() };
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:6443"))]);
        let request = (&Method::GET, &headers, Bytes::new());
        let (head, mut body) = forward(server, &location, "/p", request).await.unwrap().into_parts();
        let mut text = Vec::new();
        while let Some(chunk) = body.chunk().await.unwrap() {
            text.extend(chunk);
        }
        (head.headers, String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn links_and_redirects_lead_through_the_proxy() {
        let (html, page) = ((CONTENT_TYPE, "text/html; charset=utf-8"), b"<a href=\"/x\">x</a>".to_vec());
        let shared = (ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        let server = Server { headers: vec![html.clone(), shared], body: page.clone(), ..Server::default() };
        let (headers, text) = get(&server).await;
        assert_eq!(text, "<a href=\"/p/x\">x</a>");
        assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
        assert_eq!(server.seen.lock().unwrap()[FORWARDED_URI], "/p/a/b");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&page).unwrap();
        let headers = vec![html, (CONTENT_ENCODING, "gzip")];
        let (headers, text) = get(&Server { headers, body: gzip.finish().unwrap(), ..Server::default() }).await;
        assert_eq!((text.as_str(), headers.contains_key(CONTENT_ENCODING)), ("<a href=\"/p/x\">x</a>", false));
        let plain = Server { headers: vec![(CONTENT_TYPE, "text/plain")], body: page, ..Server::default() };
        assert_eq!(get(&plain).await.1, "<a href=\"/x\">x</a>");
        let headers = vec![(LOCATION, "http://10.0.0.7:80/login")];
        let (headers, _) = get(&Server { headers, ..Server::default() }).await;
        assert_eq!(headers[LOCATION], "/p/login");
    }
}
