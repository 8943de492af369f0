//! The continue token, which leads from one page of a list to the next.
//!
//! Clients must treat it as opaque. It has the format of kube-apiserver, with the revision of the
//! first page and the start key of the next one, for tools that decode it anyway.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Str, Value};
use kubewright_resources::catalog::Resource;
use kubewright_storage::Key;

use crate::object::tree;
use crate::rejection::Rejection;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const FORM: &str = "meta.k8s.io/v1";

/// Where a list continues.
#[derive(Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision that all pages show. `None` continues with the newest state.
    pub revision: Option<u64>,
    /// The last object of the previous page.
    pub after: Key,
    /// Number of objects after it, if known.
    pub remaining: Option<usize>,
}

impl ContinueToken {
    /// Encodes the token. It omits the namespace if the request path has one.
    pub fn encode(&self, namespace: &str) -> Str {
        let start = match self.after.namespace().filter(|_| namespace.is_empty()) {
            Some(namespace) => format!("{namespace}/{}\0", self.after.name()),
            None => format!("{}\0", self.after.name()),
        };
        let revision = self.revision.map_or(-1, |revision| revision as i64);
        let mut token = tree::map([("v", FORM.into()), ("rv", revision.into()), ("start", start.into())]);
        if let Some(remaining) = self.remaining {
            tree::set(&mut token, &["remaining"], remaining as i64);
        }
        base64(token.to_string().as_bytes()).into()
    }

    /// Decodes a token.
    pub fn decode(text: &str, resource: &Resource, namespace: &str) -> Result<Self, Rejection> {
        let invalid = |why: String| {
            Rejection::from(Status::bad_request(format!("invalid continue token: continue key is not valid: {why}")))
        };
        let bytes = from_base64(text).map_err(|at| invalid(format!("illegal base64 data at input byte {at}")))?;
        let token = Value::from_json(&bytes).map_err(|error| invalid(error.to_string()))?;
        match tree::text(&token, &["v"]) {
            FORM => {}
            other => return Err(invalid(format!("server does not recognize this encoded version {other}"))),
        }
        let revision = tree::int(&token, &["rv"]).unwrap_or_default();
        if revision == 0 {
            return Err(invalid(format!("incorrect encoded start resourceVersion (version {FORM})")));
        }
        let start = tree::text(&token, &["start"]);
        if start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {FORM})")));
        }
        // Reject path traversal.
        if start.trim_start_matches('/').split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid(start.to_owned()));
        }
        let start = start.trim_end_matches('\0');
        let after = match start.split_once('/') {
            Some((in_namespace, name)) if resource.namespaced && namespace.is_empty() => {
                resource.key(in_namespace, name)
            }
            None if !resource.namespaced || !namespace.is_empty() => resource.key(namespace, start),
            _ => return Err(invalid(format!("continue key not allowed: {start:?}"))),
        };
        let remaining = tree::int(&token, &["remaining"]).and_then(|remaining| usize::try_from(remaining).ok());
        Ok(ContinueToken { revision: u64::try_from(revision).ok(), after, remaining })
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

/// Decodes base64. The error is the position of the first invalid character.
fn from_base64(text: &str) -> Result<Vec<u8>, usize> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|letter| *letter == byte).ok_or(at)?;
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    if count >= 6 { Err(text.len() - 1) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_resources::catalog::Catalog;

    #[test]
    fn a_token_round_trips() {
        let catalog = Catalog::new([]);
        let pods = catalog.of_storage("pods").expect("pods are built in");
        for (namespace, revision, remaining) in [("", Some(7), Some(3)), ("default", Some(7), None), ("", None, None)] {
            let after = pods.key("default", "web-0");
            let token = ContinueToken { revision, after, remaining };
            let text = token.encode(namespace);
            assert_eq!(ContinueToken::decode(&text, pods, namespace).ok(), Some(token));
        }
        for (token, why) in [
            (
                r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":7}"#, "encoded start key empty (version meta.k8s.io/v1)"),
            (r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a/../b"}"#, "a/../b"),
            (r#"{"v":"v2","rv":7,"start":"a"}"#, "server does not recognize this encoded version v2"),
        ] {
            let refused = ContinueToken::decode(&base64(token.as_bytes()), pods, "");
            let Err(Rejection::Status(status)) = refused else { panic!("{token} is taken") };
            let want = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!(status.message.as_deref(), Some(want.as_str()), "{token}");
        }
        for text in ["garbage!", "e30", "", "A", "e30=", "bnVsbA"] {
            assert!(ContinueToken::decode(text, pods, "").is_err(), "{text}");
        }
    }
}
