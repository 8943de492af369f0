//! Validates ConfigMaps, Secrets and Leases.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::{ByteString, Value};

use super::metadata::quoted;
use super::number;

/// Maximum total size of the data, in bytes.
const DATA_MAX: usize = 1 << 20;

const KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Validates a ConfigMap.
pub(super) fn config_map(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let (data, binary) = (text_map(value.get("data")), text_map(value.get("binaryData")));
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, text) in data.iter() {
        causes.extend(self::key("data", key));
        if binary.contains_key(key) {
            causes.push(StatusCause::invalid(
                format!("data[{key}]"),
                quoted(key),
                "duplicate of key present in binaryData",
            ));
        }
        size += text.len();
    }
    for (key, text) in binary.iter() {
        causes.extend(self::key("binaryData", key));
        size += decoded_length(text);
    }
    if size > DATA_MAX {
        causes.push(StatusCause::too_long("[]", DATA_MAX));
    }
    causes.extend(frozen(value, old, &["data", "binaryData"]));
    causes
}

/// Validates a Secret.
pub(super) fn secret(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let data = text_map(value.get("data"));
    let mut causes = Vec::new();
    for (key, _) in data.iter() {
        causes.extend(self::key("data", key));
    }
    if data.values().map(|text| decoded_length(text)).sum::<usize>() > DATA_MAX {
        causes.push(StatusCause::too_long("data", DATA_MAX));
    }
    let required: &[&str] = match tree::text(value, &["type"]) {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    // An empty `ssh-privatekey` counts as missing.
    let is_there = |key: &&str| data.get(key).is_some_and(|text| *key != "ssh-privatekey" || !text.is_empty());
    let missing = required.iter().filter(|key| !is_there(key));
    causes.extend(missing.map(|key| StatusCause::required(format!("data[{key}]"), "")));
    if let [key @ (".dockercfg" | ".dockerconfigjson")] = required
        && let Some(text) = data.get(key)
        && ByteString::from_base64(text.as_bytes()).is_ok_and(|bytes| !is_json_object(&bytes))
    {
        let shown = "\"<secret contents redacted>\"";
        causes.push(StatusCause::invalid(format!("data[{key}]"), shown, "must be a JSON object"));
    }
    if tree::text(value, &["type"]) == "kubernetes.io/basic-auth"
        && !data.contains_key("username")
        && !data.contains_key("password")
    {
        causes.extend(["username", "password"].map(|key| StatusCause::required(format!("data[{key}]"), "")));
    }
    if tree::text(value, &["type"]) == "kubernetes.io/service-account-token"
        && text_map(value.meta("annotations"))
            .get("kubernetes.io/service-account.name")
            .is_none_or(|name| name.is_empty())
    {
        causes.push(StatusCause::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
    }
    if let Some(old) = old {
        causes.extend(number::immutable(value, old, &["type"]));
    }
    causes.extend(frozen(value, old, &["data"]));
    causes
}

/// Validates a Lease.
pub(super) fn lease(value: &Value) -> Vec<StatusCause> {
    const DURATION: [&str; 2] = ["spec", "leaseDurationSeconds"];
    let duration = tree::int(value, &DURATION).filter(|seconds| *seconds <= 0);
    let duration = duration.map(|seconds| StatusCause::invalid(DURATION.join("."), seconds, "must be greater than 0"));
    duration.into_iter().chain(number::not_negative(value, &["spec", "leaseTransitions"])).collect()
}

/// Rejects changes of `fields`, and of `immutable` itself, once `immutable` is set.
fn frozen(value: &Value, old: Option<&Value>, fields: &[&str]) -> Vec<StatusCause> {
    const WHY: &str = "field is immutable when `immutable` is set";
    let Some(old) = old.filter(|old| tree::is_true(old, &["immutable"])) else { return Vec::new() };
    let mut causes = Vec::new();
    if !tree::is_true(value, &["immutable"]) {
        causes.push(StatusCause::forbidden("immutable", WHY));
    }
    let changed = fields.iter().filter(|field| value.get(field) != old.get(field));
    causes.extend(changed.map(|field| StatusCause::forbidden(*field, WHY)));
    causes
}

fn key(field: &str, key: &str) -> Vec<StatusCause> {
    super::text::check(&format!("{field}[{key}]"), key, key_complaints)
}

/// Returns the problems of a data key.
pub(super) fn key_complaints(key: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if key.len() > 253 {
        complaints.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')) {
        complaints.push(KEY_RULE.to_owned());
    }
    if key == "." || key.starts_with("..") {
        complaints.push(if key == "." || key == ".." {
            format!("must not be '{key}'")
        } else {
            "must not start with '..'".into()
        });
    }
    complaints
}

fn is_json_object(bytes: &[u8]) -> bool {
    matches!(Value::from_json(bytes), Ok(Value::Object(_) | Value::Null))
}

/// The decoded length of base64 data, 0 if it is invalid.
pub(super) fn decoded_length(base64: &str) -> usize {
    ByteString::from_base64(base64.as_bytes()).map_or(0, |bytes| bytes.len())
}
