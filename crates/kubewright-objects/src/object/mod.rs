//! Stored objects: a tree to read, and JSON text to send.
//!
//! An [`ObjectDraft`] is encoded before the store's lock is taken. The store assigns its revision,
//! which is then written into the text. The result is an immutable [`StoredObject`]. Older objects
//! drop their tree, because lists and watches mostly need the text.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubewright_core::json::{Writer, find_field};
use kubewright_core::{Map, Str, Value};
use kubewright_storage::Encoded;

pub use kubewright_core::tree::{self, Meta, text_map, texts, to_json};

use crate::rejection::Rejection;

/// Initial buffer capacity, enough for most objects.
const INITIAL_CAPACITY: usize = 4 << 10;
/// The maximum size of a stored object, in bytes of JSON. Equals etcd's default request limit.
pub const MAX_STORED_BYTES: usize = 1_572_864;

/// An object at one revision.
///
/// A server may hold millions of them, so its fields are compact, and those that most objects leave
/// empty are behind a pointer.
pub struct StoredObject {
    /// The tree, including `kind`, `apiVersion` and `metadata.resourceVersion`. Unset while
    /// archived.
    value: OnceLock<Box<Value>>,
    /// The labels, for selectors.
    pub labels: Map<Str>,
    /// The JSON text. Has no spare capacity, and its reference count in the same allocation.
    json: Arc<[u8]>,
    layout: Layout,
}

/// Offsets of the parts of the text that vary between responses.
#[derive(Clone, Copy)]
struct Layout {
    /// Offset of the comma after `kind` and `apiVersion`, with which the text starts.
    head: u32,
    /// Offset and length of the value of `metadata.resourceVersion`.
    version: u32,
    version_length: u32,
}

impl Layout {
    /// Finds layout and labels in a text written by [`encode`], without parsing a tree. A startup
    /// does this for every object.
    fn find(json: &[u8], revision: u64) -> Option<(Layout, Map<Str>)> {
        // The search for an absent field scans the whole text, and so validates it.
        if !json.starts_with(br#"{"kind":""#) || !matches!(find_field(json, &[""]), Ok(None)) {
            return None;
        }
        let metadata = find_field(json, &["metadata"]).ok()??;
        let metadata = |field| find_field(metadata.as_bytes(), &[field]).ok().flatten();
        metadata("name").filter(|name| *name != "\"\"")?;
        let offset = |found: &str| found.as_ptr() as usize - json.as_ptr() as usize;
        let api_version = find_field(json, &["apiVersion"]).ok()??;
        let kind = find_field(json, &["kind"]).ok()??;
        let is_head = offset(api_version) == offset(kind) + kind.len() + br#","apiVersion":"#.len();
        let version = metadata("resourceVersion")?;
        let text = version.strip_prefix('"')?.strip_suffix('"').filter(|text| *text == revision.to_string())?;
        let labels = match metadata("labels") {
            Some(labels) => tree::map([("metadata", tree::map([("labels", labels.parse().ok()?)]))]).labels(),
            None => Map::new(),
        };
        let layout = Layout {
            head: u32::try_from(offset(api_version) + api_version.len()).ok()?,
            version: u32::try_from(offset(version) + 1).ok()?,
            version_length: text.len() as u32,
        };
        is_head.then_some((layout, labels))
    }
}

/// An encoded object without a revision.
#[derive(Clone)]
pub struct ObjectDraft {
    value: Value,
    json: Vec<u8>,
    layout: Layout,
}

impl ObjectDraft {
    /// Encodes an object. Its `metadata.resourceVersion` is ignored.
    pub fn new(mut value: Value) -> Self {
        tree::object_mut(&mut value, &["metadata"]).remove("resourceVersion");
        let mut json = Vec::with_capacity(INITIAL_CAPACITY);
        let layout = encode(&value, &mut json);
        ObjectDraft { value, json, layout }
    }

    /// The object, without a resource version.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Rejects an object that is too large, with the error of etcd that kube-apiserver passes on.
    pub fn check_size(&self) -> Result<(), Rejection> {
        if self.json.len() > MAX_STORED_BYTES {
            return Err(Rejection::unexpected("etcdserver: request is too large"));
        }
        Ok(())
    }

    /// Whether a terminating object has no finalizers left.
    pub fn is_finished(&self) -> bool {
        let has_grace = self.value.meta("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default() > 0;
        // Namespaces also have finalizers in their spec.
        let is_namespace = tree::text(&self.value, &["kind"]) == "Namespace" && self.value.namespace().is_empty();
        let has_content = is_namespace && !tree::items(&self.value, &["spec", "finalizers"]).is_empty();
        self.value.is_being_deleted() && self.value.finalizers().is_empty() && !has_grace && !has_content
    }

    /// The object in the response to a dry-run creation. It has the resource version of the
    /// request, which is usually empty.
    pub fn unstamped(self, version: &str) -> StoredObject {
        let ObjectDraft { mut value, layout, .. } = self;
        if !version.is_empty() {
            value.set_meta("resourceVersion", version);
        }
        let labels = value.labels();
        // The draft's text has a placeholder for the version, so write the text again.
        let mut json = Vec::new();
        write_head(tree::text(&value, &["apiVersion"]), tree::text(&value, &["kind"]), &mut json);
        let head = json.len() as u32;
        for (key, field) in value.as_object().into_iter().flat_map(Map::iter) {
            if !matches!(key.as_str(), "kind" | "apiVersion") {
                json.push(b',');
                Writer::new(&mut json).string(key);
                json.push(b':');
                field.encode_json(&mut Writer::new(&mut json));
            }
        }
        json.push(b'}');
        StoredObject { value: Box::new(value).into(), labels, json: json.into(), layout: Layout { head, ..layout } }
    }

    /// The object at this revision.
    pub fn stamp(mut self, revision: u64) -> StoredObject {
        let revision = revision.to_string();
        self.layout.version_length = revision.len() as u32;
        let at = self.layout.version as usize;
        self.json.splice(at..at, revision.bytes());
        self.value.set_meta("resourceVersion", revision.as_str());
        let labels = self.value.labels();
        StoredObject { value: Box::new(self.value).into(), labels, json: self.json.into(), layout: self.layout }
    }
}

impl kubewright_storage::Draft<StoredObject> for ObjectDraft {
    fn stamp(self, revision: u64) -> StoredObject {
        ObjectDraft::stamp(self, revision)
    }
}

impl Encoded for StoredObject {
    fn to_json(&self) -> Arc<[u8]> {
        Arc::clone(&self.json)
    }
}

impl StoredObject {
    /// An archived object from the data file.
    ///
    /// # Errors
    ///
    /// The text is not an object with a name.
    pub fn restored(json: Arc<[u8]>, revision: u64) -> Result<StoredObject, String> {
        if let Some((layout, labels)) = Layout::find(&json, revision) {
            return Ok(StoredObject { value: OnceLock::new(), labels, json, layout });
        }
        let value = Value::from_json(&json).map_err(|error| error.to_string())?;
        if value.name().is_empty() {
            return Err("the object has no name".to_owned());
        }
        Ok(ObjectDraft::new(value).stamp(revision).archived())
    }

    /// The tree of the object. An archived object is parsed, and keeps its tree.
    ///
    /// Use it only for configuration that the server reads repeatedly, such as roles, namespaces
    /// and webhook configurations. Otherwise use [`tree`](Self::tree) or [`field`](Self::field),
    /// which do not increase the memory of an archived object.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| Box::new(self.read()))
    }

    /// The tree of the object. An archived object is parsed for this call only.
    pub fn tree(&self) -> Cow<'_, Value> {
        self.value.get().map_or_else(|| Cow::Owned(self.read()), |value| Cow::Borrowed(&**value))
    }

    /// The value at a path. For an archived object, only this value is parsed.
    pub fn field(&self, path: &[&str]) -> Option<Cow<'_, Value>> {
        match self.value.get() {
            Some(value) => tree::get(value, path).map(Cow::Borrowed),
            None => {
                let found = find_field(&self.json, path).ok().flatten()?;
                Value::from_json(found.as_bytes()).ok().map(Cow::Owned)
            }
        }
    }

    /// Whether the object holds its tree in memory.
    pub fn has_tree(&self) -> bool {
        self.value.get().is_some()
    }

    fn read(&self) -> Value {
        // The text is our own, so it is valid.
        Value::from_json(&self.json).unwrap_or_default()
    }

    /// The same object without its tree, which takes more than twice the memory of the text.
    pub fn archived(&self) -> StoredObject {
        let StoredObject { labels, json, layout, .. } = self;
        StoredObject { value: OnceLock::new(), labels: labels.clone(), json: json.clone(), layout: *layout }
    }

    /// The `apiVersion`, without parsing a tree.
    pub fn api_version(&self) -> &str {
        let head = &self.json[..self.layout.head as usize];
        let text = head.strip_suffix(b"\"").unwrap_or_default().rsplit(|byte| *byte == b'"').next();
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// The text of the object.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The text of the object, shared.
    pub fn bytes(&self) -> Bytes {
        Bytes::from_owner(Arc::clone(&self.json))
    }

    /// The object without `kind` and `apiVersion`, as two consecutive pieces.
    pub fn json_without_kind(&self) -> (&'static [u8], &[u8]) {
        (b"{", &self.json[self.layout.head as usize + 1..])
    }

    /// The text after `kind` and `apiVersion`, starting with the comma.
    pub fn json_after_kind(&self) -> &[u8] {
        &self.json[self.layout.head as usize..]
    }

    /// The same object at another revision, for a watch event about an object that no longer
    /// matches.
    pub fn with_revision(&self, revision: u64) -> StoredObject {
        let revision = revision.to_string();
        let version = self.layout.version as usize;
        let after = version + self.layout.version_length as usize;
        let mut json = Vec::with_capacity(self.json.len() + revision.len());
        json.extend_from_slice(&self.json[..version]);
        json.extend_from_slice(revision.as_bytes());
        json.extend_from_slice(&self.json[after..]);
        let value = self.value.get().cloned().map_or_else(OnceLock::new, |mut value| {
            value.set_meta("resourceVersion", revision.as_str());
            value.into()
        });
        let layout = Layout { version_length: revision.len() as u32, ..self.layout };
        StoredObject { value, labels: self.labels.clone(), json: json.into(), layout }
    }
}

/// Encodes an object with `kind` first, and with a placeholder for the resource version.
fn encode(value: &Value, out: &mut Vec<u8>) -> Layout {
    let nothing = Map::new();
    let fields = value.as_object().unwrap_or(&nothing);
    let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
    write_head(text("apiVersion"), text("kind"), out);
    let (head, mut version) = (out.len() as u32, 0);
    for (key, field) in fields.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion")) {
        out.push(b',');
        Writer::new(out).string(key);
        out.push(b':');
        if key == "metadata" {
            out.extend_from_slice(br#"{"resourceVersion":""#);
            version = out.len() as u32;
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

/// Writes `kind` and `apiVersion`, up to the following comma or brace.
pub fn write_head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"kind":"#);
    Writer::new(out).string(kind);
    out.extend_from_slice(br#","apiVersion":"#);
    Writer::new(out).string(api_version);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_object_is_little_more_than_its_text() {
        // With the two counters of an `Arc`, 80 bytes besides the text.
        assert!(size_of::<StoredObject>() <= 64, "{}", size_of::<StoredObject>());
        let value = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#.parse().expect("valid JSON");
        let object = ObjectDraft::new(value).stamp(41).archived();
        assert_eq!(Arc::strong_count(&object.json), 1);
        drop(object.bytes());
        assert_eq!((Arc::strong_count(&object.json), object.has_tree()), (1, false));
    }

    #[test]
    fn a_stamped_object_reads_back_as_its_tree() {
        let text = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"k":"v"},
            "metadata":{"name":"a","labels":{"l":"v"}}}"#;
        let value: Value = text.parse().expect("valid JSON");
        let object = ObjectDraft::new(value).stamp(41);
        assert_eq!(&Value::from_json(object.json()).expect("we wrote it"), object.value());
        assert_eq!((object.value().resource_version(), object.api_version()), ("41", "v1"));

        let later = object.with_revision(1000);
        assert_eq!(&Value::from_json(later.json()).expect("we wrote it"), later.value());
        assert_eq!(later.value().resource_version(), "1000");

        let restored = StoredObject::restored(object.to_json(), 41).expect("we wrote it");
        assert_eq!((restored.json(), restored.labels.len()), (object.json(), 1));
        assert_eq!(restored.api_version(), "v1");
        assert_eq!(restored.with_revision(1000).value(), later.value());
        assert!(Layout::find(object.json(), 41).is_some() && Layout::find(object.json(), 42).is_none());
        assert!(StoredObject::restored(object.json()[..object.json().len() - 1].into(), 41).is_err());

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
