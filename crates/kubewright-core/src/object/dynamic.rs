//! Objects whose type is not known at compile time.

use std::fmt;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::message::Message;
use crate::meta::v1::ObjectMeta;
use crate::{GroupVersion, GroupVersionKind, Map, MapBuilder, Object, Str, Value};

/// An object of any kind: kind, metadata, and all other fields as a tree.
///
/// ```
/// use kubewright_core::{DynamicObject, Object};
/// let mut foo: DynamicObject = r#"{"apiVersion": "example.com/v1", "kind": "Foo",
///     "metadata": {"name": "a"}, "spec": {"size": 1}}"#.parse()?;
/// assert_eq!(foo.name(), "a");
/// foo.set(&["spec", "size"], 3)?;
/// foo.set(&["metadata", "labels", "tier"], "web")?;
/// assert_eq!(foo.get(&["spec", "size"]).unwrap().as_i64(), Some(3));
/// assert_eq!(foo.metadata.labels.get("tier").unwrap(), "web");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Unstructured")]
#[derive(Clone, PartialEq, Default)]
pub struct DynamicObject {
    /// Group and version, as in `apiVersion`.
    pub api_version: Str,
    /// The kind.
    pub kind: Str,
    /// The metadata.
    pub metadata: ObjectMeta,
    /// All other fields.
    pub data: Map<Value>,
}

impl DynamicObject {
    /// An object with a kind and a name only.
    #[inline]
    pub fn new(kind: &GroupVersionKind, name: &str) -> Self {
        let mut object = DynamicObject {
            api_version: kind.group_version().to_string().into(),
            kind: kind.kind.clone(),
            ..Default::default()
        };
        object.set_name(name);
        object
    }

    /// The value at a path such as `["spec", "replicas"]`; array items are addressed by index.
    #[doc(alias = "NestedString")]
    #[doc(alias = "NestedFieldNoCopy")]
    #[inline]
    pub fn get(&self, path: &[&str]) -> Option<Value> {
        match path {
            ["apiVersion"] => Some(self.api_version.clone().into()),
            ["kind"] => Some(self.kind.clone().into()),
            ["metadata", rest @ ..] => descend(&to_value(&self.metadata).ok()?, rest).cloned(),
            [field, rest @ ..] => descend(self.data.get(field)?, rest).cloned(),
            [] => None,
        }
    }

    /// Sets the value at a path, creating missing objects on the way.
    ///
    /// Fails if a parent is not an object, an array has no such item, or the value is invalid for
    /// the metadata; then nothing changes.
    #[doc(alias = "SetNestedField")]
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) -> Result<(), PathError> {
        let value = value.into();
        match path {
            [] => Err(PathError::new(path, "the path is empty")),
            [field @ ("apiVersion" | "kind")] => {
                let text = value.as_str().ok_or_else(|| PathError::new(path, "expected a string"))?;
                let place = if *field == "kind" { &mut self.kind } else { &mut self.api_version };
                *place = text.into();
                Ok(())
            }
            ["metadata", rest @ ..] => {
                let not_fitting = |error: DecodeError| PathError::new(path, error.to_string());
                let mut metadata = to_value(&self.metadata).map_err(not_fitting)?;
                put(&mut metadata, rest, value).map_err(|message| PathError::new(path, message))?;
                let decoded = Decoder::new().json(metadata.to_string().as_bytes());
                self.metadata = decoded.map_err(not_fitting)?;
                Ok(())
            }
            [field, rest @ ..] => {
                let mut root = self.data.get(field).cloned().unwrap_or_default();
                put(&mut root, rest, value).map_err(|message| PathError::new(path, message))?;
                self.data.insert(*field, root);
                Ok(())
            }
        }
    }

    /// Removes the value at a path and returns it.
    #[doc(alias = "RemoveNestedField")]
    #[inline]
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        match path {
            ["metadata", rest @ ..] if !rest.is_empty() => {
                let mut metadata = to_value(&self.metadata).ok()?;
                let removed = take(&mut metadata, rest)?;
                self.metadata = Decoder::new().json(metadata.to_string().as_bytes()).ok()?;
                Some(removed)
            }
            ["metadata"] => {
                let removed = to_value(&self.metadata).ok()?;
                self.metadata = ObjectMeta::default();
                Some(removed)
            }
            [field] => self.data.remove(field),
            [field, rest @ ..] => take(self.data.get_mut(field)?, rest),
            [] => None,
        }
    }

    /// Converts the object to a typed one.
    #[doc(alias = "FromUnstructured")]
    pub fn to_typed<T: Message + Default>(&self) -> Result<T, DecodeError> {
        Decoder::new().json(&self.to_json())
    }

    /// Converts a typed object.
    #[doc(alias = "ToUnstructured")]
    pub fn from_typed(object: &impl Object) -> Result<Self, DecodeError> {
        let json = object.to_json();
        let mut decoder = Decoder::new();
        let mut reader = Reader::new(&json, &mut decoder);
        Self::from_json(&mut reader)
    }
}

impl Object for DynamicObject {
    type Scope = crate::RuntimeScope;

    #[inline]
    fn group_version_kind(&self) -> GroupVersionKind {
        let version: GroupVersion = self.api_version.parse().unwrap_or_default();
        version.with_kind(self.kind.clone())
    }

    crate::object_metadata!();

    #[inline]
    fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut object = DynamicObject::default();
        let mut seen = [false; 3];
        let mut data = MapBuilder::new();
        reader.entries(|reader, key| {
            if let Some(at) = [&b"apiVersion"[..], b"kind", b"metadata"].iter().position(|known| *known == key)
                && std::mem::replace(&mut seen[at], true)
            {
                reader.decoder.duplicate_key()?;
            }
            match key {
                b"apiVersion" => object.api_version = reader.text()?,
                b"kind" => object.kind = reader.text()?,
                b"metadata" if reader.null()? => {}
                b"metadata" => reader.message(&mut object.metadata)?,
                _ => {
                    let (value, name) = (reader.tree()?, reader.decoder.text(key)?);
                    if data.insert(name, value).is_some() {
                        reader.decoder.duplicate_key()?;
                    }
                }
            }
            Ok(())
        })?;
        object.data = data.finish();
        Ok(object)
    }

    #[inline]
    fn from_protobuf(_: &[u8], _: &mut Decoder) -> Option<Result<Self, DecodeError>> {
        None
    }

    #[inline]
    fn complete_type(&mut self, api_version: &str, kind: &str) {
        if self.api_version.is_empty() && self.kind.is_empty() {
            (self.api_version, self.kind) = (api_version.into(), kind.into());
        }
    }

    #[inline]
    fn write_json(&self, writer: &mut Writer<'_>) {
        let mut separator = b'{';
        for (key, text) in [("apiVersion", &self.api_version), ("kind", &self.kind)] {
            if !text.is_empty() {
                writer.key(&mut separator, key);
                writer.string(text);
            }
        }
        writer.key(&mut separator, "metadata");
        writer.message(&self.metadata);
        for (key, value) in self.data.iter() {
            writer.key(&mut separator, key);
            value.encode_json(writer);
        }
        writer.close(separator);
    }
}

impl std::str::FromStr for DynamicObject {
    type Err = DecodeError;
    #[inline]
    fn from_str(json: &str) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new();
        let mut reader = Reader::new(json.as_bytes(), &mut decoder);
        let object = Self::from_json(&mut reader)?;
        reader.end()?;
        Ok(object)
    }
}

/// An object from a tree, for example from [`json!`](crate::json!).
///
/// ```
/// use kubewright_core::{DynamicObject, Object, json};
/// let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": 3}});
/// assert_eq!(DynamicObject::try_from(foo)?.name(), "a");
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
impl TryFrom<Value> for DynamicObject {
    type Error = DecodeError;
    #[inline]
    fn try_from(tree: Value) -> Result<Self, DecodeError> {
        tree.to_string().parse()
    }
}

/// The whole object as a tree.
impl From<&DynamicObject> for Value {
    #[inline]
    fn from(object: &DynamicObject) -> Self {
        let mut tree = object.data.clone();
        tree.insert("apiVersion", object.api_version.clone().into());
        tree.insert("kind", object.kind.clone().into());
        if let Ok(metadata) = to_value(&object.metadata) {
            tree.insert("metadata", metadata);
        }
        Value::Object(tree)
    }
}

/// Prints kind and key only: the content may be secret.
impl fmt::Debug for DynamicObject {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.api_version, self.kind, self.key())
    }
}

/// Why a path of an object could not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    path: String,
    message: String,
}

impl PathError {
    fn new(path: &[&str], message: impl Into<String>) -> Self {
        PathError { path: path.join("."), message: message.into() }
    }
}

impl fmt::Display for PathError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot set {}: {}", self.path, self.message)
    }
}

impl std::error::Error for PathError {}

/// Fails only for unusable managed fields: nested too deeply, or with a duplicate key.
#[inline]
fn to_value(metadata: &ObjectMeta) -> Result<Value, DecodeError> {
    let mut out = Vec::new();
    Writer::new(&mut out).message(metadata);
    Value::from_json(&out)
}

#[inline]
fn descend<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(entries) => entries.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

#[inline]
fn put(place: &mut Value, path: &[&str], value: Value) -> Result<(), String> {
    let [step, rest @ ..] = path else {
        *place = value;
        return Ok(());
    };
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(entries) => put(entries.get_or_insert_with(*step, Value::default), rest, value),
        Value::Array(items) => {
            let item = step.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            put(item.ok_or_else(|| format!("there is no item {step}"))?, rest, value)
        }
        other => Err(format!("`{step}` cannot be set in a {}", other.kind())),
    }
}

#[inline]
fn take(place: &mut Value, path: &[&str]) -> Option<Value> {
    match (place, path) {
        (Value::Object(entries), [key]) => entries.remove(key),
        (Value::Object(entries), [key, rest @ ..]) => take(entries.get_mut(key)?, rest),
        (Value::Array(items), [index, rest @ ..]) => {
            let index = index.parse::<usize>().ok().filter(|index| *index < items.len())?;
            if rest.is_empty() { Some(items.remove(index)) } else { take(&mut items[index], rest) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foo() -> DynamicObject {
        r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a","labels":{"x":"y"}},
            "spec":{"ports":[{"port":80}],"size":1}}"#
            .parse()
            .unwrap()
    }

    #[test]
    fn paths_lead_through_objects_arrays_and_metadata() {
        let mut object = foo();
        assert_eq!(object.get(&["spec", "ports", "0", "port"]), Some(Value::Int(80)));
        object.set(&["spec", "ports", "0", "port"], 81).unwrap();
        object.set(&["status", "ready"], true).unwrap();
        assert_eq!(object.remove(&["metadata", "labels", "x"]), Some("y".into()));
        assert_eq!(object.remove(&["spec", "size"]), Some(1.into()));
        assert_eq!(
            String::from_utf8(object.to_json()).unwrap(),
            r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"ports":[{"port":81}]},"status":{"ready":true}}"#
        );
    }

    #[test]
    fn a_repeated_field_is_an_error() {
        for (json, path) in [
            (r#"{"kind":"Foo","kind":"Bar"}"#, "kind"),
            (r#"{"metadata":{},"spec":1,"metadata":{}}"#, "metadata"),
            (r#"{"spec":1,"spec":2}"#, "spec"),
            (r#"{"spec":{"a":1,"a":2}}"#, "spec.a"),
        ] {
            let error = json.parse::<DynamicObject>().unwrap_err();
            assert_eq!(error.to_string(), format!("{path}: duplicate field"));
        }
    }

    #[test]
    fn a_failed_conversion_changes_nothing() {
        let mut object = foo();
        let error = object.set(&["metadata", "labels"], 3).unwrap_err();
        assert_eq!(error.to_string(), "cannot set metadata.labels: labels: expected object, found number");
        assert!(object.set(&["spec", "size", "big"], 1).is_err());
        assert!(object.set(&["spec", "ports", "7"], 1).is_err());
        assert_eq!(object, foo());
    }
}
