//! Objects as the server holds them: a tree to work on, and its JSON to send.
//!
//! A [`Draft`] is an object on its way into the store, encoded before the store's lock is taken; the revision that the
//! store gives it is then set into the text. A [`StoredObject`] is what came out, and never changes. After some time it is kept without
//! its tree: lists and watches send the text, and it is hardly ever asked for more.

mod meta;
pub(crate) mod tree;

use std::borrow::Cow;
use std::sync::OnceLock;

use bytes::Bytes;
use kubewright_core::json::Writer;
use kubewright_core::{Map, Str, Value};

pub(crate) use meta::{Meta, text_map, texts};

use crate::rejection::Rejection;

/// Where most objects are encoded without asking for more memory.
const ROOM: usize = 4 << 10;
/// The largest object that is stored, in bytes of JSON: etcd's default limit for a request.
pub(crate) const MAX_STORED_BYTES: usize = 1_572_864;
/// So many digits a revision has at most.
const REVISION_MAX: usize = 20;

/// An object of one revision. Lists and watches copy its text and look at its tree.
pub(crate) struct StoredObject {
    /// The object, with `kind`, `apiVersion` and `metadata.resourceVersion`; of one that is archived, once somebody comes for it.
    value: OnceLock<Value>,
    /// The labels, ready for selectors.
    pub(crate) labels: Map<Str>,
    json: Bytes,
    layout: Layout,
}

/// Where in the text the parts lie that differ between answers.
#[derive(Clone, Copy)]
struct Layout {
    /// The text begins with an opening brace, `kind` and `apiVersion`; the comma behind them is here.
    head: usize,
    /// Where the value of `metadata.resourceVersion` begins, and how long it is.
    version: usize,
    version_length: usize,
}

/// An object that waits for its revision.
#[derive(Clone)]
pub(crate) struct Draft {
    value: Value,
    json: Vec<u8>,
    layout: Layout,
}

impl Draft {
    /// Encodes an object; its `metadata.resourceVersion` does not matter.
    pub(crate) fn new(mut value: Value) -> Self {
        tree::object(&mut value, &["metadata"]).remove("resourceVersion");
        let mut text = Vec::with_capacity(ROOM);
        let layout = encode(&value, &mut text);
        // It is kept for as long as the object is, so it has no more room than for its revision.
        let mut json = Vec::with_capacity(text.len() + REVISION_MAX);
        json.extend_from_slice(&text);
        Draft { value, json, layout }
    }

    /// Refuses an object that is too large to be stored, with the error of etcd that kube-apiserver
    /// passes on.
    pub(crate) fn check_size(&self) -> Result<(), Rejection> {
        if self.json.len() > MAX_STORED_BYTES {
            return Err(Rejection::unexpected("etcdserver: request is too large"));
        }
        Ok(())
    }

    /// Whether the object has only waited for its finalizers, and has none left.
    pub(crate) fn is_finished(&self) -> bool {
        let has_grace = self.value.meta("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default() > 0;
        // A namespace has finalizers of its own besides those that all objects have.
        let is_namespace = tree::text(&self.value, &["kind"]) == "Namespace" && self.value.namespace().is_empty();
        let has_content = is_namespace && !tree::items(&self.value, &["spec", "finalizers"]).is_empty();
        self.value.is_being_deleted() && self.value.finalizers().is_empty() && !has_grace && !has_content
    }

    /// The object without a version, as a dry run shows one that would be created.
    pub(crate) fn unstamped(self) -> StoredObject {
        let Draft { value, layout, .. } = self;
        let labels = value.labels();
        // The text has room for a version, which must not be seen.
        let mut json = Vec::new();
        write_head(tree::text(&value, &["apiVersion"]), tree::text(&value, &["kind"]), &mut json);
        let head = json.len();
        for (key, field) in value.as_object().into_iter().flat_map(Map::iter) {
            if !matches!(key.as_str(), "kind" | "apiVersion") {
                json.push(b',');
                Writer::new(&mut json).string(key);
                json.push(b':');
                field.encode_json(&mut Writer::new(&mut json));
            }
        }
        json.push(b'}');
        StoredObject { value: value.into(), labels, json: json.into(), layout: Layout { head, ..layout } }
    }

    /// The object of this revision.
    pub(crate) fn stamp(mut self, revision: u64) -> StoredObject {
        let revision = revision.to_string();
        self.layout.version_length = revision.len();
        let at = self.layout.version;
        self.json.splice(at..at, revision.bytes());
        self.value.set_meta("resourceVersion", revision.as_str());
        let labels = self.value.labels();
        StoredObject { value: self.value.into(), labels, json: self.json.into(), layout: self.layout }
    }
}

impl StoredObject {
    /// The object as a tree. That of an archived object is read from its text and then stays: for those who come again.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| self.read())
    }

    /// The same for who looks at many objects once: a tree that is not there does not stay.
    pub(crate) fn tree(&self) -> Cow<'_, Value> {
        self.value.get().map_or_else(|| Cow::Owned(self.read()), Cow::Borrowed)
    }

    fn read(&self) -> Value {
        // We wrote it.
        Value::from_json(&self.json).unwrap_or_default()
    }

    /// The same object without its tree, which takes more than twice the memory of its text.
    pub(crate) fn archived(&self) -> StoredObject {
        let StoredObject { labels, json, layout, .. } = self;
        StoredObject { value: OnceLock::new(), labels: labels.clone(), json: json.clone(), layout: *layout }
    }

    /// Its `apiVersion`, for which no tree is needed.
    pub(crate) fn api_version(&self) -> &str {
        let head = &self.json[..self.layout.head];
        let text = head.strip_suffix(b"\"").unwrap_or_default().rsplit(|byte| *byte == b'"').next();
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// The whole object.
    pub(crate) fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object without `kind` and `apiVersion`, as two pieces to be written one after the other.
    pub(crate) fn json_without_kind(&self) -> (&'static [u8], &[u8]) {
        (b"{", &self.json[self.layout.head + 1..])
    }

    /// What follows `kind` and `apiVersion`, from the comma on.
    pub(crate) fn json_after_kind(&self) -> &[u8] {
        &self.json[self.layout.head..]
    }

    /// The same object as of another revision: what a watcher is told of an object that left its selection.
    pub(crate) fn with_revision(&self, revision: u64) -> StoredObject {
        let revision = revision.to_string();
        let Layout { version, version_length, .. } = self.layout;
        let mut json = Vec::with_capacity(self.json.len() + revision.len());
        json.extend_from_slice(&self.json[..version]);
        json.extend_from_slice(revision.as_bytes());
        json.extend_from_slice(&self.json[version + version_length..]);
        let value = self.value.get().cloned().map_or_else(OnceLock::new, |mut value| {
            value.set_meta("resourceVersion", revision.as_str());
            value.into()
        });
        let layout = Layout { version_length: revision.len(), ..self.layout };
        StoredObject { value, labels: self.labels.clone(), json: json.into(), layout }
    }
}

/// Encodes an object with its kind first, and with room for a version in its metadata.
fn encode(value: &Value, out: &mut Vec<u8>) -> Layout {
    let nothing = Map::new();
    let fields = value.as_object().unwrap_or(&nothing);
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    write_head(text("apiVersion"), text("kind"), out);
    let head = out.len();
    let mut version = 0;
    for (key, field) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion")) {
        out.push(b',');
        Writer::new(out).string(key);
        out.push(b':');
        if key == "metadata" {
            out.extend_from_slice(br#"{"resourceVersion":""#);
            version = out.len();
            out.push(b'"');
            for (key, entry) in field.as_object().unwrap_or(&nothing).iter() {
                out.push(b',');
                Writer::new(out).string(key);
                out.push(b':');
                entry.encode_json(&mut Writer::new(out));
            }
            out.push(b'}');
        } else {
            field.encode_json(&mut Writer::new(out));
        }
    }
    out.push(b'}');
    Layout { head, version, version_length: 0 }
}

/// Writes the beginning of an object, up to but without the comma or brace that follows.
pub(crate) fn write_head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"#);
    Writer::new(out).string(kind);
    out.extend_from_slice(br#","apiVersion":"#);
    Writer::new(out).string(api_version);
}

/// A tree as JSON text.
pub(crate) fn to_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode_json(&mut Writer::new(&mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_object_reads_back_as_its_tree() {
        let value: Value = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"k":"v"},"metadata":{"name":"a"}}"#
            .parse()
            .expect("valid JSON");
        let object = Draft::new(value).stamp(41);
        assert_eq!(&Value::from_json(object.json()).expect("we wrote it"), object.value());
        assert_eq!((object.value().resource_version(), object.api_version()), ("41", "v1"));

        let later = object.with_revision(1000);
        assert_eq!(&Value::from_json(later.json()).expect("we wrote it"), later.value());
        assert_eq!(later.value().resource_version(), "1000");

        let archived = object.archived();
        assert_eq!(archived.with_revision(1000).value(), later.value());
        assert_eq!((archived.api_version(), &*archived.tree()), ("v1", object.value()));
        assert!(archived.value.get().is_none());
        assert_eq!(archived.value(), object.value());

        let (brace, rest) = object.json_without_kind();
        let bare = Value::from_json(&[brace, rest].concat()).expect("we wrote it");
        assert!(bare.get("kind").is_none() && bare.name() == "a");
    }
}
