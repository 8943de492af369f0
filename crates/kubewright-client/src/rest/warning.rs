//! Warnings of the server.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use http::header::WARNING;

/// Maximum number of remembered warnings, to bound the memory.
const MAX_REMEMBERED: usize = 1000;

/// Receives warnings.
pub(crate) type WarningHandler = Arc<dyn Fn(&Warning) + Send + Sync>;

/// A warning of the server, for example about a deprecated version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[doc(alias = "WarningHeader")]
pub struct Warning {
    /// 299 for user-visible warnings.
    pub code: u16,
    /// The sender; `-` if unknown.
    pub agent: String,
    /// The message.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Logs a user-visible warning. The default of clients.
#[doc(alias = "WarningLogger")]
pub fn log_warning(warning: &Warning) {
    if warning.code == 299 && !warning.text.is_empty() {
        tracing::warn!(target: "kubewright::warning", agent = warning.agent, "{}", warning.text);
    }
}

/// Logs each distinct warning once.
#[doc(alias = "NewWarningWriter")]
#[inline]
pub fn log_warnings_once() -> impl Fn(&Warning) + Send + Sync + 'static {
    deduplicate_warnings(log_warning)
}

/// Passes each distinct user-visible warning to `handler` once.
///
/// After 1000 distinct warnings it forgets which ones it has passed.
#[doc(alias = "Deduplicate")]
#[inline]
pub fn deduplicate_warnings(
    handler: impl Fn(&Warning) + Send + Sync + 'static,
) -> impl Fn(&Warning) + Send + Sync + 'static {
    let passed = Mutex::new(HashSet::new());
    move |warning| {
        if warning.code != 299 || warning.text.is_empty() {
            return;
        }
        let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.len() >= MAX_REMEMBERED {
            passed.clear();
        }
        if passed.insert(warning.text.clone()) {
            handler(warning);
        }
    }
}

/// The warnings of a response; malformed ones are skipped.
pub(super) fn warnings(headers: &HeaderMap) -> Vec<Warning> {
    let lines = headers.get_all(WARNING).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let mut all = Vec::new();
    for line in lines {
        let mut rest = line.trim();
        while let Some((warning, after)) = parse(rest) {
            all.push(warning);
            match after.trim_start().strip_prefix(',') {
                Some(next) => rest = next.trim_start(),
                None => break,
            }
        }
    }
    all
}

/// Parses `299 - "text" "date"`, where the date is optional; also returns the rest.
fn parse(line: &str) -> Option<(Warning, &str)> {
    let (code, rest) = line.split_once(' ')?;
    let (agent, rest) = rest.split_once(' ')?;
    if code.len() != 3 {
        return None;
    }
    let (text, mut rest) = quoted(rest)?;
    if let Some((_, after)) = rest.strip_prefix(' ').and_then(quoted) {
        rest = after;
    }
    Some((Warning { code: code.parse().ok()?, agent: agent.to_owned(), text }, rest))
}

fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &text[at + 2..])),
            '\\' => out.push(chars.next()?.1),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn texts(line: &'static str) -> Vec<(u16, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(WARNING, HeaderValue::from_static(line));
        warnings(&headers).into_iter().map(|warning| (warning.code, warning.text)).collect()
    }

    #[test]
    fn headers_are_parsed() {
        // RC-8
        assert_eq!(texts(r#"299 - "a \"b\"""#), [(299, r#"a "b""#.to_owned())]);
        let two = texts(r#"299 - "one" "Tue, 15 Nov 1994 08:12:31 GMT", 214 host:80 "two""#);
        assert_eq!(two, [(299, "one".to_owned()), (214, "two".to_owned())]);
        for malformed in ["", "299", r#"299 - "open"#, r#"9999 - "x""#, "299 - bare"] {
            assert_eq!(texts(malformed), [], "{malformed}");
        }
    }
}
