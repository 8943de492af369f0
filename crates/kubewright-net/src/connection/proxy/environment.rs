//! Proxy selection from `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, by Go's rules.
//!
//! hyper-util's matcher follows curl instead. It does not know entries with ports or `*.example`,
//! `*` matches no addresses, `.example` also matches `example`, and a proxy is used for localhost.

use std::net::IpAddr;

use http::Uri;

use crate::environment::EnvironmentVariables;
use crate::secret::Secret;

/// The proxy for a server, or `None` for a direct connection.
pub(super) fn proxy_for(server: &Uri, environment: &EnvironmentVariables) -> Option<Secret<String>> {
    let is_secure = server.scheme() == Some(&http::uri::Scheme::HTTPS);
    let host = server.host()?.trim_matches(['[', ']']);
    let port = server.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let both = |upper: &str, lower: &str| environment.get(upper).or_else(|| environment.get(lower));
    let proxy = if is_secure {
        both("HTTPS_PROXY", "https_proxy")?
    } else if environment.get("REQUEST_METHOD").is_some() {
        // In a CGI script, HTTP_PROXY comes from a request header, that is from an attacker.
        return None;
    } else {
        both("HTTP_PROXY", "http_proxy")?
    };
    let exceptions = both("NO_PROXY", "no_proxy").unwrap_or_default();
    (!is_excepted(host, port, &exceptions)).then(|| Secret::new(proxy))
}

/// Whether a host bypasses the proxy. Localhost always does.
fn is_excepted(host: &str, port: u16, exceptions: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    let mut entries = exceptions.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|e| !e.is_empty());
    entries.any(|entry| matches(&host, port, address, &entry))
}

fn matches(host: &str, port: u16, address: Option<IpAddr>, entry: &str) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = entry.split_once('/') {
        let network = network.parse().ok().zip(bits.parse().ok());
        return address.zip(network).is_some_and(|(address, (network, bits))| is_within(address, network, bits));
    }
    let (entry, wanted_port) = match split_port(entry) {
        (name, Some(number)) => (name, Some(number)),
        (name, None) => (name, None),
    };
    if wanted_port.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let entry = entry.trim_matches(['[', ']']);
    if let Ok(wanted) = entry.parse::<IpAddr>() {
        return address == Some(wanted);
    }
    let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
    match entry.strip_prefix('.') {
        // With a leading dot, only subdomains match.
        Some(name) => host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
        None => host.strip_suffix(entry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    let is_bare_ipv6 = entry.matches(':').count() > 1 && !entry.starts_with('[');
    match entry.rsplit_once(':') {
        Some((name, port)) if !is_bare_ipv6 => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // TR-1
    #[test]
    fn exceptions_are_names_domains_addresses_networks_and_ports() {
        for (host, port, exceptions, expected) in [
            ("localhost", 443, "", true),
            ("127.0.0.5", 443, "", true),
            ("::1", 443, "", true),
            ("a.example", 443, "", false),
            ("a.example", 443, "*", true),
            ("a.example", 443, "example", true),
            ("a.example", 443, ".example", true),
            ("a.example", 443, "*.example", true),
            ("example", 443, ".example", false),
            ("counterexample", 443, "example", false),
            ("A.Example", 443, "b, a.EXAMPLE", true),
            ("a.example", 443, "a.example:6443", false),
            ("a.example", 6443, "a.example:6443", true),
            ("10.1.2.3", 443, "10.0.0.0/8", true),
            ("11.1.2.3", 443, "10.0.0.0/8", false),
            ("10.1.2.3", 443, "10.1.2.3", true),
            ("10.1.2.3", 443, "0.0.0.0/0", true),
            ("fd00::1", 443, "fd00::/8", true),
            ("fd00::1", 443, "[fd00::1]:443", true),
            ("fd00::1", 443, "fd00::1", true),
            ("10.1.2.3", 443, "10.0.0.0/99", false),
        ] {
            assert_eq!(is_excepted(host, port, exceptions), expected, "{host}:{port} in {exceptions:?}");
        }
    }

    // TR-1
    #[test]
    fn each_scheme_has_its_variable() {
        let environment = EnvironmentVariables::of([("HTTPS_PROXY", "a:1"), ("http_proxy", "b:2"), ("NO_PROXY", "c")]);
        let proxy = |server: &str| {
            let found = proxy_for(&server.parse().expect("a URL"), &environment);
            found.map(|url| url.expose().clone())
        };
        assert_eq!(proxy("https://x").as_deref(), Some("a:1"));
        assert_eq!(proxy("http://x").as_deref(), Some("b:2"));
        assert_eq!(proxy("https://c"), None);
    }
}
