//! URLs as Go's `url.ParseRequestURI` reads them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that Go escapes in a path that is not a valid encoding.
const PATH_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// An absolute URL, or an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// Host and port.
    host: String,
    /// Percent-encoded.
    path: String,
    /// Percent-encoded.
    query: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Option<Url> {
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let query = query.split('#').next().unwrap_or_default().to_owned();
        if text.starts_with('/') {
            return Some(Url { scheme: String::new(), host: String::new(), path: escaped_path(text)?, query });
        }
        let (scheme, rest) = text.split_once(':')?;
        let is_scheme = scheme.bytes().next()?.is_ascii_alphabetic()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return None;
        }
        let rest = rest.strip_prefix("//")?;
        let end = rest.find('/').unwrap_or(rest.len());
        let host = rest[..end].rsplit('@').next().unwrap_or_default();
        if host.matches('[').count() != host.matches(']').count() || !is_port_valid(host) {
            return None;
        }
        Some(Url {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: escaped_path(&rest[end..])?,
            query,
        })
    }

    /// The scheme in lower case, empty for a path.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host and port, empty for a path.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without its port, and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        self.split_host().0
    }

    /// The port, empty if there is none.
    pub fn port(&self) -> &str {
        self.split_host().1
    }

    /// The percent-encoded path.
    pub fn escaped_path(&self) -> &str {
        &self.path
    }

    /// Names and values of the query, decoded, in order.
    pub fn query(&self) -> impl Iterator<Item = (String, String)> {
        let decode = |text: &str| decode(&text.replace('+', " ")).unwrap_or_default();
        self.query.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or_default()),
            None => self.host.split_once(':').unwrap_or((&self.host, "")),
        }
    }
}

fn is_port_valid(host: &str) -> bool {
    let rest = host.rsplit(']').next().unwrap_or_default();
    rest.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Decodes a percent-encoded text; `None` if an escape is malformed or the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut escapes = text.split('%').skip(1).map(str::as_bytes);
    let is_valid =
        escapes.all(|rest| matches!(rest, [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()));
    percent_decode_str(text).decode_utf8().ok().filter(|_| is_valid).map(String::from)
}

/// A path as Go's `EscapedPath` returns it: unchanged if it is a valid encoding, so that an escaped
/// slash stays escaped.
fn escaped_path(path: &str) -> Option<String> {
    let decoded = decode(path)?;
    let is_encoded = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte));
    Some(if is_encoded { path.to_owned() } else { utf8_percent_encode(&decoded, PATH_ESCAPED).to_string() })
}
