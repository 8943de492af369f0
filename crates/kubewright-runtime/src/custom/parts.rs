//! serde support for derived types.

use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{DecodeError, List};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize, Serializer};

/// The status type of a resource without a status.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum NoStatus {}

/// The parts of an object being decoded.
#[derive(Debug, Deserialize)]
#[serde(try_from = "FoundParts<S, T>", bound(deserialize = "S: DeserializeOwned, T: DeserializeOwned"))]
pub struct Parts<S, T> {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The specification.
    pub spec: S,
    /// The status.
    pub status: Option<T>,
}

/// The parts that the text has.
#[derive(Deserialize)]
struct FoundParts<S, T> {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default = "none")]
    spec: Option<S>,
    #[serde(default = "none")]
    status: Option<T>,
}

impl<S: DeserializeOwned, T> TryFrom<FoundParts<S, T>> for Parts<S, T> {
    type Error = &'static str;

    /// A missing specification is an empty one, as in Go, if no field of it is required.
    fn try_from(found: FoundParts<S, T>) -> Result<Self, Self::Error> {
        let empty = || serde_json::from_str("{}").map_err(|_| "missing field `spec`");
        let spec = found.spec.map_or_else(empty, Ok)?;
        Ok(Parts { metadata: found.metadata, spec, status: found.status })
    }
}

/// The parts of an object without a specification, being decoded.
#[derive(Debug, Deserialize)]
pub struct FlatParts<F> {
    // Named, so that they are not among the other fields.
    #[serde(default, rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(default, rename = "kind")]
    _kind: IgnoredAny,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The other fields.
    #[serde(flatten)]
    pub fields: F,
}

fn none<T>() -> Option<T> {
    None
}

impl<S: DeserializeOwned, T: DeserializeOwned> Parts<S, T> {
    /// Decodes the parts from JSON text.
    ///
    /// # Errors
    /// If the text is not such an object.
    pub fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut parts: Parts<S, T> = decode(reader)?;
        prepare(&mut parts.metadata, reader);
        Ok(parts)
    }
}

impl<F: DeserializeOwned> FlatParts<F> {
    /// Decodes the parts from JSON text.
    ///
    /// # Errors
    /// If the text is not such an object.
    pub fn from_json(reader: &mut Reader<'_, '_>) -> Result<Self, DecodeError> {
        let mut parts: FlatParts<F> = decode(reader)?;
        prepare(&mut parts.metadata, reader);
        Ok(parts)
    }
}

fn decode<T: DeserializeOwned>(reader: &mut Reader<'_, '_>) -> Result<T, DecodeError> {
    serde_json::from_str(reader.raw()?).map_err(|error| DecodeError::new(error.to_string()))
}

/// Removes the managed fields, if the reader is not interested in them.
fn prepare(metadata: &mut ObjectMeta, reader: &Reader<'_, '_>) {
    if reader.skips_managed_fields() && !metadata.managed_fields.is_empty() {
        metadata.managed_fields = List::new();
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SerializedParts<'a, S, T> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a ObjectMeta,
    spec: &'a S,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a T>,
}

/// Serialises an object with serde.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serialize, T: Serialize, F: Serializer>(
    api_version: &str,
    kind: &str,
    metadata: &ObjectMeta,
    spec: &S,
    status: Option<&T>,
    serializer: F,
) -> Result<F::Ok, F::Error> {
    SerializedParts { api_version, kind, metadata, spec, status }.serialize(serializer)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SerializedFlatParts<'a, F> {
    api_version: &'a str,
    kind: &'a str,
    metadata: &'a ObjectMeta,
    #[serde(flatten)]
    fields: &'a F,
}

/// Serialises an object whose fields are in one struct.
///
/// # Errors
/// Those of the format.
pub fn serialize_flat<F: Serialize, S: Serializer>(
    api_version: &str,
    kind: &str,
    metadata: &ObjectMeta,
    fields: &F,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    SerializedFlatParts { api_version, kind, metadata, fields }.serialize(serializer)
}

/// Writes an object as JSON.
///
/// # Panics
/// If the type has no JSON representation, such as a map with keys that are not strings.
pub fn write_json(object: &impl Serialize, writer: &mut Writer<'_>) {
    writer.raw(&serde_json::to_string(object).expect("objects of the API have JSON forms"));
}
