//! Rejects cross-site requests from web pages over plain HTTP.
//!
//! Over plain HTTP, every caller is an administrator, which is meant for programs on this machine.
//! But any web page can make the user's browser send requests, too. By DNS rebinding it could even
//! read the responses.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// Whether a browser sent the request for a page of a different origin.
pub(super) fn is_foreign(headers: &HeaderMap, is_on_loopback: bool) -> bool {
    let text =
        |value: Option<&hyper::header::HeaderValue>| value.map(|value| value.to_str().unwrap_or_default().to_owned());
    let host = text(headers.get(HOST));
    // Pages of this server have its own origin.
    let is_own = |origin: &str| origin.split_once("://").map(|(_, origin)| origin) == host.as_deref();
    let comes_from_elsewhere = text(headers.get(ORIGIN)).is_some_and(|origin| !is_own(&origin));
    let site = text(headers.get("sec-fetch-site")).unwrap_or_default();
    comes_from_elsewhere
        || matches!(&*site, "cross-site" | "same-site")
        || (is_on_loopback && host.is_some_and(|host| !is_this_machine(&host)))
}

/// Whether a host is an IP address or a local name.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_foreign_pages_are_detected() {
        let is_foreign = |headers: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = headers
                .iter()
                .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("text")))
                .collect();
            is_foreign(&headers, true)
        };
        for own in [
            &[("host", "127.0.0.1:6443")][..],
            &[("host", "[::1]:6443")],
            &[("host", "localhost")],
            &[("host", "up.localhost:1")],
            &[],
            &[("host", "localhost:1"), ("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")],
            &[("host", "localhost:1"), ("sec-fetch-site", "none")],
        ] {
            assert!(!is_foreign(own), "{own:?}");
        }
        for foreign in [
            &[("host", "evil.example:6443")][..],
            &[("host", "localhost:1"), ("origin", "https://evil.example")],
            &[("host", "localhost:1"), ("origin", "null")],
            &[("host", "localhost:1"), ("origin", "http://localhost:2")],
            &[("host", "localhost:1"), ("sec-fetch-site", "cross-site")],
        ] {
            assert!(is_foreign(foreign), "{foreign:?}");
        }
    }

    #[test]
    fn a_non_loopback_listener_accepts_other_host_names() {
        let headers: HeaderMap = [(HOST, "kubewright:6443".parse().expect("text"))].into_iter().collect();
        assert!(!is_foreign(&headers, false));
    }
}
