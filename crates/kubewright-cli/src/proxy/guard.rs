//! Decides which requests a proxy forwards: those of local programs, not those of web pages.
//!
//! A proxy adds the user's credentials to every request. Any web page that the user visits can make
//! the browser send requests to it. The browser marks them (`Origin`, `Sec-Fetch-Site`), or can
//! only send them with a content type that forms have.

use std::net::IpAddr;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN, TRANSFER_ENCODING};
use http::{Method, Uri};
use percent_encoding::percent_decode_str;

/// Why a request is rejected; `None` if it may pass.
pub fn refusal(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let host = match (uri.authority(), text(headers.get(HOST))) {
        (Some(authority), _) => authority.as_str(),
        (None, host) => host,
    };
    if !is_this_machine(host) {
        return Some("the Host header does not name this machine");
    }
    let origin = headers.get(ORIGIN).map(|origin| text(Some(origin)));
    if origin.is_some_and(|origin| origin.split_once("://").is_none_or(|(_, origin)| origin != host)) {
        return Some("the request comes from a web page of another origin");
    }
    if !matches!(text(headers.get("sec-fetch-site")), "" | "same-origin" | "none") {
        return Some("the request comes from a web page of another site");
    }
    if has_body(headers) && matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        let kind = text(headers.get(CONTENT_TYPE)).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // A web page can send these without a preflight request.
        if matches!(&*kind, "" | "text/plain" | "multipart/form-data" | "application/x-www-form-urlencoded") {
            return Some("the Content-Type is missing, or one that forms of web pages have");
        }
    }
    let path = decoded(uri.path());
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
    if segments.iter().any(|segment| matches!(*segment, b"." | b"..")) {
        return Some("the path has a segment of dots");
    }
    // These give access to containers, which is more than access to the API.
    let is_shell = segments.windows(3).any(|part| part[0] == b"pods" && matches!(part[2], b"exec" | b"attach"));
    is_shell.then_some("exec and attach do not pass the proxy")
}

fn text(value: Option<&HeaderValue>) -> &str {
    // A header that is not text must not match any accepted value.
    value.map_or("", |value| value.to_str().unwrap_or("?"))
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || !matches!(text(headers.get(CONTENT_LENGTH)), "" | "0")
}

/// Whether a host, with or without a port, is localhost. Browsers always send one.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    host.is_empty()
        || name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The path as the server reads it: percent-decoded once.
fn decoded(path: &str) -> Vec<u8> {
    percent_decode_str(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(method: &str, path: &'static str, headers: &[(&'static str, &'static str)]) -> Option<&'static str> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)))
            .collect();
        refusal(&method.parse().expect("a method"), &Uri::from_static(path), &headers)
    }

    #[test]
    fn programs_on_this_machine_pass() {
        for host in ["localhost", "localhost:8001", "LOCALHOST:8001", "127.0.0.1:8001", "127.0.0.2", "[::1]", "[::1]:1"]
        {
            assert_eq!(verdict("GET", "/api/v1/pods", &[("host", host)]), None, "{host}");
        }
        let own = [("host", "localhost:1"), ("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(verdict("GET", "/version", &own), None);
        let json =
            [("host", "localhost"), ("content-type", "application/json; charset=utf-8"), ("content-length", "2")];
        assert_eq!(verdict("POST", "/api/v1/namespaces", &json), None);
        assert_eq!(verdict("DELETE", "/api/v1/namespaces/a", &[("host", "localhost")]), None);
    }

    #[test]
    fn web_pages_do_not_pass() {
        for headers in [
            &[("host", "evil.example")][..],
            &[("host", "10.0.0.1:8001")],
            &[("host", "localhost.evil.example")],
            &[("host", "localhost"), ("origin", "https://evil.example")],
            &[("host", "localhost:1"), ("origin", "http://localhost:2")],
            &[("host", "localhost"), ("origin", "null")],
            &[("host", "localhost"), ("sec-fetch-site", "cross-site")],
            &[("host", "localhost"), ("sec-fetch-site", "same-site")],
            &[("host", "localhost"), ("content-length", "9")],
            &[("host", "localhost"), ("transfer-encoding", "chunked")],
            &[("host", "localhost"), ("content-length", "9"), ("content-type", "text/plain;charset=UTF-8")],
        ] {
            assert!(verdict("POST", "/api/v1/namespaces", headers).is_some(), "{headers:?}");
        }
    }

    #[test]
    fn containers_are_out_of_reach_however_the_path_is_written() {
        for path in [
            "/api/v1/namespaces/a/pods/p/exec",
            "/api/v1/namespaces/a/pods/p/attach",
            "/api/v1/namespaces/a/pods/p/%65xec",
            "/api/v1/namespaces/a/%70ods/p/exec",
            "/api/v1/namespaces/a/pods%2fp%2Fexec",
            "/api/v1/namespaces/a/pods//p/exec/",
            "/api/v1/namespaces/a/pods/p/x/%2e%2e/exec",
        ] {
            assert!(verdict("GET", path, &[("host", "localhost")]).is_some(), "{path}");
        }
        for path in
            ["/api/v1/namespaces/a/pods/exec", "/api/v1/namespaces/a/pods/p/log", "/api/v1/namespaces/a/pods/100%"]
        {
            assert_eq!(verdict("GET", path, &[("host", "localhost")]), None, "{path}");
        }
    }
}
