//! Addresses of pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Evaluated;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

/// An absolute address, or an absolute path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// Host and port.
    host: String,
    /// Escaped where it has to be.
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Option<Url> {
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let query = query.split('#').next().unwrap_or_default().to_owned();
        if text.starts_with('/') {
            return Some(Url { scheme: String::new(), host: String::new(), path: proper_path(text)?, query });
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
        if host.matches('[').count() != host.matches(']').count() || !has_proper_port(host) {
            return None;
        }
        Some(Url {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: proper_path(&rest[end..])?,
            query,
        })
    }

    fn split_host(&self) -> (&str, &str) {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or_default()),
            None => self.host.split_once(':').unwrap_or((&self.host, "")),
        }
    }
}

fn has_proper_port(host: &str) -> bool {
    let rest = host.rsplit(']').next().unwrap_or_default();
    rest.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn unescape(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        bytes.push((digit(0)? * 16 + digit(1)?) as u8);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Makes an address, or says whether a text is one.
pub(super) fn call(function: &str, value: &Value) -> Evaluated {
    let Value::String(text) = value else { return Err(EvaluationError::no_overload()) };
    match (function, Url::parse(text)) {
        ("isURL", parsed) => Ok(Value::Bool(parsed.is_some())),
        (_, Some(address)) => Ok(Value::Url(Arc::new(address))),
        (_, None) => {
            let why = match text.as_str() {
                "" => "empty url",
                text if text.starts_with(':') => "missing protocol scheme",
                _ => "invalid URI for request",
            };
            let text = text.as_str();
            Err(EvaluationError::new(format!("URL parse error during conversion from string: parse {text:?}: {why}")))
        }
    }
}

/// Calls a function of an address.
pub(super) fn method(address: &Url, function: &str) -> Evaluated {
    Ok(match function {
        "getScheme" => address.scheme.as_str().into(),
        "getHost" => address.host.as_str().into(),
        "getHostname" => address.split_host().0.into(),
        "getPort" => address.split_host().1.into(),
        "getEscapedPath" => address.path.as_str().into(),
        "getQuery" => {
            let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for pair in address.query.split('&').filter(|pair| !pair.is_empty()) {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let plain = |text: &str| unescape(&text.replace('+', " ")).unwrap_or_default();
                values.entry(plain(name)).or_default().push(plain(value).into());
            }
            Value::map(values.into_iter().map(|(name, values)| (name, Value::list(values))))
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}

/// A path as Go would write it: as it is where that is right, so that a slash that was escaped stays so.
fn proper_path(path: &str) -> Option<String> {
    let plain = unescape(path)?;
    let is_proper = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@[]%/".contains(&byte));
    Some(if is_proper { path.to_owned() } else { escape(&plain) })
}

fn escape(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    let piece = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.bytes().map(piece).collect()
}
