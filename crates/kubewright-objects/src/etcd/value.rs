//! The values of objects in etcd, as kube-apiserver writes them.
//!
//! A built-in object is a protobuf message in its envelope, a custom object is JSON. Definitions
//! and APIServices are JSON, too. No value has a resource version: that is the revision of its key.

use std::sync::Arc;

use kubewright_core::json::Writer;
use kubewright_core::protobuf::{Envelope, MAGIC};
use kubewright_core::{Decoder, Value};
use kubewright_resources::catalog::{Catalog, type_entry};

use super::definition;
use super::layout::GROUPS_IN_KEYS;
use crate::conversion;
use crate::object::{Meta, StoredObject, to_json, tree};
use crate::service_numbers::{PORT_ALLOCATION_KIND, decode_bitmap, encode_bitmap};

/// The value of an object.
///
/// # Errors
/// The object has another kind than its resource.
pub fn encode(object: &StoredObject, is_custom: bool) -> Result<Vec<u8>, String> {
    let mut value = object.tree().into_owned();
    value.remove_meta("resourceVersion");
    let json = to_json(&value);
    if is_custom {
        return Ok(line(escaped(&json)));
    }
    let (api_version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
    if (api_version, kind) == ("v1", PORT_ALLOCATION_KIND) {
        let mut out = Vec::new();
        encode_bitmap(&value, &mut out);
        return Ok(out);
    }
    let entry = type_entry(api_version, kind).ok_or_else(|| format!("{api_version} {kind} is not a built-in kind"))?;
    let mut message = (entry.new)();
    Decoder::new().json_into(&mut *message, &json).map_err(|error| error.to_string())?;
    let mut out = Vec::with_capacity(json.len());
    if GROUPS_IN_KEYS.contains(&api_version.split('/').next().unwrap_or_default()) {
        Writer::new(&mut out).as_server().object(&*message);
        if kind == "CustomResourceDefinition" {
            let json = std::str::from_utf8(&out).map_err(|error| error.to_string())?;
            out = definition::stored(json).ok_or("the definition has no version")?.into_bytes();
        }
        return Ok(line(escaped(&out)));
    }
    Envelope::encode_stored(&*message, &mut out);
    Ok(out)
}

/// The object of a value, without a resource version. Defaults of fields that its writer did not
/// know are missing.
///
/// # Errors
/// The value is no object, of an unknown kind, or incomplete.
pub fn decode(bytes: &[u8], catalog: &Catalog) -> Result<Value, String> {
    let mut value = if bytes.starts_with(&MAGIC) { from_protobuf(bytes)? } else { from_json(bytes)? };
    if value.name().is_empty() {
        return Err("the object has no name".to_owned());
    }
    value = definition::served(value);
    value.remove_meta("selfLink");
    // An older server may have stored another version.
    if let Some(resource) = catalog.of_kind(text(&value, "apiVersion"), text(&value, "kind")).map(Arc::clone) {
        value = conversion::to_stored(&resource, value);
    }
    value.remove_meta("resourceVersion");
    Ok(value)
}

fn from_protobuf(bytes: &[u8]) -> Result<Value, String> {
    let envelope = Envelope::decode(bytes).map_err(|error| error.to_string())?;
    if envelope.content_type == "application/json" {
        return from_json(envelope.raw);
    }
    let (api_version, kind) = (&*envelope.api_version, &*envelope.kind);
    if (api_version, kind) == ("v1", PORT_ALLOCATION_KIND) {
        return decode_bitmap(envelope.raw).map_err(|error| error.to_string());
    }
    let entry = type_entry(api_version, kind).ok_or_else(|| format!("unknown kind {api_version} {kind}"))?;
    let mut message = (entry.new)();
    let decoded = Decoder::new().protobuf_message_into(&mut *message, envelope.raw);
    decoded.map_err(|error| error.to_string())?;
    let mut canonical = Vec::with_capacity(bytes.len() * 2);
    Writer::new(&mut canonical).as_server().object(&*message);
    from_json(&canonical)
}

fn from_json(bytes: &[u8]) -> Result<Value, String> {
    let value = Value::from_json(bytes).map_err(|error| error.to_string())?;
    if text(&value, "apiVersion").is_empty() || text(&value, "kind").is_empty() {
        return Err("the object has no kind".to_owned());
    }
    Ok(value)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    tree::text(value, &[field])
}

/// A text with its line end, which Go's encoder appends.
fn line(mut json: Vec<u8>) -> Vec<u8> {
    json.push(b'\n');
    json
}

/// JSON with the characters escaped that Go's encoder escapes in strings: `<`, `>`, `&` and the two
/// line separators of Unicode. They occur in strings only.
fn escaped(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + 1);
    let mut rest = json;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'<', _) => out.extend_from_slice(b"\\u003c"),
            (b'>', _) => out.extend_from_slice(b"\\u003e"),
            (b'&', _) => out.extend_from_slice(b"\\u0026"),
            (0xe2, [0x80, last @ (0xa8 | 0xa9), after @ ..]) => {
                out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                rest = after;
            }
            _ => out.push(*byte),
        }
    }
    out
}
