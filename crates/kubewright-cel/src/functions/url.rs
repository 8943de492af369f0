//! The URL library.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::EvaluationError;
use crate::url::Url;
use crate::value::{EvaluationResult, Value};

/// Parses a URL, or checks whether a string is one.
pub(super) fn call(function: &str, value: &Value) -> EvaluationResult {
    let Value::String(text) = value else { return Err(EvaluationError::no_overload()) };
    match (function, Url::parse(text)) {
        ("isURL", parsed) => Ok(Value::Bool(parsed.is_some())),
        (_, Some(url)) => Ok(Value::Url(Arc::new(url))),
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

/// Calls a method of a URL.
pub(super) fn method(url: &Url, function: &str) -> EvaluationResult {
    Ok(match function {
        "getScheme" => url.scheme().into(),
        "getHost" => url.host().into(),
        "getHostname" => url.hostname().into(),
        "getPort" => url.port().into(),
        "getEscapedPath" => url.escaped_path().into(),
        "getQuery" => {
            let mut values: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            for (name, value) in url.query() {
                values.entry(name).or_default().push(value.into());
            }
            Value::map(values.into_iter().map(|(name, values)| (name, Value::list(values))))
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}
